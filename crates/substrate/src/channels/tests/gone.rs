//! A channel that is deleted while others wait on it: they are woken, and told that it is gone.

use drawloom_contract::{
    tool::{Step, Tool as _, ToolError},
    wait::Cause,
};

use super::{super::tool::ChannelTool, tool::context, *};

async fn make(it: &Setup, name: &str) {
    it.create(name, ChannelConfig::default(), &by(&caller("ann"), None)).await.expect("made");
}

#[tokio::test]
async fn a_listener_is_woken_after_its_channel_is_gone() {
    let (it, ann) = (setup(json!({})), caller("ann"));
    make(&it, "ch").await;
    let ((_, place), (_, dead)) = (it.place("ch"), it.place("ch.dead"));
    let (mut listener, mut of_dead) = (it.channels.listen([&place]), it.channels.listen([&dead]));
    it.delete("ch", &by(&ann, None)).await.expect("deleted");
    for (listener, name) in [(&mut listener, "ch"), (&mut of_dead, "ch.dead")] {
        tokio::time::timeout(Duration::from_secs(5), listener.changed()).await.expect("woken");
        let gone = it.channels.load_channel(place.tenant(), name).expect_err("gone");
        assert_eq!(gone.code(), "channel_not_declared");
    }
}

#[tokio::test]
async fn a_waiting_call_waits_for_its_channels_definition_too_and_fails_when_that_is_gone() {
    let (it, ann) = (setup(json!({ "fixed": {} })), caller("ann"));
    make(&it, "ch").await;
    let context = context(1, &[], &["ch", "ch.dead", "fixed"]);
    let call = async |input: Value| ChannelTool(it.channels.clone()).call(&context, input).await;
    let one = |name: &str| json!({ "op": "subscribe", "channel": name, "wait_ms": 60_000 });
    let all = json!({ "op": "await", "channels": ["ch", "fixed"], "wait_ms": 60_000 });
    let records = |step: Result<Step, ToolError>| {
        let Ok(Step::Wait(wait)) = step else { panic!("it waits: {step:?}") };
        let values = wait.on.into_iter().filter_map(|cause| match cause {
            Cause::Value { key, revision } => Some((key, revision)),
            _ => None,
        });
        values.collect::<Vec<_>>()
    };
    assert_eq!(records(call(one("fixed")).await), []);
    for input in [one("ch"), one("ch.dead"), all.clone()] {
        let waits = records(call(input).await);
        let [(key, revision)] = waits.as_slice() else { panic!("one record: {waits:?}") };
        let kept = it.store.find_value(key, it.clock.wall()).await.expect("a store").expect("a record");
        assert_eq!((key.key.as_str(), kept.revision), ("ch", *revision), "nothing has changed yet");
    }
    it.delete("ch", &by(&ann, None)).await.expect("deleted");
    for input in [one("ch"), one("ch.dead"), all] {
        let Err(ToolError::Failed(error)) = call(input).await else { panic!("it is gone") };
        assert!(error.starts_with("channel_not_declared"), "{error}");
    }
}
