//! Where evaluations are: under their run (whole), under its definition (numbers alone), and which definitions of an agent have
//! any. Keys begin with a falling number, so that the first of a list is the newest.

use std::sync::atomic::{AtomicU64, Ordering};

use drawloom_contract::{
    ids::{AgentName, Digest, RunId, Tenant},
    time::Timestamp,
    values::{EVALUATIONS, Range, ValueKey, Within},
};

use super::record::{EvalId, Identity};

const LISTED: &str = "at/";

/// What evaluations are listed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    Run(RunId),
    Definition(Digest),
    Agent(AgentName),
}

impl Owner {
    fn name(&self) -> String {
        match self {
            Self::Run(run) => format!("run/{run}"),
            Self::Definition(digest) => format!("def/{digest}"),
            Self::Agent(name) => format!("agent/{name}"),
        }
    }

    pub(super) fn is_definition(name: &str) -> bool {
        name.starts_with("def/")
    }

    pub(super) fn is_agent(name: &str) -> bool {
        name.starts_with("agent/")
    }

    pub(super) fn key(&self, tenant: &Tenant, key: String) -> ValueKey {
        ValueKey { tenant: tenant.clone(), space: EVALUATIONS, owner: self.name(), key }
    }

    pub(super) fn range(&self, tenant: &Tenant) -> Range {
        let prefix = match self {
            Self::Run(_) | Self::Definition(_) => LISTED.into(),
            Self::Agent(_) => String::new(),
        };
        Range { space: EVALUATIONS, within: Within::Owner { tenant: tenant.clone(), owner: self.name(), prefix } }
    }

    /// The key behind a place in its list.
    pub(super) fn listed(&self, tenant: &Tenant, place: &str) -> ValueKey {
        self.key(tenant, format!("{LISTED}{place}"))
    }
}

/// The place of an evaluation in lists; a later one sorts first.
pub(super) fn place(order: u64, id: EvalId) -> String {
    format!("{:016x}/{id}", u64::MAX - order)
}

/// The place that a listed key stands for.
pub(super) fn place_of(key: &ValueKey) -> &str {
    key.key.strip_prefix(LISTED).unwrap_or(&key.key)
}

/// Where the place of an evaluation is kept, by what tells it apart.
pub(super) fn identity_key(identity: Identity) -> String {
    format!("id/{identity}")
}

/// Numbers that rise with the time, and with every evaluation of this process.
#[derive(Debug, Default)]
pub(super) struct Order(AtomicU64);

impl Order {
    /// The time in milliseconds, with room for 65,536 evaluations in each.
    pub(super) fn next(&self, now: Timestamp) -> u64 {
        let now = u64::try_from(now.as_millis()).unwrap_or(0) << 16;
        let before = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |last| Some(now.max(last + 1)));
        now.max(before.unwrap_or_else(|last| last) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_evaluation_sorts_first_also_within_a_millisecond_and_after_the_clock_was_set_back() {
        let order = Order::default();
        let id: EvalId = format!("e_{}", "0".repeat(64)).parse().expect("an id");
        let places: Vec<String> =
            [5, 5, 9, 2].into_iter().map(|at| place(order.next(Timestamp::from_millis(at)), id)).collect();
        assert!(places.windows(2).all(|pair| pair[0] > pair[1]), "{places:?}");
    }
}
