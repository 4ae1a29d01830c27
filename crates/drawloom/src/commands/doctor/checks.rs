//! What the doctor looks at, one function each.

use std::{path::Path, time::Duration};

use drawloom_contract::{
    journal::{RunReader as _, StoreError},
    time::Clock as _,
};
use drawloom_server::auth::see_only_their_own;
use drawloom_store::{Options, Previous, Store};
use drawloom_substrate::Weight;
use drawloom_tools::BashNetwork;
use drawloom_wire::{
    client::Client,
    server::{AskWhoAmI, GetLoad},
};

use crate::{
    clock::SystemClock,
    commands::Session,
    config::{self, Config, Loaded},
    connect,
    data_dir::{self, DataDir, Lock, ServerFile},
    environment,
    exit::CommandError,
    logging,
    output::duration,
    parts,
    project::Project,
    resolve::{self, Resolved},
    trust::{self, Asking, Origin},
};

use super::{Report, Verdict, machine, outside};

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
    let project = Project::find_data(&session.globals).ok();
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
    }
    let place = project.map(|project| project.data.path().to_owned()).or_else(environment::default_data_dir);
    // What is the machine's, one function each: a further check is a line here.
    for check in [machine::disk, machine::clock, machine::open_files, machine::sandbox] {
        check(report, place.as_deref().unwrap_or(Path::new("/")));
    }
    if let Some(loaded) = &loaded {
        tokens(report, &loaded.config);
    }
    let Some(loaded) = loaded.filter(|loaded| is_trusted(session, report, loaded)) else { return };
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
            Ok(Ok(models)) => report.ok("key", format!("{id}: it answers in {took} and has {} models", models.len())),
            Ok(Err(error)) => {
                let failure = crate::models::failure(&error);
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

fn config(session: &Session, report: &mut Report) -> (Option<Loaded>, Option<Resolved>) {
    let loaded = match config::find(&session.globals.config).and_then(|files| config::load_files(&files)) {
        Ok(loaded) => loaded,
        Err(error) => {
            report.fail("config", &error);
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
            for finding in &resolved.findings {
                let verdict = match finding.weight {
                    Weight::Note => Verdict::Ok,
                    Weight::Warning => Verdict::Warn,
                };
                report.add(verdict, "agents", format!("{}: {}", loaded.position(&finding.at), finding.message), None);
            }
            (Some(loaded), Some(resolved))
        }
        Err(error) => {
            report.fail("config", &error);
            (Some(loaded), None)
        }
    }
}

/// The directory is ours while this looks at it.
async fn owned(report: &mut Report, lock: Lock) {
    let path = lock.directory().path().to_owned();
    report.ok("data directory", format!("{} is free: no server runs on it", path.display()));
    machine::permissions(report, &path);
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
    server(report, &found.url, connect::client_of(directory, &found.url)).await;
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
    match config::listen_address(listen) {
        None => report.add(
            Verdict::Fail,
            "listen",
            format!("{listen:?} is not an address to listen on"),
            Some("write it like 127.0.0.1:8787".into()),
        ),
        Some(address) => match tokio::net::TcpListener::bind(address).await {
            Ok(_) => report.ok("listen", format!("{address} is free")),
            Err(error) => report.add(
                Verdict::Fail,
                "listen",
                format!("cannot listen on {address}: {error}"),
                Some("change `listen` in the config, or pass --listen to serve".into()),
            ),
        },
    }
}

fn tokens(report: &mut Report, config: &Config) {
    let is_set = |name: &str| environment::variable(name).is_some();
    let loopback = config::listen_address(&config.listen).is_some_and(|address| address.ip().is_loopback());
    match is_set(&config.auth.token_env) {
        true => report.ok("token", format!("the shared token is set in {}", config.auth.token_env)),
        false if !config.principals.is_empty() => {
            report.ok("token", format!("no shared token ({} is not set)", config.auth.token_env));
        }
        false if loopback && config.tools.bash.enabled && config.tools.bash.network == BashNetwork::Host => report.add(
            Verdict::Warn,
            "token",
            format!(
                "{} is not set and tools.bash.network is host: the server does not start if an agent's Bash has network",
                config.auth.token_env
            ),
            Some("set a token".into()),
        ),
        false if loopback => report.ok(
            "token",
            format!(
                "{} is not set: the server is open to programs on this machine, and to no others",
                config.auth.token_env
            ),
        ),
        false => report.add(
            Verdict::Fail,
            "token",
            format!("{} is not set, and {} is not a loopback address", config.auth.token_env, config.listen),
            Some("set a token, or listen on 127.0.0.1".into()),
        ),
    }
    for (name, principal) in &config.principals {
        match is_set(&principal.token_env) {
            true => report.ok("principal", format!("{name}: the token is set in {}", principal.token_env)),
            false => report.add(
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
            Some("add runs:read:all to its scopes if it should see them all".into()),
        );
    }
    for (id, provider) in &config.providers {
        if let Some(name) = &provider.api_key_env {
            match is_set(name) {
                true => report.ok("key", format!("{id}: the key is set in {name}")),
                false => report.add(
                    Verdict::Warn,
                    "key",
                    format!("{id}: {name} is not set, so calls to it will be refused"),
                    Some(format!("set {name}")),
                ),
            }
        }
    }
}
