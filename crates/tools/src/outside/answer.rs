//! From what a server answered to what a model is told.

use drawloom_contract::{
    redact::Redactor,
    tool::{Step, ToolError},
};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use super::quote;

/// What replaces a block of an unknown type.
pub(super) const UNKNOWN: &str = "[content of an unknown type]";

/// The result of a call, cut to `most` bytes.
pub(super) fn step(result: &CallToolResult, most: usize, redactor: &Redactor) -> Result<Step, ToolError> {
    let text = quote(redactor, &said(result), most);
    match result.is_error {
        Some(true) => Err(ToolError::Failed(text)),
        _ => Ok(Step::done(text)),
    }
}

fn said(result: &CallToolResult) -> String {
    let mut blocks: Vec<String> = result.content.iter().map(block).collect();
    let structured = result.structured_content.as_ref().filter(|structured| !structured.is_null());
    if let Some(structured) = structured.filter(|structured| !is_said(structured, result, &blocks)) {
        let mut structured = structured.clone();
        describe_binaries(&mut structured);
        blocks.push(structured.to_string());
    }
    match blocks.is_empty() {
        true => "[no content]".into(),
        false => blocks.join("\n"),
    }
}

/// Whether the blocks say what the structured content does. Servers should send the same once more as text, for clients that
/// know nothing of structure; some wrap it there, as `{"result": …}` or `{"content": …}`.
fn is_said(structured: &Value, result: &CallToolResult, blocks: &[String]) -> bool {
    let is = |text: &str, value: &Value| {
        value.as_str() == Some(text) || serde_json::from_str::<Value>(text).is_ok_and(|said| said == *value)
    };
    let inner = structured.as_object().filter(|map| map.len() == 1).and_then(|map| map.values().next());
    let is_repeated = |text: &str| is(text, structured) || inner.is_some_and(|inner| is(text, inner));
    let are_the_blocks = |inner: &Value| {
        inner.is_array() && serde_json::to_value(&result.content).is_ok_and(|content| content == *inner)
    };
    blocks.iter().any(|text| is_repeated(text))
        || (blocks.len() > 1 && is_repeated(&blocks.join("\n")))
        || inner.is_some_and(are_the_blocks)
}

/// Replaces pictures, sounds and other binaries with a description, wherever they are.
fn describe_binaries(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(describe_binaries),
        Value::Object(map) => {
            let text = |key: &str| map.get(key).and_then(Value::as_str);
            let (kind, mime_type) = (text("type").unwrap_or_default(), text("mimeType"));
            let kind = if ["image", "audio"].contains(&kind) { Some(kind.to_owned()) } else { None };
            let mime_type = mime_type.map(str::to_owned);
            for (key, value) in map {
                match (value.as_str(), &kind, &mime_type) {
                    (Some(data), Some(kind), mime_type) if key == "data" => {
                        *value = binary(kind, mime_type.as_deref().unwrap_or("of unknown type"), data).into();
                    }
                    (Some(data), None, Some(mime_type))
                        if ["data", "blob"].contains(&key.as_str()) && is_base64(data) =>
                    {
                        *value = binary("binary", mime_type, data).into();
                    }
                    _ => describe_binaries(value),
                }
            }
        }
        _ => {}
    }
}

fn is_base64(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/-_=\r\n".contains(&byte))
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => binary("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => binary("audio", &audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[resource {uri}]\n{text}"),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let what = format!("resource {uri}");
                binary(&what, mime_type.as_deref().unwrap_or("of unknown type"), blob)
            }
            _ => "[a resource of an unknown type]".into(),
        },
        ContentBlock::ResourceLink(link) => format!("[link to the resource {} ({})]", link.uri, link.name),
        _ => UNKNOWN.into(),
    }
}

fn binary(what: &str, mime_type: &str, base64: &str) -> String {
    let bytes = base64.trim_end_matches('=').len() * 3 / 4;
    format!("[{what}, {mime_type}, {bytes} bytes, not shown]")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(result: Value, most: usize) -> Result<Step, ToolError> {
        step(&serde_json::from_value(result).expect("a result"), most, &Redactor::new(["hunter2-hunter2"]))
    }

    fn done(text: &str) -> Result<Step, ToolError> {
        Ok(Step::done(text))
    }

    #[test]
    fn blocks_are_joined_and_what_is_no_text_is_described() {
        let result = json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAAAA=="}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"}
        ]});
        let text = "one\n[image, image/png, 3 bytes, not shown]\n[resource file:///a]\ninside\n\
                    [resource file:///b, of unknown type, 4 bytes, not shown]\n[link to the resource file:///c (c)]";
        assert_eq!(told(result, 10_000), done(text));
        assert_eq!(told(json!({"content": []}), 100), done("[no content]"));
    }

    #[test]
    fn structured_content_is_told_once() {
        let twice = json!({"content": [{"type": "text", "text": "{\"a\": 1}"}], "structuredContent": {"a": 1}});
        assert_eq!(told(twice, 100), done("{\"a\": 1}"));
        for (text, result) in [("3", json!(3)), ("three", json!("three"))] {
            let wrapped = json!({"content": [{"type": "text", "text": text}], "structuredContent": {"result": result}});
            assert_eq!(told(wrapped, 100), done(text));
        }
        let more = json!({"content": [{"type": "text", "text": "x"}], "structuredContent": {"a": 1}});
        assert_eq!(told(more, 100), done("x\n{\"a\":1}"));
        let none = json!({"content": [{"type": "text", "text": "x"}], "structuredContent": null});
        assert_eq!(told(none, 100), done("x"));
    }

    #[test]
    fn structured_content_that_real_servers_send_is_told_once_and_without_binaries() {
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        let described = "[image, image/png, 3 bytes, not shown]";
        let both = |content: Value, structured: Value| json!({"content": content, "structuredContent": structured});
        // server-filesystem
        let text = json!([{"type": "text", "text": "a file\n"}]);
        assert_eq!(told(both(text.clone(), json!({"content": "a file\n"})), 100), done("a file\n"));
        assert_eq!(told(both(json!([image]), json!({"content": [image]})), 100), done(described));
        // server-memory
        let graph = json!([{"type": "text", "text": "[\n {\"name\": \"x\"}]"}]);
        assert_eq!(told(both(graph, json!({"entities": [{"name": "x"}]})), 100), done("[\n {\"name\": \"x\"}]"));
        // Several blocks that are one text.
        let lines = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]);
        assert_eq!(told(both(lines, json!({"result": "one\ntwo"})), 100), done("one\ntwo"));
        let other =
            json!({"all": [image, {"uri": "u", "mimeType": "a/b", "blob": "AAAAAA=="}], "data": "AAAA", "n": 1});
        let shown = json!({"all": [
            {"type": "image", "data": described, "mimeType": "image/png"},
            {"uri": "u", "mimeType": "a/b", "blob": "[binary, a/b, 4 bytes, not shown]"},
        ], "data": "AAAA", "n": 1});
        assert_eq!(told(both(text.clone(), other), 1_000), done(&format!("a file\n\n{shown}")));
        let plain = json!({"a": 1, "page": {"mimeType": "text/html", "data": "<b>bold</b>"}});
        assert_eq!(told(both(text, plain.clone()), 1_000), done(&format!("a file\n\n{plain}")));
    }

    #[test]
    fn an_error_is_an_error_and_a_long_result_is_cut() {
        let failed = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
        assert_eq!(told(failed, 100), Err(ToolError::Failed("no such file".into())));
        let long = json!({"content": [{"type": "text", "text": "x".repeat(100)}]});
        assert_eq!(told(long, 10), done("xxxxx\n[truncated: 90 bytes omitted]\nxxxxx"));
    }

    #[test]
    fn a_secret_across_the_cut_leaves_no_part_of_it() {
        let text = format!("{}hunter2-hunter2{}", "x".repeat(16), "y".repeat(100));
        let long = json!({"content": [{"type": "text", "text": text}]});
        let Ok(Step::Done(drawloom_contract::tool::CallResult { text: told, .. })) = told(long, 40) else {
            panic!("a result")
        };
        assert!(told.starts_with("xxxxxxxxxxxxxxxx[red\n[truncated: "), "{told}");
    }
}
