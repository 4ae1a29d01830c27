//! Staged files that are not evidence of an open call: removed when an instance starts, before any run goes on.

use std::path::{Path, PathBuf};

use drawloom_contract::{
    journal::{RunReader, StoreError},
    record::Body,
    view::RunView,
};
use drawloom_substrate::VolumeTable;
use drawloom_tools::Leftover;

use crate::{data_dir::DataDir, goals};

/// Records read at once.
const PAGE: usize = 256;

/// Where tools note what they have staged.
pub(crate) fn directory(data: &DataDir) -> PathBuf {
    data.path().join("staged")
}

/// Removes every staged file that is not the evidence of an open call. What cannot be removed is logged and stays.
pub(crate) async fn sweep(
    data: &DataDir,
    reader: &dyn RunReader,
    volumes: &VolumeTable,
    checkouts: &Path,
) -> Result<(), StoreError> {
    let found = drawloom_tools::leftovers(&directory(data)).unwrap_or_else(|error| {
        tracing::warn!(%error, "the notes about staged files cannot be read; staged files may be left in volumes");
        Vec::new()
    });
    for leftover in found {
        let view = reader.find_run(&leftover.run).await?;
        if is_evidence(reader, view.as_ref(), &leftover).await? {
            continue;
        }
        let checkout = view.and_then(|view| goals::open_checkout(checkouts, view.root, &leftover.volume));
        if let Err(error) = leftover.remove(volumes.root(&leftover.volume).or(checkout.as_ref())) {
            let (run, volume) = (leftover.run.run, &leftover.volume);
            tracing::warn!(%run, volume, %error, "a staged file could not be removed");
        }
    }
    Ok(())
}

/// Whether the call that staged it is journaled with it as evidence, and open.
async fn is_evidence(reader: &dyn RunReader, view: Option<&RunView>, leftover: &Leftover) -> Result<bool, StoreError> {
    if view.is_none_or(|view| view.status.is_terminal()) {
        return Ok(false);
    }
    let (mut after, mut is_open) = (leftover.call.saturating_sub(1), false);
    loop {
        let records = reader.read_journal(&leftover.run, after, PAGE).await?;
        for record in &records {
            match &record.body {
                Body::CallStarted(started) if record.seq == leftover.call => is_open = started.evidence.is_some(),
                Body::CallDone(done) if done.call == leftover.call => return Ok(false),
                _ => {}
            }
        }
        match records.last() {
            Some(last) if is_open && records.len() == PAGE => after = last.seq,
            _ => return Ok(is_open),
        }
    }
}
