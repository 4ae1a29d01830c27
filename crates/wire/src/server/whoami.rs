//! `whoami`: the caller, as the server identified it.

use drawloom_contract::{
    caller::Scope,
    ids::{Tenant, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::request::{Changes, Request, Route};

/// Asks who the caller is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskWhoAmI {}

/// The caller, as the server identified it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhoAmI {
    /// The caller's tenant.
    pub tenant_id: Tenant,
    /// The caller's user id; with the shared token, the user of requests that name none.
    pub subject: UserId,
    /// The caller's scopes.
    pub scopes: Vec<Scope>,
    /// Whether the caller has every scope.
    pub is_admin: bool,
    /// Whether the server is open: loopback only, no token.
    pub open_mode: bool,
    /// Whether a request's `user_id` is honoured: open, or the shared token.
    pub honours_user_id: bool,
    /// The server's version.
    pub version: String,
}

impl Request for AskWhoAmI {
    const NAME: &'static str = "whoami";
    const ROUTES: &'static [Route] = &[Route::get("/v1/_me")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = WhoAmI;
}
