//! What a call does now, in a line.

use std::collections::BTreeMap;

use drawloom_contract::ids::RunId;
use drawloom_wire::runs::Amount;
use serde_json::Value;

use super::GLIMPSE;
use crate::output::{count, first_line, money};

/// The tool and what it is used on: `Edit src/lib.rs`.
pub(super) fn head(data: &Value) -> String {
    let text = |name: &str| data[name].as_str().unwrap_or_default();
    first_line(&format!("{} {}", text("tool"), text("detail")), GLIMPSE)
}

/// `Edit src/lib.rs · 12,400 tokens · $0.080`
pub(crate) fn activity(data: &Value, currency: &str) -> String {
    let tokens = data["tokens"].as_u64().filter(|tokens| *tokens > 0);
    let cost = serde_json::from_value::<Amount>(data["cost"].clone()).ok().filter(|cost| cost.0.0 > 0);
    let head = Some(head(data)).filter(|head| !head.is_empty());
    let tokens = tokens.map(|tokens| format!("{} tokens", count(tokens)));
    let cost = cost.map(|cost| money(cost, currency));
    head.into_iter().chain(tokens).chain(cost).collect::<Vec<_>>().join(" · ")
}

/// Chooses the activities that get a line where lines cannot be replaced: those with another tool than the line before. The server
/// limits how often they come.
#[derive(Debug, Default)]
pub(crate) struct ActivityLines(BTreeMap<RunId, String>);

impl ActivityLines {
    pub(crate) fn chooses(&mut self, run: RunId, data: &Value) -> bool {
        let tool = data["tool"].as_str().unwrap_or_default();
        let is_new = !tool.is_empty() && self.0.get(&run).is_none_or(|last| last != tool);
        if is_new {
            self.0.insert(run, tool.to_owned());
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_has_the_tool_tokens_and_cost_as_far_as_they_are_known() {
        let all = json!({ "tool": "Edit", "detail": "src/\u{1b}lib.rs", "tokens": 12_400, "cost": 0.08 });
        assert_eq!(activity(&all, "USD"), "Edit src/␛lib.rs · 12,400 tokens · $0.080");
        assert_eq!(activity(&json!({ "tool": "Bash", "tokens": 0 }), "USD"), "Bash");
        assert_eq!(activity(&json!({ "tokens": 7 }), "USD"), "7 tokens");
    }

    #[test]
    fn another_tool_gets_a_line() {
        let mut lines = ActivityLines::default();
        let mut chooses = |run: u8, tool: &str| lines.chooses(RunId::from_bytes([run; 16]), &json!({ "tool": tool }));
        let chosen = [(1, ""), (1, "Read"), (1, "Read"), (2, "Read"), (1, "Edit"), (1, "Read")];
        assert_eq!(chosen.map(|(run, tool)| chooses(run, tool)), [false, true, false, true, true, true]);
    }
}
