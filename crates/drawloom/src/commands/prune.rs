//! `drawloom prune`: deletes old runs, after it has shown how many and asked.

use clap::Args;

use drawloom_wire::runs::{PruneReport, PruneRuns};

use crate::{
    cli::Look,
    commands::Session,
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Text, count},
};

/// Delete old runs
///
/// Deletes runs that ended long ago, with their child runs. Runs that have not ended are kept, and so are runs that share a
/// session or a batch with a run that is kept, and goals until `drawloom goal rm`.
#[derive(Debug, Args)]
pub struct Prune {
    /// Delete runs that ended this long ago, such as 30d, 12h or 90m
    #[arg(long, value_name = "AGE", value_parser = crate::commands::age)]
    older_than: u64,
    /// Show which runs would be deleted, and delete nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Delete without asking
    #[arg(long, short)]
    yes: bool,
    /// Delete runs of all tenants
    #[arg(long)]
    all_tenants: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Prune {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let output = &session.output;
        let mut agreed = None;
        if !self.yes {
            let preview = self.call(session, Step::Preview).await?;
            if self.dry_run {
                match output.format() {
                    Format::Json => output.json(&preview),
                    Format::Human => {
                        output.line(describe(session, "would delete", &preview));
                        show(session, &preview);
                    }
                }
                return Ok(Exit::Done);
            }
            let question = describe(session, "would delete", &preview);
            if !output.can_ask() {
                let message = format!("{question}; not deleted, because stdin is not a terminal to ask on");
                let error = CommandError::usage("no_answer", message);
                return Err(CommandError { exit: Exit::NeedsInput, ..error }
                    .with_hint("pass --yes to delete them, or --dry-run to only show this"));
            }
            output.note(&question);
            if preview.runs == 0 {
                return Ok(Exit::Done);
            }
            if !output.confirm("Delete them? [y/N] ")? {
                output.note("nothing was deleted");
                return Ok(Exit::NeedsInput);
            }
            agreed = Some(preview.ended_before);
        }
        let report = self.call(session, Step::Delete { agreed }).await?;
        match output.format() {
            Format::Json => output.json(&report),
            Format::Human => {
                output.line(describe(session, "deleted", &report));
                if report.runs > 0 {
                    output.note("the store reuses the space; `drawloom backup` and `drawloom restore` shrink the file");
                }
            }
        }
        Ok(Exit::Done)
    }

    async fn call(&self, session: &Session, step: Step) -> Result<PruneReport, CommandError> {
        let (need, dry_run, ended_before) = match step {
            Step::Preview => (Need::Journal, true, None),
            Step::Delete { agreed } => (Need::Change, false, agreed),
        };
        let (older_than_seconds, all_tenants) = (self.older_than, self.all_tenants);
        let ask = PruneRuns { older_than_seconds, ended_before, dry_run, all_tenants, idempotency_key: None };
        connect::with(session, "prune", need, async |it| it.backend.call(&ask).await).await
    }
}

#[derive(Debug)]
enum Step {
    Preview,
    /// Nothing that ended at the time that was agreed to or later.
    Delete {
        agreed: Option<String>,
    },
}

/// The first of the top-level runs that would be deleted.
fn show(session: &Session, report: &PruneReport) {
    let output = &session.output;
    let named = &report.top_level;
    if named.is_empty() {
        return;
    }
    let local = session.local_time();
    let columns = [Column::new("run"), Column::new("agent").shrinks_to(6), Column::new("status"), Column::new("ended")];
    output.table(
        columns,
        named.iter().map(|run| {
            let agent = match (&run.agent, &run.tenant) {
                (Some(agent), _) => agent.to_string(),
                (None, tenant) => tenant.iter().map(|tenant| format!("of the tenant {tenant}")).collect(),
            };
            let status = run.status.map_or_else(String::new, |status| status.as_str().replace('_', " "));
            let ended = run.ended_at.as_deref().map_or_else(String::new, |ended| local.whole_of(ended));
            [Text::new(run.run_id.to_string()), Text::new(agent), Text::new(status), Text::new(ended)]
        }),
    );
    let more = report.trees.saturating_sub(named.len() as u64);
    if more > 0 {
        output.note(format!("and {} more", count(more)));
    }
}

/// `would delete 50 runs (38 top-level) that ended before 2026-11-17 19:29:04 CET`
fn describe(session: &Session, verb: &str, report: &PruneReport) -> String {
    let before = session.local_time().whole_of(&report.ended_before);
    let runs = if report.runs == 1 { "1 run".to_owned() } else { format!("{} runs", count(report.runs)) };
    format!("{verb} {runs} ({} top-level) that ended before {before}", count(report.trees))
}
