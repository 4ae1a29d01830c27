//! What the doctor looks at, one function each.

use std::{path::Path, time::Duration};

use drawloom_contract::{
    failure::Explain as _,
    journal::{RunReader as _, StoreError},
    model::Model,
    time::Clock as _,
};
use drawloom_models::Access;
use drawloom_server::auth::{MAKE_TOKEN, check_token, see_only_their_own};
use drawloom_store::{Options, Previous, Store};
use drawloom_substrate::{Finding, Weight};
use drawloom_wire::{
    client::Client,
    server::{AskWhoAmI, GetLoad},
};

use crate::{
    clock::SystemClock,
    commands::Session,
    config::{self, Loaded},
    connect,
    data_dir::{self, DataDir, Lock, ServerFile},
    environment,
    exit::CommandError,
    logging, models,
    output::duration,
    parts,
    project::Project,
    providers,
    resolve::{self, Resolved, bash},
    server_config,
    start::take_note,
    trust::{self, Asking, Origin},
};

use super::{Report, Verdict, definitions, machine, outside};

/// A provider that has not answered by then does not work.
const KEY_TIMEOUT: Duration = Duration::from_secs(20);

/// Checks everything; keys only when the user wants it, because that asks the providers.
pub(super) async fn all(session: &Session, report: &mut Report, with_keys: bool) {
    if let Some(url) = &session.globals.url {
        // The config and the data directory of a server elsewhere are elsewhere too.
        return server(report, url, connect::client(url)).await;
    }
    let (loaded, resolved) = config(session, report);
    // The data directory is the project's. `config` above has reported a missing config.
    let project = match Project::find_data(&session.globals) {
        Err(error) if error.code == "store_gone" => return report.fail("data directory", &error),
        found => found.ok(),
    };
    let mut defined = Ok(());
    if let (Some(loaded), Some(resolved)) = (&loaded, &resolved) {
        // What config agents name may be defined at runtime.
        let open = resolved.layers.open_findings();
        if let Some(project) = &project {
            defined = definitions::load(resolved, project.data.path()).await;
        }
        let settled = resolved.findings.iter().filter(|finding| !open.contains(finding));
        findings(report, loaded, settled.chain(&resolved.layers.open_findings()));
    }
    if let Some(project) = &project {
        match project.data.lock("doctor") {
            Ok(lock) => {
                owned(report, lock).await;
                if let Some(loaded) = &loaded {
                    listen(report, &loaded.config.listen).await;
                }
            }
            Err(data_dir::Error::InUse { server: Some(found), .. }) => served(report, &project.data, &found).await,
            Err(error) => report.fail("data directory", &error.into()),
        }
        match (&resolved, &defined) {
            (Some(resolved), Ok(())) => definitions::check(report, resolved),
            (_, Err(error)) => report.fail("definitions", error),
            (None, Ok(())) => {}
        }
    }
    let place = project.map(|project| project.data.path().to_owned()).or_else(environment::default_data_dir);
    // What is the machine's, one function each: a further check is a line here.
    let place = place.as_deref().unwrap_or(Path::new("/"));
    machine::disk(report, place);
    machine::clock(report, &session.local_time(), place);
    machine::open_files(report);
    machine::sandbox(report);
    let trusted = loaded.as_ref().is_some_and(|loaded| is_trusted(session, report, loaded));
    if let Some(loaded) = &loaded {
        tokens(report, loaded, resolved.as_ref());
        // A key that is tried below gets one line, not two.
        keys_set(report, loaded, with_keys && trusted && resolved.is_some());
    }
    let Some(loaded) = loaded.filter(|_| trusted) else { return };
    if let Some(resolved) = &resolved {
        outside::servers(report, &loaded.config, resolved).await;
    }
    if let Some(resolved) = resolved.filter(|_| with_keys) {
        keys(report, &resolved).await;
    }
}

/// Whether the config may be used: programs of an untrusted one are not started, and its providers are not called.
fn is_trusted(session: &Session, report: &mut Report, loaded: &Loaded) -> bool {
    let origin = Origin::of(&session.globals.config, &loaded.files);
    let checked = trust::check(&loaded.files, loaded, origin, Asking::Never);
    checked.map_err(|error| report.fail("trust", &error)).is_ok()
}

/// Asks every provider for its models.
async fn keys(report: &mut Report, resolved: &Resolved) {
    for (id, model) in &resolved.models {
        let began = SystemClock.now();
        let asked = tokio::time::timeout(KEY_TIMEOUT, model.list()).await;
        let took = duration(SystemClock.now().since(began).as_millis() as u64);
        match asked {
            Ok(Ok(listed)) => {
                let models = if listed.len() == 1 { "1 model".to_owned() } else { format!("{} models", listed.len()) };
                report.ok("key", format!("{id}: accepted, {models} ({took})"));
                tools(report, resolved, id, &**model).await;
            }
            Ok(Err(error)) => {
                let failure = models::failure(&error);
                report.add(Verdict::Fail, "key", format!("{id}: {} ({took})", failure.message), failure.hint);
            }
            Err(_) => report.add(
                Verdict::Fail,
                "key",
                format!("{id}: no answer in {took}"),
                Some("check `base_url` and the network".into()),
            ),
        }
    }
}

/// Agents with tools whose model takes none, as its provider says.
async fn tools(report: &mut Report, resolved: &Resolved, provider: &str, model: &dyn Model) {
    let asked = models::asked_with_tools(&resolved.catalog).into_iter();
    for (agent, name) in asked.filter(|(_, name)| name.provider == provider) {
        model.look_up(&name.model).await;
        if model.card(&name.model).takes_tools == Some(false) {
            let hint = format!("`drawloom models list --remote {provider}` shows which models take tools");
            report.add(Verdict::Warn, "tools", models::takes_none(&agent, &name), Some(hint));
        }
    }
}

fn config(session: &Session, report: &mut Report) -> (Option<Loaded>, Option<Resolved>) {
    let loaded = match config::find(&session.globals.config).and_then(|files| config::load_files(&files)) {
        Ok(loaded) => loaded,
        Err(error) => {
            report.fail("config", &to_fix(error));
            return (None, None);
        }
    };
    logging::mask_also(parts::secret_values(&loaded));
    let resolved = resolve::resolve(&loaded, &crate::Extra::default()).map_err(config::refuse).and_then(|resolved| {
        if let Ok(project) = Project::find_data(&session.globals) {
            resolve::keep_apart(&loaded, &resolved, &project.data)?;
        }
        Ok(resolved)
    });
    match resolved {
        Ok(resolved) => {
            let files: Vec<String> = loaded.files.iter().map(|file| file.display().to_string()).collect();
            let agents = resolved.catalog.names().count();
            report.ok("config", format!("{}: no mistakes, {agents} agents", files.join(", ")));
            (Some(loaded), Some(resolved))
        }
        Err(error) => {
            report.fail("config", &to_fix(error));
            (Some(loaded), None)
        }
    }
}

/// What the reader of the config should know.
fn findings<'a>(report: &mut Report, loaded: &Loaded, findings: impl Iterator<Item = &'a Finding>) {
    // Keys of providers have lines of their own.
    let is_key = |finding: &Finding| finding.at.last().is_some_and(|key| key == "api_key_env");
    for finding in findings.filter(|finding| !is_key(finding)) {
        let position = loaded.position(&finding.at);
        let (verdict, hint) = match finding.weight {
            Weight::Note => (Verdict::Ok, None),
            Weight::Warning => (Verdict::Warn, Some(format!("fix {position}: {}", finding.message))),
        };
        report.add(verdict, "config", format!("{position}: {}", finding.message), hint);
    }
}

/// The same error, which ends with what to do.
fn to_fix(error: CommandError) -> CommandError {
    match error.code.as_str() {
        "bad_config" => error.with_hint("fix the config; `drawloom validate` shows whether mistakes are left"),
        _ => error,
    }
}

/// The directory is ours while this looks at it.
async fn owned(report: &mut Report, lock: Lock) {
    let path = lock.directory().path().to_owned();
    report.ok("data directory", format!("{} is free: no server runs on it", path.display()));
    machine::permissions(report, &path);
    whole(report, &path);
    if !path.join("drawloom.db").exists() {
        return report.ok("store", "there is none yet; the first command that runs something makes it");
    }
    match integrity(&path).await {
        Ok(unfinished) => {
            report.ok("store", "every page is in order, and every commit waits for a real sync");
            match unfinished {
                0 => report.ok("runs", "none is unfinished"),
                count => report.add(
                    Verdict::Warn,
                    "runs",
                    format!("{count} unfinished, and no server runs"),
                    Some("`drawloom restart` takes them up".into()),
                ),
            }
        }
        Err(error) => report.fail("store", &CommandError::of(&error)),
    }
}

/// Whether the end of the store was there whenever it was opened.
fn whole(report: &mut Report, data: &Path) {
    if let Some(lost) = drawloom_store::lost(data) {
        report.add(Verdict::Fail, "store", lost.to_string(), Some(take_note(&lost)));
    }
}

/// Checks every page; returns how many runs are unfinished.
async fn integrity(path: &Path) -> Result<u64, StoreError> {
    let opened = Store::open(&Options::new(path), SystemClock.wall())?;
    opened.store.integrity().await?;
    let unfinished = opened.store.list_unfinished().await?;
    // A boot that ended badly must still look so to the next server, which judges runs by it.
    if opened.previous != Previous::Unclean {
        opened.store.close().await?;
    }
    Ok(unfinished.runs.len() as u64 + unfinished.parked)
}

async fn served(report: &mut Report, directory: &DataDir, found: &ServerFile) {
    report.ok(
        "data directory",
        format!("{} is served by process {} at {}", directory.path().display(), found.pid, found.url),
    );
    whole(report, directory.path());
    server(report, &found.url, connect::client_of(directory, &found.url)).await;
    if server_config::is_changed(found) {
        let message = "the config has changed, and the server still uses the old version";
        report.add(Verdict::Warn, "server", message, Some("run `drawloom restart`".into()));
    }
}

async fn server(report: &mut Report, url: &str, client: Result<Client, CommandError>) {
    let client = match client {
        Ok(client) => client,
        Err(error) => return report.fail("server", &error),
    };
    match client.health().await {
        Ok(health) => report.ok("server", format!("{url} answers, version {}, and can take runs", health.version)),
        Err(error) => return report.fail("server", &error.into()),
    }
    match client.call(&AskWhoAmI {}).await {
        Ok(me) if me.open_mode => report.ok("access", "the server is open to programs on this machine"),
        Ok(me) => report.ok("access", format!("you are {} of tenant {}", me.subject, me.tenant_id)),
        Err(error) => report.fail("access", &error.into()),
    }
    match client.call(&GetLoad {}).await {
        Ok(load) => report.ok(
            "load",
            format!("{} runs active of at most {}, {} queued", load.active, load.max_concurrent_runs, load.queued),
        ),
        Err(error) => report.fail("load", &error.into()),
    }
}

async fn listen(report: &mut Report, listen: &str) {
    // An invalid address is reported with the mistakes of the config.
    let Some(address) = config::listen_address(listen) else { return };
    match tokio::net::TcpListener::bind(address).await {
        Ok(_) => report.ok("listen", format!("{address} is free")),
        Err(error) => report.add(
            Verdict::Fail,
            "listen",
            format!("cannot listen on {address}: {error}"),
            Some("change `listen` in the config, or pass --listen to serve".into()),
        ),
    }
}

/// Where a variable is set, when it is.
fn set_in(loaded: &Loaded, name: &str) -> Option<String> {
    loaded.variable(name)?;
    loaded.dotenv.origin(name).map(|origin| format!("{name} is set in {origin}"))
}

fn tokens(report: &mut Report, loaded: &Loaded, resolved: Option<&Resolved>) {
    let config = &loaded.config;
    let name = &config.auth.token_env;
    let is_set = |name: &str| loaded.variable(name).is_some();
    let loopback = config::listen_address(&config.listen).is_none_or(|address| address.ip().is_loopback());
    let has_principals = !config.principals.is_empty();
    let reaching = resolved.map(|resolved| bash::with_network(config, &resolved.catalog)).unwrap_or_default();
    let set = || Some(format!("set {name} to a long random text, such as the output of `{MAKE_TOKEN}`"));
    let named = config.principals.iter().map(|(name, principal)| (format!("principal {name}"), &principal.token_env));
    for (whose, variable) in named.chain([("the shared token".to_owned(), name)]) {
        let Some(token) = loaded.variable(variable) else { continue };
        if let Err(error) = check_token(&whose, &token) {
            let text = format!("{error} ({variable}): `drawloom serve` does not start");
            report.add(Verdict::Fail, "token", text, error.hint());
        }
    }
    match set_in(loaded, name) {
        Some(set) => report.ok("token", format!("{set} and required from clients")),
        None if has_principals && config.principals.values().any(|principal| is_set(&principal.token_env)) => {
            report.ok("token", format!("{name} is not set: only principals can call"));
        }
        None if has_principals => report.add(
            Verdict::Warn,
            "token",
            format!("{name} is not set, and neither is the token of any principal: `drawloom serve` does not start"),
            set(),
        ),
        None if !loopback => report.add(
            Verdict::Fail,
            "token",
            format!(
                "{name} is not set, and {} is not a loopback address: `drawloom serve` does not start",
                config.listen
            ),
            Some(format!("set {name} to a long random text, or write `listen: 127.0.0.1:8787`")),
        ),
        None if !reaching.is_empty() => report.add(
            Verdict::Warn,
            "token",
            format!(
                "{name} is not set, and commands of {} reach the network: `drawloom serve` does not start",
                reaching.join(", ")
            ),
            Some(format!("set {name} to a long random text, or write `network: none` under `tools.bash`")),
        ),
        None => report.ok("token", format!("{name} is not set: only programs on this machine can call")),
    }
    for (name, principal) in &config.principals {
        match set_in(loaded, &principal.token_env) {
            Some(set) => report.ok("principal", format!("{name}: {set}")),
            None => report.add(
                Verdict::Warn,
                "principal",
                format!("{name}: {} is not set, so this principal cannot call", principal.token_env),
                Some(format!("set {} to a long random text", principal.token_env)),
            ),
        }
    }
    for name in see_only_their_own(config.principals.iter(), is_set(&config.auth.token_env)) {
        report.add(
            Verdict::Warn,
            "principal",
            format!("{name}: it sees and cancels only its own runs, not those of other users of its tenant"),
            Some(format!("add runs:read:all to `principals.{name}.scopes` if it should see all runs")),
        );
    }
}

/// Whether the keys of providers are set; those that are set are left out when they are tried anyway.
fn keys_set(report: &mut Report, loaded: &Loaded, are_tried: bool) {
    for (id, provider) in &loaded.config.providers {
        let Some(name) = &provider.api_key_env else { continue };
        let access = providers::access(loaded, provider);
        match (access, providers::remark(id, provider, access)) {
            (Access::Missing, remark) => report.add(
                Verdict::Warn,
                "key",
                remark.unwrap_or_default(),
                Some(format!("set {name}, in the environment or in a .env file beside the config")),
            ),
            _ if are_tried => {}
            (_, Some(remark)) => report.ok("key", remark),
            (_, None) => report.ok("key", format!("{id}: {}", set_in(loaded, name).unwrap_or_default())),
        }
    }
}
