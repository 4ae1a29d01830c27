//! `drawloom defs ls`, `show`, `diff` and `verify`.

use std::path::PathBuf;

use clap::Args;
use drawloom_wire::definitions::{
    DefinitionPage, DefinitionReport, DiffDefinitions, GetDefinition, ListDefinitions, VerifyDefinition,
};

use crate::{
    cli::{Look, Quiet},
    commands::{
        Session,
        defs::{Kind, KindName, reference, remarks},
    },
    config,
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text, first_line},
};

/// List definitions, or the versions of one
#[derive(Debug, Args)]
pub struct List {
    /// List the versions of this name
    name: Option<String>,
    /// Show only definitions of this kind
    #[arg(long, value_enum)]
    kind: Option<KindName>,
    /// Show only definitions after this one
    #[arg(long, value_name = "KIND/NAME")]
    after: Option<String>,
    #[command(flatten)]
    ids: Quiet,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl List {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let kind = self.kind.map(Into::into);
        let ask = ListDefinitions { kind, name: self.name.clone(), after: self.after, limit: None };
        let page = connect::with(session, "defs ls", Need::Journal, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        match (output.format(), &self.name) {
            (Format::Json, _) => output.json(&page),
            (Format::Human, Some(_)) if self.ids.quiet => output.ids(page.versions.iter().map(|row| &row.def_id)),
            (Format::Human, None) if self.ids.quiet => output.ids(page.definitions.iter().map(|row| &row.name)),
            (Format::Human, Some(name)) if page.versions.is_empty() => {
                output.line(format!("{name} is defined in the config and has no versions"));
            }
            (Format::Human, Some(_)) => versions(session, &page),
            (Format::Human, None) if page.definitions.is_empty() => output.line("nothing is defined"),
            (Format::Human, None) => names(session, &page),
        }
        Ok(Exit::Done)
    }
}

fn versions(session: &Session, page: &DefinitionPage) {
    let local = session.local_time();
    let made = format!("made {}", local.zone());
    let columns = [
        Column::new("version"),
        Column::new("state"),
        Column::new("parent").shrinks_to(8),
        Column::new(&made),
        Column::new("content").shrinks_to(12),
    ];
    let rows = page.versions.iter().map(|row| {
        let state = match (row.retired, row.active) {
            (true, _) => "retired",
            (false, true) => "active",
            (false, false) => "",
        };
        [
            Text::new(&row.def_id).style(Style::Bold),
            Text::new(state),
            Text::new(row.parent.clone().unwrap_or_default()),
            Text::new(local.brief_of(&row.created_at)),
            Text::new(row.content_sha256.chars().take(12).collect::<String>()).style(Style::Dim),
        ]
    });
    session.output.table(columns, rows);
}

fn names(session: &Session, page: &DefinitionPage) {
    let columns = [
        Column::new("kind"),
        Column::new("name").shrinks_to(12),
        Column::new("origin"),
        Column::new("active").right(),
        Column::new("versions").right(),
        Column::new("about").shrinks_to(16),
    ];
    let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    let rows = page.definitions.iter().map(|row| {
        let about = match &row.unusable {
            Some(reason) => Text::new(first_line(&format!("cannot be used: {reason}"), 200)).style(Style::Notice),
            None => Text::new(first_line(row.description.as_deref().unwrap_or_default(), 200)),
        };
        [
            Text::new(row.kind.as_str()),
            Text::new(&row.name).style(Style::Bold),
            Text::new(&row.origin),
            Text::new(number(row.active)),
            Text::new(number(row.versions)),
            about,
        ]
    });
    session.output.table(columns, rows);
    for row in &page.definitions {
        for warning in &row.warnings {
            let text = format!("warning: {} {}: {warning}", row.kind.as_str(), row.name);
            session.output.note(session.output.beside(Style::Notice, &text));
        }
    }
    if let Some(next) = &page.next {
        session.output.note(format!("more definitions: --after {next}"));
    }
}

/// Show a version of a definition
#[derive(Debug, Args)]
pub struct Show {
    /// Name or NAME@VERSION; NAME alone means the active version
    version: String,
    #[command(flatten)]
    kind: Kind,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Show {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let (name, version) = reference(&self.version)?;
        let ask = GetDefinition { kind: self.kind.value(), name, version };
        let found = connect::with(session, "defs show", Need::Journal, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&found),
            Format::Human => {
                let state = match (found.retired, found.active) {
                    (true, _) => "retired",
                    (false, true) => "active",
                    (false, false) => "not active",
                };
                let made =
                    found.created_at.as_deref().map(|time| format!(", made {}", session.local_time().brief_of(time)));
                let from = found.parent.as_deref().map(|parent| format!(", from {parent}"));
                let made = made.unwrap_or_default();
                output.line(format!("{} ({state}{made}{})", found.def_id, from.unwrap_or_default()));
                if let Some(reason) = &found.unusable {
                    output.line(format!("cannot be used: {reason}"));
                }
                let source = serde_json::to_string_pretty(&found.source).unwrap_or_default();
                output.line(&source);
                remarks(session, &found.findings, &found.warnings);
            }
        }
        Ok(Exit::Done)
    }
}

/// Compare two versions
#[derive(Debug, Args)]
pub struct Diff {
    /// Old version: NAME@VERSION, or NAME for the active one
    from: String,
    /// New version
    to: String,
    #[command(flatten)]
    kind: Kind,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Diff {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = DiffDefinitions { kind: self.kind.value(), from: self.from, to: self.to };
        let diff = connect::with(session, "defs diff", Need::Journal, async |it| it.backend.call(&ask).await).await?;
        match session.output.format() {
            Format::Json => session.output.json(&diff),
            Format::Human if diff.same => session.output.line(format!("{} and {} are the same", diff.from, diff.to)),
            Format::Human => session.output.line(diff.diff.trim_end()),
        }
        Ok(Exit::Done)
    }
}

/// Report every problem of a definition without writing
///
/// Exits with 1 when it would be refused.
#[derive(Debug, Args)]
pub struct Verify {
    /// Name or NAME@VERSION
    name: String,
    /// File with the definition; without it, the stored version is verified with today's config
    file: Option<PathBuf>,
    #[command(flatten)]
    kind: Kind,
    /// Compare the active version with this digest
    #[arg(long, value_name = "SHA256")]
    sha256: Option<String>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Verify {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let (name, version) = reference(&self.name)?;
        let source = self.file.as_deref().map(config::read_value).transpose()?;
        let ask = VerifyDefinition { kind: self.kind.value(), name, source, version, content_sha256: self.sha256 };
        let need = Need::Engine(self.execution);
        let report = connect::with(session, "defs verify", need, async |it| it.backend.call(&ask).await).await?;
        match session.output.format() {
            Format::Json => session.output.json(&report),
            Format::Human => show(session, &report),
        }
        Ok(if report.valid { Exit::Done } else { Exit::Failed })
    }
}

fn show(session: &Session, report: &DefinitionReport) {
    let output = &session.output;
    for problem in &report.problems {
        let place = match problem.path.is_empty() || problem.message.starts_with(&problem.path) {
            true => String::new(),
            false => format!("{}: ", problem.path),
        };
        let hint = problem.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        output.line(format!("error: {place}{}{hint}", problem.message));
    }
    for excess in &report.excess {
        output.line(format!("denied: {}: {} ({})", excess.gate, excess.asked, excess.fix));
    }
    remarks(session, &report.findings, &report.warnings);
    if report.origin == "config" {
        return output.line(format!("{} is defined in the config, and valid", report.name));
    }
    let verdict = if report.valid { "would be accepted" } else { "would be refused" };
    let matches = match (&report.current_def_id, report.matches) {
        (Some(active), true) => format!("; {active}, the active version, has the same content"),
        (Some(active), false) => format!("; {active}, the active version, has other content"),
        (None, _) => String::new(),
    };
    output.line(format!("{} {verdict}{matches}", report.name));
}
