//! The config section `goals`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Goals: what they may change, and who works on them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GoalsConfig {
    /// Directories that goals can work in, with everything below them. If empty, callers with the server's own token can name any
    /// directory, and callers with a token of `principals` none.
    #[schemars(extend("x-power" = { "words": "lets goals change repositories in {}", "as": "path" }))]
    pub directories: Vec<PathBuf>,
    /// The backend of goals that name none, or `auto` (default): the coding CLI that calls.
    #[schemars(extend("x-power" = { "words": "gives goals that name no backend the backend {}" }))]
    pub backend: Option<String>,
    /// A directory with instructions of roles, in place of the built-in ones: `criteria.md`, `clarifier.md`, `decomposer.md`,
    /// `subagent.md`, `reviewer.md`. Relative to the config file.
    #[schemars(extend("x-power" = { "words": "takes instructions of goals from {}", "as": "path" }))]
    pub prompts: Option<PathBuf>,
    /// Run setup and verify commands without a sandbox.
    #[schemars(extend("x-power" = { "words": "runs setup and verify commands of goals without a sandbox", "as": "flag" }))]
    pub unconfined: bool,
    /// More environment variables that setup and verify commands get, by name.
    #[schemars(inner(pattern(r"^[A-Za-z_][A-Za-z0-9_]*$")))]
    #[schemars(extend("x-power" = { "words": "gives setup and verify commands of goals the variable {}", "as": "variable" }))]
    pub env: Vec<String>,
    /// Absolute paths that setup and verify commands can read, besides the system and toolchains.
    #[schemars(extend("x-power" = { "words": "lets setup and verify commands of goals read {}", "as": "path" }))]
    pub readable_paths: Vec<PathBuf>,
    /// Absolute paths that setup and verify commands can change, besides their checkout, such as a cache of packages.
    #[schemars(extend("x-power" = { "words": "lets setup and verify commands of goals change {}", "as": "path" }))]
    pub writable_paths: Vec<PathBuf>,
    /// Maximum memory of a setup or verify command with everything that it starts, in bytes. Defaults to three quarters of the machine's
    /// memory.
    #[schemars(range(min = 1_048_576))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_memory_bytes: Option<u64>,
    /// Maximum processes and threads at once of a setup or verify command and everything that it starts. Defaults to 2048, and 256 for each
    /// processor where that is more.
    #[schemars(range(min = 16))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_processes: Option<u64>,
    /// A command that prepares each checkout, for `/bin/sh`, such as `npm ci`.
    #[schemars(extend("x-power" = { "words": "runs the command {} in each checkout of a goal", "as": "program" }))]
    pub setup: Option<String>,
    /// Maximum bytes that the checkouts of one goal may use; a goal that needs more is stopped. No limit by default.
    #[schemars(extend("x-harmless" = "a limit"))]
    pub quota_bytes: Option<u64>,
    /// How long checkouts of ended goals are kept, in days. Defaults to 14. Work that is not merged stays as a ref.
    #[schemars(range(min = 1, max = 3650))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub keep_days: Option<u32>,
}
