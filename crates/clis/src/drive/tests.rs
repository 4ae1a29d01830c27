//! What a run on a CLI decides, record by record.

use drawloom_contract::{
    money::Cost,
    record::{CallStarted, RepeatClass, Seq},
};
use drawloom_testkit::{definition, suites::records::accepted};
use serde_json::Value;

use super::*;

/// A run and its drive.
struct Story {
    run: Run,
    drive: CliDrive,
    now: Timestamp,
}

impl Story {
    fn new(input: Value) -> Self {
        let mut definition = definition("worker", "claude_code", "opus");
        (definition.executor, definition.retry_attempts) = ("cli".into(), 2);
        definition.system_prompt = "You weave.".into();
        let mut accepted = accepted(1);
        accepted.input = Some(input).filter(|input| !input.is_null());
        let now = Timestamp::from_millis(1_000_000);
        let first = Record { seq: 1, at: now, body: Body::Accepted(Box::new(accepted)) };
        let run = Run::begin(&first).expect("a beginning");
        let mut drive = CliDrive::new(Arc::new(definition), Callers::Known);
        drive.apply(&run, &first);
        let mut story = Self { run, drive, now };
        story.push(Body::Admitted { deadline: None, deadline_set: None });
        story
    }

    fn push(&mut self, body: Body) -> Seq {
        let record = Record { seq: self.run.view.seq + 1, at: self.now, body };
        self.run.apply(&record).expect("it follows");
        self.drive.apply(&self.run, &record);
        record.seq
    }

    fn decide(&self) -> Effect {
        let mut effects = self.drive.decide(&self.run, self.now);
        assert_eq!(effects.len(), 1, "{effects:?}");
        effects.remove(0)
    }

    /// Begins the call that is decided; gives its input.
    fn begin(&mut self) -> (Seq, CallInput) {
        let Effect::Call(plan) = self.decide() else { panic!("{:?}", self.decide()) };
        assert_eq!((plan.asked_by, plan.tool_use.name.as_str()), (AskedBy::Executor, "cli_run"));
        let input = serde_json::from_value(plan.tool_use.input.clone()).expect("an input");
        let call = self.push(Body::CallStarted(CallStarted {
            turn: plan.turn,
            index: plan.index,
            tool_use: plan.tool_use,
            repeat: RepeatClass::Never,
            evidence: None,
            conditions: None,
            masked: false,
            by_executor: true,
            reserved_cost: None,
        }));
        assert_eq!(self.drive.decide(&self.run, self.now), [], "nothing while the call is open");
        (call, input)
    }

    fn end(&mut self, call: Seq, text: String, is_error: bool, in_doubt: bool) {
        let cost = Some(Cost(5));
        self.push(Body::CallDone(CallDone { call, text, is_error, in_doubt, cost, usage: Default::default() }));
    }

    fn reply(&mut self, reply: &Reply) {
        let (call, _) = self.begin();
        self.end(call, serde_json::to_string(reply).expect("JSON"), false, false);
    }

    fn outcome(&self) -> Outcome {
        match self.decide() {
            Effect::Finish(outcome) => *outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Passes the wait that is decided; how many seconds it is.
    fn wait(&mut self) -> u64 {
        let Effect::Wait { until } = self.decide() else { panic!("{:?}", self.decide()) };
        let seconds = until.since(self.now).as_secs();
        self.now = until;
        seconds
    }
}

fn problem(kind: ProblemKind) -> Reply {
    Reply::failed(kind, "the reason")
}

#[test]
fn a_run_is_one_call_and_its_answer_the_result() {
    let mut story = Story::new(json!({ "mode": "edit", "system": "Be brief.", "schema": { "type": "object" } }));
    let (call, input) = story.begin();
    assert_eq!(input.system, "You weave.\n\nBe brief.");
    assert_eq!((input.mode, input.schema), (Some(crate::input::Mode::Edit), Some(json!({ "type": "object" }))));
    assert_eq!(input.session, SessionPlan::New { new: sessions::derived_id(story.run.accepted.run, 0) });
    let reply = Reply { text: "Done.".into(), permission_denials: vec!["Bash rm".into()], ..Reply::default() };
    story.end(call, serde_json::to_string(&reply).expect("JSON"), false, false);
    let outcome = story.outcome();
    assert_eq!((outcome.status, outcome.final_text.as_deref()), (Status::Completed, Some("Done.")));
    assert_eq!((outcome.cost, outcome.error), (Some(Cost(5)), None));
    assert_eq!(outcome.warnings, ["the CLI refused a tool call: Bash rm"]);
}

#[test]
fn an_input_that_is_not_valid_ends_the_run_before_any_call() {
    let error = Story::new(json!({ "cwd": "/" })).outcome().error.expect("an error");
    assert_eq!(error.code, "invalid_input");
    assert!(error.message.contains("unknown field `cwd`"), "{}", error.message);
}

#[test]
fn a_call_that_was_in_flight_when_the_server_ended_is_noted_and_continued() {
    let mut story = Story::new(Value::Null);
    let (call, _) = story.begin();
    story.end(call, "in doubt".into(), true, true);
    let Effect::Note { version, value } = story.decide() else { panic!("a note comes first") };
    assert_eq!((version, &value["maybe_paid_twice"]), (1, &json!(1)));
    story.push(Body::Note { version, value });
    let (call, input) = story.begin();
    assert_eq!(input.session, SessionPlan::Own { new: sessions::derived_id(story.run.accepted.run, 1) });
    story.end(call, "in doubt".into(), true, true);
    assert!(matches!(story.decide(), Effect::Note { .. }), "each time");
}

#[test]
fn a_rate_limit_is_waited_out_until_the_time_that_the_cli_says() {
    let mut story = Story::new(Value::Null);
    let until = story.now.after(Duration::from_secs(3600));
    let limited = Problem { until: Some(until), ..Problem::new(ProblemKind::RateLimited, "limited") };
    story.reply(&Reply { problem: Some(limited), ..Reply::default() });
    assert_eq!(story.wait(), 3600);
    let (_, input) = story.begin();
    assert!(matches!(input.session, SessionPlan::Own { .. }), "the session goes on");
    let mut story = Story::new(Value::Null);
    let later = story.now.after(Duration::from_secs(3 * 24 * 3600));
    let limited = Problem { until: Some(later), ..Problem::new(ProblemKind::RateLimited, "limited for days") };
    story.reply(&Reply { problem: Some(limited), ..Reply::default() });
    assert_eq!(story.outcome().error.map(|error| error.code), Some("rate_limited".into()));
}

#[test]
fn a_rate_limit_without_a_time_is_tried_again_later_and_later() {
    let mut story = Story::new(Value::Null);
    let mut waits = Vec::new();
    for _ in 0..7 {
        story.reply(&problem(ProblemKind::RateLimited));
        waits.push(story.wait());
    }
    assert_eq!(waits, [30, 60, 120, 240, 480, 900, 900]);
}

#[test]
fn a_failure_that_may_pass_is_tried_again_as_often_as_the_agent_says() {
    let mut story = Story::new(Value::Null);
    story.reply(&problem(ProblemKind::Overloaded));
    assert_eq!(story.wait(), 5);
    story.reply(&problem(ProblemKind::Crashed));
    assert_eq!(story.wait(), 10);
    story.reply(&Reply { text: "half".into(), ..problem(ProblemKind::Crashed) });
    let outcome = story.outcome();
    let error = outcome.error.expect("an error");
    assert_eq!((error.code.as_str(), error.message.as_str()), ("crashed", "the reason"));
    assert_eq!(outcome.final_text.as_deref(), Some("half"));
}

#[test]
fn a_failure_that_stays_ends_the_run_with_its_name() {
    use ProblemKind::{BadOutput, Budget, MaxTurns, NotInstalled, NotLoggedIn, PermissionDenied, TimedOut};
    for kind in [NotInstalled, NotLoggedIn, PermissionDenied, Budget, MaxTurns, BadOutput, TimedOut] {
        let mut story = Story::new(Value::Null);
        story.reply(&problem(kind));
        let outcome = story.outcome();
        assert_eq!((outcome.status, outcome.error.map(|error| error.code)), (Status::Failed, Some(kind.code().into())));
    }
}

#[test]
fn a_session_that_is_gone_is_replaced_by_a_new_one_that_is_told_so() {
    let other = drawloom_contract::ids::RunId::from_bytes([9; 16]);
    let mut story = Story::new(json!({ "continue_run": other }));
    let (call, input) = story.begin();
    assert!(matches!(input.session, SessionPlan::Of { run, .. } if run == other));
    story.end(call, serde_json::to_string(&problem(ProblemKind::SessionLost)).expect("JSON"), false, false);
    let (_, input) = story.begin();
    assert!(matches!(input.session, SessionPlan::Fresh { .. }));
}

#[test]
fn a_refused_call_gives_its_code_to_the_run() {
    let mut story = Story::new(Value::Null);
    let (call, _) = story.begin();
    story.end(call, "not_isolated: the mode skip_permissions needs an isolated checkout".into(), true, false);
    let error = story.outcome().error.expect("an error");
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("not_isolated", "the mode skip_permissions needs an isolated checkout")
    );
}

#[test]
fn a_server_that_anyone_can_call_ends_its_runs_before_a_cli_starts() {
    let mut story = Story::new(Value::Null);
    story.drive.callers = Callers::Anyone;
    let Effect::Finish(outcome) = story.decide() else { panic!("{:?}", story.decide()) };
    let error = outcome.error.expect("an error");
    assert_eq!((outcome.status, error.code.as_str()), (Status::Failed, "cli_without_token"));
    assert!(error.message.contains("set DRAWLOOM_TOKEN"), "{}", error.message);
}
