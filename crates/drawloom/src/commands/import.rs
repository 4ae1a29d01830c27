//! `drawloom import`: brings agents, skills, commands and MCP servers of Claude Code over.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::{
    cli::Look,
    commands::{
        Session,
        init::{self, NewVolume},
    },
    config,
    exit::{CommandError, Exit},
    import::{self, Action, Kind, Plan, Report, Request},
    output::{Column, Format, Output, Style, Text},
    trust,
};

/// The config file that is made when there is none.
const FILE: &str = "drawloom.yaml";

/// Most names in one line of the report.
const MOST_NAMES: usize = 3;

/// Import agents, skills, commands and MCP servers from another program
#[derive(Debug, Subcommand)]
pub enum Import {
    /// Import agents, skills, commands and MCP servers from Claude Code
    #[command(after_help = HELP)]
    ClaudeCode(ClaudeCode),
}

const HELP: &str = "\
The report lists every field: imported, translated or dropped, with the reason. Imported agents get
no access to other agents, hosts, volumes or skills; the report has the lines that grant it.
Importing twice changes nothing. Agents that you edited are kept, unless you pass --force.";

/// Import agents, skills, commands and MCP servers from Claude Code
#[derive(Debug, Args)]
pub struct ClaudeCode {
    /// Folder to read: a .claude folder, a project with one, a plugin, or a collection of plugins [default: .claude beside the config]
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Write the config and copy the skills; without this, only report what would change
    #[arg(long)]
    write: bool,
    /// Config file to create or edit [default: the config that other commands use, else ./drawloom.yaml]
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Copy skills to this folder [default: skills beside the config]
    #[arg(long, value_name = "DIR")]
    skills_dest: Option<PathBuf>,
    /// Replace agents, prompts, servers and skills that you edited or wrote
    #[arg(long)]
    force: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Import {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::ClaudeCode(claude) => claude.look,
        }
    }

    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::ClaudeCode(claude) => claude.perform(session),
        }
    }
}

impl ClaudeCode {
    fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let given = &session.globals.config;
        let found = || config::find_project().unwrap_or_else(|| FILE.into());
        let into = self.into.clone().or_else(|| given.first().cloned()).unwrap_or_else(found);
        let folder = into.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        let from = self.from.clone().unwrap_or_else(|| folder.join(".claude"));
        if !from.is_dir() {
            return Err(CommandError::usage("not_found", format!("{} is not a directory", from.display()))
                .with_hint("name the folder of Claude Code with --from DIR"));
        }
        let files = if given.contains(&into) { given.clone() } else { vec![into.clone()] };
        let _lock = self.write.then(|| import::lock(&folder, &into)).transpose()?;
        let new_volume = match into.exists() || init::exposed(&into, session)?.is_none() {
            true => NewVolume::ReadOnly,
            false => NewVolume::None,
        };
        let is_new = !into.exists();
        let skills = self.skills_dest.clone().unwrap_or_else(|| folder.join("skills"));
        let force = self.force;
        let mut plan = import::plan(Request { from, into, files, skills, new_volume, force })?;
        if plan.report.items.iter().all(|item| item.action == Action::Dropped) {
            plan.report.next = "drawloom import claude-code --from DIR".into();
            show(&session.output, &plan.report, is_new);
            return Err(CommandError::usage("not_found", format!("nothing to import in {}", plan.report.from))
                .with_hint("name a folder with agents, skills, commands or .mcp.json with --from DIR"));
        }
        let at = |command: &str| match (&self.into, given.is_empty()) {
            (Some(into), _) => format!("{command} --config {}", into.display()),
            (None, false) => format!("{command} --config {}", plan.request.into.display()),
            (None, true) => command.to_owned(),
        };
        if !self.write {
            plan.report.next = if plan.is_nothing() { next(&plan, &at) } else { self.again() };
            show(&session.output, &plan.report, is_new);
            return Ok(Exit::Done);
        }
        if !plan.is_nothing() {
            import::write(&plan)?;
            plan.report.written = true;
        }
        let is_trusted = is_trusted(&plan, is_new);
        plan.report.next = if is_trusted { next(&plan, &at) } else { at("drawloom trust") };
        show(&session.output, &plan.report, is_new);
        Ok(Exit::Done)
    }

    /// The same command with --write.
    fn again(&self) -> String {
        let mut command = "drawloom import claude-code".to_owned();
        let paths = [("--from", &self.from), ("--into", &self.into), ("--skills-dest", &self.skills_dest)];
        for (flag, path) in paths.into_iter().filter_map(|(flag, path)| Some((flag, path.as_ref()?))) {
            command.push_str(&format!(" {flag} {}", path.display()));
        }
        if self.force {
            command.push_str(" --force");
        }
        format!("{command} --write")
    }
}

/// Whether the config may be used as it is now. One that this command made is, unless it starts programs or calls addresses
/// that came from the folder.
fn is_trusted(plan: &Plan, is_new: bool) -> bool {
    let files = &plan.request.files;
    if is_new && !plan.adds_servers {
        return trust::agree(&plan.request.into).is_ok();
    }
    let Ok(loaded) = config::load_files(files) else { return true };
    trust::Review::of(files, &loaded).is_ok_and(|review| review.is_trusted())
}

/// What to do with what was imported.
fn next(plan: &Plan, at: &dyn Fn(&str) -> String) -> String {
    let agents = plan.report.items.iter().filter(|item| item.kind == Kind::Agent && item.action != Action::Dropped);
    match agents.min_by_key(|item| item.action) {
        Some(agent) => at(&format!("drawloom run {} 'Say what you can do'", agent.name)),
        None => at("drawloom validate"),
    }
}

fn show(output: &Output, report: &Report, is_new: bool) {
    if output.format() == Format::Json {
        return output.json(report);
    }
    let counts = report.counts();
    let used = report.items.iter().filter(|item| item.action != Action::Dropped);
    output.table(
        [
            Column::new("kind"),
            Column::new("name").shrinks_to(12),
            Column::new("action"),
            Column::new("from").shrinks_to(16).optional(1),
            Column::new("reason").shrinks_to(16).optional(2),
        ],
        used.map(|item| {
            let style = match item.action {
                Action::Add | Action::Update => Style::Good,
                Action::Unchanged => Style::Dim,
                Action::Kept | Action::Dropped => Style::Notice,
            };
            [
                Text::new(item.kind.word()),
                Text::new(&item.name).style(Style::Bold),
                Text::new(item.action.word()).style(style),
                Text::new(&item.source),
                Text::new(item.reason.as_deref().unwrap_or_default()),
            ]
        }),
    );
    let wrapped = |lines: &mut Vec<String>, head: &str, text: &str| {
        let width = output.width().unwrap_or(100).saturating_sub(4).max(20);
        let mut parts = crate::output::wrap(&crate::output::shown(&format!("{head}{text}")), width).into_iter();
        lines.extend(parts.next().map(|first| format!("  {first}")));
        lines.extend(parts.map(|rest| format!("    {rest}")));
    };
    let section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            output.line(format!("\n{}", output.styled(Style::Bold, title)));
            lines.iter().for_each(|line| output.line(line));
        }
    };
    let mut lines = Vec::new();
    for (kind, note, about) in report.grouped_notes() {
        let value = note.value.as_ref().filter(|_| about.len() == 1);
        let value = value.map(|value| format!(" {value}")).unwrap_or_default();
        let becomes = note.becomes.as_ref().map(|becomes| format!(" to {becomes}")).unwrap_or_default();
        let head = format!("{} {}: {}{value} {}{becomes}", kind.word(), names(&about), note.field, note.outcome.word());
        let reason = note.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        wrapped(&mut lines, &head, &reason);
    }
    section("Translated and dropped fields", lines);
    let mut lines = Vec::new();
    for item in report.items.iter().filter(|item| item.action == Action::Dropped) {
        let head = format!("{} {} ({})", item.kind.word(), item.name, item.source);
        wrapped(&mut lines, &head, &format!(": {}", item.reason.as_deref().unwrap_or_default()));
    }
    section("Not brought over", lines);
    let mut lines = Vec::new();
    for line in &report.also {
        wrapped(&mut lines, line, "");
    }
    section("Also added to the config", lines);
    let mut lines = Vec::new();
    for (proposal, about) in Report::grouped_proposals(&report.proposals) {
        let place = match proposal.at.len() {
            1 => proposal.at[0].clone(),
            _ => format!("{}.{}", proposal.at[0], names(&about)),
        };
        wrapped(&mut lines, &format!("{place}: {}", proposal.line), &format!("  # {}", proposal.reason));
    }
    section("Gates stay closed; to open them, write", lines);
    let sum =
        |action: Action| counts.iter().filter(|((_, of), _)| *of == action).map(|(_, count)| count).sum::<usize>();
    let actions = [Action::Add, Action::Update, Action::Unchanged, Action::Kept, Action::Dropped];
    let said: Vec<String> = actions
        .into_iter()
        .filter(|action| sum(*action) > 0)
        .map(|action| format!("{} {}", sum(action.to_owned()), action.word()))
        .collect();
    let what = match (report.written, is_new) {
        (true, true) => format!("wrote {}, a new config", report.into),
        (true, false) => format!("wrote {}", report.into),
        (false, _) => format!("nothing was written to {}", report.into),
    };
    output.line(format!("\n{}: {}", said.join(", "), what));
    output.line(format!("Next: {}", output.styled(Style::Bold, &report.next)));
}

/// Names on one line, the first few of many.
fn names(names: &[&str]) -> String {
    let mut names: Vec<&str> = names.to_vec();
    names.dedup();
    match names.len() > MOST_NAMES {
        true => format!("{} and {} more", names[..MOST_NAMES].join(", "), names.len() - MOST_NAMES),
        false => names.join(", "),
    }
}
