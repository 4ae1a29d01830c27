//! What the doctor looks at, one function each.

use std::{net::SocketAddr, os::unix::fs::PermissionsExt as _, path::Path};

use drawloom_contract::{
    journal::{RunReader as _, StoreError},
    time::Clock as _,
};
use drawloom_store::{Options, Previous, Store};
use drawloom_substrate::Weight;

use crate::{
    clock::SystemClock,
    commands::Session,
    config::{self, Config, Loaded},
    connect,
    data_dir::{self, DataDir, Lock, ServerFile},
    environment,
    exit::CommandError,
    resolve,
};

use super::{Report, Verdict};

/// Below this much room a warning is due.
const LITTLE_ROOM: u64 = 512 * 1024 * 1024;
/// Below this much room runs will soon park.
const NO_ROOM: u64 = 32 * 1024 * 1024;

/// Looks at everything.
pub(super) async fn all(session: &Session, report: &mut Report) {
    if let Some(url) = &session.globals.url {
        // The config and the data directory of a server elsewhere are elsewhere too.
        return server(report, url).await;
    }
    let loaded = config(session, report);
    let directory = match connect::data_dir(&session.globals) {
        Ok(directory) => directory,
        Err(error) => return report.fail("data directory", &error),
    };
    match directory.lock("doctor") {
        Ok(lock) => {
            owned(report, lock).await;
            if let Some(loaded) = &loaded {
                listen(report, &loaded.config.listen).await;
            }
        }
        Err(data_dir::Error::InUse { server: Some(found), .. }) => served(report, &directory, &found).await,
        Err(error) => report.fail("data directory", &error.into()),
    }
    room(report, directory.path());
    if let Some(loaded) = &loaded {
        tokens(report, &loaded.config);
    }
}

fn config(session: &Session, report: &mut Report) -> Option<Loaded> {
    let loaded = match config::find(&session.globals.config).and_then(|files| config::load_files(&files)) {
        Ok(loaded) => loaded,
        Err(error) => {
            report.fail("config", &error);
            return None;
        }
    };
    match resolve::resolve(&loaded, &[]) {
        Ok(resolved) => {
            let files: Vec<String> = loaded.files.iter().map(|file| file.display().to_string()).collect();
            let agents = resolved.catalog.names().count();
            report.pass("config", format!("{}: no mistakes, {agents} agents", files.join(", ")));
            for finding in &resolved.findings {
                let verdict = match finding.weight {
                    Weight::Note => Verdict::Pass,
                    Weight::Warning => Verdict::Warn,
                };
                report.add(verdict, "gates", format!("{}: {}", loaded.place(&finding.at), finding.message), None);
            }
        }
        Err(mistakes) => report.fail("config", &config::refuse(mistakes)),
    }
    Some(loaded)
}

/// The directory is ours while this looks at it.
async fn owned(report: &mut Report, lock: Lock) {
    let path = lock.directory().path().to_owned();
    report.pass("data directory", format!("{} is free: no server runs on it", path.display()));
    permissions(report, &path);
    if !path.join("drawloom.db").exists() {
        return report.pass("store", "there is none yet; the first command that runs something makes it");
    }
    match integrity(&path).await {
        Ok(unfinished) => {
            report.pass("store", "every page is in order, and every commit waits for a real sync");
            match unfinished {
                0 => report.pass("runs", "none is unfinished"),
                count => report.add(
                    Verdict::Warn,
                    "runs",
                    format!("{count} unfinished, and no server runs"),
                    Some("`drawloom serve` takes them up".into()),
                ),
            }
        }
        Err(error) => report.fail("store", &CommandError::of(&error)),
    }
}

/// Checks every page; returns how many runs are unfinished.
async fn integrity(path: &Path) -> Result<u64, StoreError> {
    let opened = Store::open(&Options::new(path), SystemClock.now())?;
    opened.store.integrity().await?;
    let unfinished = opened.store.list_unfinished().await?;
    // A boot that ended badly must still look so to the next server, which judges runs by it.
    if opened.previous != Previous::Unclean {
        opened.store.close().await?;
    }
    Ok(unfinished.runs.len() as u64 + unfinished.parked)
}

fn permissions(report: &mut Report, path: &Path) {
    match std::fs::metadata(path).map(|metadata| metadata.permissions().mode() & 0o777) {
        Ok(mode) if mode & 0o077 == 0 => report.pass("permissions", "only this user can look into the data directory"),
        Ok(mode) => report.add(
            Verdict::Warn,
            "permissions",
            format!("others on this machine can look into the data directory (mode {mode:o})"),
            Some(format!("chmod 700 {}", path.display())),
        ),
        Err(error) => report.add(Verdict::Fail, "permissions", error.to_string(), None),
    }
}

async fn served(report: &mut Report, directory: &DataDir, found: &ServerFile) {
    report.pass(
        "data directory",
        format!("{} is served by process {} at {}", directory.path().display(), found.pid, found.url),
    );
    server(report, &found.url).await;
}

async fn server(report: &mut Report, url: &str) {
    let client = match connect::client(url) {
        Ok(client) => client,
        Err(error) => return report.fail("server", &error),
    };
    match client.health().await {
        Ok(health) => report.pass("server", format!("{url} answers, version {}, and can take runs", health.version)),
        Err(error) => return report.fail("server", &error.into()),
    }
    match client.whoami().await {
        Ok(me) if me.open_mode => report.pass("access", "the server is open to programs on this machine"),
        Ok(me) => report.pass("access", format!("you are {} of tenant {}", me.subject, me.tenant_id)),
        Err(error) => report.fail("access", &error.into()),
    }
    match client.load().await {
        Ok(load) => report.pass(
            "load",
            format!("{} runs active of at most {}, {} queued", load.active, load.max_concurrent_runs, load.queued),
        ),
        Err(error) => report.fail("load", &error.into()),
    }
}

async fn listen(report: &mut Report, listen: &str) {
    match listen.parse::<SocketAddr>() {
        Err(_) => report.add(
            Verdict::Fail,
            "listen",
            format!("{listen:?} is not an address to listen on"),
            Some("write it like 127.0.0.1:8787".into()),
        ),
        Ok(address) => match tokio::net::TcpListener::bind(address).await {
            Ok(_) => report.pass("listen", format!("{address} is free")),
            Err(error) => report.add(
                Verdict::Fail,
                "listen",
                format!("cannot listen on {address}: {error}"),
                Some("change `listen` in the config, or pass --listen to serve".into()),
            ),
        },
    }
}

fn room(report: &mut Report, path: &Path) {
    let existing = path.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
    let room = match rustix::fs::statvfs(existing) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => return report.add(Verdict::Warn, "room", format!("cannot ask for free space: {error}"), None),
    };
    let message = format!("{} MiB free", room / (1024 * 1024));
    match room {
        0..NO_ROOM => report.add(
            Verdict::Fail,
            "room",
            message,
            Some("free some space: on a full disk runs park until there is room".into()),
        ),
        NO_ROOM..LITTLE_ROOM => report.add(Verdict::Warn, "room", message, Some("free some space soon".into())),
        _ => report.pass("room", message),
    }
}

fn tokens(report: &mut Report, config: &Config) {
    let is_set = |name: &str| environment::variable(name).is_some();
    let loopback = config.listen.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback());
    match is_set(&config.auth.token_env) {
        true => report.pass("token", format!("the shared token is set in {}", config.auth.token_env)),
        false if !config.principals.is_empty() => {
            report.pass("token", format!("no shared token ({} is not set)", config.auth.token_env));
        }
        false if loopback => report.pass(
            "token",
            format!(
                "{} is not set: the server is open to programs on this machine, and to nobody else",
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
            true => report.pass("principal", format!("{name}: the token is set in {}", principal.token_env)),
            false => report.add(
                Verdict::Warn,
                "principal",
                format!("{name}: {} is not set, so this principal cannot call", principal.token_env),
                Some(format!("set {} to a long random text", principal.token_env)),
            ),
        }
    }
    for (id, provider) in &config.providers {
        if let Some(name) = &provider.api_key_env {
            match is_set(name) {
                true => report.pass("key", format!("{id}: the key is set in {name}")),
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
