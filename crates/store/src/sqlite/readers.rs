//! Readers: a few connections that cannot write, opened when they are first needed.
//!
//! Every read is one short transaction that begins after it was asked for, so it sees every commit that was answered.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use drawloom_contract::journal::StoreError;
use tokio::sync::{Semaphore, TryAcquireError};

use super::{
    Connection,
    error::{explain, failed},
    files::Files,
};

/// Reads at once; further reads wait.
const CONNECTIONS: usize = 4;

/// More than threads that drive tasks.
const GLANCES: usize = 1_024;

/// The connections.
pub(crate) struct Readers {
    file: PathBuf,
    files: Arc<Files>,
    places: Arc<Semaphore>,
    /// Of reads on their callers' threads: as many at once as there are such threads.
    glances: Semaphore,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(crate) fn new(file: PathBuf, files: Arc<Files>) -> Self {
        Self {
            file,
            files,
            places: Arc::new(Semaphore::new(CONNECTIONS)),
            glances: Semaphore::new(GLANCES),
            idle: Arc::default(),
        }
    }

    /// Keeps a connection that was opened elsewhere.
    pub(crate) fn keep(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    /// Runs `work` in one read transaction, on a thread that may block.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> super::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (file, files, idle) = (self.file.clone(), Arc::clone(&self.files), Arc::clone(&self.idle));
        let task = tokio::task::spawn_blocking(move || {
            // A new connection would open whatever has the file's name now.
            let read = files
                .check()
                .and_then(|()| read(&file, &idle, work).map_err(|error| files.explain_damage(explain(&file, &error))));
            (read, place)
        });
        // The place is free when the caller has what was read: many callers at once hold no more than a few results.
        let (read, _place) = task.await.map_err(|error| failed(&self.file, format!("read task failed: {error}")))?;
        read
    }

    /// Runs `work`, which looks at a handful of pages, in one read transaction on the caller's thread: to hand it to another thread costs
    /// more than it does.
    pub(crate) async fn glance<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> super::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        // It never waits for anything, so it says how much of its task's turn it took.
        tokio::task::consume_budget().await;
        match self.glances.try_acquire() {
            Ok(_place) => {
                self.files.check()?;
                match read(&self.file, &self.idle, work).map_err(|error| explain(&self.file, &error)) {
                    Err(error @ StoreError::Corrupt { .. }) => Err(self.explain_damage(error).await),
                    found => found,
                }
            }
            Err(TryAcquireError::NoPermits) => self.read(work).await,
            Err(TryAcquireError::Closed) => Err(StoreError::Closed),
        }
    }

    /// Reads the whole file to say what is damaged, on a thread that may block.
    async fn explain_damage(&self, error: StoreError) -> StoreError {
        let (files, found) = (Arc::clone(&self.files), error.clone());
        tokio::task::spawn_blocking(move || files.explain_damage(found)).await.unwrap_or(error)
    }

    /// Waits for the reads that are under way, refuses all others and closes the connections.
    pub(crate) async fn close(&self) {
        let all = u32::try_from(CONNECTIONS).expect("a handful");
        let every = u32::try_from(GLANCES).expect("a handful");
        if let (Ok(places), Ok(glances)) = (self.places.acquire_many(all).await, self.glances.acquire_many(every).await)
        {
            self.places.close();
            self.glances.close();
            drop((places, glances));
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn read<T>(
    file: &Path,
    idle: &Mutex<Vec<Connection>>,
    work: impl FnOnce(&Connection) -> super::Result<T>,
) -> super::Result<T> {
    let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let connection = kept.map_or_else(|| Connection::open_to_read(file), Ok)?;
    connection.prepare("BEGIN")?.execute(&[])?;
    let found = work(&connection);
    // A connection whose read failed is not kept: what it has in its cache may be part of the failure.
    connection.prepare("COMMIT")?.execute(&[])?;
    if found.is_ok() {
        idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
    found
}
