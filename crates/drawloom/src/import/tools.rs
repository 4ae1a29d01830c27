//! Tools by the names of Claude Code, and what they are here.
//!
//! A translation never gives an agent more than its file asked for. A pattern that limits a tool, such as `Bash(git:*)`, has no
//! counterpart, so the tool is left out and proposed.

use serde_json::Value;

use super::report::{Note, short};

/// What a file that names no tools gets: in Claude Code it inherits all. Subagents cannot spawn there, so `Agent` is not among
/// them; neither are tools of MCP servers.
pub(super) const INHERITED: [&str; 7] = ["Bash", "Edit", "Glob", "Grep", "Read", "WebFetch", "Write"];

/// Tools that another tool does the work of.
const OTHER: &[(&str, &str, &str)] = &[
    ("Task", "Agent", "`Agent` starts other agents"),
    ("MultiEdit", "Edit", "`Edit` makes one change a call"),
    ("NotebookEdit", "Edit", "notebooks are edited as the JSON text that they are"),
    ("NotebookRead", "Read", "notebooks are read as the JSON text that they are"),
    ("LS", "Glob", "`Glob` lists files"),
    ("View", "Read", "`View` is an older name of `Read`"),
    ("GlobTool", "Glob", "an older name"),
    ("GrepTool", "Grep", "an older name"),
    ("Replace", "Write", "an older name"),
    ("SlashCommand", "Skill", "commands that a model can call are skills here"),
];

/// Tools without a counterpart.
const NONE: &[(&str, &str)] = &[
    ("WebSearch", "no web search; an MCP server can offer one (`mcp_servers`)"),
    ("TodoWrite", "no list of tasks; the run's own history is kept"),
    ("TodoRead", "no list of tasks; the run's own history is kept"),
    ("BashOutput", "a command ends with its call and has no later output"),
    ("KillShell", "a command ends with its call"),
    ("KillBash", "a command ends with its call"),
    ("ExitPlanMode", "no plan mode"),
    ("EnterPlanMode", "no plan mode"),
    ("exit_plan_mode", "no plan mode"),
    ("AskUserQuestion", "agents cannot ask the user"),
    ("SendMessage", "agents cannot send messages to each other"),
    ("ListMcpResourcesTool", "resources of MCP servers are not offered to agents"),
    ("ReadMcpResourceTool", "resources of MCP servers are not offered to agents"),
    ("ListMcpResources", "resources of MCP servers are not offered to agents"),
    ("ReadMcpResource", "resources of MCP servers are not offered to agents"),
    ("LSP", "no language server; `Grep` searches"),
    ("ToolSearch", "all tools of an agent are offered at once"),
    ("StructuredOutput", "answers are text"),
    ("Monitor", "Drawloom runs no background commands"),
    ("EnterWorktree", "agents work in their volumes"),
    ("ExitWorktree", "agents work in their volumes"),
];

/// What became of a list of tools.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) tools: Vec<String>,
    /// Agents, hosts and skills that the list names: gates that it needs.
    pub(super) agents: Vec<String>,
    pub(super) hosts: Vec<String>,
    pub(super) skills: Vec<String>,
    /// Tools that were left out because the list limits them.
    pub(super) limited: Vec<String>,
    pub(super) notes: Vec<Note>,
}

/// What there is here.
pub(super) struct Known<'a> {
    /// The MCP server that tools call by a name.
    pub(super) find: &'a dyn Fn(&str) -> Option<String>,
    /// The names of all MCP servers.
    pub(super) servers: &'a [String],
    /// The names of all tools but those of MCP servers.
    pub(super) tools: &'a [String],
}

/// The entries of a list of tools: a list, or a text with commas or blanks between them. Nothing, when it says nothing.
pub(super) fn entries(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Null => None,
        Value::String(text) if text.trim().is_empty() => None,
        Value::String(text) => Some(split(text)),
        Value::Array(items) => Some(
            items
                .iter()
                .flat_map(|item| match item {
                    Value::String(text) => split(text),
                    other => vec![other.to_string()],
                })
                .collect(),
        ),
        Value::Object(map) => {
            // `tools: {Read: true, Bash: false}`, as other programs write it.
            let on = map.iter().filter(|(_, value)| !matches!(value, Value::Bool(false) | Value::Null));
            Some(on.map(|(name, _)| name.clone()).collect())
        }
        other => Some(vec![other.to_string()]),
    }
}

/// Splits at commas outside parentheses; without any, at blanks.
fn split(text: &str) -> Vec<String> {
    let text = text.trim();
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let cut = |at_blanks: bool| {
        let mut depth = 0_usize;
        let pieces = text.split(move |sign: char| {
            match sign {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && (matches!(sign, ',' | '\n' | ';') || at_blanks && sign.is_whitespace())
        });
        pieces.map(clean).filter(|piece| !piece.is_empty()).collect::<Vec<_>>()
    };
    let found = cut(false);
    if found.len() == 1 && !found[0].contains('(') { cut(true) } else { found }
}

/// An entry without quotes, bullets and backticks around it.
fn clean(piece: &str) -> String {
    piece.trim().trim_start_matches("- ").trim_matches(['"', '\'', '`', ' ']).to_owned()
}

/// Translates the entries of `field`.
pub(super) fn translate(field: &str, listed: &[String], known: &Known<'_>) -> Listed {
    let mut result = Listed::default();
    for entry in listed {
        result.take(field, entry, known);
    }
    result
}

impl Listed {
    fn add(&mut self, tool: &str) {
        if !self.tools.iter().any(|known| known == tool) {
            self.tools.push(tool.to_owned());
        }
    }

    fn take(&mut self, field: &str, entry: &str, known: &Known<'_>) {
        if entry == "*" || entry.eq_ignore_ascii_case("all") {
            INHERITED.into_iter().for_each(|tool| self.add(tool));
            let reason = "all tools, written out; tools of MCP servers are not added";
            return self.notes.push(Note::translated(field, entry, INHERITED.join(", "), reason));
        }
        if let Some(rest) = entry.strip_prefix("mcp__") {
            return self.take_outside(field, entry, rest, known);
        }
        let (name, limit) = match entry.split_once('(') {
            Some((name, limit)) => (name.trim(), Some(limit.trim_end().trim_end_matches(')').trim())),
            None => (entry, None),
        };
        let limit = limit.filter(|limit| !matches!(*limit, "" | "*" | ":*" | "**"));
        let plain = |known: &str| known.eq_ignore_ascii_case(name);
        let same = known.tools.iter().find(|known| plain(known)).map(String::as_str);
        let other = OTHER.iter().find(|(known, ..)| plain(known));
        let Some(tool) = same.or(other.map(|(_, tool, _)| *tool)) else {
            let reason = NONE.iter().find(|(known, _)| plain(known)).map(|(_, reason)| *reason);
            let reason = reason.unwrap_or("unknown tool; an MCP server may offer it");
            return self.notes.push(Note::dropped(field, entry, reason));
        };
        match limit {
            None => {
                self.add(tool);
                if tool != name {
                    let reason = other.map_or("the name as it is written here", |(_, _, reason)| *reason);
                    self.notes.push(Note::translated(field, entry, tool, reason));
                }
            }
            Some(limit) => self.take_limited(field, entry, tool, limit),
        }
    }

    /// A tool with a limit that only a gate can keep.
    fn take_limited(&mut self, field: &str, entry: &str, tool: &str, limit: &str) {
        let parts = || limit.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned);
        let reason = match tool {
            "Agent" => {
                self.agents.extend(parts());
                "the gate `agents` names the agents that it may spawn"
            }
            "Skill" => {
                self.skills.extend(parts());
                "the gate `skills` names the skills that it may load"
            }
            "WebFetch" if limit.starts_with("domain:") => {
                let domains = parts().map(|part| part.trim_start_matches("domain:").to_owned());
                self.hosts.extend(domains.filter(|domain| !domain.is_empty()));
                "the gate `hosts` names the hosts that it may reach"
            }
            _ => {
                if !self.limited.iter().any(|known| known == tool) {
                    self.limited.push(tool.to_owned());
                }
                let reason = format!("a tool cannot be limited by a pattern here; {tool} is left out, not widened");
                return self.notes.push(Note::dropped(field, entry, reason));
            }
        };
        self.add(tool);
        self.notes.push(Note::translated(field, entry, tool, reason));
    }

    /// A tool of an MCP server: `mcp__SERVER__TOOL`, `mcp__SERVER`, `mcp__SERVER__*` or `mcp__*`.
    fn take_outside(&mut self, field: &str, entry: &str, rest: &str, known: &Known<'_>) {
        if matches!(rest, "*" | "") {
            if known.servers.is_empty() {
                return self.notes.push(Note::dropped(field, entry, "the pattern names no MCP server"));
            }
            let patterns: Vec<String> = known.servers.iter().map(|server| format!("mcp__{server}__*")).collect();
            let note = Note::translated(field, entry, patterns.join(", "), "the servers that there are, written out");
            patterns.iter().for_each(|pattern| self.add(pattern));
            return self.notes.push(note);
        }
        // A server's name may have two underscores in it; the longest name that exists is meant.
        let cuts = rest.rmatch_indices("__").map(|(at, _)| (&rest[..at], &rest[at + 2..]));
        let found = cuts.chain([(rest, "*")]).find_map(|(server, tool)| Some(((known.find)(server)?, tool)));
        let Some((server, tool)) = found else {
            let server = rest.split("__").next().unwrap_or(rest);
            let reason = format!("unknown MCP server {server:?}: neither this folder nor the config has it");
            return self.notes.push(Note::dropped(field, entry, reason));
        };
        let tool = if tool.is_empty() { "*" } else { tool };
        if tool.trim_end_matches('*').contains('*') {
            let reason = "a pattern can only end with `*` here";
            return self.notes.push(Note::dropped(field, entry, reason));
        }
        let becomes = format!("mcp__{server}__{tool}");
        self.add(&becomes);
        if becomes != entry {
            self.notes.push(Note::translated(field, entry, &becomes, "the name of the server in the config"));
        }
    }
}

/// Takes denied tools out of a list. A denied pattern takes the whole tool: what it would leave cannot be told apart.
pub(super) fn deny(field: &str, denied: &[String], listed: &mut Listed, known: &Known<'_>) {
    for entry in denied {
        let name = entry.split_once('(').map_or(entry.as_str(), |(name, _)| name).trim();
        let translated = translate(field, &[name.to_owned()], known);
        let is_denied = |tool: &String| {
            translated
                .tools
                .iter()
                .any(|denied| drawloom_contract::definition::matches(denied, tool) || covers(tool, denied))
        };
        let (gone, kept) = listed.tools.drain(..).partition::<Vec<_>, _>(is_denied);
        listed.tools = kept;
        listed.limited.retain(|tool| !gone.contains(tool) && !translated.tools.contains(tool));
        let note = match (gone.is_empty(), entry.contains('(')) {
            (true, _) => Note::mapped(field, format!("{} is not in `tools`", short(entry))),
            (false, false) => Note::mapped(field, format!("`tools` without {}", gone.join(", "))),
            (false, true) => {
                let reason = "a denied pattern cannot be kept, so the whole tool is left out";
                Note::translated(field, entry, format!("`tools` without {}", gone.join(", ")), reason)
            }
        };
        listed.notes.push(note);
    }
}

/// Whether a pattern of an MCP server means more than the one tool that is denied.
fn covers(pattern: &str, denied: &str) -> bool {
    pattern.ends_with('*') && drawloom_contract::definition::matches(pattern, denied)
}
