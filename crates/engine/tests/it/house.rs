//! A whole engine in a temporary directory.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    caller::{Caller, Proof, Visible},
    choice::{Effort, ModelName, Sampling},
    definition::{Definition, Definitions},
    executor::Executor,
    ids::{AgentName, RunId, RunKey, Tenant},
    journal::{Journal, RunReader},
    log::Log,
    model::{Deltas, ListedModel, Model, ModelCard, Turn, TurnError, TurnRequest},
    money::Price,
    record::{Body, Record},
    redact::Redactor,
    runs::{Interest, Item, Runs, Start, Started},
    time::{Clock, Entropy, Instant, NoEntropy, Timestamp},
    tool::{Holder, Place, Repeat, Step, Tool, ToolCard, ToolContext, ToolError, Volumes},
    values::KeyValue,
    view::RunView,
};
use drawloom_engine::{Config, Engine, Parts, Provider};
use drawloom_models::Script;
use drawloom_store::{Options, Previous, Store};
use futures::StreamExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

pub(crate) struct Wall;

#[async_trait]
impl Clock for Wall {
    fn wall(&self) -> Timestamp {
        let since = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
        Timestamp::from_millis(i64::try_from(since.as_millis()).expect("this age"))
    }

    fn now(&self) -> Instant {
        static BEGAN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
        Instant::from_origin(BEGAN.elapsed())
    }

    async fn sleep_until(&self, time: Instant) {
        tokio::time::sleep(time.since(self.now())).await;
    }
}

use crate::waiting::Late;

/// A clock that stands still until it is turned.
pub(crate) struct Hand {
    began: Timestamp,
    elapsed: watch::Sender<Duration>,
    /// How far the wall clock was set.
    set_by_ms: AtomicI64,
    /// How far it is set whenever somebody looks at it.
    leap_ms: AtomicI64,
}

impl Hand {
    pub(crate) fn new() -> Arc<Self> {
        let elapsed = watch::Sender::new(Duration::from_secs(1_000_000));
        Arc::new(Self { began: Wall.wall(), elapsed, set_by_ms: AtomicI64::new(0), leap_ms: AtomicI64::new(0) })
    }

    pub(crate) fn turn(&self, by: Duration) {
        self.elapsed.send_modify(|elapsed| *elapsed += by);
    }

    /// Sets the wall clock, and nothing else.
    pub(crate) fn set(&self, by_ms: i64) {
        self.set_by_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// From here on sets the wall clock whenever somebody looks at it: between any two looks it may be set.
    pub(crate) fn set_at_each_look(&self, by_ms: i64) {
        self.leap_ms.store(by_ms, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for Hand {
    fn wall(&self) -> Timestamp {
        let now = self.began.after(*self.elapsed.borrow());
        let set_by = self.set_by_ms.fetch_add(self.leap_ms.load(Ordering::SeqCst), Ordering::SeqCst);
        Timestamp::from_millis(now.as_millis() + set_by)
    }

    fn now(&self) -> Instant {
        Instant::from_origin(*self.elapsed.borrow())
    }

    async fn sleep_until(&self, time: Instant) {
        let due = time.since_origin();
        self.elapsed.subscribe().wait_for(|elapsed| *elapsed >= due).await.expect("the clock is there");
    }
}

/// Bytes that differ each time; what they are does not matter here.
struct Counter;

impl Entropy for Counter {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        // One count for all houses: one that opens another's directory must not mint its ids again.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mut number = NEXT.fetch_add(1, Ordering::Relaxed) as u64 ^ u64::from(std::process::id()) << 32;
        for byte in bytes {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            *byte = (number >> 56) as u8;
        }
        Ok(())
    }
}

struct Agents(BTreeMap<String, Arc<Definition>>);

impl Definitions for Agents {
    fn find(&self, _: &Tenant, name: &AgentName) -> Option<Arc<Definition>> {
        self.0.get(name.as_str()).cloned()
    }

    fn list(&self, _: &Tenant) -> Vec<Arc<Definition>> {
        self.0.values().cloned().collect()
    }

    fn unusable(&self, _: &Tenant, _: &AgentName) -> Option<String> {
        None
    }
}

struct NoVolumes;

impl Volumes for NoVolumes {
    fn locate(&self, _: Holder<'_>, _: Option<&str>, path: &str) -> Result<Place, ToolError> {
        Err(ToolError::Denied(format!("{path}: there are no volumes")))
    }
}

/// Counts calls in flight on the way to a model.
#[derive(Default)]
pub(crate) struct Meter {
    now: AtomicUsize,
    pub(crate) most: AtomicUsize,
    pub(crate) calls: AtomicUsize,
    /// The roots of the trees whose runs called it: providers keep a cache for each.
    pub(crate) roots: Mutex<HashSet<RunId>>,
}

struct Metered(Script, Arc<Meter>);

#[async_trait]
impl Model for Metered {
    fn card(&self, model: &str) -> ModelCard {
        self.0.card(model)
    }

    async fn look_up(&self, model: &str) {
        self.0.look_up(model).await;
    }

    fn ignored(&self, model: &str, sampling: &Sampling, effort: Option<Effort>) -> Vec<&'static str> {
        self.0.ignored(model, sampling, effort)
    }

    async fn list(&self) -> Result<Vec<ListedModel>, TurnError> {
        self.0.list().await
    }

    async fn turn(&self, request: TurnRequest, deltas: &dyn Deltas) -> Result<Turn, TurnError> {
        struct Leave<'a>(&'a Meter);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.now.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let now = self.1.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.1.most.fetch_max(now, Ordering::SeqCst);
        self.1.calls.fetch_add(1, Ordering::SeqCst);
        self.1.roots.lock().expect("no panic").insert(request.root);
        let _leave = Leave(&self.1);
        self.0.turn(request, deltas).await
    }
}

/// A tool of the tests: notes its calls, and can be slow or panic.
struct Probe(Arc<Mutex<Vec<Value>>>);

#[async_trait]
impl Tool for Probe {
    fn card(&self) -> ToolCard {
        ToolCard {
            name: "Probe".into(),
            description: "Notes.".into(),
            input_schema: json!({ "type": "object" }).into(),
        }
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Never
    }

    async fn call(&self, _: &ToolContext, input: Value) -> Result<Step, ToolError> {
        self.0.lock().expect("no panic while held").push(input.clone());
        if input["panic"] == json!(true) {
            panic!("as asked");
        }
        tokio::time::sleep(Duration::from_millis(input["ms"].as_u64().unwrap_or(0))).await;
        Ok(Step::done(format!("probed {}", input["say"].as_str().unwrap_or("nothing"))))
    }
}

/// A tool of the tests that does nothing.
struct Idle(u32);

#[async_trait]
impl Tool for Idle {
    fn card(&self) -> ToolCard {
        let name = format!("Idle{:03}", self.0);
        ToolCard { name, description: "Idles.".into(), input_schema: json!({ "type": "object" }).into() }
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    async fn call(&self, _: &ToolContext, _: Value) -> Result<Step, ToolError> {
        Ok(Step::done("idle"))
    }
}

/// Makes a reader of the store's.
pub(crate) type WrapReader = Arc<dyn Fn(Arc<dyn RunReader>) -> Arc<dyn RunReader> + Send + Sync>;

/// Agents, rules and caps of a test; `house!` style by plain JSON.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) rules: Value,
    pub(crate) config: Config,
    pub(crate) provider_cap: Option<u32>,
    pub(crate) secrets: Vec<String>,
    pub(crate) providers: BTreeMap<String, Arc<dyn Model>>,
    pub(crate) prices: BTreeMap<ModelName, Price>,
    pub(crate) agents: Vec<Definition>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) executors: BTreeMap<String, Arc<dyn Executor>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// Stands between the engine and what it reads.
    pub(crate) wrap_reader: WrapReader,
    /// Stands between the engine and what it writes.
    pub(crate) wrap_journal: WrapJournal,
    /// Stands between the engine and its logs.
    pub(crate) wrap_log: WrapLog,
    /// Stands between the engine and its values.
    pub(crate) wrap_values: WrapValues,
    /// Told of the store, once it is open.
    pub(crate) seams: Late,
    /// Tools `Idle000` and so on, which do nothing.
    pub(crate) idle_tools: u32,
}

pub(crate) type WrapJournal = Arc<dyn Fn(Arc<dyn Journal>) -> Arc<dyn Journal> + Send + Sync>;

pub(crate) type WrapLog = Arc<dyn Fn(Arc<Store>) -> Arc<dyn Log> + Send + Sync>;

pub(crate) type WrapValues = Arc<dyn Fn(Arc<Store>) -> Arc<dyn KeyValue> + Send + Sync>;

impl Plan {
    pub(crate) fn new(rules: Value) -> Self {
        let agents = ["alice", "bob", "carol"].map(|name| definition(name, |_| {}));
        Self {
            rules,
            config: Config::default(),
            provider_cap: None,
            secrets: Vec::new(),
            providers: BTreeMap::new(),
            prices: BTreeMap::new(),
            agents: agents.into(),
            tools: Vec::new(),
            executors: BTreeMap::new(),
            clock: Arc::new(Wall),
            entropy: Arc::new(Counter),
            wrap_reader: Arc::new(|reader| reader),
            wrap_journal: Arc::new(|journal| journal),
            wrap_log: Arc::new(|store| store),
            wrap_values: Arc::new(|store| store),
            seams: Late::default(),
            idle_tools: 0,
        }
    }

    /// A tool beside `Agent` and `Probe`.
    pub(crate) fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    pub(crate) fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    pub(crate) fn agent(mut self, name: &str, change: impl FnOnce(&mut Definition)) -> Self {
        self.agents.retain(|agent| agent.name.as_str() != name);
        self.agents.push(definition(name, change));
        self
    }

    /// A provider beside `script`, with a credential of its own.
    pub(crate) fn provider(mut self, id: &str, model: Arc<dyn Model>) -> Self {
        self.providers.insert(id.to_owned(), model);
        self
    }

    pub(crate) fn priced(mut self, provider: &str, model: &str, price: Price) -> Self {
        self.prices.insert(ModelName::new(provider, model), price);
        self
    }

    pub(crate) fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }
}

fn definition(name: &str, change: impl FnOnce(&mut Definition)) -> Definition {
    let mut definition = Definition {
        tools: vec!["Agent".into(), "Probe".into()],
        agents: vec!["*".into()],
        max_tokens: Some(1_000),
        ..drawloom_testkit::definition(name, "script", "scripted")
    };
    change(&mut definition);
    definition
}

pub(crate) struct House {
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<Store>,
    pub(crate) store_epoch: u64,
    pub(crate) meter: Arc<Meter>,
    pub(crate) probed: Arc<Mutex<Vec<Value>>>,
    pub(crate) caller: Caller,
    /// Kept so that the directory stays; absent for a house that was opened on somebody else's.
    _directory: Option<TempDir>,
}

impl House {
    pub(crate) fn new(plan: Plan) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut house = Self::at(directory.path(), plan);
        house._directory = Some(directory);
        house
    }

    pub(crate) fn at(directory: &Path, plan: Plan) -> Self {
        let opened = Store::open(&Options::new(directory), Wall.wall()).expect("a store");
        plan.seams.set(&opened.store);
        let meter = Arc::<Meter>::default();
        let probed = Arc::<Mutex<Vec<Value>>>::default();
        let options = serde_json::from_value(json!({ "rules": plan.rules })).expect("rules of the test");
        let script = Script::new("script", &options, plan.clock.clone()).expect("rules of the test");
        let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(drawloom_tools::Agent)];
        tools.push(Arc::new(Probe(probed.clone())));
        tools.extend(plan.tools);
        tools.extend((0..plan.idle_tools).map(|number| Arc::new(Idle(number)) as Arc<dyn Tool>));
        let model: Arc<dyn Model> = Arc::new(Metered(script, meter.clone()));
        let script = Provider { model, max_concurrent: plan.provider_cap, credential: None };
        let mut providers = BTreeMap::from([("script".to_owned(), script)]);
        for (id, model) in plan.providers {
            providers.insert(id.clone(), Provider { model, max_concurrent: None, credential: Some(id) });
        }
        let engine = Engine::new(Parts {
            config: plan.config,
            epoch: opened.epoch,
            previous_unclean: opened.previous == Previous::Unclean,
            journal: (plan.wrap_journal)(opened.store.clone()),
            reader: (plan.wrap_reader)(opened.store.clone()),
            logs: (plan.wrap_log)(opened.store.clone()),
            values: (plan.wrap_values)(opened.store.clone()),
            definitions: Arc::new(Agents(
                plan.agents.into_iter().map(|agent| (agent.name.to_string(), Arc::new(agent))).collect(),
            )),
            executors: plan.executors,
            providers,
            prices: plan.prices,
            tools,
            turned_off: BTreeMap::new(),
            sources: Vec::new(),
            volumes: Arc::new(NoVolumes),
            redactor: Arc::new(Redactor::new(plan.secrets)),
            clock: plan.clock,
            several_tenants: false,
            entropy: plan.entropy,
        });
        Self {
            engine,
            store: opened.store,
            store_epoch: opened.epoch,
            meter,
            probed,
            caller: Caller::open(Proof::Open),
            _directory: None,
        }
    }

    pub(crate) async fn start(&self, start: Start, interest: Interest) -> Started {
        self.engine.start(&self.caller, start, None, interest).await.expect("accepted")
    }

    /// Runs an agent to its end.
    pub(crate) async fn run(&self, agent: &str, prompt: &str) -> RunView {
        self.finish(self.start(ask(agent, prompt), Interest::Outcome).await).await
    }

    pub(crate) async fn finish(&self, started: Started) -> RunView {
        let item = started.live.expect("an interest").next().await.expect("an end").expect("no failure");
        let Item::Ended(view) = item else { panic!("not the end: {item:?}") };
        (*view).clone()
    }

    pub(crate) async fn journal(&self, view: &RunView) -> Vec<Record> {
        self.store.read_journal(&view.key(), 0, 10_000).await.expect("a journal")
    }

    /// The names of a run's records, in order.
    pub(crate) async fn kinds(&self, view: &RunView) -> Vec<&'static str> {
        self.journal(view).await.iter().map(|record| kind(&record.body)).collect()
    }

    pub(crate) async fn children(&self, view: &RunView) -> Vec<RunView> {
        let filter = drawloom_contract::journal::RunFilter { parent: Some(view.run), limit: 100, ..Default::default() };
        let mut children = self.store.list_runs(&Visible::whole(view.tenant.clone()), &filter).await.expect("children");
        children.sort_by_key(|child| child.parent.as_ref().map(|parent| (parent.call, parent.index)));
        children
    }

    /// The row once `holds` does; a test that never gets there ends by its own time limit.
    pub(crate) async fn until(&self, key: &RunKey, holds: impl Fn(&RunView) -> bool) -> RunView {
        let mut live = self.engine.follow(&self.caller, key.run, 0, Interest::Events).await.expect("a run");
        loop {
            let view = self.store.find_run(key).await.expect("a read").expect("a run");
            if holds(&view) {
                return view;
            }
            live.next().await.expect("it has not ended").expect("no failure");
        }
    }
}

pub(crate) fn ask(agent: &str, prompt: &str) -> Start {
    Start::new(agent.parse().expect("a name"), prompt)
}

pub(crate) fn kind(body: &Body) -> &'static str {
    match body {
        Body::Accepted(_) => "accepted",
        Body::Admitted { .. } => "admitted",
        Body::TurnStarted(_) => "turn_started",
        Body::TurnDone(_) => "turn_done",
        Body::Usage { .. } => "usage",
        Body::TurnFailed(_) => "turn_failed",
        Body::CallStarted(_) => "call_started",
        Body::CallWaiting { .. } => "call_waiting",
        Body::CallDone(_) => "call_done",
        Body::Parked { .. } => "parked",
        Body::Resumed(_) => "resumed",
        Body::LimitReached { .. } => "limit_reached",
        Body::StopRequested(_) => "stop_requested",
        Body::Switched(_) => "switched",
        Body::Notice { .. } => "notice",
        Body::Note { .. } => "note",
        Body::Finished(_) => "finished",
    }
}
