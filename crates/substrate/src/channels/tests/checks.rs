//! What readers and members of groups name: cursors, consumers, groups and leases.

use drawloom_contract::tool::{Step, Tool as _};

use super::{super::tool::ChannelTool, tool::context, *};

#[tokio::test]
async fn a_cursor_after_the_newest_message_is_refused_by_every_read() {
    let it = setup(json!({ "jobs": {} }));
    it.publish("jobs", json!(1)).await;
    let (ann, (channel, place)) = (caller("ann"), it.place("jobs"));
    for (from, is_fine) in [(0, true), (1, true), (2, false), (99, false)] {
        let from = Subscribe { from: Some(from), ..ask(9) };
        let looked = it.channels.look(&channel, &place, &from, &by(&ann, None)).await;
        assert_eq!(looked.map(|_| ()).map_err(|error| error.code()).is_ok(), is_fine, "{from:?}");
    }
    let far = Subscribe { from: Some(99), ..ask(9) };
    let refused = it.channels.peek(&channel, &place, &far, &by(&ann, None)).await.expect_err("too far");
    assert_eq!(refused.code(), "channel_cursor_invalid");
}

#[tokio::test]
async fn an_unknown_group_and_a_lease_that_was_never_given_are_told_from_a_lost_lease() {
    let it = setup(json!({ "jobs": {} }));
    it.publish("jobs", json!(1)).await;
    let (ann, (channel, place)) = (caller("ann"), it.place("jobs"));
    let member = Subscribe { group: Some("g".into()), ..ask(9) };
    let taken = it.channels.subscribe(&channel, &place, &member, &by(&ann, None)).await.expect("a channel");
    let Taken::Messages(taken) = taken else { panic!("there is a message") };
    let lease = Lease::read(taken["messages"][0]["lease"].as_str().expect("a lease")).expect("a lease");
    let ack = async |group: &str, leases: &[Lease]| {
        it.channels.settle(&channel, &place, group, leases, Settle::Ack, &by(&ann, None)).await
    };
    let unknown = ack("other", &[lease]).await.expect_err("unknown");
    assert_eq!(
        (unknown.code(), unknown.kind()),
        ("channel_group_unknown", drawloom_contract::failure::FailureKind::NotFound)
    );
    let never = Lease::read("lse_7_1").expect("a lease");
    assert_eq!(ack("g", &[never]).await.expect_err("never given").code(), "channel_lease_invalid");
    let acked = ack("g", &[lease, lease]).await.expect("settled");
    assert_eq!((&acked["settled"], acked.get("lost")), (&json!(1), None), "named twice, settled once");
    assert_eq!(ack("g", &[lease]).await.expect_err("settled before").code(), "channel_lease_lost");
}

#[tokio::test]
async fn an_await_of_queues_and_broadcast_channels_takes_a_consumer() {
    let it = setup(json!({ "jobs": {}, "news": { "semantic": "broadcast" } }));
    it.publish("news", json!(1)).await;
    let context = context(1, &[], &["jobs", "news"]);
    let call = async |channels: &[&str]| {
        let input = json!({ "op": "await", "channels": channels, "consumer": "desk" });
        ChannelTool(it.channels.clone()).call(&context, input).await
    };
    let Ok(Step::Done(_)) = call(&["jobs", "news"]).await else { panic!("news has consumers") };
    assert!(call(&["jobs"]).await.is_err(), "no channel has consumers");
}

#[tokio::test]
async fn a_name_of_the_config_is_changed_in_the_config() {
    let it = setup(json!({ "jobs": {} }));
    let refused = it.create("jobs", ChannelConfig::default(), &by(&caller("ann"), None)).await.expect_err("declared");
    let hint = refused.hint().unwrap_or_default();
    assert!(hint.contains("config file") && !hint.contains("update_channel"), "{hint}");
}
