//! The server itself on the wire: who asks, how full it is, how it feels.

use drawloom_contract::{
    caller::Scope,
    ids::{Tenant, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use drawloom_contract::runs::{Load, Replay};

/// Asks who the caller is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskWhoAmI {}

/// Asks how full the server is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetLoad {}

/// Who the caller is, as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhoAmI {
    /// The wall they stand behind.
    pub tenant_id: Tenant,
    /// Who they are; with the shared token, whom they speak for when a request names nobody.
    pub subject: UserId,
    /// What they may do.
    pub scopes: Vec<Scope>,
    /// Whether they may do everything.
    pub is_admin: bool,
    /// Whether the server is open: loopback only, no token.
    pub open_mode: bool,
    /// Whether a request's `user_id` is honoured: open, or the shared token.
    pub honours_user_id: bool,
    /// The server's version.
    pub version: String,
}

/// How the server feels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// Whether it can take runs and its store works.
    pub ok: bool,
    /// The server's version.
    pub version: String,
    /// Seconds since it started.
    pub uptime_seconds: u64,
}
