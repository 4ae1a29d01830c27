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

/// Access to the server. Without a token and principals it accepts all callers, and listens on loopback only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuthConfig {
    /// Name of the environment variable with the shared token. It grants full access to tenant `default`, for
    /// any user.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-power" = { "words": "takes the server's token from {}", "as": "variable", "when": "not_default" }))]
    pub token_env: String,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self { token_env: DEFAULT_TOKEN_ENV.into() }
    }
}

/// A caller with its own token, which determines tenant and user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrincipalConfig {
    /// The caller's tenant.
    #[serde(default = "Tenant::default_tenant")]
    #[schemars(extend("x-power" = { "words": "the principal acts in the tenant {}" }))]
    pub tenant: Tenant,
    /// The caller's user: the `user_id` of their runs.
    #[schemars(extend("x-power" = { "words": "the principal acts as the user {}" }))]
    pub subject: UserId,
    /// The caller's scopes; `[]` means none.
    #[schemars(extend("x-power" = { "words": "the principal has the scope {}" }))]
    pub scopes: Vec<Scope>,
    /// Name of the environment variable with the caller's token.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-power" = { "words": "lets callers with the token in {} use this server", "as": "variable" }))]
    pub token_env: String,
}

/// A text that a person can pick in an MCP host, such as a slash command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptConfig {
    /// Description shown to users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-harmless" = "text for people and models"))]
    pub description: Option<String>,
    /// Description of its arguments, shown to users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-harmless" = "text for people and models"))]
    pub argument_hint: Option<String>,
    /// The text. `$ARGUMENTS` is replaced by all arguments, `$1` to `$9` by single words.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-harmless" = "text for people and models"))]
    pub text: String,
}
