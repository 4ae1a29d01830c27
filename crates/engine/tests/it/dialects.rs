//! Conversations that go from one model API to another and back: with tools, thoughts, images, failures in the middle, secrets in what is
//! thought, and processes that die. The servers are as strict as the real ones, and none may reject a request.

use std::{
    collections::{BTreeMap, HashMap},
    io::Write as _,
    path::Path,
    sync::{Arc, Mutex},
};

use drawloom_contract::{
    choice::{Choice, Effort, Fallback, ModelName},
    message::{Block, Role, Segment},
    model::Model,
    record::Body,
    runs::{Interest, Runs as _},
    view::RunView,
};
use drawloom_models::{ProviderConfig, Secret};
use drawloom_testkit::providers::{Asked, Ending, Provider, Refusal, Reply, ServerReply, Settings, Shape, WallClock};
use serde_json::json;
use tokio::{runtime::Runtime, sync::watch};

use crate::{
    house::{House, Plan, ask},
    resuming::die_after,
};

const KEY: &str = "loom-key-0123456789";

/// What a model may think and no journal may hold.
const SECRET: &str = "hunter2-hunter2";

/// How many conversations share a directory.
const TOGETHER: u64 = 100;

/// From here on a model calls no tools.
const LAST: usize = 7;

const MODELS: [(&str, Shape, &str); 7] = [
    ("anthropic", Shape::Anthropic, "claude-opus-5-5"),
    ("anthropic", Shape::Anthropic, "claude-sonnet-4-5"),
    ("responses", Shape::Responses, "gpt-6-sol"),
    ("responses", Shape::Responses, "gpt-5.2"),
    ("chat", Shape::Openai, "gpt-4.1"),
    ("chat", Shape::Openai, "gpt-6-sol"),
    ("deepseek", Shape::Deepseek, "deepseek-v4-pro"),
];

/// Numbers that follow from what they are asked for.
struct Dice(u64);

impl Dice {
    fn of(parts: &[&str]) -> Self {
        let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
        Self(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)))
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }

    fn in_100(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The servers, which outlive every process of the test.
struct Servers {
    runtime: Runtime,
    all: BTreeMap<&'static str, Arc<Provider>>,
    /// How many requests they got.
    requests: watch::Sender<u64>,
}

impl Servers {
    fn start() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let requests = watch::Sender::new(0);
        let tries = Arc::<Mutex<HashMap<String, u32>>>::default();
        let shapes: BTreeMap<&str, Shape> = MODELS.iter().map(|(id, shape, _)| (*id, *shape)).collect();
        let start = |(id, shape)| {
            let (tries, requests) = (tries.clone(), requests.clone());
            let script = move |asked: &Asked| {
                requests.send_modify(|count| *count += 1);
                answer(asked, &tries)
            };
            let server = runtime.block_on(Provider::start(Settings::new(shape).key(KEY), script)).expect("a port");
            (id, Arc::new(server))
        };
        let all = shapes.into_iter().map(start).collect();
        Self { runtime, all, requests }
    }

    fn models(&self) -> BTreeMap<&'static str, Arc<dyn Model>> {
        let open = |(id, server): (&&'static str, &Arc<Provider>)| {
            let (driver, options) = match *id {
                "responses" => ("openai", json!({ "api": "responses" })),
                "chat" => ("openai", json!({ "api": "chat" })),
                own => (own, json!({})),
            };
            let config = json!({ "driver": driver, "base_url": server.base_url(), "options": options });
            let config: ProviderConfig = serde_json::from_value(config).expect("a config");
            let model = drawloom_models::open(id, &config, Some(Secret::new(KEY)), Arc::new(WallClock));
            (*id, model.expect("a provider"))
        };
        self.all.iter().map(open).collect()
    }
}

/// What a model says, by the conversation and how far it is; a failure only at the first try.
fn answer(asked: &Asked, tries: &Mutex<HashMap<String, u32>>) -> ServerReply {
    let whole = asked.body.to_string();
    let seed: String =
        whole.split_once("seed ").map_or("", |(_, rest)| rest).chars().take_while(char::is_ascii_digit).collect();
    let said = said(asked);
    let place = format!("{seed} {:?} {} {said}", asked.shape, asked.model());
    let attempt = {
        let mut tries = tries.lock().expect("no panic while held");
        let attempt = tries.entry(place.clone()).or_default();
        *attempt += 1;
        *attempt
    };
    let mut dice = Dice::of(&[&place]);
    let fails = dice.in_100(35) && attempt == 1;
    let kind = dice.below(7);
    let piece = usize::try_from(dice.below(9)).unwrap_or(0);
    if fails && kind < 3 {
        let status = [503, 500, 401][usize::try_from(kind).unwrap_or(0)];
        return Refusal::new(status, "not now").into();
    }
    let mut reply = Reply::text(if dice.in_100(60) { "Some words." } else { "" });
    if dice.in_100(70) {
        let secret = if dice.in_100(10) { SECRET } else { "" };
        reply = reply.thinking(format!("A thought of {seed} {secret}"));
    }
    if dice.in_100(20) {
        reply = reply.sealed(format!("sealed-{seed}"));
    }
    if said < LAST && !asked.tools().is_empty() {
        for number in 0..dice.below(4) {
            reply = match dice.in_100(10) {
                true => reply.raw_call("Probe", "{\"say\": "),
                false => reply.call("Probe", &json!({ "say": format!("{said}.{number}") })),
            };
        }
    }
    if reply.calls.is_empty() && reply.text.is_empty() {
        reply.text = "The end.".into();
    }
    if dice.in_100(5) {
        let clipped = match asked.shape {
            Shape::Anthropic => "max_tokens",
            Shape::Responses => "max_output_tokens",
            Shape::Openai | Shape::Deepseek => "length",
        };
        reply = reply.stop(clipped);
    }
    let reply = reply.pieces(3, std::time::Duration::ZERO);
    match (fails, kind) {
        (true, 3 | 4) => reply.ending(Ending::Broken(piece)),
        (true, 5) => reply.ending(Ending::Short(piece.min(2))),
        (true, _) => reply.ending(Ending::Error(piece, "overloaded_error".into())),
        (false, _) => reply,
    }
    .into()
}

/// How much a model has said so far.
fn said(asked: &Asked) -> usize {
    let spoken = |item: &&serde_json::Value| item["role"] == "assistant" || item["type"] == "function_call";
    asked.messages().iter().chain(asked.items()).filter(spoken).count()
}

/// The house of some conversations, each with an agent of its own that may go to every model.
fn house(directory: &Path, models: BTreeMap<&'static str, Arc<dyn Model>>, first: u64) -> House {
    let mut plan = Plan::new(json!([]));
    plan.secrets = vec![SECRET.to_owned()];
    for (id, model) in models {
        plan = plan.provider(id, model);
    }
    for seed in first..first + TOGETHER {
        let mut dice = Dice::of(&["agent", &seed.to_string()]);
        let mut candidates: Vec<ModelName> = MODELS.iter().map(|(id, _, model)| ModelName::new(*id, *model)).collect();
        for at in (1..candidates.len()).rev() {
            let other = usize::try_from(dice.below(at as u64 + 1)).unwrap_or(0);
            candidates.swap(at, other);
        }
        plan = plan.agent(&format!("a{seed}"), |agent| {
            agent.tools = vec!["Probe".into()];
            agent.provider.clone_from(&candidates[0].provider);
            agent.model.clone_from(&candidates[0].model);
            agent.effort = [None, Some(Effort::Low), Some(Effort::High)][usize::try_from(dice.below(3)).unwrap_or(0)];
            agent.max_tokens = Some(4_096);
            let fallback = Some(Fallback { max_attempts: 40, cooldown_ms: 1 });
            let choice = Choice { candidates, fallback, retry_attempts: Some(1) };
            agent.choices = BTreeMap::from([("default".to_owned(), choice)]);
        });
    }
    House::at(directory, plan)
}

/// Some conversations in processes that die after a number of requests, and one that ends them.
fn converse(servers: &Servers, first: u64) -> (Vec<RunView>, u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut dice = Dice::of(&["lives", &first.to_string()]);
    let (mut started, mut switches): (Vec<RunView>, u64) = (Vec::new(), 0);
    for life in 0..3 {
        let (path, models) = (directory.path().to_owned(), servers.models());
        let mut requests = servers.requests.subscribe();
        let until = *requests.borrow() + 5 + dice.below(TOGETHER * 3);
        let before = started.clone();
        (started, switches) = die_after(async move {
            let house = house(&path, models, first);
            house.engine.resume().await.expect("resumed");
            let mut runs = before;
            if runs.is_empty() {
                for seed in first..first + TOGETHER {
                    let mut start = ask(&format!("a{seed}"), &format!("seed {seed} "));
                    if Dice::of(&["image", &seed.to_string()]).in_100(20) {
                        let data = "iVBORw0KGgo=".into();
                        let image = Block::Image { media_type: "image/png".into(), data };
                        start.segments.push(Segment { role: Role::User, content: vec![image] });
                    }
                    runs.push((*house.start(start, Interest::None).await.view).clone());
                }
            }
            let ends = async {
                let (mut ended, mut switches) = (Vec::new(), 0);
                for run in &runs {
                    let view = house.engine.wait(&house.caller, run.run, None).await.expect("an end");
                    for record in house.journal(&view).await {
                        switches += u64::from(matches!(record.body, Body::Switched(_)));
                        if let Body::TurnFailed(failed) = &record.body {
                            assert_ne!(
                                failed.error.code, "model_bad_request",
                                "{}: {}",
                                view.agent, failed.error.message
                            );
                        }
                    }
                    ended.push((*view).clone());
                }
                (ended, switches)
            };
            if life == 2 {
                return ends.await;
            }
            tokio::select! {
                ended = ends => ended,
                // It dies here.
                _ = requests.wait_for(|count| *count >= until) => (runs.clone(), 0),
            }
        });
    }
    (started, switches)
}

#[test]
fn no_server_rejects_a_conversation_that_others_began() {
    let count: u64 = std::env::var("PROVE_CONVERSATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(TOGETHER);
    let seed: u64 = std::env::var("PROVE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let servers = Servers::start();
    let (mut ended, mut switches) = (BTreeMap::<String, u64>::new(), 0);
    for batch in 0..count.div_ceil(TOGETHER) {
        let (views, switched) = converse(&servers, seed * 1_000_000 + batch * TOGETHER);
        switches += switched;
        for view in views {
            let end = view.error.map_or_else(|| format!("{:?}", view.status), |error| error.code);
            *ended.entry(end).or_default() += 1;
        }
    }
    let mut by_status: BTreeMap<(&str, u16), u64> = BTreeMap::new();
    for (id, server) in &servers.all {
        for call in server.calls() {
            *by_status.entry((id, call.status)).or_default() += 1;
        }
    }
    let told = format!("conversations by end {ended:?}; at least {switches} changes of model; calls {by_status:?}");
    writeln!(std::io::stderr(), "prove: {told}").expect("a terminal or a file");
    assert!(by_status.keys().all(|(_, status)| *status != 400), "{by_status:?}");
    servers.runtime.shutdown_background();
}
