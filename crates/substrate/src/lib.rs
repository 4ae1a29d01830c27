//! Who may touch what: agent definitions, their gates, lint, skills, volumes.
//!
//! Config comes in, decisions go out. The catalog answers which agents there are and what each may use; the volume table
//! answers which directory a path belongs to. File I/O inside a volume is done by tools alone, through the handle that
//! the table hands out.

mod agents;
mod catalog;
mod hint;
mod lint;
mod problem;
mod skills;
mod tiers;
mod volumes;

pub use agents::{AgentConfig, Budget, ModelChoice};
pub use catalog::{Catalog, Inputs, PROMPT_FILE_LIMIT};
pub use lint::{Finding, Weight};
pub use problem::Problem;
pub use skills::{SKILL_FILE, SKILL_FILE_LIMIT, SKILL_LIMIT, Skill, SkillTable, SkillTool, SkillsConfig, frontmatter};
pub use tiers::{Candidate, Tier, Tiers, UserTier};
pub use volumes::{VolumeConfig, VolumeMode, VolumeTable};
