//! `follow_channel`: messages of a channel, as they are published.

use std::{borrow::Cow, str::FromStr};

use drawloom_contract::{
    channel::ChannelScope,
    ids::{AgentName, UserId},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    channels::{ChannelMessages, Named, Placed},
    request::{Changes, Request, Route},
};

/// Follows the messages of a channel without taking them: those that it has, then every new one. As JSON it answers messages after
/// `after`, or waits for the next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FollowChannel {
    /// The channel.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_./-]*$"), extend("x-aliases" = ["name"]))]
    pub channel: String,
    /// The user, only for a channel with the scope `user`. Defaults to the caller; a principal's token allows no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-aliases" = ["scope_id"]))]
    pub user_id: Option<UserId>,
    /// The agent; required for a channel with the scope `agent`, and only used there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// The scope that the channel must have; otherwise the request is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ChannelScope>,
    /// Only messages after this one: the id of an event, or a cursor such as `cur_5`; also the header `Last-Event-ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
    /// Begin with new messages. Cannot be combined with `after`, except in a stream: there the header `Last-Event-ID` continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<bool>,
    /// JSON only: maximum messages. Defaults to 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub max_messages: Option<u32>,
    /// JSON only: how long to wait for a message, in milliseconds; at most 60,000. Defaults to no wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// A place in a channel: a sequence, or a cursor with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct After(pub u64);

impl FromStr for After {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_prefix("cur_").unwrap_or(text).parse().map(Self);
        number.map_err(|_| format!("invalid cursor {text:?} (examples: 5, cur_5)"))
    }
}

impl<'de> Deserialize<'de> for After {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self(number)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl JsonSchema for After {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "After".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "minimum": 0, "pattern": "^(cur_)?[0-9]{1,19}$" })
    }
}

impl Request for FollowChannel {
    const NAME: &'static str = "follow_channel";
    const ROUTES: &'static [Route] = &[
        Route::get("/v1/channels/{channel}/events"),
        Route::get("/v1/_channels/{channel}/events"),
        Route::get("/v1/users/{user_id}/channels/{channel}/events"),
    ];
    const CHANGES: Changes = Changes::Nothing;
    type Output = ChannelMessages;
}

impl Placed for FollowChannel {
    fn named(&self) -> Named<'_> {
        Named { scope: self.scope, agent: self.agent.as_ref(), user_id: self.user_id.as_ref() }
    }
}
