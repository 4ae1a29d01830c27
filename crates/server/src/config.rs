//! Config of the surfaces: the sections `listen`, `auth`, `principals` and `prompts`.

use drawloom_contract::{
    caller::Scope,
    ids::{Tenant, UserId},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the server listens when nobody says.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8787";

/// The environment variable that has the shared token when nobody says.
pub const DEFAULT_TOKEN_ENV: &str = "DRAWLOOM_TOKEN";

/// Who may call. With no token and no principal the server is open, and then it listens on loopback only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuthConfig {
    /// Name of the environment variable with the shared token. Who has it may do everything in tenant `default`, for
    /// any user.
    #[schemars(length(min = 1))]
    pub token_env: String,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self { token_env: DEFAULT_TOKEN_ENV.into() }
    }
}

/// Somebody with a token of their own, which fixes tenant and subject whatever a request says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrincipalConfig {
    /// The wall they stand behind.
    #[serde(default = "Tenant::default_tenant")]
    pub tenant: Tenant,
    /// Who they are: the `user_id` of their runs.
    pub subject: UserId,
    /// What they may do; `[]` is nothing.
    pub scopes: Vec<Scope>,
    /// Name of the environment variable with their token.
    #[schemars(length(min = 1))]
    pub token_env: String,
}

/// A text that a person can pick in an MCP host, such as a slash command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptConfig {
    /// What it is for, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What its arguments are, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// The text. `$ARGUMENTS` stands for all that the person typed, `$1` to `$9` for its words.
    #[schemars(length(min = 1))]
    pub text: String,
}
