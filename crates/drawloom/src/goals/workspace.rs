//! The repositories of goals: the loop's seam over the crate `checkout`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use drawloom_checkout::{self as checkout, Checkouts, Kind, Oid, Sandbox, Step};
use drawloom_clis::{PROXIES, proxies_with_login, without_login};
use drawloom_contract::{
    failure::Explain as _,
    ids::RunId,
    time::{Clock, Timestamp},
};
use drawloom_goal::{
    Cleanup, CommandLine, GoalsConfig, WorkspaceInput,
    workspace::{
        ChangedFile, CheckedOut, Checkout, Checkpoint, Checkpointed, Clean, Cleaned, CommandResult, DISK_LIMIT, Diff,
        Diffed, LeftOut, Merge, Merged, Prepared, Trigger, Verified, Verify, Workspace,
    },
};
use drawloom_process::{Confined, Limits, ListedPath, Network, developer_paths, usual_memory, usual_processes};
use globset::{GlobBuilder, GlobSetBuilder};
use tokio::sync::OnceCell;

use crate::{config::Loaded, environment, goals::Shared};

/// Variables that git, setup and verify commands get, beside proxies and those that the config names.
const VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOROOT",
    "GOFLAGS",
    "JAVA_HOME",
    "PYENV_ROOT",
    "NVM_DIR",
    "VOLTA_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];

/// The repositories of all goals of an instance. Nothing is made before a goal needs it.
pub(crate) struct Repositories {
    root: PathBuf,
    config: GoalsConfig,
    shared: Shared,
    environment: Vec<(String, String)>,
    /// Variables of proxies with a login, which programs of goals get without it.
    hidden_logins: Vec<String>,
    checkouts: OnceCell<Checkouts>,
}

impl Repositories {
    pub(crate) fn new(loaded: &Loaded, shared: Shared) -> Self {
        let config = loaded.config.goals.clone();
        let usual: Vec<(&str, String)> =
            VARIABLES.iter().chain(PROXIES).filter_map(|name| Some((*name, loaded.variable(name)?))).collect();
        let hidden_logins = proxies_with_login(usual.iter().map(|(name, value)| (*name, value.as_str())), &config.env);
        let plain = usual.iter().map(|(name, value)| ((*name).to_owned(), without_login(name, value).into_owned()));
        let own = config.env.iter().filter_map(|name| Some((name.clone(), loaded.variable(name)?)));
        let environment = plain.chain(own).collect::<BTreeMap<_, _>>().into_iter().collect();
        let root = shared.checkouts.clone();
        Self { root, config, shared, environment, hidden_logins, checkouts: OnceCell::new() }
    }

    /// The directory with everything of a goal.
    pub(crate) fn folder(&self, goal: &str) -> PathBuf {
        self.root.join(goal)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The goals that have a folder.
    pub(crate) fn kept(&self) -> std::io::Result<BTreeSet<RunId>> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            entries => entries?,
        };
        let mut kept = BTreeSet::new();
        for entry in entries {
            kept.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RunId>().ok()));
        }
        Ok(kept)
    }

    /// The same, for a task that asks again and again.
    pub(crate) fn list_kept(self: Arc<Self>) -> impl Fn() -> std::io::Result<BTreeSet<RunId>> {
        move || self.kept()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.shared.clock.wall()
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        self.shared.clock.as_ref()
    }

    /// Where commands have their temporary directories and locks.
    pub(super) fn temporary(&self) -> &Path {
        &self.shared.temporary
    }

    pub(crate) async fn checkouts(&self) -> Result<&Checkouts, String> {
        self.checkouts.get_or_try_init(|| async { self.open() }).await.map_err(|error: checkout::Error| told(&error))
    }

    fn open(&self) -> Result<Checkouts, checkout::Error> {
        let home = environment::home();
        let hidden: Vec<PathBuf> =
            [environment::default_data_dir(), environment::default_config_dir(), Some(self.shared.data.clone())]
                .into_iter()
                .flatten()
                .collect();
        let variable =
            |name: &str| self.environment.iter().find(|(named, _)| named == name).map(|(_, value)| value.clone());
        let resolved = |paths: &[PathBuf]| paths.iter().cloned().map(ListedPath::resolve).collect::<Vec<_>>();
        let mut readable = home.as_deref().map(|home| developer_paths(home, &variable, &hidden)).unwrap_or_default();
        readable.extend(resolved(&self.config.readable_paths));
        let sandbox = Sandbox {
            confined: if self.config.unconfined { Confined::No } else { Confined::Yes },
            network: Network::Host,
            readable,
            writable: resolved(&self.config.writable_paths),
            home,
            limits: Limits {
                memory_bytes: self.config.max_memory_bytes.or_else(|| Some(usual_memory())),
                processes: self.config.max_processes.or_else(|| Some(usual_processes())),
                ..Limits::default()
            },
        };
        Checkouts::new(checkout::Parts {
            root: self.root.clone(),
            launcher: self.shared.launcher.clone(),
            temporary: self.shared.temporary.clone(),
            clock: self.shared.clock.clone(),
            redactor: self.shared.redactor.clone(),
            environment: self.environment.clone(),
            sandbox,
            directories: self.config.directories.clone(),
            config: checkout::Config {
                setup: self.config.setup.clone(),
                quota_bytes: self.config.quota_bytes,
                ..checkout::Config::default()
            },
        })
    }

    /// Frees the disk of what a goal that has ended moved away. What fails, or is killed, is freed at the next start.
    pub(crate) async fn empty(&self, goal: &str) {
        if !self.folder(goal).is_dir() {
            return;
        }
        if let Ok(checkouts) = self.checkouts().await
            && let Err(error) = checkouts.empty(goal).await
        {
            tracing::warn!(goal, %error, "cannot free the disk of a goal that has ended");
        }
    }

    /// Frees the disk of goals whose server was killed before it could.
    pub(crate) async fn empty_all(&self, active: &[String]) {
        if !self.root.is_dir() {
            return;
        }
        let Ok(checkouts) = self.checkouts().await else { return };
        for goal in checkouts.list_with_trash().await.unwrap_or_default() {
            if !active.contains(&goal) {
                self.empty(&goal).await;
            }
        }
    }

    /// Removes checkouts of goals that ended long ago.
    pub(crate) async fn retain(&self, active: &[String]) {
        if !self.root.is_dir() {
            return;
        }
        let keep = Duration::from_secs(u64::from(self.config.keep_days.unwrap_or(14)) * 86_400);
        let Ok(checkouts) = self.checkouts().await else { return };
        let retention = checkout::Retention { active, keep, quota_bytes: None };
        match checkouts.retain(self.shared.clock.wall(), &retention).await {
            Ok(done) if !done.removed.is_empty() => {
                tracing::info!(goals = done.removed.len(), bytes = done.bytes, "removed checkouts of ended goals");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "cannot remove checkouts of ended goals"),
        }
    }
}

/// An error with what to do.
pub(crate) fn told(error: &checkout::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{error}{cause}{hint}")
}

fn oid(text: &str) -> Result<Oid, String> {
    Oid::parse(text).map_err(|error| told(&error))
}

pub(super) fn seconds(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(1000)
}

#[async_trait]
impl Workspace for Repositories {
    async fn prepare(&self, goal: &str, input: &WorkspaceInput) -> Result<Prepared, String> {
        let options = checkout::Prepare {
            base: input.base.clone(),
            uncommitted: input.uncommitted,
            include: input.include.clone(),
            setup: input.setup.clone(),
            in_place: !input.isolate,
            continues: input.continues.clone(),
            at: 0,
        };
        let checkouts = self.checkouts().await?;
        check_disk(checkouts, goal).await?;
        let prepared = checkouts.prepare(goal, &input.directory, &options).await.map_err(|error| told(&error))?;
        let login = (!self.hidden_logins.is_empty()).then(|| {
            let names = self.hidden_logins.join(", ");
            format!("workers and verify commands get {names} without the login of the proxy; list it in `goals.env` and `clis.NAME.env` to pass the login on")
        });
        Ok(Prepared {
            path: if input.isolate { self.folder(goal) } else { prepared.repository.clone() },
            repository: prepared.repository,
            base: prepared.base.to_string(),
            head: prepared.head.map(|head| head.to_string()),
            branch: prepared.branch,
            in_place: !input.isolate,
            warnings: prepared.warnings.into_iter().chain(login).collect(),
        })
    }

    async fn checkout(&self, goal: &str, input: &Checkout) -> Result<CheckedOut, String> {
        let checkouts = self.checkouts().await?;
        let commit = oid(&input.commit)?;
        check_disk(checkouts, goal).await?;
        if input.reset {
            checkouts.reset(goal, &input.name, &commit).await.map_err(|error| told(&error))?;
        }
        let kind = if input.read_only { Kind::ReadOnly } else { Kind::Writer };
        let within = input.within_ms.map(Duration::from_millis);
        let added = checkouts.add_within(goal, &input.name, &commit, kind, within).await;
        let added = added.map_err(|error| told(&error))?;
        let checkout::Added { directory, environment, readable, mut writable, path } = added;
        let subdirectory = directory.strip_prefix(&path).unwrap_or(Path::new("")).to_string_lossy().into_owned();
        // A worker in a subdirectory may change all of its checkout.
        if !input.read_only && path != directory {
            writable.push(path);
        }
        Ok(CheckedOut { directory, checkout: input.name.clone(), subdirectory, environment, readable, writable })
    }

    async fn checkpoint(&self, goal: &str, input: &Checkpoint) -> Result<Checkpointed, String> {
        let checkouts = self.checkouts().await?;
        let key = format!("{}-{}", input.name, input.parent);
        let step = Step { message: &input.message, at: seconds(input.at), key: &key };
        let kept = checkouts.checkpoint(goal, &input.name, &step).await.map_err(|error| told(&error))?;
        let changed: Vec<String> = kept.changed.iter().map(|change| change.path.clone()).collect();
        let out_of_scope = match input.files.is_empty() {
            true => Vec::new(),
            false => {
                let info = checkouts.info(goal).await.map_err(|error| told(&error))?;
                outside(&input.files, &info.prepared.subdirectory, &changed)?
            }
        };
        // Last what can be made again: most of it is built, not written.
        let mut left_out = kept.left_out;
        left_out.sort_by_key(|left| left.reason.can_be_made_again());
        let left_out = left_out.into_iter().map(|left| LeftOut { reason: reason(left.reason), path: left.path });
        Ok(Checkpointed {
            commit: kept.commit.map(|commit| commit.to_string()),
            left_out: left_out.collect(),
            changed,
            out_of_scope,
            ..Checkpointed::default()
        })
    }

    async fn merge(&self, goal: &str, input: &Merge) -> Result<Merged, String> {
        let (head, commit) = (oid(&input.head)?, oid(&input.commit)?);
        let checkouts = self.checkouts().await?;
        let merged = checkouts.merge(goal, &head, &commit, &input.message, seconds(input.at)).await;
        Ok(match merged.map_err(|error| told(&error))? {
            checkout::Merge::Merged { commit, .. } => Merged::Merged { commit: commit.to_string() },
            checkout::Merge::Nothing => Merged::Merged { commit: input.head.clone() },
            checkout::Merge::Conflict { files, output } => Merged::Conflict { files, files_more: 0, output },
        })
    }

    async fn verify(&self, goal: &str, input: &Verify) -> Result<Verified, String> {
        let commands = input.verify.commands.iter().map(|command| checkout::VerifyCommand {
            name: command.name.clone(),
            program: match &command.run {
                CommandLine::Shell(text) => checkout::Program::Shell(text.clone()),
                CommandLine::Program(argv) => checkout::Program::Argv(argv.clone()),
            },
            timeout_seconds: command.timeout_seconds,
        });
        let verify = checkout::Verify {
            commit: oid(&input.commit)?,
            commands: commands.collect(),
            protect: input.verify.protect.clone(),
            base: Some(oid(&input.base)?),
            witness: input.verify.witness,
            key: input.key.clone(),
            within: input.within_ms.map(Duration::from_millis),
        };
        let verified = self.checkouts().await?.verify(goal, &verify).await.map_err(|error| told(&error))?;
        let results: Vec<CommandResult> = verified.results.into_iter().map(command_result).collect();
        let all_green = results.iter().all(|result| result.ok);
        // Reasons beside failed commands refuse the work; with a green result they are only remarks.
        let (refusals, warnings) = match (verified.passed, all_green) {
            (false, true) => (verified.reasons, Vec::new()),
            _ => (Vec::new(), verified.reasons),
        };
        Ok(Verified { tree: verified.tree.to_string(), results, refusals, warnings })
    }

    async fn diff(&self, goal: &str, input: &Diff) -> Result<Diffed, String> {
        let checkouts = self.checkouts().await?;
        let (from, to) = (oid(&input.from)?, oid(&input.to)?);
        let found = tokio::try_join!(
            checkouts.diff(goal, &from, &to, input.most_bytes),
            checkouts.tree(goal, &to),
            checkouts.triggers(goal, &from, &to)
        );
        let (diff, tree, triggers) = found.map_err(|error| told(&error))?;
        Ok(Diffed {
            text: diff.text,
            truncated: diff.truncated,
            changes: diff.files.into_iter().map(changed_file).collect(),
            triggers: triggers.into_iter().map(|checkout::Trigger { path, why }| Trigger { path, why }).collect(),
            tree: tree.to_string(),
            ..Diffed::default()
        })
    }

    async fn clean(&self, goal: &str, input: &Clean) -> Result<Cleaned, String> {
        let policy = match input.policy {
            Cleanup::Auto => checkout::Cleanup::Auto,
            Cleanup::Always => checkout::Cleanup::Always,
            Cleanup::Never => checkout::Cleanup::Never,
        };
        let at = seconds(self.shared.clock.wall());
        let cleaned = self.checkouts().await?.set_aside(goal, policy, at).await.map_err(|error| told(&error))?;
        let reasons = cleaned.kept.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
        let is_kept = !cleaned.kept.is_empty() || input.policy == Cleanup::Never;
        Ok(Cleaned { kept: is_kept.then(|| self.folder(goal)), reasons })
    }

    async fn output(&self, goal: &str) -> Result<PathBuf, String> {
        made(self.folder(goal).join("workers")).await
    }

    async fn scratch(&self, goal: &str, name: &str) -> Result<PathBuf, String> {
        made(self.folder(goal).join("scratch").join(name)).await
    }
}

/// Fails when the goal uses more of the disk than it may, or too little is free.
async fn check_disk(checkouts: &Checkouts, goal: &str) -> Result<(), String> {
    match checkouts.check_disk(goal).await {
        Ok(_) => Ok(()),
        Err(error @ (checkout::Error::Quota { .. } | checkout::Error::DiskFull { .. })) => {
            Err(format!("{DISK_LIMIT}{}", told(&error)))
        }
        Err(error) => Err(told(&error)),
    }
}

async fn made(directory: PathBuf) -> Result<PathBuf, String> {
    let made = tokio::fs::create_dir_all(&directory).await;
    made.map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    Ok(directory)
}

fn command_result(result: checkout::CommandResult) -> CommandResult {
    let output = match result.output_head.is_empty() {
        true => result.output_tail,
        false => format!("{}\n[…]\n{}", result.output_head, result.output_tail),
    };
    let checkout::CommandResult { name, ok, exit_code, duration_ms, error, .. } = result;
    CommandResult { name, ok, exit_code, output, error, duration_ms }
}

fn changed_file(change: checkout::Change) -> ChangedFile {
    let status = serde_json::to_value(change.status).ok().and_then(|status| status.as_str().map(str::to_owned));
    ChangedFile { path: change.path, status: status.unwrap_or_default(), bytes: change.bytes.unwrap_or_default() }
}

/// A reason in words.
pub(super) fn reason(reason: checkout::Reason) -> String {
    let name = serde_json::to_value(reason).ok().and_then(|value| value.as_str().map(str::to_owned));
    name.unwrap_or_default().replace('_', " ")
}

/// The changed files that match none of the globs. A model wrote them, from the directory that it works in or from the top: both count.
fn outside(globs: &[String], subdirectory: &str, changed: &[String]) -> Result<Vec<String>, String> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let plain = glob.trim_start_matches("./").trim_start_matches('/');
        for glob in [plain.to_owned(), format!("{subdirectory}/{plain}")] {
            // An invalid one matches nothing.
            if let Ok(glob) = GlobBuilder::new(&glob).literal_separator(true).build() {
                set.add(glob);
            }
        }
    }
    let set = set.build().map_err(|error| error.to_string())?;
    Ok(changed.iter().filter(|path| !set.is_match(path)).cloned().collect())
}
