//! Calls that are made again after a wait: what ends the wait, what they cost, and what happens when they end the process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    journal::{CommitError, Committed, Entry, Journal, RunReader as _},
    money::{Cost, Price},
    record::{Body, Status},
    redact::Redactor,
    runs::{Interest, Runs as _, Start},
    time::Clock as _,
    tool::{CallResult, Repeat, Step, Tool, ToolCard, ToolContext, ToolError, Woken},
    usage::Usage,
    values::{KeyValue as _, ValueChange},
    wait::{Cause, Wait},
};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    house::{House, Plan, Wall, ask},
    resuming::die_after,
    waiting::{Late, log, post, value},
};

type Behaviour = Arc<dyn Fn(Option<Woken>) -> BoxFuture<'static, Step> + Send + Sync>;

/// A tool that a test makes up.
struct Act {
    most: Option<Cost>,
    behaviour: Behaviour,
}

#[async_trait]
impl Tool for Act {
    fn card(&self) -> ToolCard {
        ToolCard::new::<()>("Act", "Does what the test says.")
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    fn most_cost(&self, _: &ToolContext, _: &Value) -> Option<Cost> {
        self.most
    }

    async fn call(&self, context: &ToolContext, _: Value) -> Result<Step, ToolError> {
        Ok((self.behaviour)(context.woken).await)
    }
}

fn plan(late: &Late, calls: usize, most: Option<Cost>, behaviour: Behaviour) -> Plan {
    let calls = vec![json!({ "tool": "Act", "input": null }); calls];
    let rules = json!([{ "when": { "agent": "alice", "turn": 1 }, "calls": calls }, { "text": "{{last}}" }]);
    let free = Price { input: Cost(0), output: Cost(0), cache_write: Cost(0), cache_read: Cost(0) };
    let mut plan = Plan::new(rules).tool(Arc::new(Act { most, behaviour })).priced("script", "scripted", free);
    plan.seams = late.clone();
    plan.agents.iter_mut().for_each(|agent| agent.tools.push("Act".into()));
    plan
}

/// Waits for the log `a` first; then does what is given.
fn after_a_message(then: impl Fn() -> BoxFuture<'static, Step> + Send + Sync + 'static) -> Behaviour {
    Arc::new(move |woken| match woken {
        None => Box::pin(async { Step::Wait(Wait::on(Cause::Log { log: log("a"), after: 0 })) }),
        Some(_) => then(),
    })
}

#[tokio::test]
async fn a_call_that_waits_for_a_value_is_made_again_when_the_value_is_over() {
    let late = Late::default();
    let seams = late.clone();
    let behaviour: Behaviour = Arc::new(move |_| {
        let store = seams.get();
        Box::pin(async move {
            match store.find_value(&value("lease"), Wall.wall()).await.expect("a read") {
                Some(kept) => Step::Wait(Wait::on(Cause::Value { key: value("lease"), revision: kept.revision })),
                None => Step::done("it is over"),
            }
        })
    });
    let house = House::new(plan(&late, 1, None, behaviour));
    let (now, one) = (Wall.wall(), Redactor::new([""; 0]).clean(json!(1)));
    let put = ValueChange::put(value("lease"), one, now, Some(now.after(Duration::from_millis(300))));
    house.store.change(vec![put], None).await.expect("room");
    let view = house.run("alice", "x").await;
    assert_eq!(view.final_text.as_deref(), Some("it is over"));
}

#[tokio::test]
async fn no_more_calls_are_made_again_at_once_than_a_run_may_have_in_flight() {
    let late = Late::default();
    let (now, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let peak = most.clone();
    let behaviour = after_a_message(move || {
        let (now, most) = (now.clone(), most.clone());
        Box::pin(async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            now.fetch_sub(1, Ordering::SeqCst);
            Step::done("x")
        })
    });
    let house = House::new(plan(&late, 20, None, behaviour).config(|config| config.tool_parallelism = 2));
    let started = house.start(ask("alice", "x"), Interest::Outcome).await;
    house.until(&started.view.key(), |view| view.status == Status::Waiting).await;
    post(&*house.store, "a", "m", None).await.expect("room");
    assert_eq!(house.finish(started).await.status, Status::Completed);
    assert_eq!(peak.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_call_that_waits_keeps_its_money_while_its_run_is_parked() {
    let late = Late::default();
    let paid = || Step::Done(CallResult { text: "paid".into(), cost: Some(Cost(60)), usage: Usage::default() });
    let behaviour = after_a_message(move || Box::pin(async move { paid() }));
    let mut plan = plan(&late, 1, Some(Cost(60)), behaviour);
    let spawns = json!([{ "name": "bob", "prompt": "a" }, { "name": "bob", "prompt": "b" }]);
    let agent = json!({ "tool": "Agent", "input": { "op": "parallel_spawn", "spawns": spawns } });
    plan.rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [agent] },
        { "when": { "agent": "bob", "turn": 1 }, "calls": [{ "tool": "Act", "input": null }] },
        { "text": "{{last}}" },
    ]);
    let house = House::new(plan);
    let start = Start { budget_cost: Some(Cost(100)), ..ask("alice", "x") };
    let started = house.start(start, Interest::Outcome).await;
    house.until(&started.view.key(), |view| view.status == Status::Waiting).await;
    for child in house.children(&started.view).await {
        house.until(&child.key(), |view| view.status == Status::Waiting).await;
    }
    post(&*house.store, "a", "m", None).await.expect("room");
    let view = house.finish(started).await;
    let spent = house.engine.total(&house.caller, view.run).await.expect("a tree").spent;
    assert_eq!(spent.cost, Cost(60), "{:?}", view.final_text);
}

#[test]
fn a_call_that_ends_the_process_when_it_is_made_again_is_given_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let called = Arc::<Notify>::default();
    let plan = || {
        let called = called.clone();
        let behaviour = after_a_message(move || {
            called.notify_one();
            Box::pin(std::future::pending())
        });
        plan(&Late::default(), 1, None, behaviour)
    };
    let (path, first, died) = (directory.path().to_owned(), plan(), called.clone());
    let key = die_after(async move {
        let house = House::at(&path, first);
        let key = house.start(ask("alice", "x"), Interest::None).await.view.key();
        house.until(&key, |view| view.status == Status::Waiting).await;
        post(&*house.store, "a", "m", None).await.expect("room");
        died.notified().await;
        key
    });
    for boot in 2.. {
        assert!(boot < 12, "it is made again for ever");
        let (path, next, died, key) = (directory.path().to_owned(), plan(), called.clone(), key.clone());
        let ended = die_after(async move {
            let house = House::at(&path, next);
            house.engine.resume().await.expect("resumed");
            tokio::select! {
                () = died.notified() => None,
                ended = house.engine.wait(&house.caller, key.run, None) => Some(ended.expect("an end")),
            }
        });
        if let Some(ended) = ended {
            assert_eq!(ended.error.as_ref().map(|error| error.code.as_str()), Some("quarantined"), "{ended:?}");
            break;
        }
    }
}

/// A journal that never answers a commit with the end of a run.
struct Endless(Arc<dyn Journal>, Arc<Notify>);

#[async_trait]
impl Journal for Endless {
    async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        let mut records = entry.runs.iter().flat_map(|append| &append.records);
        if records.any(|record| matches!(record.body, Body::Finished(_))) {
            self.1.notify_one();
            return std::future::pending().await;
        }
        self.0.commit(entry).await
    }
}

#[test]
fn what_a_stopped_run_is_assumed_to_have_spent_is_booked_once_however_often_its_end_is_begun() {
    let directory = tempfile::tempdir().expect("a directory");
    let plan = |at_end: Option<Arc<Notify>>| {
        let behaviour = after_a_message(|| Box::pin(std::future::pending()));
        let mut plan = plan(&Late::default(), 1, Some(Cost(60)), behaviour);
        if let Some(at_end) = at_end {
            plan.wrap_journal = Arc::new(move |journal| Arc::new(Endless(journal, at_end.clone())));
        }
        plan
    };
    let (path, at_end) = (directory.path().to_owned(), Arc::<Notify>::default());
    let (first, ending) = (plan(Some(at_end.clone())), at_end.clone());
    let key = die_after(async move {
        let house = House::at(&path, first);
        let start = Start { budget_cost: Some(Cost(100)), ..ask("alice", "x") };
        let key = house.start(start, Interest::None).await.view.key();
        house.until(&key, |view| view.status == Status::Waiting).await;
        tokio::select! {
            _ = house.engine.cancel(&house.caller, key.run, None) => panic!("the end is never written"),
            () = ending.notified() => key,
        }
    });
    for _ in 0..2 {
        let (path, again, ending) = (directory.path().to_owned(), plan(Some(at_end.clone())), at_end.clone());
        die_after(async move {
            let house = House::at(&path, again);
            house.engine.resume().await.expect("resumed");
            ending.notified().await;
        });
    }
    let (path, last) = (directory.path().to_owned(), plan(None));
    die_after(async move {
        let house = House::at(&path, last);
        house.engine.resume().await.expect("resumed");
        house.engine.wait(&house.caller, key.run, None).await.expect("an end");
        let view = house.store.find_run(&key).await.expect("a read").expect("a run");
        assert_eq!((view.status, view.cost), (Status::Cancelled, Some(Cost(60))));
    });
}

#[test]
fn a_time_that_came_while_the_process_was_down_ends_a_wait() {
    let directory = tempfile::tempdir().expect("a directory");
    let plan = || {
        let behaviour: Behaviour = Arc::new(|woken| {
            let until = Some(Wall.wall().after(Duration::from_millis(300)));
            Box::pin(async move {
                match woken {
                    None => Step::Wait(Wait { on: Vec::new(), until }),
                    Some(woken) => Step::done(format!("{woken:?}")),
                }
            })
        });
        plan(&Late::default(), 1, None, behaviour)
    };
    let (path, first) = (directory.path().to_owned(), plan());
    let (key, until) = die_after(async move {
        let house = House::at(&path, first);
        let key = house.start(ask("alice", "x"), Interest::None).await.view.key();
        house.until(&key, |view| view.status == Status::Waiting).await;
        let waiting = house.store.list_unfinished().await.expect("a read").waiting;
        (key, waiting[0].wait.until.expect("a time"))
    });
    while Wall.wall() <= until {
        std::thread::yield_now();
    }
    let (path, next) = (directory.path().to_owned(), plan());
    die_after(async move {
        let house = House::at(&path, next);
        house.engine.resume().await.expect("resumed");
        let ended = house.engine.wait(&house.caller, key.run, None).await.expect("an end");
        assert_eq!(ended.final_text.as_deref(), Some("ByTime"));
    });
}
