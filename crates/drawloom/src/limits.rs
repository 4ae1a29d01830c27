//! Every limit with its default: the lists of all crates, joined. `docs/reference/limits.md` is generated from it.

use drawloom_contract::limits::{
    Amount::{Bytes, Count},
    Limit,
};
use drawloom_substrate::PROMPT_FILE_LIMIT;

use crate::{commands::run::PROMPT_LIMIT, config::yaml};

/// The lists, by the title of their section of the reference page.
pub static LIMITS: &[(&str, &[Limit])] = &[
    ("Runs", drawloom_engine::LIMITS),
    ("Models", drawloom_models::LIMITS),
    ("Built-in tools", drawloom_tools::LIMITS),
    ("Artifacts", drawloom_substrate::artifacts::LIMITS),
    ("Memory", drawloom_substrate::memory::LIMITS),
    ("Outside MCP servers", drawloom_tools::MCP_LIMITS),
    ("Connections and requests", drawloom_server::LIMITS),
    ("MCP hosts", drawloom_server::mcp::LIMITS),
    ("The MCP proxy", drawloom_wire::mcp::LIMITS),
    ("Config and commands", OWN),
];

const BAD_CONFIG: &str = "bad_config";

/// The limits of the config and of commands.
pub const OWN: &[Limit] = &[
    Limit::new("config_file_bytes", Bytes(yaml::FILE_LIMIT), BAD_CONFIG, "Bytes of one config file."),
    Limit::new("config_depth", Count(yaml::DEPTH_LIMIT as u64), BAD_CONFIG, "Nesting of values in one config file."),
    Limit::new(
        "config_values",
        Count(yaml::NODE_LIMIT as u64),
        BAD_CONFIG,
        "Values of one config file, after aliases are expanded.",
    ),
    Limit::new(
        "config_text_bytes",
        Bytes(yaml::TEXT_LIMIT as u64),
        BAD_CONFIG,
        "Bytes of all texts of one config file, after aliases are expanded.",
    ),
    Limit::new(
        "prompt_file_bytes",
        Bytes(PROMPT_FILE_LIMIT),
        BAD_CONFIG,
        "Bytes of a file that `system_prompt_file` names.",
    ),
    Limit::new(
        "prompt_bytes",
        Bytes(PROMPT_LIMIT),
        "bad_prompt",
        "Bytes of a prompt that `drawloom run` reads from standard input.",
    ),
];
