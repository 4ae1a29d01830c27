//! The engine: its parts and its tasks.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use drawloom_contract::{
    choice::ModelName,
    definition::Definitions,
    executor::Executor,
    failure::{Failure, FailureKind},
    ids::{RunId, RunKey},
    journal::{Append, Entry, Journal, RunReader, StoreError},
    log::Log,
    model::Model,
    money::Price,
    record::{Body, Epoch, Outcome, Record, Stop},
    redact::Redactor,
    time::{Clock, Entropy, Timestamp},
    tool::{Outlives, Tool, ToolSource, Volumes},
    values::KeyValue,
    view::{Patch, RunView},
};
use futures::FutureExt;
use tokio::sync::Notify;
use tracing::Instrument as _;

use crate::{
    Config,
    activities::Activities,
    admission::{Admission, Caps},
    budget::Budgets,
    control::Control,
    executors::Executors,
    fallback::Cooldowns,
    feed::Feed,
    jumps::Jumps,
    limiter::Limiter,
    meters::{Counts, Meters},
    pins::Pins,
    stop, story,
    timers::{self, Timers},
    toolbox::Toolbox,
    trees::Trees,
    trial::Trials,
    waits::Waits,
};

/// How often a read may say that the store is damaged before that is believed: a disk may fail for a moment.
const DAMAGED_READS: u32 = 3;

/// A provider of models, opened.
#[derive(Clone)]
pub struct Provider {
    /// The way to it.
    pub model: Arc<dyn Model>,
    /// Most runs with a slot at once on it.
    pub max_concurrent: Option<u32>,
    /// What its limits are counted by: providers with the same one share a limiter. Without one nothing is limited.
    pub credential: Option<String>,
}

/// What an engine is made of.
pub struct Parts {
    /// How much may happen at once.
    pub config: Config,
    /// This process's number.
    pub epoch: Epoch,
    /// Whether the process before ended without saying so.
    pub previous_unclean: bool,
    /// The only write.
    pub journal: Arc<dyn Journal>,
    /// The way to what was written.
    pub reader: Arc<dyn RunReader>,
    /// Logs and values that calls may wait for.
    pub logs: Arc<dyn Log>,
    pub values: Arc<dyn KeyValue>,
    /// The agents.
    pub definitions: Arc<dyn Definitions>,
    /// Kinds of runs beside `model`, by name.
    pub executors: BTreeMap<String, Arc<dyn Executor>>,
    /// The providers, by id.
    pub providers: BTreeMap<String, Provider>,
    /// What models cost, where the operator says so.
    pub prices: BTreeMap<ModelName, Price>,
    /// The tools.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Tools that the config turned off, by name, of which an earlier process may have left calls that still run.
    pub turned_off: BTreeMap<String, Arc<dyn Outlives>>,
    /// Where more tools come from, which must be asked first.
    pub sources: Vec<Arc<dyn ToolSource>>,
    /// The way to files.
    pub volumes: Arc<dyn Volumes>,
    /// What masks secrets.
    pub redactor: Arc<Redactor>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Whether callers of more than one tenant can come. Then none of them can hold all slots.
    pub several_tenants: bool,
    /// The source of random bytes.
    pub entropy: Arc<dyn Entropy>,
}

/// What a graceful stop came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopReport {
    /// Runs whose step in flight was abandoned at the deadline; they go on at the next start.
    pub abandoned: usize,
}

/// Runs agents.
pub struct Engine {
    /// Itself, for the tasks that hold on to it.
    me: Weak<Engine>,
    pub(crate) parts: Parts,
    pub(crate) executors: Executors,
    pub(crate) toolbox: Toolbox,
    pub(crate) pins: Pins,
    pub(crate) feed: Arc<Feed>,
    pub(crate) activities: Arc<Activities>,
    pub(crate) budgets: Budgets,
    pub(crate) limiter: Limiter,
    pub(crate) cooldowns: Cooldowns,
    pub(crate) meters: Meters,
    pub(crate) timers: Arc<Timers>,
    pub(crate) trials: Trials,
    pub(crate) waits: Waits,
    pub(crate) trees: Trees,
    pub(crate) jumps: Jumps,
    admission: Mutex<Admission>,
    active: Mutex<HashMap<RunKey, Arc<Control>>>,
    idle: Notify,
    stopping: AtomicBool,
    owned: Mutex<Owned>,
}

/// Whose runs this process takes up.
enum Owned {
    /// Everybody's: it serves.
    All,
    /// Only trees that it began itself, or was asked to take up.
    Roots(HashSet<RunId>),
}

impl Engine {
    /// An engine at rest. It takes up what is unfinished only when `resume` is called.
    pub fn new(parts: Parts) -> Arc<Self> {
        let caps = Caps {
            global: parts.config.max_concurrent_runs,
            per_tenant: parts.several_tenants.then(|| parts.config.max_concurrent_runs.saturating_sub(1).max(1)),
            per_user: Some(parts.config.max_concurrent_runs_per_user).filter(|cap| *cap > 0),
            providers: parts.providers.iter().filter_map(|(id, p)| Some((id.clone(), p.max_concurrent?))).collect(),
            queue_depth: parts.config.max_queue_depth,
        };
        let engine = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            executors: Executors::new(&parts.executors),
            toolbox: Toolbox::new(&parts.tools, &parts.sources),
            pins: Pins::default(),
            feed: Arc::default(),
            activities: Arc::default(),
            budgets: Budgets::default(),
            limiter: Limiter::default(),
            cooldowns: Cooldowns::default(),
            meters: Meters::default(),
            timers: Arc::default(),
            trials: Trials::default(),
            waits: Waits::default(),
            trees: Trees::default(),
            jumps: Jumps::default(),
            admission: Mutex::new(Admission::new(caps)),
            active: Mutex::default(),
            idle: Notify::new(),
            stopping: AtomicBool::new(false),
            owned: Mutex::new(Owned::Roots(HashSet::new())),
            parts,
        });
        tokio::spawn(timers::tick(Arc::downgrade(&engine)));
        engine
    }

    /// Stops in order: begins nothing new, lets what is in flight come to its next record, and gives up waiting for that
    /// after `drain_timeout_ms`. What is unfinished goes on at the next start.
    pub async fn stop(&self) -> StopReport {
        self.stopping.store(true, Ordering::SeqCst);
        self.admission().hold();
        for control in self.active().values() {
            control.drain();
        }
        let deadline = self.parts.clock.now().after(Duration::from_millis(self.parts.config.drain_timeout_ms));
        let drained = async {
            loop {
                let idle = self.idle.notified();
                if self.active().is_empty() {
                    return;
                }
                idle.await;
            }
        };
        tokio::select! {
            () = drained => {}
            () = self.parts.clock.sleep_until(deadline) => {}
        }
        StopReport { abandoned: self.active().len() }
    }

    /// What it has counted since it began.
    pub fn counts(&self) -> Counts {
        self.meters.counts()
    }

    /// What a model costs: what the operator says, else what is known of it.
    pub(crate) fn price(&self, name: &ModelName) -> Option<Price> {
        self.parts.prices.get(name).copied().or_else(|| self.card(name)?.price)
    }

    pub(crate) fn shared(&self) -> Arc<Self> {
        self.me.upgrade().expect("whoever calls a method holds the engine")
    }

    /// Fails when it takes no more runs.
    pub fn refuse_when_stopping(&self) -> Result<(), Failure> {
        match self.is_stopping() {
            false => Ok(()),
            true => Err(Failure::new(FailureKind::Unavailable, "stopping", "the server is shutting down")
                .with_hint("retry after it restarts; send an idempotency_key to avoid running it twice")),
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub(crate) fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn active(&self) -> MutexGuard<'_, HashMap<RunKey, Arc<Control>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn task_ended(&self) {
        if self.is_stopping() {
            self.idle.notify_waiters();
        }
    }

    /// Runs a task that drives `key`. When our own code panics in it, the run ends and says so, and the others go on.
    pub(crate) fn drive(self: &Arc<Self>, key: RunKey, task: impl Future<Output = ()> + Send + 'static) {
        let engine = self.me.clone();
        let span = tracing::debug_span!("run", run = %key.run);
        // Boxed, because a task is moved a dozen times from here to its place.
        let task = Box::pin(async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err()
                && let Some(engine) = engine.upgrade()
            {
                tracing::error!(run = %key.run, "run task panicked");
                engine.give_up(&key, Stop::Bug).await;
            }
        });
        tokio::spawn(task.instrument(span));
    }

    /// Ends a run without looking at its journal, because that cannot be read or our own code fails on it.
    pub(crate) async fn give_up(self: &Arc<Self>, key: &RunKey, stop: Stop) {
        let Some(Some(mut view)) = self.read(|| self.parts.reader.find_run(key)).await else { return };
        if view.status.is_terminal() {
            return;
        }
        self.forget_waiting(key);
        self.waits.forget(key);
        self.budgets.forget_everywhere(key);
        let (status, error) = stop::verdict(&stop, view.accepted_at);
        let outcome = Outcome {
            status,
            stop_reason: None,
            error: Some(error),
            final_text: None,
            usage: view.usage,
            cost: view.cost,
            warnings: view.warnings.clone(),
        };
        let body = Body::Finished(Box::new(outcome));
        let record = Record { seq: view.seq + 1, at: self.wall(), body };
        let records = vec![self.parts.redactor.clean(record)];
        view.apply(Patch::of([&*records[0]]));
        let expected = view.seq - 1;
        let append = Append { key: key.clone(), expected, records: records.clone(), exclusive_session: false };
        match self.parts.journal.commit(Entry::append(self.parts.epoch, append)).await {
            Ok(committed) => {
                let view = Arc::new(view);
                story::tell(key, &records);
                story::tell_end(&view);
                self.feed.publish(key, view.root, &records, Some(&view));
                for woken in committed.woken {
                    self.bring_back(&woken).await;
                }
            }
            Err(error) => tracing::error!(run = %key.run, %error, "cannot end the run"),
        }
    }

    /// From here on this process takes up everybody's runs.
    pub(crate) fn own_all(&self) {
        *self.owned.lock().unwrap_or_else(PoisonError::into_inner) = Owned::All;
    }

    /// This process takes up what belongs to these trees.
    pub(crate) fn own(&self, roots: impl Iterator<Item = RunId>) {
        if let Owned::Roots(known) = &mut *self.owned.lock().unwrap_or_else(PoisonError::into_inner) {
            known.extend(roots);
        }
    }

    pub(crate) fn owns(&self, root: RunId) -> bool {
        match &*self.owned.lock().unwrap_or_else(PoisonError::into_inner) {
            Owned::All => true,
            Owned::Roots(known) => known.contains(&root),
        }
    }

    /// Asks the store until it answers: what must go on cannot give up because a read failed. `None` when it cannot be read
    /// for good: it is damaged, also when asked again, or its files are gone. That is never the same as an empty answer.
    pub(crate) async fn read<T, F>(&self, mut ask: impl FnMut() -> F) -> Option<T>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut wait = Duration::from_millis(100);
        let mut damaged = 0;
        loop {
            match ask().await {
                Ok(value) => return Some(value),
                Err(error @ StoreError::Corrupt { .. }) if damaged + 1 >= DAMAGED_READS => {
                    tracing::error!(%error, "store is corrupted");
                    return None;
                }
                Err(StoreError::Corrupt { .. }) => damaged += 1,
                Err(StoreError::Gone { .. }) => {
                    self.store_gone();
                    return None;
                }
                Err(error) => tracing::error!(%error, "cannot read the store; retrying"),
            }
            self.parts.clock.sleep_until(self.parts.clock.now().after(wait)).await;
            wait = (wait * 2).min(Duration::from_secs(10));
        }
    }

    /// The failure of a read or a commit for its caller.
    pub(crate) fn unreadable(&self, error: &StoreError) -> Failure {
        if let StoreError::Gone { .. } = error {
            self.store_gone();
        }
        Failure::of(error)
    }

    /// Nothing is recorded any more: all who wait for a run get an error instead of waiting for ever.
    pub(crate) fn store_gone(&self) {
        self.feed.forget_all();
    }

    /// The wall clock, for records. A jump of it is logged once; no wait depends on it.
    pub(crate) fn wall(&self) -> Timestamp {
        let (wall, now) = (self.parts.clock.wall(), self.parts.clock.now());
        if let Some(by) = self.jumps.look(wall, now) {
            tracing::warn!(by_ms = by, "wall clock changed; deadlines and waits of this process are not affected");
        }
        wall
    }

    /// A number from 0 to `below`, by chance; 0 when the system gives no random bytes. Only waits are spread by it.
    pub(crate) fn chance(&self, below: u64) -> u64 {
        let mut bytes = [0; 8];
        if let Err(error) = self.parts.entropy.fill(&mut bytes) {
            tracing::warn!(%error, "cannot propagate a wait");
            bytes = [0; 8];
        }
        u64::from_le_bytes(bytes) % below.max(1)
    }
}

/// Runs, shortened for messages.
pub(crate) fn ids(runs: &[RunView]) -> Vec<RunId> {
    runs.iter().map(|view| view.run).collect()
}
