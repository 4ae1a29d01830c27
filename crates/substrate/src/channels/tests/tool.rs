//! The tool `Channel`: gates, repeats, waits.

use drawloom_contract::{
    ids::{RunId, RunKey},
    tool::{Gates, Step, Tool as _, ToolContext, ToolError, Woken},
    wait::{Cause, Wait},
};
use drawloom_testkit::definition;

use super::*;
use crate::{VolumeTable, channels::tool::ChannelTool};

pub(super) fn context(call: u64, publish: &[&str], subscribe: &[&str]) -> ToolContext {
    let mut definition = definition("worker", "p", "m");
    for (gate, names) in [(PUBLISH_GATE, publish), (SUBSCRIBE_GATE, subscribe)] {
        if !names.is_empty() {
            definition.gates.insert(gate.into(), names.iter().map(|name| (*name).to_owned()).collect());
        }
    }
    ToolContext {
        run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([7; 16]) },
        call,
        root: RunId::from_bytes([7; 16]),
        user: "ann".parse().expect("a user"),
        depth: 0,
        definition: Arc::new(definition),
        hosts: Arc::new([]),
        volumes: Arc::new(VolumeTable::default()),
        redactor: Arc::new(Redactor::new([SECRET])),
        evidence: None,
        woken: None,
        progress: Arc::new(()),
        began: drawloom_contract::time::Timestamp::from_millis(0),
    }
}

async fn call(it: &Setup, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
    ChannelTool(it.channels.clone()).call(context, input).await
}

async fn done(it: &Setup, context: &ToolContext, input: Value) -> Value {
    match call(it, context, input).await.expect("a result") {
        Step::Done(result) => serde_json::from_str(&result.text).expect("JSON"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_gate_that_is_empty_withholds_the_tool_and_one_that_is_narrow_says_what_to_write() {
    let it = setup(json!({ "a": {}, "b": {} }));
    let tool = ChannelTool(it.channels.clone());
    let none = context(1, &[], &[]);
    let withheld = tool.card_for(&tool.card(), Gates { definition: &none.definition, hosts: &[] }).expect_err("empty");
    assert!(withheld.contains("channels: {publish: [NAME], subscribe: [NAME]}"), "{withheld}");
    assert!(matches!(call(&it, &none, json!({ "op": "list_channels" })).await, Err(ToolError::Denied(_))));
    let some = context(1, &["a"], &["b*"]);
    let card = tool.card_for(&tool.card(), Gates { definition: &some.definition, hosts: &[] }).expect("offered");
    assert!(
        card.description.ends_with("This agent can publish to: a\nIt can subscribe to: b*"),
        "{}",
        card.description
    );
    for (op, channel) in [("publish", "b"), ("subscribe", "a"), ("peek", "a"), ("publish", "unknown")] {
        let mut input = json!({ "op": op, "channel": channel });
        if op == "publish" {
            input["value"] = json!(1);
        }
        let Err(ToolError::Denied(message)) = call(&it, &some, input).await else { panic!("{op} {channel}") };
        assert!(message.contains(channel) && message.contains("in the agent's definition"), "{message}");
    }
    let one = context(1, &["a"], &[]);
    let broadcast = call(&it, &one, json!({ "op": "broadcast", "channels": ["a", "b"], "value": 1 })).await;
    assert!(matches!(broadcast, Err(ToolError::Denied(_))));
    assert_eq!(it.values("a").await, Vec::<Value>::new(), "the gate is checked before anything is published");
}

#[tokio::test]
async fn a_call_that_is_made_again_publishes_and_takes_once() {
    let it = setup(json!({ "a": {} }));
    let sender = context(1, &["a"], &["a"]);
    let publish = json!({ "op": "publish", "channel": "a", "payload": { "hop": 1 } });
    let first = done(&it, &sender, publish.clone()).await;
    assert_eq!(done(&it, &sender, publish).await, first);
    it.publish("a", json!("second")).await;
    let reader = context(2, &[], &["a"]);
    let subscribe = json!({ "op": "subscribe", "channel": "a", "max_messages": 1 });
    let read = done(&it, &reader, subscribe.clone()).await;
    assert_eq!((&read["messages"][0]["value"], &read["effective_wait_ms"]), (&json!({ "hop": 1 }), &json!(0)));
    assert_eq!(done(&it, &reader, subscribe.clone()).await, read);
    assert_eq!(it.values("a").await, ["second"]);
    assert_eq!(done(&it, &reader, subscribe).await, read, "also when the channel is empty now");
}

#[tokio::test]
async fn a_subscribe_waits_as_one_call_and_says_how_long() {
    let it = setup(json!({ "a": {} }));
    let reader = context(2, &[], &["a"]);
    let subscribe = json!({ "op": "subscribe", "channel": "a", "wait_ms": 600_000 });
    let Step::Wait(Wait { on, until }) = call(&it, &reader, subscribe.clone()).await.expect("a wait") else {
        panic!("there is nothing yet");
    };
    let (_, place) = it.place("a");
    assert_eq!(on, [Cause::Log { log: place.log(), after: 0 }]);
    assert_eq!(until, Some(Timestamp::from_millis(600_000)), "counted from the call's record");
    // Woken, but another reader was first.
    it.clock.advance(400_000);
    let woken = ToolContext { woken: Some(Woken::ByCause), ..reader.clone() };
    let Step::Wait(again) = call(&it, &woken, subscribe.clone()).await.expect("a wait") else { panic!("nothing") };
    assert_eq!(again.until, until, "the whole wait does not grow");
    let over = ToolContext { woken: Some(Woken::ByTime), ..reader.clone() };
    let empty = done(&it, &over, subscribe.clone()).await;
    assert_eq!((&empty["timed_out"], &empty["effective_wait_ms"]), (&json!(true), &json!(600_000)));
    it.publish("a", json!(1)).await;
    assert_eq!(done(&it, &over, subscribe).await["messages"][0]["value"], 1);
    let long = json!({ "op": "subscribe", "channel": "a", "wait_ms": rules::MOST_WAIT_MS + 1 });
    it.clock.advance(rules::MOST_WAIT_MS);
    let clipped = done(&it, &ToolContext { call: 3, ..over }, long).await;
    assert_eq!(clipped["effective_wait_ms"], rules::MOST_WAIT_MS);
    assert!(clipped["warnings"][0].as_str().is_some_and(|text| text.contains("above the limit")), "{clipped}");
}

#[tokio::test]
async fn an_await_waits_for_the_channels_that_are_missing_and_takes_nothing() {
    let it = setup(json!({ "a": {}, "b": {}, "c": {} }));
    let reader = context(2, &[], &["*"]);
    it.publish("a", json!(1)).await;
    let wait = |mode: Value| {
        let mut input = json!({ "op": "await", "channels": ["a", "b", "c"], "wait_ms": 1_000 });
        input.as_object_mut().expect("an object").extend(mode.as_object().expect("an object").clone());
        input
    };
    let any = done(&it, &reader, wait(json!({}))).await;
    assert_eq!((&any["satisfied"], &any["fired"], &any["total_messages"]), (&json!(true), &json!(["a"]), &json!(1)));
    let Step::Wait(Wait { on, .. }) =
        call(&it, &reader, wait(json!({ "mode": "at_least", "n": 2 }))).await.expect("a wait")
    else {
        panic!("one of two");
    };
    assert_eq!(on.len(), 2, "b and c");
    it.publish("c", json!(3)).await;
    let two = done(&it, &reader, wait(json!({ "mode": "at_least", "n": 2 }))).await;
    assert_eq!(two["fired"], json!(["a", "c"]));
    let over = ToolContext { woken: Some(Woken::ByTime), ..reader.clone() };
    let all = done(&it, &over, wait(json!({ "mode": "all" }))).await;
    assert_eq!((&all["satisfied"], &all["timed_out"]), (&json!(false), &json!(true)));
    let cursor = all["results"]["a"]["next_cursor"].clone();
    let acked = done(&it, &context(3, &[], &["*"]), json!({ "op": "ack", "channel": "a", "cursor": cursor })).await;
    assert_eq!(acked["ok"], true);
    assert_eq!(it.values("a").await, Vec::<Value>::new());
    assert_eq!(it.values("c").await, [3], "nothing was taken before");
}

#[tokio::test]
async fn a_waiting_member_of_a_group_looks_again_when_a_lease_is_over() {
    let it = setup(json!({ "a": { "lease_ms": 1_000 } }));
    it.publish("a", json!(1)).await;
    let subscribe = json!({ "op": "subscribe", "channel": "a", "group": "g", "wait_ms": 60_000 });
    done(&it, &context(1, &[], &["a"]), subscribe.clone()).await;
    let second = context(2, &[], &["a"]);
    let Step::Wait(Wait { on, until }) = call(&it, &second, subscribe.clone()).await.expect("a wait") else {
        panic!("another has it");
    };
    assert_eq!((on.len(), until), (2, Some(Timestamp::from_millis(1_001))));
    it.clock.advance(1_000);
    let woken = ToolContext { woken: Some(Woken::ByTime), ..second };
    let taken = done(&it, &woken, subscribe).await;
    assert_eq!((&taken["messages"][0]["value"], &taken["messages"][0]["attempt"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn fields_that_mean_nothing_for_an_operation_are_refused() {
    let it = setup(json!({ "a": {} }));
    let both = context(1, &["a"], &["a"]);
    for input in [
        json!({ "op": "publish", "channel": "a", "value": 1, "wait_ms": 5 }),
        json!({ "op": "subscribe", "channel": "a", "value": 1 }),
        json!({ "op": "subscribe" }),
        json!({ "op": "publish", "channel": "a" }),
        json!({ "op": "ack", "channel": "a" }),
        json!({ "op": "await", "channel": "a" }),
        json!({ "op": "subscribe", "channel": "a", "max_messages": 101 }),
        json!({ "op": "subscribe", "channel": "a", "consumer": "x" }),
        json!({ "op": "publish", "channel": "a", "value": 1, "deliver_at": "soon" }),
        json!({ "op": "subscribe", "channel": "a", "wait": 5 }),
    ] {
        let refused = call(&it, &both, input.clone()).await;
        assert!(matches!(refused, Err(ToolError::Invalid(_))), "{input}: {refused:?}");
    }
}

#[tokio::test]
async fn list_channels_shows_what_the_gates_allow_and_names_that_mean_nothing() {
    let it = setup(json!({ "a": { "description": "work" }, "b": {} }));
    let listed = done(&it, &context(1, &["a", "gone"], &["b*", "none*"]), json!({ "op": "list_channels" })).await;
    assert_eq!((&listed["publish"][0]["name"], &listed["publish"][0]["description"]), (&json!("a"), &json!("work")));
    assert_eq!(listed["subscribe"][0]["name"], "b");
    assert_eq!(listed["unknown"], json!(["gone", "none*"]));
}

#[tokio::test]
async fn a_member_that_a_lease_wakes_waits_on_until_its_own_time() {
    let it = setup(json!({ "a": { "lease_ms": 1_000 } }));
    let subscribe = json!({ "op": "subscribe", "channel": "a", "group": "g", "wait_ms": 60_000 });
    // The lease that it was woken for was acknowledged: there is none to look at again.
    it.clock.advance(1_001);
    let woken = ToolContext { woken: Some(Woken::ByTime), ..context(1, &[], &["a"]) };
    let Step::Wait(Wait { until, .. }) = call(&it, &woken, subscribe.clone()).await.expect("a wait") else {
        panic!("its time is not over");
    };
    assert_eq!(until, Some(Timestamp::from_millis(60_000)));
    it.clock.advance(58_999);
    assert_eq!(done(&it, &woken, subscribe).await["timed_out"], true);
}

#[tokio::test]
async fn the_gate_is_checked_before_an_extend_says_whether_a_channel_exists() {
    let it = setup(json!({ "a": {} }));
    for channel in ["b", "unknown"] {
        let extend = json!({ "op": "extend", "channel": channel, "group": "g", "leases": ["lse_1_1"] });
        let refused = call(&it, &context(1, &[], &["a"]), extend).await;
        assert!(matches!(refused, Err(ToolError::Denied(_))), "{refused:?}");
    }
}
