//! Requests that wait: no wake-up is lost, wherever a message comes between.

use drawloom_contract::{
    log::{Durability, LogChange, LogChanged, NewMessage, Page as LogPage, Tail},
    once::Applied,
};
use futures::stream::BoxStream;

use super::*;

/// A log on which a message is published right after the look that found nothing, before that look returns.
struct Between {
    inner: Arc<Fake>,
    once: std::sync::atomic::AtomicBool,
}

#[async_trait]
impl Log for Between {
    async fn change_log(&self, change: LogChange, once: Option<Once>) -> Result<Applied<LogChanged>, ChangeError> {
        self.inner.change_log(change, once).await
    }

    async fn read_log(&self, log: &LogKey, after: u64, limit: u32) -> Result<LogPage, StoreError> {
        let page = self.inner.read_log(log, after, limit).await?;
        if page.messages.is_empty() && !self.once.swap(true, Ordering::SeqCst) {
            let body = Redactor::new([""; 0]).clean(json!({ "value": "between", "by": {} }));
            let messages = vec![NewMessage { id: "between".into(), at: Timestamp::from_millis(0), body }];
            let append = LogChange::Append { log: log.clone(), messages, since: 0, keep: None };
            self.inner.change_log(append, None).await.expect("appended");
        }
        Ok(page)
    }

    async fn head(&self, log: &LogKey) -> Result<u64, StoreError> {
        self.inner.head(log).await
    }

    fn tail(&self, space: &Space) -> BoxStream<'static, Tail> {
        self.inner.tail(space)
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }
}

#[tokio::test]
async fn a_message_between_the_look_and_the_wait_is_delivered() {
    let (store, clock) = (Arc::<Fake>::default(), Arc::<SetClock>::default());
    let logs = Arc::new(Between { inner: store.clone(), once: false.into() });
    let channels = Channels::new(ChannelParts { logs, ..parts(&store, &clock, json!({ "jobs": {} })) });
    let it = Setup::of(channels, store, clock);
    let (ann, (channel, place)) = (caller("ann"), it.place("jobs"));
    let mut listener = it.channels.listen([&place]);
    let by = by(&ann, None);
    let nothing = it.channels.subscribe(&channel, &place, &ask(9), &by).await.expect("a channel");
    assert!(matches!(nothing, Taken::Nothing(_)), "{nothing:?}");
    listener.changed().await;
    assert_eq!(values(it.channels.subscribe(&channel, &place, &ask(9), &by).await.expect("a channel")), ["between"]);
}

#[tokio::test]
async fn a_listener_is_woken_by_its_channel_alone_and_leaves_nothing_behind() {
    let it = setup(json!({ "a": {}, "b": {} }));
    let ((_, a), (_, b)) = (it.place("a"), it.place("b"));
    let (mut for_a, mut for_both) = (it.channels.listen([&a]), it.channels.listen([&a, &b]));
    it.publish("b", json!(1)).await;
    for_both.changed().await;
    let woken = tokio::select! {
        biased;
        () = for_a.changed() => true,
        () = async { for _ in 0..100 { tokio::task::yield_now().await } } => false,
    };
    assert!(!woken, "nothing came to this channel");
    it.publish("a", json!(1)).await;
    for_a.changed().await;
    for_both.changed().await;
    drop((for_a, for_both));
    assert_eq!(it.channels.hub.places(), 0);
}

#[tokio::test]
async fn a_member_that_waits_is_woken_when_another_gives_back() {
    let it = setup(json!({ "jobs": {} }));
    it.publish("jobs", json!("a")).await;
    let (ann, (channel, place)) = (caller("ann"), it.place("jobs"));
    let member = Subscribe { group: Some("g".into()), ..ask(9) };
    let by = by(&ann, None);
    let Taken::Messages(first) = it.channels.subscribe(&channel, &place, &member, &by).await.expect("a channel") else {
        panic!("there is a message");
    };
    let mut listener = it.channels.listen([&place]);
    let waits = it.channels.subscribe(&channel, &place, &member, &by).await.expect("a channel");
    let Taken::Nothing(nothing) = waits else { panic!("another has it") };
    assert_eq!(nothing.look_again, Some(Duration::from_millis(60_000)), "the lease says when to look again");
    let lease = Lease::read(first["messages"][0]["lease"].as_str().expect("a lease")).expect("a lease");
    it.channels.settle(&channel, &place, "g", &[lease], Settle::Nak, &by).await.expect("given back");
    listener.changed().await;
    assert_eq!(values(it.channels.subscribe(&channel, &place, &member, &by).await.expect("a channel")), ["a"]);
}
