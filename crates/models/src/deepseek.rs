//! DeepSeek's API: Chat Completions, with reasoning that must come back where tools were called.
//!
//! Between two messages of the user, a model that called tools wants the reasoning of all its turns back, in every later
//! request; without it the request is rejected. Where no tool was called reasoning is ignored, so it is left out.

use drawloom_contract::{
    choice::Effort,
    message::{Message, Thought},
    model::TurnRequest,
};
use serde_json::{Map, Value, json};

use crate::{
    Driver, Options,
    chat::{
        self,
        reader::{Completion, Reasoning},
    },
    intake::Reader,
    known::{Known, PLAIN_SUFFIX, Thinking},
    remote::{Api, EncodedRequest},
};

/// DeepSeek's API.
pub(crate) struct Deepseek;

impl Api for Deepseek {
    fn driver(&self) -> Driver {
        Driver::Deepseek
    }

    fn name(&self) -> &'static str {
        "deepseek"
    }

    fn default_url(&self) -> &'static str {
        "https://api.deepseek.com"
    }

    fn root(&self, address: &str) -> String {
        address.to_owned()
    }

    fn encode(&self, request: &TurnRequest, known: &Known, _: &Options) -> EncodedRequest {
        let demanded = demanded(request);
        let mode = Mode::of(request, known, &demanded);
        let reasoning = if mode == Mode::Thinking { Reasoning::Expected } else { Reasoning::Optional };
        EncodedRequest { body: body(request, mode, &demanded), headers: Vec::new(), reader: reader(reasoning) }
    }
}

/// Parses an answer.
pub(crate) fn reader(reasoning: Reasoning) -> Box<dyn Reader> {
    Box::new(Completion::new(reasoning))
}

/// How a request has the model think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// It does.
    Thinking,
    /// It could, and is told not to.
    Plain,
    /// It cannot.
    Unspecified,
}

impl Mode {
    /// A history that lacks reasoning where it is demanded would be rejected: then the model is told not to think.
    fn of(request: &TurnRequest, known: &Known, demanded: &[bool]) -> Self {
        if known.thinking_disabled || request.model.ends_with(PLAIN_SUFFIX) {
            return Self::Plain;
        }
        let whole = request.messages.iter().zip(demanded).all(|(message, demanded)| match &**message {
            Message::Assistant { thoughts, .. } => !demanded || !thoughts.is_empty(),
            Message::User(_) | Message::Results(_) => true,
        });
        match (known.thinking, whole) {
            (Thinking::Never, _) => Self::Unspecified,
            (_, true) => Self::Thinking,
            (_, false) => Self::Plain,
        }
    }
}

/// For each message, whether it stands between two messages of the user that have a call between them.
fn demanded(request: &TurnRequest) -> Vec<bool> {
    let mut demanded = vec![false; request.messages.len()];
    let mut from = 0;
    let mut calls = false;
    for (index, message) in request.messages.iter().enumerate() {
        match &**message {
            Message::User(_) => (from, calls) = (index + 1, false),
            Message::Assistant { calls: made, .. } => {
                calls |= !made.is_empty();
                if calls {
                    demanded[from..=index].fill(true);
                }
            }
            Message::Results(_) => {}
        }
    }
    demanded
}

fn body(request: &TurnRequest, mode: Mode, demanded: &[bool]) -> Value {
    let assistant = |index: usize, said: &mut Map<String, Value>| {
        let Message::Assistant { thoughts, .. } = &*request.messages[index] else { return };
        if demanded[index] && mode != Mode::Plain && (mode == Mode::Thinking || !thoughts.is_empty()) {
            said.insert("reasoning_content".into(), reasoning(thoughts).into());
        }
    };
    let mut body = chat::body(request, "system", &assistant);
    let model = request.model.strip_suffix(PLAIN_SUFFIX).unwrap_or(&request.model);
    body.insert("model".into(), model.into());
    body.insert("max_tokens".into(), request.max_tokens.into());
    match mode {
        // Settings for picking words have no effect on a model that thinks.
        Mode::Thinking => {
            if let Some(effort) = request.effort {
                body.insert("thinking".into(), json!({ "type": "enabled" }));
                let effort = if effort == Effort::Low { "low" } else { "high" };
                body.insert("reasoning_effort".into(), effort.into());
            }
        }
        Mode::Plain => {
            body.insert("thinking".into(), json!({ "type": "disabled" }));
            chat::sampling(&mut body, &request.sampling);
        }
        Mode::Unspecified => chat::sampling(&mut body, &request.sampling),
    }
    chat::stops(&mut body, &request.sampling);
    Value::Object(body)
}

fn reasoning(thoughts: &[Thought]) -> String {
    thoughts.iter().map(|thought| thought.text.as_str()).collect()
}
