//! Words of channels that go over the wire: who shares a channel, who gets a message, when an `await` is satisfied.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::named::named;

named! {
    /// Who shares a channel's messages, inside one tenant of a project.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    pub enum ChannelScope {
        /// All runs of one agent.
        Agent = "agent",
        /// All runs and requests of one user.
        User = "user",
        /// The whole tenant.
        #[default]
        Tenant = "tenant",
        /// Another name of `tenant`.
        Global = "global",
    }
}

named! {
    /// Who gets a message.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    pub enum Semantic {
        /// One of the readers: they share a cursor.
        #[default]
        Queue = "queue",
        /// Every consumer: each has a cursor.
        Broadcast = "broadcast",
        /// Another name of `broadcast`.
        Topic = "topic",
    }
}

named! {
    /// When an `await` is satisfied.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    pub enum AwaitMode {
        /// One of the channels has a message.
        #[default]
        Any = "any",
        /// Each of the channels has a message.
        All = "all",
        /// `n` of the channels have a message.
        AtLeast = "at_least",
    }
}

impl ChannelScope {
    /// The same without aliases.
    pub fn plain(self) -> Self {
        match self {
            Self::Global => Self::Tenant,
            Self::Agent | Self::User | Self::Tenant => self,
        }
    }
}

impl Semantic {
    /// The same without aliases.
    pub fn plain(self) -> Self {
        match self {
            Self::Topic => Self::Broadcast,
            Self::Queue | Self::Broadcast => self,
        }
    }
}
