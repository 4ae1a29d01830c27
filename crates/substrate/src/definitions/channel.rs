//! Channels as definitions: what a source must be, who may define which channel, and what keeps the messages of a name in order.
//!
//! An agent can define a channel only if it may publish or subscribe to it. Callers need the scope `definitions:write` and nothing else:
//! a channel gives nothing to anyone, because the gates of each agent say which channels it can use.

use std::{collections::BTreeSet, sync::Arc};

use drawloom_contract::{definition::DefinitionKind, ids::Tenant, journal::StoreError};
use serde_json::Value;
use tokio::sync::MutexGuard;

use super::{
    DefinitionError, Examined, RuntimeDefinitions, SourceProblem,
    ceiling::Ceiling,
    excess::{Excess, covers},
    version::{NameRecord, name_key},
};
use crate::channels::{ChannelConfig, ChannelTable, Channels, PUBLISH_GATE, SUBSCRIBE_GATE};

const KIND: DefinitionKind = DefinitionKind::Channel;

/// Everything that is to say about a channel, in a tenant that has these channels.
pub(super) fn examine(table: &ChannelTable, name: &str, source: &Value, ceilings: &[&Ceiling]) -> Examined {
    let mut examined = Examined::default();
    let config = match serde_json::from_value::<ChannelConfig>(source.clone()) {
        Ok(config) => config.plain(),
        Err(error) => {
            examined.problems.push(SourceProblem::new("", error.to_string()));
            return examined;
        }
    };
    let mistakes = config.mistakes(name).into_iter();
    examined.problems.extend(mistakes.map(|(field, mistake)| SourceProblem::new(field, mistake.to_string())));
    // What an older version of the program allowed can stay, as long as its dead letters stay where they are.
    let is_same = table.defined(name).is_some_and(|channel| channel.config.dead_letter == config.dead_letter);
    if let Err(error) = table.check_dead_letters(name, &config)
        && !is_same
    {
        examined.problems.push(SourceProblem::new("dead_letter", error.to_string()));
    }
    let agents = ceilings.iter().filter(|ceiling| ceiling.agent.is_some());
    for found in agents.flat_map(|ceiling| excess(table, name, &config, ceiling)) {
        let is_same = |known: &Excess| known.gate == found.gate && known.asked == found.asked;
        if !examined.excess.iter().any(is_same) {
            examined.excess.push(found);
        }
    }
    examined
}

/// What an agent would give with a channel and does not have: a channel that it cannot use, or dead letters that come out where it cannot
/// publish.
fn excess(table: &ChannelTable, name: &str, config: &ChannelConfig, ceiling: &Ceiling) -> Vec<Excess> {
    let allowed = |gates: &[&str]| -> Vec<String> {
        let mut named = BTreeSet::new();
        let all = gates.iter().flat_map(|gate| ceiling.gates.get(*gate).into_iter().flatten());
        all.filter(|name| named.insert(*name)).cloned().collect()
    };
    let dead = config.dead_letter_of(name);
    let is_own = ChannelConfig::default().dead_letter_of(name) == dead && !table.is_used(&dead, name);
    let channel = ("channels", allowed(&[PUBLISH_GATE, SUBSCRIBE_GATE]), name.to_owned());
    let letters = (!is_own).then(|| (PUBLISH_GATE, allowed(&[PUBLISH_GATE]), dead));
    let asked = [channel].into_iter().chain(letters);
    let beyond = asked.filter(|(_, allowed, name)| !allowed.iter().any(|allowed| covers(allowed, name)));
    let shown = |allowed: Vec<String>| if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
    beyond
        .map(|(gate, allowed, asked)| Excess {
            gate: gate.to_owned(),
            asked,
            allowed: shown(allowed),
            fix: ceiling.fix(gate),
        })
        .collect()
}

impl RuntimeDefinitions {
    pub(super) fn channels(&self) -> Result<&Arc<Channels>, DefinitionError> {
        self.parts.channels.as_ref().ok_or(DefinitionError::Store(StoreError::Closed))
    }

    /// Keeps others from changing a channel in the meantime: what is in it changes with it, in more than one step.
    pub(super) async fn alone(&self, tenant: &Tenant, kind: DefinitionKind, name: &str) -> Option<MutexGuard<'_, ()>> {
        let channels = self.parts.channels.as_ref().filter(|_| kind == KIND)?;
        Some(channels.lock(&name_key(tenant, kind, name)).await)
    }

    /// All versions of a channel have one scope: its messages belong to the owners that the scope says.
    pub(super) async fn scope_problem(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        name: &str,
        record: Option<&NameRecord>,
        source: &Value,
    ) -> Result<Option<SourceProblem>, DefinitionError> {
        let last = record.filter(|_| kind == KIND).and_then(|record| record.versions.last());
        let Some(last) = last else { return Ok(None) };
        let kept = self.find_version(tenant, kind, name, last.version).await?;
        let scope = |source: &Value| {
            let config = serde_json::from_value::<ChannelConfig>(source.clone()).ok();
            config.map(|config| config.scope.plain())
        };
        let scopes = kept.and_then(|kept| scope(&kept.source)).zip(scope(source));
        Ok(scopes.filter(|(before, now)| before != now).map(|(before, now)| {
            let (before, now) = (before.as_str(), now.as_str());
            let message = format!("the scope of channel {name:?} cannot be changed from {before} to {now}");
            SourceProblem::new("scope", message)
                .with_hint("delete the channel and create it again, or use another name")
        }))
    }
}
