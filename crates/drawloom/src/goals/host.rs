//! What callers may ask of goals: backends, directories, landing.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use drawloom_checkout::{self as checkout, Land, Oid, Verdict};
use drawloom_clis::{Cli, CliExecutor, Login, Metering, Mode};
use drawloom_contract::{
    caller::{Caller, Proof},
    definition::Definition,
    failure::{Explain as _, Failure, FailureKind},
    ids::{RunId, RunKey},
};
use drawloom_goal::{
    Backend, BackendKind, Backends, Budget, Cleanup, CommandLine, GoalInput, GoalsConfig, Interaction, Roles, Story,
    VerifyCommand, VerifyInput, WorkspaceInput,
};
use drawloom_server::{GoalHost, Worktrees};
use drawloom_wire::goals::{
    BackendInfo, BackendList, Diagnosis, DiagnosisCheck, Doctor, GoalCleanup, GoalLanded, GoalLeft, GoalRemoved,
    GoalTrigger, ListBackends, Orchestrate, OrchestrateLand,
};

use crate::{
    environment,
    goals::{Folders, GoalModels, Repositories, agents::goal_agent, backends, models, workspace::told},
};

/// The command that `playwright` adds.
const PLAYWRIGHT: &str = "npx playwright test";

/// Maximum files that one refusal names.
const MAX_NAMED: usize = 200;

/// Timeout of a verify command that names none, in seconds.
const VERIFY_SECONDS: u64 = 600;

/// The three limits of time that callers of goals meet.
pub(crate) const TIMEOUTS: [&str; 3] = [
    "The host that calls has its own request timeout: `orchestrate` returns at once, so it only matters with detach=false. \
     -32001 \"Request timed out\" means that the host stopped waiting; the goal goes on. Set it to at least 600000 ms.",
    "`timeout` limits each call of a coding CLI or model, in seconds; the default is one hour. What runs then is ended and tried again.",
    "`max_seconds` limits the whole goal. It is checked before every call and is a deadline of what runs.",
];

/// What the binary knows of goals.
pub(crate) struct Host {
    pub(crate) config: GoalsConfig,
    pub(crate) backends: Backends,
    pub(crate) models: Arc<GoalModels>,
    pub(crate) repositories: Arc<Repositories>,
    pub(crate) clis: Arc<CliExecutor>,
    pub(crate) folders: Arc<Folders>,
    /// Whether any process of this machine may call, without a token.
    pub(crate) is_open: bool,
}

fn refuse(code: &'static str, message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Invalid, code, message)
}

impl Host {
    fn roles(&self, request: &Orchestrate) -> Result<Roles, Failure> {
        let usual = request.backend.as_deref().or(self.config.backend.as_deref()).unwrap_or("auto");
        let own = request.roles.clone().unwrap_or_default();
        let resolve = |role: &Option<String>| {
            let asked = role.as_deref().unwrap_or(usual);
            backends::resolve(&self.backends, asked, request.caller_agent.as_deref(), request.model.as_deref())
        };
        Ok(Roles { planner: resolve(&own.planner)?, worker: resolve(&own.worker)?, reviewer: resolve(&own.reviewer)? })
    }

    /// Refuses backends that cannot do what their role needs, before anything is paid.
    fn check_roles(&self, roles: &Roles, request: &Orchestrate) -> Result<(), Failure> {
        let worker = if request.skip_permissions { Mode::SkipPermissions } else { Mode::Edit };
        let needs = [(&roles.planner, Mode::ReadOnly), (&roles.worker, worker), (&roles.reviewer, Mode::ReadOnly)];
        for (backend, mode) in needs {
            if let Ok(cli) = self.clis.clis().find(&backend.name) {
                cli.check_mode(mode).map_err(|error| Failure::of(&error))?;
            }
            if let Some((BackendKind::Model, _)) = self.backends.find(&backend.name) {
                self.models.check(backend, request.max_cost.is_some())?;
            }
            self.check_metering(backend, request.max_tokens.is_some(), request.max_cost.is_some())?;
        }
        if request.cwd.is_some() && roles.worker.name.starts_with("agent:") {
            let message = format!(
                "{} cannot work in a repository: agents of the config have volumes of their own",
                roles.worker.name
            );
            return Err(refuse("agent_as_worker", message)
                .with_hint("use a coding CLI or `model:NAME` as the worker; agents can plan and review: `roles`"));
        }
        Ok(())
    }

    /// The backends that a planner may choose for a subgoal: the worker's own, and those of the other roles that could do it.
    fn plan_backends(&self, roles: &Roles, request: &Orchestrate) -> Vec<String> {
        let mode = if request.skip_permissions { Mode::SkipPermissions } else { Mode::Edit };
        let works = |name: &String| match self.backends.find(name) {
            Some((BackendKind::Model, _)) => true,
            Some((BackendKind::Cli, _)) => {
                self.clis.clis().find(name).is_ok_and(|cli| self.clis.could_run(cli) && cli.check_mode(mode).is_ok())
            }
            Some((BackendKind::Mock | BackendKind::Agent, _)) | None => false,
        };
        let others = [&roles.planner.name, &roles.reviewer.name].into_iter().filter(|name| works(name));
        others.chain([&roles.worker.name]).cloned().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Refuses a backend that does not report what the request limits.
    fn check_metering(&self, backend: &Backend, limits_tokens: bool, limits_cost: bool) -> Result<(), Failure> {
        let metering = match self.backends.find(&backend.name) {
            Some((BackendKind::Cli, _)) => {
                self.clis.clis().find(&backend.name).map_err(|error| Failure::of(&error))?.metering()
            }
            Some((BackendKind::Agent, agent)) if limits_cost => return self.models.check_price(&agent),
            _ => return Ok(()),
        };
        let (limit, hint) = match metering {
            Metering::Tokens if limits_cost => ("max_cost", "use max_tokens (--max-tokens)"),
            Metering::Nothing if limits_cost => ("max_cost", "use max_agent_calls (--max-agent-calls)"),
            Metering::Nothing if limits_tokens => ("max_tokens", "use max_agent_calls (--max-agent-calls)"),
            Metering::Cost | Metering::Tokens | Metering::Nothing => return Ok(()),
        };
        let message = format!("{limit} is set, and {} does not report what that limits", backend.name);
        Err(refuse("unmetered_backend", message).with_hint(format!("{hint}, or choose another backend")))
    }

    /// The real path of a directory that this caller may name.
    fn directory(&self, caller: &Caller, directory: &Path) -> Result<PathBuf, Failure> {
        if !directory.is_absolute() {
            return Err(refuse("bad_cwd", format!("cwd must be an absolute path, not {}", directory.display())));
        }
        let real = directory.canonicalize().map_err(|error| {
            refuse("bad_cwd", format!("cannot use {} as cwd: {error}", directory.display()))
                .with_hint("name a directory of a git repository on the server's machine")
        })?;
        if !real.is_dir() {
            return Err(refuse("bad_cwd", format!("{} is not a directory", directory.display())));
        }
        self.check_allowed(caller, &real, directory)?;
        Ok(real)
    }

    /// Refuses a real path that this caller may not name. The error shows it as `named`.
    fn check_allowed(&self, caller: &Caller, real: &Path, named: &Path) -> Result<(), Failure> {
        let allowed = self.config.directories.iter().filter_map(|allowed| allowed.canonicalize().ok());
        let is_listed = allowed.into_iter().any(|allowed| real.starts_with(allowed));
        let may_any = self.config.directories.is_empty() && caller.proof != Proof::Principal;
        match is_listed || may_any {
            true => Ok(()),
            false => {
                let message = format!("goals may not work in {}", named.display());
                Err(Failure::new(FailureKind::Denied, "cwd_denied", message)
                    .with_hint("the operator lists directories under `goals.directories` in the config"))
            }
        }
    }

    fn workspace(&self, caller: &Caller, request: &Orchestrate) -> Result<Option<WorkspaceInput>, Failure> {
        let Some(cwd) = &request.cwd else {
            let needs = [
                ("verify_commands", !request.verify_commands.is_empty() || request.playwright),
                ("skip_permissions", request.skip_permissions),
                ("base", request.base.is_some()),
                ("setup", request.setup.is_some()),
                ("include", !request.include.is_empty() || request.include_uncommitted),
            ];
            return match needs.iter().find(|(_, is_set)| *is_set) {
                Some((name, _)) => {
                    Err(refuse("needs_cwd", format!("{name} needs cwd, a directory of a git repository")))
                }
                None => Ok(None),
            };
        };
        let isolate = request.isolate.unwrap_or(true);
        if !isolate {
            check_in_place(caller, request)?;
        }
        Ok(Some(WorkspaceInput {
            directory: self.directory(caller, cwd)?,
            base: request.base.clone(),
            uncommitted: request.include_uncommitted,
            include: request.include.clone(),
            cleanup: match request.cleanup {
                None | Some(GoalCleanup::Auto) => Cleanup::Auto,
                Some(GoalCleanup::Always) => Cleanup::Always,
                Some(GoalCleanup::Never) => Cleanup::Never,
            },
            setup: setup(request)?,
            isolate,
            continues: None,
        }))
    }

    /// All backends, asked at the same time.
    async fn listed(&self) -> Vec<BackendInfo> {
        let mock = BackendInfo {
            name: "mock".into(),
            kind: "mock".into(),
            available: true,
            path: None,
            version: None,
            logged_in: None,
            models: Vec::new(),
            problem: None,
        };
        let clis = self.clis.clis().all().map(|cli| self.info(cli));
        let mut infos = futures::future::join_all(clis).await;
        if self.backends.0.get(models::BACKEND) == Some(&BackendKind::Model) {
            infos.push(self.models.info());
        }
        infos.push(mock);
        infos
    }

    async fn info(&self, cli: &Cli) -> BackendInfo {
        let found = drawloom_clis::probe(cli, self.clis.parts()).await;
        let (logged_in, problem) = match (&found.path, &found.logged_in) {
            (None, _) => {
                let message =
                    format!("no program {:?} in PATH: install it, or set `clis.{}.program`", cli.program(), cli.name);
                (None, Some(message))
            }
            (Some(_), Login::Yes) => (Some("yes"), None),
            (Some(_), Login::No(reason)) => (Some("no"), Some(reason.clone())),
            (Some(_), Login::Unknown) => (Some("unknown"), None),
        };
        BackendInfo {
            name: cli.name.clone(),
            kind: "cli".into(),
            available: found.path.is_some() && found.logged_in != Login::No(problem.clone().unwrap_or_default()),
            path: found.path.map(|path| path.display().to_string()),
            version: found.version,
            logged_in: logged_in.map(str::to_owned),
            models: Vec::new(),
            problem,
        }
    }
}

/// Refuses goals on a server that anyone of the machine may call.
fn needs_token() -> Failure {
    let message = "this server takes calls without a token, and goals run programs on its machine";
    Failure::new(FailureKind::Denied, "goals_need_token", message)
        .with_hint("set a token in DRAWLOOM_TOKEN, or use the server that commands start: `drawloom goal run`")
}

/// Refuses what is not possible when workers change the user's checkout itself.
fn check_in_place(caller: &Caller, request: &Orchestrate) -> Result<(), Failure> {
    if caller.proof == Proof::Principal {
        let message =
            "isolate: false is for the operator of this server: a token of `principals` cannot change checkouts";
        return Err(Failure::new(FailureKind::Denied, "in_place_denied", message)
            .with_hint("leave isolate out: workers then get checkouts of their own"));
    }
    let excluded = [
        ("skip_permissions", request.skip_permissions),
        ("base", request.base.is_some()),
        ("include_uncommitted", request.include_uncommitted),
    ];
    match excluded.iter().find(|(_, is_set)| *is_set) {
        Some((name, _)) => Err(refuse("not_isolated", format!("{name} needs isolated checkouts"))
            .with_hint(format!("leave out either {name} or `isolate: false` (--no-isolate)"))),
        None => Ok(()),
    }
}

/// The setup command that was asked for. It runs in the sandbox that verify commands have, so it allows nothing more than they do.
fn setup(request: &Orchestrate) -> Result<Option<String>, Failure> {
    match &request.setup {
        Some(command) if command.trim().is_empty() => Err(refuse("bad_setup", "setup is empty")
            .with_hint("leave it out to run `goals.setup` of the config, or pass `true` to run nothing")),
        other => Ok(other.clone()),
    }
}

/// Verify commands as they were asked for.
fn verify(request: &Orchestrate) -> Result<VerifyInput, Failure> {
    let mut texts = request.verify_commands.clone();
    if let Some(empty) = texts.iter().position(|text| text.trim().is_empty()) {
        return Err(refuse("bad_verify", format!("verify_commands[{empty}] is empty")));
    }
    if request.playwright && !texts.iter().any(|text| text == PLAYWRIGHT) {
        texts.push(PLAYWRIGHT.into());
    }
    if texts.is_empty() && (request.witness || !request.protect.is_empty()) {
        return Err(refuse("needs_verify", "witness and protect need verify_commands"));
    }
    let timeout = Some(request.verify_timeout.unwrap_or(VERIFY_SECONDS));
    let command =
        |text: String| VerifyCommand { name: text.clone(), run: CommandLine::Shell(text), timeout_seconds: timeout };
    Ok(VerifyInput {
        commands: texts.into_iter().map(command).collect(),
        protect: request.protect.clone(),
        witness: request.witness,
    })
}

#[async_trait]
impl GoalHost for Host {
    fn complete(&self, caller: &Caller, request: &Orchestrate) -> Result<GoalInput, Failure> {
        let roles = self.roles(request)?;
        let is_mock = [&roles.planner, &roles.worker, &roles.reviewer].iter().all(|backend| backend.name == "mock");
        if self.is_open && !(is_mock && request.cwd.is_none()) {
            return Err(needs_token());
        }
        for globs in [&request.protect, &request.include] {
            checkout::check_globs(globs).map_err(|error| Failure::of(&error))?;
        }
        let workspace = self.workspace(caller, request)?;
        self.check_roles(&roles, request)?;
        let usual = Budget::default();
        Ok(GoalInput {
            goal: request.goal.clone(),
            success_criteria: request.success_criteria.clone(),
            interaction: match (request.ask, request.confirm) {
                (_, true) => Interaction::Confirm,
                (true, false) => Interaction::Suspend,
                (false, false) => Interaction::Auto,
            },
            confirm_plan: request.confirm_plan,
            workspace,
            verify: verify(request)?,
            budget: Budget {
                max_iterations: request.max_iterations.unwrap_or(usual.max_iterations),
                max_task_retries: request.max_task_retries.unwrap_or(usual.max_task_retries),
                max_seconds: request.max_seconds,
                max_agent_calls: request.max_agent_calls,
                max_tokens: request.max_tokens,
                max_cost: request.max_cost.map(|amount| amount.0.0),
                max_stagnant_iterations: request.max_stagnant_iterations.unwrap_or(usual.max_stagnant_iterations),
                max_parallel: request.max_parallel.unwrap_or(usual.max_parallel),
            },
            skip_permissions: request.skip_permissions,
            call_seconds: request.timeout,
            playwright: request.playwright,
            plan_backends: self.plan_backends(&roles, request),
            mock_accepts_at: request.mock_accepts_at.unwrap_or(2),
            mock_questions: request.mock_questions.clone(),
            continues: None,
            roles,
        })
    }

    fn agent(&self) -> Arc<Definition> {
        Arc::new(goal_agent())
    }

    fn started(&self, key: RunKey) {
        self.folders.follow(key);
    }

    fn folder(&self, run: RunId) -> PathBuf {
        self.folders.of(run)
    }

    async fn left(&self, key: &RunKey) -> Result<Vec<GoalLeft>, Failure> {
        let left = self.folders.left(key).await;
        left.map_err(|problem| Failure::new(FailureKind::Unavailable, "not_kept_yet", problem))
    }

    async fn backends(&self, request: &ListBackends) -> BackendList {
        let usual = self.config.backend.clone().unwrap_or_else(|| "auto".into());
        let resolved = backends::resolve(&self.backends, &usual, request.caller_agent.as_deref(), None);
        BackendList {
            backends: self.listed().await,
            resolved_default: resolved.map_or_else(|failure| failure.message, |backend| backend.name),
            default: usual,
            timeouts: TIMEOUTS.map(str::to_owned).into(),
        }
    }

    async fn diagnose(&self, caller: &Caller, request: &Doctor) -> Result<Diagnosis, Failure> {
        let backends = self.listed().await;
        let mut checks = vec![match environment::find_program("git") {
            Some(path) => DiagnosisCheck { name: "git".into(), ok: true, found: path.display().to_string() },
            None => DiagnosisCheck {
                name: "git".into(),
                ok: false,
                found: "not found in PATH; install git 2.38 or newer".into(),
            },
        }];
        if let Some(cwd) = &request.cwd {
            let directory = self.directory(caller, cwd)?;
            let (ok, found) = match self.repositories.checkouts().await {
                Ok(checkouts) => match checkouts.look(&directory).await {
                    Ok(found) => (true, found),
                    Err(error) => (false, told(&error)),
                },
                Err(problem) => (false, problem),
            };
            checks.push(DiagnosisCheck { name: "cwd".into(), ok, found });
        }
        let works = |backend: &BackendInfo| backend.available && backend.kind != "mock";
        let mut recommendations: Vec<String> = backends
            .iter()
            .filter_map(|backend| Some(format!("{}: {}", backend.name, backend.problem.as_ref()?)))
            .collect();
        if self.is_open {
            recommendations
                .push("set a token in DRAWLOOM_TOKEN: without one this server runs only the mock backend".into());
        }
        let ok = backends.iter().any(works) && checks.iter().all(|check| check.ok) && !self.is_open;
        Ok(Diagnosis { ok, backends, checks, timeouts: TIMEOUTS.map(str::to_owned).into(), recommendations })
    }

    async fn land(&self, caller: &Caller, goal: &Story, request: &OrchestrateLand) -> Result<GoalLanded, Failure> {
        let failed = |error: &checkout::Error| Failure::new(error.kind(), error.code(), told(error));
        let Some(prepared) = goal.prepared() else {
            return Err(refuse("no_branch", "this goal has no repository, so it has nothing to land"));
        };
        self.check_repository(caller, goal)?;
        if prepared.in_place {
            let top = prepared.repository.display();
            return Err(refuse("in_place", format!("the work of this goal is in {top} already, not committed"))
                .with_hint(format!("look at it with `git -C {top} diff`, then commit it there")));
        }
        let Some((head, verified)) = goal.head().filter(|(head, _)| *head != prepared.base) else {
            return Err(refuse("nothing_to_land", format!("{} has no changes", prepared.branch)));
        };
        let top = &prepared.repository;
        let completed = goal.status().completed == Some(true);
        let is_ok = verified.as_ref().is_none_or(drawloom_goal::workspace::Verified::is_ok);
        if !(request.unverified || completed && is_ok) {
            let message = format!("the goal was not completed: {}", goal.stop_reason().unwrap_or_default());
            return Err(Failure::new(FailureKind::Conflict, "not_completed", message)
                .with_hint(format!("look at {} first; `--unverified` lands it all the same", prepared.branch)));
        }
        let verdict = match verified.filter(|_| is_ok) {
            Some(verified) => Verdict::Passed(Oid::parse(&verified.tree).map_err(|error| failed(&error))?),
            None => Verdict::NotAsked,
        };
        let checkouts = self.repositories.checkouts().await.map_err(|problem| refuse("checkouts", problem))?;
        let oid = Oid::parse(&head).map_err(|error| failed(&error))?;
        let (run, into) = (request.run_id.to_string(), request.into.as_deref());
        if !checkouts.has_landed(&run, into, &oid).await.map_err(|error| failed(&error))? {
            let base = Oid::parse(&prepared.base).map_err(|error| failed(&error))?;
            let triggers = checkouts.triggers(&run, &base, &oid).await.map_err(|error| failed(&error))?;
            check_accepted(triggers, &request.accept)?;
        }
        let landed = checkouts.land(&run, into, &oid, &verdict).await.map_err(|error| failed(&error))?;
        Ok(told_landing(landed, head, top, &prepared.branch))
    }

    async fn triggers(&self, goal: &Story, run: RunId) -> Option<Vec<GoalTrigger>> {
        let (prepared, (head, _)) = (goal.prepared()?, goal.head()?);
        let checkouts = self.repositories.checkouts().await.ok()?;
        let (base, head) = (Oid::parse(&prepared.base).ok()?, Oid::parse(&head).ok()?);
        let found = checkouts.triggers(&run.to_string(), &base, &head).await.ok()?;
        Some(found.into_iter().map(|checkout::Trigger { path, why }| GoalTrigger { path, why }).collect())
    }

    fn check_continued(&self, caller: &Caller, goal: &GoalInput) -> Result<(), Failure> {
        let Roles { planner, worker, reviewer } = &goal.roles;
        let roles = [planner, worker, reviewer];
        if self.is_open && (goal.workspace.is_some() || roles.iter().any(|backend| backend.name != "mock")) {
            return Err(needs_token());
        }
        for backend in roles {
            backends::resolve(&self.backends, &backend.name, None, None)?;
            if let Some((BackendKind::Model, _)) = self.backends.find(&backend.name) {
                self.models.check(backend, goal.budget.max_cost.is_some())?;
            }
            self.check_metering(backend, goal.budget.max_tokens.is_some(), goal.budget.max_cost.is_some())?;
        }
        match &goal.workspace {
            Some(workspace) => self.directory(caller, &workspace.directory).map(|_| ()),
            None => Ok(()),
        }
    }

    fn check_repository(&self, caller: &Caller, goal: &Story) -> Result<(), Failure> {
        let Some(prepared) = goal.prepared().filter(|_| caller.proof == Proof::Principal) else { return Ok(()) };
        // The real path that it had. What is there now may be gone, or a link, and then git refuses to open it.
        self.check_allowed(caller, &prepared.repository, &prepared.repository)
    }

    async fn remove(&self, key: &RunKey, goal: &Story) -> Result<GoalRemoved, Failure> {
        self.remove_goal(key, goal).await
    }

    async fn kept(&self) -> Result<BTreeSet<RunId>, Failure> {
        self.repositories.kept().map_err(|error| {
            let root = self.repositories.root().display();
            Failure::new(FailureKind::Unavailable, "goals_unreadable", format!("cannot list {root}: {error}"))
                .with_hint("make the folder of goals readable, and try again")
        })
    }

    fn worktrees(&self) -> &dyn Worktrees {
        &*self.repositories
    }
}

/// Refuses files that make tools of the user run something, unless the caller accepts each of them.
fn check_accepted(triggers: Vec<checkout::Trigger>, accepted: &[String]) -> Result<(), Failure> {
    let is_accepted = |trigger: &checkout::Trigger| accepted.iter().any(|name| trigger.is_named(name));
    let open: Vec<checkout::Trigger> = triggers.into_iter().filter(|trigger| !is_accepted(trigger)).collect();
    let Some(first) = open.first() else { return Ok(()) };
    let named = open.iter().take(MAX_NAMED);
    let listed: Vec<String> = named.map(|trigger| format!("{} ({})", trigger.path, trigger.why)).collect();
    let more = open.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let message = format!("changed files make tools run something and must be accepted: {}{more}", listed.join("; "));
    let hint =
        format!("read them, then accept each: `--accept {}` (`accept` of orchestrate_land)", in_shell(&first.path));
    Err(Failure::new(FailureKind::Conflict, "needs_acceptance", message).with_hint(hint))
}

/// A word for a shell.
fn in_shell(word: &str) -> String {
    let plain = |sign: char| sign.is_alphanumeric() || "-_./:@%+=,".contains(sign);
    match word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn told_landing(landed: Land, commit: String, repository: &Path, goal: &str) -> GoalLanded {
    let told = |branch: String, message: String, command: Option<String>| GoalLanded {
        landed: false,
        moved: false,
        already_landed: false,
        repository: repository.to_owned(),
        branch,
        commit,
        message,
        command,
    };
    match landed {
        Land::FastForwarded { branch, old, new } => {
            let message = format!("{branch} moved from {} to {}", old.short(), new.short());
            GoalLanded { landed: true, moved: true, ..told(branch, message, None) }
        }
        Land::AlreadyLanded { branch, at } => {
            let message = format!("already landed: {branch} (at {}) has the work, and nothing was moved", at.short());
            GoalLanded { landed: true, already_landed: true, ..told(branch, message, None) }
        }
        Land::CheckedOut { branch, worktree, command } => {
            let message = format!(
                "{branch} is checked out in {worktree}; drawloom never changes a checkout. Run there: {command}"
            );
            told(branch, message, Some(command))
        }
        Land::NotFastForward { branch, at, command } => {
            let message = format!(
                "{branch} has commits that the work lacks (it is at {}). Merge or rebase: {command}",
                at.short()
            );
            told(branch, message, Some(command))
        }
        Land::NotVerified { tree, verified } => {
            let message = format!("verification was about tree {}, not about {}", verified.short(), tree.short());
            told(goal.to_owned(), message, None)
        }
    }
}
