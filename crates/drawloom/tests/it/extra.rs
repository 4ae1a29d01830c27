//! What a process can have beside what is built in: an operation and an executor that no crate of ours knows.

use std::{collections::BTreeMap, sync::Arc};

use drawloom::{Extra, Parts, Running, Surface, config, data_dir::DataDir, start};
use drawloom_contract::{
    caller::Scope,
    definition::Definition,
    executor::{Drive, Effect, Executor},
    failure::Failure,
    record::{Outcome, Record, Status},
    run::Run,
    time::Timestamp,
    tool::Tool,
};
use drawloom_server::{Answer, AnyOperation, Call, Card, Operation};
use drawloom_wire::{
    client::Client,
    request::{Changes, Request, Route},
    runs::{RunResult, SpawnRun},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    mcp::client::{Client as McpClient, Era},
    support::Home,
};

const CONFIG: &str = "\
agents:
  counter: { description: Counts the words of its prompt., executor: words, tools: [], agents: [], hosts: [] }
";

/// Counts the words of a text.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountWords {
    /// The text.
    text: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Counted {
    /// How many words it has.
    words: u64,
    /// Who asked.
    caller: String,
}

impl Request for CountWords {
    const NAME: &'static str = "count_words";
    const ROUTES: &'static [Route] = &[Route::get("/v1/words/{text...}")];
    const CHANGES: Changes = Changes::Nothing;
    type Output = Counted;
}

struct CountWordsOperation;

impl Operation for CountWordsOperation {
    type Input = CountWords;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Count the words of a text.", Scope::RunsRead).toolset("words")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Counted>, Failure> {
        let words = input.text.split_whitespace().count() as u64;
        Ok(Answer::Value(Counted { words, caller: call.caller.subject.to_string() }))
    }
}

/// Ends a run at once, with the number of words that it was asked.
struct Words;

impl Executor for Words {
    fn open(&self, _: Arc<Definition>) -> Box<dyn Drive> {
        Box::new(Words)
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }
}

impl Drive for Words {
    fn apply(&mut self, _: &Run, _: &Record) {}

    fn decide(&self, run: &Run, _: Timestamp) -> Vec<Effect> {
        if run.view.status.is_terminal() {
            return Vec::new();
        }
        let texts = serde_json::to_value(&run.accepted.segments).expect("segments are JSON");
        let text = texts[0]["content"][0]["text"].as_str().unwrap_or_default();
        vec![Effect::Finish(Box::new(Outcome {
            status: Status::Completed,
            stop_reason: None,
            error: None,
            final_text: Some(format!("{} words", text.split_whitespace().count())),
            usage: run.view.usage,
            cost: run.view.cost,
            warnings: run.accepted.warnings.clone(),
        }))]
    }
}

async fn instance(home: &Home, surface: Surface) -> Running {
    home.write("drawloom.yaml", CONFIG);
    let operation: Arc<dyn AnyOperation> = Arc::new(CountWordsOperation);
    let executor: Arc<dyn Executor> = Arc::new(Words);
    let extra = Extra {
        operations: vec![operation],
        executors: BTreeMap::from([("words".to_owned(), executor)]),
        ..Extra::default()
    };
    let loaded = config::load_files(&[home.path().join("drawloom.yaml")]).expect("a config");
    let lock = DataDir::new(home.data()).lock("a test").expect("the directory is not locked");
    let parts = Parts::from_config(loaded, lock, surface, &extra).expect("a config that can be resolved");
    start(parts).await.expect("it starts")
}

fn question() -> CountWords {
    CountWords { text: "one two/three  four".into() }
}

fn expected() -> Counted {
    Counted { words: 3, caller: "default".into() }
}

fn spawn() -> SpawnRun {
    SpawnRun::new("counter".parse().expect("a name"), "how many words")
}

fn check(run: &RunResult) {
    assert_eq!((run.status, run.final_text.as_deref()), (Status::Completed, Some("3 words")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_and_an_executor_from_outside_are_used_over_rest_and_mcp() {
    let home = Home::new();
    let running = instance(&home, Surface::Serve { listen: "127.0.0.1:0".into() }).await;
    let url = running.url.clone().expect("it serves");
    let client = Client::new(&url, None, Arc::new(drawloom::clock::SystemClock)).expect("a client");
    assert_eq!(client.call(&question()).await.expect("an answer"), expected());
    check(&client.call(&spawn()).await.expect("a result"));
    let over_mcp = tokio::task::spawn_blocking(move || {
        let client = McpClient::new(&url, Era::Stateless).at("/mcp?toolsets=core,words");
        let counted = client.call("count_words", json!(question()));
        assert_eq!(counted["structuredContent"], json!(expected()), "{counted}");
        let listed = client.ask("tools/list", json!({}));
        assert!(listed.to_string().contains("Count the words of a text."), "{listed}");
        client.call("spawn_run", json!({ "agent": "counter", "prompt": "one two three" }))
    });
    let ran = over_mcp.await.expect("no panic");
    assert_eq!(ran["structuredContent"]["final_text"], "3 words", "{ran}");
    running.stop().await;
}

#[tokio::test]
async fn an_operation_and_an_executor_from_outside_are_used_inside_the_process() {
    let home = Home::new();
    let running = instance(&home, Surface::Embedded).await;
    assert_eq!(running.call(&question()).await.expect("an answer"), expected());
    check(&running.call(&spawn()).await.expect("a result"));
    running.stop().await;
}
