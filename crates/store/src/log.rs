//! Logs: the seam over the tables.

use async_trait::async_trait;
use drawloom_contract::{
    ids::Tenant,
    journal::{CommitError, Entry, Journal as _, StoreError},
    log::{Durability, Log, LogChange, LogChanged, LogKey, Page, Tail},
    once::{Answered, Applied, Effected, Made, Once},
    values::{ChangeError, Space},
};
use futures::stream::BoxStream;
use serde_json::Value;

use crate::{sqlite::open::Synchronous, store::Store, tables::logs};

/// So many messages are read at once, without a thread of their own.
const FEW: u64 = 4;

#[async_trait]
impl Log for Store {
    async fn change_log(&self, change: LogChange, once: Option<Once>) -> Result<Applied<LogChanged>, ChangeError> {
        let Applied { result, answer, repeated } =
            self.apply(Entry { logs: vec![change], once, ..self.entry() }).await?;
        let result = result.logs.into_iter().next().ok_or(ChangeError::KeyReused)?;
        Ok(Applied { result, answer, repeated })
    }

    async fn read_log(&self, log: &LogKey, after: u64, limit: u32) -> Result<Page, StoreError> {
        let log = log.clone();
        // Those who wait mostly find nothing, or what they were woken for.
        let few = {
            let log = log.clone();
            self.readers.glance(move |connection| logs::read_few(connection, &log, after, limit, FEW)).await?
        };
        match few {
            Some(page) => Ok(page),
            None => self.readers.read(move |connection| logs::read(connection, &log, after, limit)).await,
        }
    }

    async fn head(&self, log: &LogKey) -> Result<u64, StoreError> {
        let log = log.clone();
        self.readers.glance(move |connection| logs::head(connection, &log)).await
    }

    fn tail(&self, space: &Space) -> BoxStream<'static, Tail> {
        self.shared.feeds.tail(space.clone())
    }

    fn durability(&self) -> Durability {
        match self.shared.synchronous {
            Synchronous::Full => Durability::Synced,
            Synchronous::Off => Durability::Unknown,
        }
    }
}

impl Store {
    /// Logs of a space by tenant and name, after one, at most `limit`, each with its head and how many messages it has: all, or those
    /// of one tenant whose name begins with a prefix.
    pub async fn list_logs(
        &self,
        space: &Space,
        within: Option<(Tenant, String)>,
        after: Option<(Tenant, String)>,
        limit: u32,
    ) -> Result<Vec<(LogKey, u64, u64)>, StoreError> {
        let space = space.clone();
        let list = move |connection: &_| logs::list(connection, &space, within.as_ref(), after.as_ref(), limit);
        self.readers.read(list).await
    }

    /// An empty entry of this process.
    pub(crate) fn entry(&self) -> Entry {
        Entry::empty(self.epoch())
    }

    /// Commits changes of values and logs. A repeat is answered like the first.
    pub(crate) async fn apply(&self, entry: Entry) -> Result<Applied<Effected>, ChangeError> {
        let answer = entry.once.as_ref().map_or(Value::Null, given);
        match self.commit(entry).await {
            Ok(committed) => {
                let result = Effected {
                    answer: Value::Null,
                    revisions: committed.revisions,
                    logs: committed.logs,
                    left_out: None,
                };
                Ok(Applied { result, answer, repeated: false })
            }
            Err(CommitError::Repeated(Answered::Effect(first))) => {
                let mut first = first.again()?;
                let answer = std::mem::take(&mut first.answer);
                Ok(Applied { result: first, answer, repeated: true })
            }
            Err(error) => Err(refusal(error)),
        }
    }
}

/// The answer that came with a key.
fn given(once: &Once) -> Value {
    match once {
        Once::Request { made: Made::Answer { answer, .. }, .. } => Value::clone(answer),
        Once::Request { made: Made::Handle(_), .. } => Value::Null,
        Once::Call(effect) => Value::clone(&effect.answer),
    }
}

/// Why a change without records was not made.
pub(crate) fn refusal(error: CommitError) -> ChangeError {
    match error {
        CommitError::Refused(refused) => refused,
        CommitError::Store(error) => ChangeError::Store(error),
        // A run or a batch was made under this key.
        CommitError::Repeated(_) => ChangeError::KeyReused,
        other => ChangeError::Store(StoreError::Failed { store: "the store".into(), detail: other.to_string() }),
    }
}
