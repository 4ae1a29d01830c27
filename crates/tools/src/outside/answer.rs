//! From what a server answered to what a model is told.

use drawloom_contract::{
    redact::Redactor,
    tool::{Step, ToolError},
};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use super::quote;

/// What stands for a block that nobody understands.
pub(super) const UNKNOWN: &str = "[content of a kind that is not known]";

/// The result of a call, cut to `most` bytes.
pub(super) fn step(result: &CallToolResult, most: usize, redactor: &Redactor) -> Result<Step, ToolError> {
    let text = quote(redactor, &said(result), most);
    match result.is_error {
        Some(true) => Err(ToolError::Failed(text)),
        _ => Ok(Step::Done(text)),
    }
}

fn said(result: &CallToolResult) -> String {
    let mut blocks: Vec<String> = result.content.iter().map(block).collect();
    if let Some(structured) = &result.structured_content {
        // Servers should send the same once more as text, for clients that know nothing of structure; some wrap what is no
        // object as `{"result": …}`.
        let inner = structured.as_object().filter(|map| map.len() == 1).and_then(|map| map.get("result"));
        let is = |text: &String, value: &Value| {
            value.as_str() == Some(text) || serde_json::from_str::<Value>(text).is_ok_and(|said| said == *value)
        };
        let repeated = |text: &String| is(text, structured) || inner.is_some_and(|inner| is(text, inner));
        if !blocks.iter().any(repeated) {
            blocks.push(structured.to_string());
        }
    }
    match blocks.is_empty() {
        true => "[no content]".into(),
        false => blocks.join("\n"),
    }
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
            _ => "[a resource of a kind that is not known]".into(),
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
        Ok(Step::Done(text.into()))
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
    }

    #[test]
    fn an_error_is_an_error_and_a_long_result_is_cut() {
        let failed = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
        assert_eq!(told(failed, 100), Err(ToolError::Failed("no such file".into())));
        let long = json!({"content": [{"type": "text", "text": "x".repeat(100)}]});
        assert_eq!(told(long, 10), done("xxxxx\n[cut: 90 bytes are left out here]\nxxxxx"));
    }

    #[test]
    fn a_secret_across_the_cut_leaves_no_part_of_it() {
        let text = format!("{}hunter2-hunter2{}", "x".repeat(16), "y".repeat(100));
        let long = json!({"content": [{"type": "text", "text": text}]});
        let Ok(Step::Done(told)) = told(long, 40) else { panic!("a result") };
        assert!(told.starts_with("xxxxxxxxxxxxxxxx[red\n[cut: "), "{told}");
    }
}
