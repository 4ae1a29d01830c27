//! Following runs: the journal's tail plus what happens live, without a gap and without a repeat.

use std::{collections::VecDeque, sync::Arc};

use drawloom_contract::{
    caller::Caller,
    failure::{Explain, Failure, FailureKind},
    ids::{BatchId, RunId, RunKey},
    record::{Body, Record, Seq},
    runs::{Interest, Item, Live, Started, StartedBatch},
    time::Instant,
    view::RunView,
};
use futures::{StreamExt, stream};
use tokio::sync::{mpsc, oneshot};

use crate::{Engine, feed::Ear};

/// Records read at once.
const PAGE: usize = 256;

/// A listener that was there before the run was.
pub(crate) enum Early {
    Outcome(Ear<oneshot::Receiver<Arc<RunView>>>),
    Events(Ear<mpsc::Receiver<Item>>),
}

/// Where a follower is.
struct Follower {
    engine: Arc<Engine>,
    key: RunKey,
    /// The last record that was passed on.
    after: Seq,
    /// The newest try of a turn whose end was passed on: pieces of it come too late.
    ended: (u32, u32),
    live: Option<Ear<mpsc::Receiver<Item>>>,
    backlog: VecDeque<Record>,
    /// Whether the journal may hold more than `backlog`.
    unread: bool,
    over: bool,
}

impl Engine {
    /// Listens to a run that is about to begin.
    pub(crate) fn listen(&self, key: &RunKey, interest: Interest) -> Option<Early> {
        match interest {
            Interest::None => None,
            Interest::Outcome => Some(Early::Outcome(self.feed.outcome(key))),
            Interest::Events => Some(Early::Events(self.feed.events(key))),
        }
    }

    /// What a listener hears, as items.
    pub(crate) fn stream(self: &Arc<Self>, key: RunKey, early: Early) -> Live {
        match early {
            Early::Outcome(mut ear) => {
                let engine = self.clone();
                stream::once(async move {
                    match ear.ended().await {
                        Some(view) => Ok(Item::Ended(view)),
                        None => engine.wait_for(&key, None).await.map(Item::Ended),
                    }
                })
                .boxed()
            }
            Early::Events(ear) => self.follower(key, 0, Some(ear)),
        }
    }

    /// Records after `after`, then what happens.
    pub(crate) fn follower(self: &Arc<Self>, key: RunKey, after: Seq, live: Option<Ear<mpsc::Receiver<Item>>>) -> Live {
        let unread = live.is_none();
        let follower = Follower {
            engine: self.clone(),
            key,
            after,
            ended: (0, 0),
            live,
            backlog: VecDeque::new(),
            unread,
            over: false,
        };
        stream::unfold(follower, |mut follower| async move {
            let item = follower.next().await?;
            Some((item, follower))
        })
        .boxed()
    }

    /// The run as it is now, with what `interest` asks for.
    pub(crate) async fn attach(
        self: &Arc<Self>,
        caller: &Caller,
        run: RunId,
        interest: Interest,
    ) -> Result<Started, Failure> {
        let key = RunKey { tenant: caller.tenant.clone(), run };
        let view = Arc::new(self.load_run(&key).await?);
        let engine = self.clone();
        let live: Option<Live> = match interest {
            Interest::None => None,
            Interest::Events => Some(self.follower(key, 0, None)),
            Interest::Outcome => {
                Some(stream::once(async move { engine.wait_for(&key, None).await.map(Item::Ended) }).boxed())
            }
        };
        Ok(Started { view, live })
    }

    pub(crate) async fn attach_batch(
        self: &Arc<Self>,
        caller: &Caller,
        batch: BatchId,
        interest: Interest,
    ) -> Result<StartedBatch, Failure> {
        let mut runs = Vec::new();
        for view in self.load_members(caller, batch).await? {
            runs.push(self.attach(caller, view.run, interest).await?);
        }
        Ok(StartedBatch { batch, runs })
    }

    pub(crate) async fn load_run(&self, key: &RunKey) -> Result<RunView, Failure> {
        let found = self.parts.reader.find_run(key).await.map_err(|error| Failure::of(&error as &dyn Explain))?;
        found.ok_or_else(|| {
            Failure::new(FailureKind::NotFound, "unknown_run", format!("there is no run {}", key.run))
                .with_hint("list_runs (`GET /v1/runs`, `drawloom runs list`) shows the runs that there are")
        })
    }

    pub(crate) async fn load_members(&self, caller: &Caller, batch: BatchId) -> Result<Vec<RunView>, Failure> {
        let found = self.parts.reader.list_batch(&caller.tenant, batch).await;
        found
            .map_err(|error| Failure::of(&error as &dyn Explain))?
            .ok_or_else(|| Failure::new(FailureKind::NotFound, "unknown_batch", format!("there is no batch {batch}")))
    }

    /// The row when the run has ended, or as it is at `until`.
    pub(crate) async fn wait_for(&self, key: &RunKey, until: Option<Instant>) -> Result<Arc<RunView>, Failure> {
        let mut ended = self.feed.outcome(key);
        let view = self.load_run(key).await?;
        if view.status.is_terminal() {
            return Ok(Arc::new(view));
        }
        tokio::select! {
            ended = ended.ended() => match ended {
                Some(view) => Ok(view),
                None => self.load_run(key).await.map(Arc::new),
            },
            () = async {
                match until {
                    Some(time) => self.parts.clock.sleep_until(time).await,
                    None => std::future::pending().await,
                }
            } => self.load_run(key).await.map(Arc::new),
        }
    }
}

impl Follower {
    async fn next(&mut self) -> Option<Result<Item, Failure>> {
        while !self.over {
            if let Some(record) = self.backlog.pop_front() {
                self.pass(&record);
                return Some(Ok(Item::Record(Arc::new(record))));
            }
            if self.unread {
                match self.read().await {
                    Ok(None) => continue,
                    Ok(Some(item)) => return Some(Ok(item)),
                    Err(failure) => {
                        self.over = true;
                        return Some(Err(failure));
                    }
                }
            }
            let Some(live) = &mut self.live else {
                self.unread = true;
                continue;
            };
            match live.next().await {
                // Known already from the journal.
                Some(Item::Record(record)) if record.seq <= self.after => {}
                Some(Item::Record(record)) if record.seq == self.after + 1 => {
                    self.pass(&record);
                    return Some(Ok(Item::Record(record)));
                }
                Some(Item::Delta(delta)) if (delta.turn, delta.attempt) <= self.ended => {}
                Some(Item::Delta(delta)) => return Some(Ok(Item::Delta(delta))),
                Some(Item::Ended(view)) if view.seq == self.after => {
                    self.over = true;
                    return Some(Ok(Item::Ended(view)));
                }
                // Something was missed: the journal has it.
                Some(Item::Record(_) | Item::Ended(_)) | None => self.live = None,
            }
        }
        None
    }

    fn pass(&mut self, record: &Record) {
        self.after = record.seq;
        match &record.body {
            Body::TurnDone(done) => self.ended = (done.turn, u32::MAX),
            Body::TurnFailed(failed) => self.ended = (failed.turn, failed.attempt),
            _ => {}
        }
    }

    /// Reads on in the journal, listening before it looks. Gives the end when the run has ended and all was passed on.
    async fn read(&mut self) -> Result<Option<Item>, Failure> {
        if self.live.is_none() {
            self.live = Some(self.engine.feed.events(&self.key));
        }
        let reader = &self.engine.parts.reader;
        let view = self.engine.load_run(&self.key).await?;
        let records = reader.read_journal(&self.key, self.after, PAGE).await;
        let records = records.map_err(|error| Failure::of(&error as &dyn Explain))?;
        self.unread = records.len() == PAGE;
        if records.is_empty() && view.status.is_terminal() {
            self.over = true;
            return Ok(Some(Item::Ended(Arc::new(view))));
        }
        // The row is older than the records: when it says that the run has ended, one more look finds no more records.
        self.unread |= view.status.is_terminal();
        self.backlog.extend(records);
        Ok(None)
    }
}
