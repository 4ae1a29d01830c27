//! `Skill`: returns the instructions of a skill, or one of its files.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_contract::{
    definition::matches,
    gate::Gate,
    ids::Tenant,
    tool::{Gates, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::hint::did_you_mean;

use super::{Found, SkillTable, Skills};

/// Most characters of a description that a model is told.
const MOST_DESCRIPTION: usize = 1024;

/// The tool `Skill`.
pub struct SkillTool {
    skills: Arc<dyn Skills>,
    commands: Commands,
}

/// The same skills for every tenant.
struct Fixed(Arc<SkillTable>);

impl Skills for Fixed {
    fn table(&self, _: &Tenant) -> Arc<SkillTable> {
        self.0.clone()
    }
}

/// Whether agents with the tool `Bash` can read the folders of their skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commands {
    On,
    Off,
}

impl SkillTool {
    pub const NAME: &str = "Skill";

    pub const GATE: Gate =
        Gate::new("skills", "skills: [NAME]", "load skills", |gates| gates.definition.skills.is_empty());

    /// For the skills of each tenant. Commands that are on see the folders of skills, read-only and under their own paths.
    pub fn over(skills: Arc<dyn Skills>, commands: Commands) -> Self {
        Self { skills, commands }
    }

    /// For agents whose commands do not see the folders.
    pub fn new(skills: Arc<SkillTable>) -> Self {
        Self::over(Arc::new(Fixed(skills)), Commands::Off)
    }

    /// For agents whose commands see the folders of their skills.
    pub fn with_commands(skills: Arc<SkillTable>) -> Self {
        Self::over(Arc::new(Fixed(skills)), Commands::On)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The skill.
    name: String,
    /// A file of the skill, by its path in the skill's folder; by default the skill's instructions.
    file: Option<String>,
}

#[async_trait]
impl Tool for SkillTool {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            Self::NAME,
            "Load a skill: instructions for a kind of task, with supporting files. Load the matching skill before \
             you start the task. The result lists the skill's files; read one with `file`.",
        )
    }

    /// The card with the skills that may be loaded.
    fn card_for(&self, card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
        Self::GATE.check(Self::NAME, gates)?;
        let skills = &gates.definition.skills;
        let lines = skills.iter().map(|(name, description)| format!("\n- {name}: {}", one_line(description)));
        let mut card = card.clone();
        card.description = format!("{}\nSkills:{}", card.description, lines.collect::<String>());
        let names: Vec<&String> = skills.keys().collect();
        if let Some(name) = Arc::make_mut(&mut card.input_schema).pointer_mut("/properties/name") {
            *name = json!({ "type": "string", "enum": names, "description": name["description"] });
        }
        Ok(card)
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let Input { name, file } = serde_json::from_value(input)?;
        let allowed = &context.definition.skills;
        if !allowed.contains_key(&name) {
            let hint = did_you_mean(&name, allowed.keys().map(String::as_str));
            let hint = hint.unwrap_or_else(|| "add it to `skills` of the agent".into());
            return Err(ToolError::Denied(format!(
                "agent {} is not allowed to load the skill {name:?}; {hint}",
                context.definition.name
            )));
        }
        let table = self.skills.table(&context.run.tenant);
        let Some(skill) = table.look(&name) else {
            return Err(ToolError::Failed(format!(
                "skill {name:?} is no longer in any directory of `skills.directories`, and no active definition has it"
            )));
        };
        let text = match file {
            None => skill.instructions().map(|text| self.with_files(context, &skill, text)),
            Some(file) => skill.read(&file),
        };
        text.map(Step::done).map_err(ToolError::Failed)
    }
}

impl SkillTool {
    /// The instructions, and what belongs to them.
    fn with_files(&self, context: &ToolContext, skill: &Found<'_>, mut text: String) -> String {
        let (files, cut) = skill.files();
        if !files.is_empty() {
            let more = if cut { ", and more" } else { "" };
            text.push_str(&format!("\n\n[files of this skill, read with `file`: {}{more}]", files.join(", ")));
        }
        let runs_commands = context.definition.tools.iter().any(|pattern| matches(pattern, "Bash"));
        if runs_commands && self.commands == Commands::On {
            text.push_str(&match skill.folder() {
                Some(folder) => {
                    let folder = folder.display();
                    format!("\n\n[Bash can read and run these files, but not change them, in {folder}]")
                }
                None if files.is_empty() => String::new(),
                None => "\n\n[this skill was defined at runtime: Bash cannot see its files]".into(),
            });
        }
        text
    }
}

/// A description on one line, cut when it is long.
fn one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(MOST_DESCRIPTION) {
        line.truncate(end);
        line.push('…');
    }
    line
}
