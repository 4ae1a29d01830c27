//! MCP servers of `.mcp.json` and its like. Names of variables are kept; values are never copied into a config.

use std::collections::{BTreeMap, BTreeSet};

use drawloom_contract::redact::Redactor;
use drawloom_tools::McpServerConfig;
use serde_json::{Map, Value, json};

use super::{
    Item, Kind, Note,
    map::{Mapping, refusal},
    names,
    report::{short, shown},
    settings::Settings,
    tree::{Entry, Servers},
};

/// A server, ready for a config.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Server {
    pub(crate) name: String,
    /// What its file calls it.
    pub(crate) original: String,
    pub(crate) plugin: Option<String>,
    pub(crate) source: String,
    pub(crate) fields: Vec<(&'static str, Value)>,
    /// Variables that `${NAME}` in its fields stands for; the config must list them under `env`.
    pub(crate) variables: BTreeSet<String>,
}

impl Server {
    pub(crate) fn value(&self) -> Value {
        self.fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect::<Map<_, _>>().into()
    }
}

const DROPPED: &[(&str, &str)] = &[
    ("disabled", "a server is started when an agent that lists its tools runs"),
    ("autoApprove", "Drawloom asks for no permission; `tools` of an agent decides"),
    ("alwaysAllow", "Drawloom asks for no permission; `tools` of an agent decides"),
    ("trust", "Drawloom asks for no permission; `tools` of an agent decides"),
    ("oauth", "no login in a browser; give a token with `bearer_env`"),
    ("auth", "no login in a browser; give a token with `bearer_env`"),
    ("headersHelper", "headers come from environment variables; see `headers_env`"),
    ("description", "for people only"),
    ("note", "for people only"),
];

pub(super) fn map(
    places: &[Servers],
    settings: &Settings,
    lookup: &dyn Fn(&str) -> Option<String>,
    mapping: &mut Mapping<'_>,
) {
    let mut taken = BTreeSet::new();
    for Servers { entry, value } in places {
        let Some(servers) = listed(value) else {
            let reason = "it has no object `mcpServers`";
            mapping.items.push(Item::dropped(Kind::File, entry.shown.clone(), entry.shown.clone(), reason));
            continue;
        };
        for (original, server) in servers {
            let leave = |reason: String| Item::dropped(Kind::McpServer, original.clone(), entry.shown.clone(), reason);
            if settings.disabled_servers.contains(original) {
                mapping.items.push(leave("settings.json disables it (disabledMcpjsonServers)".into()));
                continue;
            }
            let Some(server) = server.as_object() else {
                mapping.items.push(leave(format!("{} is not an object", shown(server))));
                continue;
            };
            let Some(wanted) = names::server(original) else {
                mapping.items.push(leave("its name has no letter or digit".into()));
                continue;
            };
            let mut item = Item::new(Kind::McpServer, wanted.clone(), entry.shown.clone());
            let mut reading =
                Reading { entry, lookup, name: &wanted, notes: &mut item.notes, variables: BTreeSet::new() };
            match reading.fields(server) {
                Ok(fields) => {
                    let variables = reading.variables;
                    // The same server may be in several files: of equal ones only the first counts.
                    let same =
                        mapping.servers.iter().find(|known| known.original == *original && known.fields == fields);
                    if let Some(same) = same {
                        mapping.items.push(leave(format!("the same as mcp_servers.{}", same.name)));
                        continue;
                    }
                    let groups: Vec<String> = entry.plugin.iter().filter_map(|plugin| names::server(plugin)).collect();
                    let name = names::unique(&wanted, "-", &groups, &mut taken);
                    let name = names::server(&name).unwrap_or(name);
                    if name != *original {
                        let reason =
                            "a server's name has at most 32 letters, digits, `-` and `_`, and each is used once";
                        item.notes.push(Note::translated("name", original, &name, reason));
                    }
                    item.name.clone_from(&name);
                    mapping.items.push(item);
                    let (plugin, source) = (entry.plugin.clone(), entry.shown.clone());
                    mapping.servers.push(Server {
                        name,
                        original: original.clone(),
                        plugin,
                        source,
                        fields,
                        variables,
                    });
                }
                Err(reason) => {
                    let notes = item.notes;
                    mapping.items.push(Item { notes, ..leave(reason) });
                }
            }
        }
    }
}

/// The servers of a file: below `mcpServers` or `servers`, or the file itself.
fn listed(value: &Value) -> Option<&Map<String, Value>> {
    let below = ["mcpServers", "mcp_servers", "servers"].into_iter().find_map(|key| value.get(key));
    match below {
        Some(servers) => servers.as_object(),
        None => {
            let servers = value.as_object()?;
            let is_server = |server: &Value| server.get("command").is_some() || server.get("url").is_some();
            (servers.is_empty() || servers.values().any(is_server)).then_some(servers)
        }
    }
}

/// One server on its way.
struct Reading<'a> {
    entry: &'a Entry,
    lookup: &'a dyn Fn(&str) -> Option<String>,
    name: &'a str,
    notes: &'a mut Vec<Note>,
    variables: BTreeSet<String>,
}

impl Reading<'_> {
    /// Its fields for the config, or why it is left out.
    fn fields(&mut self, server: &Map<String, Value>) -> Result<Vec<(&'static str, Value)>, String> {
        if server.get("disabled") == Some(&Value::Bool(true)) {
            return Err("it is disabled where it was found".into());
        }
        let kind =
            server.get("type").or_else(|| server.get("transport")).and_then(Value::as_str).map(str::to_lowercase);
        let mut fields = match (server.get("command"), server.get("url").or_else(|| server.get("httpUrl"))) {
            (Some(_), Some(_)) => return Err("it has both `command` and `url`".into()),
            (None, None) => return Err("it has neither `command` nor `url`".into()),
            (Some(command), None) => self.program(command, server)?,
            (None, Some(url)) => self.outside(url, server, kind.as_deref())?,
        };
        for (key, value) in server {
            match key.as_str() {
                "command" | "args" | "url" | "httpUrl" | "env" | "headers" | "cwd" => {}
                "type" | "transport" => self.notes.push(Note::mapped(key, "`command` or `url` says it")),
                "timeout" | "timeout_ms" => match value.as_u64().filter(|time| (1..=86_400_000).contains(time)) {
                    // Seconds and milliseconds are both in use; no call takes less than a second.
                    Some(time) => {
                        let time = if time < 1_000 { time * 1_000 } else { time };
                        fields.push(("timeout_ms", json!(time)));
                        self.notes.push(Note::translated(
                            key,
                            shown(value),
                            format!("timeout_ms: {time}"),
                            "in milliseconds",
                        ));
                    }
                    None => self.notes.push(Note::dropped(key, shown(value), "not a number from 1 to 86,400,000")),
                },
                _ => {
                    let reason = DROPPED.iter().find(|(known, _)| known == key).map(|(_, reason)| *reason);
                    let reason = reason.unwrap_or("not a field of servers that this version knows");
                    // Unknown fields may hold a key.
                    self.notes.push(Note::dropped(key, "", reason));
                }
            }
        }
        let value: Value =
            fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect::<Map<_, _>>().into();
        let config: McpServerConfig = serde_json::from_value(value).map_err(|error| error.to_string())?;
        match refusal(self.name, &config) {
            Some(reason) => Err(reason),
            None => Ok(fields),
        }
    }

    fn program(&mut self, command: &Value, server: &Map<String, Value>) -> Result<Vec<(&'static str, Value)>, String> {
        let words: Vec<&Value> = match command {
            Value::Array(words) => words.iter().collect(),
            word => vec![word],
        };
        let arguments: Vec<&Value> = match server.get("args") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(words)) => words.iter().collect(),
            Some(word) => vec![word],
        };
        let mut line = Vec::new();
        for word in words.into_iter().chain(arguments) {
            let word = match word {
                Value::String(word) => word.clone(),
                Value::Number(number) => number.to_string(),
                Value::Bool(flag) => flag.to_string(),
                other => return Err(format!("{} in its command is not text", shown(other))),
            };
            if Redactor::new([""; 0]).mask(&mut word.clone()) {
                return Err(
                    "an argument looks like a secret, which a config must not hold; give it as a variable".into()
                );
            }
            line.push(self.expanded("args", &word)?);
        }
        if line.first().is_none_or(|program| program.trim().is_empty()) {
            return Err("its `command` is empty".into());
        }
        self.notes.push(Note::mapped("command", short(&line.join(" "))));
        let mut fields = vec![("command", json!(line))];
        let mut given = BTreeMap::new();
        for (child, value) in server.get("env").and_then(Value::as_object).into_iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match only_variable(&text) {
                Some((variable, default)) => {
                    given.insert(child.clone(), variable.clone());
                    self.notes.push(match default {
                        false => Note::mapped("env", format!("{child}: {variable}")),
                        true => {
                            Note::translated("env", "", format!("{child}: {variable}"), "the default value is left out")
                        }
                    });
                }
                None => {
                    given.insert(child.clone(), child.clone());
                    let reason = "values are not copied; set the variable in the environment of drawloom";
                    self.notes.push(Note::translated("env", "", format!("{child}: {child}"), reason));
                }
            }
        }
        if !given.is_empty() {
            fields.push(("env", json!(given)));
        }
        if let Some(cwd) = server.get("cwd").and_then(Value::as_str) {
            fields.push(("cwd", json!(self.expanded("cwd", cwd)?)));
            self.notes.push(Note::mapped("cwd", "cwd"));
        }
        if let Some(headers) = server.get("headers") {
            self.notes.push(Note::dropped(
                "headers",
                "",
                format!("a program takes no headers ({} given)", count(headers)),
            ));
        }
        Ok(fields)
    }

    fn outside(
        &mut self,
        url: &Value,
        server: &Map<String, Value>,
        kind: Option<&str>,
    ) -> Result<Vec<(&'static str, Value)>, String> {
        let url = url.as_str().ok_or("its `url` is not text")?;
        if matches!(kind, Some("sse")) {
            return Err("it speaks the older SSE transport; give the address of its streamable HTTP endpoint".into());
        }
        if matches!(kind, Some("ws" | "websocket")) {
            return Err("it is reached over a web socket; only streamable HTTP is known here".into());
        }
        let url = self.expanded("url", url)?;
        self.notes.push(Note::mapped("url", short(url.split('?').next().unwrap_or(&url))));
        let mut fields = vec![("url", json!(url))];
        let mut headers = BTreeMap::new();
        for (header, value) in server.get("headers").and_then(Value::as_object).into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            let prefix = self.name.to_uppercase().replace('-', "_");
            if header.eq_ignore_ascii_case("authorization") {
                let token = text.strip_prefix("Bearer ").or_else(|| text.strip_prefix("bearer ")).unwrap_or(text);
                let (variable, is_kept) = match only_variable(token.trim()) {
                    Some((variable, _)) => (variable, true),
                    None => (format!("{prefix}_TOKEN"), false),
                };
                fields.push(("bearer_env", json!(variable)));
                self.notes.push(match is_kept {
                    true => Note::mapped("headers.Authorization", format!("bearer_env: {variable}")),
                    false => Note::translated(
                        "headers.Authorization",
                        "",
                        format!("bearer_env: {variable}"),
                        "values are not copied; put the token into this variable",
                    ),
                });
                continue;
            }
            let (variable, is_kept) = match only_variable(text) {
                Some((variable, _)) => (variable, true),
                None => {
                    let word: String = header
                        .chars()
                        .map(|sign| if sign.is_ascii_alphanumeric() { sign.to_ascii_uppercase() } else { '_' })
                        .collect();
                    (format!("{prefix}_{word}"), false)
                }
            };
            let field = format!("headers.{header}");
            self.notes.push(match is_kept {
                true => Note::mapped(&field, format!("headers_env.{header}: {variable}")),
                false => {
                    let reason = "values are not copied; put the value into this variable";
                    Note::translated(&field, "", format!("headers_env.{header}: {variable}"), reason)
                }
            });
            headers.insert(header.clone(), variable);
        }
        if !headers.is_empty() {
            fields.push(("headers_env", json!(headers)));
        }
        if let Some(env) = server.get("env").filter(|env| count(env) > 0) {
            self.notes.push(Note::dropped(
                "env",
                "",
                format!("a server at an address has no environment ({} given)", count(env)),
            ));
        }
        if server.contains_key("args") {
            self.notes.push(Note::dropped("args", "", "a server at an address takes no arguments"));
        }
        if server.contains_key("cwd") {
            self.notes.push(Note::dropped("cwd", "", "a server at an address has no directory"));
        }
        Ok(fields)
    }

    /// A text with `${NAME}` for variables that are set; a default where one is not.
    fn expanded(&mut self, field: &str, text: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            out.push_str(&rest[..start]);
            let after = &rest[start + 2..];
            let end = after.find('}').ok_or_else(|| format!("\"${{\" in its `{field}` has no closing \"}}\""))?;
            let (name, default) = match after[..end].split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (&after[..end], None),
            };
            rest = &after[end + 1..];
            match name {
                "CLAUDE_PLUGIN_ROOT" => {
                    let root = std::path::absolute(&self.entry.root).unwrap_or_else(|_| self.entry.root.clone());
                    out.push_str(&root.to_string_lossy());
                    self.notes.push(Note::translated(
                        field,
                        "${CLAUDE_PLUGIN_ROOT}",
                        root.to_string_lossy(),
                        "the plugin's folder",
                    ));
                    continue;
                }
                "CLAUDE_PROJECT_DIR" | "PWD" => {
                    out.push('.');
                    self.notes.push(Note::translated(
                        field,
                        format!("${{{name}}}"),
                        ".",
                        "servers run in the config's folder",
                    ));
                    continue;
                }
                _ => {}
            }
            if !is_variable(name) {
                return Err(format!("\"${{{name}}}\" in its `{field}` is not the name of a variable"));
            }
            match ((self.lookup)(name), default) {
                (Some(_), _) => {
                    out.push_str(&format!("${{{name}}}"));
                    self.variables.insert(name.to_owned());
                    self.notes.push(Note::mapped(field, format!("${{{name}}}, listed under `env`")));
                }
                (None, Some(default)) => {
                    out.push_str(default);
                    self.notes.push(Note::translated(
                        field,
                        format!("${{{name}:-…}}"),
                        default,
                        "the variable is not set",
                    ));
                }
                (None, None) => {
                    return Err(format!(
                        "its `{field}` needs the variable {name}, which is not set; set it and import again"
                    ));
                }
            }
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// How many entries an object has.
fn count(value: &Value) -> usize {
    value.as_object().map_or(1, Map::len)
}

/// The variable that is all of a text, `${NAME}` or `$NAME`, and whether it has a default.
fn only_variable(text: &str) -> Option<(String, bool)> {
    let inner = match text.strip_prefix("${") {
        Some(rest) => rest.strip_suffix('}')?,
        None => text.strip_prefix('$')?,
    };
    let (name, has_default) = match inner.split_once(":-") {
        Some((name, _)) => (name, true),
        None => (inner, false),
    };
    is_variable(name).then(|| (name.to_owned(), has_default))
}

fn is_variable(name: &str) -> bool {
    let begins = name.chars().next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    begins && name.chars().all(|sign| sign.is_ascii_alphanumeric() || sign == '_')
}
