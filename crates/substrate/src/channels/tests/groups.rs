//! Consumer groups over the seams: leases, zombies, dead letters, restarts and clocks.

use super::*;

fn member(max: u32) -> Subscribe {
    Subscribe { group: Some("workers".into()), ..ask(max) }
}

/// The leases of what was taken, with values and attempts.
fn taken(taken: Taken) -> Vec<(Value, u64, Lease)> {
    let Taken::Messages(answer) = taken else { return Vec::new() };
    let messages = answer["messages"].as_array().expect("messages").iter();
    messages
        .map(|message| {
            let lease = Lease::read(message["lease"].as_str().expect("a lease")).expect("a lease");
            (message["value"].clone(), message["attempt"].as_u64().expect("a count"), lease)
        })
        .collect()
}

async fn settle(it: &Setup, leases: &[Lease], settle: Settle) -> Result<Value, ChannelError> {
    let (channel, place) = it.place("jobs");
    it.channels.settle(&channel, &place, "workers", leases, settle, &by(&caller("ann"), None)).await
}

async fn take(it: &Setup, max: u32) -> Vec<(Value, u64, Lease)> {
    taken(it.take("jobs", &member(max), &by(&caller("ann"), None)).await.expect("a channel"))
}

#[tokio::test]
async fn what_is_not_acknowledged_comes_back_and_a_zombie_is_refused() {
    let it = setup(json!({ "jobs": { "lease_ms": 1_000 } }));
    it.publish("jobs", json!("a")).await;
    it.publish("jobs", json!("b")).await;
    let first = take(&it, 1).await;
    assert_eq!((&first[0].0, first[0].1), (&json!("a"), 1));
    assert_eq!(take(&it, 9).await[0].0, "b", "another member gets the next one");
    it.clock.advance(999);
    assert_eq!(take(&it, 9).await, []);
    // The wall clock says nothing about leases.
    it.clock.jump(-1_000_000);
    it.clock.advance(1);
    let again = take(&it, 1).await;
    assert_eq!((&again[0].0, again[0].1), (&json!("a"), 2));
    let zombie = settle(&it, &[first[0].2], Settle::Ack).await.expect_err("its lease is over");
    assert_eq!(zombie.code(), "channel_lease_lost");
    let both = settle(&it, &[first[0].2, again[0].2], Settle::Ack).await.expect("one holds");
    assert_eq!((&both["settled"], both["lost"].as_array().map(Vec::len)), (&json!(1), Some(1)));
}

#[tokio::test]
async fn after_a_restart_leases_are_counted_anew() {
    let it = setup(json!({ "jobs": { "lease_ms": 1_000 } }));
    it.publish("jobs", json!("a")).await;
    let first = take(&it, 1).await;
    it.clock.advance(900);
    let again = it.restarted(json!({ "jobs": { "lease_ms": 1_000 } })).await;
    assert_eq!(take(&again, 1).await, []);
    again.clock.advance(900);
    assert_eq!(take(&again, 1).await, [], "a whole lease from when this process saw it");
    assert_eq!(settle(&again, &[first[0].2], Settle::Ack).await.expect("it still holds")["settled"], 1);
    again.clock.advance(10_000);
    assert_eq!(take(&again, 1).await, [], "an acknowledged message never comes back");
}

#[tokio::test]
async fn a_message_that_no_member_acknowledges_goes_to_the_dead_letter_channel_once() {
    let it = setup(json!({ "jobs": { "lease_ms": 1_000, "max_attempts": 2 } }));
    it.publish("jobs", json!("poison")).await;
    for attempt in 1..=2 {
        assert_eq!(take(&it, 9).await[0].1, attempt);
        it.clock.advance(1_000);
    }
    assert_eq!(take(&it, 9).await, []);
    assert_eq!(take(&it, 9).await, []);
    let dead = it.values("jobs.dead").await;
    assert_eq!(dead.len(), 1);
    assert_eq!(
        (&dead[0]["value"], &dead[0]["attempts"], &dead[0]["group"]),
        (&json!("poison"), &json!(2), &json!("workers"))
    );
    assert!(dead[0]["reason"].as_str().is_some_and(|reason| reason.contains("2 deliveries")));
}

#[tokio::test]
async fn a_crash_after_the_dead_letter_buries_nothing_twice() {
    let it = setup(json!({ "jobs": { "lease_ms": 1_000, "max_attempts": 1 } }));
    it.publish("jobs", json!("poison")).await;
    take(&it, 9).await;
    let (_, place) = it.place("jobs");
    let key = place.group("workers");
    let before = it.store.find_value(&key, it.clock.wall()).await.expect("a store").expect("a group");
    it.clock.advance(1_000);
    assert_eq!(take(&it, 9).await, []);
    let put = ValueChange::put(key, it.channels.parts.redactor.clean(before.value), it.clock.wall(), None);
    it.store.change(vec![put], None).await.expect("as before the crash");
    let again = it.restarted(json!({ "jobs": { "lease_ms": 1_000, "max_attempts": 1 } })).await;
    assert_eq!(take(&again, 9).await, []);
    again.clock.advance(1_000);
    assert_eq!(take(&again, 9).await, []);
    assert_eq!(again.values("jobs.dead").await.len(), 1);
}

#[tokio::test]
async fn members_give_back_and_extend() {
    let it = setup(json!({ "jobs": { "lease_ms": 1_000 } }));
    it.publish("jobs", json!("a")).await;
    let first = take(&it, 1).await;
    it.clock.advance(900);
    let extended = settle(&it, &[first[0].2], Settle::Extend { lease_ms: 5_000 }).await.expect("extended");
    let lease = Lease::read(extended["leases"][0].as_str().expect("a lease")).expect("a lease");
    it.clock.advance(4_900);
    assert_eq!(take(&it, 1).await, []);
    settle(&it, &[lease], Settle::Nak).await.expect("given back");
    let again = take(&it, 1).await;
    assert_eq!(again[0].1, 2);
    assert_eq!(settle(&it, &[lease], Settle::Ack).await.expect_err("it was given back").code(), "channel_lease_lost");
    let refused = settle(&it, &[again[0].2], Settle::Extend { lease_ms: 1 }).await.expect_err("too short");
    assert_eq!(refused.code(), "channel_setting_invalid");
}

#[tokio::test]
async fn a_group_is_full_at_1000_messages_and_says_so() {
    let it = setup(json!({ "jobs": {} }));
    for number in 0..=MOST_IN_FLIGHT {
        it.publish("jobs", json!(number)).await;
    }
    let mut leases = Vec::new();
    for _ in 0..10 {
        leases.extend(take(&it, 100).await);
    }
    assert_eq!(leases.len(), MOST_IN_FLIGHT);
    let Taken::Nothing(nothing) = it.take("jobs", &member(1), &by(&caller("ann"), None)).await.expect("a channel")
    else {
        panic!("the group is full");
    };
    assert!(nothing.warnings[0].contains("1000 messages"), "{:?}", nothing.warnings);
    settle(&it, &[leases[5].2], Settle::Ack).await.expect("acknowledged");
    assert_eq!(take(&it, 9).await[0].0, MOST_IN_FLIGHT);
}

#[tokio::test]
async fn a_purged_message_leaves_the_group() {
    let it = setup(json!({ "jobs": { "lease_ms": 1_000 } }));
    it.publish("jobs", json!("a")).await;
    take(&it, 1).await;
    let (channel, _) = it.place("jobs");
    it.channels.purge(&channel, None, &by(&caller("ann"), None)).await.expect("purged");
    it.clock.advance(1_000);
    it.publish("jobs", json!("b")).await;
    let Taken::Messages(answer) = it.take("jobs", &member(9), &by(&caller("ann"), None)).await.expect("a channel")
    else {
        panic!("there is a message");
    };
    assert_eq!((&answer["messages"][0]["value"], &answer["missed"]), (&json!("b"), &json!(1)));
}

#[tokio::test]
async fn a_repeated_take_gets_the_same_leases() {
    let it = setup(json!({ "jobs": {} }));
    it.publish("jobs", json!("a")).await;
    let ann = caller("ann");
    let first = it.take("jobs", &member(9), &by(&ann, Some("k"))).await.expect("a channel");
    assert_eq!(it.take("jobs", &member(9), &by(&ann, Some("k"))).await.expect("a channel"), first);
    it.publish("jobs", json!("b")).await;
    assert_eq!(it.take("jobs", &member(9), &by(&ann, Some("k"))).await.expect("a channel"), first);
}

#[tokio::test]
async fn a_dead_letter_goes_where_the_scope_of_its_channel_says() {
    let it = setup(json!({
        "jobs": { "scope": "user", "lease_ms": 1_000, "max_attempts": 1, "dead_letter": "lost" },
        "lost": { "scope": "tenant" },
    }));
    it.publish("jobs", json!("poison")).await;
    take(&it, 1).await;
    it.clock.advance(1_000);
    assert_eq!(take(&it, 1).await, []);
    assert_eq!(it.values("lost").await.len(), 1);
}

#[tokio::test]
async fn nothing_is_remembered_of_groups_without_messages() {
    let it = setup(json!({ "jobs": {} }));
    assert_eq!(take(&it, 1).await, []);
    assert!(it.channels.leases.lock().expect("a lock").is_empty());
    it.publish("jobs", json!(1)).await;
    let taken = take(&it, 1).await;
    assert_eq!(it.channels.leases.lock().expect("a lock").len(), 1);
    settle(&it, &[taken[0].2], Settle::Ack).await.expect("acknowledged");
    assert!(it.channels.leases.lock().expect("a lock").is_empty());
}

#[tokio::test]
async fn leases_that_are_over_but_cut_off_are_more() {
    let it = setup(json!({ "jobs": { "lease_ms": 1_000 } }));
    for number in 1..=3 {
        it.publish("jobs", json!(number)).await;
    }
    take(&it, 2).await;
    it.clock.advance(1_000);
    for (max, is_more) in [(1, true), (1, true), (1, false)] {
        let Taken::Messages(answer) =
            it.take("jobs", &member(max), &by(&caller("ann"), None)).await.expect("a channel")
        else {
            panic!("there are messages");
        };
        assert_eq!(answer["more"], is_more, "{answer}");
    }
}

#[tokio::test]
async fn messages_that_are_gone_are_told_also_when_there_is_nothing_else() {
    let it = setup(json!({ "jobs": { "lease_ms": 1_000 } }));
    it.publish("jobs", json!("a")).await;
    take(&it, 1).await;
    let (channel, _) = it.place("jobs");
    it.channels.purge(&channel, None, &by(&caller("ann"), None)).await.expect("purged");
    it.clock.advance(1_000);
    let Taken::Nothing(nothing) = it.take("jobs", &member(1), &by(&caller("ann"), None)).await.expect("a channel")
    else {
        panic!("it was purged");
    };
    assert!(nothing.warnings[0].starts_with("1 messages"), "{:?}", nothing.warnings);
}

#[tokio::test]
async fn a_message_whose_attempts_are_used_up_needs_no_consumer_to_become_a_dead_letter() {
    let config = json!({ "jobs": { "lease_ms": 1_000, "max_attempts": 1 } });
    let it = setup(config.clone());
    it.publish("jobs", json!("poison")).await;
    it.publish("jobs", json!("given back")).await;
    it.publish("jobs", json!("done")).await;
    let leases = take(&it, 9).await;
    settle(&it, &[leases[1].2], Settle::Nak).await.expect("given back");
    settle(&it, &[leases[2].2], Settle::Ack).await.expect("done");
    it.clock.advance(999);
    it.channels.bury_all().await.expect("a store");
    assert_eq!(it.channels.count(&Tenant::default_tenant(), "jobs.dead").await.expect("a store").messages, 1);
    // Another server counts the lease anew, without a member that comes.
    let again = it.restarted(config).await;
    let sweeping = tokio::spawn(again.channels.clone().sweep_expired());
    let (_, dead) = again.place("jobs.dead");
    let mut listener = again.channels.listen([&dead]);
    while again.channels.leases.lock().expect("no panic").is_empty() {
        tokio::task::yield_now().await;
    }
    again.clock.advance(60_000);
    tokio::time::timeout(Duration::from_secs(5), listener.changed()).await.expect("a dead letter");
    sweeping.abort();
    let letters: Vec<Value> =
        again.values("jobs.dead").await.into_iter().map(|letter| letter["value"].clone()).collect();
    assert_eq!(letters, ["given back", "poison"]);
    assert_eq!(take(&again, 9).await, [], "nothing comes back");
    let late = settle(&again, &[leases[0].2], Settle::Ack).await.expect_err("it is a dead letter");
    assert_eq!(late.code(), "channel_lease_lost");
}
