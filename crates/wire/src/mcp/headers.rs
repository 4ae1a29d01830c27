//! The headers that repeat parts of a stateless request, so that middle boxes need not read it (SEP-2243).

use std::collections::HashMap;

use serde_json::Value;

use super::frame::Request;

/// Arguments that are repeated in headers, as tool listings ask for it: tool, then path and header.
#[derive(Debug, Default)]
pub(crate) struct Annotations(HashMap<String, Vec<(Vec<String>, String)>>);

impl Annotations {
    /// Learns from an answer to `tools/list`.
    pub(crate) fn learn(&mut self, answer: &str) {
        // Few servers have such tools; the others pay only for the search.
        if self.0.is_empty() && !answer.contains("x-mcp-header") {
            return;
        }
        let Ok(answer) = serde_json::from_str::<Value>(answer) else { return };
        for tool in answer["result"]["tools"].as_array().into_iter().flatten() {
            let Some(name) = tool["name"].as_str() else { continue };
            let mut found = Vec::new();
            collect(&tool["inputSchema"], &mut Vec::new(), &mut found);
            match found.is_empty() {
                true => drop(self.0.remove(name)),
                false => drop(self.0.insert(name.to_owned(), found)),
            }
        }
    }

    /// The headers of a request.
    pub(crate) fn of(&self, request: &Request) -> Vec<(String, String)> {
        let mut headers = standard(&request.method, request.name.as_deref());
        let annotated = request.name.as_ref().filter(|_| request.method == "tools/call");
        if let Some(annotated) = annotated.and_then(|tool| self.0.get(tool)) {
            let frame: Value = serde_json::from_slice(&request.text).unwrap_or_default();
            for (path, header) in annotated {
                let arguments = &frame["params"]["arguments"];
                let value = path.iter().try_fold(arguments, |value, key| value.get(key));
                if let Some(value) = value.and_then(primitive) {
                    headers.push((format!("mcp-param-{header}"), encode(&value)));
                }
            }
        }
        headers
    }
}

/// The headers that every stateless message has.
pub(crate) fn standard(method: &str, name: Option<&str>) -> Vec<(String, String)> {
    let mut headers = vec![("mcp-method".to_owned(), encode(method))];
    headers.extend(name.map(|name| ("mcp-name".to_owned(), encode(name))));
    headers
}

/// Annotations along `properties`, whose header is a token.
fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, String)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        let header = property["x-mcp-header"].as_str();
        if let Some(header) = header.filter(|header| !header.is_empty() && header.bytes().all(is_token)) {
            found.push((path.clone(), header.to_owned()));
        }
        collect(property, path, found);
        path.pop();
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn primitive(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A value as a header can carry it; what cannot travel as it is goes as Base64 between marks.
fn encode(value: &str) -> String {
    let is_marked = value.starts_with("=?base64?") && value.ends_with("?=");
    let is_spaced = value.starts_with(' ') || value.ends_with(' ');
    let bare = !is_marked && !is_spaced && value.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    if bare { value.to_owned() } else { format!("=?base64?{}?=", base64(value.as_bytes())) }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let three = [group[0], group.get(1).copied().unwrap_or(0), group.get(2).copied().unwrap_or(0)];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::{frame, tests::Counting};

    fn request(frame: Value) -> Request {
        let entropy = Counting::default();
        let stamp = frame::Stamp {
            entropy: &entropy,
            patience: None,
            now: drawloom_contract::time::Instant::from_origin(std::time::Duration::ZERO),
        };
        match frame::read(frame.to_string().as_bytes(), &stamp).remove(0) {
            Ok(frame::Frame::Request(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn annotated_arguments_are_repeated_as_the_listing_asks() {
        let mut annotations = Annotations::default();
        let place =
            json!({ "type": "object", "properties": { "zone": { "type": "integer", "x-mcp-header": "Zone" } } });
        let region = json!({ "type": "string", "x-mcp-header": "Region" });
        let schema = json!({ "type": "object", "properties": { "region": region, "place": place, "n": {} } });
        let listing = json!({ "id": 1, "result": { "tools": [{ "name": "deploy", "inputSchema": schema }] } });
        annotations.learn(&listing.to_string());
        let call = |arguments: Value| {
            let params = json!({ "name": "deploy", "arguments": arguments });
            annotations.of(&request(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })))
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let (method, name) = (pair("mcp-method", "tools/call"), pair("mcp-name", "deploy"));
        assert_eq!(
            call(json!({ "region": "Zürich", "place": { "zone": 3 } })),
            [
                method.clone(),
                name.clone(),
                pair("mcp-param-Zone", "3"),
                pair("mcp-param-Region", "=?base64?WsO8cmljaA==?=")
            ]
        );
        assert_eq!(call(json!({ "region": null, "zone": 3 })), [method, name]);
    }

    #[test]
    fn values_that_a_header_cannot_carry_are_encoded() {
        assert_eq!(encode("plain text"), "plain text");
        assert_eq!(encode(" a"), "=?base64?IGE=?=");
        assert_eq!(encode("a\nb"), "=?base64?YQpi?=");
        assert_eq!(encode("=?base64?YQ==?="), "=?base64?PT9iYXNlNjQ/WVE9PT89?=");
    }
}
