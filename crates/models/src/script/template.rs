//! Placeholders in a script's texts.

use std::borrow::Cow;

use drawloom_contract::{
    message::{Message, Part},
    model::TurnRequest,
};
use serde_json::Value;

use super::results;

/// What a rule can look at.
pub(super) struct Scene<'a> {
    /// The first thing that the user said.
    pub(super) prompt: Cow<'a, str>,
    /// The newest message: the results of tools, or what the user said.
    pub(super) last: Cow<'a, str>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(request: &'a TurnRequest) -> Self {
        let prompt = request.messages.iter().find_map(|message| match &**message {
            Message::User(parts) => Some(said(parts)),
            Message::Assistant { .. } | Message::Results(_) => None,
        });
        let last = match request.messages.last().map(|message| &**message) {
            Some(Message::User(parts)) => said(parts),
            Some(Message::Assistant { text, .. }) => Cow::Borrowed(text.as_str()),
            Some(Message::Results(results)) => match results.as_slice() {
                [only] => Cow::Borrowed(&*only.text),
                many => Cow::Owned(many.iter().map(|result| &*result.text).collect::<Vec<_>>().join("\n")),
            },
            None => Cow::Borrowed(""),
        };
        Self { prompt: prompt.unwrap_or_default(), last }
    }
}

/// The texts of what a user says; pictures are not looked at.
fn said(parts: &[Part]) -> Cow<'_, str> {
    let mut texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Image { .. } => None,
    });
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(only), None) => Cow::Borrowed(only),
        (Some(first), Some(second)) => {
            Cow::Owned([first, second].into_iter().chain(texts).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// `text` with its placeholders filled; one that is not known stays as it is.
pub(super) fn fill(text: &str, scene: &Scene<'_>, captures: &[String], request: &TurnRequest) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let Some((name, tail)) = after.split_once("}}") else {
            filled.push_str("{{");
            rest = after;
            continue;
        };
        match value(name.trim(), scene, captures, request) {
            Some(value) => filled.push_str(&value),
            None => {
                filled.push_str("{{");
                filled.push_str(name);
                filled.push_str("}}");
            }
        }
        rest = tail;
    }
    filled.push_str(rest);
    filled
}

pub(super) fn value<'a>(
    name: &str,
    scene: &'a Scene<'_>,
    captures: &'a [String],
    request: &'a TurnRequest,
) -> Option<Cow<'a, str>> {
    Some(match name {
        "prompt" => Cow::Borrowed(&*scene.prompt),
        "last" => Cow::Borrowed(&*scene.last),
        "last.lines" => Cow::Owned(scene.last.lines().count().to_string()),
        "last.words" => Cow::Owned(scene.last.split_whitespace().count().to_string()),
        "last.first_line" => Cow::Borrowed(scene.last.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()),
        "agent" => Cow::Borrowed(request.agent.as_str()),
        "turn" => Cow::Owned(request.turn.to_string()),
        "attempt" => Cow::Owned(request.attempt.to_string()),
        "run" => Cow::Owned(request.run.run.to_string()),
        "tools" => Cow::Owned(request.tools.iter().map(|card| card.name.as_str()).collect::<Vec<_>>().join(", ")),
        pointer if pointer.starts_with("schema.") => schema(pointer, request)?,
        computed if computed.starts_with("result.") || computed.contains(' ') => {
            results::plain(expression(computed, request)?)
        }
        number => Cow::Borrowed(captures.get(number.parse::<usize>().ok()?.checked_sub(1)?)?),
    })
}

/// What an expression over results comes to.
fn expression(text: &str, request: &TurnRequest) -> Option<Value> {
    results::compute(&text.split_whitespace().collect::<Vec<_>>(), request)
}

/// What the schema of an offered tool says at a place: `schema.TOOL/JSON/POINTER`.
fn schema<'a>(place: &str, request: &'a TurnRequest) -> Option<Cow<'a, str>> {
    let place = place.strip_prefix("schema.")?;
    let (tool, pointer) = place.split_at(place.find('/').unwrap_or(place.len()));
    let card = request.tools.iter().find(|card| card.name == tool)?;
    Some(match card.input_schema.pointer(pointer)? {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    })
}

/// `value` with every text in it filled. A text that is only `{{json …}}` becomes the value itself.
pub(super) fn fill_value(value: &Value, request: &TurnRequest, fill: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => {
            let json = text.strip_prefix("{{json ").and_then(|text| text.strip_suffix("}}"));
            json.and_then(|json| expression(json, request)).unwrap_or_else(|| Value::String(fill(text)))
        }
        Value::Array(items) => items.iter().map(|item| fill_value(item, request, fill)).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), fill_value(value, request, fill))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
