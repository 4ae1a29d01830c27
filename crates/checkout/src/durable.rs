//! Writing new objects through to the disk before a ref names them. Git can do it, but flushes one object after the other; flushes
//! that are made at the same time cost about as much as one.

use std::{collections::BTreeSet, fs::File, io, path::PathBuf, thread};

use crate::{checkouts::Checkouts, error::Error, oid::Oid, places::blocking, state::Goal};

/// How many flushes are made at the same time.
const AT_ONCE: usize = 16;

impl Checkouts {
    /// Returns when these objects of the user's repository survive a power failure. Objects in packs were written before.
    pub(crate) async fn make_durable(&self, goal: &Goal, objects: Vec<Oid>) -> Result<(), Error> {
        let directory = goal.record.objects.clone();
        blocking(move || {
            let place = |oid: &Oid| directory.join(&oid.as_str()[..2]);
            let files: BTreeSet<PathBuf> = objects.iter().map(|oid| place(oid).join(&oid.as_str()[2..])).collect();
            let directories: BTreeSet<PathBuf> = objects.iter().map(place).collect();
            flush(&files.into_iter().collect::<Vec<_>>())?;
            flush(&directories.into_iter().collect::<Vec<_>>())
        })
        .await
    }
}

fn flush(paths: &[PathBuf]) -> Result<(), Error> {
    let one = |path: &PathBuf| match File::open(path).and_then(|file| file.sync_all()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("flush", path)(error)),
        Ok(()) | Err(_) => Ok(()),
    };
    let share = paths.len().div_ceil(AT_ONCE).max(1);
    thread::scope(|scope| {
        let flushing: Vec<_> =
            paths.chunks(share).map(|share| scope.spawn(move || share.iter().try_for_each(one))).collect();
        flushing
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
