//! An event in a few words.

use drawloom_wire::{events::Event, runs::Amount};
use serde_json::Value;

use super::activity::activity;
use crate::output::{LocalTime, Style, bytes, count, duration, first_line, fit, money, shown};

/// Fields of a tool's input that say most of it.
const TELLING: [&str; 8] = ["command", "path", "pattern", "url", "query", "agent", "prompt", "text"];

/// A mark and the event in words; nothing for pieces of a turn and greetings. It may be longer than a line.
pub(crate) fn describe(event: &Event, currency: &str) -> Option<(&'static str, String)> {
    let data = event.json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Some(match &*event.name {
        "session" | "text" | "thinking" | "tree_done" => return None,
        "agent" => ("●", format!("accepted as {}", text(&data["run_id"]))),
        "started" => ("▶", "started".into()),
        "message" => {
            let calls = data["tool_uses"].as_array().map_or(0, Vec::len);
            let said = text(&data["text"]);
            match (said.trim().is_empty(), calls) {
                (true, calls) => ("»", format!("requests {}", calls_in_words(calls))),
                (false, 0) => ("»", said),
                (false, calls) => ("»", format!("{} (requests {})", first_line(&said, 200), calls_in_words(calls))),
            }
        }
        "usage" => ("·", usage(&data["usage"], currency)),
        "tool_call" => ("→", tool_head(&data["tool_use"], 200)),
        "activity" => ("→", activity(&data, currency)),
        "tool_result" => {
            let (mark, _) = mark_of(&data);
            let said = first_line(data["text"].as_str().unwrap_or_default(), 200);
            (mark, format!("{}: {said}", tool_line(&text(&data["tool_use"]["name"]), &data)))
        }
        "waiting" => {
            let time = |key: &str| data[key].as_str().and_then(LocalTime::parse);
            let most = time("until").zip(time("at")).map(|(until, at)| until.since(at).as_millis());
            let most = most.and_then(|most| u64::try_from(most).ok());
            let most = most.map(|most| format!(", at most {}", duration(most))).unwrap_or_default();
            match data["on"].as_str() {
                Some("rate_limit") => ("…", format!("waiting for the provider's rate limit{most}")),
                Some("budget") => ("…", format!("waiting for the tree's budget{most}")),
                Some(other) => ("…", format!("waiting for a {other}{most}")),
                None if data["until"].is_null() => ("…", "waiting for tool calls".into()),
                None => ("…", format!("waiting{most}")),
            }
        }
        "turn_reset" => {
            let paid = if data["maybe_paid"].as_bool() == Some(true) { "; it may be charged" } else { "" };
            let last = match data["will_retry"].as_bool() {
                Some(false) if is_transient(&data["error"]) => "; no retries left",
                Some(false) => "; not retried",
                _ => "",
            };
            let said = text(&data["error"]["message"]);
            ("!", format!("model call failed (attempt {}): {said}{paid}{last}", data["attempt"]))
        }
        "retry" => {
            let wait = data["retry"]["wait_ms"].as_u64().map(|wait| format!(" after {}", duration(wait)));
            ("↻", format!("retrying the model call (attempt {}){}", data["retry"]["attempt"], wait.unwrap_or_default()))
        }
        "provider_fallback" => {
            let change = &data["fallback"];
            let name = |provider: &str, model: &str| format!("{}/{}", text(&change[provider]), text(&change[model]));
            let (from, to) = (name("failed_provider", "failed_model"), name("new_provider", "new_model"));
            ("⇄", format!("{from} → {to}: {}", text(&change["cause_error"])))
        }
        "done" => {
            let mut spent = data["usage"].clone();
            spent["cost"] = data["cost"].clone();
            ("✓", format!("completed, {}", usage(&spent, currency)))
        }
        "error" => {
            let error = &data["error"];
            ("✗", format!("{}: {} ({})", text(&data["status"]), text(&error["message"]), text(&error["code"])))
        }
        _ => ("!", text(&data["text"])),
    })
}

/// Whether an error of a model call is one that is retried, as long as retries are left.
fn is_transient(error: &Value) -> bool {
    matches!(error["code"].as_str(), Some("throttled" | "model_overloaded" | "model_unavailable" | "model_stream_cut"))
}

fn calls_in_words(calls: usize) -> String {
    if calls == 1 { "1 tool call".into() } else { format!("{calls} tool calls") }
}

fn usage(usage: &Value, currency: &str) -> String {
    let tokens = |key: &str| usage[key].as_u64().unwrap_or_default();
    let cached = match tokens("cache_read_input_tokens") {
        0 => String::new(),
        cached => format!(" and {} from the cache", count(cached)),
    };
    let reasoning = match tokens("reasoning_tokens") {
        0 => String::new(),
        reasoning => format!(" ({} of them reasoning)", count(reasoning)),
    };
    let assumed = usage["assumed"].as_bool().filter(|assumed| *assumed);
    let cost = serde_json::from_value::<Amount>(usage["cost"].clone())
        .map(|cost| format!(", {}{}", if assumed.is_some() { "~" } else { "" }, money(cost, currency)))
        .unwrap_or_default();
    let assumed = if assumed.is_some() { " (assumed: the provider did not report it)" } else { "" };
    format!(
        "{} tokens in{cached}, {} out{reasoning}{cost}{assumed}",
        count(tokens("input_tokens")),
        count(tokens("output_tokens"))
    )
}

/// A call: the tool and the most telling part of its input, on one line.
pub(crate) fn tool_head(tool_use: &Value, most: usize) -> String {
    let name = tool_use["name"].as_str().unwrap_or("a tool");
    let input = &tool_use["input"];
    let telling = TELLING.iter().find_map(|key| input[key].as_str());
    let input = match (telling, input) {
        _ if input["spawns"].is_array() => spawns(input),
        (Some(telling), _) => match input["name"].as_str() {
            Some(name) => format!("{}: {}", shown(name), first_line(telling, most)),
            None => first_line(telling, most),
        },
        (None, Value::Null) => String::new(),
        (None, Value::Object(fields)) if fields.is_empty() => String::new(),
        (None, input) => fit(&shown(&input.to_string()), most),
    };
    fit(format!("{name} {input}").trim_end(), most)
}

/// Several agents at once: whom, and how many of each.
fn spawns(input: &Value) -> String {
    let mut names: Vec<(&str, usize)> = Vec::new();
    for name in input["spawns"].as_array().into_iter().flatten().filter_map(|spawn| spawn["name"].as_str()) {
        match names.iter_mut().find(|(known, _)| *known == name) {
            Some((_, number)) => *number += 1,
            None => names.push((name, 1)),
        }
    }
    let names = names.iter().map(|(name, number)| match number {
        1 => shown(name),
        number => format!("{number} × {}", shown(name)),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// The mark of a call that is done, and its style.
pub(crate) fn mark_of(result: &Value) -> (&'static str, Style) {
    match result["is_error"].as_bool() {
        Some(true) => ("✗", Style::Bad),
        _ if failed_children(result).is_some() => ("!", Style::Notice),
        _ => ("✓", Style::Good),
    }
}

/// How many of the child runs of a call did not complete, and how many there were; nothing when all completed.
fn failed_children(result: &Value) -> Option<(usize, usize)> {
    if result["tool_use"]["name"].as_str() != Some("Agent") {
        return None;
    }
    let told: Value = serde_json::from_str(result["text"].as_str()?).ok()?;
    let children = told["results"].as_array()?;
    let failed = children.iter().filter(|child| child["ok"].as_bool() == Some(false)).count();
    (failed > 0).then_some((failed, children.len()))
}

/// A call that is done: what it was, how long it took and how much it brought.
pub(crate) fn tool_line(head: &str, result: &Value) -> String {
    let size = bytes(result["text"].as_str().unwrap_or_default().len() as u64);
    let took = result["took_ms"].as_u64().map(|took| format!("{}, ", duration(took))).unwrap_or_default();
    let doubt = if result["in_doubt"].as_bool() == Some(true) { ", in doubt" } else { "" };
    let failed = failed_children(result).map(|(failed, all)| format!(", {failed} of {all} failed")).unwrap_or_default();
    format!("{head}  {took}{size}{doubt}{failed}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(name: &'static str, data: Value) -> String {
        let event = Event { name: name.into(), id: Some(1), data: data.to_string() };
        describe(&event, "USD").map(|(mark, text)| format!("{mark} {text}")).unwrap_or_default()
    }

    #[test]
    fn events_are_said_in_a_few_words() {
        let result = json!({ "text": "remember\nthe milk", "is_error": false, "took_ms": 12,
            "tool_use": { "name": "Read" } });
        let fallback = json!({ "fallback": { "failed_provider": "a", "failed_model": "x", "new_provider": "b",
            "new_model": "y", "cause_error": "too busy" } });
        let usage = json!({ "usage": { "input_tokens": 1200, "output_tokens": 34, "cost": 0.0123 } });
        insta::assert_snapshot!([
            words("tool_call", json!({ "tool_use": { "name": "Bash", "input": { "command": "cargo test\n-q" } } })),
            words("tool_call", json!({ "tool_use": { "name": "Odd", "input": { "n": 1 } } })),
            words("tool_call", json!({ "tool_use": { "name": "Agent", "input": { "name": "reader", "prompt": "go" } } })),
            words("tool_call", json!({ "tool_use": { "name": "Agent", "input": { "spawns": [{ "name": "a" }, { "name": "b" }, { "name": "a" }] } } })),
            words("tool_result", result),
            words("tool_result", json!({ "tool_use": { "name": "Agent" }, "text": r#"{"results":[{"ok":true},{"ok":false}]}"# })),
            words("done", json!({ "usage": { "input_tokens": 2, "output_tokens": 1 }, "cost": 0.25 })),
            words("message", json!({ "text": "", "tool_uses": [1, 2] })),
            words("usage", usage),
            words("usage", json!({ "usage": { "input_tokens": 9, "output_tokens": 1, "cost": 0.5, "assumed": true } })),
            words("waiting", json!({ "at": "2026-11-16T04:00:00Z", "until": "2026-11-16T04:00:01.500Z", "on": "rate_limit" })),
            words("waiting", json!({})),
            words("provider_fallback", fallback),
            words("retry", json!({ "retry": { "turn": 1, "attempt": 2, "wait_ms": 500 } })),
            words("turn_reset", json!({ "turn": 1, "attempt": 3, "maybe_paid": true, "will_retry": false, "error": { "code": "model_stream_cut", "message": "cut" } })),
            words("turn_reset", json!({ "turn": 1, "attempt": 1, "will_retry": false, "error": { "code": "model_refused", "message": "no" } })),
            words("error", json!({ "status": "failed", "error": { "code": "c", "message": "m" } })),
            words("model_downgraded", json!({ "text": "asked another" })),
        ].join("\n"), @r#"
        → Bash cargo test…
        → Odd {"n":1}
        → Agent reader: go
        → Agent 2 × a, b
        ✓ Read  12 ms, 17 B: remember…
        ! Agent  38 B, 1 of 2 failed: {"results":[{"ok":true},{"ok":false}]}
        ✓ completed, 2 tokens in, 1 out, $0.250
        » requests 2 tool calls
        · 1,200 tokens in, 34 out, $0.012
        · 9 tokens in, 1 out, ~$0.500 (assumed: the provider did not report it)
        … waiting for the provider's rate limit, at most 1.5 s
        … waiting for tool calls
        ⇄ a/x → b/y: too busy
        ↻ retrying the model call (attempt 2) after 500 ms
        ! model call failed (attempt 3): cut; it may be charged; no retries left
        ! model call failed (attempt 1): no; not retried
        ✗ failed: m (c)
        ! asked another
        "#);
    }
}
