//! Reading a server's messages, also invalid ones: the caller gets an error at once.

use drawloom_contract::redact::Redactor;
use drawloom_net::rpc::Seeker;
use rmcp::model::{ContentBlock, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult};
use serde_json::{Value, json};

use super::{answer::UNKNOWN, page, quote};

/// How much of an answer that is none is shown, in bytes.
const LONGEST_QUOTE: usize = 400;

/// A message of a server.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) message: ServerJsonRpcMessage,
    /// Whether it stands there as it is.
    pub(super) is_as_sent: bool,
}

/// The message in a text. An answer that is not valid becomes an error for the caller;
/// nothing when it is no message at all.
pub(super) fn read(text: &[u8], redactor: &Redactor) -> Option<Read> {
    let instead = |message| Some(Read { message, is_as_sent: false });
    match serde_json::from_slice(text) {
        Ok(message) if is_odd(&message) || loses_something(&message, text) => {
            match serde_json::from_slice(text).ok().and_then(mended) {
                Some(mended) => instead(mended),
                None => Some(Read { message, is_as_sent: true }),
            }
        }
        Ok(message) => Some(Read { message, is_as_sent: true }),
        Err(_) => instead(error_for(text, redactor)?),
    }
}

/// `data` of an error that stands for an answer that could not be read.
const UNREADABLE: &str = "drawloom: unreadable response";

/// The error for the caller whose answer this was meant to be.
fn error_for(text: &[u8], redactor: &Redactor) -> Option<ServerJsonRpcMessage> {
    let (id, why) = match serde_json::from_slice::<Value>(text) {
        Ok(Value::Array(list)) => {
            let id = list.iter().find(|value| value.get("method").is_none()).and_then(|value| value.get("id"));
            (id?.clone(), "it sent a list of messages instead of one".to_owned())
        }
        Ok(value) if value.get("method").is_some() => return None,
        Ok(value) => {
            let quote = quote(redactor, &value.to_string(), LONGEST_QUOTE);
            (value.get("id")?.clone(), format!("the response is not valid MCP: {quote}"))
        }
        Err(error) => {
            let mut seeker = Seeker::default();
            let inside_list = text.trim_ascii_start().strip_prefix(b"[");
            seeker.feed(inside_list.unwrap_or(text));
            let id = seeker.id().filter(|_| seeker.is_answer())?;
            (serde_json::from_str(id).ok()?, format!("the response is not valid JSON: {error}"))
        }
    };
    let id: RequestId = serde_json::from_value(id).ok()?;
    let error = ErrorData::internal_error(why, Some(Value::String(UNREADABLE.into())));
    Some(JsonRpcMessage::error(error, Some(id)))
}

/// Whether an error stands for an answer that could not be read: the call may have been made.
pub(super) fn is_unreadable(error: &ErrorData) -> bool {
    error.data.as_ref().and_then(Value::as_str) == Some(UNREADABLE)
}

/// Whether an answer may be the result of a call that has something odd in it: for the library it is nothing then.
fn is_odd(message: &ServerJsonRpcMessage) -> bool {
    use ServerResult::{CustomResult, EmptyResult, TaskAckResult};
    matches!(
        message,
        JsonRpcMessage::Response(response)
            if matches!(response.result, CustomResult(_) | EmptyResult(_) | TaskAckResult(_))
    )
}

/// Whether an answer is a page of tools that says more than the library keeps.
fn loses_something(message: &ServerJsonRpcMessage, text: &[u8]) -> bool {
    let word = page::TASK_SUPPORT.as_bytes();
    matches!(message, JsonRpcMessage::Response(response) if matches!(response.result, ServerResult::ListToolsResult(_)))
        && text.windows(word.len()).any(|part| part == word)
}

/// An answer to a call, or a page of tools, without what is odd in it: one block or tool must not hide the others.
fn mended(mut message: Value) -> Option<ServerJsonRpcMessage> {
    let result = message.get_mut("result")?.as_object_mut()?;
    if result.contains_key("tools") {
        message["result"] = page::parted(std::mem::take(result))?;
        return serde_json::from_value(message).ok();
    }
    for block in result.get_mut("content")?.as_array_mut()? {
        mend(block);
    }
    if result.get("_meta").is_some_and(|meta| !meta.is_object()) {
        result.remove("_meta");
    }
    if let Some(flag) = result.get_mut("isError").filter(|flag| !flag.is_boolean()) {
        *flag = Value::Bool(flag == "true");
    }
    serde_json::from_value(message).ok()
}

fn mend(block: &mut Value) {
    let is_known = |block: &Value| serde_json::from_value::<ContentBlock>(block.clone()).is_ok();
    if is_known(block) {
        return;
    }
    if let Value::Object(fields) = block {
        fields.remove("annotations");
        fields.remove("_meta");
    }
    if !is_known(block) {
        *block = json!({"type": "text", "text": UNKNOWN});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &[u8]) -> Option<String> {
        let read = read(text, &Redactor::new(["hunter2-hunter2"]))?;
        Some(match read.message {
            JsonRpcMessage::Error(error) => {
                format!("{}: {}", error.id.map(|id| id.to_string()).unwrap_or_default(), error.error.message)
            }
            other => serde_json::to_value(other).expect("JSON")["result"].to_string(),
        })
    }

    #[test]
    fn what_cannot_be_parsed_is_an_error_for_the_caller() {
        let deep = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        for text in [
            deep.as_bytes(),
            br#"{"jsonrpc":"2.0","id":7,"result":{"a":NaN}}"#,
            br#"{"jsonrpc":"2.0","id":7,"result":{"a":"\ud800"}}"#,
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":\"\xff\"}}",
            br#"[{"jsonrpc":"2.0","id":7,"result":{"a":NaN}}]"#,
        ] {
            let said = told(text).expect("an error");
            assert!(said.starts_with("7: the response is not valid JSON: "), "{said}");
        }
        let list = br#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#;
        assert_eq!(told(list).as_deref(), Some("7: it sent a list of messages instead of one"));
        for noise in [&br#"{"id":7,"level":NaN}"#[..], br#"{"id":7,"method":"x","error":NaN}"#, b"7", b"[]"] {
            assert_eq!(told(noise), None, "{}", String::from_utf8_lossy(noise));
        }
    }

    #[test]
    fn a_secret_that_the_quote_would_cut_is_masked_first() {
        let text = json!({"jsonrpc": "2.0", "id": 7, "error": format!("{}hunter2-hunter2", "x".repeat(160)), "z": "y".repeat(999)});
        let said = told(text.to_string().as_bytes()).expect("an error");
        assert!(said.contains("xx[redac") && !said.contains("hunter2"), "{said}");
    }

    #[test]
    fn what_is_odd_in_a_result_does_not_hide_the_rest() {
        let good = json!({"type": "text", "text": "good"});
        for (odd, content) in [
            (
                json!({"content": [good, {"type": "smell", "smell": "x"}]}),
                json!([good, {"type": "text", "text": UNKNOWN}]),
            ),
            (json!({"content": [{"type": "text", "text": "good", "annotations": 5}]}), json!([good])),
            (json!({"content": [5, good]}), json!([{"type": "text", "text": UNKNOWN}, good])),
            (json!({"content": [good], "_meta": 5}), json!([good])),
            (json!({"content": [good], "isError": "false"}), json!([good])),
            (json!({"content": [good], "_meta": 5, "resultType": "complete"}), json!([good])),
        ] {
            let message = json!({"jsonrpc": "2.0", "id": 7, "result": odd});
            let result: Value =
                serde_json::from_str(&told(message.to_string().as_bytes()).expect("a result")).expect("JSON");
            assert_eq!(result["content"], content, "{odd}");
            assert_ne!(result["isError"], json!(true), "{odd}");
        }
    }
}
