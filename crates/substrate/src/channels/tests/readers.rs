//! What readers have not read: counted for each, told when it is dropped, removed when all have read it.

use super::*;

fn warnings(answer: &Value) -> String {
    answer["warnings"].to_string()
}

async fn messages(it: &Setup, name: &str) -> u64 {
    it.channels.count(&Tenant::default_tenant(), name).await.expect("a store").messages
}

#[tokio::test]
async fn a_full_channel_tells_only_of_messages_that_some_reader_had_not_read() {
    let it = setup(json!({ "small": { "max_messages": 3 }, "news": { "semantic": "broadcast", "max_messages": 2 } }));
    for number in 1..=3 {
        it.publish("small", json!(number)).await;
    }
    assert_eq!(it.values("small").await.len(), 3, "all are read");
    for number in 4..=6 {
        let published = it.publish("small", json!(number)).await;
        assert_eq!((&published["dropped_oldest"], &published["warnings"]), (&json!(0), &Value::Null), "{number}");
    }
    let seventh = it.publish("small", json!(7)).await;
    assert_eq!(seventh["dropped_oldest"], 1, "4 was not read");
    assert!(warnings(&seventh).contains("1 oldest messages were dropped unread"), "{seventh}");

    // On a broadcast channel the reader that is furthest behind counts.
    let (ann, bob) = (caller("ann"), caller("bob"));
    it.publish("news", json!("a")).await;
    for reader in [&ann, &bob] {
        it.take("news", &ask(9), &by(reader, None)).await.expect("taken");
    }
    it.publish("news", json!("b")).await;
    it.take("news", &ask(9), &by(&ann, None)).await.expect("taken");
    assert_eq!(it.publish("news", json!("c")).await["dropped_oldest"], 0, "both have read a");
    assert_eq!(it.publish("news", json!("d")).await["dropped_oldest"], 1, "bob has not read b");
}

#[tokio::test]
async fn a_channel_says_what_each_of_its_readers_has_not_read() {
    let it = setup(json!({ "work": {}, "news": { "semantic": "broadcast" } }));
    let (ann, bob, tenant) = (caller("ann"), caller("bob"), Tenant::default_tenant());
    let unread = async |name: &str| it.channels.count(&tenant, name).await.expect("a store").unread;
    for number in 1..=5 {
        it.publish("work", json!(number)).await;
        it.publish("news", json!(number)).await;
    }
    assert_eq!((unread("work").await.messages, unread("work").await.readers.len()), (5, 0), "no reader has come");
    it.take("work", &ask(5), &by(&ann, None)).await.expect("taken");
    assert_eq!(unread("work").await.messages, 0);
    let member = Subscribe { group: Some("g".into()), ..ask(2) };
    it.take("work", &member, &by(&ann, None)).await.expect("taken");
    let found = unread("work").await;
    let each: Vec<_> = found.readers.iter().map(|(reader, unread)| (reader.who.clone(), *unread)).collect();
    assert_eq!(each, [(Who::All, 0), (Who::Group("g".into()), 5)], "two are not acknowledged");
    assert_eq!(found.messages, 5);
    it.take("news", &ask(3), &by(&ann, None)).await.expect("taken");
    it.take("news", &ask(5), &by(&bob, None)).await.expect("taken");
    let found = unread("news").await;
    let each: Vec<_> = found.readers.iter().map(|(reader, unread)| (reader.who.clone(), *unread)).collect();
    assert_eq!(each, [(Who::Consumer("user/ann".into()), 2), (Who::Consumer("user/bob".into()), 0)]);
    let only_bob = Caller { proof: Proof::Principal, scopes: Vec::new(), ..bob }.visible();
    let seen = found.readers.iter().filter(|(reader, _)| reader.is_visible_to(&only_bob)).count();
    assert_eq!((found.messages, seen), (2, 1));
}

#[tokio::test]
async fn what_every_reader_of_a_queue_has_read_is_removed_an_hour_later() {
    let it = setup(json!({ "work": {}, "news": { "semantic": "broadcast" } }));
    let ann = caller("ann");
    for number in 1..=4 {
        it.publish("work", json!(number)).await;
        it.publish("news", json!(number)).await;
    }
    let member = Subscribe { group: Some("g".into()), ..ask(3) };
    let Taken::Messages(taken) = it.take("work", &member, &by(&ann, None)).await.expect("taken") else { panic!() };
    it.take("work", &ask(4), &by(&ann, None)).await.expect("taken");
    it.take("news", &ask(4), &by(&ann, None)).await.expect("taken");
    let leases: Vec<Lease> = taken["messages"].as_array().expect("messages")[..2]
        .iter()
        .map(|message| Lease::read(message["lease"].as_str().expect("a lease")).expect("a lease"))
        .collect();
    let (channel, place) = it.place("work");
    it.channels.settle(&channel, &place, "g", &leases, Settle::Ack, &by(&ann, None)).await.expect("acknowledged");
    assert_eq!(it.channels.sweep().await, Ok(0), "they were read just now");
    it.clock.advance(3_599_999);
    assert_eq!(it.channels.sweep().await, Ok(0));
    it.clock.advance(1);
    assert_eq!(it.channels.sweep().await, Ok(2), "the group has not acknowledged 3 and was not given 4");
    assert_eq!((messages(&it, "work").await, messages(&it, "news").await), (2, 4));
}

#[tokio::test]
async fn all_readers_of_a_channel_count_however_many_there_are() {
    let it = setup(json!({ "work": {} }));
    it.publish("work", json!(1)).await;
    for number in 0..1_001 {
        let member = Subscribe { group: Some(format!("g{number:04}")), ..ask(1) };
        it.take("work", &member, &by(&caller("ann"), None)).await.expect("taken");
    }
    let found = it.channels.count(&Tenant::default_tenant(), "work").await.expect("a store").unread;
    assert_eq!(found.readers.len(), 1_001);
}
