//! Records and entries for suites: run `n` has ids, a handle and a session that its number gives.

use std::sync::LazyLock;

use drawloom_contract::{
    choice::ModelName,
    failure::RunError,
    ids::{AgentId, BatchId, Digest, RunId, RunKey, SessionId, Tenant},
    journal::Append,
    message::Segment,
    money::Cost,
    record::{
        Accepted, BatchPlace, Body, Collect, Outcome, Parent, Record, Seq, Status, StopReason, Switched, TurnDone,
        TurnStarted,
    },
    redact::{Redacted, Redactor},
    time::Timestamp,
    usage::Usage,
    view::{Patch, RunView},
    wait::{Cause, Wait, WaitChange},
};

pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

pub fn tenant(name: &str) -> Tenant {
    name.parse().expect("a valid name")
}

fn bytes(number: u64) -> [u8; 16] {
    u128::from(number).to_be_bytes()
}

pub fn run_id(number: u64) -> RunId {
    RunId::from_bytes(bytes(number))
}

pub fn session_id(number: u64) -> SessionId {
    SessionId::from_bytes(bytes(number))
}

pub fn batch_id(number: u64) -> BatchId {
    BatchId::from_bytes(bytes(number))
}

pub fn key(number: u64) -> RunKey {
    RunKey { tenant: Tenant::default_tenant(), run: run_id(number) }
}

pub fn agent_id(number: u64) -> AgentId {
    format!("handle-{number}").parse().expect("a valid name")
}

/// How run `number` begins: a root in a session of its own.
pub fn accepted(number: u64) -> Accepted {
    Accepted {
        version: "0.0.0-test".into(),
        tenant: Tenant::default_tenant(),
        run: run_id(number),
        session: session_id(number),
        agent_id: agent_id(number),
        agent: "team/worker".parse().expect("a valid name"),
        definition: Digest::of(b"definition"),
        executor: "model".into(),
        user: "ada".parse().expect("a valid name"),
        provider: "script".into(),
        model: "scripted".into(),
        parent: None,
        root: run_id(number),
        depth: 0,
        batch: None,
        retry: None,
        segments: vec![Segment::user("hello")],
        input: None,
        tools: vec!["Read".into()],
        narrowed_tools: None,
        max_iterations: 8,
        budget_tokens: None,
        budget_cost: None,
        models: Default::default(),
        narrowed_hosts: None,
        narrowed_volumes: None,
        part_budgets: Vec::new(),
        deadline: None,
        deadline_set: None,
        run_timeout_ms: None,
        queue_timeout_ms: Some(1_200_000),
        parent_context: None,
        metadata: None,
        warnings: Vec::new(),
    }
}

/// How child `index` of a call of run `parent` begins.
pub fn child(number: u64, parent: u64, call: Seq, index: u32) -> Accepted {
    let parent = Parent { run: run_id(parent), agent_id: agent_id(parent), call, index };
    Accepted { root: parent.run, depth: 1, parent: Some(parent), ..accepted(number) }
}

/// How the member at `index` of a batch begins.
pub fn member(number: u64, batch: u64, index: u32) -> Accepted {
    Accepted { batch: Some(BatchPlace { batch: batch_id(batch), index }), ..accepted(number) }
}

/// The append that begins a run, with more records after the first.
pub fn begin(accepted: Accepted, more: impl IntoIterator<Item = Body>) -> Append {
    let key = RunKey { tenant: accepted.tenant.clone(), run: accepted.run };
    let mut append = after(key, 0, [Body::Accepted(Box::new(accepted))].into_iter().chain(more));
    append.exclusive_session = false;
    append
}

/// An append to run `key` after record `expected`.
pub fn after(key: RunKey, expected: Seq, bodies: impl IntoIterator<Item = Body>) -> Append {
    let records = (expected + 1..).zip(bodies).map(|(seq, body)| clean(record(seq, body))).collect();
    Append { key, expected, records, exclusive_session: false }
}

/// A record at a time that its sequence gives.
pub fn record(seq: Seq, body: Body) -> Record {
    Record { seq, at: at(i64::try_from(seq).expect("a small number") * 10), body }
}

pub fn clean(record: Record) -> Redacted<Record> {
    static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::new::<&str>([]));
    REDACTOR.clean(record)
}

pub fn admitted() -> Body {
    Body::Admitted { deadline: None, deadline_set: None }
}

pub fn parked() -> Body {
    Body::Parked { wait: Wait::default() }
}

pub fn turn_started(turn: u32) -> Body {
    Body::TurnStarted(TurnStarted { turn, attempt: 1, tools: true, ..TurnStarted::default() })
}

pub fn turn_done(turn: u32, text: &str) -> Body {
    let text = text.into();
    Body::TurnDone(TurnDone { turn, text, ..TurnDone::default() })
}

pub fn usage(turn: u32, tokens: u64) -> Body {
    Body::Usage {
        turn,
        usage: Usage { input_tokens: tokens, output_tokens: 1, ..Usage::default() },
        cost: Some(Cost(10)),
        assumed: false,
    }
}

pub fn switched() -> Body {
    Body::Switched(Box::new(Switched {
        turn: 1,
        attempt: 1,
        from: ModelName::new("script", "scripted"),
        to: ModelName::new("other", "sibling"),
        effort: None,
        error: RunError::new("throttled", "slow down"),
    }))
}

pub fn note(text: &str) -> Body {
    Body::Note { version: 1, value: text.into() }
}

pub fn completed() -> Body {
    Body::Finished(Box::new(Outcome {
        status: Status::Completed,
        stop_reason: Some(StopReason::EndTurn),
        error: None,
        final_text: None,
        usage: Usage::default(),
        cost: None,
        warnings: vec!["a warning".into()],
    }))
}

pub fn failed() -> Body {
    Body::Finished(Box::new(Outcome {
        status: Status::Failed,
        stop_reason: None,
        error: Some(RunError::new("model_refused", "it would not").with_hint("ask again")),
        final_text: None,
        usage: Usage::default(),
        cost: None,
        warnings: Vec::new(),
    }))
}

/// Call `call` of a run waits for `count` children: the record of it.
pub fn waiting(call: Seq, count: u32) -> Body {
    Body::CallWaiting { call, wait: for_children(count) }
}

fn for_children(count: u32) -> Wait {
    Wait::on(Cause::Children { count, collect: Collect::Many })
}

/// Call `call` of `run` waits for `count` children: the change of its waits.
pub fn wait_for_children(run: RunKey, call: Seq, count: u32) -> WaitChange {
    WaitChange::Call { run, call, wait: for_children(count), since: at(1) }
}

/// `run` waits until `until`, as its record `seq` says.
pub fn wait_until(run: RunKey, seq: Seq, until: Timestamp) -> WaitChange {
    WaitChange::Run { run, record: seq, until, since: record(seq, parked()).at }
}

/// The wait of `call` is over.
pub fn end_wait(run: RunKey, call: Seq) -> WaitChange {
    WaitChange::End { run, call }
}

/// The row that these records of one run make.
pub fn fold(records: &[Record]) -> RunView {
    let Body::Accepted(accepted) = &records[0].body else { panic!("a journal begins with an accepted record") };
    let mut view = RunView::accepted(accepted, records[0].at);
    view.apply(Patch::of(&records[1..]));
    view
}

/// The numbers of runs.
pub fn numbers(views: &[RunView]) -> Vec<u64> {
    let number = |view: &RunView| u64::try_from(u128::from_be_bytes(*view.run.as_bytes())).expect("a small number");
    views.iter().map(number).collect()
}
