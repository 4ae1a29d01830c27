//! Asks a model one question and prints what came of it as JSON:
//! `ask DRIVER BASE_URL MODEL QUESTION [MAX_TOKENS]`. The key, if one is needed, is in `ASK_KEY`.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use drawloom_contract::{
    ids::{RunId, RunKey, Tenant},
    message::Message,
    model::{DeltaKind, Deltas, TurnRequest},
};
use drawloom_models::{ProviderConfig, Secret};
use drawloom_testkit::providers::WallClock;
use serde_json::json;

/// Counts the pieces.
#[derive(Default)]
struct Pieces(AtomicUsize);

impl Deltas for Pieces {
    fn push(&self, _: DeltaKind, _: &str) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [driver, base_url, model, question, rest @ ..] = arguments.as_slice() else {
        return Err("usage: ask DRIVER BASE_URL MODEL QUESTION [MAX_TOKENS]".into());
    };
    let config: ProviderConfig = serde_json::from_value(json!({ "driver": driver, "base_url": base_url }))?;
    let key = std::env::var("ASK_KEY").ok().map(Secret::new);
    let provider = drawloom_models::open("ask", &config, key, Arc::new(WallClock))?;
    let models: Vec<String> = provider.list().await?.into_iter().map(|model| model.id).collect();
    let request = TurnRequest {
        run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([0; 16]) },
        root: RunId::from_bytes([7; 16]),
        agent: "ask".parse()?,
        model: model.clone(),
        turn: 1,
        attempt: 1,
        system: "Answer briefly.".into(),
        messages: vec![Arc::new(Message::user(question.as_str()))],
        tools: Arc::new([]),
        max_tokens: rest.first().map_or(Ok(256), |text| text.parse())?,
        effort: None,
        sampling: Arc::default(),
    };
    let pieces = Pieces::default();
    let turn = provider.turn(request, &pieces).await?;
    let answer = json!({
        "driver": driver, "models": models, "text": turn.text, "pieces": pieces.0.into_inner(),
        "stop_reason": turn.stop_reason.as_str(), "usage": turn.usage,
    });
    writeln!(std::io::stdout(), "{answer}")?;
    Ok(())
}
