//! `drawloom validate`: checks config files and reports every mistake at once, also what `serve` or `run` would refuse later.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use drawloom_substrate::{Finding, Weight};

use crate::{
    cli::Look,
    commands::Session,
    config::{self, Loaded},
    exit::{CommandError, Exit},
    output::{Format, Output, Style},
    project::Project,
    resolve,
    trust::State,
};

/// Check config files and report every error
#[derive(Debug, Args)]
pub struct Validate {
    /// Files to check as one config; later ones win [default: the config of this folder]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Validate {
    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let is_found = self.files.is_empty() && session.globals.config.is_empty();
        let files = if self.files.is_empty() { config::find(&session.globals.config)? } else { self.files };
        // Without a data directory no server starts either, but that is not the config's mistake.
        let project = Project::of(&session.globals, &files).ok();
        let data = project.as_ref().map(|project| &project.data);
        let loaded = config::load_beside(&files, data)?;
        let resolved = resolve::resolve_beside(data, &loaded, &crate::Extra::default()).map_err(config::refuse)?;
        let output = &session.output;
        // Without a home directory nothing can be trusted, and that is not the config's mistake either.
        let trust = State::of(&files, &loaded).ok();
        let named = if is_found { String::new() } else { named(&files) };
        match output.format() {
            Format::Json => output.json(&json!({
                "ok": true,
                "trust": trust.map(State::as_str),
                "files": files,
                "findings": resolved.findings.iter().map(|finding| finding_json(&loaded, finding)).collect::<Vec<_>>(),
            })),
            Format::Human => {
                show_findings(output, &loaded, &resolved.findings);
                let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
                output.line(format!("{}: {}", names.join(", "), output.styled(Style::Good, "no mistakes")));
                match trust {
                    None => {}
                    Some(State::Trusted) => output.line("trust: trusted"),
                    Some(State::NotNeeded) => {
                        output.line(
                            "trust: not needed, because it starts no programs, uses no keys and changes no files",
                        );
                    }
                    Some(State::NotTrusted) => output
                        .line(format!("trust: not trusted yet; `drawloom trust{named}` shows what it can do and asks")),
                }
            }
        }
        Ok(Exit::Done)
    }
}

/// Files as options of a command.
fn named(files: &[PathBuf]) -> String {
    files.iter().map(|file| format!(" --config {}", file.display())).collect()
}

/// A finding, for programs.
pub(crate) fn finding_json(loaded: &Loaded, finding: &Finding) -> serde_json::Value {
    let weight = match finding.weight {
        Weight::Note => "note",
        Weight::Warning => "warning",
    };
    json!({ "weight": weight, "place": loaded.position(&finding.at), "message": finding.message })
}

/// Findings, for people.
pub(crate) fn show_findings(output: &Output, loaded: &Loaded, findings: &[Finding]) {
    for finding in findings {
        let weight = match finding.weight {
            Weight::Note => output.styled(Style::Dim, "note"),
            Weight::Warning => output.styled(Style::Notice, "warning"),
        };
        output.line(format!("{weight}: {}: {}", loaded.position(&finding.at), finding.message));
    }
}
