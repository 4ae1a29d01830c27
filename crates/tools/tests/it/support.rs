//! A volume, the parts of the tools, and a way to call one.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    definition::Definition,
    ids::{RunId, RunKey, Tenant, UserId},
    redact::Redactor,
    tool::{Guarded, Holder, Mode, Place, Repeat, Step, Tool, ToolContext, ToolError, Volumes},
};
use drawloom_net::guarded::{Dial, Resolve, Stream};
use drawloom_process::Launcher;
use drawloom_testkit::TestClock;
use drawloom_tools::{Config, Parts, builtin};
use futures::future::BoxFuture;
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes; whoever waits so long hangs.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

/// One volume that lets every path through as it is, so that the tools' own walls are tested; the substrate's are not.
struct Open {
    path: PathBuf,
    root: Arc<File>,
    mode: Mode,
    guarded: Arc<[Guarded]>,
}

impl Volumes for Open {
    fn locate(&self, _: Holder<'_>, _: Option<&str>, path: &str) -> Result<Place, ToolError> {
        let path = Path::new(path);
        let inside = path.strip_prefix(&self.path).unwrap_or(path);
        let inside = if inside == Path::new(".") { Path::new("") } else { inside };
        Ok(Place {
            volume: "v".into(),
            root: self.root.clone(),
            mode: self.mode,
            guarded: self.guarded.clone(),
            beside: Arc::default(),
            path: inside.into(),
        })
    }
}

/// Answers every name with one address, notes every dial and goes nowhere unless there is a server of its own.
#[derive(Default)]
pub(crate) struct Network {
    pub(crate) names: Mutex<Vec<(String, Vec<IpAddr>)>>,
    pub(crate) server: Mutex<Option<SocketAddr>>,
    pub(crate) dialled: Mutex<Vec<SocketAddr>>,
}

#[async_trait]
impl Resolve for Network {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut names = self.names.lock().expect("the lock");
        // A name with several answers gives them one after the other, the last one for ever.
        match names.iter().position(|(name, _)| name == host) {
            Some(at) if names[at].1.len() > 1 => Ok(vec![names[at].1.remove(0)]),
            Some(at) => Ok(names[at].1.clone()),
            None => Ok(vec!["93.184.216.34".parse().expect("an address")]),
        }
    }
}

#[async_trait]
impl Dial for Network {
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Stream>> {
        self.dialled.lock().expect("the lock").push(address);
        let server = *self.server.lock().expect("the lock");
        match server {
            Some(server) => Ok(Box::new(tokio::net::TcpStream::connect(server).await?)),
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}

/// A volume with tools around it.
pub(crate) struct Room {
    pub(crate) volume: TempDir,
    pub(crate) temporary: TempDir,
    pub(crate) mode: Mode,
    pub(crate) guarded: Arc<[Guarded]>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) config: Config,
    pub(crate) hosts: Vec<String>,
    pub(crate) network: Arc<Network>,
    /// Folders of skills; the agent may load all of them.
    pub(crate) skills: BTreeMap<String, PathBuf>,
    calls: AtomicU64,
}

impl Room {
    pub(crate) fn new() -> Self {
        let mut config = Config::default();
        config.bash.enabled = true;
        config.http.hosts = vec!["*".into()];
        let dir = || tempfile::tempdir().expect("a directory");
        Self {
            volume: dir(),
            temporary: dir(),
            mode: Mode::ReadWrite,
            guarded: Arc::default(),
            redactor: Arc::new(Redactor::new([""; 0])),
            config,
            hosts: vec!["*".into()],
            network: Arc::default(),
            skills: BTreeMap::new(),
            calls: AtomicU64::new(1),
        }
    }

    pub(crate) fn parts(&self) -> Parts {
        let own = std::env::current_exe().expect("this program");
        let program = own.parent().and_then(Path::parent).expect("deps").join("examples/tools_launcher");
        Parts {
            config: self.config.clone(),
            launcher: Launcher::new(program, &[]),
            temporary: self.temporary.path().to_owned(),
            staged: self.temporary.path().join("staged"),
            skills: self.skills.clone(),
            environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned()), ("SECRET".to_owned(), "s3cret".to_owned())]
                .into(),
            clock: Arc::new(TestClock::default()),
            resolve: self.network.clone(),
            dial: self.network.clone(),
        }
    }

    pub(crate) fn context(&self) -> ToolContext {
        let path = self.volume.path().to_owned();
        let root = Arc::new(File::open(&path).expect("the volume"));
        ToolContext {
            run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([1; 16]) },
            call: self.calls.fetch_add(1, Ordering::Relaxed),
            root: RunId::from_bytes([1; 16]),
            user: UserId::default_user(),
            depth: 0,
            definition: Arc::new(Definition {
                skills: self.skills.keys().map(|name| (name.clone(), String::new())).collect(),
                ..drawloom_testkit::definition("tester", "p", "m")
            }),
            hosts: self.hosts.clone().into(),
            volumes: Arc::new(Open { path, root, mode: self.mode, guarded: self.guarded.clone() }),
            redactor: self.redactor.clone(),
            evidence: None,
            woken: None,
            progress: Arc::new(()),
            began: drawloom_contract::time::Timestamp::from_millis(0),
        }
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        builtin(&self.parts()).into_iter().find(|tool| tool.card().name == name).expect("a built-in tool")
    }

    /// Calls a tool as a run does: evidence first, if the tool takes any, and removed in the end.
    pub(crate) async fn call(&self, name: &str, input: Value) -> Result<Step, ToolError> {
        self.call_later(name)(input).await
    }

    /// The same, for a call beside others.
    pub(crate) fn call_later(
        &self,
        name: &str,
    ) -> impl FnOnce(Value) -> BoxFuture<'static, Result<Step, ToolError>> + use<> {
        let (tool, mut context) = (self.tool(name), self.context());
        move |input| {
            let work = async move {
                let Repeat::Check(check) = tool.repeat() else { return tool.call(&context, input).await };
                context.evidence = check.evidence(&context, &input).await?;
                let done = tool.call(&context, input).await;
                check.discard(&context).await;
                done
            };
            Box::pin(async { tokio::time::timeout(HANGS, work).await.expect("it does not hang") })
        }
    }

    pub(crate) async fn done(&self, name: &str, input: Value) -> String {
        match self.call(name, input.clone()).await {
            Ok(Step::Done(answer)) => answer.text,
            other => panic!("{name} {input}: {other:?}"),
        }
    }

    pub(crate) async fn fails(&self, name: &str, input: Value) -> String {
        self.call(name, input.clone()).await.expect_err(&input.to_string()).to_string()
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.volume.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, content).expect("a file");
    }

    pub(crate) fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.volume.path().join(path)).expect(path)
    }
}

/// For counts that whoever reads the test's output wants to see.
pub(crate) fn report(line: &str) {
    use std::io::Write;
    writeln!(io::stderr(), "{line}").expect("standard error");
}
