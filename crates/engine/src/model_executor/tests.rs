use drawloom_contract::{
    ids::{AgentId, Digest, RunId, SessionId, Tenant, UserId},
    message::Segment,
    record::{Accepted, TurnStarted},
};

use super::*;

fn definition() -> Definition {
    Definition { max_iterations: 4, ..drawloom_testkit::definition("alice", "p", "m") }
}

fn accepted() -> Accepted {
    let run = RunId::from_bytes([1; 16]);
    Accepted {
        version: "0".into(),
        tenant: Tenant::default_tenant(),
        run,
        session: SessionId::from_bytes([2; 16]),
        agent_id: "a".parse::<AgentId>().expect("a name"),
        agent: "alice".parse().expect("a name"),
        definition: Digest::of(b""),
        executor: "model".into(),
        user: UserId::default_user(),
        provider: "p".into(),
        model: "m".into(),
        parent: None,
        root: run,
        depth: 0,
        batch: None,
        retry: None,
        segments: vec![Segment::user("hello")],
        input: None,
        tools: vec![],
        narrowed_tools: None,
        max_iterations: 4,
        budget_tokens: Some(100),
        budget_cost: None,
        models: Default::default(),
        narrowed_hosts: None,
        narrowed_volumes: None,
        part_budgets: Vec::new(),
        deadline: None,
        deadline_set: None,
        run_timeout_ms: None,
        queue_timeout_ms: None,
        parent_context: None,
        metadata: None,
        warnings: vec![],
    }
}

/// The fold of these records after an accepted one, at time 0.
fn fold(bodies: Vec<Body>) -> (Run, Box<dyn Drive>) {
    let at = Timestamp::from_millis(0);
    let first = Record { seq: 1, at, body: Body::Accepted(Box::new(accepted())) };
    let mut run = Run::begin(&first).expect("a beginning");
    let mut drive = ModelExecutor.open(Arc::new(definition()));
    drive.apply(&run, &first);
    for (seq, body) in (2..).zip(bodies) {
        let record = Record { seq, at, body };
        run.apply(&record).expect("a record that follows");
        drive.apply(&run, &record);
    }
    (run, drive)
}

fn failed_once() -> Vec<Body> {
    vec![
        Body::Admitted { deadline: None, deadline_set: None },
        Body::TurnStarted(TurnStarted { turn: 1, attempt: 1, tools: true, ..TurnStarted::default() }),
        Body::TurnFailed(TurnFailed {
            turn: 1,
            attempt: 1,
            error: RunError::new("model_stream_cut", "cut"),
            retry_at: Some(Timestamp::from_millis(5)),
            counted: true,
            maybe_paid: true,
        }),
    ]
}

#[test]
fn a_failed_turn_waits_for_its_time_and_is_tried_again() {
    let (run, drive) = fold(failed_once());
    let until = Timestamp::from_millis(5);
    assert_eq!(drive.decide(&run, Timestamp::from_millis(4)), [Effect::Wait { until }]);
    let effects = drive.decide(&run, until);
    assert!(
        matches!(&effects[..], [Effect::Turn(plan)] if (plan.turn, plan.attempt, plan.tools) == (1, 2, true)),
        "{effects:?}"
    );
}

#[test]
fn a_budget_that_does_not_pay_for_the_next_try_leads_to_a_last_turn_or_to_the_end() {
    let limited = |last_turn| {
        let mut bodies = failed_once();
        bodies.push(Body::LimitReached { limit: Limit::Budget, last_turn });
        let (run, drive) = fold(bodies);
        drive.decide(&run, Timestamp::from_millis(5))
    };
    let effects = limited(true);
    assert!(
        matches!(&effects[..], [Effect::Turn(plan)] if (plan.turn, plan.attempt, plan.tools) == (1, 2, false)),
        "{effects:?}"
    );
    let effects = limited(false);
    assert!(
        matches!(&effects[..], [Effect::Finish(outcome)] if outcome.error.as_ref().is_some_and(|e| e.code == "budget_exhausted")),
        "{effects:?}"
    );
}

/// How many calls are planned in all while a turn of `count` calls is worked off, eight at a time.
fn plans(count: u32) -> usize {
    let call = |index: u32| ToolUse { id: format!("c{index}"), name: "T".into(), input: serde_json::Value::Null };
    let started = TurnStarted { turn: 1, attempt: 1, tools: true, ..TurnStarted::default() };
    let done = TurnDone { turn: 1, calls: (0..count).map(call).collect(), ..TurnDone::default() };
    let (mut run, mut drive) = fold(vec![
        Body::Admitted { deadline: None, deadline_set: None },
        Body::TurnStarted(started),
        Body::TurnDone(done),
    ]);
    let (mut planned, mut open) = (0, std::collections::VecDeque::new());
    let apply = |run: &mut Run, drive: &mut dyn Drive, body: Body| {
        let record = Record { seq: run.view.seq + 1, at: Timestamp::from_millis(0), body };
        run.apply(&record).expect("a record that follows");
        drive.apply(run, &record);
        record.seq
    };
    loop {
        let effects = drive.decide(&run, Timestamp::from_millis(0));
        planned += effects.len();
        let mut is_turn = false;
        for effect in effects {
            match effect {
                Effect::Call(CallPlan { turn, index, tool_use, masked, .. }) if open.len() < 8 => {
                    let repeat = drawloom_contract::record::RepeatClass::Safe;
                    let started = drawloom_contract::record::CallStarted {
                        turn,
                        index,
                        tool_use,
                        repeat,
                        evidence: None,
                        conditions: None,
                        by_executor: false,
                        reserved_cost: None,
                        masked,
                    };
                    open.push_back(apply(&mut run, &mut *drive, Body::CallStarted(started)));
                }
                Effect::Call(_) => {}
                _ => is_turn = true,
            }
        }
        if is_turn {
            return planned;
        }
        let call = open.pop_front().expect("something is open until all have ended");
        let done = drawloom_contract::record::CallDone {
            call,
            text: "ok".into(),
            is_error: false,
            in_doubt: false,
            cost: None,
            usage: drawloom_contract::usage::Usage::default(),
        };
        apply(&mut run, &mut *drive, Body::CallDone(done));
    }
}

#[test]
fn the_work_of_a_turn_grows_with_its_calls_and_not_with_their_square() {
    let (few, many) = (plans(500), plans(2_000));
    assert!(few >= 500 && many >= 2_000, "each call is planned: {few}, {many}");
    assert!(many <= few * 5, "{few} plans for 500 calls, {many} for 2000");
}
