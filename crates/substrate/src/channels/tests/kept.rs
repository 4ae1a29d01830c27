//! Messages go only with a channel that was deleted: not with a changed dead-letter channel, nor with a config file that lacks a channel.

use drawloom_contract::definition::DefinitionKind;

use super::{super::deferred::Delivery, *};
use crate::definitions::{Fork, Promote, rules};

fn config(value: Value) -> ChannelConfig {
    serde_json::from_value(value).expect("a channel")
}

fn warnings(answer: &Value) -> String {
    answer["warnings"].to_string()
}

async fn messages(it: &Setup, name: &str) -> u64 {
    it.channels.count(&Tenant::default_tenant(), name).await.expect("a store").messages
}

async fn defer(it: &Setup, name: &str) -> ValueKey {
    let (ann, (channel, place)) = (caller("ann"), it.place(name));
    let later = Publish { deliver_after_ms: Some(10), ..message(json!("late")) };
    it.channels.publish(&channel, &place, &later, &by(&ann, None), 0).await.expect("deferred");
    let range = place::range_of(place.tenant(), place::DEFERRED, &place.name());
    it.store.list_values(&range, None, 1, it.clock.wall()).await.expect("values").pop().expect("one").0
}

/// A channel one of whose messages is in `dl.dead`.
async fn with_a_dead_letter() -> Setup {
    let (it, ann) = (setup(json!({})), caller("ann"));
    it.create("dl", config(json!({ "lease_ms": 100, "max_attempts": 1 })), &by(&ann, None)).await.expect("made");
    it.publish("dl", json!("x")).await;
    let member = Subscribe { group: Some("g".into()), ..ask(1) };
    it.take("dl", &member, &by(&ann, None)).await.expect("taken");
    it.clock.advance(200);
    it.take("dl", &member, &by(&ann, None)).await.expect("buried");
    assert_eq!(messages(&it, "dl.dead").await, 1);
    it
}

#[tokio::test]
async fn a_changed_dead_letter_channel_hides_nothing_silently_and_its_messages_are_found_again() {
    let (it, ann) = (with_a_dead_letter().await, caller("ann"));
    let changed = it.update("dl", |config| config.dead_letter = Some("graves".into()), &by(&ann, None)).await;
    let changed = warnings(&changed.expect("changed"));
    assert!(changed.contains("\\\"dl.dead\\\" has 1 message,") && changed.contains("create_channel"), "{changed}");
    let made = it.create("dl.dead", config(json!({})), &by(&ann, None)).await.expect("made");
    assert_eq!(made["message_count"], 1);
    assert!(warnings(&made).contains("1 message from before"), "{made}");
    assert_eq!(it.values("dl.dead").await[0]["value"], "x");
}

#[tokio::test]
async fn a_promoted_version_with_another_dead_letter_channel_says_what_is_in_the_earlier_one() {
    let (it, ann) = (with_a_dead_letter().await, caller("ann"));
    let maker = maker(&by(&ann, None));
    let fork = Fork {
        kind: DefinitionKind::Channel,
        from: "dl".into(),
        name: None,
        changes: json!({ "dead_letter": "graves" }),
        description: None,
        promote: rules::Promote::No,
    };
    let forked = it.definitions.fork(fork, &maker).await.expect("forked");
    assert_eq!(forked["warnings"], json!([]), "it is not active yet");
    let promote = Promote { kind: DefinitionKind::Channel, name: "dl".into(), version: 2 };
    let promoted = warnings(&it.definitions.promote(promote, &maker).await.expect("promoted"));
    assert!(promoted.contains("\\\"dl.dead\\\" has 1 message,"), "{promoted}");
    // Another channel that names it keeps what is in it, and so does the deletion of that one: version 1 of dl names it too.
    let other = it.create("other", config(json!({ "dead_letter": "dl.dead" })), &by(&ann, None)).await.expect("made");
    assert!(warnings(&other).contains("has 1 message from before"), "{other}");
    let deleted = it.delete("other", &by(&ann, None)).await.expect("deleted");
    assert_eq!((&deleted["warnings"], messages(&it, "dl.dead").await), (&Value::Null, 1));
    let promote = Promote { kind: DefinitionKind::Channel, name: "dl".into(), version: 1 };
    let back = it.definitions.promote(promote, &maker).await.expect("promoted");
    assert!(!warnings(&back).contains("graves"), "there is nothing in it: {back}");
    assert_eq!(it.values("dl.dead").await.len(), 1);
    let deleted = it.delete("dl", &by(&ann, None)).await.expect("deleted");
    assert!(warnings(&deleted).contains("\\\"dl.dead\\\" was deleted too, with 1 message"), "{deleted}");
    assert_eq!(messages(&it, "dl.dead").await, 0);
}

#[tokio::test]
async fn a_channel_that_left_the_config_keeps_its_messages_when_it_is_made_at_runtime() {
    let (it, ann) = (setup(json!({ "jobs": {} })), caller("ann"));
    for number in 1..=3 {
        it.publish("jobs", json!(number)).await;
    }
    let key = defer(&it, "jobs").await;
    let it = it.restarted(json!({})).await;
    it.clock.advance(20);
    assert_eq!(it.channels.deliver(&key).await, Ok(Delivery::Parked { channel: "jobs".into() }));
    assert_eq!(it.channels.has_deferred().await, Ok(false), "a server has nothing to do for it");
    let scoped = it.create("jobs", config(json!({ "scope": "user" })), &by(&ann, None)).await.expect_err("unreadable");
    assert_eq!(scoped.code(), "channel_scope_invalid", "{scoped}");
    let made = it.create("jobs", config(json!({})), &by(&ann, None)).await.expect("made");
    assert!(warnings(&made).contains("3 messages and 1 deferred message from before"), "{made}");
    assert_eq!(it.channels.deliver(&key).await, Ok(Delivery::Done));
    assert_eq!(it.values("jobs").await, [json!(1), json!(2), json!(3), json!("late")]);
}

#[tokio::test]
async fn a_due_message_waits_while_the_config_lacks_its_channel() {
    let it = setup(json!({ "jobs": {} }));
    let key = defer(&it, "jobs").await;
    let without = it.restarted(json!({})).await;
    let task = tokio::spawn(without.channels.clone().deliver_deferred());
    without.clock.advance(20);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(without.store.find_value(&key, without.clock.wall()).await.expect("a store").is_some());
    let (ann, mut listener) = (caller("ann"), without.channels.listen([&it.place("jobs").1]));
    without.create("jobs", config(json!({})), &by(&ann, None)).await.expect("made");
    without.clock.advance(20_000);
    listener.changed().await;
    while without.store.find_value(&key, without.clock.wall()).await.expect("a store").is_some() {
        tokio::task::yield_now().await;
    }
    assert_eq!(without.values("jobs").await, ["late"]);
    task.abort();
}

#[tokio::test]
async fn what_a_deletion_left_is_removed_also_after_a_crash_and_nothing_of_a_later_channel_is() {
    let (it, ann) = (setup(json!({})), caller("ann"));
    it.create("ch", config(json!({})), &by(&ann, None)).await.expect("made");
    let (channel, place) = it.place("ch");
    it.delete("ch", &by(&ann, None)).await.expect("deleted");
    // A publish that began before the deletion ends after it.
    it.channels.publish(&channel, &place, &message(json!("old")), &by(&ann, None), 0).await.expect("published");
    let later = Publish { deliver_after_ms: Some(10), ..message(json!("late")) };
    it.channels.publish(&channel, &place, &later, &by(&ann, None), 0).await.expect("deferred");
    let range = place::range_of(place.tenant(), place::DEFERRED, &place.name());
    let (key, _) = it.store.list_values(&range, None, 1, it.clock.wall()).await.expect("values").pop().expect("one");
    assert_eq!(it.channels.deliver(&key).await, Ok(Delivery::Done), "it was deleted, so the message goes");
    let crashed = it.restarted(json!({})).await;
    assert_eq!(messages(&crashed, "ch").await, 0);
    it.channels.publish(&channel, &place, &message(json!("old")), &by(&ann, None), 0).await.expect("published");
    let made = crashed.create("ch", config(json!({})), &by(&ann, None)).await.expect("made");
    assert_eq!((&made["message_count"], &made["warnings"]), (&json!(0), &Value::Null));
    crashed.publish("ch", json!("new")).await;
    assert_eq!(crashed.restarted(json!({})).await.values("ch").await, ["new"], "the deletion is forgotten");
}

#[tokio::test]
async fn a_changed_semantic_says_that_messages_are_delivered_again() {
    let (it, ann) = (setup(json!({})), caller("ann"));
    it.create("ch", config(json!({})), &by(&ann, None)).await.expect("made");
    let broadcast = |config: &mut ChannelConfig| config.semantic = Semantic::Broadcast;
    let queue = |config: &mut ChannelConfig| config.semantic = Semantic::Queue;
    let empty = it.update("ch", broadcast, &by(&ann, None)).await.expect("changed");
    assert_eq!(empty["warnings"], Value::Null, "there is nothing to deliver");
    it.publish("ch", json!("x")).await;
    assert_eq!(it.values("ch").await, ["x"]);
    let changed = warnings(&it.update("ch", queue, &by(&ann, None)).await.expect("changed"));
    assert!(changed.contains("from broadcast to queue") && changed.contains("the 1 messages"), "{changed}");
    assert_eq!(it.values("ch").await, ["x"]);
}
