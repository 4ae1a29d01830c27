//! A page of a list of tools, in a shape that loses nothing on its way through the library: one tool that is not as it must be
//! would hide all others from it, and it forgets what it does not know.

use rmcp::model::Tool;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

/// Where in the page those tools are that the library does not take as they are.
const ASIDE: &str = "drawloom/aside";

/// What a tool says that can only be called as a task. The library does not know it.
pub(super) const TASK_SUPPORT: &str = "taskSupport";

/// Whether a tool can only be called as a task.
pub(super) fn needs_task(tool: &Value) -> bool {
    tool.get("execution").and_then(|execution| execution.get(TASK_SUPPORT)).is_some_and(|support| support == "required")
}

/// The page with such tools put aside; nothing when it is no page.
pub(super) fn parted(mut page: Map<String, Value>) -> Option<Value> {
    let Value::Array(tools) = page.remove("tools")? else { return None };
    let is_plain = |tool: &Value| !needs_task(tool) && Tool::deserialize(tool).is_ok();
    let (plain, aside): (Vec<_>, Vec<_>) = tools.into_iter().partition(is_plain);
    let mut parted = json!({"tools": plain, "_meta": {ASIDE: aside}});
    // Only what is looked at, because the rest may be odd too.
    for (key, is_good) in [("nextCursor", Value::is_string as fn(&Value) -> bool), ("ttlMs", Value::is_u64)] {
        if let Some(value) = page.remove(key).filter(is_good) {
            parted[key] = value;
        }
    }
    Some(parted)
}

/// All tools of a page; nothing when it has no list of them.
pub(super) fn tools(page: &Value) -> Option<impl Iterator<Item = &Value>> {
    let aside = page.get("_meta").and_then(|meta| meta.get(ASIDE)).and_then(Value::as_array);
    Some(page.get("tools")?.as_array()?.iter().chain(aside.into_iter().flatten()))
}

#[cfg(test)]
mod tests {
    use rmcp::model::ListToolsResult;

    use super::*;

    #[test]
    fn one_odd_tool_does_not_hide_the_others() {
        let good = json!({"name": "good", "inputSchema": {}});
        let task = json!({"name": "task", "inputSchema": {}, "execution": {"taskSupport": "required"}});
        let odd = [json!(5), task, json!({"name": "none"})];
        let list: Vec<Value> = odd.iter().cloned().chain([good.clone()]).collect();
        let page = json!({"tools": list, "nextCursor": "on", "ttlMs": -5, "cacheScope": "mine"});
        let parted = parted(page.as_object().expect("an object").clone()).expect("a page");
        let seen = serde_json::to_value(ListToolsResult::deserialize(&parted).expect("a list")).expect("JSON");
        assert_eq!((&seen["tools"], &seen["nextCursor"]), (&json!([good]), &json!("on")));
        assert_eq!(tools(&seen).expect("tools").cloned().collect::<Vec<_>>(), [&[good][..], &odd[..]].concat());
    }
}
