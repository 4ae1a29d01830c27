//! `drawloom prune`: removes runs that ended long ago.

use clap::Args;

use drawloom_wire::runs::PruneRuns;

use crate::{
    cli::Look,
    commands::Session,
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Format, count},
};

/// Remove runs that ended long ago
#[derive(Debug, Args)]
pub struct Prune {
    /// How long ago a run must have ended, such as 30d, 12h or 90m
    #[arg(long, value_name = "AGE", value_parser = crate::commands::age)]
    older_than: u64,
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
    /// Of all tenants, not only your own
    #[arg(long)]
    all_tenants: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Prune {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = PruneRuns {
            older_than_seconds: self.older_than,
            dry_run: self.dry_run,
            all_tenants: self.all_tenants,
            idempotency_key: None,
        };
        let need = if self.dry_run { Need::Journal } else { Need::Change };
        let report = connect::with(session, "prune", need, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&report),
            Format::Human => {
                let verb = if report.dry_run { "would go" } else { "are gone" };
                output.line(format!(
                    "{} runs in {} trees {verb}, with {} records; they ended before {}",
                    count(report.runs),
                    count(report.trees),
                    count(report.records),
                    report.ended_before,
                ));
                if !report.dry_run && report.runs > 0 {
                    output.note(
                        "the store keeps its size and reuses the space; `drawloom backup` and `restore` make it small",
                    );
                }
            }
        }
        Ok(Exit::Done)
    }
}
