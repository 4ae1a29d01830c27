//! `Channel`: the tool with which agents talk to each other and to callers.

mod input;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{
    channel::ChannelScope,
    definition::{Definition, matches},
    gate::Gate,
    time::Timestamp,
    tool::{Gates, Repeat, Step, Tool, ToolCard, ToolContext, ToolError, Woken},
    wait::{Cause, Wait},
};
use serde_json::{Map, Value, json};

use super::{
    By, Channel, ChannelError, Channels, MOST_CHANNELS, Place, Settle, Subscribe, Taken,
    rules::{self, EffectiveWait, MOST_WAIT_MS, read_cursor},
};
use crate::store_tools::StoreTool;
use input::{Input, Op};

/// The tool, which is made when the store is open.
pub const TOOL: StoreTool =
    StoreTool { name: NAME, gate: Some(GATE), make: |parts| Arc::new(ChannelTool(parts.channels.clone())) };

pub(super) const NAME: &str = "Channel";

/// The gates of agents.
pub(crate) const PUBLISH_GATE: &str = "channels.publish";
pub(crate) const SUBSCRIBE_GATE: &str = "channels.subscribe";

const GATE: Gate = Gate::new(
    "channels",
    "channels: {publish: [NAME], subscribe: [NAME]}",
    "use channels",
    |Gates { definition, .. }| definition.gate(PUBLISH_GATE).is_empty() && definition.gate(SUBSCRIBE_GATE).is_empty(),
);

/// Maximum bytes of the messages of one call.
pub(super) const TOOL_BYTES: u64 = 128 * 1024;

pub(super) struct ChannelTool(pub(super) Arc<Channels>);

#[async_trait]
impl Tool for ChannelTool {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            NAME,
            "Exchange JSON messages with other agents and callers over channels. op=publish appends a message; \
             op=subscribe takes the next messages, and with `wait_ms` waits for them: one call waits the whole time, \
             so do not subscribe in a loop with short waits; op=peek reads without taking, op=ack takes everything up \
             to a cursor; op=await waits for several channels without taking; op=broadcast publishes to several \
             channels; op=list_channels lists the channels. With `group`, op=subscribe takes messages under leases: \
             settle each with op=ack, or op=nak to give it back, or op=extend to keep it longer.",
        )
    }

    fn card_for(&self, card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
        let list = |gate| gates.definition.gate(gate).join(", ");
        let (publish, subscribe) = (list(PUBLISH_GATE), list(SUBSCRIBE_GATE));
        GATE.check(NAME, gates)?;
        let mut card = card.clone();
        let none = |names: String| if names.is_empty() { "none".to_owned() } else { names };
        let (publish, subscribe) = (none(publish), none(subscribe));
        card.description.push_str(&format!("\nThis agent can publish to: {publish}\nIt can subscribe to: {subscribe}"));
        Ok(card)
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Keyed
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let input: Input = serde_json::from_value(input)?;
        input.check()?;
        let gates = Gates { definition: &context.definition, hosts: &context.hosts };
        GATE.check(NAME, gates).map_err(ToolError::Denied)?;
        let by = By::Call(context);
        let answer = match input.op {
            Op::Subscribe => return self.subscribe(context, &input).await,
            Op::Await => return self.wait_for(context, &input).await,
            Op::Broadcast => self.broadcast(context, &input).await?,
            Op::ListChannels => self.list(context),
            Op::Publish => {
                let (channel, place) = self.meant(context, input.channel()?, PUBLISH_GATE)?;
                self.0.publish(&channel, &place, &input.publish()?, &by, 0).await?
            }
            Op::Peek => {
                let (channel, place) = self.meant(context, input.channel()?, SUBSCRIBE_GATE)?;
                self.0.peek(&channel, &place, &input.subscribe(TOOL_BYTES)?, &by).await?
            }
            Op::Ack => self.ack(context, &input).await?,
            Op::Nak => self.settle(context, &input, Settle::Nak).await?,
            Op::Extend => {
                let (channel, _) = self.meant(context, input.channel()?, SUBSCRIBE_GATE)?;
                let lease_ms = input.lease_ms.unwrap_or(channel.config.lease_ms);
                self.settle(context, &input, Settle::Extend { lease_ms }).await?
            }
        };
        Ok(Step::done(answer.to_string()))
    }
}

impl ChannelTool {
    /// The channel that a call means, which the gate must allow.
    fn meant(&self, context: &ToolContext, name: &str, gate: &'static str) -> Result<(Arc<Channel>, Place), ToolError> {
        allow(&context.definition, name, gate)?;
        let channel = self.0.load_channel(&context.run.tenant, name)?;
        if channel.config.scope.plain() == ChannelScope::User && !context.definition.serves(&context.user) {
            return Err(ToolError::Denied(context.definition.not_for(&context.user)));
        }
        let place = Place::of_call(context, name, channel.config.scope);
        Ok((channel, place))
    }

    /// What ends a wait for a channel that is deleted or changed.
    fn definition_of(&self, context: &ToolContext, name: &str) -> Vec<Cause> {
        let records = self.0.parts.layers.channel_records(&context.run.tenant, name);
        records.into_iter().map(|(key, revision)| Cause::Value { key, revision }).collect()
    }

    async fn subscribe(&self, context: &ToolContext, input: &Input) -> Result<Step, ToolError> {
        // Known before the channel is, so that a change in between ends the wait.
        let defined = self.definition_of(context, input.channel()?);
        let (channel, place) = self.meant(context, input.channel()?, SUBSCRIBE_GATE)?;
        let wait = rules::clip(input.wait_ms, MOST_WAIT_MS);
        let ask = input.subscribe(TOOL_BYTES)?;
        let nothing = match self.0.subscribe(&channel, &place, &ask, &By::Call(context)).await? {
            Taken::Messages(answer) => return Ok(done(answer, &wait)),
            Taken::Nothing(nothing) => nothing,
        };
        if wait.ms == 0 {
            return Ok(done(nothing.shown(&channel, &ask), &wait));
        }
        let until = deadline(context, &wait);
        let is_over = match context.woken {
            // A lease may be what it was woken for, also one whose message has left the group by now.
            Some(Woken::ByTime) if ask.group.is_some() => until <= self.0.now(),
            Some(Woken::ByTime) => true,
            Some(Woken::ByCause) | None => until <= self.0.now(),
        };
        if is_over {
            return Ok(done(nothing.shown(&channel, &ask), &wait));
        }
        // A millisecond later, because a time has whole ones: a call that comes too early would only wait again.
        let lease = nothing.look_again.map(|left| self.0.now().after(left + Duration::from_millis(1)));
        let mut on = Vec::new();
        if nothing.after < u64::MAX {
            on.push(Cause::Log { log: place.log(), after: nothing.after });
        }
        if let Some((key, revision)) = nothing.group {
            on.push(Cause::Value { key, revision });
        }
        on.extend(defined);
        Ok(Step::Wait(Wait { on, until: Some(lease.map_or(until, |lease| lease.min(until))) }))
    }

    async fn wait_for(&self, context: &ToolContext, input: &Input) -> Result<Step, ToolError> {
        let names = input.channels()?;
        check_names(names)?;
        let mode = input.mode.unwrap_or_default();
        let needed = rules::needed(mode, input.n, names.len()).map_err(ChannelError::from)?;
        let no_cursors = BTreeMap::new();
        let cursors = input.from_cursors.as_ref().unwrap_or(&no_cursors);
        if let Some(other) = cursors.keys().find(|name| !names.contains(name)) {
            return Err(ToolError::Invalid(format!("from_cursors has {other:?}, which is not in channels")));
        }
        let defined: Vec<Cause> = names.iter().flat_map(|name| self.definition_of(context, name)).collect();
        // The gate is checked for all of them before anything is read.
        let meant =
            names.iter().map(|name| self.meant(context, name, SUBSCRIBE_GATE)).collect::<Result<Vec<_>, _>>()?;
        // A queue takes no consumer; when all are queues, the first one refuses it.
        let are_queues = !meant.iter().any(|(channel, _)| channel.has_consumers());
        let wait = rules::clip(input.wait_ms, MOST_WAIT_MS);
        let (mut results, mut fired, mut on, mut total) = (Map::new(), Vec::new(), Vec::new(), 0);
        let mut bytes = TOOL_BYTES;
        for (channel, place) in &meant {
            let from =
                cursors.get(&channel.name).map(|text| read_cursor(text)).transpose().map_err(ChannelError::from)?;
            let consumer = input.consumer.clone().filter(|_| channel.has_consumers() || are_queues);
            let ask = Subscribe { from, consumer, max_messages: input.page()?, bytes, ..Subscribe::default() };
            let looked = self.0.look(channel, place, &ask, &By::Call(context)).await?;
            match looked.page.messages.len() {
                0 => on.push(Cause::Log { log: place.log(), after: looked.page.reached }),
                count => {
                    total += count;
                    fired.push(channel.name.clone());
                }
            }
            let answer = looked.shown(channel);
            bytes = bytes.saturating_sub(answer.to_string().len() as u64);
            results.insert(channel.name.clone(), answer);
        }
        let is_satisfied = fired.len() >= needed;
        let is_over = wait.ms == 0 || context.woken == Some(Woken::ByTime);
        let until = deadline(context, &wait);
        if !is_satisfied && !is_over && until > self.0.now() {
            on.extend(defined);
            return Ok(Step::Wait(Wait { on, until: Some(until) }));
        }
        let answer = json!({
            "satisfied": is_satisfied,
            "timed_out": !is_satisfied,
            "mode": mode,
            "fired": fired,
            "total_messages": total,
            "results": results,
        });
        Ok(done(answer, &wait))
    }

    async fn broadcast(&self, context: &ToolContext, input: &Input) -> Result<Value, ToolError> {
        let names = input.channels()?;
        check_names(names)?;
        let publish = input.publish()?;
        let meant = names.iter().map(|name| self.meant(context, name, PUBLISH_GATE)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.0.broadcast(&meant, &publish, &By::Call(context)).await?)
    }

    async fn ack(&self, context: &ToolContext, input: &Input) -> Result<Value, ToolError> {
        match (&input.cursor, &input.group) {
            (None, Some(_)) if input.consumer.is_none() => self.settle(context, input, Settle::Ack).await,
            (Some(cursor), None) if input.leases.is_none() => {
                let (channel, place) = self.meant(context, input.channel()?, SUBSCRIBE_GATE)?;
                let cursor = read_cursor(cursor).map_err(ChannelError::from)?;
                Ok(self.0.ack(&channel, &place, input.consumer.as_deref(), cursor, &By::Call(context)).await?)
            }
            _ => Err(ToolError::Invalid("op=ack requires `cursor`, or `group` and `leases`".into())),
        }
    }

    async fn settle(&self, context: &ToolContext, input: &Input, settle: Settle) -> Result<Value, ToolError> {
        let (channel, place) = self.meant(context, input.channel()?, SUBSCRIBE_GATE)?;
        let (group, leases) = (input.group()?, input.leases()?);
        Ok(self.0.settle(&channel, &place, group, &leases, settle, &By::Call(context)).await?)
    }

    fn list(&self, context: &ToolContext) -> Value {
        self.0.shown_to(context)
    }
}

impl Channels {
    /// The channels that an agent's gates allow, and names in them that mean none.
    pub(crate) fn shown_to(&self, context: &ToolContext) -> Value {
        let all = self.list(&context.run.tenant);
        let allowed = |gate: &str| -> Vec<Value> {
            let named = all.iter().filter(|channel| context.definition.allows(gate, &channel.name));
            named
                .map(|channel| {
                    json!({
                        "name": channel.name,
                        "description": channel.config.description,
                        "scope": channel.config.scope,
                        "semantic": channel.config.semantic,
                    })
                })
                .collect()
        };
        let gates = [PUBLISH_GATE, SUBSCRIBE_GATE].into_iter().flat_map(|gate| context.definition.gate(gate));
        let is_known = |pattern: &str| match pattern.ends_with('*') {
            true => all.iter().any(|channel| matches(pattern, &channel.name)),
            false => self.find(&context.run.tenant, pattern).is_some(),
        };
        let unknown: std::collections::BTreeSet<&String> = gates.filter(|pattern| !is_known(pattern)).collect();
        let mut answer = json!({ "publish": allowed(PUBLISH_GATE), "subscribe": allowed(SUBSCRIBE_GATE) });
        if !unknown.is_empty() {
            answer["unknown"] = json!(unknown);
        }
        answer
    }

    fn now(&self) -> Timestamp {
        self.parts.clock.wall()
    }
}

/// When a waiting call gives up: counted from the call's own record, so that it is the same however often the call is made again.
fn deadline(context: &ToolContext, wait: &EffectiveWait) -> Timestamp {
    context.began.after(Duration::from_millis(wait.ms))
}

/// Refuses a channel that the gate does not allow, and says what to write.
fn allow(definition: &Definition, name: &str, gate: &'static str) -> Result<(), ToolError> {
    if definition.allows(gate, name) {
        return Ok(());
    }
    let verb = gate.trim_start_matches("channels.");
    let allowed = match definition.gate(gate) {
        [] => "nothing".to_owned(),
        names => names.join(", "),
    };
    Err(ToolError::Denied(format!(
        "agent {} is not allowed to {verb} to the channel {name:?}; its `channels.{verb}` allows {allowed} (add {name:?} \
         to it in the agent's definition)",
        definition.name,
    )))
}

/// Checks the channels of an `await` or a `broadcast`.
pub fn check_names(names: &[String]) -> Result<(), ChannelError> {
    if names.len() > MOST_CHANNELS {
        return Err(ChannelError::TooMany(names.len()));
    }
    match names.iter().enumerate().find(|(number, name)| names[..*number].contains(name)) {
        Some((_, name)) => Err(ChannelError::Twice(name.clone())),
        None => Ok(()),
    }
}

/// An answer with how long it could have waited.
fn done(mut answer: Value, wait: &EffectiveWait) -> Step {
    answer["effective_wait_ms"] = wait.ms.into();
    if let Some(warning) = &wait.warning {
        let mut warnings = answer["warnings"].as_array().cloned().unwrap_or_default();
        warnings.push(warning.as_str().into());
        answer["warnings"] = warnings.into();
    }
    Step::done(answer.to_string())
}
