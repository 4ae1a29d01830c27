use std::sync::Arc;

use drawloom_contract::{
    activity::{Activity, RunActivity},
    choice::ModelName,
    failure::RunError,
    ids::{Digest, RunId, SessionId, Tenant, UserId},
    message::{Segment, Thought, ToolUse},
    model::DeltaKind,
    money::Cost,
    record::{
        Accepted, Body, CallDone, CallStarted, Notice, Outcome, Record, RepeatClass, Resumed, Status, StopReason,
        Switched, TurnDone, TurnFailed, TurnStarted,
    },
    runs::{Delta, Item},
    time::Timestamp,
    usage::Usage,
    view::{Patch, RunView},
    wait::Wait,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn accepted() -> Accepted {
    Accepted {
        version: "0".into(),
        tenant: Tenant::default_tenant(),
        run: RunId::from_bytes([1; 16]),
        session: SessionId::from_bytes([2; 16]),
        agent_id: "mine".parse().expect("an agent id"),
        agent: "reader".parse().expect("an agent"),
        definition: Digest::of(b""),
        executor: "model".into(),
        user: UserId::default_user(),
        provider: "script".into(),
        model: "m".into(),
        parent: None,
        root: RunId::from_bytes([1; 16]),
        depth: 0,
        batch: None,
        retry: None,
        segments: vec![Segment::user("hello")],
        input: None,
        tools: Vec::new(),
        narrowed_tools: None,
        max_iterations: 5,
        budget_tokens: None,
        budget_cost: None,
        models: Default::default(),
        narrowed_hosts: None,
        narrowed_volumes: None,
        part_budgets: Vec::new(),
        deadline: None,
        deadline_set: None,
        run_timeout_ms: None,
        queue_timeout_ms: None,
        parent_context: Some(json!({"root": 1})),
        metadata: None,
        warnings: Vec::new(),
    }
}

/// A run that retries a turn, calls a tool that is in doubt, parks, is taken up again and completes.
fn history() -> (RunView, Vec<Item>) {
    let accepted = accepted();
    let first = RunView::accepted(&accepted, Timestamp::from_millis(1_010));
    let usage = Usage { input_tokens: 3, output_tokens: 4, ..Usage::default() };
    let call = ToolUse { id: "toolu_1".into(), name: "Read".into(), input: json!({"path": "a"}) };
    let delta = |turn, offset, text: &str| {
        Item::Delta(Delta { kind: DeltaKind::Text, turn, attempt: 1, offset, text: text.into() })
    };
    let mut items = Vec::new();
    let mut view = first.clone();
    let mut seq = 0;
    let mut record = |items: &mut Vec<Item>, body| {
        seq += 1;
        let record = Record { seq, at: Timestamp::from_millis(1_000 + i64::try_from(seq).expect("small") * 10), body };
        if seq > 1 {
            view.apply(Patch::of([&record]));
        }
        items.push(Item::Record(Arc::new(record)));
    };
    record(&mut items, Body::Accepted(Box::new(accepted)));
    record(&mut items, Body::Admitted { deadline: None, deadline_set: None });
    record(&mut items, Body::TurnStarted(TurnStarted { turn: 1, attempt: 1, tools: true, ..TurnStarted::default() }));
    items.push(delta(1, 0, "wrong "));
    let failed = TurnFailed {
        turn: 1,
        attempt: 1,
        error: RunError::new("stream_dropped", "the stream broke"),
        retry_at: Some(Timestamp::from_millis(1_045)),
        counted: true,
        maybe_paid: true,
    };
    record(&mut items, Body::TurnFailed(failed));
    record(&mut items, Body::TurnStarted(TurnStarted { turn: 1, attempt: 2, tools: true, ..TurnStarted::default() }));
    items.push(delta(1, 0, "Lo"));
    items.push(delta(1, 2, "oking ü"));
    let done = TurnDone {
        masked: vec![],
        turn: 1,
        text: "Looking ü".into(),
        thoughts: vec![Thought::plain("hm")],
        thinking: String::new(),
        calls: vec![call.clone()],
        stop_reason: StopReason::ToolUse,
    };
    record(&mut items, Body::TurnDone(done));
    record(&mut items, Body::Usage { turn: 1, usage, cost: Some(Cost(1_500_000)), assumed: false });
    let started = CallStarted {
        turn: 1,
        index: 0,
        by_executor: false,
        reserved_cost: None,
        tool_use: call,
        repeat: RepeatClass::Never,
        evidence: None,
        conditions: None,
        masked: false,
    };
    record(&mut items, Body::CallStarted(started));
    record(&mut items, Body::Parked { wait: Wait::until(Timestamp::from_millis(2_000)) });
    record(&mut items, Body::Resumed(Resumed { epoch: 2, version: "0".into(), strikes: 0, trial: None }));
    record(&mut items, Body::Admitted { deadline: None, deadline_set: None });
    record(
        &mut items,
        Body::CallDone(CallDone {
            call: 8,
            text: "nobody knows".into(),
            is_error: true,
            in_doubt: true,
            cost: None,
            usage: Usage::default(),
        }),
    );
    record(&mut items, Body::TurnStarted(TurnStarted { turn: 2, attempt: 1, tools: true, ..TurnStarted::default() }));
    let error = RunError::new("throttled", "slow down");
    let [from, to] = [ModelName::new("script", "scripted"), ModelName::new("spare", "sibling")];
    let failed =
        TurnFailed { turn: 2, attempt: 1, error: error.clone(), retry_at: None, counted: false, maybe_paid: false };
    record(&mut items, Body::TurnFailed(failed));
    let switched = Switched { turn: 2, attempt: 1, from, to, effort: None, error };
    record(&mut items, Body::Switched(Box::new(switched)));
    let text = "the reasoning of 1 turn is not replayed".into();
    record(&mut items, Body::Notice { notice: Notice::ReasoningInvalidated, text });
    record(&mut items, Body::TurnStarted(TurnStarted { turn: 2, attempt: 2, tools: true, ..TurnStarted::default() }));
    items.push(delta(2, 0, "Done."));
    let done = TurnDone { masked: vec![], turn: 2, text: "Done.".into(), ..TurnDone::default() };
    record(&mut items, Body::TurnDone(done));
    record(&mut items, Body::Usage { turn: 2, usage, cost: None, assumed: false });
    let outcome = Outcome {
        status: Status::Completed,
        stop_reason: Some(StopReason::EndTurn),
        error: None,
        final_text: None,
        usage,
        cost: Some(Cost(1_500_000)),
        warnings: vec!["careful".into()],
    };
    record(&mut items, Body::Finished(Box::new(outcome)));
    items.push(Item::Ended(Arc::new(view)));
    (first, items)
}

fn events_of(view: &RunView, items: &[Item]) -> Vec<Event> {
    let mut mapper = Mapper::new(view);
    items.iter().filter_map(|item| mapper.map(item)).collect()
}

#[test]
fn a_history_becomes_these_events() {
    let (view, items) = history();
    let mut text = Vec::new();
    let mut mapper = Mapper::new(&view);
    for event in mapper.greet(&view).into_iter().chain(items.iter().filter_map(|item| mapper.map(item))) {
        event.encode(&mut text);
    }
    insta::assert_snapshot!(String::from_utf8(text).expect("events are text"));
}

#[test]
fn a_stream_without_a_greeting_shows_the_same_agent_event() {
    let (view, items) = history();
    let [_, greeted] = Mapper::new(&view).greet(&view);
    assert_eq!(events_of(&view, &items)[0], greeted);
}

#[test]
fn a_run_that_did_not_complete_ends_with_error_and_nothing_follows() {
    let (mut view, _) = history();
    view.status = Status::TimedOut;
    view.error = Some(RunError::new("queue_timeout", "too long"));
    let mut mapper = Mapper::new(&view);
    let ended = Item::Ended(Arc::new(view.clone()));
    let event = mapper.map(&ended).expect("the end is an event");
    assert_eq!((&*event.name, event.id), ("error", Some(1)));
    assert_eq!(event.json()["status"], "timed_out");
    assert_eq!(event.json()["error"]["code"], "queue_timeout");
    assert_eq!(mapper.map(&ended), None);
    assert!(event.is_terminal());
}

#[test]
fn a_result_whose_call_was_not_seen_says_what_is_known() {
    let (view, _) = history();
    let done =
        CallDone { call: 8, text: "t".into(), is_error: false, in_doubt: false, cost: None, usage: Usage::default() };
    let record = Record { seq: 9, at: Timestamp::from_millis(0), body: Body::CallDone(done) };
    let event = Mapper::new(&view).map(&Item::Record(Arc::new(record))).expect("a result is an event");
    assert_eq!(
        event.json(),
        json!({"type": "tool_result", "text": "t", "is_error": false, "call": 8, "at": "1970-01-01T00:00:00.000Z"})
    );
}

fn parse(pieces: &[&[u8]]) -> Vec<Event> {
    let (mut parser, mut events) = (Parser::new(), Vec::new());
    for piece in pieces {
        parser.feed(piece, &mut events).expect("frames are short");
    }
    events
}

#[test]
fn the_parser_takes_every_form_that_the_standard_allows() {
    let text = "\u{feff}: hello\r\n\r\nevent: a\rdata: 1\r\rdata:2\r\nid: 7\r\ndata: 3\r\n\r\n: x\n\nid: x\nevent: b\ndata\n\nevent: lost\n\ndata: cut off";
    let event = |name: &'static str, id, data: &str| Event { name: name.into(), id, data: data.into() };
    assert_eq!(
        parse(&[text.trim_start_matches('\u{feff}').as_bytes()]),
        [event("a", None, "1"), event("message", Some(7), "2\n3"), event("b", None, "")]
    );
}

#[test]
fn the_rebuilder_follows_a_retried_turn_to_the_final_text() {
    let (view, items) = history();
    let mut rebuilder = Rebuilder::new();
    let mut shown = Vec::new();
    for event in events_of(&view, &items) {
        rebuilder.apply(&event);
        if matches!(&*event.name, "text" | "turn_reset" | "message") {
            shown.push(rebuilder.text().to_owned());
        }
    }
    assert_eq!(shown, ["wrong ", "", "Lo", "Looking ü", "Looking ü", "", "Done.", "Done."]);
    assert_eq!(rebuilder.final_text(), Some("Done."));
}

#[test]
fn pieces_that_went_by_unheard_are_a_gap_until_the_whole_turn_comes() {
    let event = |name: &'static str, data: Value| Event { name: name.into(), id: None, data: data.to_string() };
    let mut rebuilder = Rebuilder::new();
    rebuilder.apply(&event("text", json!({"turn": 1, "offset": 5, "text": "later"})));
    assert!(rebuilder.has_gap());
    rebuilder.apply(&event("message", json!({"turn": 1, "text": "whole later"})));
    assert!(!rebuilder.has_gap());
    assert_eq!(rebuilder.final_text(), Some("whole later"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn events_come_out_the_same_however_their_bytes_were_cut(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20), returns in any::<bool>()) {
        let (view, items) = history();
        let events = events_of(&view, &items);
        let mut bytes = Vec::new();
        for event in &events {
            event.encode(&mut bytes);
            bytes.extend_from_slice(KEEP_ALIVE);
        }
        if returns {
            bytes = String::from_utf8(bytes).expect("text").replace('\n', "\r\n").into_bytes();
        }
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for place in places {
            pieces.push(&bytes[from..place]);
            from = place;
        }
        pieces.push(&bytes[from..]);
        prop_assert_eq!(parse(&pieces), events);
    }

    #[test]
    fn a_client_cut_off_at_any_byte_sees_each_record_once_and_rebuilds_the_text(cut in any::<prop::sample::Index>()) {
        let (view, items) = history();
        let all = events_of(&view, &items);
        let mut bytes = Vec::new();
        all.iter().for_each(|event| event.encode(&mut bytes));
        let mut seen = parse(&[&bytes[..cut.index(bytes.len())]]);
        let last = seen.iter().rev().find_map(|event| event.id).unwrap_or(0);
        seen.extend(all.iter().filter(|event| event.id.is_some_and(|id| id > last)).cloned());
        let ids: Vec<_> = seen.iter().filter_map(|event| event.id).collect();
        let wanted: Vec<_> = all.iter().filter_map(|event| event.id).collect();
        prop_assert_eq!(ids, wanted);
        let mut rebuilder = Rebuilder::new();
        seen.iter().for_each(|event| rebuilder.apply(event));
        prop_assert_eq!(rebuilder.final_text(), Some("Done."));
    }

    #[test]
    fn any_bytes_are_parsed_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut rebuilder = Rebuilder::new();
        parse(&[&bytes]).iter().for_each(|event| rebuilder.apply(event));
    }
}

/// The list that the reference page is made from knows every event that a run can show, and every field of it.
#[test]
fn the_list_of_events_is_whole_and_names_every_field() {
    let (view, items) = history();
    let mut mapper = Mapper::new(&view);
    let mut events: Vec<Event> = mapper.greet(&view).into();
    events.extend(items.iter().filter_map(|item| mapper.map(item)));
    let thought = Delta { kind: DeltaKind::Thinking, turn: 1, attempt: 1, offset: 0, text: "hm".into() };
    events.extend(Mapper::new(&view).map(&Item::Delta(thought)));
    let activity = Activity { tool: "Edit".into(), detail: "a.txt".into(), tokens: 7, cost: Some(Cost(5)) };
    let now = RunActivity { run: view.run, call: 5, context: None, activity };
    events.extend(Mapper::new(&view).map(&Item::Activity(Arc::new(now))));
    let mut failed = view.clone();
    failed.status = Status::Failed;
    events.extend(Mapper::new(&view).map(&Item::Ended(Arc::new(failed))));
    for notice in Notice::ALL.iter().copied() {
        let body = Body::Notice { notice, text: "so it is".into() };
        let record = Record { seq: 9, at: Timestamp::from_millis(1), body };
        events.extend(Mapper::new(&view).map(&Item::Record(Arc::new(record))));
    }
    events.push(super::tree_done(view.run));
    let mut seen = Vec::new();
    for event in &events {
        let card = EVENTS.iter().find(|card| card.name == event.name).unwrap_or_else(|| panic!("{}", event.name));
        assert_eq!(card.has_id, event.id.is_some(), "{}", event.name);
        for key in event.json().as_object().expect("an object").keys().filter(|key| *key != "type") {
            assert!(card.fields.iter().any(|field| field.name == key), "{} has {key}", event.name);
        }
        seen.push(card.name);
    }
    for card in EVENTS {
        assert!(seen.contains(&card.name), "no run shows {}", card.name);
    }
}

#[test]
fn an_event_of_a_tree_says_which_run_and_agent_it_is_about() {
    let (view, items) = history();
    let mut mapper = Mapper::default();
    for item in &items {
        let Some(event) = mapper.map(item) else { continue };
        let has_id = event.id.is_some();
        let placed = super::placed(event, view.run, &view.agent, 77);
        let data = placed.json();
        assert_eq!((&data["run_id"], &data["agent"]), (&view.run.to_string().into(), &view.agent.as_str().into()));
        assert_eq!(placed.id, has_id.then_some(77));
        if placed.name == "agent" {
            let asked = super::with_prompt(placed.clone(), &[Segment::user(format!("\"{}", "é".repeat(150)))]);
            assert_eq!(asked.json()["prompt"], format!("\"{}", "é".repeat(99)), "a character is never cut in two");
            assert_eq!(super::with_prompt(placed.clone(), &[]), placed);
        }
        assert_eq!(placed.data.matches("\"run_id\"").count(), 1, "{}", placed.data);
    }
}
