//! Every limit of channels is crossed, and the crossing is told.

use drawloom_contract::{
    journal::Answers as _,
    limits::{Amount, Limit},
    log::{LogChange, NewMessage},
};

use super::{super::group::Group, *};

fn most(limit: &Limit) -> u64 {
    match limit.default {
        Amount::Count(number) | Amount::Bytes(number) | Amount::Millis(number) => number,
        other => panic!("{} allows {other:?}", limit.name),
    }
}

/// Values of one owner, in one change.
async fn put(it: &Setup, keys: impl Iterator<Item = ValueKey>, value: Value) {
    let clean = |value: Value| it.channels.parts.redactor.clean(value);
    let changes = keys.map(|key| ValueChange::put(key, clean(value.clone()), it.clock.wall(), None)).collect();
    it.store.change(changes, None).await.expect("a store");
}

async fn append(it: &Setup, place: &Place, messages: u64) {
    let clean = |value: Value| it.channels.parts.redactor.clean(value);
    let message = |number| NewMessage {
        id: format!("m{number}"),
        at: it.clock.wall(),
        body: clean(json!({ "value": number, "by": {} })),
    };
    let messages = (0..messages).map(message).collect();
    let change = LogChange::Append { log: place.log(), messages, since: 0, keep: None };
    it.store.change_log(change, None).await.expect("a store");
}

async fn refused(it: &Setup, publish: Publish) -> &'static str {
    let (channel, place) = it.place("jobs");
    let answer = it.channels.publish(&channel, &place, &publish, &by(&caller("ann"), None), 0).await;
    answer.expect_err("beyond the limit").code()
}

/// Crosses a limit; how it is told.
async fn cross(limit: &Limit) -> &'static str {
    let it = setup(json!({ "jobs": {}, "all": { "semantic": "broadcast" } }));
    let (ann, (channel, place)) = (caller("ann"), it.place("jobs"));
    let member = Subscribe { group: Some("g".into()), ..ask(100) };
    match limit.name {
        "channel_name" => {
            let name = "x".repeat(most(limit) as usize + 1);
            it.create(&name, ChannelConfig::default(), &by(&ann, None)).await.expect_err("too long").code()
        }
        "channel_consumer_name" => {
            let long = Subscribe { group: Some("x".repeat(most(limit) as usize + 1)), ..ask(1) };
            it.take("jobs", &long, &by(&ann, None)).await.expect_err("too long").code()
        }
        "channel_value_bytes" => refused(&it, message(json!("x".repeat(most(limit) as usize)))).await,
        "channel_ttl" => refused(&it, Publish { ttl: Some(0), ..message(json!(1)) }).await,
        "channel_deferral" => {
            refused(&it, Publish { deliver_after_ms: Some(most(limit) + 1), ..message(json!(1)) }).await
        }
        "channel_deferred" => {
            put(&it, (0..most(limit)).map(|number| place.deferred(format!("{number:020}/m"))), json!({})).await;
            refused(&it, Publish { deliver_after_ms: Some(1_000_000), ..message(json!(1)) }).await
        }
        "channel_deferred_bytes" => {
            let large = || Publish { deliver_after_ms: Some(1_000_000), ..message(json!("x".repeat(60 * 1024))) };
            let room = most(limit) / (60 * 1024) - 8;
            put(&it, (0..room).map(|number| place.deferred(format!("{number:020}/m"))), large().value).await;
            let mut waiting = 0;
            let code = loop {
                match it.channels.publish(&channel, &place, &large(), &by(&ann, None), 0).await {
                    Ok(_) => waiting += 1,
                    Err(error) => break error.code(),
                }
                assert!(waiting <= 8, "more bytes wait than the limit");
            };
            assert!(waiting > 0);
            it.channels.purge(&channel, None, &by(&ann, None)).await.expect("purged");
            it.channels.publish(&channel, &place, &large(), &by(&ann, None), 0).await.expect("there is room again");
            code
        }
        "channel_messages" => {
            append(&it, &place, most(limit)).await;
            let published = it.publish("jobs", json!(1)).await;
            assert_eq!(published["dropped_oldest"], 1);
            "dropped_oldest"
        }
        "channel_messages_most" => {
            let config = ChannelConfig { max_messages: most(limit) + 1, ..ChannelConfig::default() };
            it.create("big", config, &by(&ann, None)).await.expect_err("too many").code()
        }
        "channel_page" => {
            append(&it, &place, most(limit) + 1).await;
            let taken = it.take("jobs", &ask(u32::MAX), &by(&ann, None)).await.expect("a channel");
            let Taken::Messages(page) = &taken else { panic!("there are messages") };
            assert_eq!(page["more"], true);
            assert_eq!(values(taken).len() as u64, most(limit));
            "more"
        }
        "channel_tool_bytes" => {
            for _ in 0..3 {
                it.publish("jobs", json!("x".repeat(60_000))).await;
            }
            let asked = Subscribe { bytes: most(limit), ..ask(9) };
            let Taken::Messages(page) = it.take("jobs", &asked, &by(&ann, None)).await.expect("a channel") else {
                panic!("there are messages");
            };
            assert_eq!((page["messages"].as_array().map(Vec::len), &page["more"]), (Some(2), &json!(true)));
            "more"
        }
        "channel_names" => {
            let names: Vec<String> = (0..=most(limit)).map(|number| format!("c{number}")).collect();
            check_names(&names).expect_err("too many").code()
        }
        "channel_defined" => {
            let key = |number| ValueKey {
                tenant: Tenant::default_tenant(),
                space: Space::of("definitions"),
                owner: "channel".into(),
                key: format!("c{number}"),
            };
            put(&it, (0..most(limit)).map(key), json!({})).await;
            it.create("one-more", ChannelConfig::default(), &by(&ann, None)).await.expect_err("too many").code()
        }
        "channel_consumers" => {
            let (_, all) = it.place("all");
            it.publish("all", json!(1)).await;
            put(&it, (0..most(limit)).map(|number| all.cursor(Some(&format!("c{number}")))), json!({ "after": 0 }))
                .await;
            it.take("all", &ask(1), &by(&ann, None)).await.expect_err("too many").code()
        }
        "channel_wait" | "channel_long_poll" => {
            let wait = rules::clip(Some(most(limit) + 1), most(limit));
            assert!(wait.ms == most(limit) && wait.warning.is_some());
            "effective_wait_ms"
        }
        "channel_in_flight" => {
            append(&it, &place, most(limit) + 1).await;
            let new: Vec<u64> = (1..=most(limit)).collect();
            let take = super::super::group::Take { new: &new, lease_ms: 1_000, ..Default::default() };
            let (group, _) = Group::default().take(&take);
            put(&it, std::iter::once(place.group("g")), serde_json::to_value(group).expect("JSON")).await;
            let Taken::Nothing(nothing) = it.take("jobs", &member, &by(&ann, None)).await.expect("a channel") else {
                panic!("the group is full");
            };
            assert!(!nothing.warnings.is_empty());
            "warnings"
        }
        "channel_lease" => {
            it.publish("jobs", json!(1)).await;
            let Taken::Messages(first) = it.take("jobs", &member, &by(&ann, None)).await.expect("a channel") else {
                panic!("there is a message");
            };
            it.clock.advance(most(limit));
            it.take("jobs", &member, &by(&ann, None)).await.expect("it came back");
            let lease = Lease::read(first["messages"][0]["lease"].as_str().expect("a lease")).expect("a lease");
            let late = it.channels.settle(&channel, &place, "g", &[lease], Settle::Ack, &by(&ann, None)).await;
            late.expect_err("too late").code()
        }
        "channel_attempts" => {
            it.publish("jobs", json!(1)).await;
            for _ in 0..=most(limit) {
                it.take("jobs", &member, &by(&ann, None)).await.expect("a channel");
                it.clock.advance(channel.config.lease_ms);
            }
            assert_eq!(it.values("jobs.dead").await.len(), 1);
            "dead_letter"
        }
        other => panic!("no test crosses the limit `{other}`: add one here"),
    }
}

#[tokio::test]
async fn every_limit_is_crossed_and_told() {
    for limit in LIMITS {
        assert_eq!(cross(limit).await, limit.code, "{}", limit.name);
    }
}

#[tokio::test]
async fn a_subscribe_that_is_made_again_is_stored_without_values() {
    let (it, ann) = (setup(json!({ "jobs": { "max_messages": 50 } })), caller("ann"));
    let long = "x".repeat(60 * 1024);
    for number in 0..20 {
        it.publish("jobs", json!({ "number": number, "text": long })).await;
    }
    let key = || by(&ann, Some("again"));
    let Taken::Messages(first) = it.take("jobs", &ask(20), &key()).await.expect("a channel") else { panic!("some") };
    assert!(first.to_string().len() > 20 * long.len());
    let By::Request { key: Some(name), .. } = key() else { panic!("a key") };
    let stored = it.store.find_answer(&name).await.expect("a store").expect("stored").to_string();
    assert!(stored.len() < 8 * 1024, "{} bytes are stored", stored.len());
    let Taken::Messages(again) = it.take("jobs", &ask(20), &key()).await.expect("a channel") else { panic!("some") };
    assert_eq!(again, first, "made again, it gets the same messages");
    // The same for a group, whose messages come with leases.
    let member = Subscribe { group: Some("g".into()), ..ask(3) };
    let group = || by(&ann, Some("group"));
    let Taken::Messages(first) = it.take("jobs", &member, &group()).await.expect("a channel") else { panic!("some") };
    let Taken::Messages(again) = it.take("jobs", &member, &group()).await.expect("a channel") else { panic!("some") };
    assert_eq!((&again, again["messages"].as_array().map(Vec::len)), (&first, Some(3)));
    // What was dropped meanwhile is left out, and the answer says so.
    for _ in 0..40 {
        it.publish("jobs", json!(0)).await;
    }
    let Taken::Messages(again) = it.take("jobs", &ask(20), &key()).await.expect("a channel") else { panic!("some") };
    assert_eq!(again["messages"].as_array().map(Vec::len), Some(10));
    assert!(again["warnings"].to_string().contains("10 messages of this answer were dropped"), "{}", again["warnings"]);
}
