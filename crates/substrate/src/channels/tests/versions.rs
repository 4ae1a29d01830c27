//! Channels as definitions: one history whatever changes it, messages that outlive versions, and channels of earlier programs.

use drawloom_contract::definition::DefinitionKind;

use super::*;
use crate::definitions::{Create, Fork, Principals, Promote, Retire, rules};

const KIND: DefinitionKind = DefinitionKind::Channel;

fn config(value: Value) -> ChannelConfig {
    serde_json::from_value(value).expect("a channel")
}

fn request(caller: &Caller) -> Maker<'_> {
    Maker::Request { caller, key: None }
}

fn create(name: &str, source: Value) -> Create {
    Create { kind: KIND, name: name.into(), source, description: None, promote: rules::Promote::Yes }
}

fn fork(from: &str, changes: Value) -> Fork {
    Fork { kind: KIND, from: from.into(), name: None, changes, description: None, promote: rules::Promote::No }
}

fn retire(name: &str) -> Retire {
    Retire { kind: KIND, name: name.into(), version: None, retired: true }
}

fn promote(name: &str, version: u32) -> Promote {
    Promote { kind: KIND, name: name.into(), version }
}

async fn messages(it: &Setup, name: &str) -> u64 {
    it.channels.count(&Tenant::default_tenant(), name).await.expect("a store").messages
}

#[tokio::test]
async fn settings_of_a_promoted_version_apply_to_the_log_at_once() {
    let (it, ann) = (setup(json!({})), caller("ann"));
    it.create("ch", config(json!({})), &by(&ann, None)).await.expect("made");
    let (definitions, by) = (&it.definitions, request(&ann));
    let small =
        definitions.fork(fork("ch", json!({ "max_messages": 2, "semantic": "topic" })), &by).await.expect("forked");
    assert_eq!((&small["def_id"], &small["active"]), (&json!("ch@2"), &json!(false)));
    for number in 1..=3 {
        assert_eq!(it.publish("ch", json!(number)).await["dropped_oldest"], 0, "a fork changes nothing");
    }
    definitions.promote(promote("ch", 2), &by).await.expect("promoted");
    let (channel, _) = it.place("ch");
    assert_eq!((channel.version, channel.config.semantic), (2, Semantic::Broadcast));
    assert_eq!(it.publish("ch", json!(4)).await["dropped_oldest"], 2);
    assert_eq!(channel.digest.to_string(), small["content_sha256"].as_str().expect("a digest"));
    // Another start has the same.
    let again = it.restarted(json!({})).await;
    assert_eq!(again.place("ch").0, channel);
    // Settings that a version has are that version.
    let back =
        it.update("ch", |config| *config = ChannelConfig::default(), &super::by(&ann, None)).await.expect("changed");
    assert_eq!((&back["version"], &back["message_count"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn a_retired_channel_keeps_its_messages_dead_letters_and_deferred_messages() {
    let (it, ann) = (setup(json!({})), caller("ann"));
    it.create("jobs", config(json!({ "dead_letter": "lost" })), &by(&ann, None)).await.expect("made");
    it.publish("jobs", json!("a")).await;
    it.publish("lost", json!("letter")).await;
    let (channel, place) = it.place("jobs");
    let later = Publish { deliver_after_ms: Some(10), ..message(json!("late")) };
    it.channels.publish(&channel, &place, &later, &by(&ann, None), 0).await.expect("deferred");
    it.definitions.retire(retire("jobs"), &request(&ann)).await.expect("retired");
    let tenant = Tenant::default_tenant();
    assert_eq!(it.channels.find(&tenant, "jobs"), None);
    let unknown = it.channels.load_channel(&tenant, "jobs").expect_err("out of use");
    assert!(unknown.hint().is_some_and(|hint| hint.contains("no active version")), "{unknown:?}");
    it.clock.advance(10);
    let range = place::range_of(&tenant, place::DEFERRED, &place.name());
    let (key, _) = it.store.list_values(&range, None, 1, it.clock.wall()).await.expect("values").pop().expect("one");
    it.channels.deliver(&key).await.expect("delivered");
    // A channel that takes the name of its dead letters does not remove them.
    it.create("lost", config(json!({})), &by(&ann, None)).await.expect("made");
    assert_eq!(it.values("lost").await, ["letter"]);
    let taken = it.create("jobs", config(json!({})), &by(&ann, None)).await.expect_err("taken");
    assert_eq!(taken.code(), "channel_name_in_use");
    let refused = it.update("jobs", |config| config.max_messages = 9, &by(&ann, None)).await.expect_err("retired");
    assert_eq!(refused.code(), "no_active_version");
    it.definitions
        .retire(Retire { version: Some(1), retired: false, ..retire("jobs") }, &request(&ann))
        .await
        .expect("back");
    it.definitions.promote(promote("jobs", 1), &request(&ann)).await.expect("promoted");
    assert_eq!(it.values("jobs").await, ["a", "late"]);
}

#[tokio::test]
async fn a_channel_without_an_active_version_can_be_deleted_with_all_of_it() {
    let (it, ann) = (setup(json!({})), caller("ann"));
    it.create("jobs", config(json!({})), &by(&ann, None)).await.expect("made");
    for number in 0..50 {
        it.update("jobs", |config| config.max_messages = 100 + number, &by(&ann, None)).await.expect("changed");
    }
    it.publish("jobs", json!("a")).await;
    it.publish("jobs.dead", json!("letter")).await;
    it.definitions.retire(retire("jobs"), &request(&ann)).await.expect("retired");
    let deleted = it.delete("jobs", &by(&ann, None)).await.expect("deleted");
    assert!(deleted["warnings"][0].as_str().is_some_and(|text| text.contains("jobs.dead")), "{deleted}");
    assert_eq!((messages(&it, "jobs").await, messages(&it, "jobs.dead").await), (0, 0));
    for space in ["definitions", "definition_versions"] {
        let range = Range { space: Space::of(space), within: Within::Space };
        assert_eq!(it.store.list_values(&range, None, 9, it.clock.wall()).await, Ok(Vec::new()), "{space}");
    }
    let unknown = it.delete("jobs", &by(&ann, None)).await.expect_err("it is gone");
    assert_eq!(unknown.code(), "channel_not_declared");
}

#[tokio::test]
async fn of_two_scopes_for_one_name_the_first_one_stays() {
    let (it, ann) = (setup(json!({})), caller("ann"));
    let by = request(&ann);
    let made = futures::join!(
        it.definitions.create(create("ch", json!({ "scope": "user" })), &by),
        it.definitions.create(create("ch", json!({ "scope": "agent" })), &by),
    );
    assert!(made.0.is_ok() ^ made.1.is_ok(), "{made:?}");
    let refused = made.0.and(made.1).expect_err("one of them");
    assert!(refused.to_string().contains("the scope of channel \"ch\" cannot be changed"), "{refused}");
    it.definitions.retire(retire("ch"), &by).await.expect("retired");
    let refused =
        it.definitions.create(create("ch", json!({})), &by).await.expect_err("also without an active version");
    assert_eq!(refused.code(), "invalid_definition");
}

#[tokio::test]
async fn every_mistake_of_a_source_is_reported_with_its_field() {
    let (it, ann) = (setup(json!({ "mine": { "scope": "user" } })), caller("ann"));
    let source = json!({ "max_messages": 0, "lease_ms": 1, "dead_letter": "mine", "description": "x".repeat(4_097) });
    let refused = it.definitions.create(create("_system/ch", source), &request(&ann)).await.expect_err("reserved");
    assert_eq!(refused.code(), "channel_name_invalid");
    let source = json!({ "max_messages": 0, "lease_ms": 1, "dead_letter": "mine", "description": "x".repeat(4_097) });
    let refused = it.definitions.create(create("ch", source), &request(&ann)).await.expect_err("wrong");
    let DefinitionError::Invalid { problems, .. } = refused else { panic!("{refused}") };
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["max_messages", "lease_ms", "description", "dead_letter"]);
}

#[tokio::test]
async fn an_update_has_always_room_for_its_version() {
    let (store, clock, ann) = (Arc::<Fake>::default(), Arc::<SetClock>::default(), caller("ann"));
    let few = DefinitionsConfig { max_versions: 3, ..DefinitionsConfig::default() };
    let layers = Layers::new(OperatorConfig::default(), Arc::default(), few, Principals::default()).0;
    let channels = Channels::new(ChannelParts { layers, ..parts(&store, &clock, json!({})) });
    let it = Setup::of(channels, store, clock);
    for name in ["a", "b", "c"] {
        it.create(name, config(json!({})), &by(&ann, None)).await.expect("made");
    }
    let refused = it.definitions.fork(fork("a", json!({ "max_messages": 5 })), &request(&ann)).await.expect_err("full");
    assert_eq!(refused.code(), "over_quota");
    for (version, number) in [(2, 5), (3, 6), (4, 7)] {
        let updated = it.update("a", |config| config.max_messages = number, &by(&ann, None)).await.expect("changed");
        assert_eq!((&updated["version"], &updated["max_messages"]), (&json!(version), &json!(number)));
        let removed = format!("a@{} was removed", version - 1);
        assert!(updated["warnings"][0].as_str().is_some_and(|text| text.starts_with(&removed)), "{updated}");
    }
    assert_eq!(it.place("a").0.config.max_messages, 7);
}

/// As programs stored channels before they had versions.
async fn put_older(it: &Setup, name: &str, value: Value) {
    let key = ValueKey {
        tenant: Tenant::default_tenant(),
        space: Space::of("channels_defined"),
        owner: "channels".into(),
        key: name.into(),
    };
    let put = ValueChange::put(key, it.channels.parts.redactor.clean(value), it.clock.wall(), None);
    it.store.change(vec![put], None).await.expect("a store");
}

#[tokio::test]
async fn channels_of_an_earlier_program_are_read_where_they_are_and_moved_by_a_server() {
    let (it, ann) = (setup(json!({})), caller("ann"));
    let channel = json!({
        "description": "Old.", "scope": "user", "semantic": "queue", "default_ttl": null, "max_messages": 7,
        "lease_ms": 60_000, "max_attempts": 5, "dead_letter": null,
    });
    put_older(&it, "old", json!({ "version": 4, "channel": channel })).await;
    put_older(&it, "odd", json!({ "later": true })).await;
    let found = |it: &Setup| {
        let channel = it.place("old").0;
        (channel.version, channel.config.max_messages, channel.config.description.clone())
    };
    let expected = (4, 7, "Old.".to_owned());
    // A process that only reads.
    it.definitions.load().await.expect("a store");
    assert_eq!(found(&it), expected);
    let shown = it.definitions.get(&ann.tenant, KIND, "old", None).await.expect("it is there");
    let source = json!({ "description": "Old.", "scope": "user", "max_messages": 7 });
    assert_eq!((&shown["def_id"], &shown["source"]), (&json!("old@4"), &source));
    it.publish("old", json!("kept")).await;
    // A server moves it, and its history goes on.
    let server = it.restarted(json!({})).await;
    assert_eq!(found(&server), expected);
    let updated = server.update("old", |config| config.max_messages = 8, &by(&ann, None)).await.expect("changed");
    assert_eq!((&updated["version"], &updated["message_count"]), (&json!(5), &json!(1)));
    let again = server.restarted(json!({})).await;
    assert_eq!((found(&again).0, again.values("old").await), (5, vec![json!("kept")]));
    let range = Range { space: Space::of("channels_defined"), within: Within::Space };
    let left = it.store.list_values(&range, None, 9, it.clock.wall()).await.expect("a store");
    assert_eq!(left.into_iter().map(|(key, _)| key.key).collect::<Vec<_>>(), ["odd"], "what cannot be read stays");
    // What a program of then made in between does not replace what is there.
    put_older(&it, "old", json!({ "version": 1, "channel": {} })).await;
    assert_eq!(found(&it.restarted(json!({})).await).0, 5);
    again.delete("old", &by(&ann, None)).await.expect("deleted");
    assert!(it.restarted(json!({})).await.channels.find(&ann.tenant, "old").is_none());
}
