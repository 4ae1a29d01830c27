use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{
    choice::{Choice, Effort, Fallback, ModelName},
    definition::Definition,
    message::{Block, Role, Segment},
    model::ModelCard,
    record::{Body, Notice, Status},
    runs::{Interest, Runs as _},
    tool::{Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use drawloom_models::Script;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    house::{Hand, House, Plan, ask},
    providers::{Thinker, card},
};

fn thinker(name: &'static str, refuses: &[u32], card: ModelCard) -> Arc<Thinker> {
    Arc::new(Thinker { name, refuses: refuses.to_vec().into(), last_turn: 5, card, seen: Default::default() })
}

fn may_fall_back(agent: &mut Definition) {
    let candidates = vec![ModelName::new("first", "deep"), ModelName::new("second", "reasoner")];
    let fallback = Some(Fallback { max_attempts: 3, cooldown_ms: 200 });
    let choice = Choice { candidates, fallback, retry_attempts: None };
    agent.choices = BTreeMap::from([("default".to_owned(), choice)]);
    agent.effort = Some(Effort::High);
}

fn told(records: &[drawloom_contract::record::Record]) -> Vec<String> {
    let told = records.iter().filter_map(|record| match &record.body {
        Body::Switched(switched) => Some(format!("{} to {} for {}", switched.from, switched.to, switched.error.code)),
        Body::Notice { notice, .. } => Some(notice.as_str().to_owned()),
        _ => None,
    });
    told.collect()
}

#[tokio::test]
async fn a_thinking_conversation_goes_to_a_strict_provider_and_back() {
    // The second one demands its own reasoning, and has a sibling that does not think.
    let strict = ModelCard { plain_sibling: Some("chat".into()), native_cache: false, ..card() };
    let (first, second) = (thinker("first", &[3], card()), thinker("second", &[4, 4], strict));
    let plan = Plan::new(json!([]))
        .provider("first", first.clone())
        .provider("second", second.clone())
        .agent("alice", may_fall_back);
    let house = House::new(plan);
    let view = house.run("alice", "think").await;
    assert_eq!((view.status, view.final_text.as_deref()), (Status::Completed, Some("first 5")), "{:?}", view.error);
    assert_eq!((view.provider.as_str(), view.model.as_str()), ("first", "deep"));
    assert_eq!(*first.seen.lock().expect("no panic"), ["1 deep", "2 deep", "4 deep", "5 deep"]);
    assert_eq!(*second.seen.lock().expect("no panic"), ["3 chat"]);
    assert_eq!(
        told(&house.journal(&view).await),
        [
            "first/deep to second/chat for throttled",
            "cache_invalidated",
            "reasoning_invalidated",
            "model_downgraded",
            "reasoning_unavailable",
            "second/chat to first/deep for throttled",
        ]
    );
    let replay = house.engine.replay(&house.caller, view.run).await.expect("a journal");
    assert!(replay.ok, "{replay:?}");
    let counts = house.engine.counts();
    assert_eq!((counts.fallbacks, counts.ended["completed"]), (2, 1));
}

/// Lasts until it is let go.
#[derive(Default)]
struct Hold {
    begun: Notify,
    release: Notify,
}

#[async_trait]
impl Tool for Hold {
    fn card(&self) -> ToolCard {
        ToolCard { name: "Hold".into(), description: "Holds.".into(), input_schema: json!({ "type": "object" }).into() }
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    async fn call(&self, _: &ToolContext, _: Value) -> Result<Step, ToolError> {
        self.begun.notify_one();
        self.release.notified().await;
        Ok(Step::done("released"))
    }
}

fn script(name: &str, rules: Value) -> Arc<Script> {
    let options = serde_json::from_value(json!({ "rules": rules })).expect("rules of the test");
    Arc::new(Script::new(name, &options, Hand::new()).expect("rules of the test"))
}

#[tokio::test]
async fn a_run_goes_elsewhere_without_asking_a_provider_that_refused_others() {
    // At once while the provider is closed; and when it may be tried again, but is still in cooldown.
    for later in [Duration::ZERO, Duration::from_secs(2)] {
        let (clock, hold) = (Hand::new(), Arc::new(Hold::default()));
        let held = json!({ "when": { "contains": "held", "turn": 1 }, "calls": [{ "tool": "Hold", "input": {} }] });
        let first = script("first", json!([held, { "fail": { "kind": "overloaded", "message": "too much" } }]));
        let fall_back = |agent: &mut Definition| {
            may_fall_back(agent);
            agent.tools = vec!["Hold".into()];
            let choice = agent.choices.get_mut("default").expect("a choice");
            choice.fallback = Some(Fallback { max_attempts: 3, cooldown_ms: 60_000 });
        };
        let plan = Plan::new(json!([]))
            .clock(clock.clone())
            .tool(hold.clone())
            .provider("first", first)
            .provider("second", script("second", json!([{ "text": "second {{turn}}" }])))
            .agent("alice", fall_back);
        let house = House::new(plan);
        let held = house.start(ask("alice", "held"), Interest::Outcome).await;
        hold.begun.notified().await;
        let told_itself = house.run("alice", "told").await;
        assert_eq!(told(&house.journal(&told_itself).await), ["first/deep to second/reasoner for model_overloaded"]);
        // The clock stands still from here on: a run that waits for the provider never ends.
        clock.turn(later);
        hold.release.notify_one();
        let ended = tokio::time::timeout(Duration::from_secs(60), house.finish(held)).await;
        let view = ended.expect("it does not wait for the provider");
        assert_eq!(
            (view.status, view.final_text.as_deref()),
            (Status::Completed, Some("second 2")),
            "{:?}",
            view.error
        );
        assert_eq!(told(&house.journal(&view).await), ["first/deep to second/reasoner for throttled"]);
        let replay = house.engine.replay(&house.caller, view.run).await.expect("a journal");
        assert!(replay.ok, "{replay:?}");
    }
}

#[tokio::test]
async fn a_conversation_with_images_stays_where_they_are_seen() {
    let blind = ModelCard { vision: false, ..card() };
    let (first, second) = (thinker("first", &[1], card()), thinker("second", &[], blind));
    let plan = Plan::new(json!([])).provider("first", first).provider("second", second).agent("alice", may_fall_back);
    let house = House::new(plan);
    let mut start = ask("alice", "look");
    let image = Block::Image { media_type: "image/png".into(), data: "AAAA".into() };
    start.segments.push(Segment { role: Role::User, content: vec![image] });
    let view = house.finish(house.start(start, Interest::Outcome).await).await;
    assert_eq!((view.status, view.provider.as_str()), (Status::Completed, "first"));
    assert_eq!(told(&house.journal(&view).await), [Notice::FallbackSuppressed.as_str()]);
}

#[tokio::test]
async fn wishes_that_the_model_does_not_take_are_said() {
    let house = House::new(
        Plan::new(json!([]))
            .provider("first", thinker("first", &[], card()))
            .agent("alice", |agent| agent.provider = "first".into()),
    );
    let mut start = ask("alice", "x");
    start.sampling.top_k = Some(3);
    start.sampling.seed = Some(1);
    let view = house.finish(house.start(start, Interest::Outcome).await).await;
    assert_eq!(view.warnings, ["sampling.top_k: not supported by model first/scripted; ignored"]);
}

#[tokio::test]
async fn a_model_that_does_not_reason_beside_tools_is_named() {
    let silent = ModelCard { thinks_with_tools: false, ..card() };
    for (card, tools, expected) in [
        (silent.clone(), &["note"][..], Some("model first/scripted does not reason while tools are on offer")),
        (silent, &[], None),
        (card(), &["note"], None),
    ] {
        let plan = Plan::new(json!([])).provider("first", thinker("first", &[], card)).agent("alice", move |agent| {
            agent.provider = "first".into();
            agent.tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        });
        let house = House::new(plan);
        let view = house.finish(house.start(ask("alice", "x"), Interest::Outcome).await).await;
        assert_eq!(view.warnings.iter().map(String::as_str).next(), expected);
    }
}

#[tokio::test]
async fn a_fallback_to_a_model_that_does_not_reason_is_a_warning_of_the_run() {
    let silent = ModelCard { thinks_with_tools: false, ..card() };
    let (first, second) = (thinker("first", &[2, 4, 4], card()), thinker("second", &[3, 3], silent));
    let plan = Plan::new(json!([])).provider("first", first).provider("second", second).agent("alice", |agent| {
        may_fall_back(agent);
        agent.tools = vec!["Probe".into()];
    });
    let house = House::new(plan);
    let view = house.run("alice", "think").await;
    assert_eq!((view.status, view.provider.as_str()), (Status::Completed, "second"), "{:?}", view.error);
    let told = told(&house.journal(&view).await);
    let count = |word: &str| told.iter().filter(|told| told.contains(word)).count();
    // It goes there twice, and says so once.
    assert_eq!((count("to second"), count("reasoning_unavailable")), (2, 1), "{told:?}");
    assert_eq!(view.warnings, ["model second/reasoner does not reason while tools are on offer"]);
    let replay = house.engine.replay(&house.caller, view.run).await.expect("a journal");
    assert!(replay.ok, "{replay:?}");
}

#[tokio::test]
async fn an_unknown_user_tier_is_refused_by_name() {
    let plan = Plan::new(json!([])).provider("first", thinker("first", &[], card())).agent("alice", may_fall_back);
    let house = House::new(plan);
    let mut start = ask("alice", "x");
    start.user_tier = Some("gold".into());
    let failure = house.engine.start(&house.caller, start, None, Interest::None).await.map(drop).expect_err("refused");
    assert_eq!((failure.code, failure.hint.as_deref()), ("unknown_user_tier", Some("available: default")));
}
