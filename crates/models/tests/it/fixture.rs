//! What the tests share.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use drawloom_contract::{
    ids::{RunId, RunKey, Tenant},
    message::{Message, ToolResult},
    model::{DeltaKind, Deltas, Model, Turn, TurnError, TurnRequest},
    tool::ToolCard,
};
use drawloom_models::{ProviderConfig, Secret};
use drawloom_testkit::providers::{Asked, Provider, ServerReply, Settings, Shape, WallClock};
use serde_json::{Value, json};

/// The key of all servers of these tests.
pub(crate) const KEY: &str = "loom-key-0123456789";

/// Pieces of a turn, as they came.
#[derive(Default)]
pub(crate) struct RecordedDeltas(Mutex<Vec<(DeltaKind, String)>>);

impl Deltas for RecordedDeltas {
    fn push(&self, kind: DeltaKind, text: &str) {
        self.0.lock().expect("no panic while held").push((kind, text.to_owned()));
    }
}

impl RecordedDeltas {
    pub(crate) fn all(&self, kind: DeltaKind) -> String {
        let heard = self.0.lock().expect("no panic while held");
        heard.iter().filter(|(other, _)| *other == kind).map(|(_, text)| text.as_str()).collect()
    }
}

/// A server and a model that asks it.
pub(crate) struct Fixture {
    pub(crate) provider: Provider,
    pub(crate) model: Arc<dyn Model>,
}

impl Fixture {
    pub(crate) async fn new(shape: Shape, script: impl Fn(&Asked) -> ServerReply + Send + Sync + 'static) -> Self {
        Self::with(Settings::new(shape).key(KEY), json!({}), script).await
    }

    pub(crate) async fn with(
        settings: Settings,
        options: Value,
        script: impl Fn(&Asked) -> ServerReply + Send + Sync + 'static,
    ) -> Self {
        let shape = settings.shape;
        let provider = Provider::start(settings, script).await.expect("a port of loopback");
        let model = open(config(shape, &provider, options), Some(KEY));
        Self { provider, model }
    }

    /// Asks for a turn.
    pub(crate) async fn ask(&self, request: TurnRequest) -> Result<Turn, TurnError> {
        self.model.turn(request, &RecordedDeltas::default()).await
    }
}

/// The config of a provider that is this server.
pub(crate) fn config(shape: Shape, provider: &Provider, mut options: Value) -> Value {
    let driver = match shape {
        Shape::Responses => {
            options["api"] = "responses".into();
            json!("openai")
        }
        shape => json!(shape),
    };
    json!({ "driver": driver, "base_url": provider.base_url(), "options": options })
}

pub(crate) fn open(config: Value, key: Option<&str>) -> Arc<dyn Model> {
    let config: ProviderConfig = serde_json::from_value(config).expect("a config of the test");
    drawloom_models::open("loom", &config, key.map(Secret::new), Arc::new(WallClock)).expect("a provider of the test")
}

/// A turn of `model` with nothing but a question.
pub(crate) fn request(model: &str) -> TurnRequest {
    TurnRequest {
        run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([7; 16]) },
        root: RunId::from_bytes([7; 16]),
        agent: "reader".parse().expect("a name"),
        model: model.into(),
        turn: 1,
        attempt: 1,
        system: "You read files.".into(),
        messages: vec![Arc::new(Message::user("Read warp.md"))],
        tools: Arc::new([]),
        max_tokens: 4096,
        effort: None,
        sampling: Arc::default(),
    }
}

/// The same with two tools on offer.
pub(crate) fn with_tools(mut request: TurnRequest) -> TurnRequest {
    let card = |name: &str| ToolCard {
        name: name.into(),
        description: format!("{name} a file."),
        input_schema: json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] })
            .into(),
    };
    request.tools = Arc::new([card("Read"), card("Write")]);
    request
}

/// The same, one step on: what the model said, and what its calls came to.
pub(crate) fn after(mut request: TurnRequest, turn: Turn, results: &[(&str, bool)]) -> TurnRequest {
    let answered = turn.calls.iter().zip(results).map(|(call, (text, is_error))| ToolResult {
        id: call.id.clone(),
        text: (*text).into(),
        is_error: *is_error,
    });
    let answered: Vec<_> = answered.collect();
    request.messages.push(Arc::new(Message::Assistant { text: turn.text, thoughts: turn.thoughts, calls: turn.calls }));
    if !answered.is_empty() {
        request.messages.push(Arc::new(Message::Results(answered)));
    }
    request.turn += 1;
    request
}

/// An answer of `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read(path).expect("a fixture")
}
