//! The backend of commands that read, or change something small: the server while one runs, else an instance in this process
//! that executes no runs. It starts no server.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use drawloom_contract::{
    failure::{Failure, FailureKind},
    ids::RunId,
    record::Seq,
};
use drawloom_wire::{
    channels::FollowChannel,
    client::{Client, ClientError},
    memory::WatchMemory,
    request::Description,
    upstream::{Address, Upstream},
};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{Mutex, OnceCell};

use super::{Executing, Need, exclusive};
use crate::{
    backend::{Backend, Events},
    clock::SystemClock,
    commands::{Session, demo::no_room, status::server_of},
    config::{self, Loaded},
    data_dir::{Access, DataDir, EMBEDDED},
    embedded::Embedded,
    environment,
    exit::CommandError,
    output::Format,
    parts::{Parts, Surface},
    project::Project,
    resolve, server_config,
    start::{Running, start},
    told,
};

/// The code of a failure that says that no server runs.
pub(crate) const NO_SERVER: &str = "no_server";

pub(crate) struct Fallback {
    command: String,
    need: Need,
    project: Project,
    client: Client,
    /// What is used once there was no server.
    own: OnceCell<Own>,
    /// One task at a time opens it.
    opening: Mutex<()>,
}

/// An instance in this process.
struct Own {
    backend: Embedded,
    running: Mutex<Option<Running>>,
    /// Keeps others from starting a server while this process owns the data.
    _start: Option<File>,
    /// The empty data directory of a command that only reads, in a project without a store; removed at the end.
    _empty: Option<TempDir>,
}

impl Fallback {
    pub(super) fn new(session: &Session, command: &str, need: Need) -> Result<Self, CommandError> {
        let project = match need {
            Need::Engine(_) | Need::Config => Project::find(&session.globals)?,
            Need::Change | Need::Journal => Project::find_data(&session.globals)?,
        };
        let server = server_of(&project.data);
        if let (Need::Config, Some(server)) = (need, &server) {
            server_config::check(server, &project.files)?;
            if server_config::is_changed(server) && session.output.format() == Format::Human {
                let note = server_config::note(server);
                if told::is_new(&project, &note) {
                    session.output.note(note.text);
                }
            }
        }
        let check = if need == Need::Config { project.files.clone() } else { Vec::new() };
        let upstream = Arc::new(Served { data: project.data.clone(), config: check });
        Ok(Self {
            command: command.to_owned(),
            need,
            client: Client::of(upstream, Arc::new(SystemClock)),
            project,
            own: OnceCell::new(),
            opening: Mutex::default(),
        })
    }

    pub(super) fn executing(&self) -> Executing {
        match (self.own.get(), self.need) {
            (None, _) => Executing::Server,
            (Some(_), Need::Change) => Executing::Here,
            // Other owners start or stop, or do something short.
            (Some(_), _) => match self.project.data.owner().filter(|owner| owner.command.ends_with(EMBEDDED)) {
                Some(owner) => Executing::Process(owner.pid),
                None => Executing::Nothing,
            },
        }
    }

    pub(super) async fn close(&self) {
        if let Some(own) = self.own.get()
            && let Some(running) = own.running.lock().await.take()
        {
            running.stop_or_leave().await;
        }
    }

    /// The instance in this process; nothing when a server was started meanwhile.
    async fn own(&self) -> Result<Option<&Own>, CommandError> {
        let _opening = self.opening.lock().await;
        if let Some(own) = self.own.get() {
            return Ok(Some(own));
        }
        let loaded = self.config()?;
        let Some((access, start_lock, empty)) = self.access().await? else { return Ok(None) };
        let running = start(Parts::from_config(loaded, access, Surface::Embedded, &crate::Extra::default())?).await?;
        let backend = Embedded::new(running.app.clone());
        let own = Own { backend, running: Mutex::new(Some(running)), _start: start_lock, _empty: empty };
        Ok(Some(self.own.get_or_init(async || own).await))
    }

    /// The config; an empty one when the journal is all that is needed and the config has mistakes.
    fn config(&self) -> Result<Loaded, CommandError> {
        let loaded = config::load_files(&self.project.shown);
        if !matches!(self.need, Need::Journal | Need::Change) {
            return loaded;
        }
        let is_whole = |loaded: &Loaded| resolve::resolve(loaded, &crate::Extra::default()).is_ok();
        loaded.ok().filter(is_whole).map_or_else(|| config::load_files(&[]), Ok)
    }

    /// What this process may do with the data.
    async fn access(&self) -> Result<Option<(Access, Option<File>, Option<TempDir>)>, CommandError> {
        let data = &self.project.data;
        let reads = matches!(self.need, Need::Config | Need::Journal);
        // A command that starts no run makes no store, so that the project can still adopt one.
        if !exists(&data.path().join(drawloom_store::FILE))? {
            let empty = tempfile::tempdir().map_err(|error| no_room(&error))?;
            let lock = DataDir::new(empty.path()).lock(&self.command)?;
            return Ok(Some((Access::Owner(lock), None, Some(empty))));
        }
        if reads && is_readable(data)? {
            return Ok(Some((Access::Reader(data.clone()), None, None)));
        }
        let owned = exclusive::own(&self.project, &self.command).await?;
        Ok(owned.map(|owned| (Access::Owner(owned.lock), Some(owned.start), None)))
    }

    /// Whether a call found no server.
    fn has_no_server(error: &ClientError) -> bool {
        matches!(error, ClientError::NoServer(failure) if failure.code == NO_SERVER)
    }
}

/// Whether a file is there. A directory of another user cannot be looked into, which is not the same as empty.
fn exists(file: &Path) -> Result<bool, CommandError> {
    file.try_exists().map_err(|error| {
        CommandError::usage("bad_data_dir", format!("cannot read {}: {error}", file.display()))
            .with_hint("make it readable for this user, or pass --data-dir")
    })
}

/// Whether a store can be read as it is; one of an earlier format must be brought up to date first.
fn is_readable(data: &DataDir) -> Result<bool, CommandError> {
    match drawloom_store::Store::read(data.path()).map_err(|error| CommandError::of(&error))? {
        drawloom_store::Found::Store(_) => Ok(true),
        drawloom_store::Found::Nothing | drawloom_store::Found::Older => Ok(false),
    }
}

#[async_trait]
impl Backend for Fallback {
    async fn call_json(&self, operation: &Description, input: Value) -> Result<Value, CommandError> {
        loop {
            if self.own.get().is_none() {
                match self.client.call_json(operation, input.clone()).await {
                    Err(error) if Self::has_no_server(&error) => {}
                    answer => return Ok(answer?),
                }
            }
            if let Some(own) = self.own().await? {
                let mut input = input;
                // This instance executes no runs, so a wait would only time out.
                if let Some(fields) = input.as_object_mut() {
                    fields.remove("wait_ms");
                }
                return own.backend.call_json(operation, input).await;
            }
        }
    }

    async fn follow(&self, run: RunId, after: Seq) -> Result<Events, CommandError> {
        // A server is asked first whether there is one: a stream begins without looking.
        if self.own.get().is_none() && server_of(&self.project.data).is_some() {
            return Ok(self.client.follow_run(run, after).map_err(CommandError::from).boxed());
        }
        match self.own().await? {
            Some(own) => own.backend.follow(run, after).await,
            None => Ok(self.client.follow_run(run, after).map_err(CommandError::from).boxed()),
        }
    }

    async fn follow_past(&self, run: RunId) -> Result<Events, CommandError> {
        if self.own.get().is_none() && server_of(&self.project.data).is_some() {
            return Ok(self.client.follow_past(run).map_err(CommandError::from).boxed());
        }
        match self.own().await? {
            Some(own) => own.backend.follow_past(run).await,
            None => Ok(self.client.follow_past(run).map_err(CommandError::from).boxed()),
        }
    }

    async fn follow_tree(&self, run: RunId, after: u64) -> Result<Events, CommandError> {
        if self.own.get().is_none() && server_of(&self.project.data).is_some() {
            return Ok(self.client.follow_tree(run, after).map_err(CommandError::from).boxed());
        }
        match self.own().await? {
            Some(own) => own.backend.follow_tree(run, after).await,
            None => Ok(self.client.follow_tree(run, after).map_err(CommandError::from).boxed()),
        }
    }

    async fn watch(&self, request: &WatchMemory) -> Result<Events, CommandError> {
        if self.own.get().is_none() && server_of(&self.project.data).is_some() {
            return Ok(self.client.watch_memory(request)?.map_err(CommandError::from).boxed());
        }
        match self.own().await? {
            Some(own) => own.backend.watch(request).await,
            None => Ok(self.client.watch_memory(request)?.map_err(CommandError::from).boxed()),
        }
    }

    async fn follow_channel(&self, request: &FollowChannel) -> Result<Events, CommandError> {
        if self.own.get().is_none() && server_of(&self.project.data).is_some() {
            return Ok(self.client.follow_channel(request)?.map_err(CommandError::from).boxed());
        }
        match self.own().await? {
            Some(own) => own.backend.follow_channel(request).await,
            None => Ok(self.client.follow_channel(request)?.map_err(CommandError::from).boxed()),
        }
    }

    fn address(&self) -> Option<Arc<str>> {
        self.client.base()
    }
}

/// The server that runs. None is started.
struct Served {
    data: DataDir,
    /// The config that it must have, when the command is about the config.
    config: Vec<PathBuf>,
}

#[async_trait]
impl Upstream for Served {
    async fn find(&self, _: Option<&Address>) -> Result<Address, Failure> {
        let server = server_of(&self.data)
            .ok_or_else(|| Failure::new(FailureKind::Unavailable, NO_SERVER, "no server runs for this project"))?;
        server_config::check(&server, &self.config)
            .map_err(|error| Failure::new(FailureKind::Invalid, "other_config", error.message))?;
        let token = environment::variable(environment::TOKEN).or_else(|| self.data.read_token());
        let instance = server.instance.as_deref().map(Into::into);
        Ok(Address { url: server.url.as_str().into(), instance, token: token.map(Into::into) })
    }

    fn known(&self) -> Option<Address> {
        let server = server_of(&self.data)?;
        Some(Address { url: server.url.as_str().into(), instance: None, token: None })
    }
}
