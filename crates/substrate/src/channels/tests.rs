//! Channels over logs and values: once, in order, within bounds, at exact times.

mod checks;
mod gone;
mod groups;
mod kept;
mod limits;
mod readers;
mod table;
mod tool;
mod turns;
mod versions;
mod waiting;

use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

use drawloom_contract::{
    caller::{Caller, Proof},
    failure::Explain as _,
    time::NoEntropy,
    values::{Range, Within},
};
use drawloom_testkit::Memory as Fake;
use serde_json::json;

use super::*;
use crate::{
    OperatorConfig,
    definitions::{
        By as Maker, DefinitionError, DefinitionsConfig, Layers, Principals, RuntimeDefinitions, RuntimeParts,
        SourceCheck, SourceProblem,
    },
};

const SECRET: &str = "hunter2-hunter2";

/// A clock whose two times a test sets, in milliseconds.
#[derive(Default)]
pub(super) struct SetClock {
    wall: AtomicI64,
    now: AtomicU64,
}

impl SetClock {
    fn advance(&self, millis: u64) {
        self.wall.fetch_add(millis as i64, Ordering::SeqCst);
        self.now.fetch_add(millis, Ordering::SeqCst);
    }

    /// The wall clock is set.
    fn jump(&self, millis: i64) {
        self.wall.fetch_add(millis, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for SetClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::SeqCst) as i64)
    }

    fn now(&self) -> Instant {
        Instant::from_origin(Duration::from_millis(self.now.load(Ordering::SeqCst)))
    }

    async fn sleep_until(&self, time: Instant) {
        while self.now() < time {
            tokio::task::yield_now().await;
        }
    }
}

struct Zeros;

impl Entropy for Zeros {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        bytes.fill(0);
        Ok(())
    }
}

struct FakeBacklog(Arc<Fake>);

#[async_trait]
impl Backlog for FakeBacklog {
    async fn list_logs(&self, asked: &LogsAsked) -> Result<Vec<LogState>, StoreError> {
        let logs = self.0.logs().into_iter().filter(|(log, ..)| {
            let place = (log.tenant.clone(), log.name.clone());
            log.space == asked.space
                && asked.after.as_ref().is_none_or(|after| place > *after)
                && asked
                    .within
                    .as_ref()
                    .is_none_or(|(tenant, prefix)| log.tenant == *tenant && log.name.starts_with(prefix))
        });
        Ok(logs.take(asked.limit as usize).map(|(log, head, kept)| LogState { log, head, kept }).collect())
    }
}

/// Lets every source through: the validator has its own tests.
struct NoCheck;

impl SourceCheck for NoCheck {
    fn check(&self, _: drawloom_contract::definition::DefinitionKind, _: &mut Value) -> Vec<SourceProblem> {
        Vec::new()
    }
}

pub(super) struct Setup {
    channels: Arc<Channels>,
    definitions: Arc<RuntimeDefinitions>,
    store: Arc<Fake>,
    clock: Arc<SetClock>,
}

fn parts(store: &Arc<Fake>, clock: &Arc<SetClock>, config: Value) -> ChannelParts {
    let channels = serde_json::from_value(config).expect("channels");
    let operator = OperatorConfig { channels, ..OperatorConfig::default() };
    ChannelParts {
        layers: Layers::new(operator, Arc::default(), DefinitionsConfig::default(), Principals::default()).0,
        logs: store.clone(),
        values: store.clone(),
        backlog: Arc::new(FakeBacklog(store.clone())),
        clock: clock.clone(),
        entropy: Arc::new(Zeros),
        redactor: Arc::new(Redactor::new([SECRET])),
    }
}

fn setup(config: Value) -> Setup {
    let (store, clock) = (Arc::<Fake>::default(), Arc::<SetClock>::default());
    Setup::of(Channels::new(parts(&store, &clock, config)), store, clock)
}

impl Setup {
    fn of(channels: Arc<Channels>, store: Arc<Fake>, clock: Arc<SetClock>) -> Self {
        let definitions = RuntimeDefinitions::new(RuntimeParts {
            layers: channels.parts.layers.clone(),
            values: store.clone(),
            check: Arc::new(NoCheck),
            channels: Some(channels.clone()),
            clock: clock.clone(),
            redactor: channels.parts.redactor.clone(),
        });
        Self { channels, definitions, store, clock }
    }

    async fn create(&self, name: &str, config: ChannelConfig, by: &By<'_>) -> Result<Value, DefinitionError> {
        self.definitions.create_channel(name, config, &maker(by)).await
    }

    async fn update(
        &self,
        name: &str,
        change: impl Fn(&mut ChannelConfig) + Send + Sync,
        by: &By<'_>,
    ) -> Result<Value, DefinitionError> {
        self.definitions.update_channel(name, change, &maker(by)).await
    }

    async fn delete(&self, name: &str, by: &By<'_>) -> Result<Value, DefinitionError> {
        self.definitions.delete_channel(name, &maker(by)).await
    }

    /// The same store after a restart.
    async fn restarted(&self, config: Value) -> Self {
        let channels = Channels::new(parts(&self.store, &self.clock, config));
        let it = Self::of(channels, self.store.clone(), self.clock.clone());
        it.definitions.adopt_older().await.expect("a store");
        it.definitions.load().await.expect("a store");
        it.definitions.finish_deletions().await.expect("a store");
        it
    }

    fn place(&self, name: &str) -> (Arc<Channel>, Place) {
        let tenant = Tenant::default_tenant();
        let channel = self.channels.load_channel(&tenant, name).expect("a channel");
        let owner = match channel.config.scope {
            ChannelScope::User => ChannelOwner::User("ann".parse().expect("a user")),
            _ => ChannelOwner::Tenant,
        };
        (channel, Place::new(tenant, name, owner))
    }

    async fn publish(&self, name: &str, value: Value) -> Value {
        let (channel, place) = self.place(name);
        self.channels.publish(&channel, &place, &message(value), &by(&caller("ann"), None), 0).await.expect("published")
    }

    async fn take(&self, name: &str, ask: &Subscribe, by: &By<'_>) -> Result<Taken, ChannelError> {
        let (channel, place) = self.place(name);
        self.channels.subscribe(&channel, &place, ask, by).await
    }

    /// The values that a plain subscribe of Ann takes.
    async fn values(&self, name: &str) -> Vec<Value> {
        values(self.take(name, &ask(100), &by(&caller("ann"), None)).await.expect("a channel"))
    }
}

pub(super) fn values(taken: Taken) -> Vec<Value> {
    match taken {
        Taken::Nothing(_) => Vec::new(),
        Taken::Messages(answer) => {
            answer["messages"].as_array().expect("messages").iter().map(|message| message["value"].clone()).collect()
        }
    }
}

pub(super) fn message(value: Value) -> Publish {
    Publish { value, ttl: None, deliver_at: None, deliver_after_ms: None }
}

pub(super) fn ask(max_messages: u32) -> Subscribe {
    Subscribe { max_messages, bytes: u64::MAX, ..Subscribe::default() }
}

pub(super) fn caller(user: &str) -> Caller {
    Caller { subject: user.parse().expect("a user"), ..Caller::open(Proof::Open) }
}

/// The same for changes of definitions.
fn maker<'a>(by: &By<'a>) -> Maker<'a> {
    match by {
        By::Request { caller, key, .. } => Maker::Request { caller, key: key.clone() },
        By::Call(_) => panic!("no agent makes channels here"),
    }
}

/// A request without a key, or with this one.
pub(super) fn by<'a>(caller: &'a Caller, key: Option<&str>) -> By<'a> {
    let key = key.map(|key| RequestKey {
        tenant: caller.tenant.clone(),
        subject: caller.subject.clone(),
        operation: "publish_channel",
        key: Digest::of(key.as_bytes()),
        body: Digest::of(b"body"),
    });
    By::Request { caller, operation: "publish_channel", key }
}

#[tokio::test]
async fn a_message_is_taken_once_and_in_order() {
    let it = setup(json!({ "jobs": {} }));
    for number in 1..=5 {
        it.publish("jobs", json!(number)).await;
    }
    let ann = caller("ann");
    let first = it.take("jobs", &ask(2), &by(&ann, None)).await.expect("a channel");
    let Taken::Messages(answer) = &first else { panic!("there are messages") };
    assert_eq!((&answer["next_cursor"], &answer["more"]), (&json!("cur_2"), &json!(true)));
    assert_eq!(values(first), [1, 2]);
    // Another user reads on: a queue has one cursor.
    let bob = caller("bob");
    assert_eq!(values(it.take("jobs", &ask(100), &by(&bob, None)).await.expect("a channel")), [3, 4, 5]);
    assert_eq!(it.values("jobs").await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_repeat_with_the_same_key_publishes_nothing_and_reads_the_same_messages() {
    let it = setup(json!({ "jobs": {} }));
    let (ann, (channel, place)) = (caller("ann"), it.place("jobs"));
    let publish = || async {
        let by = by(&ann, Some("k"));
        it.channels.publish(&channel, &place, &message(json!(1)), &by, 0).await.expect("published")
    };
    assert_eq!(publish().await, publish().await);
    it.publish("jobs", json!(2)).await;
    let read = Some("read");
    let first = it.take("jobs", &ask(1), &by(&ann, read)).await.expect("a channel");
    assert_eq!(values(first.clone()), [1]);
    assert_eq!(it.take("jobs", &ask(1), &by(&ann, read)).await.expect("a channel"), first, "while there is more");
    assert_eq!(it.values("jobs").await, [2]);
    assert_eq!(
        it.take("jobs", &ask(1), &by(&ann, read)).await.expect("a channel"),
        first,
        "also when the channel is empty"
    );
}

#[tokio::test]
async fn each_consumer_of_a_broadcast_channel_gets_every_message() {
    let it = setup(json!({ "news": { "semantic": "topic" } }));
    it.publish("news", json!("a")).await;
    assert_eq!(it.values("news").await, ["a"]);
    it.publish("news", json!("b")).await;
    let bob = caller("bob");
    assert_eq!(values(it.take("news", &ask(9), &by(&bob, None)).await.expect("a channel")), ["a", "b"]);
    assert_eq!(it.values("news").await, ["b"]);
    let named = Subscribe { consumer: Some("screen".into()), ..ask(9) };
    assert_eq!(values(it.take("news", &named, &by(&bob, None)).await.expect("a channel")), ["a", "b"]);
    let refused = it.take("news", &Subscribe { consumer: Some("a/b".into()), ..ask(9) }, &by(&bob, None)).await;
    assert_eq!(refused.expect_err("a slash").code(), "channel_name_invalid");
}

#[tokio::test]
async fn a_full_channel_drops_the_oldest_and_says_so_to_both_sides() {
    let it = setup(json!({ "small": { "max_messages": 3 } }));
    for number in 1..=3 {
        assert_eq!(it.publish("small", json!(number)).await["dropped_oldest"], 0);
    }
    let fourth = it.publish("small", json!(4)).await;
    assert_eq!((&fourth["dropped_oldest"], &fourth["cursor"]), (&json!(1), &json!("cur_4")));
    assert!(fourth["warnings"][0].as_str().is_some_and(|text| text.contains("dropped")), "{fourth}");
    let Taken::Messages(read) = it.take("small", &ask(9), &by(&caller("ann"), None)).await.expect("a channel") else {
        panic!("there are messages");
    };
    assert_eq!(read["missed"], 1);
    assert!(read["warnings"][0].as_str().is_some_and(|text| text.starts_with("1 messages")), "{read}");
}

#[tokio::test]
async fn an_expired_message_is_never_read_and_the_sweeper_removes_it() {
    let it = setup(json!({ "short": { "default_ttl": 2 } }));
    it.publish("short", json!("a")).await;
    it.clock.advance(1_999);
    it.publish("short", json!("b")).await;
    let (channel, place) = it.place("short");
    let ann = caller("ann");
    let peek = async || it.channels.peek(&channel, &place, &ask(9), &by(&ann, None)).await.expect("a channel");
    assert_eq!(peek().await["messages"].as_array().map(Vec::len), Some(2));
    it.clock.advance(1);
    assert_eq!(peek().await["messages"].as_array().map(Vec::len), Some(1), "at exactly its time");
    assert_eq!(it.channels.sweep().await, Ok(1));
    assert_eq!(it.store.logs()[0].2, 1);
    assert_eq!(it.values("short").await, ["b"]);
    let long = Publish { ttl: Some(0), ..message(json!(1)) };
    let refused = it.channels.publish(&channel, &place, &long, &by(&ann, None), 0).await;
    assert_eq!(refused.expect_err("no time").code(), "bad_ttl");
}

#[tokio::test]
async fn many_expired_messages_are_passed_once() {
    let it = setup(json!({ "short": { "default_ttl": 1 } }));
    for number in 0..300 {
        it.publish("short", json!(number)).await;
    }
    it.clock.advance(1_000);
    it.publish("short", json!("live")).await;
    assert_eq!(it.values("short").await, ["live"]);
    assert_eq!(it.store.logs()[0].2, 1, "the reader removed what it passed");
}

#[tokio::test]
async fn expired_messages_behind_a_live_one_are_passed_once() {
    let it = setup(json!({ "short": {} }));
    let (ann, (channel, place)) = (caller("ann"), it.place("short"));
    let member = Subscribe { group: Some("g".into()), ..ask(1) };
    it.publish("short", json!("live")).await;
    assert_eq!(it.values("short").await, ["live"]);
    assert_eq!(values(it.take("short", &member, &by(&ann, None)).await.expect("a channel")), ["live"]);
    for number in 0..300 {
        let publish = Publish { ttl: Some(1), ..message(json!(number)) };
        it.channels.publish(&channel, &place, &publish, &by(&ann, None), 0).await.expect("published");
    }
    it.clock.advance(1_000);
    for ask in [ask(9), member.clone()] {
        let Taken::Nothing(nothing) = it.take("short", &ask, &by(&ann, None)).await.expect("a channel") else {
            panic!("all have expired");
        };
        assert_eq!((nothing.cursor, nothing.after), (301, 301), "{ask:?}");
    }
    it.publish("short", json!("next")).await;
    assert_eq!(it.values("short").await, ["next"]);
    assert_eq!(values(it.take("short", &member, &by(&ann, None)).await.expect("a channel")), ["next"]);
}

#[tokio::test]
async fn peek_gives_a_cursor_that_ack_accepts_and_a_cursor_never_goes_back() {
    let it = setup(json!({ "jobs": {} }));
    for number in 1..=4 {
        it.publish("jobs", json!(number)).await;
    }
    let (ann, (channel, place)) = (caller("ann"), it.place("jobs"));
    let peeked = it.channels.peek(&channel, &place, &ask(2), &by(&ann, None)).await.expect("a channel");
    assert_eq!(peeked["next_cursor"], "cur_2");
    let ack = async |cursor, key| it.channels.ack(&channel, &place, None, cursor, &by(&ann, key)).await;
    assert_eq!(ack(2, Some("a")).await.expect("forward")["cursor"], "cur_2");
    assert_eq!(ack(3, None).await.expect("forward")["cursor"], "cur_3");
    assert_eq!(ack(2, None).await.expect_err("back").code(), "channel_cursor_regression");
    assert_eq!(ack(2, Some("a")).await.expect("its first answer")["cursor"], "cur_2");
    assert_eq!(ack(5, None).await.expect_err("beyond").code(), "channel_cursor_invalid");
    let back = Subscribe { from: Some(1), ..ask(9) };
    let refused = it.take("jobs", &back, &by(&ann, None)).await.expect_err("back");
    assert_eq!(refused.code(), "channel_cursor_regression");
    assert_eq!(it.values("jobs").await, [4]);
    let again = Subscribe { from: Some(0), ..ask(9) };
    let all = it.channels.peek(&channel, &place, &again, &by(&ann, None)).await.expect("a channel");
    assert_eq!(all["messages"].as_array().map(Vec::len), Some(4), "a peek may look at everything");
}

#[tokio::test]
async fn a_deferred_message_is_published_when_due_and_once_across_a_restart() {
    let it = setup(json!({ "later": {} }));
    let (ann, (channel, place)) = (caller("ann"), it.place("later"));
    let later = |after| Publish { deliver_after_ms: Some(after), ..message(json!(after)) };
    for (key, after) in [("a", 500), ("b", 200), ("a", 500)] {
        let answer =
            it.channels.publish(&channel, &place, &later(after), &by(&ann, Some(key)), 0).await.expect("deferred");
        assert!(answer["visible_at"].is_string() && answer["cursor"].is_null(), "{answer}");
    }
    it.publish("later", json!("now")).await;
    assert_eq!(it.values("later").await, ["now"]);
    let again = it.restarted(json!({ "later": {} })).await;
    let task = tokio::spawn(again.channels.clone().deliver_deferred());
    let mut listener = again.channels.listen([&place]);
    again.clock.advance(199);
    tokio::task::yield_now().await;
    assert_eq!(again.values("later").await, Vec::<Value>::new());
    again.clock.advance(1);
    listener.changed().await;
    assert_eq!(again.values("later").await, [200]);
    again.clock.advance(300);
    listener.changed().await;
    assert_eq!(again.values("later").await, [500]);
    task.abort();
}

#[tokio::test]
async fn a_deferred_publish_that_is_repeated_after_its_time_gets_its_first_answer() {
    let it = setup(json!({ "later": {} }));
    let (ann, (channel, place)) = (caller("ann"), it.place("later"));
    let at = Publish { deliver_at: Some(Timestamp::from_millis(100)), ..message(json!("x")) };
    let send = async || it.channels.publish(&channel, &place, &at, &by(&ann, Some("k")), 0).await.expect("deferred");
    let first = send().await;
    it.clock.advance(200);
    assert_eq!(send().await, first);
    assert_eq!(it.values("later").await, Vec::<Value>::new(), "the server publishes it, once");
}

#[tokio::test]
async fn a_crash_between_delivery_and_removal_publishes_nothing_twice() {
    let it = setup(json!({ "later": { "max_messages": 1 } }));
    let (ann, (channel, place)) = (caller("ann"), it.place("later"));
    let later = Publish { deliver_after_ms: Some(10), ..message(json!("late")) };
    it.channels.publish(&channel, &place, &later, &by(&ann, None), 0).await.expect("deferred");
    let range = place::range_of(place.tenant(), place::DEFERRED, &place.name());
    let (key, kept) = it.store.list_values(&range, None, 1, it.clock.wall()).await.expect("values").pop().expect("one");
    it.channels.deliver(&key).await.expect("delivered");
    assert_eq!(it.values("later").await, ["late"]);
    // The message is gone from the log too, so that only the key of the delivery can tell.
    it.publish("later", json!("next")).await;
    let put = ValueChange::put(key.clone(), it.channels.parts.redactor.clean(kept.value), it.clock.wall(), None);
    it.store.change(vec![put], None).await.expect("as before the crash");
    it.channels.deliver(&key).await.expect("delivered");
    assert_eq!(it.values("later").await, ["next"]);
    assert_eq!(it.store.find_value(&key, it.clock.wall()).await, Ok(None));
}

#[tokio::test]
async fn a_channel_made_at_runtime_is_used_at_once_and_after_a_restart() {
    let it = setup(json!({ "fixed": {} }));
    let ann = caller("ann");
    let made = it.create("ch1", ChannelConfig::default(), &by(&ann, Some("k"))).await.expect("made");
    assert_eq!((&made["version"], &made["source"]), (&json!(1), &json!("runtime")));
    it.publish("ch1", json!(1)).await;
    let repeated = it.create("ch1", ChannelConfig::default(), &by(&ann, Some("k"))).await;
    assert_eq!(repeated, Ok(made), "a repeat makes nothing and keeps the messages");
    let taken = it.create("ch1", ChannelConfig::default(), &by(&ann, None)).await.expect_err("taken");
    assert_eq!(taken.code(), "channel_name_in_use");
    let fixed = it.create("fixed", ChannelConfig::default(), &by(&ann, None)).await.expect_err("declared");
    assert_eq!(fixed.code(), "channel_name_in_use");
    let updated = it.update("ch1", |config| config.max_messages = 2, &by(&ann, None)).await.expect("changed");
    assert_eq!((&updated["version"], &updated["max_messages"]), (&json!(2), &json!(2)));
    for refused in [
        it.update("fixed", |config| config.max_messages = 2, &by(&ann, None)).await,
        it.delete("fixed", &by(&ann, None)).await,
    ] {
        assert_eq!(refused.expect_err("of the config").code(), "channel_yaml_immutable");
    }
    let again = it.restarted(json!({ "fixed": {} })).await;
    assert_eq!(again.values("ch1").await, [1]);
    let other = "other".parse().expect("a tenant");
    assert_eq!(again.channels.find(&other, "ch1"), None, "another tenant does not see it");
    assert_eq!(again.channels.load_channel(&other, "ch1").expect_err("unknown").code(), "channel_not_declared");
}

#[tokio::test]
async fn a_purge_keeps_cursors_and_a_channel_that_is_made_again_is_empty() {
    let it = setup(json!({ "fixed": { "scope": "user" } }));
    let ann = caller("ann");
    for number in 1..=3 {
        it.publish("fixed", json!(number)).await;
    }
    let (channel, place) = it.place("fixed");
    let later = Publish { deliver_after_ms: Some(10), ..message(json!("late")) };
    it.channels.publish(&channel, &place, &later, &by(&ann, None), 0).await.expect("deferred");
    let purged = it.channels.purge(&channel, None, &by(&ann, None)).await.expect("purged");
    assert_eq!((&purged["purged"], &purged["deferred"]), (&json!(3), &json!(1)));
    assert_eq!(it.publish("fixed", json!(4)).await["cursor"], "cur_4", "sequences go on");
    assert_eq!(it.values("fixed").await, [4]);
    it.create("ch", ChannelConfig::default(), &by(&ann, None)).await.expect("made");
    it.publish("ch", json!("old")).await;
    assert_eq!(it.channels.count(&Tenant::default_tenant(), "ch").await.expect("a store").messages, 1);
    it.delete("ch", &by(&ann, None)).await.expect("deleted");
    assert_eq!(it.channels.find(&Tenant::default_tenant(), "ch"), None);
    it.create("ch", ChannelConfig::default(), &by(&ann, None)).await.expect("made again");
    assert_eq!(it.values("ch").await, Vec::<Value>::new());
}

#[tokio::test]
async fn every_limit_of_a_message_is_refused_with_its_number() {
    let it = setup(json!({ "jobs": {} }));
    let (ann, (channel, place)) = (caller("ann"), it.place("jobs"));
    let large = message(json!("x".repeat(MOST_VALUE_BYTES)));
    let refused = it.channels.publish(&channel, &place, &large, &by(&ann, None), 0).await.expect_err("too large");
    assert_eq!((refused.code(), refused.to_string().contains("65536")), ("value_too_large", true));
    let late = Publish { deliver_after_ms: Some(rules::MOST_DEFERRED_MS + 1), ..message(json!(1)) };
    let refused = it.channels.publish(&channel, &place, &late, &by(&ann, None), 0).await.expect_err("too late");
    assert_eq!(refused.code(), "bad_time");
    let masked = it.publish("jobs", json!(format!("the key is {SECRET}"))).await;
    assert!(masked["warnings"][0].as_str().is_some_and(|text| text.contains("secret")), "{masked}");
    let config = ChannelConfig { max_messages: MOST_MESSAGES + 1, ..ChannelConfig::default() };
    let refused = it.create("big", config, &by(&ann, None)).await.expect_err("too many");
    assert_eq!(refused.code(), "channel_setting_invalid");
    let names: Vec<String> = (0..=MOST_CHANNELS).map(|number| format!("c{number}")).collect();
    assert_eq!(check_names(&names).expect_err("too many").code(), "too_long");
    assert_eq!(check_names(&["a".into(), "a".into()]).expect_err("twice").code(), "repeated_channel");
}

#[tokio::test]
async fn a_broadcast_is_published_to_all_channels_once() {
    let it = setup(json!({ "a": {}, "b": {}, "c": {} }));
    let ann = caller("ann");
    let to: Vec<_> = ["a", "b", "c"].into_iter().map(|name| it.place(name)).collect();
    let send = async || it.channels.broadcast(&to, &message(json!(7)), &by(&ann, Some("k"))).await.expect("published");
    let first = send().await;
    assert_eq!((&first["published"], &first["failed"]), (&json!(3), &json!(0)));
    assert_eq!(send().await, first);
    for name in ["a", "b", "c"] {
        assert_eq!(it.values(name).await, [7]);
    }
}
