//! `drawloom trust`: shows what a config can do, and records that its user agrees.

use clap::Args;
use serde_json::json;

use crate::{
    cli::Look,
    commands::Session,
    config,
    exit::{CommandError, Exit},
    output::{Format, Style},
    trust::{self, Asking, Origin, Review},
};

/// Show what the config can do, and trust it
#[derive(Debug, Args)]
pub struct Trust {
    /// Trust it without asking
    #[arg(long, short)]
    yes: bool,
    /// Show what it can do and change nothing
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    show: bool,
    /// Stop trusting it; a running server continues
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

/// Shown below the help.
pub(crate) const HELP: &str = "\
Drawloom asks before it first uses a config from the current folder, because a config can start
programs, use keys and change files. It asks again when the config gets a new program, address,
writable volume or variable. `drawloom init` and --config FILE also trust a config.";

impl Trust {
    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let given = &session.globals.config;
        let files = config::find(given)?;
        if self.revoke {
            return revoke(session, &files);
        }
        let origin = Origin::of(given, &files);
        if origin == Origin::Found {
            trust::check_owner(&files)?;
        }
        let review = Review::of(&files, &config::load_files(&files)?)?;
        // A config in the user's own directory needs no agreement, only what is shown of it does.
        let known = origin == Origin::User || review.is_trusted();
        let asking = Asking::at(&session.output);
        let trusted = known || self.yes || (!self.show && review.ask(asking)?);
        if trusted && !self.show {
            review.bring_up_to_date()?;
        }
        match (session.output.format(), asking) {
            (Format::Json, _) => session.output.json(&review.to_json(trusted)),
            (Format::Human, Asking::Never) if !trusted && !self.show => {
                return Err(review.refusal().with_hint("`drawloom trust --yes` trusts it without asking"));
            }
            (Format::Human, _) => report(session, &review, trusted, self.show || known || self.yes),
        }
        Ok(if trusted || self.show { Exit::Done } else { Exit::NeedsInput })
    }
}

/// Says how it is. The list was shown already when a question was asked.
fn report(session: &Session, review: &Review, trusted: bool, with_list: bool) {
    let output = &session.output;
    let file = review.file().display();
    let mut lines = review.lines().peekable();
    if with_list && lines.peek().is_none() {
        output.line(format!("{file} starts no programs, uses no keys and changes no files: it needs no trust"));
        return;
    }
    if with_list {
        output.line(format!("{file}:"));
        lines.for_each(|line| output.line(format!("  {line}")));
    }
    output.line(match trusted {
        true => format!("{} {file}", output.styled(Style::Good, "✓ trusted")),
        false => format!("{} {file}", output.styled(Style::Bad, "✗ not trusted")),
    });
}

fn revoke(session: &Session, files: &[std::path::PathBuf]) -> Result<Exit, CommandError> {
    let file = trust::name(files);
    let revoked = trust::revoke(files)?;
    let output = &session.output;
    match output.format() {
        Format::Json => output.json(&json!({ "file": file, "revoked": revoked })),
        Format::Human if revoked => output.line(format!("{} is no longer trusted", file.display())),
        Format::Human => output.line(format!("{} was not trusted", file.display())),
    }
    Ok(Exit::Done)
}
