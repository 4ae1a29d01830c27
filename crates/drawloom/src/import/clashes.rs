//! Names that belong to files which were imported before: a new file does not take one over.

use super::{Action, Item, Kind, Mapped, Note, splice::Editor};

/// Something with a name in the config and the file that it came from.
trait Named {
    fn name(&mut self) -> &mut String;
    fn source(&self) -> &str;
}

impl Named for super::agents::Agent {
    fn name(&mut self) -> &mut String {
        &mut self.name
    }

    fn source(&self) -> &str {
        &self.source
    }
}

impl Named for super::prompts::Prompt {
    fn name(&mut self) -> &mut String {
        &mut self.name
    }

    fn source(&self) -> &str {
        &self.source
    }
}

/// Gives names back to the files that they were imported from, and leaves out those that would take them over. A file that is
/// gone has no claim: what has its name now is the same thing, moved.
pub(super) fn settle(mapped: &mut Mapped, editor: &Editor<'_>) {
    for (old, new) in settle_kind(&mut mapped.agents, &mut mapped.items, Kind::Agent, "agents", editor) {
        let is_at = |at: &[String], name: &str| at.len() == 2 && at[0] == "agents" && at[1] == name;
        mapped.proposals.retain(|proposal| !is_at(&proposal.at, &new));
        for proposal in mapped.proposals.iter_mut().filter(|proposal| is_at(&proposal.at, &old)) {
            proposal.at[1].clone_from(&new);
        }
    }
    settle_kind(&mut mapped.prompts, &mut mapped.items, Kind::Prompt, "prompts", editor);
}

/// Returns the names that entries had and those that they have now.
fn settle_kind<T: Named>(
    entries: &mut Vec<T>,
    items: &mut [Item],
    kind: Kind,
    section: &str,
    editor: &Editor<'_>,
) -> Vec<(String, String)> {
    let mut renamed = Vec::new();
    let mut at = 0;
    while at < entries.len() {
        let (name, source) = (entries[at].name().clone(), entries[at].source().to_owned());
        let owner = editor.marker(&[section, &name]).map(|marker| marker.source).filter(|owner| *owner != source);
        let owner = owner.and_then(|owner| entries.iter().position(|entry| entry.source() == owner));
        let Some(owner) = owner else {
            at += 1;
            continue;
        };
        let owner_source = entries[owner].source().to_owned();
        let before = std::mem::replace(entries[owner].name(), name.clone());
        for item in items.iter_mut().filter(|item| item.kind == kind && item.action != Action::Dropped) {
            if item.source == source && item.name == name {
                item.action = Action::Dropped;
                item.reason = Some(format!(
                    "the name {name} belongs to {owner_source}, which was imported before; give one of them another name"
                ));
            } else if item.source == owner_source && item.name == before {
                item.name.clone_from(&name);
                item.notes.retain(|note| note.field != "name");
                item.notes.insert(0, Note::mapped("name", &name));
            }
        }
        entries.remove(at);
        renamed.push((before, name));
    }
    renamed
}
