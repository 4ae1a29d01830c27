//! `sources` of the config: folders of Claude Code that are read at every start, without an import.
//!
//! The operator's `grant` is the ceiling: what a folder asks for is taken only as far as the grant goes. MCP servers of a folder
//! stay off unless the grant names them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use drawloom_contract::{
    definition::{MemoryScope, matches},
    ids::Digest,
};
use drawloom_substrate::{AgentConfig, Finding, Problem, Weight, evaluations::EvaluationScope, files};
use drawloom_tools::McpServerConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Action, FILE_LIMIT, Item, Kind, Mapped, Note, Outcome, Report, Target, Tree, agents::Agent, map, read_limited,
    skills::Skill,
};
use crate::config::{Config, yaml};

/// Most lines about one source that a command shows; `drawloom import claude-code --from DIR` shows all.
const MOST_LINES: usize = 40;

/// A folder of another program that agents are read from at every start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    /// A folder of Claude Code, such as `.claude`, or of a plugin; relative to the config file.
    #[schemars(extend("x-power" = { "words": "takes agents, skills and prompts from {}", "as": "path" }))]
    pub claude: PathBuf,
    /// What its agents can use at most.
    #[serde(default)]
    pub grant: Grant,
}

/// What agents of a source can use at most. Nothing else is granted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Grant {
    /// Tools: exact names or `prefix*`.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub tools: Vec<String>,
    /// Volumes.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub volumes: Vec<String>,
    /// Agents that they may spawn: exact names or `prefix*`.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub agents: Vec<String>,
    /// Hosts that they may reach: exact names, `*.suffix`, or `*`.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub hosts: Vec<String>,
    /// Scopes of memory, for those that have the tool `Memory`.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub memory_scopes: Vec<MemoryScope>,
    /// What they may do with evaluations, for those that have the tool `Evaluation`.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub evaluation_scopes: Vec<EvaluationScope>,
    /// MCP servers of the folder that are used; all others stay off.
    #[schemars(extend("x-harmless" = "the servers that it turns on are listed under mcp_servers"))]
    pub mcp_servers: Vec<String>,
}

/// What the sources of a config brought.
#[derive(Debug, Default)]
pub(crate) struct Sourced {
    /// Skills, read where they are.
    pub(crate) skills: Vec<Skill>,
    /// The folders, and files that belong to them, which agents may not change.
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) findings: Vec<Finding>,
    /// Variables that servers of the folders name.
    pub(crate) variables: BTreeSet<String>,
    /// The folder that an agent, a prompt or an MCP server came from, by section and name.
    pub(crate) origins: BTreeMap<Vec<String>, PathBuf>,
}

/// Adds what the sources hold to the config.
pub(crate) fn apply(config: &mut Config, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Sourced, Vec<Problem>> {
    let mut sourced = Sourced::default();
    let mut problems = Vec::new();
    let own: BTreeSet<String> = config.agents.keys().cloned().collect();
    for (index, source) in config.sources.clone().iter().enumerate() {
        let at = ["sources".to_owned(), index.to_string()];
        if !source.claude.is_dir() {
            let at = at.iter().cloned().chain(["claude".to_owned()]);
            let message = format!("{} is not a directory", source.claude.display());
            problems.push(
                Problem::new(at, message)
                    .with_hint("write the path of an existing folder; a relative path starts at the config file"),
            );
            continue;
        }
        let before = names(config);
        let target = Target::of(config);
        let tree = Tree::read_in_place(&source.claude);
        let mut mapped = map(&tree, &target, lookup);
        let project = std::path::absolute(Path::new(".").join(tree.project())).unwrap_or_default();
        add_servers(config, source, &mut mapped, &project, lookup, &mut sourced);
        add_prompts(config, &mut mapped);
        add_agents(config, source, &mut mapped, &own);
        for skill in &mapped.skills {
            match sourced.skills.iter().any(|known| known.name == skill.name) {
                true => settle(
                    &mut mapped.items,
                    Kind::Skill,
                    &skill.name,
                    Action::Kept,
                    "another source has a skill of this name",
                ),
                false => sourced.skills.push(skill.clone()),
            }
        }
        let added = names(config).into_iter().filter(|name| !before.contains(name));
        sourced.origins.extend(added.map(|name| (name, source.claude.clone())));
        sourced.folders.extend(guarded(source));
        sourced.findings.extend(findings(&at, source, mapped.items));
    }
    sourced.findings.extend(prune(config, &own, &sourced.skills));
    for name in config.sources.iter().flat_map(|source| &source.grant.mcp_servers) {
        if !config.mcp_servers.contains_key(name) {
            let message = format!("`grant.mcp_servers` names {name:?}, which no source has");
            let at = vec!["sources".to_owned()];
            sourced.findings.push(Finding { weight: Weight::Warning, at, message });
        }
    }
    if problems.is_empty() { Ok(sourced) } else { Err(problems) }
}

/// The sections and names of everything that a source can bring.
fn names(config: &Config) -> BTreeSet<Vec<String>> {
    let section = |section: &str, name: &String| vec![section.to_owned(), name.clone()];
    let agents = config.agents.keys().map(|name| section("agents", name));
    let prompts = config.prompts.keys().map(|name| section("prompts", name));
    let servers = config.mcp_servers.keys().map(|name| section("mcp_servers", name));
    agents.chain(prompts).chain(servers).collect()
}

/// Takes names out of the gates of sourced agents that mean nothing here: a folder's mistake must not stop a server.
fn prune(config: &mut Config, own: &BTreeSet<String>, sourced: &[Skill]) -> Vec<Finding> {
    let agents: BTreeSet<String> = config.agents.keys().cloned().collect();
    let mut skills: BTreeSet<String> = sourced.iter().map(|skill| skill.name.clone()).collect();
    skills.extend(crate::skills::read(&config.skills, &[]).table.names().map(str::to_owned));
    let mut findings = Vec::new();
    for (name, agent) in config.agents.iter_mut().filter(|(name, _)| !own.contains(*name)) {
        for (gate, list, known) in [("agents", &mut agent.agents, &agents), ("skills", &mut agent.skills, &skills)] {
            list.iter_mut().for_each(|list| {
                let (kept, gone) =
                    list.drain(..).partition::<Vec<_>, _>(|one| one.ends_with('*') || known.contains(one));
                *list = kept;
                findings.extend(gone.into_iter().map(|one| Finding {
                    weight: Weight::Warning,
                    at: vec!["sources".to_owned()],
                    message: format!(
                        "agent {name} of a source names {one:?} for its gate `{gate}`, which does not exist"
                    ),
                }));
            });
        }
    }
    findings
}

/// What agents may not change: the folder, and the file of MCP servers beside it. That file need not exist where a server is
/// granted: an agent that makes it would say which program is started.
fn guarded(source: &SourceConfig) -> impl Iterator<Item = PathBuf> {
    let servers = source.claude.parent().map(|beside| beside.join(".mcp.json"));
    let servers = servers.filter(|file| file.exists() || !source.grant.mcp_servers.is_empty());
    [source.claude.clone()].into_iter().chain(servers)
}

fn settle(items: &mut [Item], kind: Kind, name: &str, action: Action, reason: &str) {
    let found = items.iter_mut().find(|item| item.kind == kind && item.name == name && item.action == Action::Add);
    if let Some(item) = found {
        (item.action, item.reason) = (action, Some(reason.to_owned()));
    }
}

fn add_servers(
    config: &mut Config,
    source: &SourceConfig,
    mapped: &mut Mapped,
    project: &Path,
    lookup: &dyn Fn(&str) -> Option<String>,
    sourced: &mut Sourced,
) {
    for server in &mapped.servers {
        if config.mcp_servers.contains_key(&server.name) {
            settle(
                &mut mapped.items,
                Kind::McpServer,
                &server.name,
                Action::Kept,
                "the config has a server of this name",
            );
            continue;
        }
        if !source.grant.mcp_servers.contains(&server.name) {
            let reason = "it stays off: `grant.mcp_servers` does not name it";
            settle(&mut mapped.items, Kind::McpServer, &server.name, Action::Dropped, reason);
            continue;
        }
        let value = filled(&server.value(), &server.variables, lookup);
        if let Ok(mut server_config) = serde_json::from_value::<McpServerConfig>(value) {
            if !server_config.command.is_empty() {
                // Its relative names mean files of the project that it came from.
                server_config.cwd = Some(project.join(server_config.cwd.take().unwrap_or_default()));
            }
            config.mcp_servers.insert(server.name.clone(), server_config);
            sourced.variables.extend(server.variables.iter().cloned());
        }
    }
}

/// A value with the variables in it filled in.
fn filled(value: &Value, variables: &BTreeSet<String>, lookup: &dyn Fn(&str) -> Option<String>) -> Value {
    match value {
        Value::String(text) => {
            Value::String(variables.iter().fold(text.clone(), |text, name| {
                text.replace(&format!("${{{name}}}"), &lookup(name).unwrap_or_default())
            }))
        }
        Value::Array(items) => items.iter().map(|item| filled(item, variables, lookup)).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

fn add_prompts(config: &mut Config, mapped: &mut Mapped) {
    for prompt in &mapped.prompts {
        if config.prompts.contains_key(&prompt.name) {
            settle(&mut mapped.items, Kind::Prompt, &prompt.name, Action::Kept, "the config has a prompt of this name");
        } else if let Ok(value) = serde_json::from_value(prompt.value()) {
            config.prompts.insert(prompt.name.clone(), value);
        }
    }
}

fn add_agents(config: &mut Config, source: &SourceConfig, mapped: &mut Mapped, own: &BTreeSet<String>) {
    for agent in &mapped.agents {
        if config.agents.contains_key(&agent.name) {
            let reason = match own.contains(&agent.name) {
                true => "the config has an agent of this name",
                false => "another source has an agent of this name",
            };
            settle(&mut mapped.items, Kind::Agent, &agent.name, Action::Kept, reason);
            continue;
        }
        let (narrowed, notes) = narrow(agent, &source.grant, config);
        let item = mapped.items.iter_mut().find(|item| item.kind == Kind::Agent && item.name == agent.name);
        if let Some(item) = item {
            item.notes.extend(notes);
        }
        match serde_json::from_value::<AgentConfig>(narrowed) {
            Ok(narrowed) => drop(config.agents.insert(agent.name.clone(), narrowed)),
            Err(error) => settle(&mut mapped.items, Kind::Agent, &agent.name, Action::Dropped, &error.to_string()),
        }
    }
}

/// An agent with no more than the grant, and what it does not get.
fn narrow(agent: &Agent, grant: &Grant, config: &Config) -> (Value, Vec<Note>) {
    let mut value = agent.value();
    let mut notes = Vec::new();
    let wanted: Vec<String> = texts(agent.get("tools"));
    let mut tools = Vec::new();
    for tool in &wanted {
        let server = tool.strip_prefix("mcp__").and_then(|rest| rest.split("__").next());
        if server.is_some_and(|server| !config.mcp_servers.contains_key(server)) {
            notes.push(Note::dropped("tools", tool, "its MCP server is off"));
            continue;
        }
        let given = common(tool, &grant.tools);
        if given.is_empty() {
            notes.push(Note::dropped("tools", tool, "`grant.tools` does not name it"));
        }
        tools.extend(given);
    }
    let has = |tool: &str| tools.iter().any(|listed: &String| matches(listed, tool));
    type Common = fn(&str, &[String]) -> Vec<String>;
    let gate = |wants: bool, asked: &[String], granted: &[String], common: Common| -> Vec<String> {
        match (wants, asked.is_empty()) {
            (false, _) => Vec::new(),
            (true, true) => granted.to_vec(),
            (true, false) => asked.iter().flat_map(|name| common(name, granted)).collect(),
        }
    };
    // Only agents that exist: what a file calls an agent may not be one here.
    value["agents"] = json!(gate(has("Agent"), &agent.wants.agents, &grant.agents, common));
    value["hosts"] = json!(gate(has("WebFetch") || has("HTTP"), &agent.wants.hosts, &grant.hosts, common_hosts));
    if has("Memory") {
        value["memory_scopes"] = json!(grant.memory_scopes);
    }
    if has("Evaluation") {
        value["evaluation_scopes"] = json!(grant.evaluation_scopes);
    }
    value["volumes"] = json!(grant.volumes);
    if !has("Skill") && value.get("skills").is_some() {
        value["skills"] = json!([]);
    } else if has("Skill") && value.get("skills").is_none() {
        value["skills"] = json!(agent.wants.skills);
    }
    value["tools"] = json!(tools);
    (value, notes)
}

fn texts(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What a name or pattern and the granted ones have in common.
fn common(asked: &str, granted: &[String]) -> Vec<String> {
    let start = asked.strip_suffix('*').unwrap_or(asked);
    let covers = |grant: &String| match grant.strip_suffix('*') {
        Some(prefix) => start.starts_with(prefix),
        None => grant == asked,
    };
    if granted.iter().any(covers) {
        return vec![asked.to_owned()];
    }
    // The grant may be narrower than what is asked for.
    granted
        .iter()
        .filter(|grant| asked.ends_with('*') && matches(asked, grant.trim_end_matches('*')))
        .cloned()
        .collect()
}

/// What a host or pattern and the granted ones have in common: patterns begin with `*.`, or are `*`.
fn common_hosts(asked: &str, granted: &[String]) -> Vec<String> {
    let within = |host: &str, pattern: &str| {
        let (host, pattern) = (host.to_ascii_lowercase(), pattern.to_ascii_lowercase());
        match pattern.strip_prefix('*') {
            Some(suffix) => host == pattern || host.ends_with(suffix),
            None => host == pattern,
        }
    };
    if granted.iter().any(|grant| within(asked, grant)) {
        return vec![asked.to_owned()];
    }
    granted.iter().filter(|grant| within(grant, asked)).cloned().collect()
}

/// What a start says about a source.
fn findings(at: &[String], source: &SourceConfig, items: Vec<Item>) -> Vec<Finding> {
    let shown = source.claude.display().to_string();
    let report = Report {
        from: shown.clone(),
        into: String::new(),
        written: false,
        items,
        proposals: Vec::new(),
        also: Vec::new(),
        next: String::new(),
    };
    let say = |weight, message: String| Finding { weight, at: at.to_vec(), message };
    let counts = report.counts();
    let used = [Kind::Agent, Kind::Skill, Kind::Prompt, Kind::McpServer].into_iter().filter_map(|kind| {
        let count = counts.get(&(kind, Action::Add)).copied().unwrap_or_default();
        (count > 0).then(|| format!("{count} {}{}", kind.word(), if count == 1 { "" } else { "s" }))
    });
    let used = used.collect::<Vec<_>>().join(", ");
    let used = if used.is_empty() { "nothing".to_owned() } else { used };
    let mut findings = vec![say(Weight::Note, format!("{shown}: {used}"))];
    let mut lines: Vec<Finding> = Vec::new();
    for item in report.items.iter().filter(|item| matches!(item.action, Action::Dropped | Action::Kept)) {
        let weight = if item.kind == Kind::Agent { Weight::Warning } else { Weight::Note };
        let reason = item.reason.as_deref().unwrap_or_default();
        lines.push(say(
            weight,
            format!("{shown}/{}: {} {} {}: {reason}", item.source, item.kind.word(), item.name, item.action.word()),
        ));
    }
    for (kind, note, names) in report.grouped_notes() {
        let reason = note.reason.as_deref().unwrap_or_default();
        let becomes = note.becomes.as_ref().filter(|_| note.outcome == Outcome::Translated);
        let becomes = becomes.map(|becomes| format!(" to {becomes}")).unwrap_or_default();
        let name = names.first().copied().unwrap_or_default();
        let others = if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
        lines.push(say(
            Weight::Note,
            format!(
                "{shown}: {} {name}{others}: `{}` {}{becomes}: {reason}",
                kind.word(),
                note.field,
                note.outcome.word()
            ),
        ));
    }
    let left = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    findings.append(&mut lines);
    if left > 0 {
        findings.push(say(
            Weight::Note,
            format!("{shown}: {left} more; `drawloom import claude-code --from {shown}` shows all"),
        ));
    }
    findings
}

/// Names what the sources of config files hold, so that a change there counts as a change of the config. Nothing when there
/// are none.
pub(crate) fn digest(files: &[PathBuf]) -> Option<Digest> {
    let mut all = Vec::new();
    for file in files {
        let Ok((node, _)) = files::read_file(file, yaml::FILE_LIMIT)
            .map_err(drop)
            .and_then(|bytes| yaml::parse(0, &bytes).map_err(drop))
        else {
            continue;
        };
        let value = node.to_value();
        let sources = value.get("sources").and_then(Value::as_array).into_iter().flatten();
        for folder in sources.filter_map(|source| source.get("claude").and_then(Value::as_str)) {
            let folder = file.parent().unwrap_or(Path::new("")).join(folder);
            for (shown, path) in Tree::read_in_place(&folder).files() {
                all.extend(shown.as_bytes());
                // A pipe would never end, and a device may not: what is not read at start is not read here.
                all.extend(Digest::of(&read_limited(&path, FILE_LIMIT).unwrap_or_default()).as_bytes());
            }
        }
    }
    (!all.is_empty()).then(|| Digest::of(&all))
}
