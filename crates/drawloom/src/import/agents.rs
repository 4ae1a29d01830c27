//! An agent's file as an agent of the config.

use std::collections::BTreeMap;

use drawloom_substrate::STORE_TOOLS;
use serde_json::{Value, json};

use super::{
    Item, Kind, Note, Proposal,
    document::Read,
    map::{Mapping, split_names},
    models, names,
    report::shown,
    tools::{self, Listed},
    tree::Entry,
};
use crate::frontmatter::Document;

/// An agent, ready for a config.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) source: String,
    /// Its keys and values in the order in which they are written.
    pub(crate) fields: Vec<(&'static str, Value)>,
    pub(crate) proposals: Vec<Proposal>,
    pub(crate) wants: Wants,
}

/// Names that the file's list of tools gives for gates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    pub(crate) agents: Vec<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) skills: Vec<String>,
}

impl Agent {
    pub(crate) fn value(&self) -> Value {
        self.fields
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.fields.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

/// Fields that only Claude Code has a use for.
const DROPPED: &[(&str, &str)] = &[
    ("color", "a colour of Claude Code's own screen"),
    ("colour", "a colour of Claude Code's own screen"),
    ("icon", "a part of Claude Code's own screen"),
    ("hooks", "hooks run commands of Claude Code; Drawloom has no hooks"),
    (
        "permissionMode",
        "Drawloom asks for no permission: gates (`tools`, `volumes`, `hosts`, `agents`) decide beforehand",
    ),
    (
        "permission-mode",
        "Drawloom asks for no permission: gates (`tools`, `volumes`, `hosts`, `agents`) decide beforehand",
    ),
    ("memory", "folders of memory are a part of Claude Code"),
    ("background", "who starts a run decides whether to wait for it (`mode: detach`)"),
    ("isolation", "agents work in their volumes; Drawloom makes no worktrees"),
    ("initialPrompt", "the caller gives the prompt of a run"),
    ("output_style", "the body is the whole prompt"),
    ("outputStyle", "the body is the whole prompt"),
    ("subagents", "the gate `agents` names the agents that it may spawn"),
    ("version", "agents have no version; a run keeps the definition that it started with"),
    ("author", "for people only"),
    ("license", "for people only"),
    ("tags", "for people only"),
    ("category", "for people only"),
    ("metadata", "for people only"),
    ("examples", "for people only; put examples into the body"),
    ("priority", "runs are admitted in the order of their start"),
    ("timeout", "the unit is not known; see `run_timeout_seconds`"),
];

/// Fields that have a note of their own.
const TAKEN: [&str; 20] = [
    "name",
    "description",
    "model",
    "effort",
    "temperature",
    "top_p",
    "skills",
    "maxTurns",
    "max-turns",
    "max_turns",
    "mcpServers",
    "mcp-servers",
    "mcp_servers",
    "tools",
    "allowed-tools",
    "allowed_tools",
    "allowedTools",
    "disallowedTools",
    "disallowed-tools",
    "disallowed_tools",
];

const UNKNOWN: &str = "not a field that Claude Code or this version knows";

/// Maps one file; or says with an item why it is left out.
pub(super) fn map(entry: &Entry, read: Result<Read, String>, mapping: &mut Mapping<'_>) {
    let stem = entry.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let leave = |reason: String| Item::dropped(Kind::Agent, stem.clone(), entry.shown.clone(), reason);
    let read = match read {
        Ok(read) => read,
        Err(reason) => return mapping.items.push(leave(reason)),
    };
    let document = read.document;
    if !document.has_fields {
        let reason = document.faults.first().map(|(_, fault)| fault.clone());
        let reason = reason.unwrap_or("no frontmatter, so Claude Code does not load it either".into());
        return mapping.items.push(leave(reason));
    }
    let mut item = Item::new(Kind::Agent, String::new(), entry.shown.clone());
    item.notes.extend(read.repairs.into_iter().map(|repair| Note::translated("file", "", "text", repair)));
    let faults = document.faults.iter();
    item.notes.extend(
        faults.map(|(line, fault)| Note::translated("frontmatter", "", "fields", format!("line {line}: {fault}"))),
    );
    let name = name(&document, &stem, entry, mapping, &mut item.notes);
    item.name.clone_from(&name);
    let mut agent =
        Agent { name, source: entry.shown.clone(), fields: Vec::new(), proposals: Vec::new(), wants: Wants::default() };
    Mapper { document: &document, mapping, agent: &mut agent, notes: &mut item.notes }.fields();
    mapping.items.push(item);
    mapping.agents.push(agent);
}

/// The agent's name: what its file says, or the file's own, below its folder when that is taken.
fn name(document: &Document, stem: &str, entry: &Entry, mapping: &mut Mapping<'_>, notes: &mut Vec<Note>) -> String {
    let said = document.text("name");
    let wanted = said.as_deref().and_then(names::slug).or_else(|| names::slug(stem)).unwrap_or_else(|| "agent".into());
    let mut groups: Vec<String> = Vec::new();
    if let Some(group) = entry.groups.last().and_then(|group| names::group(group)) {
        groups.push(group);
    }
    if let Some(plugin) = entry.plugin.as_deref().and_then(names::group) {
        let both = groups.first().filter(|first| **first != plugin).map(|first| format!("{plugin}/{first}"));
        groups.push(plugin);
        groups.extend(both);
    }
    let name = names::unique(&wanted, "/", &groups, &mut mapping.taken_agents);
    notes.push(match &said {
        Some(said) if *said == name => Note::mapped("name", &name),
        Some(said) if wanted == *said => Note::translated("name", said, &name, "another agent has this name"),
        Some(said) => Note::translated("name", said, &name, "a name has letters, digits, `_`, `.`, `-` and `/`"),
        None => Note::translated("name", "(absent)", &name, "the name of the file"),
    });
    name
}

struct Mapper<'a, 'b> {
    document: &'a Document,
    mapping: &'a mut Mapping<'b>,
    agent: &'a mut Agent,
    notes: &'a mut Vec<Note>,
}

impl Mapper<'_, '_> {
    fn fields(&mut self) {
        match self.description() {
            Some(text) => {
                self.notes.push(Note::mapped("description", "description"));
                self.agent.fields.push(("description", json!(text)));
            }
            None => self.notes.push(Note::dropped(
                "description",
                "",
                "there is none: models that could spawn it cannot know what it is for",
            )),
        }
        let said = self.document.text("model");
        let chosen = models::choose(said.as_deref(), self.mapping.target, &mut self.mapping.tiers);
        self.agent.fields.extend(chosen.fields);
        self.notes.extend(chosen.note);
        if self.document.fields.contains_key("model") && said.is_none() {
            let value = shown(&self.document.fields["model"].value);
            self.notes.push(Note::dropped("model", value, "it names no model"));
        }
        self.effort();
        self.sampling();
        self.turns();
        self.servers();
        let skills = self.skills();
        let mut listed = self.tools();
        if !skills.is_empty() && !listed.tools.iter().any(|tool| tool == "Skill") {
            listed.tools.push("Skill".into());
            let reason = "`skills` needs the tool; it reads the files of those skills only";
            listed.notes.push(Note::translated("tools", "", "Skill", reason));
        }
        self.notes.append(&mut listed.notes);
        self.gates(&listed, &skills);
        self.agent.wants = Wants { agents: listed.agents, hosts: listed.hosts, skills: listed.skills };
        self.agent.fields.push(("tools", json!(listed.tools)));
        self.agent.fields.push(("agents", json!([])));
        self.agent.fields.push(("hosts", json!([])));
        if !skills.is_empty() {
            self.agent.fields.push(("skills", json!(skills)));
            self.agent.fields.push(("bundled_skills", json!(skills)));
        }
        match self.document.body.is_empty() {
            true => self.notes.push(Note::dropped("body", "", "the file has no prompt")),
            false => {
                self.notes.push(Note::mapped("body", "system_prompt"));
                self.agent.fields.push(("system_prompt", json!(self.document.body)));
            }
        }
        self.rest();
    }

    fn description(&self) -> Option<String> {
        if let Some(text) = self.document.text("description") {
            return Some(text.replace("\\n", "\n"));
        }
        match &self.document.fields.get("description")?.value {
            Value::Array(lines) => {
                let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
                (!lines.is_empty()).then(|| lines.join("\n"))
            }
            _ => None,
        }
    }

    fn effort(&mut self) {
        let Some(field) = self.document.fields.get("effort") else { return };
        let said = self.document.text("effort").unwrap_or_default().to_lowercase();
        let effort = match said.as_str() {
            "low" | "minimal" => "low",
            "medium" => "medium",
            "high" | "xhigh" | "max" => "high",
            _ => return self.notes.push(Note::dropped("effort", shown(&field.value), "not low, medium or high")),
        };
        self.agent.fields.push(("effort", json!(effort)));
        self.notes.push(match said == effort {
            true => Note::mapped("effort", effort),
            false => Note::translated("effort", said, effort, "the nearest that there is"),
        });
    }

    fn sampling(&mut self) {
        let mut sampling = serde_json::Map::new();
        for (key, most) in [("temperature", 2.0), ("top_p", 1.0)] {
            let Some(field) = self.document.fields.get(key) else { continue };
            match field.value.as_f64().filter(|number| (0.0..=most).contains(number)) {
                Some(_) => {
                    sampling.insert(key.to_owned(), field.value.clone());
                    self.notes.push(Note::translated(
                        key,
                        shown(&field.value),
                        format!("sampling.{key}"),
                        "`sampling` has it",
                    ));
                }
                None => {
                    let reason = format!("not a number from 0 to {most}");
                    self.notes.push(Note::dropped(key, shown(&field.value), reason));
                }
            }
        }
        if !sampling.is_empty() {
            self.agent.fields.push(("sampling", sampling.into()));
        }
    }

    fn turns(&mut self) {
        for key in ["maxTurns", "max-turns", "max_turns"] {
            let Some(field) = self.document.fields.get(key) else { continue };
            let number = field.value.as_u64().or_else(|| self.document.text(key)?.parse().ok());
            match number.filter(|number| (1..=10_000).contains(number)) {
                Some(number) if !self.agent.fields.iter().any(|(name, _)| *name == "max_iterations") => {
                    self.agent.fields.push(("max_iterations", json!(number)));
                    self.notes.push(Note::translated(
                        key,
                        number.to_string(),
                        format!("max_iterations: {number}"),
                        "the same limit",
                    ));
                }
                _ => self.notes.push(Note::dropped(key, shown(&field.value), "not a number from 1 to 10,000")),
            }
        }
    }

    /// Servers of the agent's own: names of known ones, or whole ones.
    fn servers(&mut self) {
        for key in ["mcpServers", "mcp-servers", "mcp_servers"] {
            let Some(field) = self.document.fields.get(key) else { continue };
            let parts: Vec<(String, Option<Value>)> = match &field.value {
                Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect(),
                Value::Array(items) => items
                    .iter()
                    .flat_map(|item| match item {
                        Value::String(name) => vec![(name.clone(), None)],
                        Value::Object(map) => {
                            map.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect()
                        }
                        other => vec![(other.to_string(), None)],
                    })
                    .collect(),
                other => split_names(other).into_iter().map(|name| (name, None)).collect(),
            };
            if parts.is_empty() {
                self.notes.push(Note::dropped(key, "", "it names no server"));
            }
            for (name, value) in parts {
                let known = self.mapping.find_server(&name);
                let note = match (known, value) {
                    (Some(known), _) => Note::translated(
                        key,
                        &name,
                        format!("mcp_servers.{known}"),
                        "servers are defined for all agents; `tools` names their tools",
                    ),
                    (None, Some(_)) => {
                        Note::dropped(key, &name, "the server could not be brought over; see its own line")
                    }
                    (None, None) => {
                        Note::dropped(key, &name, "unknown MCP server: neither this folder nor the config has it")
                    }
                };
                self.notes.push(note);
            }
        }
    }

    fn skills(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        let Some(field) = self.document.fields.get("skills") else { return found };
        let named = split_names(&field.value);
        if named.is_empty() {
            self.notes.push(Note::dropped("skills", shown(&field.value), "it names no skill"));
        }
        for said in named {
            let wanted = said.rsplit(':').next().unwrap_or(&said);
            let known = [said.as_str(), wanted].into_iter().find_map(|name| self.mapping.find_skill(name));
            match known {
                Some(name) => {
                    let to = format!("skills, bundled_skills: {name}");
                    self.notes.push(match name == said {
                        true => Note::mapped("skills", to),
                        false => Note::translated("skills", &said, to, "the name of the skill's folder"),
                    });
                    if !found.contains(&name) {
                        found.push(name);
                    }
                }
                None => self.notes.push(Note::dropped(
                    "skills",
                    &said,
                    "unknown skill: neither this folder nor the config has it",
                )),
            }
        }
        found
    }

    fn tools(&mut self) -> Listed {
        let keys = ["tools", "allowed-tools", "allowed_tools", "allowedTools"];
        let first = keys.iter().find(|key| self.document.fields.contains_key(**key));
        let given = first.and_then(|key| Some((*key, tools::entries(&self.document.fields.get(*key)?.value)?)));
        let servers = self.mapping.server_names();
        let find = |name: &str| self.mapping.find_server(name);
        let known = tools::Known { find: &find, servers: &servers, tools: &self.mapping.target.tools };
        let mut listed = match given {
            Some((key, entries)) => {
                let listed = tools::translate(key, &entries, &known);
                self.notes.push(match key {
                    "tools" => Note::mapped(key, listed.tools.join(", ")),
                    _ => Note::translated(key, entries.join(", "), "tools", "the list is called `tools`"),
                });
                listed
            }
            None => {
                let reason = "Claude Code gives an agent without `tools` all tools; here they are listed, without those of MCP servers";
                self.notes.push(Note::translated("tools", "(absent)", tools::INHERITED.join(", "), reason));
                Listed { tools: tools::INHERITED.map(str::to_owned).to_vec(), ..Listed::default() }
            }
        };
        let spellings: Vec<&str> = keys.into_iter().filter(|key| self.document.fields.contains_key(*key)).collect();
        for key in spellings.into_iter().skip(1) {
            self.notes.push(Note::dropped(key, "", "the list of tools is given twice; the first spelling counts"));
        }
        for key in ["disallowedTools", "disallowed-tools", "disallowed_tools"] {
            let Some(field) = self.document.fields.get(key) else { continue };
            let denied = tools::entries(&field.value).unwrap_or_default();
            if denied.is_empty() {
                self.notes.push(Note::mapped(key, "nothing is denied"));
            }
            tools::deny(key, &denied, &mut listed, &known);
        }
        listed
    }

    /// Proposes the gates that the tools need.
    fn gates(&mut self, listed: &Listed, skills: &[String]) {
        let has = |tool: &str| listed.tools.iter().any(|listed| listed == tool);
        let at = vec!["agents".to_owned(), self.agent.name.clone()];
        let mut propose = |line: String, reason: &str| {
            self.agent.proposals.push(Proposal { at: at.clone(), line, reason: reason.to_owned() });
        };
        if has("Agent") {
            let agents = if listed.agents.is_empty() { vec!["*".to_owned()] } else { listed.agents.clone() };
            propose(format!("agents: {}", json!(agents)), "Agent starts only agents that the gate names");
        }
        if has("WebFetch") {
            let hosts = if listed.hosts.is_empty() { vec!["*".to_owned()] } else { listed.hosts.clone() };
            propose(format!("hosts: {}", json!(hosts)), "WebFetch reaches only hosts that the gate names");
        }
        if has("Skill") && skills.is_empty() {
            let skills = if listed.skills.is_empty() { vec!["*".to_owned()] } else { listed.skills.clone() };
            propose(format!("skills: {}", json!(skills)), "Skill loads only skills that the gate names");
        }
        for (tool, gate) in STORE_TOOLS.iter().filter_map(|tool| Some((tool.name, tool.gate?))) {
            if has(tool) {
                propose(gate.fix.to_owned(), &format!("{tool} needs the gate `{}`", gate.key));
            }
        }
        if !listed.limited.is_empty() {
            let all: Vec<&String> = listed.tools.iter().chain(&listed.limited).collect();
            let reason = format!("the file limits {} by a pattern; this allows it whole", listed.limited.join(", "));
            propose(format!("tools: {}", json!(all)), &reason);
        }
    }

    /// Every field that no other function took.
    fn rest(&mut self) {
        let reasons: BTreeMap<&str, &str> = DROPPED.iter().copied().collect();
        for (key, field) in self.document.fields.iter().filter(|(key, _)| !TAKEN.contains(&key.as_str())) {
            let reason = reasons.get(key.as_str()).copied().unwrap_or(UNKNOWN);
            self.notes.push(Note::dropped(key, shown(&field.value), reason));
        }
    }
}
