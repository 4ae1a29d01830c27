//! Tools that answer at once, or that ask the client something in between (older protocol).

#![expect(deprecated, reason = "the suite tests sampling and log messages of the older protocol")]

use std::{sync::Arc, time::Duration};

use drawloom_server::mcp::{
    Ask, Change, Outcome,
    rmcp::{
        ErrorData,
        model::{
            CallToolRequestParams, CallToolResult, ClientCapabilities, CreateMessageRequestParams, ElicitRequestParams,
            LoggingLevel, ProgressNotificationParam, Tool,
        },
    },
};
use serde_json::{Map, Value, json};

use crate::fixtures::{DOT, of};

/// A second of silence, as WAV: only its head.
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

/// A tool with this input.
pub(crate) fn tool(name: &'static str, description: &'static str, schema: Value) -> Tool {
    let schema: Map<String, Value> = of(schema);
    Tool::new(name, description, Arc::new(schema))
}

pub(crate) fn nothing() -> Value {
    json!({ "type": "object", "properties": {} })
}

fn texts(name: &str) -> Value {
    json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] })
}

pub(crate) fn list() -> Vec<Tool> {
    let plain = |name, description| tool(name, description, nothing());
    vec![
        plain("test_simple_text", "Answers a text."),
        plain("test_image_content", "Answers an image."),
        plain("test_audio_content", "Answers a sound."),
        plain("test_embedded_resource", "Answers a resource."),
        plain("test_multiple_content_types", "Answers a text, an image and a resource."),
        plain("test_tool_with_logging", "Sends three log messages."),
        plain("test_logging_tool", "Sends a log message."),
        plain("test_error_handling", "Fails."),
        plain("test_tool_with_progress", "Tells of its progress."),
        tool("test_sampling", "Asks the client's model.", texts("prompt")),
        tool("test_elicitation", "Asks the user.", texts("message")),
        plain("test_elicitation_sep1034_defaults", "Asks the user, with defaults."),
        plain("test_elicitation_sep1330_enums", "Asks the user to choose."),
        plain("test_missing_capability", "Needs sampling."),
        plain("test_trigger_tool_change", "Announces a change of the tools."),
        plain("test_trigger_prompt_change", "Announces a change of the prompts."),
        tool(
            "test_custom_header",
            "Has a parameter that is also a header.",
            json!({
                "type": "object",
                "properties": {
                    "region": { "type": "string", "x-mcp-header": "Region" },
                    "query": { "type": "string" },
                },
            }),
        ),
        tool(
            "json_schema_2020_12_tool",
            "Has a schema with many keywords.",
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "$defs": {
                    "address": {
                        "$anchor": "addressDef",
                        "type": "object",
                        "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
                    },
                },
                "properties": {
                    "name": { "type": "string" },
                    "address": { "$ref": "#/$defs/address" },
                    "contactMethod": { "type": "string", "enum": ["phone", "email"] },
                    "phone": { "type": "string" },
                    "email": { "type": "string" },
                },
                "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
                "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
                "then": { "required": ["phone"] },
                "else": { "required": ["email"] },
                "additionalProperties": false,
            }),
        ),
    ]
}

pub(crate) fn text(text: impl Into<String>) -> CallToolResult {
    of(json!({ "content": [{ "type": "text", "text": text.into() }] }))
}

/// Answers a call, if the tool is one of these.
pub(crate) async fn call(ask: &Ask, params: &CallToolRequestParams) -> Option<Result<Outcome, ErrorData>> {
    let argument = |name: &str| {
        let value = params.arguments.as_ref().and_then(|arguments| arguments.get(name)).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let image = json!({ "type": "image", "data": DOT, "mimeType": "image/png" });
    let result: Result<CallToolResult, ErrorData> = match &*params.name {
        "test_simple_text" => Ok(text("This is a simple text response for testing.")),
        "test_image_content" => Ok(of(json!({ "content": [image] }))),
        "test_audio_content" => {
            Ok(of(json!({ "content": [{ "type": "audio", "data": SILENCE, "mimeType": "audio/wav" }] })))
        }
        "test_embedded_resource" => Ok(of(json!({ "content": [{ "type": "resource", "resource": {
            "uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is an embedded resource content.",
        } }] }))),
        "test_multiple_content_types" => {
            let resource = json!({ "uri": "test://mixed-content-resource", "mimeType": "application/json",
                "text": json!({ "test": "data", "value": 123 }).to_string() });
            Ok(of(json!({ "content": [
                { "type": "text", "text": "Multiple content types test:" },
                image,
                { "type": "resource", "resource": resource },
            ] })))
        }
        "test_tool_with_logging" => {
            for words in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                ask.log(LoggingLevel::Info, words.into()).await;
                pause().await;
            }
            Ok(text("Three messages were sent."))
        }
        "test_logging_tool" => {
            ask.log(LoggingLevel::Info, "one message".into()).await;
            Ok(text("A message was sent to whoever wants it."))
        }
        "test_error_handling" => {
            let mut failed = text("This tool intentionally returns an error for testing");
            failed.is_error = Some(true);
            Ok(failed)
        }
        "test_tool_with_progress" => {
            for done in [0.0, 50.0, 100.0] {
                if let Some(token) = ask.context.meta.get_progress_token() {
                    let notice = ProgressNotificationParam::new(token, done).with_total(100.0);
                    if let Err(error) = ask.context.peer.notify_progress(notice).await {
                        return Some(Err(ErrorData::internal_error(error.to_string(), None)));
                    }
                }
                pause().await;
            }
            Ok(text("It is done."))
        }
        "test_sampling" => sample(ask, argument("prompt")).await,
        "test_elicitation" => {
            let text = |words: &str| json!({ "type": "string", "description": words });
            let properties = json!({ "username": text("User's response"), "email": text("User's email address") });
            elicit(ask, &argument("message"), properties, &["username", "email"], "User response: ").await
        }
        "test_elicitation_sep1034_defaults" => {
            let properties = json!({
                "name": { "type": "string", "default": "John Doe" },
                "age": { "type": "integer", "default": 30 },
                "score": { "type": "number", "default": 95.5 },
                "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
                "verified": { "type": "boolean", "default": true },
            });
            elicit(ask, "Please look at the defaults", properties, &[], "Elicitation completed: ").await
        }
        "test_elicitation_sep1330_enums" => {
            let titled = |key: &str, names: [&str; 3]| {
                let values = ["value1", "value2", "value3"];
                let choices: Vec<Value> =
                    values.iter().zip(names).map(|(value, title)| json!({ "const": value, "title": title })).collect();
                json!({ key: choices })
            };
            let mut single = titled("oneOf", ["First Option", "Second Option", "Third Option"]);
            single["type"] = "string".into();
            let properties = json!({
                "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
                "titledSingle": single,
                "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"] },
                "untitledMulti": { "type": "array",
                    "items": { "type": "string", "enum": ["option1", "option2", "option3"] } },
                "titledMulti": { "type": "array",
                    "items": titled("anyOf", ["First Choice", "Second Choice", "Third Choice"]) },
            });
            elicit(ask, "Please choose", properties, &[], "Elicitation completed: ").await
        }
        "test_missing_capability" => {
            match ask.context.client_capabilities().is_some_and(|known| known.sampling.is_some()) {
                true => Ok(text("The client can sample.")),
                false => {
                    let needed: ClientCapabilities = of(json!({ "sampling": {} }));
                    Err(ErrorData::missing_required_client_capability(needed))
                }
            }
        }
        "test_trigger_tool_change" => {
            ask.announce(Change::Tools);
            Ok(text("It was announced."))
        }
        "test_trigger_prompt_change" => {
            ask.announce(Change::Prompts);
            Ok(text("It was announced."))
        }
        "test_custom_header" => Ok(text(format!("The region is {:?}.", argument("region")))),
        "json_schema_2020_12_tool" => Ok(text("It has a schema.")),
        _ => return None,
    };
    Some(result.map(Outcome::Done))
}

/// The suite wants to see that messages come one after the other.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

async fn sample(ask: &Ask, prompt: String) -> Result<CallToolResult, ErrorData> {
    let request: CreateMessageRequestParams = of(json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
        "maxTokens": 100,
    }));
    let answer = ask.context.peer.create_message(request).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let answer = serde_json::to_value(answer).expect("a message is JSON");
    Ok(text(format!("LLM response: {}", answer["content"]["text"].as_str().unwrap_or_default())))
}

async fn elicit(
    ask: &Ask,
    message: &str,
    properties: Value,
    required: &[&str],
    prefix: &str,
) -> Result<CallToolResult, ErrorData> {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let request: ElicitRequestParams = of(json!({ "message": message, "requestedSchema": schema }));
    let answer = ask.context.peer.create_elicitation(request).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let action = serde_json::to_value(&answer.action).expect("an action is a word");
    let content = answer.content.unwrap_or_default();
    Ok(text(format!("{prefix}action={}, content={content}", action.as_str().unwrap_or_default())))
}
