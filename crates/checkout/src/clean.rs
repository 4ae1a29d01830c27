//! What goals have on the disk, and removing what is not needed any more. Here refs are never removed, and no checkout before its
//! content is in one.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use drawloom_contract::time::Timestamp;
use rustix::fs::statvfs;
use serde::{Deserialize, Serialize};

use crate::{
    add::Kind,
    checkouts::Checkouts,
    checkpoint::Step,
    error::Error,
    names,
    oid::Oid,
    places::{blocking, check_real},
    prepare::Prepared,
    state::{Goal, State},
};

/// When checkouts of a finished goal are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cleanup {
    /// When everything in them is in checkpoints.
    Auto,
    /// Always. What is in no checkpoint is kept as a ref first.
    Always,
    Never,
}

/// A goal with what it has on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Info {
    pub goal: String,
    pub directory: PathBuf,
    pub prepared: Prepared,
    /// Where the goal's branch is, if it exists.
    pub head: Option<Oid>,
    pub checkouts: Vec<KeptCheckout>,
}

/// A checkout on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptCheckout {
    pub name: String,
    pub kind: Kind,
    pub path: PathBuf,
    /// Its last checkpoint, or what it started from.
    pub commit: Oid,
    pub checkpoints: u32,
}

/// How much of the disk is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// By the goal.
    pub bytes: u64,
    /// Free on the disk.
    pub free: u64,
}

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    pub bytes: u64,
    /// Checkouts that stay, each with the reason.
    pub kept: Vec<(String, String)>,
    /// Removed checkouts whose content was in no checkpoint, each with the ref that has it now.
    pub saved: Vec<(String, String)>,
}

/// What becomes of a checkout.
enum Fate {
    /// It stays, for this reason.
    Stays(String),
    Goes,
    /// It goes; this ref has what was in no checkpoint.
    Saved(String),
}

/// What to keep of goals that are over.
#[derive(Debug, Clone)]
pub struct Retention<'a> {
    /// Goals that are not over.
    pub active: &'a [String],
    /// How long checkouts stay after their last use.
    pub keep: Duration,
    /// When all goals together use more than this, the oldest go first.
    pub quota_bytes: Option<u64>,
}

/// What a retention did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Retained {
    /// Goals whose checkouts were removed.
    pub removed: Vec<String>,
    pub bytes: u64,
    /// Goals that could not be cleaned, each with the reason.
    pub failed: Vec<(String, String)>,
}

impl Checkouts {
    /// The names of all goals that are prepared.
    pub async fn list(&self) -> Result<Vec<String>, Error> {
        let root = self.parts.root.clone();
        blocking(move || {
            let entries = fs::read_dir(&root).map_err(Error::file("read", &root))?;
            let names = entries.flatten().filter(|entry| entry.path().join("goal.json").is_file());
            let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            names.sort();
            Ok(names)
        })
        .await
    }

    /// The names of goals that have checkouts.
    pub async fn list_with_checkouts(&self) -> Result<Vec<String>, Error> {
        let mut names = self.list().await?;
        let places: Vec<_> = names.iter().map(|name| self.places(name).all_work()).collect();
        let found = blocking(move || places.iter().map(|work| work.is_dir()).collect::<Vec<_>>()).await;
        let mut found = found.into_iter();
        names.retain(|_| found.next().unwrap_or_default());
        Ok(names)
    }

    pub async fn info(&self, goal: &str) -> Result<Info, Error> {
        match self.describe(goal).await? {
            (info, None) => Ok(info),
            (_, Some(error)) => Err(error),
        }
    }

    /// The same for a goal whose repository is gone or replaced: what is ours is described without `head`, beside the reason.
    pub async fn describe(&self, goal: &str) -> Result<(Info, Option<Error>), Error> {
        let goal = self.goal(goal).await?;
        let mut checkouts = Vec::new();
        for (name, state) in states(&goal).await? {
            // The user's own checkout is none of ours.
            let path = goal.places.work(&name);
            if path.is_dir() {
                checkouts.push(KeptCheckout {
                    kind: state.kind,
                    path,
                    commit: state.parent,
                    checkpoints: state.number,
                    name,
                });
            }
        }
        let read = self.read_ref(&goal, &format!("refs/heads/{}", goal.record.prepared.branch)).await;
        let (head, problem) = match read {
            Ok(head) => (head, None),
            Err(error) => (None, Some(error)),
        };
        let record = goal.record;
        let (directory, prepared) = (record.directory, record.prepared);
        Ok((Info { goal: record.goal, directory, prepared, head, checkouts }, problem))
    }

    /// What the goal uses on the disk. Sparse files count as what they take.
    pub async fn usage(&self, goal: &str) -> Result<Usage, Error> {
        names::check("goal", goal)?;
        let (path, root) = (self.places(goal).goal().to_owned(), self.parts.root.clone());
        blocking(move || Ok(Usage { bytes: bytes_in(&path), free: free_at(&root)? })).await
    }

    /// Fails when the goal uses more than its quota, or the disk is nearly full. Call it before each step. What the goal uses is counted
    /// only when it has a quota.
    pub async fn check_disk(&self, goal: &str) -> Result<(), Error> {
        let config = &self.parts.config;
        if let Some(quota) = config.quota_bytes {
            let used = self.usage(goal).await?.bytes;
            if used > quota {
                return Err(Error::Quota { goal: goal.to_owned(), used, quota });
            }
        }
        let free = free_at(&self.parts.root)?;
        match free < config.min_free_bytes {
            true => Err(Error::DiskFull { free, least: config.min_free_bytes }),
            false => Ok(()),
        }
    }

    /// Removes the checkouts of a goal; `at` is the time of commits that keep their content, in seconds since 1970. The goal can
    /// still land, and get new checkouts.
    pub async fn clean(&self, goal: &str, cleanup: Cleanup, at: i64) -> Result<Cleaned, Error> {
        let before = self.usage(goal).await?.bytes;
        let mut cleaned = self.set_aside(goal, cleanup, at).await?;
        self.empty(goal).await?;
        cleaned.bytes = before.saturating_sub(self.usage(goal).await?.bytes);
        Ok(cleaned)
    }

    /// The same, but what is removed is only moved away, which takes no time: [`Checkouts::empty`] frees the disk. Nothing is measured.
    pub async fn set_aside(&self, goal: &str, cleanup: Cleanup, at: i64) -> Result<Cleaned, Error> {
        let mut goal = self.goal(goal).await?;
        goal.record.is_cleaned = true;
        let mut cleaned = Cleaned::default();
        self.release(&goal).await?;
        self.release_ports(goal.name());
        if cleanup == Cleanup::Never {
            return Ok(cleaned);
        }
        for (name, state) in states(&goal).await? {
            let _lock = self.lock(goal.name(), &name).await;
            match self.fate(&goal, &name, &state, cleanup, at).await? {
                Fate::Stays(reason) => {
                    cleaned.kept.push((name, reason));
                    continue;
                }
                Fate::Saved(reference) => cleaned.saved.push((name.clone(), reference)),
                Fate::Goes => {}
            }
            let (places, removed) = (goal.places.clone(), name.clone());
            blocking(move || {
                let parts = [
                    places.work(&removed),
                    places.indexes(&removed),
                    places.temporary(&removed),
                    places.stage(&removed),
                ];
                parts.iter().try_for_each(|path| places.set_aside(path))
            })
            .await?;
        }
        if cleaned.kept.is_empty() {
            let places = goal.places.clone();
            blocking(move || {
                let bulky = places.bulky();
                bulky.iter().filter(|path| !path.ends_with("included")).try_for_each(|path| places.set_aside(path))
            })
            .await?;
        }
        Ok(cleaned)
    }

    /// Frees the disk of what a goal, or a process that was killed, moved away. Can be repeated.
    pub async fn empty(&self, goal: &str) -> Result<(), Error> {
        names::check("goal", goal)?;
        let _lock = self.lock(goal, ".trash").await;
        let places = self.places(goal);
        blocking(move || places.empty()).await
    }

    /// The goals that have something to free.
    pub async fn list_with_trash(&self) -> Result<Vec<String>, Error> {
        let mut names = self.list().await?;
        let places: Vec<_> = names.iter().map(|name| self.places(name)).collect();
        let found = blocking(move || places.iter().map(crate::places::Places::has_trash).collect::<Vec<_>>()).await;
        let mut found = found.into_iter();
        names.retain(|_| found.next().unwrap_or_default());
        Ok(names)
    }

    /// Whether a checkout stays. What must not be lost is kept as a ref first.
    async fn fate(&self, goal: &Goal, name: &str, state: &State, cleanup: Cleanup, at: i64) -> Result<Fate, Error> {
        let work = goal.places.work(name);
        if state.kind == Kind::ReadOnly || check_real(&work).is_err() {
            return Ok(Fate::Goes);
        }
        let unsaved = self.unsaved(goal, name, state).await?;
        let Some(first) = unsaved.changed.first() else {
            return Ok(match (cleanup, unsaved.left_out.first()) {
                (Cleanup::Auto, Some(first)) => {
                    Fate::Stays(format!("it has files that checkpoints leave out, such as {first}"))
                }
                (Cleanup::Auto | Cleanup::Always | Cleanup::Never, _) => Fate::Goes,
            });
        };
        match cleanup {
            Cleanup::Auto | Cleanup::Never => {
                Ok(Fate::Stays(format!("it has changes that are in no checkpoint, such as {first}")))
            }
            Cleanup::Always => {
                let message = format!("left in the checkout {name}");
                let key = format!("clean-{name}-{at}");
                let kept = self.keep_aside(goal, name, state, &Step { message: &message, at, key: &key }).await?;
                Ok(kept.reference.map_or(Fate::Goes, Fate::Saved))
            }
        }
    }

    /// Removes checkouts of goals that are over and old, or the oldest when all together use too much. What is in no checkpoint is
    /// kept as a ref first.
    pub async fn retain(&self, now: Timestamp, retention: &Retention<'_>) -> Result<Retained, Error> {
        let mut goals = Vec::new();
        let mut total = 0;
        for goal in self.list().await? {
            let places = self.places(&goal);
            let (used, has_checkouts) =
                blocking(move || (last_use(&places.states(), &places.record()), places.all_work().is_dir())).await;
            let bytes = self.usage(&goal).await?.bytes;
            total += bytes;
            if has_checkouts && !retention.active.contains(&goal) {
                goals.push((used, goal, bytes));
            }
        }
        goals.sort();
        let mut done = Retained::default();
        let at = now.as_millis() / 1000;
        for (used, goal, _) in goals {
            let age = now.as_millis().saturating_sub(used.saturating_mul(1000));
            let is_old = u128::try_from(age).is_ok_and(|age| age > retention.keep.as_millis());
            let is_over = retention.quota_bytes.is_some_and(|quota| total > quota);
            if !is_old && !is_over {
                continue;
            }
            match self.clean(&goal, Cleanup::Always, at).await {
                Ok(cleaned) => {
                    total = total.saturating_sub(cleaned.bytes);
                    done.bytes += cleaned.bytes;
                    done.removed.push(goal);
                }
                Err(error) => done.failed.push((goal, error.to_string())),
            }
        }
        Ok(done)
    }
}

/// Bytes that are free on the disk of a path.
fn free_at(path: &Path) -> Result<u64, Error> {
    let disk = statvfs(path).map_err(|error| Error::file("read", path)(error.into()))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// The checkouts of a goal.
pub(crate) async fn states(goal: &Goal) -> Result<Vec<(String, State)>, Error> {
    let directory = goal.places.states();
    let names = blocking(move || {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect();
        names.sort();
        names
    });
    let mut states = Vec::new();
    for name in names.await {
        if let Some(state) = goal.find_state(&name).await? {
            states.push((name, state));
        }
    }
    Ok(states)
}

/// When a checkout of a goal was last used, in seconds since 1970.
fn last_use(states: &Path, record: &Path) -> i64 {
    let entries = fs::read_dir(states).into_iter().flatten().flatten().map(|entry| entry.path());
    let times = entries.chain([record.to_owned()]).filter_map(|path| fs::metadata(path).ok());
    times.map(|metadata| metadata.mtime()).max().unwrap_or(0)
}

/// What is below a path, as blocks of the disk. Links are not followed.
pub(crate) fn bytes_in(path: &Path) -> u64 {
    let (mut total, mut open) = (0, vec![path.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            total += metadata.blocks() * 512;
            if metadata.is_dir() {
                open.push(entry.path());
            }
        }
    }
    total
}
