//! Evidence: taken before a call, asked after a crash, removed when the call's result is journaled.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    record::{Body, CallDone, RepeatClass},
    runs::{Interest, Runs as _},
    tool::{Check, Repeat, Step, Tool, ToolCard, ToolContext, ToolError, Verdict},
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    house::{House, Plan, ask},
    resuming::die_after,
};

/// A tool that notes what it is asked, and hangs when its input says so.
#[derive(Clone, Default)]
struct Checked {
    /// What the evidence is, and what is found after a crash.
    evidence: Option<Value>,
    verdict: Option<Verdict>,
    notes: Arc<Mutex<Vec<String>>>,
    noted: Arc<Notify>,
}

impl Checked {
    fn note(&self, what: String) {
        self.notes.lock().expect("no panic while held").push(what);
        self.noted.notify_waiters();
    }

    /// Waits until it was asked for all of this, in this order.
    async fn until(&self, wanted: &[&str]) {
        let arrived = async {
            loop {
                let next = self.noted.notified();
                if *self.notes.lock().expect("no panic while held") == wanted {
                    return;
                }
                next.await;
            }
        };
        let arrived = tokio::time::timeout(Duration::from_secs(60), arrived).await;
        arrived.unwrap_or_else(|_| panic!("{:?} where {wanted:?} is expected", self.notes));
    }
}

#[async_trait]
impl Tool for Checked {
    fn card(&self) -> ToolCard {
        ToolCard {
            name: "Checked".into(),
            description: "Notes.".into(),
            input_schema: json!({ "type": "object" }).into(),
        }
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Check(self)
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        self.note(format!("call {}", context.evidence.clone().unwrap_or_default()));
        match input["then"].as_str() {
            Some("hang") => std::future::pending().await,
            Some("fail") => Err(ToolError::Failed("it failed".into())),
            _ => Ok(Step::done("it worked")),
        }
    }
}

#[async_trait]
impl Check for Checked {
    async fn evidence(&self, _: &ToolContext, _: &Value) -> Result<Option<Value>, ToolError> {
        self.note("evidence".into());
        Ok(self.evidence.clone())
    }

    async fn verdict(&self, _: &ToolContext, _: &Value, evidence: &Value) -> Verdict {
        self.note(format!("verdict {evidence}"));
        self.verdict.clone().expect("this test expects no crash")
    }

    async fn discard(&self, context: &ToolContext) {
        self.note(format!("discard {}", context.evidence.clone().unwrap_or_default()));
    }
}

fn plan(tool: &Checked, then: &str) -> Plan {
    let rules = json!([
        { "when": { "turn": 1 }, "calls": [{ "tool": "Checked", "input": { "then": then } }] },
        { "text": "{{last}}" } ]);
    let plan = Plan::new(rules).tool(Arc::new(tool.clone()));
    plan.agent("alice", |agent| agent.tools = vec!["Checked".into()])
}

#[tokio::test]
async fn evidence_reaches_the_call_and_is_removed_after_its_result() {
    for then in ["work", "fail"] {
        let tool = Checked { evidence: Some(json!("e")), ..Checked::default() };
        let house = House::new(plan(&tool, then));
        house.run("alice", "x").await;
        tool.until(&["evidence", "call \"e\"", "discard \"e\""]).await;
    }
}

#[tokio::test]
async fn the_evidence_of_a_cancelled_call_is_removed() {
    let tool = Checked { evidence: Some(json!("e")), ..Checked::default() };
    let house = House::new(plan(&tool, "hang"));
    let started = house.start(ask("alice", "x"), Interest::None).await;
    tool.until(&["evidence", "call \"e\""]).await;
    house.engine.cancel(&house.caller, started.view.run, None).await.expect("cancelled");
    tool.until(&["evidence", "call \"e\"", "discard \"e\""]).await;
}

/// Starts a call that hangs, dies, and resumes: the call's intent and its result.
fn crash(evidence: Option<Value>, verdict: Verdict) -> (RepeatClass, CallDone) {
    let directory = tempfile::tempdir().expect("a directory");
    let tool = Checked { evidence, verdict: Some(verdict), ..Checked::default() };
    let view = die_after({
        let (directory, tool) = (directory.path().to_owned(), tool.clone());
        async move {
            let house = House::at(&directory, plan(&tool, "hang"));
            let started = house.start(ask("alice", "x"), Interest::None).await;
            let called = format!("call {}", tool.evidence.clone().unwrap_or_default());
            tool.until(&["evidence", &called]).await;
            (*started.view).clone()
        }
    });
    die_after(async move {
        let house = House::at(directory.path(), plan(&tool, "hang"));
        house.engine.resume().await.expect("resumed");
        let ended = house.engine.wait(&house.caller, view.run, None).await.expect("an end");
        let journal = house.journal(&ended).await;
        let find = |record: &drawloom_contract::record::Record| match &record.body {
            Body::CallStarted(started) => Some(started.repeat),
            _ => None,
        };
        let class = journal.iter().find_map(find).expect("a call");
        let done = journal.iter().find_map(|record| match &record.body {
            Body::CallDone(done) => Some(done.clone()),
            _ => None,
        });
        (class, done.expect("its result"))
    })
}

#[test]
fn a_call_that_cannot_leave_evidence_is_never_repeated() {
    let (class, done) = crash(None, Verdict::DidNot);
    assert_eq!(class, RepeatClass::Never);
    assert!(done.in_doubt && done.text.starts_with("in doubt:"), "{done:?}");
}

#[test]
fn what_the_evidence_says_after_a_crash_is_the_result() {
    let (class, done) = crash(Some(json!("e")), Verdict::Failed("it cannot happen any more".into()));
    assert_eq!((class, done.in_doubt, done.is_error), (RepeatClass::Check, false, true));
    assert_eq!(done.text, "it cannot happen any more");
    let (_, done) = crash(Some(json!("e")), Verdict::Happened("it happened".into()));
    assert_eq!((done.in_doubt, done.is_error, done.text.as_str()), (false, false, "it happened"));
}
