//! Waits: why a run or a call does nothing for a while, and what ends that.

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    ids::RunKey,
    log::LogKey,
    record::{Collect, Seq},
    time::Timestamp,
    values::ValueKey,
};

/// Waits until one of the causes has happened, or until a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "causes")]
    pub on: Vec<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// What ends a wait. Tools name logs and values; the others are the engine's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "on", rename_all = "snake_case")]
pub enum Cause {
    /// The ends of all children of the call.
    Children { count: u32, collect: Collect },
    /// The log has a message after this sequence.
    Log { log: LogKey, after: u64 },
    /// The value is at another revision than this one; 0 means that it is absent.
    Value { key: ValueKey, revision: u64 },
    /// The provider's credential takes another call.
    RateLimit,
    /// Others of the tree settle what they have reserved from the budget.
    Budget,
}

impl Wait {
    pub fn until(time: Timestamp) -> Self {
        Self { on: Vec::new(), until: Some(time) }
    }

    pub fn on(cause: Cause) -> Self {
        Self { on: vec![cause], until: None }
    }

    /// How the children's results are put together, when it waits for children.
    pub fn children(&self) -> Option<(u32, Collect)> {
        self.on.iter().find_map(|cause| match cause {
            Cause::Children { count, collect } => Some((*count, *collect)),
            _ => None,
        })
    }
}

impl Cause {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Children { .. } => "children",
            Self::Log { .. } => "log",
            Self::Value { .. } => "value",
            Self::RateLimit => "rate_limit",
            Self::Budget => "budget",
        }
    }
}

/// A wait that begins or ends, as part of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitChange {
    /// A call waits from now on. Its children name `(run, call)` as their parent; those that have ended are counted off.
    Call {
        run: RunKey,
        call: Seq,
        wait: Wait,
        since: Timestamp,
    },
    /// The run itself waits for a time, since the record that parks it.
    Run {
        run: RunKey,
        record: Seq,
        until: Timestamp,
        since: Timestamp,
    },
    /// A child that ended is repeated: the call waits for one more. Refused unless it still waits for another child.
    OneMore {
        run: RunKey,
        call: Seq,
    },
    End {
        run: RunKey,
        call: Seq,
    },
}

/// A call that waits for a log, a value or a time, as a starting process needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub run: RunKey,
    pub call: Seq,
    pub wait: Wait,
    pub since: Timestamp,
}

/// Earlier versions wrote one cause, or its name alone.
fn causes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Cause>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Name(String),
        One(Cause),
        Many(Vec<Cause>),
    }
    Ok(match Option::<Stored>::deserialize(deserializer)? {
        None => Vec::new(),
        Some(Stored::One(cause)) => vec![cause],
        Some(Stored::Many(causes)) => causes,
        Some(Stored::Name(name)) => match name.as_str() {
            "rate_limit" => vec![Cause::RateLimit],
            "budget" => vec![Cause::Budget],
            _ => return Err(serde::de::Error::custom(format!("unknown wait cause: {name}"))),
        },
    })
}
