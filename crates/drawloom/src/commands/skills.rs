//! `drawloom skills`: the skills that agents can load.

use clap::Subcommand;
use drawloom_contract::{definition::Definitions as _, ids::Tenant};
use drawloom_substrate::Skill;
use serde_json::json;

use crate::{
    cli::{Look, Quiet},
    commands::Session,
    config,
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text, first_line},
    resolve::{self, Resolved},
};

/// List and show skills
#[derive(Debug, Subcommand)]
pub enum Skills {
    /// List skills and the agents that can load them
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        ids: Quiet,
        /// The format of the output.
        #[command(flatten)]
        look: Look,
    },
    /// Show the instructions of a skill
    Show {
        /// Skill name; see `drawloom skills list`
        name: String,
        /// The format of the output.
        #[command(flatten)]
        look: Look,
    },
}

impl Skills {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::List { look, .. } | Self::Show { look, .. } => *look,
        }
    }

    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let loaded = config::load_files(&config::find(&session.globals.config)?)?;
        let resolved = resolve::resolve(&loaded, &crate::Extra::default()).map_err(config::refuse)?;
        match self {
            Self::List { ids, .. } => list(session, &resolved, ids),
            Self::Show { name, .. } => show(session, &resolved, &name)?,
        }
        Ok(Exit::Done)
    }
}

/// The agents that may load a skill.
fn agents(resolved: &Resolved, skill: &Skill) -> Vec<String> {
    let all = resolved.catalog.list(&Tenant::default_tenant());
    all.iter().filter(|agent| agent.skills.contains_key(&skill.name)).map(|agent| agent.name.to_string()).collect()
}

fn list(session: &Session, resolved: &Resolved, ids: Quiet) {
    let output = &session.output;
    let skills: Vec<&Skill> = resolved.skills.all().collect();
    match output.format() {
        Format::Json => {
            let skills = skills.iter().map(|skill| {
                json!({
                    "name": skill.name, "description": skill.description, "folder": skill.folder,
                    "agents": agents(resolved, skill),
                })
            });
            output.json(&json!({ "skills": skills.collect::<Vec<_>>() }));
        }
        Format::Human if ids.quiet => output.ids(skills.iter().map(|skill| &skill.name)),
        Format::Human if skills.is_empty() => {
            output.line("no skills; add folders under `skills.directories` in the config");
        }
        Format::Human => output.table(
            [Column::new("skill"), Column::new("agents").shrinks_to(8), Column::new("description").shrinks_to(16)],
            skills.iter().map(|skill| {
                [
                    Text::new(&skill.name).style(Style::Bold),
                    Text::new(agents(resolved, skill).join(", ")),
                    Text::new(first_line(&skill.description, 80)),
                ]
            }),
        ),
    }
}

fn show(session: &Session, resolved: &Resolved, name: &str) -> Result<(), CommandError> {
    let Some(skill) = resolved.skills.find(name) else {
        let names: Vec<&str> = resolved.skills.names().collect();
        let hint = match drawloom_contract::suggest::closest(name, names.iter().copied()) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => format!("known skills: {}", names.join(", ")),
        };
        return Err(CommandError::usage("not_found", format!("unknown skill {name:?}")).with_hint(hint));
    };
    let text = skill.instructions().map_err(|message| CommandError::failed("bad_file", message))?;
    match session.output.format() {
        Format::Json => session.output.json(&json!({
            "name": skill.name, "description": skill.description, "folder": skill.folder, "instructions": text,
        })),
        Format::Human => session.output.line(text.trim_end_matches('\n')),
    }
    Ok(())
}
