//! Calls that wait for logs, values and times, effects that happen once, and calls that cost money.

use std::{
    io::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    ids::Tenant,
    journal::{CommitError, Committed, Entry, Journal, RunReader as _, StoreError},
    log::{Durability, Log, LogChange, LogChanged, LogKey, NewMessage, Page, Tail},
    money::Cost,
    once::{Applied, Once},
    record::{Body, Status},
    redact::Redactor,
    runs::{Interest, Runs as _, Start},
    time::{Clock as _, Timestamp},
    tool::{CallResult, Repeat, Step, Tool, ToolCard, ToolContext, ToolError, Woken},
    usage::Usage,
    values::{ChangeError, Expect, KeyValue, NewValue, Space, ValueChange, ValueKey},
    wait::{Cause, Wait},
};
use drawloom_store::Store;
use drawloom_testkit::EndingStreams;
use futures::{StreamExt as _, stream::BoxStream};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::house::{House, Plan, Wall, ask};

const SPACE: Space = Space::of("test");

/// The store of a house, for tools that are made before it.
#[derive(Clone, Default)]
pub(crate) struct Late(Arc<Mutex<Option<Arc<Store>>>>);

impl Late {
    pub(crate) fn set(&self, store: &Arc<Store>) {
        *self.0.lock().expect("no panic") = Some(store.clone());
    }

    pub(crate) fn get(&self) -> Arc<Store> {
        self.0.lock().expect("no panic").clone().expect("the house is open")
    }
}

pub(crate) fn log(name: &str) -> LogKey {
    LogKey { tenant: Tenant::default_tenant(), space: SPACE, name: name.into() }
}

pub(crate) fn value(name: &str) -> ValueKey {
    ValueKey { tenant: Tenant::default_tenant(), space: SPACE, owner: String::new(), key: name.into() }
}

fn clean(value: Value) -> drawloom_contract::redact::Redacted<Value> {
    Redactor::new([""; 0]).clean(value)
}

/// Appends a message, once for each id.
pub(crate) async fn post(logs: &dyn Log, name: &str, id: &str, once: Option<Once>) -> Result<LogChanged, ChangeError> {
    let message = NewMessage { id: id.into(), at: Timestamp::from_millis(1), body: clean(json!(id)) };
    let append = LogChange::Append { log: log(name), messages: vec![message], since: 0, keep: None };
    Ok(logs.change_log(append, once).await?.result)
}

/// Adds one to a number, once for each key; the number.
pub(crate) async fn count(
    values: &dyn KeyValue,
    name: &str,
    once: impl Fn(u64) -> Option<Once>,
) -> Result<u64, ChangeError> {
    let now = Timestamp::from_millis(1);
    loop {
        let found = values.find_value(&value(name), now).await.map_err(ChangeError::Store)?;
        let next = found.as_ref().and_then(|kept| kept.value.as_u64()).unwrap_or_default() + 1;
        let change = ValueChange {
            key: value(name),
            expect: found.map_or(Expect::Absent, |kept| Expect::Revision(kept.revision)),
            to: Some(NewValue { value: clean(json!(next)), expires_at: None, quota: None, searched: None }),
            at: now,
        };
        match values.change(vec![change], once(next)).await {
            Ok(applied) if applied.repeated => return Ok(applied.answer.as_u64().unwrap_or_default()),
            Ok(_) => return Ok(next),
            Err(ChangeError::Stale { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Asked {
    /// The log or value to wait for; a value if the name begins with `value`.
    name: String,
    #[serde(default)]
    kind: String,
    /// How long at most.
    #[serde(default)]
    ms: Option<u64>,
}

/// Waits for a message or a value, and says what woke it.
struct Listen(Late);

#[async_trait]
impl Tool for Listen {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Asked>("Listen", "Waits for a message or a value.")
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Keyed
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let Asked { name, mut kind, ms } = serde_json::from_value(input)?;
        if name.starts_with("value") {
            kind = "value".into();
        }
        let store = self.0.get();
        let store_failed = |error: StoreError| ToolError::Failed(error.to_string());
        let found = match kind.as_str() {
            "value" => {
                let kept = store.find_value(&value(&name), Timestamp::from_millis(1)).await.map_err(store_failed)?;
                kept.map(|kept| kept.value)
            }
            _ => {
                let page = store.read_log(&log(&name), 0, 1).await.map_err(store_failed)?;
                page.messages.into_iter().next().map(|message| message.body)
            }
        };
        // What comes now is neither read nor told: only a look can find it.
        tokio::time::sleep(Duration::from_millis(name.bytes().map(u64::from).sum::<u64>() % 7)).await;
        if let Some(found) = found {
            let times = count(&*store, "heard", |next| Some(context.once(0, json!(next)))).await?;
            return Ok(Step::done(format!("heard {found} as number {times}, woken {:?}", context.woken)));
        }
        if context.woken == Some(Woken::ByTime) {
            return Ok(Step::done("heard nothing"));
        }
        let cause = match kind.as_str() {
            "value" => Cause::Value { key: value(&name), revision: 0 },
            _ => Cause::Log { log: log(&name), after: 0 },
        };
        let until = ms.map(|ms| Wall.wall().after(Duration::from_millis(ms)));
        let on = if kind == "time" { Vec::new() } else { vec![cause] };
        Ok(Step::Wait(Wait { on, until }))
    }
}

pub(crate) fn listening(late: &Late) -> Plan {
    let rules = json!([
        { "when": { "turn": 1 }, "calls": [{ "tool": "Listen", "input": "{{prompt}}" }] },
        { "text": "{{last}}" },
    ]);
    let mut plan = Plan::new(rules).tool(Arc::new(Listen(late.clone())));
    plan.seams = late.clone();
    for agent in &mut plan.agents {
        agent.tools.push("Listen".into());
    }
    plan
}

/// A plan whose agents call `Listen` with each of these inputs in one turn.
pub(crate) fn calling(late: &Late, inputs: &[Value]) -> Plan {
    let calls: Vec<Value> = inputs.iter().map(|input| json!({ "tool": "Listen", "input": input })).collect();
    Plan { rules: json!([{ "when": { "turn": 1 }, "calls": calls }, { "text": "{{last}}" }]), ..listening(late) }
}

#[tokio::test]
async fn a_call_that_waits_is_made_again_when_its_log_its_value_or_its_time_has_come() {
    let late = Late::default();
    for (input, expected) in [
        (json!({ "name": "a", "kind": "log" }), "heard \"hello\" as number 1, woken Some(ByCause)"),
        (json!({ "name": "heard", "kind": "value" }), "woken Some(ByCause)"),
        (json!({ "name": "a", "kind": "log", "ms": 30 }), "heard nothing"),
        (json!({ "name": "a", "kind": "time", "ms": 30 }), "heard nothing"),
    ] {
        let house = House::new(calling(&late, std::slice::from_ref(&input)));
        let started = house.start(ask("alice", "x"), Interest::Outcome).await;
        let key = started.view.key();
        if input.get("ms").is_none() {
            house.until(&key, |view| view.status == Status::Waiting).await;
            assert_eq!(house.engine.load_now().active, 0, "a run that waits has no slot");
            match input["kind"].as_str() {
                Some("value") => _ = count(&*house.store, "heard", |_| None).await.expect("room"),
                _ => _ = post(&*house.store, "a", "hello", None).await.expect("room"),
            }
        }
        let view = house.finish(started).await;
        let text = view.final_text.clone().unwrap_or_default();
        assert!(text.contains(expected), "{input}: {text}");
        let records = house.journal(&view).await;
        let waits = records.iter().filter(|record| matches!(record.body, Body::CallWaiting { .. })).count();
        assert_eq!(waits, 1, "{input}");
        let replay = house.engine.replay(&house.caller, view.run).await.expect("a replay");
        assert!(replay.ok, "{replay:?}");
    }
}

#[tokio::test]
async fn of_two_calls_that_wait_each_is_answered_when_its_own_cause_comes() {
    let late = Late::default();
    let inputs = [json!({ "name": "a" }), json!({ "name": "b" })];
    let house = House::new(calling(&late, &inputs));
    let started = house.start(ask("alice", "x"), Interest::Outcome).await;
    let key = started.view.key();
    house.until(&key, |view| view.status == Status::Waiting).await;
    post(&*house.store, "b", "second", None).await.expect("room");
    let answered = |records: &[drawloom_contract::record::Record]| {
        records.iter().filter(|record| matches!(record.body, Body::CallDone(_))).count()
    };
    let view = house.until(&key, |view| view.seq > 10 && view.status == Status::Waiting).await;
    assert_eq!(answered(&house.journal(&view).await), 1);
    post(&*house.store, "a", "first", None).await.expect("room");
    let text = house.finish(started).await.final_text.expect("a text");
    assert!(text.contains("first") || text.contains("second"), "{text}");
}

/// Takes until it is told to end.
struct Hold(Arc<tokio::sync::Notify>);

#[async_trait]
impl Tool for Hold {
    fn card(&self) -> ToolCard {
        ToolCard::new::<()>("Hold", "Takes a while.")
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    async fn call(&self, _: &ToolContext, _: Value) -> Result<Step, ToolError> {
        self.0.notified().await;
        Ok(Step::done("held"))
    }
}

#[tokio::test]
async fn a_message_that_comes_while_another_call_is_under_way_is_heard_at_once() {
    let (late, end) = (Late::default(), Arc::<tokio::sync::Notify>::default());
    let mut plan = listening(&late).tool(Arc::new(Hold(end.clone())));
    let calls = json!([{ "tool": "Hold", "input": null }, { "tool": "Listen", "input": { "name": "a" } }]);
    plan.rules = json!([{ "when": { "turn": 1 }, "calls": calls }, { "text": "{{last}}" }]);
    plan.agents.iter_mut().for_each(|agent| agent.tools.push("Hold".into()));
    let house = House::new(plan);
    let started = house.start(ask("alice", "x"), Interest::Outcome).await;
    let key = started.view.key();
    let has = async |wanted: &'static str| {
        let mut live = house.engine.follow(&house.caller, key.run, 0, Interest::Events).await.expect("a run");
        while !house.kinds(&started.view).await.contains(&wanted) {
            live.next().await.expect("it has not ended").expect("no failure");
        }
    };
    has("call_waiting").await;
    post(&*house.store, "a", "hello", None).await.expect("room");
    has("call_done").await;
    end.notify_one();
    assert_eq!(house.finish(started).await.status, Status::Completed);
}

#[tokio::test]
async fn a_run_that_waits_can_be_cancelled_and_is_forgotten() {
    let late = Late::default();
    let house = House::new(calling(&late, &[json!({ "name": "a", "ms": 3_600_000 })]));
    let started = house.start(ask("alice", "x"), Interest::Outcome).await;
    let key = started.view.key();
    house.until(&key, |view| view.status == Status::Waiting).await;
    house.engine.cancel(&house.caller, key.run, None).await.expect("a run");
    assert_eq!(house.finish(started).await.status, Status::Cancelled);
    post(&*house.store, "a", "late", None).await.expect("room");
    assert_eq!(house.store.list_unfinished().await.expect("a read").waiting, []);
}

/// Sleeps for some milliseconds, another number each time.
struct Delays(AtomicU64);

impl Delays {
    async fn some(&self) {
        let number = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis((number >> 40) % 7)).await;
    }
}

/// A journal and a log with delays at both sides of every step of a wait: subscribing, committing, looking.
struct Slow {
    journal: Arc<dyn Journal>,
    store: Late,
    delays: Arc<Delays>,
}

#[async_trait]
impl Journal for Slow {
    async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        self.delays.some().await;
        let committed = self.journal.commit(entry).await;
        self.delays.some().await;
        committed
    }
}

#[async_trait]
impl Log for Slow {
    async fn change_log(&self, change: LogChange, once: Option<Once>) -> Result<Applied<LogChanged>, ChangeError> {
        self.store.get().change_log(change, once).await
    }

    async fn read_log(&self, log: &LogKey, after: u64, limit: u32) -> Result<Page, StoreError> {
        self.store.get().read_log(log, after, limit).await
    }

    async fn head(&self, log: &LogKey) -> Result<u64, StoreError> {
        self.delays.some().await;
        let head = self.store.get().head(log).await;
        self.delays.some().await;
        head
    }

    fn tail(&self, space: &Space) -> BoxStream<'static, Tail> {
        self.store.get().tail(space)
    }

    fn durability(&self) -> Durability {
        self.store.get().durability()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_whenever_the_message_comes() {
    let late = Late::default();
    let delays = Arc::new(Delays(AtomicU64::new(4711)));
    let mut plan = listening(&late);
    let (slow_journal, slow_log) = (delays.clone(), delays.clone());
    let (first, second) = (late.clone(), late.clone());
    plan.wrap_journal =
        Arc::new(move |journal| Arc::new(Slow { journal, store: first.clone(), delays: slow_journal.clone() }));
    plan.wrap_log =
        Arc::new(move |store| Arc::new(Slow { journal: store, store: second.clone(), delays: slow_log.clone() }));
    wake_all(plan, &delays).await;
}

/// Starts 150 runs that wait, most for a message and every third for a value, and makes that happen to each at another moment.
async fn wake_all(mut plan: Plan, delays: &Arc<Delays>) {
    let listen = json!([{ "tool": "Listen", "input": { "name": "{{prompt}}" } }]);
    plan.rules = json!([{ "when": { "turn": 1 }, "calls": listen }, { "text": "{{last}}" }]);
    let house = Arc::new(House::new(plan.config(|config| config.max_concurrent_runs = 16)));
    let runs = (0..150).map(|number| {
        let (house, delays) = (house.clone(), delays.clone());
        tokio::spawn(async move {
            let is_value = number % 3 == 0;
            let name = format!("{}{number}", if is_value { "value" } else { "log" });
            let started = house.start(ask("alice", &name), Interest::Outcome).await;
            for _ in 0..number % 9 {
                delays.some().await;
            }
            match is_value {
                true => _ = count(&*house.store, &name, |_| None).await.expect("room"),
                false => _ = post(&*house.store, &name, "m", None).await.expect("room"),
            }
            let ended = tokio::time::timeout(Duration::from_secs(60), house.finish(started)).await;
            let view = ended.unwrap_or_else(|_| panic!("run {number} was never woken"));
            assert!(view.final_text.as_deref().is_some_and(|text| text.contains("heard")), "{view:?}");
        })
    });
    for run in runs.collect::<Vec<_>>() {
        run.await.expect("woken");
    }
    let heard = house.store.find_value(&value("heard"), Timestamp::from_millis(1)).await.expect("a read");
    assert_eq!(heard.map(|kept| kept.value), Some(json!(150)), "each call counted once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_when_tails_and_watches_end() {
    let late = Late::default();
    let mut plan = listening(&late);
    let ending = Arc::<Mutex<Vec<Arc<EndingStreams<Store>>>>>::default();
    let end = move |store: Arc<Store>, ending: &Mutex<Vec<Arc<EndingStreams<Store>>>>| {
        let streams = Arc::new(EndingStreams::new(store));
        ending.lock().expect("no panic").push(streams.clone());
        streams
    };
    let (logs, values) = (ending.clone(), ending.clone());
    plan.wrap_log = Arc::new(move |store| end(store, &logs));
    plan.wrap_values = Arc::new(move |store| end(store, &values));
    wake_all(plan, &Arc::new(Delays(AtomicU64::new(4711)))).await;
    let opened: Vec<u64> = ending.lock().expect("no panic").iter().map(|streams| streams.opened()).collect();
    assert!(opened.iter().all(|count| *count > 2), "the streams did not end: {opened:?}");
}

/// Costs what it is told, at most what it is told.
struct Paid;

#[derive(Deserialize, JsonSchema)]
struct Price {
    cost: u64,
}

#[async_trait]
impl Tool for Paid {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Price>("Paid", "Costs money.")
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    fn most_cost(&self, _: &ToolContext, input: &Value) -> Option<Cost> {
        input["most"].as_u64().map(Cost)
    }

    async fn call(&self, _: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let Price { cost, .. } = serde_json::from_value(input)?;
        Ok(Step::Done(CallResult { text: format!("cost {cost}"), cost: Some(Cost(cost)), usage: Usage::default() }))
    }
}

#[tokio::test]
async fn what_a_tool_costs_is_reserved_before_and_settled_after_in_the_budget_of_the_tree() {
    let call = |most: u64, cost: u64| json!({ "tool": "Paid", "input": { "most": most, "cost": cost } });
    let rules = json!([
        { "when": { "agent": "alice", "turn": 1 }, "calls": [call(60, 10), call(60, 10), call(1_000, 1)] },
        { "when": { "agent": "alice", "turn": 2 }, "calls": [call(70, 70)] },
        { "when": { "agent": "alice", "turn": 3 }, "calls": [call(11, 11)] },
        { "text": "{{last}}" },
    ]);
    let free =
        drawloom_contract::money::Price { input: Cost(0), output: Cost(0), cache_write: Cost(0), cache_read: Cost(0) };
    let plan = Plan::new(rules).tool(Arc::new(Paid)).priced("script", "scripted", free).agent("alice", |agent| {
        agent.tools.push("Paid".into());
    });
    let house = House::new(plan);
    let start = Start { budget_cost: Some(Cost(100)), ..ask("alice", "x") };
    let view = house.finish(house.start(start, Interest::Outcome).await).await;
    assert_eq!((view.status, view.cost), (Status::Completed, Some(Cost(90))));
    let results: Vec<String> = house
        .journal(&view)
        .await
        .iter()
        .filter_map(|record| match &record.body {
            Body::CallDone(done) => Some(done.text.clone()),
            _ => None,
        })
        .collect();
    // The second waited for the first, because both together might have cost too much; the third can never be paid.
    assert_eq!((results[0].as_str(), results[2].as_str()), ("cost 10", "cost 10"), "{results:?}");
    assert!(results[1].starts_with("budget_exhausted: this call may cost"), "{results:?}");
    assert_eq!(results[3], "cost 70");
    assert!(results[4].starts_with("budget_exhausted"), "{results:?}");
}

/// Bytes of memory that the process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

const PARKED: &str = "DRAWLOOM_TEST_PARKED_RUNS";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_run_takes_less_than_4_kib() {
    const NAME: &str = "waiting::a_parked_run_takes_less_than_4_kib";
    if std::env::var_os(PARKED).is_none() {
        // In a process of its own: other tests take memory too.
        let me = std::env::current_exe().expect("a test binary");
        let output = std::process::Command::new(me).args([NAME, "--exact", "--nocapture"]).env(PARKED, "1").output();
        let output = output.expect("a process");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        std::io::stderr().write_all(&output.stderr).expect("a terminal or a file");
        return;
    }
    let runs: u64 = std::env::var("PROVE_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(6_000);
    let late = Late::default();
    let mut plan = listening(&late);
    let input = json!({ "name": "{{prompt}}", "ms": 3_600_000 });
    plan.rules =
        json!([{ "when": { "turn": 1 }, "calls": [{ "tool": "Listen", "input": input }] }, { "text": "{{last}}" }]);
    let house = House::new(plan.config(|config| config.max_queue_depth = 20_000));
    let park = async |names: std::ops::Range<u64>| {
        let mut keys = Vec::new();
        for number in names {
            keys.push(house.start(ask("alice", &format!("log{number}")), Interest::None).await.view.key());
        }
        let count = keys.len() as u64;
        for key in keys {
            house.until(&key, |view| view.status == Status::Waiting).await;
        }
        count
    };
    // What the first runs need is needed once.
    let warm = park(0..runs / 2).await;
    let before = resident();
    let count = park(warm..runs).await;
    let each = resident().saturating_sub(before) / count;
    writeln!(std::io::stderr(), "prove: {runs} parked runs take {each} bytes each").expect("a terminal or a file");
    assert_eq!(house.store.list_unfinished().await.expect("a read").waiting.len() as u64, runs);
    assert!(each < 4_096, "a parked run takes {each} bytes");
}
