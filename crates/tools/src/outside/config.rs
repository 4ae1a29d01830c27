//! The config section `mcp_servers`: which outside servers there are, and what they get of the environment.

use std::{collections::BTreeMap, path::PathBuf};

use drawloom_contract::redact::Redactor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a program gets of the environment without being named.
pub(super) const ALWAYS: [&str; 3] = ["PATH", "HOME", "LANG"];

/// The longest name of a server: with it and a tool's own name, the whole must fit what models take.
pub(super) const LONGEST_NAME: usize = 32;

/// Defaults of what the config can change.
pub(super) const TIMEOUT_MS: u64 = 60_000;
pub(super) const START_TIMEOUT_MS: u64 = 30_000;
pub(super) const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// A word of a variable's name that is as long as this and has a digit is no word.
const LONGEST_WORD: usize = 20;

/// An outside MCP server. Its tools are `mcp__NAME__TOOL` for agents that list them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerConfig {
    /// The program and its arguments, for a server that drawloom starts and talks to over stdio. Either this or `url`.
    #[schemars(extend("x-power" = { "words": "starts the program {}", "as": "program" }))]
    pub command: Vec<String>,
    /// The program's environment: under which name it gets which variable of drawloom's own environment, such as
    /// `GITHUB_TOKEN: MY_GITHUB_TOKEN`. Names only, never values. Besides these it gets `PATH`, `HOME` and `LANG`.
    #[schemars(extend("x-power" = { "words": "gives the program the variable {}", "as": "variable" }))]
    pub env: BTreeMap<String, String>,
    /// Working directory of the program, relative to the config file; defaults to the config file's directory.
    #[schemars(extend("x-power" = { "words": "starts the program in {}", "as": "path", "when": "other_folder" }))]
    pub cwd: Option<PathBuf>,
    /// URL of a server that uses streamable HTTP. Either this or `command`.
    #[schemars(extend("x-power" = { "words": "calls {}", "as": "address" }))]
    pub url: Option<String>,
    /// The environment variable with the token that is sent to `url` as `Authorization: Bearer`.
    #[schemars(extend("x-power" = { "words": "sends the server the token in {}", "as": "variable" }))]
    pub bearer_env: Option<String>,
    /// More headers for `url`: the header's name, and the environment variable with its value.
    #[schemars(extend("x-power" = { "words": "sends the server the header {}", "as": "variable" }))]
    pub headers_env: BTreeMap<String, String>,
    /// Allowed tools, by the server's own names; `*` matches any characters.
    #[schemars(extend("x-harmless" = "names only what this config or its project has"))]
    pub tools: Vec<String>,
    /// Timeout of a call, in milliseconds.
    #[schemars(range(min = 1, max = 86_400_000))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub timeout_ms: u64,
    /// Timeout for starting the server and listing its tools, in milliseconds.
    #[schemars(range(min = 1, max = 600_000))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub start_timeout_ms: u64,
    /// Maximum size of a result sent to the model, in bytes; longer ones are truncated in the middle.
    #[schemars(range(min = 1_024, max = 1_048_576))]
    #[schemars(extend("x-harmless" = "a limit"))]
    pub max_output_bytes: usize,
}

impl Default for McpServerConfig {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            url: None,
            bearer_env: None,
            headers_env: BTreeMap::new(),
            tools: vec!["*".into()],
            timeout_ms: TIMEOUT_MS,
            start_timeout_ms: START_TIMEOUT_MS,
            max_output_bytes: MAX_OUTPUT_BYTES,
        }
    }
}

impl McpServerConfig {
    /// Whether the operator's filter lets a tool of this name through.
    pub(super) fn lets_through(&self, tool: &str) -> bool {
        self.tools.iter().any(|pattern| is_like(pattern, tool))
    }

    /// A text about it without what stands after the `?` of its address: that may be a key.
    pub(super) fn without_query(&self, text: &str) -> String {
        let query = self.url.as_deref().and_then(|url| url.find('?').map(|at| &url[at..]));
        match query.filter(|query| query.len() > 1) {
            Some(query) => text.replace(query, "?…"),
            None => text.to_owned(),
        }
    }

    /// The variables whose values it needs.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let given = self.env.values().chain(self.headers_env.values()).chain(&self.bearer_env);
        given.map(String::as_str)
    }

    /// The variables whose values are secrets, whatever they are called: they are sent as credentials.
    pub fn credentials(&self) -> impl Iterator<Item = &str> {
        self.headers_env.values().chain(&self.bearer_env).map(String::as_str)
    }
}

/// What the names of a server's tools begin with.
pub fn prefix(server: &str) -> String {
    format!("mcp__{server}__")
}

/// Names of the environment variables that the servers need, for the binary, which reads the environment.
pub fn variables(servers: &BTreeMap<String, McpServerConfig>) -> impl Iterator<Item = &str> {
    ALWAYS.into_iter().chain(servers.values().flat_map(McpServerConfig::variables))
}

/// What is wrong with the section: the keys that lead there, a sentence, and what to do.
pub fn problems(servers: &BTreeMap<String, McpServerConfig>) -> Vec<(Vec<String>, String, String)> {
    let mut problems = Vec::new();
    for (name, config) in servers {
        let mut report = |below: &[&str], message: String, hint: &str| {
            let keys = [name.as_str()].into_iter().chain(below.iter().copied()).map(str::to_owned).collect();
            problems.push((keys, message, hint.to_owned()));
        };
        let plain = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
        // With a `_` at an edge, a pattern for one server could mean the tools of another.
        let edges = name.starts_with('_') || name.ends_with('_') || name.contains("__");
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(plain) || edges {
            let message = format!("{name:?} is not a valid server name");
            report(
                &[],
                message,
                "use at most 32 letters, digits, `-` and `_`, without `__` and without `_` at either end",
            );
        }
        match (config.command.first(), &config.url) {
            (Some(_), Some(_)) => report(&["url"], "`command` and `url` exclude each other".into(), "keep one of them"),
            (None, None) => {
                let hint = "add `command`, a list of the program and its arguments, or `url`";
                report(&[], "the server has neither `command` nor `url`".into(), hint);
            }
            (Some(program), None) if program.is_empty() => {
                report(&["command", "0"], "the program is empty".into(), "list the program first, then its arguments");
            }
            (None, Some(url)) if has_credentials(url) => {
                let message = "the URL contains a user name or password".to_owned();
                report(
                    &["url"],
                    message,
                    "remove it, and name a variable with the credential in `bearer_env` or `headers_env`",
                );
            }
            (None, Some(url)) if !is_address(url) => {
                report(
                    &["url"],
                    config.without_query(&format!("{url:?} is not a valid URL")),
                    "write an absolute URL, such as https://mcp.example.com/mcp",
                );
            }
            _ => {}
        }
        let foreign: &[(&str, bool)] = match config.url.is_some() {
            true => &[("env", !config.env.is_empty()), ("cwd", config.cwd.is_some())],
            false => &[("bearer_env", config.bearer_env.is_some()), ("headers_env", !config.headers_env.is_empty())],
        };
        for (key, _) in foreign.iter().filter(|(_, given)| *given) {
            let (belongs, other) = if config.url.is_some() { ("command", "url") } else { ("url", "command") };
            report(
                &[key],
                format!("`{key}` only works with `{belongs}`"),
                &format!("remove `{key}`; this server has `{other}`"),
            );
        }
        // What is given in place of a name may be the secret itself, and is not shown.
        for (child, variable) in &config.env {
            if !is_variable(child) || !is_variable(variable) || looks_secret(variable) {
                let hint = "write the variable's name, never its value";
                report(&["env", child], "not the name of an environment variable".into(), hint);
            }
        }
        for (header, variable) in &config.headers_env {
            if !is_header(header) || !is_variable(variable) || looks_secret(variable) {
                let hint = "write HEADER: NAME, where NAME is the variable with the value";
                report(&["headers_env", header], "not a header with the name of an environment variable".into(), hint);
            }
        }
        if config.bearer_env.as_ref().is_some_and(|variable| !is_variable(variable) || looks_secret(variable)) {
            let message = "not the name of an environment variable".to_owned();
            report(&["bearer_env"], message, "write the variable's name, never the token");
        }
    }
    problems
}

/// Whether a user's name or password stands before the host.
fn has_credentials(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    authority.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

/// Whether it is an address of HTTP with a host.
fn is_address(url: &str) -> bool {
    let begins = url.starts_with("http://") || url.starts_with("https://");
    let without_fragment = url.split('#').next().unwrap_or_default();
    let host = without_fragment.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(|host| !host.is_empty()));
    begins && host == Some(true)
}

/// Whether a name looks like the secret that it should name: the form of a token, or a long word with digits.
fn looks_secret(name: &str) -> bool {
    let is_random =
        |word: &str| word.len() >= LONGEST_WORD && word.contains(|character: char| character.is_ascii_digit());
    name.split('_').any(is_random) || Redactor::new([""; 0]).mask(&mut name.to_owned())
}

fn is_variable(name: &str) -> bool {
    let begins = name.chars().next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    begins && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
}

/// Whether a name can be a header's, and is not one that the protocol itself sets.
fn is_header(name: &str) -> bool {
    let reserved = ["accept", "content-type", "content-length", "host", "last-event-id", "authorization"];
    let lower = name.to_ascii_lowercase();
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    !name.is_empty() && name.chars().all(plain) && !reserved.contains(&&*lower) && !lower.starts_with("mcp-")
}

/// Whether `name` is what `pattern` says, in which `*` stands for any characters.
fn is_like(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name) in [
            ("*", "x"),
            ("*", ""),
            ("read", "read"),
            ("re*", "read"),
            ("*ad", "read"),
            ("r*d", "read"),
            ("a*b*c", "aXbYc"),
        ] {
            assert!(is_like(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("read", "reader"), ("re*", "write"), ("*ad", "adx"), ("r*d", "r"), ("ab*ba", "aba"), ("", "x")]
        {
            assert!(!is_like(pattern, name), "{pattern} {name}");
        }
    }

    fn wrong(yaml_as_json: serde_json::Value) -> Vec<String> {
        let servers = serde_json::from_value(yaml_as_json).expect("the form is right");
        problems(&servers).into_iter().map(|(keys, message, _)| format!("{}: {message}", keys.join("."))).collect()
    }

    #[test]
    fn a_secret_in_place_of_a_name_is_refused_and_not_shown() {
        use serde_json::json;
        let token = format!("ghp_{}", "a".repeat(40));
        for secret in
            [token.as_str(), "sk-ant-0123456789012345678901", "0aF9b8c7d6e5f4a3b2c1", "a1b2c3d4e5f6a7b8c9d0", "s3cret!"]
        {
            for server in [
                json!({"command": ["x"], "env": {"TOKEN": secret}}),
                json!({"url": "http://h", "bearer_env": secret}),
                json!({"url": "http://h", "headers_env": {"X-Key": secret}}),
            ] {
                let said = wrong(json!({"a": server}));
                assert_eq!(said.len(), 1, "{said:?}");
                assert!(!said[0].contains(secret), "{said:?}");
            }
        }
        for name in ["MY_GITHUB_TOKEN", "OPERATORS_VALUE", "AWS_SECRET_ACCESS_KEY_2", "internationalization_key"] {
            assert_eq!(wrong(json!({"a": {"command": ["x"], "env": {"TOKEN": name}}})), Vec::<String>::new());
        }
    }

    #[test]
    fn each_mistake_is_said_where_it_is() {
        use serde_json::json;
        assert_eq!(wrong(json!({"files": {"command": ["x"], "env": {"A": "B"}}})), Vec::<String>::new());
        assert_eq!(
            wrong(json!({"web": {"url": "https://host/mcp", "bearer_env": "T", "headers_env": {"X-Key": "K"}}})),
            Vec::<String>::new()
        );
        assert_eq!(wrong(json!({"a": {}})), ["a: the server has neither `command` nor `url`"]);
        assert_eq!(
            wrong(json!({"a": {"command": ["x"], "url": "http://h"}}))[0],
            "a.url: `command` and `url` exclude each other"
        );
        assert_eq!(wrong(json!({"a__b": {"command": ["x"]}})), ["a__b: \"a__b\" is not a valid server name"]);
        assert_eq!(
            wrong(json!({"a_": {"command": ["x"]}, "_a": {"command": ["x"]}, "a_a": {"command": ["x"]}})).len(),
            2
        );
        assert_eq!(
            wrong(json!({"a": {"url": "https://me:secret@host/mcp"}})),
            ["a.url: the URL contains a user name or password"]
        );
        assert_eq!(wrong(json!({"a": {"url": "https://host/@me"}})), Vec::<String>::new());
        assert_eq!(wrong(json!({"a": {"url": "host?key=k3y"}})), ["a.url: \"host?…\" is not a valid URL"]);
        assert_eq!(wrong(json!({"a": {"url": "host"}})), ["a.url: \"host\" is not a valid URL"]);
        assert_eq!(wrong(json!({"a": {"url": "http://"}})), ["a.url: \"http://\" is not a valid URL"]);
        assert_eq!(wrong(json!({"a": {"url": "http:///mcp"}})), ["a.url: \"http:///mcp\" is not a valid URL"]);
        for good in ["http://localhost:80", "https://[::1]:8080/mcp?a=b&c=%20d", "https://h/mcp#x"] {
            assert_eq!(wrong(json!({"a": {"url": good}})), Vec::<String>::new());
        }
        assert_eq!(
            wrong(json!({"a": {"command": ["x"], "bearer_env": "T"}})),
            ["a.bearer_env: `bearer_env` only works with `url`"]
        );
        assert_eq!(
            wrong(json!({"a": {"command": ["x"], "env": {"TOKEN": "sk-123 secret"}}})),
            ["a.env.TOKEN: not the name of an environment variable"]
        );
        assert_eq!(
            wrong(json!({"a": {"url": "http://h", "headers_env": {"Mcp-Session-Id": "X"}}})),
            ["a.headers_env.Mcp-Session-Id: not a header with the name of an environment variable"]
        );
    }
}
