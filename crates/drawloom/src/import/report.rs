//! What became of everything: one item for each thing that was found, one note for each of its fields.

use std::{collections::BTreeMap, sync::OnceLock};

use drawloom_contract::redact::Redactor;
use serde::Serialize;
use serde_json::Value;

/// Most characters of a value in a note.
const MOST_VALUE: usize = 60;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Agent,
    Skill,
    Prompt,
    McpServer,
    Hook,
    Permission,
    Setting,
    Plugin,
    File,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Skill => "skill",
            Self::Prompt => "prompt",
            Self::McpServer => "mcp server",
            Self::Hook => "hook",
            Self::Permission => "permission",
            Self::Setting => "setting",
            Self::Plugin => "plugin",
            Self::File => "file",
        }
    }
}

/// What happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// It is new in the config.
    Add,
    /// It is in the config from an earlier import, and its source has changed.
    Update,
    /// It is in the config as it would be written.
    Unchanged,
    /// It is in the config and was edited there, or does not come from an import; it is left alone.
    Kept,
    /// It is not brought over.
    Dropped,
}

impl Action {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Update => "update",
            Self::Unchanged => "unchanged",
            Self::Kept => "kept",
            Self::Dropped => "dropped",
        }
    }
}

/// What became of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The config says the same.
    Mapped,
    /// The config says what comes closest.
    Translated,
    /// The config does not say it.
    Dropped,
}

impl Outcome {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Translated => "translated",
            Self::Dropped => "dropped",
        }
    }
}

/// What became of one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Note {
    pub(crate) field: String,
    pub(crate) outcome: Outcome,
    /// What it said, cut and masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
    /// What the config says instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) becomes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

impl Note {
    /// What notes that say the same have in common.
    fn key(&self) -> (Outcome, &str, Option<&str>, Option<&str>) {
        (self.outcome, &self.field, self.becomes.as_deref(), self.reason.as_deref())
    }

    pub(crate) fn mapped(field: &str, becomes: impl Into<String>) -> Self {
        Self { field: field.into(), outcome: Outcome::Mapped, value: None, becomes: Some(becomes.into()), reason: None }
    }

    pub(crate) fn translated(
        field: &str,
        value: impl AsRef<str>,
        becomes: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        let value = Some(short(value.as_ref()));
        let becomes = Some(short(&becomes.into()));
        Self { field: field.into(), outcome: Outcome::Translated, value, becomes, reason: Some(reason.into()) }
    }

    pub(crate) fn dropped(field: &str, value: impl AsRef<str>, reason: impl Into<String>) -> Self {
        let value = Some(short(value.as_ref())).filter(|value| !value.is_empty());
        Self { field: field.into(), outcome: Outcome::Dropped, value, becomes: None, reason: Some(reason.into()) }
    }
}

/// A text on one line, masked and cut.
pub(crate) fn short(text: &str) -> String {
    static REDACTOR: OnceLock<Redactor> = OnceLock::new();
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    REDACTOR.get_or_init(|| Redactor::new([""; 0])).mask(&mut line);
    if let Some((end, _)) = line.char_indices().nth(MOST_VALUE) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// A value of a field on one line.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => short(text),
        Value::Null => String::new(),
        other => short(&other.to_string()),
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    /// Its name in the config, or what it is called where it was found.
    pub(crate) name: String,
    /// Its file, relative to the folder that was read.
    pub(crate) source: String,
    pub(crate) action: Action,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) notes: Vec<Note>,
}

impl Item {
    pub(crate) fn new(kind: Kind, name: impl Into<String>, source: impl Into<String>) -> Self {
        let (name, source) = (name.into(), source.into());
        Self { kind, name, source, action: Action::Add, reason: None, notes: Vec::new() }
    }

    pub(crate) fn dropped(
        kind: Kind,
        name: impl Into<String>,
        source: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self { action: Action::Dropped, reason: Some(reason.into()), ..Self::new(kind, name, source) }
    }
}

/// A line that the operator may write: import never opens a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Proposal {
    /// Where in the config: `agents.NAME`, or a section.
    pub(crate) at: Vec<String>,
    pub(crate) line: String,
    pub(crate) reason: String,
}

/// Everything that import says.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    pub(crate) from: String,
    pub(crate) into: String,
    pub(crate) written: bool,
    pub(crate) items: Vec<Item>,
    pub(crate) proposals: Vec<Proposal>,
    /// What else is added to the config, such as tiers.
    pub(crate) also: Vec<String>,
    /// The next command to run.
    pub(crate) next: String,
}

impl Report {
    /// How many things of each kind there are for each action.
    pub(crate) fn counts(&self) -> BTreeMap<(Kind, Action), usize> {
        let mut counts = BTreeMap::new();
        for item in &self.items {
            *counts.entry((item.kind, item.action)).or_default() += 1;
        }
        counts
    }

    /// Notes that say the same, each once, with the names of what they are about.
    pub(crate) fn grouped_notes(&self) -> Vec<(Kind, &Note, Vec<&str>)> {
        let mut all: Vec<(Kind, &Note, &str)> = Vec::new();
        for item in self.items.iter().filter(|item| item.action != Action::Dropped) {
            let notes = item.notes.iter().filter(|note| note.outcome != Outcome::Mapped);
            all.extend(notes.map(|note| (item.kind, note, item.name.as_str())));
        }
        all.sort_by_key(|(kind, note, _)| (*kind, note.key()));
        let mut groups: Vec<(Kind, &Note, Vec<&str>)> = Vec::new();
        for (kind, note, name) in all {
            match groups.last_mut().filter(|(last, first, _)| *last == kind && first.key() == note.key()) {
                Some((_, _, names)) => names.push(name),
                None => groups.push((kind, note, vec![name])),
            }
        }
        groups
    }

    /// Proposals that say the same, each once, with what they are for.
    pub(crate) fn grouped_proposals(proposals: &[Proposal]) -> Vec<(&Proposal, Vec<&str>)> {
        let mut groups: Vec<(&Proposal, Vec<&str>)> = Vec::new();
        for proposal in proposals {
            let name = proposal.at.get(1).map_or("", String::as_str);
            let same = groups.iter_mut().find(|(first, _)| {
                first.at.first() == proposal.at.first()
                    && first.line == proposal.line
                    && first.reason == proposal.reason
            });
            match same {
                Some((_, names)) => names.push(name),
                None => groups.push((proposal, vec![name])),
            }
        }
        groups
    }
}
