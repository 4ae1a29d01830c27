//! `settings.json` and hooks: nothing of them is brought over, and everything is reported.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Item, Kind,
    report::{short, shown},
    tree::Entry,
};

/// What settings say that matters for other files.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) disabled_servers: BTreeSet<String>,
    pub(super) items: Vec<Item>,
}

const REASONS: &[(&str, &str)] = &[
    ("model", "the model of a session; agents have `tier` or `model`"),
    ("env", "variables of Claude Code's own process; commands of agents get those of `tools.bash.env`"),
    ("outputStyle", "a style of Claude Code's own answers"),
    ("statusLine", "a part of Claude Code's own screen"),
    ("apiKeyHelper", "keys are read from environment variables (`providers.NAME.api_key_env`)"),
    ("enabledPlugins", "plugins are imported from their own folders with --from"),
    ("extraKnownMarketplaces", "plugins are imported from their own folders with --from"),
    ("enableAllProjectMcpServers", "servers are in the config or they are not"),
    ("enabledMcpjsonServers", "servers are in the config or they are not"),
    ("disabledMcpjsonServers", "the servers that it names are not brought over"),
    ("sandbox", "the sandbox of commands is always on; see `tools.bash`"),
    ("agent", "who starts a run names the agent"),
];

/// Reports every entry.
pub(super) fn read(settings: &[(Entry, Value)], hooks: &[(Entry, Value)]) -> Settings {
    let mut found = Settings::default();
    for (entry, value) in settings {
        let Some(map) = value.as_object() else {
            found.items.push(Item::dropped(Kind::File, &*entry.shown, &*entry.shown, "it is not a JSON object"));
            continue;
        };
        for (key, value) in map {
            match key.as_str() {
                "hooks" => found.hooks(entry, value),
                "permissions" => found.permissions(entry, value),
                "$schema" => {}
                _ => {
                    if key == "disabledMcpjsonServers" {
                        let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                        found.disabled_servers.extend(names.map(str::to_owned));
                    }
                    let reason = REASONS.iter().find(|(known, _)| known == key).map(|(_, reason)| *reason);
                    let reason = reason.unwrap_or("a setting of Claude Code's own");
                    found.items.push(Item::dropped(Kind::Setting, key, &*entry.shown, reason));
                }
            }
        }
    }
    for (entry, value) in hooks {
        found.hooks(entry, value.get("hooks").unwrap_or(value));
    }
    found
}

impl Settings {
    /// One item for each command of a hook.
    fn hooks(&mut self, entry: &Entry, value: &Value) {
        let reason =
            "hooks run commands of Claude Code; Drawloom has no hooks. What it checks belongs into gates or `Bash`";
        let Some(events) = value.as_object() else {
            return self.items.push(Item::dropped(Kind::Hook, "hooks", &*entry.shown, reason));
        };
        for (event, matchers) in events {
            let matchers: Vec<&Value> = match matchers {
                Value::Array(items) => items.iter().collect(),
                other => vec![other],
            };
            for matcher in matchers {
                let matched = matcher.get("matcher").and_then(Value::as_str).filter(|text| !text.is_empty());
                let commands = matcher.get("hooks").and_then(Value::as_array).map_or(1, Vec::len);
                let name = matched.map_or_else(|| event.clone(), |matched| format!("{event} {}", short(matched)));
                let count = if commands == 1 { String::new() } else { format!(" ({commands} commands)") };
                self.items.push(Item::dropped(Kind::Hook, name, &*entry.shown, format!("{reason}{count}")));
            }
        }
    }

    /// One item for each rule.
    fn permissions(&mut self, entry: &Entry, value: &Value) {
        let Some(lists) = value.as_object() else {
            let reason = "it is not an object of rules";
            return self.items.push(Item::dropped(Kind::Permission, "permissions", &*entry.shown, reason));
        };
        for (list, rules) in lists {
            let reason = match list.as_str() {
                "allow" => "Drawloom asks for no permission: an agent may use what its `tools` and gates name",
                "ask" => {
                    "Drawloom asks for no permission: an agent may use what its `tools` and gates name, and nothing else"
                }
                "deny" => "what an agent's `tools` and gates do not name is denied already",
                "additionalDirectories" => "directories that agents may touch are `volumes`",
                "defaultMode" | "disableBypassPermissionsMode" => "Drawloom has no permission modes: gates decide",
                _ => "a rule of Claude Code's own",
            };
            match rules {
                Value::Array(rules) => {
                    for rule in rules {
                        let name = format!("{list} {}", shown(rule));
                        self.items.push(Item::dropped(Kind::Permission, name, &*entry.shown, reason));
                    }
                }
                other => {
                    let name = format!("{list} {}", shown(other));
                    self.items.push(Item::dropped(Kind::Permission, name, &*entry.shown, reason));
                }
            }
        }
    }
}

/// A JSON file as people write it: with comments and commas at the end.
pub(super) fn json(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "this is not UTF-8 text".to_owned())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err("the file is empty".into());
    }
    let parsed = serde_json::from_str(text).or_else(|error| serde_json::from_str(&plain(text)).map_err(|_| error));
    parsed.map_err(|error| format!("this is not JSON: {}", short(&error.to_string())))
}

/// The text without comments and commas before a closing bracket.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut signs = text.chars().peekable();
    let mut in_text = false;
    while let Some(sign) = signs.next() {
        match sign {
            '\\' if in_text => {
                out.push(sign);
                out.extend(signs.next());
            }
            '"' => {
                in_text = !in_text;
                out.push(sign);
            }
            '/' if !in_text && signs.peek() == Some(&'/') => while signs.next_if(|sign| *sign != '\n').is_some() {},
            '/' if !in_text && signs.peek() == Some(&'*') => {
                signs.next();
                let mut last = ' ';
                for sign in signs.by_ref() {
                    if last == '*' && sign == '/' {
                        break;
                    }
                    last = sign;
                }
            }
            ']' | '}' if !in_text => {
                let end = out.trim_end().len();
                if out[..end].ends_with(',') {
                    out.truncate(end - 1);
                }
                out.push(sign);
            }
            _ => out.push(sign),
        }
    }
    out
}
