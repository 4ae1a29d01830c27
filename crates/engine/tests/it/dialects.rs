//! Conversations that go from one model API to another and back: with tools, thoughts, images, failures in the middle, secrets in what is
//! thought, refusals, an API that changes at a restart, and processes that die. The servers are as strict as the real ones, and none may
//! reject a request. What each conversation is like is in `testkit::dialects`; `drawloom/tests/durability/dialects.rs` kills real servers.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    path::Path,
    sync::Arc,
    time::Duration,
};

use drawloom_contract::{
    choice::{Choice, Fallback},
    model::Model,
    record::{Body, Status},
    runs::{Interest, Runs as _},
    view::RunView,
};
use drawloom_models::{ProviderConfig, Secret};
use drawloom_testkit::{
    dialects::{Conversation, Dice, Failures, KEY, Servers},
    providers::{Asked, Shape, WallClock},
};
use serde_json::{Value, json};

use crate::{
    house::{House, Plan, ask},
    resuming::die_after,
};

/// How many conversations share a directory.
const TOGETHER: u64 = 100;

/// How many processes have a directory after each other.
const PROCESSES: u64 = 3;

fn models(servers: &Servers, process: u64) -> BTreeMap<&'static str, Arc<dyn Model>> {
    let open = |(id, config): (&'static str, Value)| {
        let config: ProviderConfig = serde_json::from_value(config).expect("a config");
        (id, drawloom_models::open(id, &config, Some(Secret::new(KEY)), Arc::new(WallClock)).expect("a provider"))
    };
    servers.configs(process).into_iter().map(open).collect()
}

/// The house of some conversations, each with an agent of its own that may go to every model.
fn house(directory: &Path, models: BTreeMap<&'static str, Arc<dyn Model>>, first: u64) -> House {
    let mut plan = Plan::new(json!([]));
    plan.secrets = vec![KEY.to_owned()];
    for (id, model) in models {
        plan = plan.provider(id, model);
    }
    for seed in first..first + TOGETHER {
        let Conversation { candidates, effort, .. } = Conversation::of(seed);
        plan = plan.agent(&format!("a{seed}"), |agent| {
            agent.tools = vec!["Probe".into()];
            agent.provider.clone_from(&candidates[0].provider);
            agent.model.clone_from(&candidates[0].model);
            agent.effort = effort;
            agent.max_tokens = Some(4_096);
            let fallback = Some(Fallback { max_attempts: 40, cooldown_ms: 1 });
            let choice = Choice { candidates, fallback, retry_attempts: Some(1) };
            agent.choices = BTreeMap::from([("default".to_owned(), choice)]);
        });
    }
    House::at(directory, plan)
}

/// What came of conversations.
#[derive(Default)]
struct Outcomes {
    views: Vec<RunView>,
    switches: u64,
    /// The notices of all journals.
    told: BTreeSet<String>,
}

/// Some conversations in processes that die after a number of requests, and one that ends them.
fn converse(servers: &Servers, first: u64) -> Outcomes {
    let directory = tempfile::tempdir().expect("a directory");
    let mut dice = Dice::of(&["lives", &first.to_string()]);
    let mut outcomes = Outcomes::default();
    for process in 0..PROCESSES {
        let (path, models) = (directory.path().to_owned(), models(servers, process));
        let mut requests = servers.requests();
        let until = *requests.borrow() + 5 + dice.below(TOGETHER * 3);
        let before = std::mem::take(&mut outcomes.views);
        outcomes = die_after(async move {
            let house = house(&path, models, first);
            house.engine.resume().await.expect("resumed");
            let mut runs = before;
            if runs.is_empty() {
                for seed in first..first + TOGETHER {
                    let mut start = ask(&format!("a{seed}"), "");
                    start.segments = Conversation::of(seed).segments;
                    runs.push((*house.start(start, Interest::None).await.view).clone());
                }
            }
            if process + 1 == PROCESSES {
                return ends(&house, &runs).await;
            }
            tokio::select! {
                ended = ends(&house, &runs) => ended,
                // It dies here.
                _ = requests.wait_for(|count| *count >= until) => Outcomes { views: runs.clone(), ..Outcomes::default() },
            }
        });
    }
    outcomes
}

/// Waits for the ends of runs.
async fn ends(house: &House, runs: &[RunView]) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for run in runs {
        let view = house.engine.wait(&house.caller, run.run, None).await.expect("an end");
        let records = house.journal(&view).await;
        assert!(!format!("{records:?}").contains(KEY), "{}: the journal holds a secret", view.agent);
        for record in records {
            match &record.body {
                Body::Switched(_) => outcomes.switches += 1,
                Body::TurnFailed(failed) => {
                    assert_ne!(failed.error.code, "model_bad_request", "{}: {}", view.agent, failed.error.message);
                }
                Body::Notice { notice, .. } => _ = outcomes.told.insert(notice.as_str().to_owned()),
                _ => {}
            }
        }
        outcomes.views.push((*view).clone());
    }
    outcomes
}

#[test]
fn no_server_rejects_a_conversation_that_others_began() {
    let count: u64 = std::env::var("PROVE_CONVERSATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(TOGETHER);
    let seed: u64 = std::env::var("PROVE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let servers = Servers::start(Failures::All, Duration::ZERO);
    let (mut ended, mut switches, mut told) = (BTreeMap::<String, u64>::new(), 0, BTreeSet::new());
    for batch in 0..count.div_ceil(TOGETHER) {
        let first = seed * 1_000_000 + batch * TOGETHER;
        let outcomes = converse(&servers, first);
        switches += outcomes.switches;
        told.extend(outcomes.told);
        for (seed, view) in (first..).zip(outcomes.views) {
            let code = view.error.as_ref().map(|error| error.code.as_str());
            let is_right = match code {
                None => view.status == Status::Completed,
                Some(code) => code == "model_refused" && servers.memory().is_refused(seed),
            };
            assert!(is_right, "{seed}: {:?} {:?}", view.status, view.error);
            *ended.entry(code.unwrap_or("completed").to_owned()).or_default() += 1;
        }
    }
    let by_status = servers.calls();
    let words = format!("conversations by end {ended:?}; at least {switches} changes of model; calls {by_status:?}");
    writeln!(std::io::stderr(), "prove: {words}").expect("a terminal or a file");
    assert!(by_status.keys().all(|(_, status)| *status != 400), "{by_status:?}");
    assert_eq!(servers.memory().forgotten(), [""; 0], "reasoning that did not come back");
    // What the conversations were made for has happened.
    assert!(ended.len() > 1, "no conversation was refused");
    assert!(servers.changed_api() > 0, "no conversation went on over the other API of its provider");
    for notice in ["reasoning_masked", "reasoning_invalidated", "reasoning_unavailable", "model_downgraded"] {
        assert!(told.contains(notice), "{notice} did not happen: {told:?}");
    }
    let asked = servers.asked();
    let images: BTreeSet<String> =
        asked.iter().filter(|asked| has_image(asked)).map(|asked| format!("{:?}", asked.shape)).collect();
    assert_eq!(images.len(), 4, "APIs that got an image: {images:?}");
    faults_are_noticed(&servers, &asked);
}

fn has_image(asked: &Asked) -> bool {
    asked.body.to_string().contains("iVBORw0KGgo=")
}

/// What a driver could do wrong to a request; false when the request has nothing of the kind.
type Mistake = fn(&mut Value) -> bool;

/// The items or messages of a request.
fn items(body: &mut Value) -> &mut Vec<Value> {
    let key = if body["input"].is_array() { "input" } else { "messages" };
    body[key].as_array_mut().expect("a list")
}

fn remove(body: &mut Value, is_it: impl Fn(&Value) -> bool) -> bool {
    let items = items(body);
    let found = items.iter().position(is_it);
    found.map(|at| items.remove(at)).is_some()
}

/// Changes the first value at `pointer` of an item.
fn change(body: &mut Value, pointer: &str, to: &str) -> bool {
    let found = items(body).iter_mut().find_map(|item| item.pointer_mut(pointer));
    found.map(|value| *value = to.into()).is_some()
}

const MISTAKES: &[(Shape, &str, Mistake)] = &[
    (Shape::Responses, "an output is missing", |body| remove(body, |item| item["type"] == "function_call_output")),
    (Shape::Responses, "a call is missing", |body| remove(body, |item| item["type"] == "function_call")),
    (Shape::Responses, "reasoning is changed", |body| change(body, "/encrypted_content", "gAAAchanged==")),
    (Shape::Responses, "a summary is changed", |body| change(body, "/summary/0/text", "another thought")),
    (Shape::Responses, "reasoning leads nowhere", |body| {
        let items = items(body);
        let found = items.iter().position(|item| item["type"] == "reasoning");
        found.map(|at| items.remove(at)).map(|item| items.push(item)).is_some()
    }),
    (Shape::Responses, "reasoning of another model", |body| {
        let model = if body["model"] == "gpt-6-sol" { "gpt-5.2" } else { "gpt-6-sol" };
        body["model"] = model.into();
        items(body).iter().any(|item| item["type"] == "reasoning")
    }),
    (Shape::Anthropic, "a result is missing", |body| {
        remove(body, |message| message["content"][0]["type"] == "tool_result")
    }),
    (Shape::Anthropic, "a thought is changed", |body| change(body, "/content/0/thinking", "another thought")),
    (Shape::Anthropic, "a thought of another model", |body| {
        let model = if body["model"] == "claude-opus-5-5" { "claude-opus-5" } else { "claude-opus-5-5" };
        body["model"] = model.into();
        items(body).iter().any(|message| message["content"][0]["type"] == "thinking")
    }),
    (Shape::Openai, "a result is missing", |body| remove(body, |message| message["role"] == "tool")),
    (Shape::Deepseek, "a result is missing", |body| remove(body, |message| message["role"] == "tool")),
    (Shape::Deepseek, "reasoning is changed", |body| change(body, "/reasoning_content", "another thought")),
    (Shape::Deepseek, "reasoning is missing", |body| {
        let thinks = body["thinking"]["type"] != "disabled";
        let found = items(body).iter_mut().find(|message| message["reasoning_content"].is_string());
        let found = found.and_then(Value::as_object_mut).and_then(|message| message.remove("reasoning_content"));
        thinks && found.is_some()
    }),
];

/// The servers reject each mistake in each request that it can be made in: what they took was right.
fn faults_are_noticed(servers: &Servers, asked: &[Asked]) {
    let taken = || asked.iter().filter(|asked| asked.check().is_ok());
    for (shape, name, mistake) in MISTAKES {
        let mut made = 0;
        for right in taken().filter(|asked| asked.shape == *shape) {
            let mut wrong = right.clone();
            if mistake(&mut wrong.body) {
                made += 1;
                assert!(wrong.check().is_err(), "{shape:?}: {name}, and it was not noticed: {}", wrong.body);
            }
        }
        assert!(made > 0, "{shape:?}: no request for {name:?}");
    }
    for right in taken() {
        let mut wrong = right.clone();
        wrong.body["colour"] = "red".into();
        assert!(wrong.check().is_err(), "{:?}: an unknown field was not noticed", right.shape);
    }
    // Responses without a store takes calls whose reasoning is missing; the memory of the servers does not.
    let mut dropped = 0;
    for right in taken().filter(|asked| asked.shape == Shape::Responses) {
        let mut wrong = right.clone();
        if remove(&mut wrong.body, |item| item["type"] == "reasoning" && servers.memory().knows(item)) {
            dropped += 1;
            assert!(!servers.memory().missing(&wrong).is_empty(), "missing reasoning was not noticed: {}", wrong.body);
        }
    }
    assert!(dropped > 0, "no request with reasoning");
}
