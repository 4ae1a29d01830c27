//! The table: which fixture is where.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_server::App;
use drawloom_server::mcp::{
    Ask, Outcome, Pending, Table, Terms, View,
    rmcp::{
        ErrorData,
        model::{
            CallToolRequestParams, CompleteRequestParams, CompletionInfo, GetPromptRequestParams, GetPromptResponse,
            GetPromptResult, Prompt, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference,
            Resource, ResourceTemplate, Tool,
        },
    },
};
use serde_json::{Value, json};

use crate::{
    jobs::{self, Jobs},
    rounds, tools,
};

/// A red dot, as PNG.
pub(crate) const DOT: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// All fixtures.
#[derive(Default)]
pub(crate) struct Fixtures {
    jobs: Jobs,
}

/// A value of the protocol from its JSON.
pub(crate) fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a fixture has the shape of its type")
}

#[async_trait]
impl Table for Fixtures {
    fn tools(&self, _: &View) -> Vec<Tool> {
        tools::list().into_iter().chain(rounds::list()).chain(jobs::list()).collect()
    }

    fn find_tool(&self, name: &str) -> Option<Tool> {
        tools::list().into_iter().chain(rounds::list()).chain(jobs::list()).find(|tool| tool.name == name)
    }

    async fn call(&self, ask: &Ask, params: &CallToolRequestParams) -> Option<Result<Outcome, ErrorData>> {
        if let Some(outcome) = tools::call(ask, params).await {
            return Some(outcome);
        }
        if let Some(outcome) = rounds::call(ask, params) {
            return Some(outcome);
        }
        self.jobs.call(ask, params)
    }

    async fn find_task(
        &self,
        _: &Arc<App>,
        _: &View,
        id: &str,
        _: Terms,
    ) -> Option<Result<Box<dyn Pending>, ErrorData>> {
        self.jobs.find(id).map(Ok)
    }

    async fn resources(&self, _: &Ask) -> Result<Vec<Resource>, ErrorData> {
        let resource = |uri: &str, name: &str, kind: &str| {
            Resource::new(uri, name).with_description(format!("{name}.")).with_mime_type(kind)
        };
        Ok(vec![
            resource("test://static-text", "A text", "text/plain"),
            resource("test://static-binary", "An image", "image/png"),
            resource("test://watched-resource", "Something to watch", "text/plain"),
        ])
    }

    fn resource_templates(&self) -> Vec<ResourceTemplate> {
        let template = ResourceTemplate::new("test://template/{id}/data", "Data by id");
        vec![template.with_description("Data by id.").with_mime_type("application/json")]
    }

    async fn read_resource(
        &self,
        _: &Ask,
        params: &ReadResourceRequestParams,
    ) -> Option<Result<ReadResourceResponse, ErrorData>> {
        let uri = params.uri.as_str();
        let contents = match uri {
            "test://static-text" => {
                json!({ "mimeType": "text/plain", "text": "This is the content of the static text resource." })
            }
            "test://static-binary" => json!({ "mimeType": "image/png", "blob": DOT }),
            "test://watched-resource" => json!({ "mimeType": "text/plain", "text": "Nothing changes." }),
            other => {
                let id = other.strip_prefix("test://template/")?.strip_suffix("/data")?;
                let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                json!({ "mimeType": "application/json", "text": data.to_string() })
            }
        };
        let mut contents = contents;
        contents["uri"] = uri.into();
        Some(Ok(ReadResourceResult::new(vec![of(contents)]).into()))
    }

    async fn find_resource(&self, _: &Ask, uri: &str) -> Option<Result<(), ErrorData>> {
        uri.starts_with("test://").then_some(Ok(()))
    }

    async fn resource_changed(&self, _: &Ask, uri: &str) -> Option<Result<(), ErrorData>> {
        match uri.starts_with("test://") {
            true => std::future::pending().await,
            false => None,
        }
    }

    fn prompts(&self) -> Vec<Prompt> {
        let argument = |name: &str| json!({ "name": name, "description": format!("{name}."), "required": true });
        [
            json!({ "name": "test_simple_prompt", "description": "A prompt without arguments." }),
            json!({ "name": "test_prompt_with_arguments", "description": "A prompt with two arguments.",
                "arguments": [argument("arg1"), argument("arg2")] }),
            json!({ "name": "test_prompt_with_embedded_resource", "description": "A prompt with a resource.",
                "arguments": [argument("resourceUri")] }),
            json!({ "name": "test_prompt_with_image", "description": "A prompt with an image." }),
            json!({ "name": "test_input_required_result_prompt", "description": "A prompt that asks back." }),
        ]
        .into_iter()
        .map(of)
        .collect()
    }

    async fn get_prompt(
        &self,
        _: &Ask,
        params: &GetPromptRequestParams,
    ) -> Option<Result<GetPromptResponse, ErrorData>> {
        let argument = |name: &str| {
            let value = params.arguments.as_ref().and_then(|arguments| arguments.get(name)).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let text = |text: String| json!({ "role": "user", "content": { "type": "text", "text": text } });
        let messages = match params.name.as_str() {
            "test_simple_prompt" => vec![text("This is a simple prompt for testing.".into())],
            "test_prompt_with_arguments" => {
                vec![text(format!("Prompt with arguments: arg1='{}', arg2='{}'", argument("arg1"), argument("arg2")))]
            }
            "test_prompt_with_embedded_resource" => {
                let resource = json!({ "uri": argument("resourceUri"), "mimeType": "text/plain",
                    "text": "Embedded resource content for testing." });
                let embedded = json!({ "role": "user", "content": { "type": "resource", "resource": resource } });
                vec![embedded, text("Please process the embedded resource above.".into())]
            }
            "test_prompt_with_image" => {
                let image = json!({ "type": "image", "data": DOT, "mimeType": "image/png" });
                vec![json!({ "role": "user", "content": image }), text("Please analyze the image above.".into())]
            }
            "test_input_required_result_prompt" => {
                match rounds::answer(&params.input_responses, "user_context", "context") {
                    Ok(Some(context)) => vec![text(format!("Use this context: {context}"))],
                    Ok(None) => {
                        let question = rounds::elicit("What context should the prompt use?", "context");
                        return Some(Ok(rounds::ask_for([("user_context", question)], None).into()));
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
            _ => return None,
        };
        Some(Ok(GetPromptResult::new(messages.into_iter().map(of).collect()).into()))
    }

    async fn complete(&self, _: &Ask, params: &CompleteRequestParams) -> Option<Result<CompletionInfo, ErrorData>> {
        let Reference::Prompt(prompt) = &params.r#ref else { return None };
        if !prompt.name.starts_with("test_") {
            return None;
        }
        let words = ["paris", "park", "party", "quince"];
        let fitting = words.into_iter().filter(|word| word.starts_with(&params.argument.value));
        CompletionInfo::new(fitting.map(str::to_owned).collect()).ok().map(Ok)
    }
}
