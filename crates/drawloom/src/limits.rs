//! Every limit with its default: the lists of all crates, joined. `docs/reference/limits.md` is generated from it.

use drawloom_contract::limits::{
    Amount::{Bytes, Count},
    Limit,
};
use drawloom_substrate::{PROMPT_FILE_LIMIT, SKILL_FILE_LIMIT, SKILL_LIMIT};

use crate::{
    commands::run::PROMPT_LIMIT,
    config::yaml,
    import::{self, tree, write},
    skills,
};

/// The lists, by the title of their section of the reference page.
pub static LIMITS: &[(&str, &[Limit])] = &[
    ("Runs", drawloom_engine::LIMITS),
    ("Models", drawloom_models::LIMITS),
    ("Built-in tools", drawloom_tools::LIMITS),
    ("Artifacts", drawloom_substrate::artifacts::LIMITS),
    ("Memory", drawloom_substrate::memory::LIMITS),
    ("Channels", drawloom_substrate::channels::LIMITS),
    ("Evaluations", drawloom_substrate::evaluations::LIMITS),
    ("Definitions made at runtime", drawloom_substrate::definitions::LIMITS),
    ("Outside MCP servers", drawloom_tools::MCP_LIMITS),
    ("Connections and requests", drawloom_server::LIMITS),
    ("MCP hosts", drawloom_server::mcp::LIMITS),
    ("The MCP proxy", drawloom_wire::mcp::LIMITS),
    ("Skills", SKILLS),
    ("Import and sources", IMPORT),
    ("Config and commands", OWN),
];

/// A report or a finding says it.
const LEFT_OUT: &str = "left_out";

/// The limits of skills.
pub const SKILLS: &[Limit] = &[
    Limit::new("skills", Count(SKILL_LIMIT as u64), LEFT_OUT, "Skills of a config. More are left out with a warning."),
    Limit::new(
        "skill_file_bytes",
        Bytes(SKILL_FILE_LIMIT),
        LEFT_OUT,
        "Bytes of a file of a skill. A skill whose `SKILL.md` is longer is left out with a warning.",
    ),
    Limit::new(
        "skill_name_characters",
        Count(skills::LONGEST_NAME as u64),
        LEFT_OUT,
        "Characters of the name of a skill's folder. A skill with a longer one is left out with a warning.",
    ),
    Limit::new(
        "skill_description_characters",
        Count(skills::LONGEST_DESCRIPTION as u64),
        "cut",
        "Characters of a skill's description. A longer one is cut with a note.",
    ),
    Limit::new(
        "skill_folders",
        Count(skills::MOST_FOLDERS as u64),
        LEFT_OUT,
        "Folders that are searched in one of `skills.directories`. More are left out with a warning.",
    ),
];

/// The limits of an import, and of folders that `sources` names.
pub const IMPORT: &[Limit] = &[
    Limit::new(
        "import_file_bytes",
        Bytes(import::FILE_LIMIT),
        LEFT_OUT,
        "Bytes of an agent's or a command's file. A longer one is dropped, and the report says so.",
    ),
    Limit::new(
        "import_json_bytes",
        Bytes(tree::JSON_LIMIT),
        LEFT_OUT,
        "Bytes of a file of settings or MCP servers. A longer one is dropped, and the report says so.",
    ),
    Limit::new(
        "import_files",
        Count(tree::MOST_FILES as u64),
        LEFT_OUT,
        "Files of one kind in a folder, and folders that are searched. More are dropped, and the report says so.",
    ),
    Limit::new(
        "import_depth",
        Count(tree::MOST_DEPTH as u64),
        LEFT_OUT,
        "Nesting of folders of agents and commands. Deeper ones are dropped, and the report says so.",
    ),
    Limit::new(
        "import_skill_files",
        Count(write::MOST_FILES as u64),
        LEFT_OUT,
        "Files of a skill that is copied. A skill with more is dropped, and the report says so.",
    ),
    Limit::new(
        "import_skill_bytes",
        Bytes(write::MOST_BYTES),
        LEFT_OUT,
        "Bytes of all files of a skill that is copied. A skill with more is dropped, and the report says so.",
    ),
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
    Limit::new("prompt_file_bytes", Bytes(PROMPT_FILE_LIMIT), BAD_CONFIG, "Bytes of a `system_prompt_file`."),
    Limit::new(
        "prompt_bytes",
        Bytes(PROMPT_LIMIT),
        "bad_prompt",
        "Bytes of a prompt that `drawloom run` reads from stdin.",
    ),
];
