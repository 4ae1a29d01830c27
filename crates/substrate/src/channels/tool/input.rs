//! The input of the tool `Channel`.

use std::collections::BTreeMap;

use drawloom_contract::{channel::AwaitMode, time::Timestamp, tool::ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::super::{
    ChannelError, Lease, MOST_PAGE, Publish, Subscribe, USUAL_PAGE,
    rules::{Refusal, read_cursor},
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    pub(super) op: Op,
    /// The channel. `await` and `broadcast` take `channels` instead.
    pub(super) channel: Option<String>,
    /// `await` and `broadcast`: 1 to 32 channels.
    pub(super) channels: Option<Vec<String>>,
    /// `publish` and `broadcast`: the message, any JSON up to 64 KiB.
    #[serde(default, alias = "payload", deserialize_with = "given")]
    #[schemars(with = "Value")]
    pub(super) value: Option<Value>,
    /// `publish` and `broadcast`: time to live of the message, in seconds.
    pub(super) ttl: Option<u64>,
    /// `publish` and `broadcast`: when the message becomes visible (RFC 3339).
    pub(super) deliver_at: Option<String>,
    /// `publish` and `broadcast`: how long until the message becomes visible, in milliseconds.
    pub(super) deliver_after_ms: Option<u64>,
    /// `subscribe` and `await`: how long to wait for a message, in milliseconds, up to 24 hours. One call waits the whole time and uses
    /// one turn. Defaults to no wait.
    pub(super) wait_ms: Option<u64>,
    /// `subscribe`, `peek` and `await`: maximum messages per channel (default 10, up to 100).
    pub(super) max_messages: Option<u32>,
    /// `subscribe` and `peek`: read after this cursor, in place of the committed one.
    pub(super) from_cursor: Option<String>,
    /// `await`: read after these cursors, by channel, in place of the committed ones.
    pub(super) from_cursors: Option<BTreeMap<String, String>>,
    /// `ack`: everything up to this cursor was handled: `next_cursor` of `peek` or `await`, or `cursor` of a message.
    pub(super) cursor: Option<String>,
    /// `await`: `any` (default), `all`, or `at_least` with `n`.
    pub(super) mode: Option<AwaitMode>,
    /// `await` with mode `at_least`: how many of the channels must have a message.
    pub(super) n: Option<u32>,
    /// Broadcast channels: which consumer reads. Defaults to this agent.
    pub(super) consumer: Option<String>,
    /// `subscribe`, `ack`, `nak` and `extend`: a consumer group, whose members take messages under leases.
    pub(super) group: Option<String>,
    /// `ack`, `nak` and `extend` with `group`: the leases of the messages.
    pub(super) leases: Option<Vec<String>>,
    /// `subscribe` and `extend` with `group`: time until an unacknowledged message comes back, in milliseconds.
    pub(super) lease_ms: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Op {
    Publish,
    Subscribe,
    Peek,
    Ack,
    Nak,
    Extend,
    Await,
    Broadcast,
    ListChannels,
}

impl Op {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
            Self::Peek => "peek",
            Self::Ack => "ack",
            Self::Nak => "nak",
            Self::Extend => "extend",
            Self::Await => "await",
            Self::Broadcast => "broadcast",
            Self::ListChannels => "list_channels",
        }
    }

    /// The fields that it takes beside `op`.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Publish => &["channel", "value", "ttl", "deliver_at", "deliver_after_ms"],
            Self::Broadcast => &["channels", "value", "ttl", "deliver_at", "deliver_after_ms"],
            Self::Subscribe => &["channel", "wait_ms", "max_messages", "from_cursor", "consumer", "group", "lease_ms"],
            Self::Peek => &["channel", "max_messages", "from_cursor", "consumer"],
            Self::Ack => &["channel", "cursor", "consumer", "group", "leases"],
            Self::Nak => &["channel", "group", "leases"],
            Self::Extend => &["channel", "group", "leases", "lease_ms"],
            Self::Await => &["channels", "wait_ms", "max_messages", "from_cursors", "mode", "n", "consumer"],
            Self::ListChannels => &[],
        }
    }
}

impl Input {
    /// Fields that mean nothing for the operation are refused.
    pub(super) fn check(&self) -> Result<(), ToolError> {
        let given = [
            ("channel", self.channel.is_some()),
            ("channels", self.channels.is_some()),
            ("value", self.value.is_some()),
            ("ttl", self.ttl.is_some()),
            ("deliver_at", self.deliver_at.is_some()),
            ("deliver_after_ms", self.deliver_after_ms.is_some()),
            ("wait_ms", self.wait_ms.is_some()),
            ("max_messages", self.max_messages.is_some()),
            ("from_cursor", self.from_cursor.is_some()),
            ("from_cursors", self.from_cursors.is_some()),
            ("cursor", self.cursor.is_some()),
            ("mode", self.mode.is_some()),
            ("n", self.n.is_some()),
            ("consumer", self.consumer.is_some()),
            ("group", self.group.is_some()),
            ("leases", self.leases.is_some()),
            ("lease_ms", self.lease_ms.is_some()),
        ];
        let allowed = self.op.fields();
        match given.iter().find(|(field, is_given)| *is_given && !allowed.contains(field)) {
            None => Ok(()),
            Some((field, _)) => {
                let op = self.op.as_str();
                let takes = if allowed.is_empty() { "no other field".into() } else { allowed.join(", ") };
                Err(ToolError::Invalid(format!("`{field}` cannot be used with op={op}, which takes {takes}")))
            }
        }
    }

    pub(super) fn channel(&self) -> Result<&str, ToolError> {
        let missing = || ToolError::Invalid(format!("op={} requires `channel`", self.op.as_str()));
        self.channel.as_deref().ok_or_else(missing)
    }

    pub(super) fn channels(&self) -> Result<&[String], ToolError> {
        let missing = || ToolError::Invalid(format!("op={} requires `channels`", self.op.as_str()));
        self.channels.as_deref().filter(|channels| !channels.is_empty()).ok_or_else(missing)
    }

    pub(super) fn group(&self) -> Result<&str, ToolError> {
        let missing = || ToolError::Invalid(format!("op={} requires `group`", self.op.as_str()));
        self.group.as_deref().ok_or_else(missing)
    }

    pub(super) fn publish(&self) -> Result<Publish, ToolError> {
        let missing = || ToolError::Invalid(format!("op={} requires `value`", self.op.as_str()));
        let deliver_at = match &self.deliver_at {
            Some(text) => {
                let bad = || ChannelError::from(Refusal::BadTime(text.clone()));
                Some(Timestamp::from_rfc3339(text).ok_or_else(bad)?)
            }
            None => None,
        };
        Ok(Publish {
            value: self.value.clone().ok_or_else(missing)?,
            ttl: self.ttl,
            deliver_at,
            deliver_after_ms: self.deliver_after_ms,
        })
    }

    pub(super) fn subscribe(&self, bytes: u64) -> Result<Subscribe, ToolError> {
        Ok(Subscribe {
            consumer: self.consumer.clone(),
            group: self.group.clone(),
            lease_ms: self.lease_ms,
            from: self.from_cursor.as_deref().map(read_cursor).transpose().map_err(ChannelError::from)?,
            max_messages: self.page()?,
            bytes,
        })
    }

    pub(super) fn page(&self) -> Result<u32, ToolError> {
        match self.max_messages.unwrap_or(USUAL_PAGE) {
            asked @ 1..=MOST_PAGE => Ok(asked),
            asked => Err(ToolError::Invalid(format!("max_messages must be 1 to {MOST_PAGE}, not {asked}"))),
        }
    }

    pub(super) fn leases(&self) -> Result<Vec<Lease>, ToolError> {
        let missing = || ToolError::Invalid(format!("op={} with `group` requires `leases`", self.op.as_str()));
        let leases = self.leases.as_ref().ok_or_else(missing)?;
        let read = leases.iter().map(|lease| Lease::read(lease)).collect::<Result<_, _>>();
        Ok(read.map_err(ChannelError::from)?)
    }
}

/// A field that was given, also when it is `null`.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
