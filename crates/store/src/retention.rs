//! Removing what ended long ago: found by a reader, removed by the writer in small pieces.

use std::collections::BTreeSet;

use async_trait::async_trait;
use drawloom_contract::{
    ids::{RunId, RunKey, Tenant},
    journal::StoreError,
    once::HandleId,
    retention::{MAX_NAMED, Prune, Pruned, Retention},
    time::Timestamp,
    values::{ARTIFACTS, EVALUATIONS, GOALS, MEMORY, Space},
};
use tokio::sync::oneshot;

use crate::{
    sqlite::{self, Connection, writer::Job},
    store::Store,
    tables::{
        batches, blobs, definitions, effects, keys, pruned, records,
        runs::prune::{self as runs, Member},
        sessions, values, waits,
    },
};

/// Trees that are looked for at once.
const PAGE: usize = 256;
/// Trees that one transaction takes out: small, because commits of runs wait for it.
const PIECE: usize = 16;
/// Records and large values that one transaction removes at most.
const ROWS: usize = 512;

/// What the writer is to remove in one transaction.
pub(crate) enum Removal {
    /// These trees, if that is still right: their rows go, their journals are marked.
    Trees {
        /// Their roots.
        roots: Vec<RunKey>,
        which: Which,
    },
    /// Some of the marked journals.
    Journals,
    /// Some answers of requests that were given before this.
    Answers { tenant: Option<Tenant>, before: Timestamp },
    /// Some of the values that these trees own, if the trees may go.
    Owned { roots: Vec<RunKey>, which: Which },
    /// Some values of a space whose time is over.
    Expired { space: Space, now: Timestamp },
}

/// Which of the named trees may go.
#[derive(Clone, Copy)]
pub(crate) enum Which {
    /// Those that ended before this and share nothing with what stays.
    EndedBefore(Timestamp),
    /// All, when all of their runs have ended; else none.
    Ended,
}

/// What one transaction removed.
#[derive(Default)]
pub(crate) struct Removed {
    /// What went.
    pub(crate) what: Pruned,
    /// Values that went.
    pub(crate) values: u64,
    /// Whether more of the same may be left.
    pub(crate) more: bool,
}

#[async_trait]
impl Retention for Store {
    async fn find_prunable(&self, prune: &Prune) -> Result<(Pruned, Vec<RunKey>), StoreError> {
        let (mut all, mut named) = (Pruned::default(), Vec::new());
        let mut after = None;
        loop {
            let page = self.prunable_roots(prune, after).await?;
            let Some(last) = page.last().cloned() else { return Ok((all, named)) };
            let page = without(page, &prune.keep);
            let left = MAX_NAMED - named.len();
            named.extend(page.iter().take(left).cloned());
            let found = self
                .readers
                .read(move |connection| {
                    let mut found = Pruned::default();
                    for root in &page {
                        let (runs, records) = runs::size(connection, root)?;
                        add(&mut found, Pruned { trees: 1, runs, records, blobs: 0 });
                    }
                    Ok(found)
                })
                .await?;
            add(&mut all, found);
            after = Some(last);
        }
    }

    async fn prune(&self, prune: &Prune) -> Result<Pruned, StoreError> {
        // What an earlier call could not finish goes first.
        let mut all = self.remove_journals().await?;
        let answers = || Removal::Answers { tenant: prune.tenant.clone(), before: prune.ended_before };
        while self.remove(answers()).await?.more {}
        let mut after = None;
        loop {
            let page = self.prunable_roots(prune, after).await?;
            let Some(last) = page.last().cloned() else { return Ok(all) };
            for piece in without(page, &prune.keep).chunks(PIECE) {
                let which = Which::EndedBefore(prune.ended_before);
                add(&mut all, self.remove_whole(piece, which).await?);
            }
            after = Some(last);
        }
    }

    async fn remove_trees(&self, roots: &[RunKey]) -> Result<Option<Pruned>, StoreError> {
        let removed = self.remove_whole(roots, Which::Ended).await?;
        Ok(Some(removed).filter(|removed| removed.trees > 0))
    }

    async fn remove_expired(&self, now: Timestamp) -> Result<u64, StoreError> {
        let mut all = 0;
        for space in self.readers.read(values::spaces).await? {
            loop {
                let Removed { values, more, .. } = self.remove(Removal::Expired { space: space.clone(), now }).await?;
                all += values;
                if !more {
                    break;
                }
            }
        }
        Ok(all)
    }
}

impl Store {
    /// Removes trees with all that they own.
    async fn remove_whole(&self, roots: &[RunKey], which: Which) -> Result<Pruned, StoreError> {
        while self.remove(Removal::Owned { roots: roots.to_vec(), which }).await?.more {}
        let mut removed = self.remove(Removal::Trees { roots: roots.to_vec(), which }).await?.what;
        add(&mut removed, self.remove_journals().await?);
        Ok(removed)
    }

    async fn remove_journals(&self) -> Result<Pruned, StoreError> {
        let mut all = Pruned::default();
        loop {
            let Removed { what, more, .. } = self.remove(Removal::Journals).await?;
            add(&mut all, what);
            if !more {
                return Ok(all);
            }
        }
    }

    async fn remove(&self, removal: Removal) -> Result<Removed, StoreError> {
        let (answer, removed) = oneshot::channel();
        self.queue.send(Job::Prune(removal, answer)).await.map_err(|_| self.gone())?;
        removed.await.map_err(|_| self.gone())?
    }

    /// The next roots after `after` whose trees may go, in order of tenant and age.
    async fn prunable_roots(&self, prune: &Prune, after: Option<RunKey>) -> Result<Vec<RunKey>, StoreError> {
        let prune = prune.clone();
        self.readers
            .read(move |connection| {
                let mut found = Vec::new();
                let first = RunId::from_bytes([0; 16]);
                let mut place = match (after, &prune.tenant) {
                    (Some(after), _) => Some((after.tenant, after.run)),
                    (None, Some(tenant)) => Some((tenant.clone(), first)),
                    (None, None) => runs::next_tenant(connection, "")?.map(|tenant| (tenant, first)),
                };
                while let Some((tenant, run)) = place {
                    let most = PAGE - found.len();
                    found.extend(runs::roots(connection, prune.ended_before, &tenant, run, most)?);
                    let full = found.len() >= PAGE || prune.tenant.is_some();
                    place = match full {
                        true => None,
                        false => runs::next_tenant(connection, tenant.as_str())?.map(|tenant| (tenant, first)),
                    };
                }
                Ok(found)
            })
            .await
    }
}

/// Makes part of a removal true in the open transaction.
pub(crate) fn remove(connection: &Connection, removal: &Removal) -> sqlite::Result<Removed> {
    let mut removed = Removed::default();
    match removal {
        Removal::Trees { roots, which } => {
            for root in removable(connection, roots, *which)? {
                removed.what.runs += remove_tree(connection, root)?;
                removed.what.trees += 1;
            }
        }
        Removal::Journals => removed.more = remove_marked(connection, &mut removed.what)?,
        Removal::Answers { tenant, before } => {
            removed.more = keys::remove_answers(connection, tenant.as_ref(), *before, ROWS)? == ROWS;
        }
        Removal::Owned { roots, which } => {
            removed.values = remove_owned(connection, &removable(connection, roots, *which)?)? as u64;
            removed.more = removed.values == ROWS as u64;
        }
        Removal::Expired { space, now } => {
            let gone = values::remove_expired(connection, space, *now, ROWS)?;
            (removed.values, removed.more) = (gone as u64, gone == ROWS);
        }
    }
    Ok(removed)
}

/// Those of `roots` whose trees may go.
fn removable<'a>(connection: &Connection, roots: &'a [RunKey], which: Which) -> sqlite::Result<Vec<&'a RunKey>> {
    let mut found = Vec::with_capacity(roots.len());
    for root in roots {
        let may_go = match which {
            Which::EndedBefore(time) => runs::is_prunable(connection, root, time)?,
            Which::Ended => runs::has_ended(connection, root)?,
        };
        if may_go {
            found.push(root);
        }
    }
    if matches!(which, Which::Ended) && (found.len() < roots.len() || !has_whole_batches(connection, &found)?) {
        found.clear();
    }
    Ok(found)
}

/// Whether these roots are all the runs of their batches: a retry may have joined one since they were listed.
fn has_whole_batches(connection: &Connection, roots: &[&RunKey]) -> sqlite::Result<bool> {
    let mut seen = BTreeSet::new();
    for root in roots {
        let Some(batch) = runs::batch_of(connection, root)? else { continue };
        // A batch that is unknown was removed already, and nothing else removes what is left of it.
        if !seen.insert((&root.tenant, batch)) || !batches::is_known(connection, &root.tenant, batch)? {
            continue;
        }
        let members = runs::of_batch(connection, &root.tenant, batch)?;
        if !members.iter().all(|run| roots.iter().any(|root| root.run == *run)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes some of the values that trees own; says how many.
fn remove_owned(connection: &Connection, roots: &[&RunKey]) -> sqlite::Result<usize> {
    let mut left = ROWS;
    for root in roots {
        let owner = format!("run/{}", root.run);
        for space in [MEMORY, ARTIFACTS, GOALS] {
            left -= values::remove_owned(connection, &space, &root.tenant, &owner, left)?;
        }
        for Member { run, .. } in runs::members(connection, root)? {
            let owner = format!("run/{run}");
            left -= values::remove_owned(connection, &EVALUATIONS, &root.tenant, &owner, left)?;
        }
    }
    Ok(ROWS - left)
}

/// Takes out the rows of a tree, and marks its journals; says how many runs it had.
fn remove_tree(connection: &Connection, root: &RunKey) -> sqlite::Result<u64> {
    let tenant = &root.tenant;
    let members = runs::members(connection, root)?;
    for Member { run, session, batch, definition } in &members {
        pruned::mark(connection, tenant, *run)?;
        definitions::loosen(connection, tenant, definition)?;
        runs::remove(connection, tenant, *run)?;
        waits::remove(connection, tenant, *run)?;
        effects::remove(connection, tenant, *run)?;
        keys::remove(connection, tenant, HandleId::Run(*run))?;
        sessions::remove(connection, tenant, *session)?;
        if let Some(batch) = batch {
            keys::remove(connection, tenant, HandleId::Batch(*batch))?;
            batches::remove(connection, tenant, *batch)?;
        }
    }
    Ok(members.len() as u64)
}

/// Removes some of the marked journals, and large values that only they referred to; says whether any may be left.
fn remove_marked(connection: &Connection, removed: &mut Pruned) -> sqlite::Result<bool> {
    let mut left = ROWS;
    while left > 0 {
        let Some(key) = pruned::next(connection)? else { return Ok(false) };
        let records = records::remove(connection, &key, left)?;
        removed.records += records as u64;
        left -= records;
        if left == 0 {
            break;
        }
        let digests = blobs::of_run(connection, &key, left)?;
        for digest in &digests {
            removed.blobs += u64::from(blobs::release(connection, &key, digest)?);
        }
        left -= digests.len();
        if left > 0 {
            pruned::unmark(connection, &key)?;
            // A mark counts like a record.
            left -= 1;
        }
    }
    Ok(true)
}

fn without(mut roots: Vec<RunKey>, keep: &BTreeSet<RunId>) -> Vec<RunKey> {
    roots.retain(|root| !keep.contains(&root.run));
    roots
}

fn add(sum: &mut Pruned, more: Pruned) {
    sum.trees += more.trees;
    sum.runs += more.runs;
    sum.records += more.records;
    sum.blobs += more.blobs;
}
