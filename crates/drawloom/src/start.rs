//! An instance from its parts: store, redactor, engine, surfaces; and its end in the opposite order.

mod report;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use drawloom_contract::{
    VERSION,
    definition::{Definitions as _, may_mean},
    failure::Failure,
    ids::Tenant,
    journal::{RunReader, StoreError},
    record::Epoch,
    retention::Retention,
    runs::Runs,
    time::{Clock, Timestamp},
    tool::ToolSource,
};
use drawloom_engine::{Engine, Provider, ResumeReport, StopReport};
use drawloom_models::{Driver, ProviderConfig};
use drawloom_process::Launcher;
use drawloom_server::{App, Goals, Limits, Monitor, auth::Auth, mcp::Configured};
use drawloom_store::{Found, Lost, Opened, Previous, Store};
use drawloom_substrate::{
    STORE_TOOLS, StoreParts,
    artifacts::Artifacts,
    channels::{ChannelParts, Channels},
    definitions::{RuntimeDefinitions, RuntimeParts},
    evaluations::{EvaluationParts, Evaluations, Versions},
    memory::{Memory, MemoryParts},
};
use drawloom_wire::request::Request;
use rustix::process::{Resource, getrlimit};

use crate::{
    anchor::SteadyClock,
    backend::Backend,
    channels::StoreBacklog,
    clock, config,
    data_dir::{Access, ServerFile},
    definitions::SourceValidator,
    embedded::Embedded,
    environment,
    exit::CommandError,
    goals,
    idle::{self, Use},
    leftovers, logging,
    memory::StoreSearch,
    metrics::{self, Facts, ProcessFacts, StoreFiles},
    models::KnownModels,
    parts::{Parts, StoreSeams, Surface, several_tenants, tenants},
    project,
    resolve::{LAUNCHER, Resolved, clis},
    retention::{self, Sweeps},
    server_config,
};

pub use crate::signals::stop_signal;

/// How long a command without a server waits for steps in flight when it is interrupted: the user waits for the prompt.
const EMBEDDED_DRAIN_MS: u64 = 1_000;

/// An instance that runs.
pub struct Running {
    /// Where it is, when it serves.
    pub url: Option<String>,
    /// What it took up, when it serves.
    pub resumed: Option<ResumeReport>,
    /// Runs that others left unfinished, when it does not serve.
    pub left_unfinished: u64,
    /// The operations, for use inside the process.
    pub app: Arc<App>,
    engine: Arc<Engine>,
    store: Arc<Store>,
    serving: Option<Serving>,
    /// Starts the outside servers that agents use, so that no run has to wait for them.
    warming: Option<AbortOnDropHandle<()>>,
    /// Removes what ended long ago, once an hour.
    sweeper: Option<AbortOnDropHandle<()>>,
    /// Takes up the folders of goals, and removes old checkouts.
    goals: Option<AbortOnDropHandle<()>>,
    channels: Arc<Channels>,
    /// Delivers deferred messages of channels, and removes expired ones.
    delivering: Vec<AbortOnDropHandle<()>>,
    /// The clock of a server, whose time is stored again when it stops.
    steady: Option<Arc<SteadyClock>>,
    /// Keeps what was defined at runtime in step with the store.
    _following: AbortOnDropHandle<()>,
    /// The outside servers.
    sources: Vec<Arc<dyn ToolSource>>,
    /// Whether the end before this one was unclean and no process took up what it left: then the next server must see it.
    unclean_before: bool,
    /// Whether steps were still in flight after a rest: then nothing is waited for any more.
    abandoned: AtomicBool,
    access: Access,
}

struct Serving {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Starts an instance: when this returns, it can take runs.
pub async fn start(mut parts: Parts) -> Result<Running, CommandError> {
    let explain = |error: StoreError| CommandError::of(&error);
    outlive_file_limit();
    let redactor = Arc::new(parts.redactor());
    logging::mask_also(parts.secrets());
    let listener = match &parts.surface {
        Surface::Serve { listen } => Some(bound(match parts.listener.take() {
            Some(listener) => listener,
            None => bind(listen).await?,
        })?),
        Surface::Embedded => None,
    };
    let address = listener.as_ref().map_or(SocketAddr::from(([127, 0, 0, 1], 0)), |(_, address)| *address);
    // Without a listener only this process calls.
    let auth = match &listener {
        Some(_) => parts.auth(address)?,
        None => Auth::new(address, &[], Vec::new()).map_err(|error| CommandError::of(&error))?,
    };
    // What a definition made at runtime may settle is reported when those are loaded.
    let open = parts.resolved.layers.open_findings();
    if listener.is_some() {
        report::findings(&parts.loaded, parts.resolved.findings.iter().filter(|finding| !open.contains(finding)));
    }

    let Opened { store, epoch, previous, lost } = open_store(&parts).map_err(explain)?;
    if let Some(lost) = lost {
        let hint = take_note(&lost);
        tracing::error!(hint, "{lost}");
    }
    let reader: Arc<dyn RunReader> = store.clone();
    let steady = SteadyClock::open(&*store, parts.clock.clone()).await.map_err(explain)?;
    parts.clock = steady.clone();
    if let Access::Owner(lock) = &parts.access {
        let checkouts = environment::checkouts(lock.directory().path());
        leftovers::sweep(lock.directory(), &*store, &parts.resolved.volumes, &checkouts).await.map_err(explain)?;
    }
    if let Surface::Serve { .. } = &parts.surface {
        steady.compare(&*store).await;
    }
    if let (Access::Owner(_), true) = (&parts.access, listener.is_some() || steady.is_first()) {
        steady.keep(&*store).await;
    }
    let models = parts.resolved.models.iter();
    let providers: BTreeMap<String, Provider> = models
        .map(|(id, model)| {
            let config = parts.loaded.config.providers.get(id);
            let max_concurrent = config.and_then(|provider| provider.max_concurrent);
            let credential = config.and_then(credential);
            (id.clone(), Provider { model: (parts.wrap_model)(id, model.clone()), max_concurrent, credential })
        })
        .collect();
    let mut config = parts.loaded.config.concurrency.clone();
    if parts.surface == Surface::Embedded {
        config.drain_timeout_ms = config.drain_timeout_ms.min(EMBEDDED_DRAIN_MS);
    }
    let seams = StoreSeams { journal: store.clone(), logs: store.clone(), values: store.clone() };
    let StoreSeams { journal, logs, values } = (parts.wrap_store)(seams);
    let memory = Memory::new(MemoryParts {
        config: parts.loaded.config.memory.clone(),
        values: values.clone(),
        search: Arc::new(StoreSearch(store.clone())),
        clock: parts.clock.clone(),
        redactor: redactor.clone(),
    });
    let channels = Channels::new(ChannelParts {
        layers: parts.resolved.layers.clone(),
        logs: logs.clone(),
        values: values.clone(),
        backlog: Arc::new(StoreBacklog(store.clone())),
        clock: parts.clock.clone(),
        entropy: parts.entropy.clone(),
        redactor: redactor.clone(),
    });
    let definitions = RuntimeDefinitions::new(RuntimeParts {
        layers: parts.resolved.layers.clone(),
        values: values.clone(),
        check: Arc::new(SourceValidator::default()),
        channels: Some(channels.clone()),
        clock: parts.clock.clone(),
        redactor: redactor.clone(),
    });
    if let Ok(data) = parts.access.directory().real_path() {
        parts.resolved.layers.keep_apart(data);
    }
    if let Access::Owner(_) = &parts.access {
        definitions.adopt_older().await.map_err(|error| CommandError::of(&error))?;
    }
    // Followed before it is read, so that nothing is missed between the two.
    let following = definitions.clone().follow();
    definitions.load().await.map_err(|error| CommandError::of(&error))?;
    if let Access::Owner(_) = &parts.access {
        definitions.finish_deletions().await.map_err(|error| CommandError::of(&error))?;
    }
    report::definitions(&parts.resolved);
    if listener.is_some() {
        report::findings(&parts.loaded, &parts.resolved.layers.open_findings());
        report::runtime_findings(&parts.resolved);
    }
    let evaluations = Evaluations::new(EvaluationParts {
        values: values.clone(),
        runs: store.clone(),
        lineage: Arc::new(Versions {
            definitions: parts.resolved.layers.clone(),
            runtime: definitions.clone(),
            reader: reader.clone(),
        }),
        clock: parts.clock.clone(),
        entropy: parts.entropy.clone(),
        redactor: redactor.clone(),
    });
    let store_parts = StoreParts {
        memory: memory.clone(),
        channels: channels.clone(),
        definitions: definitions.clone(),
        artifacts: Artifacts::new(values.clone(), parts.clock.clone()),
        evaluations: evaluations.clone(),
        reader: reader.clone(),
        clock: parts.clock.clone(),
        tools: parts.resolved.tools.clone(),
    };
    let backends = goals::known(parts.resolved.clis.clis());
    let goal_models = Arc::new(goals::GoalModels::new(&parts.resolved));
    let goals = goals::make(
        &parts.loaded,
        backends.clone(),
        goal_models.clone(),
        goals::Shared {
            values: values.clone(),
            clock: parts.clock.clone(),
            entropy: parts.entropy.clone(),
            redactor: redactor.clone(),
            launcher: Launcher::this_program(&[LAUNCHER]),
            temporary: parts.access.directory().path().join("tmp"),
            data: parts.access.directory().path().to_owned(),
            checkouts: environment::checkouts(parts.access.directory().path()),
        },
    )?;
    let anyone_calls = listener.is_some() && auth.is_open();
    let executors = clis::start(&parts.resolved, &parts.access, anyone_calls, goals.executors);
    let store_tools = STORE_TOOLS.iter().map(|tool| (tool.make)(&store_parts));
    let engine = Engine::new(drawloom_engine::Parts {
        config,
        epoch,
        previous_unclean: previous == Previous::Unclean,
        journal,
        reader: reader.clone(),
        logs,
        values,
        definitions: Arc::new(goals::BuiltIn::new(parts.resolved.layers.clone(), &backends)),
        providers,
        prices: parts.resolved.prices.clone(),
        executors,
        tools: parts.resolved.tools.iter().cloned().chain(store_tools).collect(),
        turned_off: parts.resolved.turned_off.clone(),
        sources: parts.resolved.servers.values().cloned().collect(),
        volumes: Arc::new(goals::WithCheckouts {
            others: parts.resolved.layers.clone(),
            table: parts.resolved.volumes.clone(),
            root: goals.repositories.root().to_owned(),
        }),
        redactor: redactor.clone(),
        clock: parts.clock.clone(),
        several_tenants: several_tenants(&parts.loaded),
        entropy: parts.entropy.clone(),
    });
    let runs: Arc<dyn Runs> = engine.clone();
    let sweeps = Arc::<Sweeps>::default();
    let pulse = Pulse {
        store: store.clone(),
        engine: engine.clone(),
        sweeps: sweeps.clone(),
        currency: parts.loaded.config.pricing.currency.clone(),
        started: parts.clock.wall(),
    };
    let mut tables = parts.tables;
    tables.push(Arc::new(Configured::new(parts.loaded.config.prompts.clone())));
    let folders = goals::Folders::new(runs.clone(), goals.repositories.clone());
    let host = goals::Host {
        config: parts.loaded.config.goals.clone(),
        backends,
        models: goal_models,
        repositories: goals.repositories.clone(),
        clis: parts.resolved.clis.clone(),
        folders: folders.clone(),
        is_open: anyone_calls,
    };
    let app = App::new(drawloom_server::Parts {
        goals: Goals { host: Arc::new(host), questions: goals.questions },
        runs,
        definitions: parts.resolved.layers.clone(),
        clock: parts.clock.clone(),
        entropy: parts.entropy.clone(),
        monitor: Arc::new(pulse),
        models: Arc::new(KnownModels::new(&parts.loaded, &parts.resolved)),
        retention: store.clone(),
        values: store.clone(),
        memory,
        evaluations,
        channels: channels.clone(),
        runtime: definitions,
        answers: store.clone(),
        operations: parts.operations,
        tables,
        redactor,
        auth,
        // After `serve` raised it.
        limits: Limits::for_open_files(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)),
    })
    .map_err(|error| CommandError::of(&error))?;
    let mut running = Running {
        url: None,
        resumed: None,
        left_unfinished: 0,
        app,
        engine,
        store,
        serving: None,
        warming: None,
        sweeper: None,
        goals: None,
        channels,
        delivering: Vec::new(),
        steady: None,
        _following: AbortOnDropHandle::new(tokio::spawn(following)),
        sources: parts.resolved.servers.values().cloned().collect(),
        unclean_before: false,
        abandoned: AtomicBool::new(false),
        access: parts.access,
    };
    match listener {
        Some((listener, address)) => {
            running.resumed = Some(running.engine.resume().await.map_err(CommandError::from)?);
            let url = format!("http://{address}");
            let Access::Owner(lock) = &running.access else { return Err(not_owned()) };
            lock.announce(&ServerFile {
                url: url.clone(),
                pid: std::process::id(),
                version: VERSION.into(),
                started_at: parts.clock.wall().to_rfc3339(),
                instance: Some(running.app.instance().to_owned()),
                config: config::absolute(&parts.loaded.files),
                config_digest: server_config::digest(&parts.loaded.files),
            })?;
            running.url = Some(url);
            running.serving = Some(serve(listener, running.app.clone()));
            running.warming = Some(AbortOnDropHandle::new(tokio::spawn(warm(&parts.resolved))));
            clock::watch();
            let retention: Arc<dyn Retention> = running.store.clone();
            let max_age = parts.loaded.config.retention.max_age();
            let kept = goals.repositories.clone().list_kept();
            let sweeping = retention::keep(retention, parts.clock.clone(), max_age, sweeps, kept);
            running.sweeper = Some(AbortOnDropHandle::new(tokio::spawn(sweeping)));
            let tenants = tenants(&parts.loaded);
            let repositories = goals.repositories.clone();
            running.goals = Some(AbortOnDropHandle::new(tokio::spawn(async move {
                let mut active = Vec::new();
                for tenant in tenants {
                    active.extend(folders.take_up(tenant).await);
                }
                repositories.empty_all(&active).await;
                repositories.retain(&active).await;
            })));
            let channels = &running.channels;
            let delivering = tokio::spawn(channels.clone().deliver_deferred());
            let trimming = tokio::spawn(channels.clone().sweep_expired());
            let marking = tokio::spawn(steady.clone().keep_on(running.store.clone()));
            running.delivering = [delivering, trimming, marking].map(AbortOnDropHandle::new).into();
            running.steady = Some(steady);
        }
        None => {
            let unfinished = reader.list_unfinished().await.map_err(explain)?;
            running.left_unfinished = unfinished.runs.len() as u64 + unfinished.parked;
            running.unclean_before = previous == Previous::Unclean && running.left_unfinished > 0;
        }
    }
    Ok(running)
}

/// What to do about a store whose end is missing.
pub(crate) fn take_note(lost: &Lost) -> String {
    let file = lost.file.display();
    format!("restore a backup with `drawloom restore FILE --force`, or remove {file} to go on with what is left")
}

/// Opens the store for the owner of the data directory, or for reading only.
fn open_store(parts: &Parts) -> Result<Opened, StoreError> {
    let Access::Reader(directory) = &parts.access else { return Store::open(&parts.store, parts.clock.wall()) };
    match Store::read(directory.path())? {
        Found::Store(store) => Ok(Opened { store, epoch: Epoch::default(), previous: Previous::Clean, lost: None }),
        Found::Nothing | Found::Older => Err(StoreError::Closed),
    }
}

fn not_owned() -> CommandError {
    CommandError::failed("bug", "a process that only reads cannot serve")
}

impl Running {
    /// Stops in order: takes no more requests, lets steps in flight come to their next record, closes the store, takes leave of
    /// outside servers.
    pub async fn stop(mut self) -> StopReport {
        // What it has begun goes on with the next server.
        drop(self.sweeper.take());
        drop(self.goals.take());
        self.delivering.clear();
        if let Some(steady) = self.steady.take() {
            steady.keep(&*self.store).await;
        }
        drop(self.warming.take());
        if let Some(serving) = &self.serving {
            serving.stop.cancel();
            if let Access::Owner(lock) = &self.access {
                lock.withdraw();
            }
        }
        let report = self.engine.stop().await;
        if let Some(serving) = self.serving
            && let Err(error) = serving.task.await
        {
            tracing::error!(error = %error, "the listener failed");
        }
        if !self.unclean_before
            && let Err(error) = self.store.close().await
        {
            tracing::error!(error = %error, "cannot close the store cleanly");
        }
        futures::future::join_all(self.sources.iter().map(|source| source.leave())).await;
        report
    }

    /// Stops the engine alone: what was asked to end comes to its end, steps in flight come to their next record. Says
    /// whether nothing is in flight any more; then the journal, which can still be read, does not change.
    pub(crate) async fn rest(&self) -> bool {
        let rests = self.engine.stop().await.abandoned == 0;
        self.abandoned.store(!rests, Ordering::Relaxed);
        rests
    }

    /// Stops in order, unless a further signal says that the user does not want to wait for that. Then what is in flight is
    /// abandoned as in a crash, which loses nothing that was acknowledged.
    pub async fn stop_or_leave(self) -> Option<StopReport> {
        if self.abandoned.load(Ordering::Relaxed) {
            return None;
        }
        let leave = stop_signal();
        tokio::select! {
            report = self.stop() => Some(report),
            () = leave => None,
        }
    }

    /// Returns after `limit` without a connection, an unfinished run and a deferred message.
    pub async fn until_idle(&self, clock: &dyn Clock, limit: Duration) {
        let use_of = Use { app: &self.app, runs: &*self.engine, reader: &*self.store, channels: &self.channels };
        idle::until_idle(&use_of, clock, limit).await;
    }

    /// Calls an operation inside the process, as commands with `--embedded` do.
    pub async fn call<R: Request>(&self, request: &R) -> Result<R::Output, CommandError> {
        let backend: &dyn Backend = &Embedded::new(self.app.clone());
        backend.call(request).await
    }

    /// The engine, to start runs without a surface.
    pub fn runs(&self) -> Arc<dyn Runs> {
        self.engine.clone()
    }
}

/// Asks every outside server that an agent lists tools of. What they say is kept; what goes wrong is logged, and tried
/// again when a run needs it.
fn warm(resolved: &Resolved) -> impl Future<Output = ()> + use<> {
    let agents = resolved.catalog.list(&Tenant::default_tenant());
    let patterns = agents.iter().flat_map(|agent| &agent.tools);
    let lists = |prefix: &str| patterns.clone().any(|pattern| may_mean(pattern, prefix));
    let servers: Vec<_> = resolved.servers.values().filter(|server| lists(server.prefix())).cloned().collect();
    async move {
        let asked = servers.iter().map(async |server| drop(server.offer().await));
        futures::future::join_all(asked).await;
    }
}

/// What a provider's limits are counted by: the same key at the same address is the same credential.
fn credential(provider: &ProviderConfig) -> Option<String> {
    let ProviderConfig { driver, base_url, api_key_env, .. } = provider;
    let address = base_url.as_deref().unwrap_or_default().trim_end_matches('/');
    (*driver != Driver::Script).then(|| format!("{driver:?} {address} {}", api_key_env.as_deref().unwrap_or_default()))
}

/// Where to listen.
pub(crate) fn listen_address(listen: &str) -> Result<SocketAddr, CommandError> {
    config::listen_address(listen).ok_or_else(|| {
        CommandError::usage("bad_listen", format!("{listen:?} is not an address to listen on"))
            .with_hint("write it like 127.0.0.1:8787, localhost:8787 or [::1]:8787; port 0 takes a free one")
    })
}

pub(crate) async fn bind(listen: &str) -> Result<TcpListener, CommandError> {
    let address = listen_address(listen)?;
    let explain = |error: std::io::Error| {
        let refused = CommandError::usage("cannot_listen", format!("cannot listen on {address}: {error}"));
        refused.with_hint(match project::at(address) {
            Some(holder) => format!("the server of {holder} has it; stop that one, or pass --listen with another port"),
            None => "another program may have the port; pass --listen with another one".into(),
        })
    };
    TcpListener::bind(address).await.map_err(explain)
}

/// With the address that it has.
fn bound(listener: TcpListener) -> Result<(TcpListener, SocketAddr), CommandError> {
    let address = listener.local_addr();
    let address = address.map_err(|error| CommandError::failed("cannot_listen", format!("cannot listen: {error}")))?;
    Ok((listener, address))
}

fn serve(listener: TcpListener, app: Arc<App>) -> Serving {
    let stop = CancellationToken::new();
    let shutdown = stop.clone();
    let task = tokio::spawn(drawloom_server::serve(listener, app, shutdown.cancelled_owned()));
    Serving { stop, task }
}

/// From here on a write that would make a file larger than this process may, fails: the signal that comes with it would end
/// the process. The signal is not used, the failure says enough.
fn outlive_file_limit() {
    if let Err(error) = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())) {
        tracing::warn!(%error, "a signal cannot be caught; a file that reaches its limit ends the process");
    }
}

/// Health and metrics, for `/healthz`, `/readyz` and `/metrics`.
struct Pulse {
    store: Arc<Store>,
    engine: Arc<Engine>,
    sweeps: Arc<Sweeps>,
    currency: String,
    started: Timestamp,
}

#[async_trait]
impl Monitor for Pulse {
    async fn check(&self) -> Result<(), Failure> {
        self.store.check().await.map_err(|error| Failure::of(&error))
    }

    async fn check_ready(&self) -> Result<(), Failure> {
        self.engine.refuse_when_stopping()?;
        self.check().await
    }

    fn metrics(&self) -> String {
        metrics::render(&Facts {
            counts: self.engine.counts(),
            load: self.engine.load_now(),
            store: self.store.stats(),
            files: StoreFiles::of(self.store.file()),
            sweeps: self.sweeps.counts(),
            process: ProcessFacts::read(),
            currency: &self.currency,
            started: self.started,
        })
    }
}

impl From<crate::data_dir::Error> for CommandError {
    fn from(error: crate::data_dir::Error) -> Self {
        use crate::data_dir::{Error, LOCK_GONE};
        match &error {
            Error::InUse { server: Some(server), .. } => Self::usage("in_use", error.to_string())
                .with_hint(format!("use its server at {}, or end that with `drawloom stop`", server.url)),
            Error::InUse { path, holder: Some(holder), server: None } if holder.command == LOCK_GONE => {
                crate::data_dir::gone(path, holder.pid)
            }
            Error::InUse { server: None, .. } => Self::usage("in_use", error.to_string())
                .with_hint("wait until it has ended, or pass another --data-dir"),
            Error::Io { .. } => Self::usage("bad_data_dir", error.to_string())
                .with_hint("make it writable for this user, or pass --data-dir"),
        }
    }
}
