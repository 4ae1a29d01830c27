//! The table of channels stays in step with the store, and dead-letter channels with those that they belong to.

use drawloom_contract::log::{Durability, LogChange, LogChanged, Page as LogPage, Tail};
use futures::stream::BoxStream;

use super::{super::place::DEFERRED, *};

/// A log right after whose trim the deferred messages become due.
struct DueAfterTrim {
    inner: Arc<Fake>,
    /// Delivers them, over the same store.
    other: Arc<Channels>,
}

#[async_trait]
impl Log for DueAfterTrim {
    async fn change_log(&self, change: LogChange, once: Option<Once>) -> Result<Applied<LogChanged>, ChangeError> {
        let is_trim = matches!(change, LogChange::Trim { .. });
        let changed = self.inner.change_log(change, once).await?;
        let range = Range { space: DEFERRED, within: Within::Space };
        let waiting = self.inner.list_values(&range, None, 100, Timestamp::from_millis(0)).await.expect("a store");
        for (key, _) in waiting.iter().filter(|_| is_trim) {
            self.other.deliver(key).await.expect("delivered");
        }
        Ok(changed)
    }

    async fn read_log(&self, log: &LogKey, after: u64, limit: u32) -> Result<LogPage, StoreError> {
        self.inner.read_log(log, after, limit).await
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
async fn a_message_that_becomes_due_during_a_purge_does_not_survive_it() {
    let (store, clock) = (Arc::<Fake>::default(), Arc::<SetClock>::default());
    let other = Channels::new(parts(&store, &clock, json!({ "jobs": {} })));
    let logs = Arc::new(DueAfterTrim { inner: store.clone(), other });
    let channels = Channels::new(ChannelParts { logs, ..parts(&store, &clock, json!({ "jobs": {} })) });
    let it = Setup::of(channels, store, clock);
    let (ann, (channel, place)) = (caller("ann"), it.place("jobs"));
    it.publish("jobs", json!("now")).await;
    let later = Publish { deliver_after_ms: Some(1_000), ..message(json!("later")) };
    it.channels.publish(&channel, &place, &later, &by(&ann, None), 0).await.expect("deferred");
    let purged = it.channels.purge(&channel, None, &by(&ann, None)).await.expect("purged");
    assert_eq!((&purged["purged"], &purged["deferred"]), (&json!(1), &json!(1)));
    assert_eq!(it.values("jobs").await, Vec::<Value>::new());
}

fn config(value: Value) -> ChannelConfig {
    serde_json::from_value(value).expect("a channel")
}

fn knows(it: &Setup, name: &str) -> bool {
    it.channels.find(&Tenant::default_tenant(), name).is_some()
}

/// Another table over the same store stands for a request that was cut off after its commit.
#[tokio::test]
async fn a_repeat_repairs_the_table_that_a_cut_off_request_left() {
    let it = setup(json!({}));
    let (cut_off, ann) = (it.restarted(json!({})).await, caller("ann"));
    let made = cut_off.create("ch", config(json!({})), &by(&ann, Some("create"))).await.expect("made");
    assert!(!knows(&it, "ch"));
    let again = it.create("ch", config(json!({})), &by(&ann, Some("create"))).await.expect("a repeat");
    assert_eq!((again, knows(&it, "ch")), (made, true));
    let deleted = cut_off.delete("ch", &by(&ann, Some("delete"))).await.expect("deleted");
    assert!(knows(&it, "ch"));
    it.publish("ch", json!("left")).await;
    let again = it.delete("ch", &by(&ann, Some("delete"))).await.expect("a repeat");
    assert_eq!((again, knows(&it, "ch")), (deleted, false));
    assert_eq!(it.channels.count(&Tenant::default_tenant(), "ch").await.expect("a store").messages, 0);
}

#[tokio::test]
async fn the_table_follows_the_store() {
    let it = setup(json!({}));
    let (other, ann) = (it.restarted(json!({})).await, caller("ann"));
    let following = tokio::spawn(it.definitions.clone().follow());
    let until = |is_known: bool| {
        let it = &it;
        async move {
            while knows(it, "ch") != is_known {
                tokio::task::yield_now().await;
            }
        }
    };
    other.create("ch", config(json!({})), &by(&ann, None)).await.expect("made");
    tokio::time::timeout(Duration::from_secs(5), until(true)).await.expect("it is known");
    other.delete("ch", &by(&ann, None)).await.expect("deleted");
    tokio::time::timeout(Duration::from_secs(5), until(false)).await.expect("it is forgotten");
    following.abort();
}

#[tokio::test]
async fn dead_letters_stay_when_their_channel_is_defined_and_go_with_the_channel_they_belong_to() {
    let (it, ann) = (setup(json!({})), caller("ann"));
    it.create("jobs", config(json!({})), &by(&ann, None)).await.expect("made");
    it.publish("jobs.dead", json!("kept")).await;
    it.create("jobs.dead", config(json!({})), &by(&ann, None)).await.expect("made");
    it.delete("jobs", &by(&ann, None)).await.expect("deleted");
    assert_eq!(it.values("jobs.dead").await, ["kept"], "it is defined on its own");
    it.create("jobs", config(json!({})), &by(&ann, None)).await.expect("made");
    it.publish("jobs.dead", json!("gone")).await;
    it.delete("jobs.dead", &by(&ann, None)).await.expect("deleted");
    assert_eq!(
        it.values("jobs.dead").await,
        Vec::<Value>::new(),
        "the dead-letter channel of jobs, without its messages"
    );
    it.delete("jobs", &by(&ann, None)).await.expect("deleted");

    for name in ["a", "b"] {
        let shared = config(json!({ "dead_letter": "lost" }));
        it.create(name, shared, &by(&ann, None)).await.expect("made");
    }
    it.publish("lost", json!("letter")).await;
    let first = it.delete("a", &by(&ann, None)).await.expect("deleted");
    assert_eq!(first["warnings"], Value::Null, "the other channel has it too");
    let last = it.delete("b", &by(&ann, None)).await.expect("deleted");
    assert!(last["warnings"][0].as_str().is_some_and(|text| text.contains("\"lost\"")), "{last}");
    assert_eq!(it.channels.count(&Tenant::default_tenant(), "lost").await.expect("a store").messages, 0);
}

#[tokio::test]
async fn a_dead_letter_channel_must_have_a_name_and_a_scope_that_fit() {
    let (it, ann) = (setup(json!({ "agents": { "scope": "agent" }, "all": {} })), caller("ann"));
    let long = it.create(&"x".repeat(124), config(json!({})), &by(&ann, None)).await.expect_err("too long");
    assert_eq!(long.code(), "channel_name_invalid");
    let named = config(json!({ "dead_letter": "lost" }));
    it.create(&"x".repeat(124), named, &by(&ann, None)).await.expect("it names one");
    it.create(&"y".repeat(123), config(json!({})), &by(&ann, None)).await.expect("short enough");
    for (name, other) in [
        ("mine", json!({ "scope": "user", "dead_letter": "agents" })),
        ("mine", json!({ "scope": "user", "dead_letter": "lost" })),
        ("agents.dead", json!({ "scope": "user" })),
    ] {
        let refused = it.create(name, config(other), &by(&ann, None)).await.expect_err("another scope");
        assert_eq!(refused.code(), "channel_scope_invalid", "{refused}");
    }
    let tenant = config(json!({ "scope": "user", "dead_letter": "all" }));
    it.create("mine", tenant, &by(&ann, None)).await.expect("the tenant's takes all");
    let wrong = serde_json::from_value(json!({ "a": { "scope": "user" }, "a.dead": { "scope": "agent" } }));
    assert_eq!(problems(&wrong.expect("channels")).len(), 2);
}
