//! A line of the log as people read it: time, level, message, then the fields.

use serde_json::Value;

use crate::output::{LocalTime, Output, Style};

/// Members that are not fields of the event.
const FIXED: [&str; 6] = ["timestamp", "level", "message", "target", "span", "spans"];

/// The text of a line; nothing when the line is not an event.
pub(super) fn of(line: &str, output: &Output, local: &LocalTime) -> Option<String> {
    let Value::Object(event) = serde_json::from_str(line).ok()? else { return None };
    let text = |name: &str| event.get(name).and_then(Value::as_str);
    let level = text("level")?;
    let style = match level {
        "ERROR" => Style::Bad,
        "WARN" => Style::Notice,
        _ => Style::Dim,
    };
    let time = text("timestamp").map(|time| local.whole_of(time)).unwrap_or_default();
    let (time, level) = (output.styled(Style::Dim, &time), output.styled(style, &format!("{level:<5}")));
    let mut shown = format!("{time} {level} {}", text("message").unwrap_or_default());
    let own: Vec<_> = event.iter().filter(|(name, _)| !FIXED.contains(&name.as_str())).collect();
    // Spans say what the event is about, such as the run.
    let spans = event.get("spans").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    let of_spans = spans.flatten().filter(|(name, _)| *name != "name" && !own.iter().any(|(known, _)| known == name));
    for (name, value) in own.iter().copied().chain(of_spans) {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        shown.push_str(&format!(" {}{value}", output.styled(Style::Dim, &format!("{name}="))));
    }
    Some(shown)
}
