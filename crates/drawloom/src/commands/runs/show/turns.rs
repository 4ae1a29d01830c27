//! The model calls and tool calls of a run, each with the reason of its failure.

use std::collections::BTreeMap;

use drawloom_contract::record::Status;
use drawloom_wire::events::Event;
use serde_json::{Value, json};

use super::{Calls, USUAL_WIDTH};
use crate::{
    live::{describe, mark_of, tool_head, tool_line},
    output::{Output, Style, first_line, fit, shown, wrap},
};

/// Lines of the reason of a failed call.
const REASON_LINES: usize = 4;

/// One line for each turn and each call, and more for a call that failed or when all of it is asked for.
pub(super) fn show(output: &Output, events: &[Event], status: Status, currency: &str, calls: Calls) {
    let width = output.width().unwrap_or(USUAL_WIDTH).saturating_sub(8);
    let mut open: BTreeMap<Option<u64>, Value> = BTreeMap::new();
    let mut lines = Vec::new();
    for event in events {
        let data = event.json();
        match &*event.name {
            "message" => {
                let text = describe(event, currency).map(|(_, text)| text).unwrap_or_default();
                lines.push(format!("{:>3}  {}", data["turn"].as_u64().unwrap_or_default(), first_line(&text, width)));
            }
            "tool_call" => _ = open.insert(data["call"].as_u64(), data["tool_use"].clone()),
            "tool_result" => {
                let asked = open.remove(&data["call"].as_u64()).unwrap_or_default();
                call_lines(output, &asked, &data, width, calls, &mut lines);
            }
            "provider_fallback" | "turn_reset" => {
                let text = describe(event, currency).map(|(_, text)| text).unwrap_or_default();
                // A call that failed is a step, with the number of its turn; what follows it is not.
                let (turn, mark) = match (&*event.name, data["turn"].as_u64()) {
                    ("turn_reset", Some(turn)) => (turn.to_string(), output.styled(Style::Bad, "✗")),
                    _ => (String::new(), output.styled(Style::Notice, "!")),
                };
                for (number, text) in reason(&text, width.saturating_sub(2)).enumerate() {
                    let (turn, mark) = if number == 0 { (turn.as_str(), mark.as_str()) } else { ("", " ") };
                    lines.push(format!("{turn:>3}  {mark} {text}"));
                }
            }
            _ => {}
        }
    }
    // Calls that are being made, or whose run ended before their result came.
    let stands = if status.is_terminal() { "no result" } else { "running" };
    for asked in open.values() {
        let head = tool_head(asked, width.saturating_sub(14));
        lines.push(format!("     {} {head}  ({stands})", output.styled(Style::Notice, "…")));
    }
    // A single turn without calls is the text below.
    if lines.len() > 1 {
        output.line("");
        lines.iter().for_each(|line| output.line(line));
    }
}

fn call_lines(output: &Output, asked: &Value, result: &Value, width: usize, calls: Calls, lines: &mut Vec<String>) {
    let has_failed = result["is_error"].as_bool() == Some(true);
    let (mark, style) = mark_of(result);
    let head = fit(&tool_line(&tool_head(asked, width), result), width);
    lines.push(format!("     {} {}", output.styled(style, mark), output.styled(Style::Dim, &head)));
    let text = result["text"].as_str().unwrap_or_default();
    match calls {
        Calls::Brief if has_failed => {
            let said = reason(text, width.saturating_sub(2));
            lines.extend(said.map(|line| format!("       {}", output.styled(Style::Bad, &line))));
        }
        Calls::Brief => {}
        Calls::Whole => {
            let input = serde_json::to_string_pretty(&asked["input"]).unwrap_or_default();
            lines.push(format!("       {}", output.styled(Style::Dim, "input")));
            lines.extend(shown(&input).lines().map(|line| format!("         {line}")));
            lines.push(format!("       {}", output.styled(Style::Dim, if has_failed { "error" } else { "output" })));
            let paint = |line: &str| if has_failed { output.styled(Style::Bad, line) } else { line.to_owned() };
            lines.extend(shown(&readable(text)).lines().map(|line| format!("         {}", paint(line))));
        }
    }
}

/// JSON with its fields on lines of their own; other text as it is.
fn readable(text: &str) -> String {
    let value = Some(text)
        .filter(|text| text.starts_with(['{', '[']))
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    value.and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or_else(|| text.to_owned())
}

/// The first lines of why something failed, in `width` columns.
fn reason(text: &str, width: usize) -> impl Iterator<Item = String> {
    let text = shown(text);
    let mut lines: Vec<String> =
        text.lines().filter(|line| !line.trim().is_empty()).flat_map(|line| wrap(line, width)).collect();
    if lines.len() > REASON_LINES {
        lines.truncate(REASON_LINES);
        lines.last_mut().expect("there are some").push('…');
    }
    lines.into_iter().map(move |line| fit(&line, width))
}

/// Every call with its input and output, for programs.
pub(super) fn calls_json(events: &[Event]) -> Value {
    let mut calls: BTreeMap<u64, Value> = BTreeMap::new();
    for event in events.iter().filter(|event| matches!(&*event.name, "tool_call" | "tool_result")) {
        let data = event.json();
        let call = data["call"].as_u64().unwrap_or_default();
        if event.name == "tool_call" {
            let asked = &data["tool_use"];
            calls.insert(call, json!({ "call": call, "tool": asked["name"], "input": asked["input"] }));
        } else if let Some(shown) = calls.get_mut(&call) {
            for key in ["text", "is_error", "in_doubt", "took_ms"] {
                shown[key] = data[key].clone();
            }
        }
    }
    calls.into_values().collect()
}
