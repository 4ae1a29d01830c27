//! A config file as it may be shown: what servers are given as environment and headers is often a secret.

use jsonc_parser::cst::{CstInputValue, CstRootNode};
use toml_edit::DocumentMut;

use super::{clients::Form, edit};
use crate::logging;

/// The fields of a server, of whatever host, whose values are not shown.
const SECRET: [&str; 6] = ["bearer_token", "env", "environment", "headers", "http_headers", "requestInit"];

const MASK: &str = "(not shown)";

/// `text` without those values, of all servers: what changes is shown with what stands around it.
pub(super) fn masked(text: &str, form: Form) -> String {
    let (_, text) = edit::split_mark(text);
    let shown = match form {
        Form::Json(key) => masked_json(text, key),
        Form::Toml(key) => masked_toml(text, key),
    };
    logging::masked(shown.as_deref().unwrap_or(text))
}

fn masked_json(text: &str, key: &str) -> Option<String> {
    let root = CstRootNode::parse(text, &edit::json_options()).ok()?;
    for server in root.object_value()?.object_value(key)?.properties() {
        let Some(server) = server.object_value() else { continue };
        for values in SECRET.iter().filter_map(|field| server.object_value(field)) {
            for value in values.properties() {
                value.set_value(CstInputValue::String(MASK.into()));
            }
        }
    }
    Some(root.to_string())
}

fn masked_toml(text: &str, key: &str) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    for (_, server) in document.get_mut(key)?.as_table_like_mut()?.iter_mut() {
        let Some(server) = server.as_table_like_mut() else { continue };
        for field in SECRET {
            match server.get_mut(field) {
                Some(found) if found.is_table_like() => {
                    for (_, value) in found.as_table_like_mut().into_iter().flat_map(|values| values.iter_mut()) {
                        *value = toml_edit::value(MASK);
                    }
                }
                Some(found) => *found = toml_edit::value(MASK),
                None => {}
            }
        }
    }
    Some(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_servers_environment_are_not_shown_and_all_else_is() {
        let json = r#"{"a": 1, "mcp": {"x": {"command": "y", "env": {"K": "hush", "L": {"deep": "hush"}}}, "drawloom": {"headers": {"H": "hush"}}}}"#;
        assert_eq!(
            masked(json, Form::Json("mcp")),
            r#"{"a": 1, "mcp": {"x": {"command": "y", "env": {"K": "(not shown)", "L": "(not shown)"}}, "drawloom": {"headers": {"H": "(not shown)"}}}}"#
        );
        let toml = "a = 1\n[mcp.x]\ncommand = \"y\" # z\nenv = { K = \"hush\" }\nbearer_token = \"hush\"\n[mcp.y.http_headers]\nH = \"hush\"\n";
        let shown = masked(toml, Form::Toml("mcp"));
        assert!(!shown.contains("hush") && shown.contains("command = \"y\" # z"), "{shown}");
        assert_eq!(shown.matches(MASK).count(), 3, "{shown}");
        assert!(!masked(&format!("\u{feff}{json}"), Form::Json("mcp")).contains("hush"));
        assert_eq!(masked("", Form::Json("mcp")), "");
    }
}
