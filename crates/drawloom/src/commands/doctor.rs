//! `drawloom doctor`: what is wrong here, and what to do about it.

mod checks;
mod definitions;
mod machine;
mod outside;

use clap::Args;
use serde::Serialize;

use crate::{
    cli::Look,
    commands::Session,
    exit::{CommandError, Exit},
    logging::masked,
    output::{Format, Output, Style, shown, wrap},
};

/// The width of a line, when the terminal does not say.
const USUAL_WIDTH: usize = 120;

/// Find problems with the config, data, server and machine
#[derive(Debug, Args)]
pub struct Doctor {
    /// Check every API key with one call to its provider
    #[arg(long)]
    keys: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
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
    /// What to do, failures first.
    todo: Vec<String>,
}

impl Report {
    fn add(&mut self, verdict: Verdict, what: &'static str, message: impl Into<String>, hint: Option<String>) {
        // A provider may repeat the key that it was given.
        let (message, hint) = (masked(&message.into()), hint.as_deref().map(masked));
        self.checks.push(Check { verdict, what, message, hint });
    }

    fn ok(&mut self, what: &'static str, message: impl Into<String>) {
        self.add(Verdict::Ok, what, message, None);
    }

    fn fail(&mut self, what: &'static str, error: &CommandError) {
        let details = error.details.iter().fold(error.message.clone(), |text, detail| format!("{text}\n{detail}"));
        self.add(Verdict::Fail, what, details, error.hint.clone());
    }
}

impl Doctor {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let mut report = Report::default();
        checks::all(session, &mut report, self.keys).await;
        report.todo = report.steps();
        let failed = report.checks.iter().any(|check| check.verdict == Verdict::Fail);
        match session.output.format() {
            Format::Json => session.output.json(&report),
            Format::Human => report.show(&session.output),
        }
        Ok(if failed { Exit::Failed } else { Exit::Done })
    }
}

impl Report {
    fn show(&self, output: &Output) {
        let name_width = self.checks.iter().map(|check| check.what.len()).max().unwrap_or(0);
        let indent = 4 + 2 + name_width + 2;
        let width = output.width().unwrap_or(USUAL_WIDTH).saturating_sub(indent).max(20);
        for check in &self.checks {
            let (word, style) = match check.verdict {
                Verdict::Ok => ("ok  ", Style::Good),
                Verdict::Warn => ("warn", Style::Notice),
                Verdict::Fail => ("FAIL", Style::Bad),
            };
            let mut lines = check.message.lines().flat_map(|line| wrap(&shown(line), width));
            let first = lines.next().unwrap_or_default();
            let name = output.styled(Style::Bold, &format!("{:<name_width$}", check.what));
            output.line(format!("{}  {name}  {first}", output.styled(style, word)));
            for line in lines {
                output.line(format!("{}{line}", " ".repeat(indent)));
            }
        }
        let count = |verdict: Verdict, one: &str, many: &str| match self
            .checks
            .iter()
            .filter(|check| check.verdict == verdict)
            .count()
        {
            0 => None,
            1 => Some(format!("1 {one}")),
            number => Some(format!("{number} {many}")),
        };
        let failed = count(Verdict::Fail, "problem", "problems");
        let found: Vec<String> = failed.into_iter().chain(count(Verdict::Warn, "warning", "warnings")).collect();
        if found.is_empty() {
            return output.line(format!("\n{}", output.styled(Style::Good, "all is well")));
        }
        output.line(format!("\n{}. What to do:", found.join(", ")));
        let width = output.width().unwrap_or(USUAL_WIDTH).saturating_sub(4).max(20);
        for step in &self.todo {
            for (index, line) in wrap(&shown(step), width).iter().enumerate() {
                let lead = if index == 0 { "  → " } else { "    " };
                output.line(format!("{lead}{}", output.styled(Style::Notice, line)));
            }
        }
    }

    /// The hints, each once, those of failures first.
    fn steps(&self) -> Vec<String> {
        let mut steps: Vec<String> = Vec::new();
        for verdict in [Verdict::Fail, Verdict::Warn] {
            for hint in
                self.checks.iter().filter(|check| check.verdict == verdict).filter_map(|check| check.hint.as_ref())
            {
                if !steps.contains(hint) {
                    steps.push(hint.clone());
                }
            }
        }
        steps
    }
}
