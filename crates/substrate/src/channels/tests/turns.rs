//! Deferred messages: tenants have their turns, and a wall clock that is set changes nothing.

use super::{super::deferred::Queue, *};

fn key(tenant: &str, number: i64) -> ValueKey {
    let tenant = tenant.parse().expect("a tenant");
    ValueKey { tenant, space: place::DEFERRED, owner: "jobs:tenant".into(), key: format!("{number:020}/m") }
}

#[test]
fn a_tenant_with_one_due_message_waits_for_one_of_each_other() {
    let at = Timestamp::from_millis;
    let mut queue = Queue::default();
    for number in 0..4_000 {
        queue.add(at(number), key("flood", number));
    }
    let mut turns = Vec::new();
    for _ in 0..3 {
        turns.push(queue.pop_due(at(5_000)).expect("due").1.tenant.to_string());
    }
    queue.add(at(4_500), key("small", 1));
    queue.add(at(4_500), key("zoo", 1));
    queue.add(at(9_000), key("later", 1));
    for _ in 0..4 {
        turns.push(queue.pop_due(at(5_000)).expect("due").1.tenant.to_string());
    }
    assert_eq!(turns, ["flood", "flood", "flood", "small", "zoo", "flood", "flood"]);
    let rest = std::iter::from_fn(|| queue.pop_due(at(5_000))).count();
    assert_eq!(rest, 4_000 - 5, "what is not due stays");
}

#[tokio::test]
async fn messages_go_by_the_steady_time_however_the_wall_clock_is_set() {
    const DAY: i64 = 86_400_000;
    let (it, ann) = (setup(json!({ "jobs": {} })), caller("ann"));
    let (channel, place) = it.place("jobs");
    let publish = async |message: Publish| {
        it.channels.publish(&channel, &place, &message, &by(&ann, None), 0).await.expect("published")
    };
    publish(Publish { ttl: Some(60), ..message(json!("short")) }).await;
    let late = publish(Publish { deliver_after_ms: Some(60_000), ..message(json!("late")) }).await;
    assert!(late.get("visible_at").is_some(), "{late}");
    for jump in [365 * DAY, -366 * DAY] {
        it.clock.jump(jump);
        let peeked = it.channels.peek(&channel, &place, &ask(10), &by(&ann, None)).await.expect("read");
        assert_eq!(peeked["messages"].as_array().map(Vec::len), Some(1), "nothing expired, nothing came: {peeked}");
    }
    it.clock.advance(60_000);
    it.clock.jump(-30 * DAY);
    let peeked = it.channels.peek(&channel, &place, &ask(10), &by(&ann, None)).await.expect("read");
    assert_eq!(peeked["messages"], json!([]), "what has expired does not come back");
    // A time that a caller names by the wall clock of that day.
    let at = Timestamp::from_millis(it.clock.wall().as_millis() + 5_000);
    publish(Publish { deliver_at: Some(at), ..message(json!("named")) }).await;
    let task = tokio::spawn(it.channels.clone().deliver_deferred());
    let mut listener = it.channels.listen([&place]);
    it.clock.advance(6_000);
    while it.channels.peek(&channel, &place, &ask(10), &by(&ann, None)).await.expect("read")["messages"]
        .as_array()
        .map_or(0, Vec::len)
        < 2
    {
        listener.changed().await;
    }
    task.abort();
}
