//! A goal's run without an engine: records are folded, calls are answered by a function.

use drawloom_contract::{
    executor::{Drive as _, Effect},
    failure::RunError,
    record::{Body, CallDone, CallStarted, Outcome, Record, RepeatClass, Seq},
    run::Run,
    time::Timestamp,
};
use drawloom_testkit::suites::records::{accepted, run_id};
use serde_json::{Value, json};

use crate::{
    event::LoopEvent, executor::Goal, request::GoalInput, result::Story, roles::Prompts, state::State, tools::ASK,
};

/// What a call is answered.
pub(super) enum Answer {
    Text(String),
    Error(String),
    /// A role's run that failed with this code.
    Failed(&'static str),
    /// A text, without what it cost.
    Unpriced(String),
    /// A text, after this many calls that were interrupted.
    Repeated(String, u32),
}

/// What came of a goal.
pub(super) struct Told {
    pub(super) outcome: Outcome,
    pub(super) events: Vec<LoopEvent>,
    pub(super) story: Story,
    pub(super) records: Vec<Record>,
    /// Tools and inputs of all calls, in order.
    pub(super) calls: Vec<(String, Value)>,
}

impl Told {
    pub(super) fn kinds(&self) -> Vec<String> {
        self.events.iter().map(|event| format!("{} {}", event.iteration, event.kind)).collect()
    }

    pub(super) fn event(&self, kind: &str) -> &Value {
        &self.events.iter().find(|event| event.kind == kind).expect("an event of this kind").data
    }

    /// Prompts of a role, in order.
    pub(super) fn prompts(&self, role: &str) -> Vec<&str> {
        let asked = self.calls.iter().filter(|(tool, input)| tool == ASK && input["role"] == role);
        asked.map(|(_, input)| input["prompt"].as_str().expect("a prompt")).collect()
    }
}

/// Runs a goal to its end. Of the calls that are open, `next` says which one ends.
pub(super) fn run(
    input: &GoalInput,
    step_ms: u64,
    mut next: impl FnMut(usize) -> usize,
    mut answer: impl FnMut(&str, &Value) -> Answer,
) -> Told {
    let mut first = accepted(1);
    first.input = Some(json!(input));
    let mut now = Timestamp::from_millis(1_000_000);
    let mut records = vec![Record { seq: 1, at: now, body: Body::Accepted(Box::new(first)) }];
    let mut run = Run::begin(&records[0]).expect("a beginning");
    let fresh = || Goal { state: State::default(), prompts: Prompts::default() };
    let mut goal = fresh();
    goal.apply(&run, &records[0]);
    let mut calls: Vec<(String, Value)> = Vec::new();
    let mut open: Vec<(Seq, usize)> = Vec::new();
    let push = |body: Body, run: &mut Run, goal: &mut Goal, records: &mut Vec<Record>, at: Timestamp| {
        let record = Record { seq: run.view.seq + 1, at, body };
        run.apply(&record).expect("a record that follows");
        goal.apply(run, &record);
        records.push(record);
        run.view.seq
    };
    push(Body::Admitted { deadline: None, deadline_set: None }, &mut run, &mut goal, &mut records, now);
    for _ in 0..10_000 {
        let effects = goal.decide(&run, now);
        let mut again = fresh();
        records.iter().for_each(|record| again.state.apply(record));
        assert_eq!(again.decide(&run, now), effects, "a fresh fold decides the same");
        if effects.is_empty() {
            assert!(!open.is_empty(), "it neither waits nor goes on");
            let (call, at) = open.remove(next(open.len()) % open.len());
            now = now.after(std::time::Duration::from_millis(step_ms));
            let (tool, input) = &calls[at];
            let (text, is_error) = match answer(tool, input) {
                Answer::Text(text) if tool == ASK => (report("completed", &text, None, at).to_string(), false),
                Answer::Failed(code) => {
                    (report("failed", "", Some(RunError::new(code, "it failed")), at).to_string(), false)
                }
                Answer::Unpriced(text) => {
                    let mut report = report("completed", &text, None, at);
                    report[0]["cost"] = Value::Null;
                    (report.to_string(), false)
                }
                Answer::Repeated(text, count) => {
                    let mut report = report("completed", &text, None, at);
                    report[0]["interrupted"] = count.into();
                    (report.to_string(), false)
                }
                Answer::Text(text) => (text, false),
                Answer::Error(text) => (text, true),
            };
            let done = CallDone { call, text, is_error, in_doubt: false, cost: None, usage: Default::default() };
            push(Body::CallDone(done), &mut run, &mut goal, &mut records, now);
            continue;
        }
        for effect in effects {
            match effect {
                Effect::Note { version, value } => {
                    push(Body::Note { version, value }, &mut run, &mut goal, &mut records, now);
                }
                Effect::Call(plan) => {
                    let tool_use = plan.tool_use;
                    calls.push((tool_use.name.clone(), tool_use.input.clone()));
                    let started = CallStarted {
                        turn: plan.turn,
                        index: plan.index,
                        tool_use,
                        repeat: RepeatClass::Keyed,
                        evidence: None,
                        conditions: None,
                        masked: false,
                        by_executor: true,
                        reserved_cost: None,
                    };
                    let call = push(Body::CallStarted(started), &mut run, &mut goal, &mut records, now);
                    open.push((call, calls.len() - 1));
                }
                Effect::Finish(outcome) => {
                    assert!(open.is_empty(), "nothing is left open at the end");
                    push(Body::Finished(outcome.clone()), &mut run, &mut goal, &mut records, now);
                    let mut story = Story::default();
                    let events = records.iter().filter_map(|record| story.apply(record)).collect();
                    return Told { outcome: *outcome, events, story, records, calls };
                }
                Effect::Turn(_) | Effect::Wait { .. } => panic!("the loop decides neither turns nor waits"),
            }
        }
    }
    panic!("the goal did not end");
}

fn report(status: &str, output: &str, error: Option<RunError>, number: usize) -> Value {
    let usage = json!({ "input_tokens": 10, "output_tokens": 5 });
    json!([{ "run_id": run_id(number as u64), "status": status, "output": output, "error": error, "usage": usage, "cost": 1_000_000 }])
}
