//! Running git, through the launcher and with settings that switch off everything that a repository could make it run.

use std::{
    fs::{self, File},
    io::{Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use drawloom_process::{Access, Command, Confined, End, Finished, Input, Limits, Network, Output, Remains, until_gone};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::{
    checkouts::Checkouts,
    error::Error,
    opened::OpenedRepository,
    places::{blocking, make_directory},
    state::Goal,
};

/// Settings that win over those of any file.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.sparseCheckout=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "core.quotePath=false",
    "core.pager=cat",
    "core.editor=false",
    // We flush new objects ourselves, all at once, before a ref names them.
    "core.fsync=reference",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "submodule.recurse=false",
    "commit.gpgSign=false",
    "credential.helper=",
    "merge.directoryRenames=false",
    // As many as there are processors, for a checkout of many files.
    "checkout.workers=0",
    "safe.directory=*",
];

const IDENTITY: &str = "drawloom";
const EMAIL: &str = "drawloom@localhost";

/// Most bytes of output that are read. A list of a million paths fits.
const MOST_OUTPUT: usize = 256 * 1024 * 1024;

/// How long processes have between being asked to end and being killed. Git removes its lock files when asked.
const GRACE: Duration = Duration::from_secs(2);

/// How long an earlier process's commands may take to end.
const SETTLE: Duration = Duration::from_secs(30);

/// What a git command sees as its repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repository {
    /// Our git directory. New objects stay with us.
    Ours,
    /// Our git directory, and attributes that change no byte of a file.
    Plain,
    /// Our git directory, but new objects go to the user's repository.
    Shared,
    /// The user's repository, for its refs.
    Users,
}

/// A git command.
pub(crate) struct Git<'a> {
    checkouts: &'a Checkouts,
    directory: PathBuf,
    home: Option<PathBuf>,
    environment: Vec<(String, String)>,
    settings: Vec<&'static str>,
    args: Vec<String>,
    input: Vec<u8>,
    most: usize,
    name: String,
    repository: Option<OpenedRepository>,
}

/// A git command that has ended.
pub(crate) struct Ran {
    pub(crate) command: String,
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    /// How many bytes in the middle of the output are missing.
    pub(crate) missing: u64,
    pub(crate) stderr: String,
}

impl Checkouts {
    /// A git command in the repository of a goal.
    pub(crate) fn git<'a>(&'a self, goal: &Goal, repository: Repository) -> Git<'a> {
        let ours = goal.places.git();
        let git = self.git_in(goal.name(), &ours);
        match repository {
            Repository::Ours => git.variable("GIT_DIR", &ours),
            Repository::Plain => git
                .variable("GIT_DIR", &goal.places.plain_git())
                .variable("GIT_OBJECT_DIRECTORY", &ours.join("objects")),
            Repository::Shared => git
                .variable("GIT_DIR", &ours)
                .variable("GIT_OBJECT_DIRECTORY", &goal.record.objects)
                .in_repository(goal.record.opened()),
            Repository::Users => git.variable("GIT_DIR", &goal.record.common).in_repository(goal.record.opened()),
        }
    }

    /// A git command that finds its repository from a directory.
    pub(crate) fn git_in<'a>(&'a self, goal: &str, directory: &Path) -> Git<'a> {
        let fixed = [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("LC_ALL", "C"),
            ("TZ", "UTC"),
            ("GIT_AUTHOR_NAME", IDENTITY),
            ("GIT_AUTHOR_EMAIL", EMAIL),
            ("GIT_COMMITTER_NAME", IDENTITY),
            ("GIT_COMMITTER_EMAIL", EMAIL),
        ];
        let path = self.parts.environment.iter().filter(|(name, _)| name == "PATH").cloned();
        let fixed = fixed.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Git {
            checkouts: self,
            directory: directory.to_owned(),
            home: None,
            environment: path.chain(fixed).collect(),
            settings: SETTINGS.to_vec(),
            args: Vec::new(),
            input: Vec::new(),
            most: MOST_OUTPUT,
            name: goal.to_owned(),
            repository: None,
        }
    }

    /// A temporary directory that no command had before. The first call waits until no command of an earlier process runs.
    pub(crate) async fn temporary(&self, goal: &str) -> Result<PathBuf, Error> {
        self.settled.get_or_try_init(|| self.settle()).await?;
        let number = self.next_command.fetch_add(1, Ordering::Relaxed);
        Ok(self.parts.temporary.join(format!("checkout-{number}-{goal}")))
    }

    /// Waits for the end of the commands that a killed process left, and counts on from their numbers.
    async fn settle(&self) -> Result<(), Error> {
        let place = self.parts.temporary.clone();
        let names = blocking(move || {
            make_directory(&place)?;
            let entries = fs::read_dir(&place).map_err(Error::file("read", &place))?;
            Ok::<_, Error>(entries.flatten().map(|entry| entry.file_name()).collect::<Vec<_>>())
        });
        for name in names.await? {
            let name = name.to_string_lossy();
            let number = name.strip_prefix("checkout-").and_then(|rest| rest.split('-').next()?.parse::<u64>().ok());
            let Some(number) = number else { continue };
            let temporary = self.parts.temporary.join(name.strip_suffix(".lock").unwrap_or(&name));
            if until_gone(&temporary, SETTLE, self.parts.clock.as_ref()).await == Remains::Running {
                let how = format!("a command of an earlier process still runs after {} seconds", SETTLE.as_secs());
                return Err(Error::GitStopped { command: name.into_owned(), how });
            }
            self.next_command.fetch_max(number + 1, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Git<'_> {
    pub(crate) fn variable(mut self, name: &str, path: &Path) -> Self {
        // The root and the repository were checked to be UTF-8.
        self.environment.push((name.to_owned(), path.to_string_lossy().into_owned()));
        self
    }

    /// Runs only while this repository is the one that the goal was prepared for.
    fn in_repository(mut self, repository: OpenedRepository) -> Self {
        self.repository = Some(repository);
        self
    }

    /// Works on the files in this directory, with this index.
    pub(crate) fn work_tree(self, work_tree: &Path, index: &Path) -> Self {
        self.variable("GIT_WORK_TREE", work_tree).directory(work_tree).index(index)
    }

    pub(crate) fn index(self, index: &Path) -> Self {
        self.variable("GIT_INDEX_FILE", index)
    }

    fn directory(mut self, directory: &Path) -> Self {
        self.directory = directory.to_owned();
        self
    }

    /// Commits carry this time.
    pub(crate) fn at(mut self, seconds: i64) -> Self {
        for name in ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"] {
            self.environment.push((name.to_owned(), format!("@{seconds} +0000")));
        }
        self
    }

    /// Lets the user's own settings count, for a command that only reads settings.
    pub(crate) fn with_user_settings(mut self) -> Self {
        self.environment.retain(|(name, _)| !matches!(name.as_str(), "GIT_CONFIG_NOSYSTEM" | "GIT_CONFIG_GLOBAL"));
        self.settings.clear();
        let given = &self.checkouts.parts.environment;
        self.home = given.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
        self.environment.extend(given.iter().filter(|(name, _)| name == "XDG_CONFIG_HOME").cloned());
        self
    }

    /// Pathspecs are globs, not names.
    pub(crate) fn with_globs(mut self) -> Self {
        self.environment.retain(|(name, _)| name != "GIT_LITERAL_PATHSPECS");
        self
    }

    pub(crate) fn setting(mut self, setting: &'static str) -> Self {
        self.settings.push(setting);
        self
    }

    pub(crate) fn args<S: AsRef<str>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn input(mut self, input: Vec<u8>) -> Self {
        self.input = input;
        self
    }

    /// Keeps at most so many bytes of output.
    pub(crate) fn most(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Runs it. An exit code that `allowed` does not list is an error.
    pub(crate) async fn run(self, allowed: &[i32]) -> Result<Ran, Error> {
        let command = self.args.first().cloned().unwrap_or_default();
        let checkouts = self.checkouts;
        if let Some(repository) = &self.repository {
            checkouts.check_opened_again(repository)?;
        }
        let temporary = checkouts.temporary(&self.name).await?;
        let (order, redactor) = (self.command(temporary)?, &checkouts.parts.redactor);
        let finished = checkouts.parts.launcher.run(&order, checkouts.parts.clock.as_ref()).await?;
        let ran = ended(command, finished)?;
        match allowed.contains(&ran.code) {
            true => Ok(ran),
            false => {
                let message = redactor.clean(ran.message()).into_inner();
                Err(Error::Git { command: ran.command, code: ran.code, message })
            }
        }
    }

    /// Runs it, and code 0 alone is success.
    pub(crate) async fn ok(self) -> Result<Ran, Error> {
        self.run(&[0]).await
    }

    fn command(self, temporary: PathBuf) -> Result<Command, Error> {
        let config = &self.checkouts.parts.config;
        let directory = File::open(&self.directory).map_err(Error::file("open", &self.directory))?;
        let settings = self.settings.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]);
        Ok(Command {
            program: config.git.clone(),
            args: settings.chain(self.args).collect(),
            directory: Arc::new(directory),
            access: Access::ReadWrite,
            readable: Vec::new(),
            writable: Vec::new(),
            guarded: Vec::new(),
            network: Network::Host,
            environment: self.environment,
            input: match self.input.is_empty() {
                true => Input::Empty,
                false => Input::File(Arc::new(in_memory(&self.input).map_err(Error::file("write", "standard input"))?)),
            },
            // Standard output and error apart, and in memory only.
            output: Output::Files {
                stdout: "/dev/null".into(),
                stderr: "/dev/null".into(),
                most: self.most,
                redactor: self.checkouts.parts.redactor.clone(),
            },
            confined: Confined::No,
            home: self.home,
            temporary,
            limits: Limits::default(),
            time_limit: Duration::from_secs(config.git_timeout_seconds),
            grace: GRACE,
        })
    }
}

/// A file in memory with this content, to be read from its beginning.
fn in_memory(content: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

fn ended(command: String, finished: Finished) -> Result<Ran, Error> {
    let stopped = |how: String| Err(Error::GitStopped { command: command.clone(), how });
    let code = match finished.end {
        End::Exited(code) => code,
        End::Signalled(signal) => return stopped(format!("it was killed by signal {signal}")),
        End::TimedOut => return stopped("it took longer than its timeout".into()),
        End::Exceeded(_) => return stopped("it used too much".into()),
        End::Lost => return stopped("its launcher was killed".into()),
    };
    let mut stdout = finished.output.head;
    stdout.extend(finished.output.tail);
    Ok(Ran { command, code, stdout, missing: finished.output.missing, stderr: finished.errors.into_text() })
}

impl Ran {
    /// The whole output.
    pub(crate) fn bytes(self) -> Result<Vec<u8>, Error> {
        match self.missing {
            0 => Ok(self.stdout),
            missing => {
                Err(Error::GitAnswer { command: self.command, answer: format!("{missing} bytes more than the limit") })
            }
        }
    }

    /// The whole output as text without the line end.
    pub(crate) fn text(self) -> Result<String, Error> {
        let command = self.command.clone();
        let bytes = self.bytes()?;
        let text = String::from_utf8(bytes);
        text.map(|text| text.trim_end_matches('\n').to_owned()).map_err(|error| Error::GitAnswer {
            command,
            answer: String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// The output, which is an object id.
    pub(crate) fn oid(self) -> Result<crate::oid::Oid, Error> {
        let command = self.command.clone();
        let text = self.text()?;
        crate::oid::Oid::parse(&text).map_err(|_| Error::GitAnswer { command, answer: text })
    }

    /// The parts of the output that NUL bytes divide.
    pub(crate) fn parts(self) -> Result<Vec<Vec<u8>>, Error> {
        Ok(parts(&self.bytes()?))
    }

    /// What git said about a failure.
    fn message(&self) -> String {
        let said =
            if self.stderr.trim().is_empty() { String::from_utf8_lossy(&self.stdout) } else { (&self.stderr).into() };
        drawloom_process::cut(said.trim(), 4096)
    }
}

/// The parts of a text that NUL bytes end.
pub(crate) fn parts(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut parts: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    if parts.last().is_some_and(Vec::is_empty) {
        parts.pop();
    }
    parts
}
