//! What a provider says of its models before they are asked: the context, and whether they take tools.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use drawloom_contract::{
    choice::{Choice, Effort, Fallback, ModelName, Sampling},
    model::{Deltas, ListedModel, Model, ModelCard, Turn, TurnError, TurnRequest},
    record::{Body, Status},
    runs::{Interest, Runs as _},
    usage::Usage,
};
use serde_json::json;

use crate::{
    house::{House, Plan, ask},
    providers::card,
};

/// A server that is asked what its model can do. It knows nothing before.
struct Local {
    context: u64,
    takes_tools: bool,
    was_asked: AtomicBool,
    /// The output tokens that each turn asked for.
    limits: Mutex<Vec<u32>>,
}

impl Local {
    fn new(context: u64, takes_tools: bool) -> Arc<Self> {
        Arc::new(Self { context, takes_tools, was_asked: AtomicBool::new(false), limits: Mutex::default() })
    }

    fn limits(&self) -> Vec<u32> {
        self.limits.lock().expect("no panic while held").clone()
    }
}

#[async_trait]
impl Model for Local {
    fn card(&self, _: &str) -> ModelCard {
        let was_asked = self.was_asked.load(Ordering::SeqCst);
        ModelCard {
            context_tokens: was_asked.then_some(self.context),
            takes_tools: was_asked.then_some(self.takes_tools),
            max_tokens: 8_192,
            price: None,
            ..card()
        }
    }

    async fn look_up(&self, _: &str) {
        self.was_asked.store(true, Ordering::SeqCst);
    }

    fn ignored(&self, _: &str, _: &Sampling, _: Option<Effort>) -> Vec<&'static str> {
        Vec::new()
    }

    async fn turn(&self, request: TurnRequest, _: &dyn Deltas) -> Result<Turn, TurnError> {
        if !self.takes_tools && !request.tools.is_empty() {
            return Err(TurnError::NoTools { message: "local/small takes no tools".into() });
        }
        self.limits.lock().expect("no panic while held").push(request.max_tokens);
        Ok(Turn { text: "yes".into(), usage: Usage { input_tokens: 1, ..Usage::default() }, ..Turn::default() })
    }

    async fn list(&self) -> Result<Vec<ListedModel>, TurnError> {
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn the_first_turn_asks_for_no_more_output_than_fits() {
    for (context, expected) in [(4_000, 500..4_000), (100_000, 8_192..8_193)] {
        let local = Local::new(context, true);
        let plan = Plan::new(json!([])).provider("local", local.clone()).agent("alice", |agent| {
            agent.provider = "local".into();
            agent.max_tokens = None;
        });
        let house = House::new(plan);
        let view = house.finish(house.start(ask("alice", "x"), Interest::Outcome).await).await;
        assert_eq!(view.status, Status::Completed, "{:?}", view.error);
        assert!(matches!(local.limits()[..], [limit] if expected.contains(&limit)), "{:?}", local.limits());
    }
}

#[tokio::test]
async fn a_model_without_tools_fails_the_run_with_its_code_and_nothing_is_retried() {
    let plan = Plan::new(json!([]))
        .provider("local", Local::new(8_000, false))
        .agent("alice", |agent| agent.provider = "local".into())
        .agent("bob", |agent| {
            agent.provider = "local".into();
            agent.tools = Vec::new();
        });
    let house = House::new(plan);
    let view = house.finish(house.start(ask("alice", "x"), Interest::Outcome).await).await;
    let error = view.error.clone().expect("an error");
    assert_eq!((view.status, error.code.as_str()), (Status::Failed, "model_without_tools"));
    assert!(error.hint.is_some_and(|hint| hint.contains("models list --remote")));
    let records = house.journal(&view).await;
    let failed = records.iter().filter(|record| matches!(record.body, Body::TurnFailed(_))).count();
    assert_eq!(failed, 1);
    assert!(house.engine.replay(&house.caller, view.run).await.expect("a replay").ok);
    let view = house.finish(house.start(ask("bob", "x"), Interest::Outcome).await).await;
    assert_eq!(view.status, Status::Completed, "{:?}", view.error);
}

#[tokio::test]
async fn a_run_falls_back_from_a_model_without_tools() {
    let second = Local::new(8_000, true);
    let plan = Plan::new(json!([]))
        .provider("first", Local::new(8_000, false))
        .provider("second", second.clone())
        .agent("alice", |agent| {
            let candidates = vec![ModelName::new("first", "small"), ModelName::new("second", "large")];
            let fallback = Some(Fallback { max_attempts: 3, cooldown_ms: 200 });
            let choice = Choice { candidates, fallback, retry_attempts: None };
            agent.choices = BTreeMap::from([("default".to_owned(), choice)]);
        });
    let house = House::new(plan);
    let view = house.finish(house.start(ask("alice", "x"), Interest::Outcome).await).await;
    assert_eq!((view.status, view.provider.as_str()), (Status::Completed, "second"), "{:?}", view.error);
    assert_eq!(second.limits().len(), 1);
}
