//! The entry point: what checkouts need, and which locks keep their operations apart.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
};

use drawloom_contract::{redact::Redactor, time::Clock};
use drawloom_process::{Confined, Launcher, Limits, ListedPath, Network};
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::{config::Config, error::Error, names, places::Places, ports::Leases};

/// What checkouts are made of.
pub struct Parts {
    /// Where all checkouts lie: outside every data directory, volume and repository. It is made with mode 0700.
    pub root: PathBuf,
    pub launcher: Launcher,
    /// Where commands get their temporary directories.
    pub temporary: PathBuf,
    pub clock: Arc<dyn Clock>,
    pub redactor: Arc<Redactor>,
    /// The environment of git, setup and verify commands, chosen by the operator. Entries of `PATH` that are relative or lead
    /// into `root` are dropped.
    pub environment: Vec<(String, String)>,
    /// How setup and verify commands are confined.
    pub sandbox: Sandbox,
    /// The directories that goals may work in; any when empty. What git opens for a goal must lie in one of them.
    pub directories: Vec<PathBuf>,
    pub config: Config,
}

/// How setup and verify commands are confined. They may always write to their checkout and a temporary directory.
#[derive(Debug, Clone)]
pub struct Sandbox {
    pub confined: Confined,
    pub network: Network,
    pub readable: Vec<ListedPath>,
    pub writable: Vec<ListedPath>,
    pub home: Option<PathBuf>,
    pub limits: Limits,
}

/// The isolated checkouts of all goals.
pub struct Checkouts {
    pub(crate) parts: Parts,
    pub(crate) leave_out: GlobSet,
    pub(crate) keep: GlobSet,
    pub(crate) leases: Arc<Leases>,
    /// One lock per checkout and one per goal's refs.
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// The number of the next command.
    pub(crate) next_command: AtomicU64,
    /// Whether commands of an earlier process have ended.
    pub(crate) settled: tokio::sync::OnceCell<()>,
}

impl Checkouts {
    pub fn new(mut parts: Parts) -> Result<Self, Error> {
        let (leave_out, keep) = (globs(&parts.config.leave_out)?, globs(&parts.config.keep)?);
        crate::places::make_directory(&parts.root)?;
        parts.root = parts.root.canonicalize().map_err(Error::file("resolve", &parts.root))?;
        if parts.root.to_str().is_none() {
            let value = parts.root.display().to_string();
            return Err(Error::Invalid { what: "directory of checkouts", value, reason: "it is not UTF-8 text" });
        }
        for (name, value) in &mut parts.environment {
            if name == "PATH" {
                *value = safe_path(value, &parts.root);
            }
        }
        Ok(Self {
            parts,
            leave_out,
            keep,
            leases: Arc::default(),
            locks: Mutex::default(),
            next_command: AtomicU64::new(0),
            settled: tokio::sync::OnceCell::new(),
        })
    }

    pub(crate) fn places(&self, goal: &str) -> Places {
        Places::new(&self.parts.root, goal)
    }

    /// Waits for the other operations on this checkout of the goal.
    pub(crate) async fn lock(&self, goal: &str, name: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            locks.entry(format!("{goal}/{name}")).or_default().clone()
        };
        lock.lock_owned().await
    }

    /// Waits for the other operations on the refs of the goal.
    pub(crate) async fn lock_refs(&self, goal: &str) -> tokio::sync::OwnedMutexGuard<()> {
        self.lock(goal, "").await
    }
}

/// The entries of a search path that are absolute and do not lead into a checkout.
fn safe_path(path: &str, root: &std::path::Path) -> String {
    let entries = path.split(':').filter(|entry| {
        let entry = std::path::Path::new(entry);
        let real = entry.canonicalize().unwrap_or_else(|_| entry.to_owned());
        entry.is_absolute() && !real.starts_with(root) && !entry.starts_with(root)
    });
    entries.collect::<Vec<_>>().join(":")
}

/// A set of globs. `*` does not match a slash, `**` does.
pub(crate) fn globs(globs: &[String]) -> Result<GlobSet, Error> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let invalid = |error: globset::Error| Error::Glob { glob: glob.clone(), reason: error.kind().to_string() };
        let mut builder = globset::GlobBuilder::new(glob);
        set.add(builder.literal_separator(true).build().map_err(invalid)?);
        // A directory means all that is in it.
        let all = format!("{}/**", glob.trim_end_matches('/'));
        set.add(Glob::new(&all).map_err(invalid)?);
    }
    set.build().map_err(|error| Error::Glob { glob: globs.join(" "), reason: error.kind().to_string() })
}

/// Checks globs of paths as callers write them, before anything is paid for.
pub fn check_globs(all: &[String]) -> Result<(), Error> {
    globs(&all.iter().map(|glob| names::rooted(glob, "")).collect::<Result<Vec<_>, _>>()?).map(|_| ())
}

pub(crate) fn check_names(goal: &str, name: &str) -> Result<(), Error> {
    names::check("goal", goal)?;
    names::check("checkout name", name)
}
