//! From what a server says of its tools to what models can be offered. What cannot be offered is left out or made safe,
//! and a remark says so.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use drawloom_contract::tool::{Offer, Remark, Repeat, Tool, ToolCard};
use drawloom_process::cut;
use serde_json::Value;

use super::{
    config::McpServerConfig,
    page,
    schema::{self, Usable},
    server::Server,
    tool::OutsideTool,
};

/// Most tools of one server that are offered; each takes tokens in every turn.
pub(super) const MOST_TOOLS: usize = 128;

/// The longest name of a tool that providers of models take.
pub(super) const LONGEST_NAME: usize = 64;

/// The longest description, in bytes.
pub(super) const LONGEST_DESCRIPTION: usize = 4 * 1024;

/// How much of a name is kept, in bytes; no name that can be offered is as long.
const LONGEST_KEPT_NAME: usize = 4 * LONGEST_NAME;

/// A tool as its server described it, as far as that can be of use: whatever is longer than it may be is not kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) description: String,
    /// The schema of its input, or what is wrong with it.
    pub(super) schema: Result<Usable, String>,
    /// Whether the server says that a second call does no more than the first.
    pub(super) repeatable: bool,
    /// Whether it can only be called as a task, which is not supported.
    pub(super) needs_task: bool,
}

impl Listed {
    /// A tool from JSON that may be anything.
    pub(super) fn read(value: &Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let hint = |key: &str| value.pointer(&format!("/annotations/{key}")) == Some(&Value::Bool(true));
        Self {
            name: cut(text("name"), LONGEST_KEPT_NAME),
            description: cut(text("description").trim(), LONGEST_DESCRIPTION),
            schema: schema::usable(value.get("inputSchema").unwrap_or_default()),
            repeatable: hint("readOnlyHint") || hint("idempotentHint"),
            needs_task: page::needs_task(value),
        }
    }

    /// How much of it is kept, in bytes of text.
    pub(super) fn length(&self) -> usize {
        let schema = match &self.schema {
            Ok(usable) => usable.length,
            Err(problem) => problem.len(),
        };
        self.name.len() + self.description.len() + schema
    }
}

/// What a server said of its tools.
#[derive(Debug, Default, PartialEq)]
pub(super) struct List {
    pub(super) listed: Vec<Listed>,
    /// Whether that was all; lists without end are cut.
    pub(super) is_whole: bool,
    /// How long it is good for; for ever when nothing is said, because the server says when it changes.
    pub(super) good_for: Option<Duration>,
}

/// A tool that can be offered: its card, the name that its server knows it by, and whether it may be repeated.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Safe {
    pub(super) card: ToolCard,
    pub(super) own_name: String,
    pub(super) repeatable: bool,
}

/// What a server that can be reached offers.
pub(super) fn offer(server: &Arc<Server>, prefix: &str, config: &McpServerConfig, list: List) -> Offer {
    let (safe, mut remarks) = sift(prefix, config, list.listed);
    if !list.is_whole {
        let text = format!("the tool list of `{prefix}*` is too long; the rest is omitted");
        remarks.insert(0, Remark { tool: prefix.to_owned(), text });
    }
    let tools = safe.into_iter().map(|safe| OutsideTool::shared(Arc::downgrade(server), safe)).collect();
    Offer { tools, unavailable: None, remarks }
}

/// Whether two offers are the same to everybody.
pub(super) fn is_same(one: &Offer, other: &Offer) -> bool {
    let same = |(one, other): (&Arc<dyn Tool>, &Arc<dyn Tool>)| {
        let is_safe = |tool: &Arc<dyn Tool>| matches!(tool.repeat(), Repeat::Safe);
        one.card() == other.card() && is_safe(one) == is_safe(other)
    };
    one.unavailable == other.unavailable
        && one.remarks == other.remarks
        && one.tools.len() == other.tools.len()
        && one.tools.iter().zip(&other.tools).all(same)
}

fn sift(prefix: &str, config: &McpServerConfig, listed: Vec<Listed>) -> (Vec<Safe>, Vec<Remark>) {
    let (mut safe, mut remarks, mut names) = (Vec::<Safe>::new(), Vec::new(), BTreeSet::new());
    if !listed.is_empty() && !listed.iter().any(|tool| config.lets_through(&tool.name)) {
        let text = format!("the filter `tools` hides all {} tools of `{prefix}*`", listed.len());
        remarks.push(Remark { tool: prefix.to_owned(), text });
    }
    // Whose own name is the one that is shown has it, wherever he stands in the list.
    let is_own = |tool: &&Listed| tool.schema.is_ok() && !tool.needs_task && harmless(&tool.name) == tool.name;
    let own_names: BTreeSet<String> = listed.iter().filter(is_own).map(|tool| tool.name.clone()).collect();
    let mut beyond = 0_usize;
    for tool in listed.into_iter().filter(|tool| config.lets_through(&tool.name)) {
        let shown = format!("{prefix}{}", harmless(&tool.name));
        let mut remark = |text: String| remarks.push(Remark { tool: shown.clone(), text });
        if tool.name.is_empty() {
            remark(format!("a tool of `{prefix}*` has no name; omitted"));
            continue;
        }
        if shown.len() > LONGEST_NAME {
            let begin: String = shown.chars().take(LONGEST_NAME).collect();
            remark(format!("`{begin}…` omitted: its name is longer than {LONGEST_NAME} characters"));
            continue;
        }
        let own = &shown[prefix.len()..];
        if names.contains(&shown) || (own != tool.name && own_names.contains(own)) {
            remark(format!("`{shown}` omitted: the server has another tool of that name"));
            continue;
        }
        if tool.needs_task {
            remark(format!("`{shown}` omitted: it can only be called as a task, which is not supported"));
            continue;
        }
        let usable = match tool.schema {
            Ok(usable) => usable,
            Err(problem) => {
                remark(format!("`{shown}` omitted: {problem}"));
                continue;
            }
        };
        if safe.len() == MOST_TOOLS {
            beyond += 1;
            continue;
        }
        if shown[prefix.len()..] != tool.name {
            remark(format!(
                "{:?} is renamed to `{shown}`: tool names can only have letters, digits, `_` and `-`",
                tool.name
            ));
        }
        let mut description = match tool.description.is_empty() {
            true => format!("The tool {} of an MCP server. It has no description.", tool.name),
            false => tool.description,
        };
        if let Some(moved) = usable.moved {
            description
                .push_str(&format!("\nThe input must also match: {}", cut(&moved.to_string(), LONGEST_DESCRIPTION)));
            remark(format!(
                "`{shown}` has top-level schema rules that providers reject; they were moved to its description"
            ));
        }
        names.insert(shown.clone());
        let card = ToolCard { name: shown, description, input_schema: usable.schema.into() };
        safe.push(Safe { card, own_name: tool.name, repeatable: tool.repeatable });
    }
    if beyond > 0 {
        let text =
            format!("{beyond} tools of `{prefix}*` omitted: the limit is {MOST_TOOLS}; filter them with `tools`");
        remarks.insert(0, Remark { tool: prefix.to_owned(), text });
    }
    (safe, remarks)
}

/// The name with `_` in place of what providers of models do not take.
fn harmless(name: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    name.chars().map(|character| if plain(character) { character } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sifted(tools: &[Value]) -> (Vec<Safe>, Vec<String>) {
        let config = McpServerConfig { tools: vec!["*".into()], ..McpServerConfig::default() };
        let (safe, remarks) = sift("mcp__s__", &config, tools.iter().map(Listed::read).collect());
        (safe, remarks.into_iter().map(|remark| remark.text).collect())
    }

    #[test]
    fn good_tools_are_offered_under_the_name_of_their_server() {
        let (safe, remarks) = sifted(&[
            json!({"name": "read", "description": "Reads.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}),
            json!({"name": "send", "inputSchema": {}, "annotations": {"readOnlyHint": false}}),
        ]);
        assert_eq!(remarks, Vec::<String>::new());
        let names: Vec<_> = safe.iter().map(|safe| (safe.card.name.as_str(), safe.repeatable)).collect();
        assert_eq!(names, [("mcp__s__read", true), ("mcp__s__send", false)]);
        assert_eq!(safe[1].card.description, "The tool send of an MCP server. It has no description.");
    }

    #[test]
    fn liars_are_left_out_or_made_safe_and_that_is_said() {
        let good = json!({"type": "object"});
        let (safe, remarks) = sifted(&[
            json!({"name": "bad", "inputSchema": {"type": "nothing"}}),
            json!({"name": "none"}),
            json!({"inputSchema": good}),
            json!({"name": "a/b c", "inputSchema": good}),
            json!({"name": "a_b_c", "inputSchema": good}),
            json!({"name": "d e", "inputSchema": good}),
            json!({"name": "x".repeat(80), "inputSchema": good}),
            json!({"name": "twice", "inputSchema": good}),
            json!({"name": "twice", "inputSchema": good}),
            json!({"name": "task", "inputSchema": good, "execution": {"taskSupport": "required"}}),
            json!(5),
        ]);
        let names: Vec<_> = safe.iter().map(|safe| (safe.card.name.as_str(), safe.own_name.as_str())).collect();
        assert_eq!(names, [("mcp__s__a_b_c", "a_b_c"), ("mcp__s__d_e", "d e"), ("mcp__s__twice", "twice")]);
        assert_eq!(remarks.len(), 9, "{remarks:#?}");
        assert!(remarks[0].contains("unknown type \"nothing\""), "{remarks:#?}");
        assert!(remarks[3].contains("another tool of that name"), "{remarks:#?}");
        assert!(remarks[4].contains("is renamed to `mcp__s__d_e`"), "{remarks:#?}");
        let task = "`mcp__s__task` omitted: it can only be called as a task, which is not supported";
        assert_eq!(remarks[7], task, "{remarks:#?}");
    }

    #[test]
    fn a_filter_that_hides_every_tool_is_remarked() {
        let config = McpServerConfig { tools: vec!["red_*".into()], ..McpServerConfig::default() };
        let hidden = |tools: &[Value]| {
            let (_, remarks) = sift("mcp__s__", &config, tools.iter().map(Listed::read).collect());
            remarks.into_iter().map(|remark| remark.text).collect::<Vec<_>>()
        };
        let tool = |name: &str| json!({"name": name, "inputSchema": {}});
        assert_eq!(hidden(&[tool("read"), tool("write")]), ["the filter `tools` hides all 2 tools of `mcp__s__*`"]);
        assert_eq!(hidden(&[tool("read"), tool("red_x")]), Vec::<String>::new());
        assert_eq!(hidden(&[]), Vec::<String>::new());
    }

    #[test]
    fn ten_thousand_tools_are_cut_to_what_a_turn_can_hold() {
        let tools: Vec<Value> =
            (0..10_000).map(|number| json!({"name": format!("t{number}"), "inputSchema": {}})).collect();
        let (safe, remarks) = sifted(&tools);
        assert_eq!(safe.len(), MOST_TOOLS);
        assert_eq!(remarks, ["9872 tools of `mcp__s__*` omitted: the limit is 128; filter them with `tools`"]);
    }

    #[test]
    fn what_is_longer_than_it_may_be_is_not_kept() {
        let huge = "x".repeat(1_000_000);
        let schema = json!({"type": "object", "description": huge});
        let tool = Listed::read(&json!({"name": huge, "description": huge, "inputSchema": schema}));
        assert!(tool.length() < 2 * LONGEST_DESCRIPTION, "{}", tool.length());
        assert!(tool.schema.is_err());
    }
}
