//! A config's form is right; here its meaning is checked: every name exists, every directory opens, every provider too.

pub(crate) mod bash;
pub(crate) mod clis;
pub(crate) mod refused;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use drawloom_clis::{CliExecutor, EXECUTOR};
use drawloom_contract::{
    choice::ModelName,
    definition::{Definitions as _, matches, may_mean},
    executor::{Executor, MODEL},
    failure::Explain as _,
    gate::Gate,
    ids::Tenant,
    model::Model,
    money::Price,
    redact::Redactor,
    tool::{Outlives, Tool, ToolSource},
};
use drawloom_models::Secret;
use drawloom_net::guarded::{SystemDialer, SystemResolver};
use drawloom_process::Launcher;
use drawloom_server::{AnyOperation, config::PrincipalConfig};
use drawloom_substrate::{
    Catalog, Commands, Finding, OperatorConfig, Problem, Protect, STORE_TOOLS, SkillTable, SkillTool, VolumeTable,
    Weight,
    definitions::{Layers, Principals},
};

use crate::{
    clock::SystemClock,
    config::{self, Config, Loaded, Mistake},
    data_dir::DataDir,
    environment,
    exit::CommandError,
    parts::secret_values,
    providers, skills,
};

/// The hidden argument with which this program is the launcher of a command.
pub const LAUNCHER: &str = "__launch";

/// The argument that makes this program start itself detached.
pub const LEAVE: &str = "__leave";

/// The names of all tools, on or off, but those of outside servers.
pub(crate) fn tool_names() -> impl Iterator<Item = &'static str> {
    let of_store = STORE_TOOLS.iter().map(|tool| tool.name);
    drawloom_tools::BUILT_IN.iter().map(|tool| tool.name).chain([SkillTool::NAME]).chain(of_store)
}

/// The gates of the tools that have one, on or off, by name.
pub(crate) fn tool_gates() -> BTreeMap<String, Gate> {
    let built_in = drawloom_tools::BUILT_IN.iter().map(|tool| (tool.name, tool.gate));
    let of_store = STORE_TOOLS.iter().map(|tool| (tool.name, tool.gate));
    let all = built_in.chain(of_store).chain([(SkillTool::NAME, Some(SkillTool::GATE))]);
    all.filter_map(|(name, gate)| Some((name.to_owned(), gate?))).collect()
}

/// What a config means.
pub struct Resolved {
    /// The agents of the config.
    pub catalog: Arc<Catalog>,
    /// The same with what is defined at runtime, once that is loaded.
    pub layers: Arc<Layers>,
    /// The directories that they may touch.
    pub volumes: Arc<VolumeTable>,
    /// The models, by provider.
    pub models: BTreeMap<String, Arc<dyn Model>>,
    /// What the operator says that models cost.
    pub prices: BTreeMap<ModelName, Price>,
    /// Executors beside `model`.
    pub executors: BTreeMap<String, Arc<dyn Executor>>,
    /// The one of them for coding CLIs.
    pub clis: Arc<CliExecutor>,
    /// The tools, without those that need the store: they are made when it is open.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The skills.
    pub skills: Arc<SkillTable>,
    /// Tools that are off, of which an earlier process may have left calls that still run.
    pub turned_off: BTreeMap<String, Arc<dyn Outlives>>,
    /// The outside servers, by name, none of them started.
    pub servers: BTreeMap<String, Arc<dyn ToolSource>>,
    /// What the reader of the config should know.
    pub findings: Vec<Finding>,
}

/// What a process has beside what is built in: the shipped binary has nothing.
#[derive(Clone, Default)]
pub struct Extra {
    /// Tools that agents can list.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Executors that agents can name.
    pub executors: BTreeMap<String, Arc<dyn Executor>>,
    /// Operations that callers can ask for.
    pub operations: Vec<Arc<dyn AnyOperation>>,
}

/// Resolves the config, or says all that is wrong with it. `extra` is there beside what is built in.
pub fn resolve(loaded: &Loaded, extra: &Extra) -> Result<Resolved, Vec<Mistake>> {
    resolve_in(&Directories::nowhere(None), loaded, extra)
}

/// The same, for a project whose data directory no volume may contain.
pub(crate) fn resolve_beside(data: Option<&DataDir>, loaded: &Loaded, extra: &Extra) -> Result<Resolved, Vec<Mistake>> {
    resolve_in(&Directories::nowhere(data.and_then(|data| data.real_path().ok())), loaded, extra)
}

/// Where the tools of an instance keep their files.
pub(crate) struct Directories {
    /// Temporary directories of commands.
    pub(crate) temporary: PathBuf,
    /// Notes about staged files.
    pub(crate) staged: PathBuf,
    /// Isolated checkouts.
    pub(crate) checkouts: PathBuf,
    /// The real path of the data directory, when no volume may contain it and that is to be checked here.
    pub(crate) data: Option<PathBuf>,
}

impl Directories {
    /// For a config that is only looked at.
    fn nowhere(data: Option<PathBuf>) -> Self {
        let nowhere = std::env::temp_dir();
        Self { temporary: nowhere.clone(), staged: nowhere.clone(), checkouts: nowhere, data }
    }
}

/// The same, for an instance whose tools are called.
pub(crate) fn resolve_in(directories: &Directories, loaded: &Loaded, extra: &Extra) -> Result<Resolved, Vec<Mistake>> {
    let config = &loaded.config;
    let mut problems = Vec::new();
    let sourced = &loaded.sourced;
    let in_place: Vec<_> = sourced.skills.iter().map(|skill| (skill.name.as_str(), skill.folder.as_path())).collect();
    let skills = skills::read(&config.skills, &in_place);
    problems.extend(skills.problems);
    let skill_table = Arc::new(skills.table);
    let tool_parts = tool_parts(loaded, directories, &skill_table);
    let mut tools = drawloom_tools::builtin(&tool_parts);
    let bash = if config.tools.bash.enabled { Commands::On } else { Commands::Off };
    let provider_ids: Vec<String> = config.providers.keys().cloned().collect();
    let unusable = providers::disabled(loaded);
    let prices = config.pricing.prices(&provider_ids).unwrap_or_else(|found| {
        problems.extend(found);
        BTreeMap::new()
    });
    problems.extend(config.tools.problems().into_iter().map(|(keys, message)| {
        let keys: Vec<&str> = ["tools"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        Problem::new(keys, message)
    }));
    let servers = &config.mcp_servers;
    problems.extend(drawloom_tools::mcp_problems(servers).into_iter().map(|(keys, message, hint)| {
        let keys: Vec<&str> = ["mcp_servers"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        Problem::new(keys, message).with_hint(hint)
    }));
    problems.extend(servers.iter().flat_map(|(name, server)| unsendable(name, server, loaded)));
    problems.extend(refused::addresses(config));
    problems.extend(clis::problems(config));
    let cli_executor = Arc::new(clis::executor(loaded, directories));
    let mut models = BTreeMap::new();
    for (id, provider) in &config.providers {
        let key = provider.api_key_env.as_deref().and_then(|name| loaded.variable(name)).map(Secret::new);
        match drawloom_models::open(id, provider, key, Arc::new(SystemClock)) {
            Ok(model) => drop(models.insert(id.clone(), model)),
            // Its variable is not set: a finding says so, and its agents cannot run.
            Err(drawloom_models::Error::MissingKey { .. }) if unusable.contains(id) => {}
            Err(error) => problems.push(provider_problem(&error)),
        }
    }
    let (mut volumes, found) = VolumeTable::open_those_that_open(&config.volumes);
    problems.extend(found);
    let protect = Protect {
        files: &config::guarded(&loaded.files),
        found_before: &config::found_before(),
        folders: &skills::guarded(&sourced.folders, &config.skills, &skill_table),
    };
    match volumes.guard(protect) {
        Ok(found) => problems.extend(found),
        Err(error) => {
            problems.push(Problem::new(["volumes"], format!("cannot protect the config files from agents: {error}")));
        }
    }
    if let Some(data) = &directories.data {
        problems.extend(volumes.exposing(data).unwrap_or_default());
        problems.extend(exposing_paths(config, data));
    }
    let volumes = Arc::new(volumes);
    let built_in = tools.iter().map(|tool| tool.card().name).chain([SkillTool::NAME.to_owned()]);
    let others = extra.tools.iter().map(|tool| tool.card().name);
    let operator = OperatorConfig {
        agents: config.agents.clone(),
        defaults: config.defaults.clone(),
        models: config.models.clone(),
        tiers: config.tiers.clone(),
        user_tiers: config.user_tiers.clone(),
        provider_priority: config.provider_priority.clone(),
        providers: provider_ids,
        unusable: unusable.clone(),
        executors: extra.executors.keys().cloned().chain([MODEL, EXECUTOR].map(str::to_owned)).collect(),
        backends: clis::backends(&cli_executor),
        tools: built_in.chain(others).chain(STORE_TOOLS.iter().map(|tool| tool.name.to_owned())).collect(),
        gates: tool_gates(),
        off: drawloom_tools::off(&config.tools).iter().map(|off| (off.name.into(), off.switch.into())).collect(),
        servers: servers.keys().cloned().collect(),
        volumes: volumes.clone(),
        skills: skill_table.clone(),
        channels: config.channels.clone(),
    };
    let (catalog, mut findings, found) = Catalog::examine(&operator.inputs());
    // A volume that cannot be opened has a problem of its own.
    let is_volume = |unknown: &(&str, String)| unknown.0 == "volumes" && config.volumes.contains_key(&unknown.1);
    problems.extend(found.into_iter().filter(|problem| !problem.unknown.as_ref().is_some_and(is_volume)));
    problems.extend(refused::budgets(config, &catalog, &models, &prices));
    let catalog = Arc::new(catalog);
    let (layers, found) = Layers::new(operator, catalog.clone(), config.definitions.clone(), principals(config));
    problems.extend(found);
    tools.push(Arc::new(SkillTool::over(layers.clone(), bash)));
    tools.extend(extra.tools.iter().cloned());
    if !problems.is_empty() {
        return Err(loaded.mistakes(&problems));
    }
    findings.extend(providers::findings(loaded));
    findings.extend(beside(loaded));
    findings.extend(sourced.findings.iter().cloned());
    findings.extend(skills.findings);
    findings.extend(unused_skills(&skill_table, config));
    findings.extend(bash::findings(&config.tools, &catalog));
    findings.extend(crate::models::findings(&catalog, &models));
    findings.extend(servers.iter().flat_map(|(name, server)| server_findings(name, server, &catalog, loaded)));
    let mut executors = extra.executors.clone();
    executors.insert(EXECUTOR.to_owned(), cli_executor.clone());
    let sources = drawloom_tools::outside(servers, &outside_parts(loaded));
    Ok(Resolved {
        catalog,
        layers,
        volumes,
        models,
        prices,
        executors,
        clis: cli_executor,
        tools,
        skills: skill_table,
        turned_off: drawloom_tools::turned_off(&tool_parts),
        servers: servers.keys().cloned().zip(sources).collect(),
        findings,
    })
}

/// Those whose tokens may bound what was defined at runtime.
fn principals(config: &Config) -> Principals {
    Principals::new(config.principals.values().map(|principal| {
        let PrincipalConfig { tenant, subject, scopes, token_env: _ } = principal;
        (tenant.clone(), subject.clone(), scopes.clone())
    }))
}

/// What is to know about files beside the config: `.env`, and a file with the other ending, which is not read.
fn beside(loaded: &Loaded) -> Vec<Finding> {
    let warning = |message| Finding { weight: Weight::Warning, at: Vec::new(), message };
    let remarks = loaded.dotenv.remarks().iter().map(|remark| warning(remark.to_string()));
    let others = loaded.files.iter().map(|file| (file, file.with_extension("yml")));
    let others = others.filter(|(file, other)| *file != other && other.exists() && !loaded.files.contains(other));
    let others = others.map(|(file, other)| {
        warning(format!("{} is not read; move what is in it to {}, or delete it", other.display(), file.display()))
    });
    remarks.chain(others).collect()
}

/// Paths for commands that show a data directory of this user. Its token, and those of other projects, would be in reach.
fn exposing_paths(config: &Config, data: &Path) -> Vec<Problem> {
    let all = environment::default_data_dir().and_then(|directory| directory.canonicalize().ok());
    let hidden: Vec<&Path> = [Some(data), all.as_deref()].into_iter().flatten().collect();
    let (bash, goals) = (&config.tools.bash, &config.goals);
    let mut lists = vec![
        (vec!["tools", "bash"], &bash.readable_paths, &bash.writable_paths),
        (vec!["goals"], &goals.readable_paths, &goals.writable_paths),
    ];
    let clis = config.clis.iter();
    lists.extend(clis.map(|(name, cli)| (vec!["clis", name.as_str()], &cli.readable_paths, &cli.writable_paths)));
    let listed = lists.into_iter().flat_map(|(section, readable, writable)| {
        let keyed = [("readable_paths", readable), ("writable_paths", writable)];
        let of = |key: &'static str| section.iter().copied().chain([key]).collect::<Vec<&str>>();
        keyed
            .into_iter()
            .flat_map(|(key, paths)| paths.iter().map(|path| (of(key), path)).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    });
    let shows = |path: &Path| {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        hidden.iter().copied().find(|hidden| hidden.starts_with(&real) || real.starts_with(hidden))
    };
    let problem = |(keys, path): (Vec<&str>, &PathBuf)| {
        let shown = shows(path)?;
        let message = format!("{} shows commands the data directory {}", path.display(), shown.display());
        Some(Problem::new(keys, message).with_hint("list directories beside it"))
    };
    listed.filter_map(problem).collect()
}

/// Refuses volumes that contain the data directory or lie inside it, and paths for commands that do.
pub(crate) fn keep_apart(loaded: &Loaded, resolved: &Resolved, data: &DataDir) -> Result<(), CommandError> {
    let exposed = data.real_path().and_then(|data| resolved.volumes.exposing(&data)).map_err(|error| {
        CommandError::usage("bad_data_dir", format!("cannot read {}: {error}", data.path().display()))
    })?;
    let mut exposed = exposed;
    if let Ok(data) = data.real_path() {
        exposed.extend(exposing_paths(&loaded.config, &data));
    }
    match exposed.is_empty() {
        true => Ok(()),
        false => Err(config::refuse(loaded.mistakes(&exposed))),
    }
}

/// What the built-in tools are made of.
fn tool_parts(loaded: &Loaded, directories: &Directories, skills: &SkillTable) -> drawloom_tools::Parts {
    let config = &loaded.config.tools;
    let variable = |name: &str| Some((name.to_owned(), loaded.variable(name)?));
    drawloom_tools::Parts {
        config: config.clone(),
        launcher: Launcher::this_program(&[LAUNCHER]),
        temporary: directories.temporary.clone(),
        staged: directories.staged.clone(),
        skills: skills.all().map(|skill| (skill.name.clone(), skill.folder.clone())).collect(),
        environment: drawloom_tools::variables(config).filter_map(variable).collect(),
        clock: Arc::new(SystemClock),
        resolve: Arc::new(SystemResolver),
        dial: Arc::new(SystemDialer),
    }
}

/// Skills that no agent may load: read at every start, for nothing.
fn unused_skills(skills: &SkillTable, config: &Config) -> Option<Finding> {
    let patterns =
        || config.agents.values().flat_map(|agent| agent.skills.iter().flatten().chain(&agent.bundled_skills));
    let unused: Vec<&str> = skills.names().filter(|skill| !patterns().any(|pattern| matches(pattern, skill))).collect();
    let shown = unused.iter().take(8).copied().collect::<Vec<_>>().join(", ");
    let more = if unused.len() > 8 { format!(" and {} more", unused.len() - 8) } else { String::new() };
    (!unused.is_empty()).then(|| Finding {
        weight: Weight::Note,
        at: vec!["skills".into()],
        message: format!("no agent may load these skills: {shown}{more} (name them under `skills` of an agent)"),
    })
}

/// What the outside servers are reached with.
fn outside_parts(loaded: &Loaded) -> drawloom_tools::OutsideParts {
    let secrets = secret_values(loaded);
    let variable = |name: &str| Some((name.to_owned(), loaded.variable(name)?));
    drawloom_tools::OutsideParts {
        launcher: Launcher::this_program(&[LAUNCHER]),
        environment: drawloom_tools::mcp_variables(&loaded.config.mcp_servers).filter_map(variable).collect(),
        redactor: Arc::new(Redactor::new(secrets)),
        clock: Arc::new(SystemClock),
    }
}

/// Credentials that no header can carry. They are not shown.
fn unsendable(name: &str, server: &drawloom_tools::McpServerConfig, loaded: &Loaded) -> Vec<Problem> {
    let headers = server.headers_env.iter().map(|(header, variable)| (vec!["headers_env", header], variable));
    let given = headers.chain(server.bearer_env.iter().map(|variable| (vec!["bearer_env"], variable)));
    given
        .filter(|(_, variable)| {
            loaded.variable(variable).is_some_and(|value| value.contains(|sign: char| sign.is_control()))
        })
        .map(|(below, _)| {
            let keys: Vec<&str> = ["mcp_servers", name].into_iter().chain(below).collect();
            Problem::new(keys, "the value of the variable contains a line break or another control character")
                .with_hint("a header cannot contain it; set the variable again without it")
        })
        .collect()
}

/// What will not work about an outside server, as far as it shows without asking it.
fn server_findings(
    name: &str,
    server: &drawloom_tools::McpServerConfig,
    catalog: &Catalog,
    loaded: &Loaded,
) -> Vec<Finding> {
    let find = |weight, below: &[&str], message: String| {
        let at = ["mcp_servers", name].into_iter().chain(below.iter().copied()).map(str::to_owned).collect();
        Finding { weight, at, message }
    };
    let mut findings = Vec::new();
    for variable in server.variables().filter(|variable| loaded.variable(variable).is_none()) {
        let message = match server.credentials().any(|credential| credential == variable) {
            true => format!("{variable} is not set; MCP server {name} is disabled"),
            false => format!("{variable} is not set; MCP server {name} starts without it"),
        };
        findings.push(find(Weight::Warning, &[], message));
    }
    let prefix = drawloom_tools::mcp_prefix(name);
    let means = |pattern: &String| may_mean(pattern, &prefix);
    let agents = catalog.list(&Tenant::default_tenant());
    if !agents.iter().any(|agent| agent.tools.iter().any(means)) {
        let message = format!("no agent lists a tool of MCP server {name}, such as {prefix}*: it is never started");
        findings.push(find(Weight::Note, &[], message));
    }
    if server.url.as_ref().is_some_and(|url| url.contains('?')) {
        let message = format!(
            "the URL of MCP server {name} has query parameters, which are not masked; put a key into a header with headers_env"
        );
        findings.push(find(Weight::Warning, &["url"], message));
    }
    if let Some(directory) = server.cwd.as_ref().filter(|directory| !directory.is_dir()) {
        let message = format!("`cwd` of MCP server {name} is not a directory: {}", directory.display());
        findings.push(find(Weight::Warning, &["cwd"], message));
    }
    if server.tools.is_empty() {
        let message = format!("`tools` of MCP server {name} is empty: none of its tools can be used");
        findings.push(find(Weight::Warning, &["tools"], message));
    }
    findings
}

/// Where in the config a provider's error is.
fn provider_problem(error: &drawloom_models::Error) -> Problem {
    let problem = match error {
        drawloom_models::Error::NotForDriver { provider, key, driver } => {
            let keys = ["providers", provider].into_iter().chain(key.split('.'));
            Problem::new(keys, format!("the driver {driver} does not know this key")).of_key()
        }
        drawloom_models::Error::MissingKey { provider, default_url } => {
            Problem::new(["providers", provider], format!("no API key for {default_url}"))
        }
        drawloom_models::Error::BadKey { provider } => {
            Problem::new(["providers", provider, "api_key_env"], "the API key contains invalid characters")
        }
        drawloom_models::Error::BadAddress { provider, .. } => {
            Problem::new(["providers", provider, "base_url"], "not a valid URL")
        }
        drawloom_models::Error::BadHeader { provider, .. } => {
            Problem::new(["providers", provider, "options", "key_header"], "not a valid name of a header")
        }
        drawloom_models::Error::Client { provider, problem } => {
            Problem::new(["providers", provider], format!("cannot create the HTTP client: {problem}"))
        }
        drawloom_models::Error::BadRule { provider, rule, problem } => {
            let rule = rule.to_string();
            let at = ["providers", provider, "options", "rules", &rule];
            // A regular expression's error is drawn over several lines; the last one says what is wrong.
            match problem.split_once(": regex parse error:") {
                Some((key, drawn)) => {
                    let reason = drawn.rsplit_once("error: ").map_or(drawn, |(_, reason)| reason).trim();
                    let message = format!("invalid regular expression: {reason}");
                    Problem::new(at.into_iter().chain(key.split('.')), message)
                        .with_hint("escape special characters, such as \\( and \\.")
                }
                None => Problem::new(at, problem.split_whitespace().collect::<Vec<_>>().join(" ")),
            }
        }
    };
    Problem { hint: error.hint().or(problem.hint.clone()), ..problem }
}
