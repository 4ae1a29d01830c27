//! `drawloom doctor`: what is wrong here, and what to do about it.

mod checks;

use clap::Args;
use serde::Serialize;

use crate::{
    cli::Look,
    commands::Session,
    exit::{CommandError, Exit},
    output::{Format, Style},
};

/// Find out what is wrong here
#[derive(Debug, Args)]
pub struct Doctor {
    /// For whom the output is.
    #[command(flatten)]
    pub(crate) look: Look,
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Pass,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    verdict: Verdict,
    what: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Everything that was looked at, in order.
#[derive(Debug, Default, Serialize)]
struct Report {
    checks: Vec<Check>,
}

impl Report {
    fn add(&mut self, verdict: Verdict, what: &'static str, message: impl Into<String>, hint: Option<String>) {
        self.checks.push(Check { verdict, what, message: message.into(), hint });
    }

    fn pass(&mut self, what: &'static str, message: impl Into<String>) {
        self.add(Verdict::Pass, what, message, None);
    }

    fn fail(&mut self, what: &'static str, error: &CommandError) {
        let details =
            error.details.iter().fold(error.message.clone(), |text, detail| format!("{text}\n       {detail}"));
        self.add(Verdict::Fail, what, details, error.hint.clone());
    }
}

impl Doctor {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let mut report = Report::default();
        checks::all(session, &mut report).await;
        let failed = report.checks.iter().any(|check| check.verdict == Verdict::Fail);
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&report),
            Format::Human => {
                for check in &report.checks {
                    let word = match check.verdict {
                        Verdict::Pass => output.styled(Style::Good, "PASS"),
                        Verdict::Warn => output.styled(Style::Notice, "WARN"),
                        Verdict::Fail => output.styled(Style::Bad, "FAIL"),
                    };
                    output.line(format!("{word}   {}: {}", check.what, check.message));
                    if let Some(hint) = &check.hint {
                        output.line(format!("       {hint}"));
                    }
                }
            }
        }
        Ok(if failed { Exit::Failed } else { Exit::Done })
    }
}
