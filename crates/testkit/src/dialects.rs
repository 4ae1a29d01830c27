//! Conversations that go from one model API to another and back: what each is like, and the servers that hold them.
//!
//! All of it follows from the number of the conversation, its seed, which stands in its prompt. The servers outlive the processes that
//! call them.

mod script;
mod steps;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use drawloom_contract::{
    choice::{Effort, ModelName},
    message::{Block, Role, Segment},
};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, sync::watch};

use crate::providers::{Asked, Provider, Settings, Shape};

pub use script::{Failures, Memory};
pub use steps::{TURNS, ten_turns};

/// The key of every server. Models think of it now and then, and no journal may hold it.
pub const KEY: &str = "loom-key-0123456789";

/// The model of the provider `changing`, whose API is another one in every process.
const CHANGING: &str = "gpt-6-luna";

/// Provider and model. Each model has its reasoning for itself, so none is of two providers that speak Responses.
const MODELS: [(&str, &str); 9] = [
    ("anthropic", "claude-opus-5-5"),
    ("anthropic", "claude-sonnet-4-5"),
    ("responses", "gpt-6-sol"),
    ("responses", "gpt-5.2"),
    ("chat", "gpt-4.1"),
    ("chat", "gpt-6-sol"),
    ("deepseek", "deepseek-v4-pro"),
    ("deepseek", "deepseek-flash"),
    ("changing", CHANGING),
];

const SERVERS: [(&str, Shape); 4] = [
    ("anthropic", Shape::Anthropic),
    ("responses", Shape::Responses),
    ("chat", Shape::Openai),
    ("deepseek", Shape::Deepseek),
];

/// Numbers that follow from what they are asked for.
pub struct Dice(u64);

impl Dice {
    /// The dice of something with these names.
    pub fn of(parts: &[&str]) -> Self {
        let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
        Self(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)))
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Whether it happens, in so many cases of a hundred.
    pub fn in_100(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What a conversation is like.
pub struct Conversation {
    /// The models that it may go to, the first one first.
    pub candidates: Vec<ModelName>,
    /// How hard its agent thinks.
    pub effort: Option<Effort>,
    /// What the user says.
    pub segments: Vec<Segment>,
}

impl Conversation {
    /// The conversation of a seed.
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::of(&["conversation", &seed.to_string()]);
        let mut candidates = MODELS.map(|(provider, model)| ModelName::new(provider, model));
        for at in (1..candidates.len()).rev() {
            candidates.swap(at, usize::try_from(dice.below(at as u64 + 1)).unwrap_or(0));
        }
        let effort = [None, Some(Effort::Low), Some(Effort::High)][usize::try_from(dice.below(3)).unwrap_or(0)];
        let mut segments = vec![Segment::user(format!("seed {seed} "))];
        if dice.in_100(20) {
            let image = Block::Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
            segments.push(Segment { role: Role::User, content: vec![image] });
        }
        Self { candidates: candidates.into(), effort, segments }
    }
}

/// One server of each API.
pub struct Servers {
    runtime: Option<Runtime>,
    all: BTreeMap<&'static str, Arc<Provider>>,
    memory: Arc<Memory>,
    /// How many requests they got.
    requests: watch::Sender<u64>,
}

impl Servers {
    /// Starts them. `between` is the time from one event of an answer to the next.
    pub fn start(failures: Failures, between: Duration) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let requests = watch::Sender::new(0);
        let memory = Arc::<Memory>::default();
        let start = |(id, shape)| {
            let (memory, requests) = (memory.clone(), requests.clone());
            let script = move |asked: &Asked| {
                requests.send_modify(|count| *count += 1);
                memory.answer(asked, failures, between)
            };
            let server = runtime.block_on(Provider::start(Settings::new(shape).key(KEY), script)).expect("a port");
            (id, Arc::new(server))
        };
        let all = SERVERS.into_iter().map(start).collect();
        Self { runtime: Some(runtime), all, memory, requests }
    }

    /// The config of each provider in the process with this number.
    pub fn configs(&self, process: u64) -> BTreeMap<&'static str, Value> {
        let config = |provider: &'static str| {
            let (driver, server, api) = match (provider, process % 2) {
                ("changing", 0) | ("chat", _) => ("openai", "chat", Some("chat")),
                ("changing", _) | ("responses", _) => ("openai", "responses", Some("responses")),
                (own, _) => (own, own, None),
            };
            let mut config = json!({ "driver": driver, "base_url": self.all[server].base_url() });
            if let Some(api) = api {
                config["options"] = json!({ "api": api });
            }
            (provider, config)
        };
        MODELS.into_iter().map(|(provider, _)| config(provider)).collect()
    }

    /// How many requests they got so far, and when there are more.
    pub fn requests(&self) -> watch::Receiver<u64> {
        self.requests.subscribe()
    }

    /// Does something as soon as they got so many more requests.
    pub fn after(&self, more: u64, then: impl FnOnce() + Send + 'static) {
        let mut requests = self.requests();
        let until = *requests.borrow() + more;
        let runtime = self.runtime.as_ref().expect("it runs until the servers are dropped");
        runtime.spawn(async move {
            if requests.wait_for(|count| *count >= until).await.is_ok() {
                then();
            }
        });
    }

    /// The first requests that each got.
    pub fn asked(&self) -> Vec<Asked> {
        self.all.values().flat_map(|server| server.asked()).collect()
    }

    /// How many conversations a model held over both of OpenAI's APIs.
    pub fn changed_api(&self) -> usize {
        let over = |server: &str| -> BTreeSet<String> {
            let asked = self.all[server].asked().into_iter().filter(|asked| asked.model() == CHANGING);
            asked.map(|asked| script::seed(&asked)).collect()
        };
        over("chat").intersection(&over("responses")).count()
    }

    /// What they remember of their answers.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// How many calls each answered with each status.
    pub fn calls(&self) -> BTreeMap<(&'static str, u16), u64> {
        let mut calls = BTreeMap::new();
        for (id, server) in &self.all {
            for call in server.calls() {
                *calls.entry((*id, call.status)).or_default() += 1;
            }
        }
        calls
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // Answers may still be on their way.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
