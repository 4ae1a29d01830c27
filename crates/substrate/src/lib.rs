//! Who may touch what: agent definitions, their gates, lint, skills, volumes; memory, channels, artifacts, evaluations, and what a run
//! may know about itself.
//!
//! Config comes in, decisions go out. The catalog answers which agents there are and what each may use; the volume table
//! answers which directory a path belongs to. File I/O inside a volume is done by tools alone, through the handle that
//! the table hands out.

mod agents;
pub mod artifacts;
mod catalog;
pub mod channels;
mod context;
pub mod definitions;
pub mod evaluations;
pub mod excerpt;
pub mod files;
mod hint;
mod lint;
pub mod memory;
mod names;
mod operator;
mod problem;
mod skills;
mod store_tools;
mod tiers;
mod volumes;

pub use agents::{AgentConfig, Budget, ChannelGates, ModelChoice};
pub use catalog::{Catalog, Inputs, PROMPT_FILE_LIMIT};
pub use hint::did_you_mean;
pub use lint::{Finding, Weight, agent as lint};
pub use operator::OperatorConfig;
pub use problem::Problem;
pub use skills::{
    Commands, SKILL_FILE, SKILL_FILE_LIMIT, SKILL_LIMIT, Skill, SkillSource, SkillTable, SkillTool, Skills,
    SkillsConfig, frontmatter,
};
pub use store_tools::{STORE_TOOLS, StoreParts, StoreTool};
pub use tiers::{Candidate, Tier, Tiers, UserTier, tiers_schema};
pub use volumes::{Protect, VolumeConfig, VolumeMode, VolumeParent, VolumeTable};
