//! `drawloom runs show`.

use clap::Args;

use drawloom_wire::runs::RunResult;

use crate::{
    cli::Look,
    commands::{Session, run, runs::Handle},
    connect::{self, Need},
    exit::{CommandError, Exit},
    live::duration,
    output::{Format, Output, Style},
};

/// Show one run
#[derive(Debug, Args)]
pub struct Show {
    /// The run, or the caller's handle of it
    #[arg(value_name = "RUN")]
    run: Handle,
    /// Wait until it has ended
    #[arg(long)]
    wait: bool,
    /// For whom the output is.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Show {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = self.run.ask()?;
        let result = connect::with(session, "runs show", Need::Journal, async |connection| {
            if self.wait {
                connection.refuse_embedded("--wait")?;
            }
            let result = connection.backend.get_run(ask).await?;
            match self.wait && !result.status.is_terminal() {
                true => run::wait(connection, result.run_id).await,
                false => Ok(result),
            }
        })
        .await?;
        match session.output.format() {
            Format::Json => session.output.json(&result),
            Format::Human => show(&session.output, &result),
        }
        Ok(Exit::Done)
    }
}

fn show(output: &Output, run: &RunResult) {
    let line = |name: &str, value: String| {
        output.line(format!("{} {value}", output.styled(Style::Dim, &format!("{name:<9}"))))
    };
    line("run", run.run_id.to_string());
    line("agent", format!("{} ({}/{})", run.agent, run.provider, run.model));
    let position = run.position.map(|position| format!(", place {position} in the queue")).unwrap_or_default();
    let reason = run.stop_reason.map(|reason| format!(" ({})", reason.as_str())).unwrap_or_default();
    line("status", format!("{}{reason}{position}", run.status.as_str()));
    line("handle", run.agent_id.to_string());
    line("session", run.session_id.to_string());
    line("user", run.user_id.to_string());
    if let Some(parent) = run.parent_run_id {
        line("parent", format!("{parent} (depth {})", run.depth));
    }
    if let Some(batch) = run.batch_id {
        line("batch", format!("{batch}, index {}", run.index.unwrap_or_default()));
    }
    line("accepted", run.timings.accepted_at.clone());
    if let Some(queued) = run.timings.queued_ms {
        line("queued", duration(queued));
    }
    if let Some(took) = run.timings.run_ms {
        line("ran", duration(took));
    }
    line("tokens", format!("{} in, {} out", run.usage.input_tokens, run.usage.output_tokens));
    for warning in &run.warnings {
        line("warning", warning.clone());
    }
    if let Some(error) = &run.error {
        line("error", format!("{} ({})", error.message, error.code));
        if let Some(hint) = &error.hint {
            line("hint", hint.clone());
        }
    }
    if let Some(text) = &run.final_text {
        output.line("");
        output.line(text);
    }
}
