//! The skills of a folder.

use std::{collections::BTreeSet, path::PathBuf};

use drawloom_substrate::{SKILL_FILE, SKILL_FILE_LIMIT};

use super::{Item, Kind, Note, map::Mapping, names, read_limited, report::shown, tree::Entry};
use crate::frontmatter::Document;

/// A skill, ready to be copied or read where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skill {
    /// Its name, which is that of its folder.
    pub(crate) name: String,
    /// What its file calls it.
    pub(crate) original: String,
    pub(crate) folder: PathBuf,
    pub(crate) source: String,
}

/// Fields of the format, and what happens to them.
const KEPT: [&str; 3] = ["description", "license", "metadata"];

const DROPPED: &[(&str, &str)] = &[
    ("allowed-tools", "a skill gives no tools: those of the agent hold"),
    ("allowed_tools", "a skill gives no tools: those of the agent hold"),
    ("tools", "a skill gives no tools: those of the agent hold"),
    ("disallowed-tools", "a skill takes no tools away: those of the agent hold"),
    ("model", "a skill has no model: that of the agent holds"),
    ("effort", "a skill has no effort: that of the agent holds"),
    ("hooks", "hooks run commands of Claude Code; Drawloom has no hooks"),
    ("context", "a skill is loaded into the context of the agent; for a separate context, use an agent"),
    ("agent", "a skill is loaded into the agent that asks for it"),
    ("disable-model-invocation", "the gate `skills` of an agent decides whether it may load a skill"),
    ("user-invocable", "skills are for agents; the gate `skills` decides"),
    ("argument-hint", "skills take no arguments"),
    ("when_to_use", "put it into `description`"),
    ("version", "skills have no version"),
    ("compatibility", "for people only; the file keeps it"),
];

pub(super) fn map(entries: &[Entry], mapping: &mut Mapping<'_>) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for entry in entries {
        let folder = entry.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let source = format!("{}/{SKILL_FILE}", entry.shown);
        let leave = |reason: String| Item::dropped(Kind::Skill, folder.clone(), source.clone(), reason);
        let file = entry.path.join(SKILL_FILE);
        if file.is_symlink() {
            mapping.items.push(leave("this is a link; a skill is read from its own folder".into()));
            continue;
        }
        let bytes = match read_limited(&file, SKILL_FILE_LIMIT) {
            Ok(bytes) => bytes,
            Err(reason) => {
                mapping.items.push(leave(reason));
                continue;
            }
        };
        let Ok(text) = String::from_utf8(bytes) else {
            mapping.items.push(leave("this is not UTF-8 text".into()));
            continue;
        };
        let document = Document::parse(&text);
        let original = document.text("name").unwrap_or_else(|| folder.clone());
        let wanted = names::slug(&original).or_else(|| names::slug(&folder)).unwrap_or_else(|| "skill".into());
        let groups: Vec<String> =
            entry.groups.last().and_then(|group| names::slug(group)).into_iter().chain(entry.plugin.clone()).collect();
        let name = names::unique(&wanted, "-", &groups, &mut taken);
        let mut item = Item::new(Kind::Skill, name.clone(), source.clone());
        item.notes.push(match (document.text("name"), name == original) {
            (Some(_), true) => Note::mapped("name", &name),
            (Some(said), false) => Note::translated("name", said, &name, "the folder's name is the name of a skill"),
            (None, _) => Note::translated("name", "(absent)", &name, "the name of the folder"),
        });
        for (line, fault) in &document.faults {
            item.notes.push(Note::translated("frontmatter", "", "fields", format!("line {line}: {fault}")));
        }
        if document.text("description").is_none() {
            item.notes.push(Note::dropped("description", "", "there is none: a model cannot know when to load it"));
        }
        for (key, field) in document.fields.iter().filter(|(key, _)| *key != "name") {
            let reason = DROPPED.iter().find(|(known, _)| known == key).map(|(_, reason)| *reason);
            match reason {
                None if KEPT.contains(&key.as_str()) => item.notes.push(super::map::kept(key)),
                reason => {
                    let reason = reason.unwrap_or("not a field of the Agent Skills format that this version knows");
                    item.notes.push(Note::dropped(key, shown(&field.value), reason));
                }
            }
        }
        mapping.items.push(item);
        mapping.skills.push(Skill { name, original, folder: entry.path.clone(), source });
    }
}
