//! Retries: a child takes its place again while its parent waits for others, everything else is a new root.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use drawloom_contract::{
    caller::{Caller, Proof, Scope},
    choice::{Effort, Sampling},
    failure::Failure,
    ids::Digest,
    message::{Message, Part},
    model::{Deltas, ListedModel, Model, ModelCard, Turn, TurnError, TurnRequest},
    record::{Body, Retry, Status},
    runs::{Idempotency, Interest, OnRefusal, RetryStart, Runs as _, Start},
    usage::Usage,
    view::RunView,
};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    house::{House, Plan, ask},
    providers::card,
    resuming::die_after,
};

/// Refuses what its tests say as long as they say it, holds what they hold, and counts what it was asked.
struct Readers {
    /// Prompts that are refused, and prompts that wait.
    refused: watch::Sender<Vec<String>>,
    held: watch::Sender<Vec<String>>,
    asked: Mutex<BTreeMap<String, usize>>,
}

impl Readers {
    fn new(refused: &[&str], held: &[&str]) -> Arc<Self> {
        let list = |words: &[&str]| watch::Sender::new(words.iter().map(|word| (*word).to_owned()).collect());
        Arc::new(Self { refused: list(refused), held: list(held), asked: Mutex::default() })
    }

    fn asked(&self, prompt: &str) -> usize {
        self.asked.lock().expect("no panic").get(prompt).copied().unwrap_or_default()
    }
}

#[async_trait]
impl Model for Readers {
    fn card(&self, _: &str) -> ModelCard {
        card()
    }

    async fn look_up(&self, _: &str) {}

    fn ignored(&self, _: &str, _: &Sampling, _: Option<Effort>) -> Vec<&'static str> {
        Vec::new()
    }

    async fn list(&self) -> Result<Vec<ListedModel>, TurnError> {
        Ok(Vec::new())
    }

    async fn turn(&self, request: TurnRequest, _: &dyn Deltas) -> Result<Turn, TurnError> {
        let prompt = match request.messages.first().map(|message| &**message) {
            Some(Message::User(parts)) => parts.iter().find_map(|part| match part {
                Part::Text(text) => Some(text.clone()),
                Part::Image { .. } => None,
            }),
            _ => None,
        };
        let prompt = prompt.unwrap_or_default();
        *self.asked.lock().expect("no panic").entry(prompt.clone()).or_default() += 1;
        self.held.subscribe().wait_for(|held| !held.contains(&prompt)).await.expect("the test lives");
        if self.refused.borrow().contains(&prompt) {
            return Err(TurnError::Refused { message: "no".into() });
        }
        let usage = Usage { input_tokens: 1, output_tokens: 1, ..Usage::default() };
        Ok(Turn { text: format!("read {prompt}"), usage, ..Turn::default() })
    }
}

/// A lead that asks `count` readers at once.
fn plan(readers: &Arc<Readers>, count: usize) -> Plan {
    let spawns: Vec<Value> = (0..count).map(|i| json!({ "name": "bob", "prompt": format!("page {i}") })).collect();
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "op": "parallel_spawn", "spawns": spawns } }] },
        { "when": { "agent": "alice" }, "text": "{{last}}" },
        { "text": "did {{prompt}}" },
    ]);
    Plan::new(rules)
        .config(|config| config.max_concurrent_runs = 64)
        .provider("readers", readers.clone())
        .agent("bob", |agent| agent.provider = "readers".into())
}

fn key(text: &str) -> Option<Idempotency> {
    Some(Idempotency { operation: "retry_run", key: text.into(), body: Digest::of(text.as_bytes()) })
}

fn retry_of(run: &RunView) -> RetryStart {
    RetryStart { run: run.run, completed: false }
}

async fn retry(house: &House, run: &RunView) -> Result<RunView, Failure> {
    let started = house.engine.retry(&house.caller, retry_of(run), None, Interest::None).await?;
    Ok((*started.view).clone())
}

async fn ended(house: &House, run: &RunView) -> RunView {
    (*house.engine.wait(&house.caller, run.run, None).await.expect("an end")).clone()
}

/// The child of this place once it is as `wanted`.
async fn child(house: &House, lead: &RunView, index: usize, wanted: impl Fn(&RunView) -> bool) -> RunView {
    house.until(&lead.key(), |view| view.status == Status::Waiting).await;
    let children = house.children(lead).await;
    let found = children.into_iter().filter(|child| child.parent.as_ref().is_some_and(|at| at.index as usize == index));
    let newest = found.last().expect("a child");
    house.until(&newest.key(), wanted).await
}

fn results(lead: &RunView) -> Vec<Value> {
    let text: Value = serde_json::from_str(lead.final_text.as_deref().expect("a text")).expect("JSON");
    text["results"].as_array().expect("results").clone()
}

#[tokio::test]
async fn a_failing_child_of_thirty_is_retried_alone_while_its_parent_waits() {
    let readers = Readers::new(&["page 7"], &["page 29"]);
    let house = House::new(plan(&readers, 30));
    let lead = house.start(ask("alice", "go"), Interest::None).await.view;
    let failed = child(&house, &lead, 7, |view| view.status == Status::Failed).await;
    readers.refused.send_replace(Vec::new());
    let again = retry(&house, &failed).await.expect("accepted");
    assert_eq!((&again.parent, again.root, again.depth), (&failed.parent, lead.run, 1));
    assert_eq!(again.retry, Some(Retry { of: failed.run, attempt: 1 }));
    assert_eq!((again.definition, &again.agent), (failed.definition, &failed.agent));
    assert_eq!(ended(&house, &again).await.status, Status::Completed);
    // The lead still waits for the last one, and gets the new result in the same place.
    let waiting = house.engine.load(&house.caller, lead.run).await.expect("a run");
    assert_eq!(waiting.status, Status::Waiting);
    readers.held.send_replace(Vec::new());
    let lead = ended(&house, &waiting).await;
    let results = results(&lead);
    assert_eq!(results.len(), 30);
    assert!(results.iter().all(|result| result["ok"] == json!(true)), "{results:?}");
    assert_eq!(results[7]["run_id"], json!(again.run));
    assert_eq!(results[7]["output"], "read page 7");
    // Nothing else ran again.
    for page in 0..30 {
        assert_eq!(readers.asked(&format!("page {page}")), if page == 7 { 2 } else { 1 }, "page {page}");
    }
    assert_eq!(house.children(&lead).await.len(), 31);
    let total = house.engine.total(&house.caller, lead.run).await.expect("sums");
    assert_eq!((total.below, total.failed), (31, 0), "the retry replaces the failed attempt");
    // The journal says why there is a second run in this place.
    let Body::Accepted(accepted) = &house.journal(&again).await[0].body else { panic!("it begins so") };
    assert_eq!(accepted.retry, again.retry);
    let links = house.engine.retries(&[failed.clone(), again.clone()]).await.expect("links");
    assert_eq!(links, BTreeMap::from([(failed.run, again.run)]));
    for run in [&lead, &again, &failed] {
        assert!(house.engine.replay(&house.caller, run.run).await.expect("a replay").ok);
    }
}

#[tokio::test]
async fn retries_at_the_same_moment_are_one_and_a_key_finds_it_again() {
    let readers = Readers::new(&["page 0"], &["page 1"]);
    let house = House::new(plan(&readers, 2));
    let lead = house.start(ask("alice", "go"), Interest::None).await.view;
    let failed = child(&house, &lead, 0, |view| view.status == Status::Failed).await;
    readers.refused.send_replace(Vec::new());
    let engine = &house.engine;
    let with_key = |text| engine.retry(&house.caller, retry_of(&failed), key(text), Interest::None);
    let both = join_all([with_key("same"), with_key("same"), with_key("same")]).await;
    let runs: Vec<_> = both.into_iter().map(|started| started.expect("accepted").view.run).collect();
    assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
    let refused = with_key("other").await.err().expect("it was retried");
    assert_eq!(refused.code, "already_retried");
    assert!(refused.message.contains(&runs[0].to_string()), "{refused}");
    readers.held.send_replace(Vec::new());
    assert!(results(&ended(&house, &lead).await).iter().all(|result| result["ok"] == json!(true)));
}

#[tokio::test]
async fn a_run_that_has_not_ended_or_completed_is_refused_with_what_to_do() {
    let readers = Readers::new(&[], &["page 1"]);
    let house = House::new(plan(&readers, 2));
    let lead = house.start(ask("alice", "go"), Interest::None).await.view;
    let done = child(&house, &lead, 0, |view| view.status == Status::Completed).await;
    let held = child(&house, &lead, 1, |view| view.status == Status::Running).await;
    let refused = retry(&house, &held).await.expect_err("it runs");
    assert_eq!(refused.code, "not_ended");
    assert!(refused.hint.as_deref().is_some_and(|hint| hint.contains("cancel_run")), "{refused:?}");
    assert_eq!(retry(&house, &done).await.expect_err("it completed").code, "completed");
    let all_the_same = RetryStart { run: done.run, completed: true };
    let again = house.engine.retry(&house.caller, all_the_same, None, Interest::None).await.expect("accepted");
    assert_eq!(again.view.parent, done.parent);
    readers.held.send_replace(Vec::new());
    assert_eq!(results(&ended(&house, &lead).await)[0]["run_id"], json!(again.view.run));
}

#[tokio::test]
async fn after_the_call_has_ended_a_retry_is_a_new_root_with_the_same_request() {
    let readers = Readers::new(&["page 1"], &[]);
    let house = House::new(plan(&readers, 3));
    let lead = house.run("alice", "go").await;
    let failed = house.children(&lead).await.into_iter().find(|child| child.status == Status::Failed).expect("one");
    readers.refused.send_replace(Vec::new());
    let again = retry(&house, &failed).await.expect("accepted");
    assert_eq!((&again.parent, again.root, again.depth, &again.batch), (&None, again.run, 0, &None));
    assert_eq!(again.retry, Some(Retry { of: failed.run, attempt: 1 }));
    assert_eq!(ended(&house, &again).await.final_text.as_deref(), Some("read page 1"));
    let after = house.engine.load(&house.caller, lead.run).await.expect("a run");
    assert_eq!(after, lead, "the parent is as it was");
}

#[tokio::test]
async fn a_root_is_retried_with_its_limits_session_and_handle() {
    let readers = Readers::new(&["x"], &[]);
    let house = House::new(plan(&readers, 1));
    let start = Start {
        agent_id: Some("mine".parse().expect("an id")),
        timeout_ms: Some(3_600_000),
        max_iterations: Some(3),
        budget_tokens: Some(100_000),
        metadata: Some(json!({ "k": 1 })),
        ..ask("bob", "x")
    };
    let first = house.finish(house.start(start, Interest::Outcome).await).await;
    assert_eq!(first.status, Status::Failed);
    let again = retry(&house, &first).await.expect("accepted");
    assert_eq!(ended(&house, &again).await.status, Status::Failed);
    readers.refused.send_replace(Vec::new());
    let third = retry(&house, &again).await.expect("accepted");
    let third = ended(&house, &third).await;
    assert_eq!((third.status, third.retry), (Status::Completed, Some(Retry { of: again.run, attempt: 2 })));
    assert_eq!((&third.agent_id, third.session), (&first.agent_id, first.session));
    let beginning = async |view: &RunView| match &house.journal(view).await[0].body {
        Body::Accepted(accepted) => accepted.clone(),
        other => panic!("not a beginning: {other:?}"),
    };
    let (one, three) = (beginning(&first).await, beginning(&third).await);
    assert_eq!(
        (three.segments, three.metadata, three.max_iterations),
        (one.segments, one.metadata, one.max_iterations)
    );
    assert_eq!((three.budget_tokens, three.definition), (one.budget_tokens, one.definition));
    let length = |view: &RunView| view.deadline.expect("a limit").since(view.accepted_at).as_secs();
    assert_eq!(length(&third), length(&first));
}

#[tokio::test]
async fn a_retry_is_cancelled_with_its_tree_and_a_stopping_parent_takes_none() {
    let readers = Readers::new(&["page 0"], &["page 1"]);
    let house = House::new(plan(&readers, 2));
    let lead = house.start(ask("alice", "go"), Interest::None).await.view;
    let failed = child(&house, &lead, 0, |view| view.status == Status::Failed).await;
    readers.refused.send_replace(Vec::new());
    readers.held.send_modify(|held| held.push("page 0".into()));
    let again = retry(&house, &failed).await.expect("accepted");
    house.until(&again.key(), |view| view.status == Status::Running).await;
    house.engine.cancel(&house.caller, lead.run, None).await.expect("cancelled");
    let ended = ended(&house, &again).await;
    assert_eq!((ended.status, ended.error.expect("why").code.as_str()), (Status::Cancelled, "parent_ended"));
    // What was cancelled with the tree is retried on its own.
    let alone = retry(&house, &again).await.expect("accepted");
    assert_eq!((alone.depth, alone.retry.map(|retry| retry.attempt)), (0, Some(2)));
}

#[test]
fn a_retry_survives_the_death_of_its_process_and_reaches_the_parent() {
    let directory = tempfile::tempdir().expect("a directory");
    let (lead, again) = die_after({
        let directory = directory.path().to_owned();
        async move {
            let readers = Readers::new(&["page 0"], &["page 1"]);
            let house = House::at(&directory, plan(&readers, 2));
            let lead = house.start(ask("alice", "go"), Interest::None).await.view;
            let failed = child(&house, &lead, 0, |view| view.status == Status::Failed).await;
            readers.refused.send_replace(Vec::new());
            readers.held.send_modify(|held| held.push("page 0".into()));
            let again = retry(&house, &failed).await.expect("accepted");
            (lead, again)
        }
    });
    die_after({
        let directory = directory.path().to_owned();
        async move {
            let readers = Readers::new(&[], &[]);
            let house = House::at(&directory, plan(&readers, 2));
            house.engine.resume().await.expect("resumed");
            let lead = ended(&house, &lead).await;
            let results = results(&lead);
            assert!(results.iter().all(|result| result["ok"] == json!(true)), "{results:?}");
            assert_eq!(results[0]["run_id"], json!(again.run));
            assert_eq!((readers.asked("page 0"), readers.asked("page 1")), (1, 1));
        }
    });
}

#[tokio::test]
async fn a_run_of_an_unfinished_batch_is_retried_in_its_place() {
    let readers = Readers::new(&["one"], &["two"]);
    let house = House::new(plan(&readers, 1));
    let starts = vec![ask("bob", "one"), ask("bob", "two")];
    let started = house.engine.start_batch(&house.caller, starts, OnRefusal::RefuseAll, None, Interest::None).await;
    let started = started.expect("accepted");
    let failed = ended(&house, &started.runs[0].view).await;
    readers.refused.send_replace(Vec::new());
    let again = retry(&house, &failed).await.expect("accepted");
    assert_eq!((again.batch, again.depth), (failed.batch, 0));
    ended(&house, &again).await;
    readers.held.send_replace(Vec::new());
    ended(&house, &started.runs[1].view).await;
    let members = house.engine.load_batch(&house.caller, started.batch).await.expect("a batch");
    let shown: Vec<_> = members.iter().map(|view| (view.run, view.status)).collect();
    assert_eq!(shown, [(again.run, Status::Completed), (started.runs[1].view.run, Status::Completed)]);
    // The batch is done: what is retried now is a run of its own.
    let later = RetryStart { run: again.run, completed: true };
    let later = house.engine.retry(&house.caller, later, None, Interest::None).await.expect("accepted");
    assert_eq!(later.view.batch, None);
    let members = house.engine.load_batch(&house.caller, started.batch).await.expect("a batch");
    assert_eq!(members[0].run, again.run);
}

#[tokio::test]
async fn one_unknown_agent_fails_in_its_place_and_the_others_run_also_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let readers = Readers::new(&[], &[]);
    let house = House::at(directory.path(), plan(&readers, 1));
    let starts = || vec![ask("bob", "one"), ask("nobody", "two"), ask("bob", "three")];
    let start = |key| house.engine.start_batch(&house.caller, starts(), OnRefusal::FailThatRun, key, Interest::Outcome);
    let keyed = || Some(Idempotency { operation: "spawn_runs", key: "k".into(), body: Digest::of(b"b") });
    let batch = start(keyed()).await.expect("accepted");
    let told: Vec<_> = batch.runs.iter().map(|run| run.view.batch.expect("a place").index).collect();
    assert_eq!(told, [0, 1, 2]);
    for run in &batch.runs {
        ended(&house, &run.view).await;
    }
    let members = house.engine.load_batch(&house.caller, batch.batch).await.expect("a batch");
    let statuses: Vec<_> = members.iter().map(|view| view.status).collect();
    assert_eq!(statuses, [Status::Completed, Status::Failed, Status::Completed]);
    let error = members[1].error.clone().expect("an error");
    assert_eq!((error.code.as_str(), error.message.as_str()), ("unknown_agent", "unknown agent \"nobody\""));
    assert_eq!(start(keyed()).await.expect("the same").batch, batch.batch);
    assert!(house.engine.replay(&house.caller, members[1].run).await.expect("a replay").ok);
    // Once the agent is known, the refused run can be retried.
    assert_eq!(retry(&house, &members[1]).await.expect_err("still unknown").code, "unknown_agent");
    house.engine.stop().await;
    drop(house);
    let house =
        House::at(directory.path(), plan(&readers, 1).agent("nobody", |agent| agent.provider = "readers".into()));
    let after = house.engine.load_batch(&house.caller, batch.batch).await.expect("a batch");
    assert_eq!(after, members);
    let again = retry(&house, &members[1]).await.expect("accepted");
    assert_eq!(ended(&house, &again).await.final_text.as_deref(), Some("read two"));
}

#[tokio::test]
async fn a_principal_retries_no_run_of_another_user() {
    let readers = Readers::new(&["page 0"], &[]);
    let house = House::new(plan(&readers, 1));
    let failed = house.run("bob", "page 0").await;
    assert_eq!(failed.status, Status::Failed);
    let principal = |subject: &str| Caller {
        subject: subject.parse().expect("a name"),
        scopes: vec![Scope::RunsReadAll, Scope::RunsCreate],
        proof: Proof::Principal,
        ..house.caller.clone()
    };
    let refused = house.engine.retry(&principal("eve"), retry_of(&failed), None, Interest::None).await;
    assert_eq!(refused.map(|_| ()).expect_err("another user").code, "user_denied");
    let owner = principal(failed.user.as_str());
    let again = house.engine.retry(&owner, retry_of(&failed), None, Interest::None).await.expect("its own run");
    assert_eq!(again.view.user, failed.user);
}
