//! Coding CLIs: the executor `cli` from the config and the environment.

use std::{collections::BTreeMap, sync::Arc};

use drawloom_clis::{Callers, CliExecutor, EXECUTOR, Parts};
use drawloom_contract::{
    definition::{Definitions as _, matches},
    executor::Executor,
    ids::Tenant,
};
use drawloom_process::Launcher;
use drawloom_substrate::{Catalog, Problem};

use super::{Directories, LAUNCHER, Resolved};
use crate::{
    clock::SystemClock,
    config::{Config, Loaded},
    data_dir::Access,
    environment,
};

/// What is wrong with the section `clis`.
pub(super) fn problems(config: &Config) -> impl Iterator<Item = Problem> {
    drawloom_clis::problems(&config.clis).into_iter().map(|(keys, message, hint)| {
        let keys: Vec<&str> = ["clis"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        Problem::new(keys, message).with_hint(hint)
    })
}

/// The executor of agents with `executor: cli`.
pub(super) fn executor(loaded: &Loaded, directories: &Directories) -> CliExecutor {
    let config = loaded.config.clis.clone();
    let mut variables = environment::all();
    let named = config.values().flat_map(|cli| &cli.env);
    variables.extend(named.filter_map(|name| Some((name.clone(), loaded.variable(name)?))));
    let data = directories.temporary.parent().map(ToOwned::to_owned);
    CliExecutor::new(Parts {
        launcher: Launcher::this_program(&[LAUNCHER]),
        temporary: directories.temporary.clone(),
        checkouts: directories.checkouts.clone(),
        copies: directories.temporary.with_file_name("clis").join("copies"),
        hidden: data
            .into_iter()
            .chain(environment::default_data_dir())
            .chain(environment::default_config_dir())
            .collect(),
        environment: variables,
        home: environment::home().filter(|home| home.is_absolute()).unwrap_or_else(|| directories.temporary.clone()),
        clock: Arc::new(SystemClock),
        config,
    })
}

/// What `provider` names for agents of the executor.
pub(super) fn backends(executor: &CliExecutor) -> BTreeMap<String, Vec<String>> {
    BTreeMap::from([(EXECUTOR.to_owned(), executor.clis().names())])
}

/// The executors of an instance: those of the config, and `more`. Where anyone can call, runs on coding CLIs are refused. An owner of the
/// data directory brings back what a killed server left of their state; runs that continue there wait for that.
pub(crate) fn start(
    resolved: &Resolved,
    access: &Access,
    anyone_calls: bool,
    more: BTreeMap<String, Arc<dyn Executor>>,
) -> BTreeMap<String, Arc<dyn Executor>> {
    if matches!(access, Access::Owner(_)) {
        let clis = resolved.clis.clone();
        tokio::spawn(async move { clis.recover().await });
    }
    let mut executors = resolved.executors.clone();
    executors.extend(more);
    let callers = if anyone_calls { Callers::Anyone } else { Callers::Known };
    executors.insert(EXECUTOR.to_owned(), Arc::new(resolved.clis.for_callers(callers)));
    executors
}

/// The names of the config's agents that run on coding CLIs.
pub(crate) fn agents(catalog: &Catalog) -> Vec<String> {
    let all = catalog.list(&Tenant::default_tenant()).into_iter();
    all.filter(|agent| agent.executor == EXECUTOR).map(|agent| agent.name.to_string()).collect()
}

/// The environment variables that a CLI may get its login from and whose names sound like a secret.
pub(crate) fn secret_names(config: &Config) -> Vec<String> {
    let uses_clis = config.agents.values().any(|agent| agent.executor.as_deref() == Some(EXECUTOR));
    if !uses_clis && config.clis.is_empty() {
        return Vec::new();
    }
    let patterns = drawloom_clis::login_variables(&config.clis);
    let is_login = |name: &String| patterns.iter().any(|pattern| matches(pattern, name));
    let given = config.clis.values().flat_map(|cli| cli.env.iter().cloned());
    let names = environment::all().into_keys().filter(is_login).chain(given);
    names.filter(|name| environment::sounds_secret(name)).collect()
}
