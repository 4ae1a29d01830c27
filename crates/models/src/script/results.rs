//! What tools answered earlier in the conversation, and what can be made of it.

use std::borrow::Cow;

use drawloom_contract::{message::Message, model::TurnRequest};
use serde_json::Value;

/// The tools whose results are the newest message, in call order; none when it is something else.
pub(super) fn last_tools(request: &TurnRequest) -> Vec<&str> {
    let is_result = matches!(request.messages.last().map(|message| &**message), Some(Message::Results(_)));
    match is_result {
        true => {
            rounds(request).next().map(|round| round.into_iter().map(|(tool, _)| tool).collect()).unwrap_or_default()
        }
        false => Vec::new(),
    }
}

/// The newest value that a result of a tool has at a JSON pointer: `TOOL/JSON/POINTER`. Results that are not JSON have none.
pub(super) fn find(request: &TurnRequest, place: &str) -> Option<Value> {
    let (tool, pointer) = place.split_at(place.find('/').unwrap_or(place.len()));
    rounds(request).flat_map(|round| round.into_iter().rev()).filter(|(name, _)| *name == tool).find_map(|(_, text)| {
        let result: Value = serde_json::from_str(text).ok()?;
        result.pointer(pointer).cloned()
    })
}

/// Calls with their results, turn by turn, newest first.
fn rounds(request: &TurnRequest) -> impl Iterator<Item = Vec<(&str, &str)>> {
    request.messages.windows(2).rev().filter_map(|pair| match (&*pair[0], &*pair[1]) {
        (Message::Assistant { calls, .. }, Message::Results(results)) => {
            let result = |id: &str| results.iter().find(|result| result.id == id);
            Some(calls.iter().filter_map(|call| Some((&*call.name, &*result(&call.id)?.text))).collect())
        }
        _ => None,
    })
}

/// `max LIST BY FIELD`: a field of the entry of a list whose other field is the largest. `add VALUE NUMBER`: a sum of whole numbers.
/// `fixed VALUE DIGITS`: a number with that many digits after the point. LIST and VALUE are places of `find`.
pub(super) fn compute(words: &[&str], request: &TurnRequest) -> Option<Value> {
    let place = |word: &str| find(request, word.strip_prefix("result.")?);
    match *words {
        ["max", list, by, field] => {
            let list = place(list)?;
            let best = list.as_array()?.iter().filter(|entry| entry[by].is_number());
            let number = |entry: &&Value| entry[by].as_f64().unwrap_or(f64::MIN);
            Some(best.max_by(|left, right| number(left).total_cmp(&number(right)))?[field].clone())
        }
        ["add", value, more] => {
            let sum = place(value)?.as_i64()?.checked_add(more.parse().ok()?)?;
            Some(sum.into())
        }
        ["fixed", value, digits] => {
            let digits = digits.parse::<usize>().ok().filter(|digits| *digits <= 9)?;
            Some(format!("{:.digits$}", place(value)?.as_f64()?).into())
        }
        [name] => place(name),
        _ => None,
    }
}

/// A value in a text: texts without quotes.
pub(super) fn plain(value: Value) -> Cow<'static, str> {
    match value {
        Value::String(text) => text.into(),
        other => other.to_string().into(),
    }
}
