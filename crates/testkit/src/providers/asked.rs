//! A request, as a server sees it.

use serde_json::Value;

use super::{Refusal, Shape, anthropic, deepseek, openai, responses};

/// A request for a turn.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Whose API it is in.
    pub shape: Shape,
    /// Its number among all calls of the server, from 1.
    pub number: u64,
    /// Its method.
    pub method: String,
    /// Its path.
    pub path: String,
    /// What is behind the `?` of its address.
    pub query: String,
    /// Its headers, names in lower case, in alphabetical order.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Value,
}

impl Asked {
    /// Rejects what the real API rejects.
    pub fn check(&self) -> Result<(), Refusal> {
        match self.shape {
            Shape::Anthropic => anthropic::check(self),
            Shape::Openai => openai::check(self),
            Shape::Responses => responses::check(self),
            Shape::Deepseek => deepseek::check(self),
        }
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The model that is asked.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// The conversation.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// The conversation as items, of the Responses API.
    pub fn items(&self) -> &[Value] {
        self.body["input"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// What the user said last.
    pub fn last_text(&self) -> String {
        let all = if self.shape == Shape::Responses { self.items() } else { self.messages() };
        let said = all.iter().rev().filter(|message| message["role"] == "user");
        said.map(|message| texts(&message["content"])).find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// What calls came to, when the newest messages say that.
    pub fn results(&self) -> Vec<String> {
        if self.shape == Shape::Anthropic {
            let blocks = self.messages().last().map(|message| blocks(&message["content"])).unwrap_or_default();
            let results = blocks.iter().filter(|block| block["type"] == "tool_result");
            return results.map(|block| texts(&block["content"])).collect();
        }
        if self.shape == Shape::Responses {
            let tail = self.items().iter().rev().take_while(|item| item["type"] == "function_call_output");
            let mut results: Vec<String> = tail.map(|item| texts(&item["output"])).collect();
            results.reverse();
            return results;
        }
        let tail = self.messages().iter().rev().take_while(|message| message["role"] == "tool");
        let mut results: Vec<String> = tail.map(|message| texts(&message["content"])).collect();
        results.reverse();
        results
    }

    /// The tools on offer.
    pub fn tools(&self) -> Vec<String> {
        let tools = self.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        let name =
            |tool: &Value| tool["name"].as_str().or_else(|| tool["function"]["name"].as_str()).map(str::to_owned);
        tools.iter().filter_map(name).collect()
    }
}

/// The blocks of a message's content.
pub(super) fn blocks(content: &Value) -> &[Value] {
    content.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The texts of a message's content.
pub(super) fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        content => blocks(content).iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n"),
    }
}
