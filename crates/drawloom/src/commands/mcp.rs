//! `drawloom mcp`: the proxy between an MCP host on stdin and stdout and a server. Nothing else is ever on stdout, and
//! nothing of the engine runs here.

mod install;

pub(crate) use install::{HostOf, hosts_of};

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use clap::{Args, Subcommand};
use drawloom_contract::failure::Failure;
use drawloom_net::Configured;
use drawloom_wire::{
    mcp,
    upstream::{Address, Fixed, INSTANCE, Upstream},
};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tokio::net::{UnixStream, unix::pipe};

use crate::{
    cli::Look,
    clock::{SystemClock, SystemEntropy},
    commands::Session,
    connect, environment,
    exit::{CommandError, Exit},
    local::{Local, Surface},
    output::stdout,
    start::stop_signal,
};

/// Serve MCP on stdin and stdout for a host such as Claude Code, Codex or opencode
#[derive(Debug, Args)]
pub struct Mcp {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Option<McpCommand>,
}

/// Shown below the help.
pub(crate) const HELP: &str = "\
Without --upstream it uses the server of the project, and starts one if none is running. That server
stops after ten minutes without connections and active runs. If the server goes away, the command
reconnects for up to five minutes and sends unanswered requests again; nothing runs twice. Runs
continue after the host exits.";

/// What can be asked besides.
#[derive(Debug, Subcommand)]
enum McpCommand {
    /// Connect an MCP host: print or write its config
    Install(install::Install),
    /// Disconnect an MCP host: show or remove what `mcp install` wrote
    Uninstall(install::Uninstall),
}

/// Headers that say how a message travels: given twice, or otherwise, they would break it.
const OURS: [&str; 14] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    INSTANCE,
];

/// How further ones begin.
const OUR_PREFIXES: [&str; 2] = ["mcp-", "proxy-"];

/// How the proxy comes to its server.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Connection {
    /// Use this running server, with the token in DRAWLOOM_TOKEN [default: the server of the project]
    #[arg(long, global = true, value_name = "URL")]
    upstream: Option<String>,
    /// Offer these toolsets instead of the default one, separated by commas
    #[arg(long, global = true, value_name = "SET", value_delimiter = ',')]
    toolsets: Vec<String>,
    /// Tool timeout of the host in seconds; calls that take longer return a handle before it [default: MCP_TOOL_TIMEOUT of Claude Code]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    patience: Option<u64>,
    /// Send this header to the server, such as `X-Team: weavers`
    #[arg(long = "header", global = true, value_name = "NAME: VALUE")]
    headers: Vec<String>,
}

impl Mcp {
    /// The proxy has no format: its stdout belongs to the protocol.
    pub(crate) fn look(&self) -> Look {
        match &self.command {
            Some(McpCommand::Install(install)) => install.look,
            Some(McpCommand::Uninstall(uninstall)) => uninstall.look,
            None => Look::default(),
        }
    }

    /// Whether a host gets the tools of goals, which need no project.
    pub(crate) fn is_for_goals(&self) -> bool {
        let is_for_goals = self.connection.toolsets.iter().any(|name| name == "goal");
        self.command.is_none() && self.connection.upstream.is_none() && is_for_goals
    }

    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self.command {
            Some(McpCommand::Install(install)) => return install.perform(session, &self.connection),
            Some(McpCommand::Uninstall(uninstall)) => return uninstall.perform(session),
            None => {}
        }
        // One thread: starting more takes longer than the work that they would do.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CommandError::failed("no_runtime", format!("cannot start the async runtime: {error}")))?;
        let ended = runtime.block_on(self.connection.serve(session));
        // A read of stdin cannot be interrupted; its thread is left behind.
        runtime.shutdown_background();
        ended
    }
}

impl Connection {
    async fn serve(self, session: &Session) -> Result<Exit, CommandError> {
        let stop = stop_signal();
        let headers = self.headers()?;
        self.check_toolsets()?;
        let given = self.upstream.as_ref().or(session.globals.url.as_ref());
        let (upstream, http): (Arc<dyn Upstream>, _) = match given {
            Some(url) => {
                let endpoint = endpoint(url, &self.toolsets)?;
                let is_plain = endpoint.starts_with("http:") && !endpoint.contains('@');
                let http = if is_plain { Ok(Configured::plain()) } else { Configured::new() };
                let token = environment::variable(environment::TOKEN);
                (Arc::new(Fixed::new(&endpoint, token.as_deref())), http)
            }
            None => {
                let surface = Surface::Mcp { toolsets: self.toolsets.clone() };
                (Arc::new(Logged(Local::new(&session.globals, surface)?)), Ok(Configured::plain()))
            }
        };
        let parts = mcp::Parts {
            upstream,
            http: http.map_err(|error| CommandError::of(&error))?,
            headers,
            patience: self.patience.map(Duration::from_secs).or_else(patience_of_host),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy::default()),
        };
        let (stdin, stdout) = (io::stdin(), stdout());
        let _flags = [Flags::of(stdin.as_fd())?, Flags::of(stdout.as_fd())?];
        let (input, output) = (End::input(stdin.as_fd())?, End::output(stdout.as_fd())?);
        mcp::run(parts, input.reader(), output.writer(), Box::pin(stop)).await;
        Ok(Exit::Done)
    }

    fn headers(&self) -> Result<Vec<(String, String)>, CommandError> {
        let split = |header: &String| {
            let (name, value) = header.split_once(':').unwrap_or_default();
            let is_name =
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            let is_value = value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
            // What was given is not shown: it may hold a secret.
            if !is_name || !is_value {
                return Err(CommandError::usage("bad_header", "invalid --header: not in the form NAME: VALUE")
                    .with_hint("write it like --header 'X-Team: weavers'"));
            }
            let name = name.to_ascii_lowercase();
            if OURS.contains(&name.as_str()) || OUR_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                let what = format!("the header {name} cannot be set with --header");
                return Err(CommandError::usage("bad_header", what).with_hint("remove it"));
            }
            Ok((name, value.trim().to_owned()))
        };
        self.headers.iter().map(split).collect()
    }

    fn check_toolsets(&self) -> Result<(), CommandError> {
        let is_name =
            |name: &String| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        match self.toolsets.iter().find(|name| !is_name(name)) {
            None => Ok(()),
            Some(name) => Err(CommandError::usage("bad_toolsets", format!("{name:?} is not a toolset name"))
                .with_hint("write it like --toolsets core,runs, without spaces")),
        }
    }
}

/// The server of the data directory. What a user should know of it goes to the log, which hosts keep.
struct Logged(Local);

#[async_trait]
impl Upstream for Logged {
    async fn find(&self, failed: Option<&Address>) -> Result<Address, Failure> {
        let found = self.0.find(failed).await;
        self.0.take_notes().iter().for_each(|note| tracing::warn!("{}", note.text));
        found
    }

    fn known(&self) -> Option<Address> {
        self.0.known()
    }
}

/// What Claude Code was told of its own patience: it hands its environment down. It is in milliseconds.
fn patience_of_host() -> Option<Duration> {
    let millis = environment::variable("MCP_TOOL_TIMEOUT")?.trim().parse().ok()?;
    (millis >= 1_000).then(|| Duration::from_millis(millis))
}

/// The flags of an end as they were found. They belong to the host as well, which may go on to use the end.
struct Flags {
    end: OwnedFd,
    found: OFlags,
}

impl Flags {
    fn of(end: BorrowedFd<'_>) -> Result<Self, CommandError> {
        let found = fcntl_getfl(end).map_err(|error| closed(&error.into()))?;
        Ok(Self { end: end.try_clone_to_owned().map_err(|error| closed(&error))?, found })
    }
}

impl Drop for Flags {
    fn drop(&mut self) {
        // The other side is gone, so nothing can be reported to it.
        _ = fcntl_setfl(&self.end, self.found);
    }
}

fn closed(error: &io::Error) -> CommandError {
    CommandError::failed("no_pipe", format!("stdin or stdout is not open: {error}"))
}

/// One of the process's own ends: without a thread of its own when it is a pipe or a socket, as hosts make them.
enum End {
    In(pipe::Receiver),
    Out(pipe::Sender),
    Socket(UnixStream),
    /// Anything else, such as a file or a terminal, read and written in the background.
    File(tokio::fs::File),
}

impl End {
    fn input(end: BorrowedFd<'_>) -> Result<Self, CommandError> {
        Self::of(end, |end| pipe::Receiver::from_owned_fd(end).map(Self::In))
    }

    fn output(end: BorrowedFd<'_>) -> Result<Self, CommandError> {
        Self::of(end, |end| pipe::Sender::from_owned_fd(end).map(Self::Out))
    }

    fn of(end: BorrowedFd<'_>, as_pipe: impl Fn(OwnedFd) -> io::Result<Self>) -> Result<Self, CommandError> {
        let closed = |error| closed(&error);
        let copy = || end.try_clone_to_owned().map_err(closed);
        if let Ok(end) = as_pipe(copy()?) {
            return Ok(end);
        }
        let socket = std::os::unix::net::UnixStream::from(copy()?);
        if socket.local_addr().is_ok() && socket.set_nonblocking(true).is_ok() {
            return UnixStream::from_std(socket).map(Self::Socket).map_err(closed);
        }
        Ok(Self::File(tokio::fs::File::from_std(copy()?.into())))
    }

    fn reader(self) -> mcp::Input {
        match self {
            Self::In(pipe) => Box::new(pipe),
            Self::Socket(socket) => Box::new(socket),
            Self::File(file) => Box::new(file),
            Self::Out(_) => Box::new(tokio::io::empty()),
        }
    }

    fn writer(self) -> mcp::Out {
        match self {
            Self::Out(pipe) => Box::new(pipe),
            Self::Socket(socket) => Box::new(socket),
            Self::File(file) => Box::new(file),
            Self::In(_) => Box::new(tokio::io::sink()),
        }
    }
}

/// The address of the MCP endpoint of the server at `url`.
pub(crate) fn endpoint(url: &str, toolsets: &[String]) -> Result<String, CommandError> {
    let base = connect::server_url(url)?;
    let path = if base.ends_with("/mcp") || base.ends_with("/_mcp") { "" } else { "/mcp" };
    let query = if toolsets.is_empty() { String::new() } else { format!("?toolsets={}", toolsets.join(",")) };
    Ok(format!("{base}{path}{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_found_with_and_without_its_path() {
        let at = |url: &str| endpoint(url, &[]).map_err(|error| error.code);
        for (url, found) in [
            ("http://127.0.0.1:8787", "http://127.0.0.1:8787/mcp"),
            ("http://127.0.0.1:8787/", "http://127.0.0.1:8787/mcp"),
            ("http://h/mcp", "http://h/mcp"),
            ("https://h/team/v1/_mcp/", "https://h/team/v1/_mcp"),
            ("http://[::1]:65535", "http://[::1]:65535/mcp"),
            ("http://[::1]", "http://[::1]/mcp"),
        ] {
            assert_eq!(at(url).as_deref(), Ok(found));
        }
        for url in [
            "127.0.0.1:8787",
            "http://",
            "ftp://h",
            "http://h?x=1",
            "",
            "http://h:65536",
            "http://h:x/mcp",
            "http://:1",
        ] {
            assert_eq!(at(url), Err("bad_address".to_owned()), "{url}");
        }
        let sets = ["runs".to_owned(), "agents".to_owned()];
        assert_eq!(endpoint("http://h", &sets).expect("an address"), "http://h/mcp?toolsets=runs,agents");
    }

    #[test]
    fn headers_are_names_and_values() {
        let given = |header: &str| Connection { headers: vec![header.into()], ..Connection::default() }.headers();
        assert_eq!(given("X-Team:  a b ").expect("a header"), [("x-team".to_owned(), "a b".to_owned())]);
        for header in ["nonsense", ": x", "a b: c", "a: b\nc: d", "Content-Length: 3", "Mcp-Session-Id: s", "HOST: h"] {
            let error = given(header).expect_err("no header");
            assert!(error.code == "bad_header" && !error.message.contains(header), "{error}");
        }
    }

    #[test]
    fn toolsets_are_names() {
        let given = |sets: &[&str]| {
            let toolsets = sets.iter().map(|set| (*set).to_owned()).collect();
            Connection { toolsets, ..Connection::default() }.check_toolsets().map_err(|error| error.code)
        };
        assert_eq!(given(&[]), Ok(()));
        assert_eq!(given(&["core", "a_b"]), Ok(()));
        for bad in ["", " runs", "a&b", "Core", "a%2C"] {
            assert_eq!(given(&["core", bad]), Err("bad_toolsets".to_owned()), "{bad:?}");
        }
    }
}
