//! `follow_channel`: messages of a channel, as they are published.

use std::{collections::VecDeque, sync::Arc};

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    runs::Interest,
    time::Clock,
};
use drawloom_substrate::channels::{
    Channel, Channels, Listener, MOST_PAGE, Place, Subscribe,
    rules::{missed, show_cursor, within},
};
use drawloom_wire::{
    channels::{self, After, ChannelMessages},
    events::Event,
};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::{
    channels::{Meant, Waiting, answer, meant_by, reader, subscribe},
    memory::failure,
    operation::{Answer, Call, Card, Operation, Precedence},
};

/// Maximum bytes of the messages that one look reads.
const LOOK_BYTES: u64 = 64 * 1024;

pub(crate) struct FollowChannel;

impl Operation for FollowChannel {
    type Input = channels::FollowChannel;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Stream the messages of a channel without taking them.", Scope::ChannelRead)
            .toolset("channels")
            .advice("Over MCP it returns messages after a sequence; give wait_ms to wait for the next one.")
            .streams()
            .header("last-event-id", "after", Precedence::Header)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ChannelMessages>, Failure> {
        let Meant { place, caller, warnings, .. } = meant_by(call, &input.channel, &input)?;
        let is_tail = input.tail.unwrap_or(false);
        // A stream that continues has both: the query says tail, and the header where to go on.
        if input.after.is_some() && is_tail && call.interest != Interest::Events {
            let message = "after and tail cannot be combined";
            return Err(Failure::new(FailureKind::Invalid, "wrong_fields", message).with_hint("remove one of them"));
        }
        let channels = &call.app.channels;
        let listener = channels.listen([&place]);
        let head = channels.head(&place).await.map_err(failure)?;
        let after = match (input.after, is_tail) {
            (Some(After(after)), _) => {
                within(after, head).map_err(failure)?;
                Some(after)
            }
            (None, true) => Some(head),
            (None, false) => None,
        };
        if call.interest == Interest::Events {
            let follower = Follower {
                channels: channels.clone(),
                clock: call.app.clock.clone(),
                place,
                listener,
                after,
                ready: VecDeque::new(),
                has_ended: false,
            };
            let warnings = warnings.into_iter().map(|message| event("warning", None, &json!({ "message": message })));
            let messages = stream::unfold(follower, async |mut follower| Some((follower.next().await?, follower)));
            return Ok(Answer::Events(stream::iter(warnings.collect::<Vec<_>>()).chain(messages).boxed()));
        }
        let mut listener = listener;
        let waiting = Waiting::begin(call, input.wait_ms);
        let ask = Subscribe { from: Some(after.unwrap_or(0)), ..subscribe(call, None, input.max_messages)? };
        loop {
            // It may have been deleted during the wait.
            let channel = channels.load_again(&place).map_err(failure)?;
            let looked =
                channels.look(&channel, &place, &ask, &reader::<Self::Input>(&caller)).await.map_err(failure)?;
            let is_found = !looked.page.messages.is_empty();
            if is_found || !waiting.next(call, &mut listener, None).await {
                return answer(shown(&channel, &looked, after.is_none()), warnings, Some(&waiting.effective));
            }
        }
    }
}

/// Without a place to begin, nothing was missed.
fn shown(channel: &Channel, looked: &drawloom_substrate::channels::Looked, is_from_start: bool) -> Value {
    let mut answer = looked.shown(channel);
    if is_from_start && let Some(fields) = answer.as_object_mut() {
        fields.remove("missed");
        fields.remove("warnings");
    }
    answer
}

/// One stream of events. It holds no transaction: it reads what came after the last event, then waits. It ends with an event `error` when
/// the channel is deleted.
struct Follower {
    channels: Arc<Channels>,
    clock: Arc<dyn Clock>,
    place: Place,
    listener: Listener,
    after: Option<u64>,
    ready: VecDeque<Event>,
    /// Nothing comes after what is ready.
    has_ended: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.has_ended {
                return None;
            }
            if let Err(error) = self.channels.load_again(&self.place) {
                let Failure { code, message, hint, .. } = failure(error);
                self.ready.push_back(event("error", None, &json!({ "code": code, "message": message, "hint": hint })));
                self.has_ended = true;
                continue;
            }
            let now = self.clock.steady();
            let after = self.after.unwrap_or(0);
            let page = match self.channels.page(&self.place, after, MOST_PAGE, LOOK_BYTES, now).await {
                Ok(page) => page,
                Err(error) => {
                    let failure = failure(error);
                    // The stream ends; a client continues after its last event.
                    tracing::warn!(error = %failure, "a stream of a channel ended");
                    return None;
                }
            };
            let gap = missed(after, page.first);
            if gap > 0 && self.after.is_some() {
                let reason = "messages were dropped, purged or expired before they were sent";
                self.ready.push_back(event("gap", None, &json!({ "missed": gap, "reason": reason })));
            }
            for (message, envelope) in &page.messages {
                let shown = json!({
                    "id": message.id,
                    "value": envelope.value,
                    "published_at": message.at.to_rfc3339(),
                    "cursor": show_cursor(message.sequence),
                    "by": envelope.by,
                });
                self.ready.push_back(event("message", Some(message.sequence), &shown));
            }
            self.after = Some(page.reached.max(after).max(page.first.saturating_sub(1)));
            if self.ready.is_empty() {
                self.listener.changed().await;
            }
        }
    }
}

fn event(name: &'static str, id: Option<u64>, data: &Value) -> Event {
    Event { name: name.into(), id, data: data.to_string() }
}
