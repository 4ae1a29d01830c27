//! `drawloom goal doctor`: whether goals can run here. What needs no trust in the config is checked without it.

use std::path::PathBuf;

use clap::Args;
use drawloom_wire::goals::{self, BackendInfo, Diagnosis, DiagnosisCheck};

use super::{demo::bare, manage::show};
use crate::{
    cli::Look,
    commands::{Session, demo::no_room},
    connect::{self, Connection, Execution, Need},
    data_dir::DataDir,
    environment,
    exit::{CommandError, Exit},
    operations::in_terminal,
    output::{Format, Style},
};

/// The limits of time of a goal, by the options that set them.
const TIMEOUTS: [&str; 3] = [
    "A host that starts goals over MCP has its own request timeout; set it to at least 600000 ms. The goal goes on when the host stops waiting.",
    "`--timeout` limits each call of a coding CLI or model; the default is one hour. What runs then is ended and tried again.",
    "`--max-seconds` limits the whole goal. It is checked before every call and is a deadline of what runs.",
];

/// Check whether goals can run here
#[derive(Debug, Args)]
pub struct Doctor {
    /// Git repository to check [default: this folder]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Doctor {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let here = std::env::current_dir().unwrap_or_default();
        let cwd = Some(self.cwd.map_or_else(|| here.clone(), |cwd| here.join(cwd)));
        let request = goals::Doctor { cwd };
        let checked = connect::with(session, "goal doctor", Need::Engine(self.execution), async |it| {
            it.backend.call(&request).await
        });
        let found = match checked.await {
            Err(refusal) if refusal.code == "untrusted_config" => without_config(&request, &refusal).await?,
            found => found?,
        };
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&found),
            Format::Human => {
                // Each problem has a line of its own below, where it is not cut.
                let without: Vec<BackendInfo> =
                    found.backends.iter().map(|backend| BackendInfo { problem: None, ..backend.clone() }).collect();
                show(session, &without);
                for check in &found.checks {
                    let (style, mark) = if check.ok { (Style::Good, "ok") } else { (Style::Bad, "problem") };
                    let found = in_terminal(&check.found);
                    output.line(format!("{} {}: {found}", output.styled(style, mark), check.name));
                }
                for advice in &found.recommendations {
                    output.line(format!("- {}", in_terminal(advice)));
                }
                output.line("Limits of time:");
                TIMEOUTS.iter().for_each(|text| output.line(format!("- {text}")));
            }
        }
        Ok(if found.ok { Exit::Done } else { Exit::Failed })
    }
}

/// What can be checked although the config is not trusted: git, the directory, and the CLIs that need no config.
async fn without_config(request: &goals::Doctor, refusal: &CommandError) -> Result<Diagnosis, CommandError> {
    let place = tempfile::tempdir().map_err(|error| no_room(&error))?;
    let running = bare(DataDir::new(place.path()).lock("goal doctor")?).await?;
    let connection = Connection::embedded(running);
    let found = connection.backend.call(request).await;
    connection.close().await;
    // Empty, because no goal ran there. What is in it otherwise stays.
    _ = std::fs::remove_dir(environment::checkouts(place.path()));
    let mut found = found?;
    found.ok = false;
    // Models are those of the config.
    found.backends.retain(|backend| backend.kind != "model");
    found.recommendations.retain(|advice| !advice.starts_with("model: "));
    let skipped = "`clis`, `providers` and `goals` of this config were not checked";
    let config = format!("{}; {skipped}", refusal.message);
    found.checks.push(DiagnosisCheck { name: "config".into(), ok: false, found: config });
    found.recommendations.extend(refusal.hint.clone());
    Ok(found)
}
