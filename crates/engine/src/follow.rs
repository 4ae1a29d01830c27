//! Following runs: the journal's tail plus what happens live, without a gap and without a repeat.

use std::{collections::VecDeque, sync::Arc};

use drawloom_contract::{
    caller::Caller,
    failure::{Failure, FailureKind},
    ids::{BatchId, RunId, RunKey},
    record::{Body, Record, Seq},
    runs::{Interest, Item, Live, Started, StartedBatch},
    time::Instant,
    view::RunView,
};
use futures::{StreamExt, stream};
use tokio::sync::oneshot;

use crate::{
    Engine,
    activities::ActivityWatch,
    feed::{Items, Subscription},
};

/// Bytes of records read at once: a follower that is not read from holds so many, or one record.
const PART: usize = 64 * 1024;

/// A subscription that was made before the run was accepted.
pub(crate) enum Early {
    Outcome(Subscription<oneshot::Receiver<Arc<RunView>>>),
    Events(Subscription<Items>),
}

/// Where a follower is.
struct Follower {
    engine: Arc<Engine>,
    key: RunKey,
    /// The last record that was passed on.
    after: Seq,
    /// The newest try of a turn whose end was passed on: pieces of it come too late.
    ended: (u32, u32),
    live: Option<Subscription<Items>>,
    activity: Option<ActivityWatch>,
    backlog: VecDeque<Record>,
    /// Whether the journal may hold more than `backlog`.
    unread: bool,
    /// Whether the run's last record was passed on.
    finished: bool,
    over: bool,
}

impl Engine {
    /// Subscribes to a run that is about to begin.
    pub(crate) fn listen(&self, key: &RunKey, interest: Interest) -> Option<Early> {
        match interest {
            Interest::None => None,
            Interest::Outcome => Some(Early::Outcome(self.feed.outcome(key))),
            Interest::Events => Some(Early::Events(self.feed.events(key))),
        }
    }

    /// The items of a subscription.
    pub(crate) fn stream(self: &Arc<Self>, key: RunKey, early: Early) -> Live {
        match early {
            Early::Outcome(mut subscription) => {
                let engine = self.clone();
                stream::once(async move {
                    match subscription.ended().await {
                        Some(view) => Ok(Item::Ended(view)),
                        None => engine.wait_for(&key, None).await.map(Item::Ended),
                    }
                })
                .boxed()
            }
            Early::Events(subscription) => self.follower(key, 0, Some(subscription)),
        }
    }

    /// Records after `after`, then what happens.
    pub(crate) fn follower(self: &Arc<Self>, key: RunKey, after: Seq, live: Option<Subscription<Items>>) -> Live {
        let unread = live.is_none();
        let follower = Follower {
            engine: self.clone(),
            key,
            after,
            ended: (0, 0),
            live,
            activity: None,
            backlog: VecDeque::new(),
            unread,
            finished: false,
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
        let found = self.parts.reader.find_run(key).await.map_err(|error| self.unreadable(&error))?;
        found.ok_or_else(|| unknown_run(key.run))
    }

    /// The run without its final text.
    pub(crate) async fn glance(&self, key: &RunKey) -> Result<RunView, Failure> {
        let found = self.parts.reader.find_run_without_text(key).await;
        found.map_err(|error| self.unreadable(&error))?.ok_or_else(|| unknown_run(key.run))
    }

    pub(crate) async fn load_members(&self, caller: &Caller, batch: BatchId) -> Result<Vec<RunView>, Failure> {
        let found = self.parts.reader.list_batch(&caller.visible(), batch).await;
        found
            .map_err(|error| self.unreadable(&error))?
            .ok_or_else(|| Failure::new(FailureKind::NotFound, "unknown_batch", format!("unknown batch {batch}")))
    }

    /// The row when the run has ended, or as it is at `until`.
    pub(crate) async fn wait_for(&self, key: &RunKey, until: Option<Instant>) -> Result<Arc<RunView>, Failure> {
        self.wait_for_seen(key, until, Ok).await
    }

    /// The same for a caller; `allowed` says whether the caller may see the run.
    pub(crate) async fn wait_for_seen(
        &self,
        key: &RunKey,
        until: Option<Instant>,
        allowed: impl FnOnce(RunView) -> Result<RunView, Failure>,
    ) -> Result<Arc<RunView>, Failure> {
        let mut ended = self.feed.outcome(key);
        let view = allowed(self.load_run(key).await?)?;
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

pub(crate) fn unknown_run(run: RunId) -> Failure {
    Failure::new(FailureKind::NotFound, "unknown_run", format!("unknown run {run}"))
        .with_hint("list_runs lists the runs")
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
                    Ok(Some(item)) => {
                        self.over = true;
                        return Some(Ok(item));
                    }
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
            let engine = &self.engine;
            let activity =
                self.activity.get_or_insert_with(|| engine.activities.watch(self.key.run, engine.parts.clock.clone()));
            let item = tokio::select! {
                // Records first: a call reports nothing after its end.
                biased;
                item = live.next() => item,
                activity = activity.next(|run| run == self.key.run) => Some(Item::Activity(activity)),
            };
            match item {
                // Known already from the journal.
                Some(Item::Record(record)) if record.seq <= self.after => {}
                Some(Item::Record(record)) if record.seq == self.after + 1 => {
                    self.pass(&record);
                    return Some(Ok(Item::Record(record)));
                }
                Some(Item::Delta(delta)) if (delta.turn, delta.attempt) <= self.ended => {}
                Some(Item::Delta(delta)) => return Some(Ok(Item::Delta(delta))),
                Some(Item::Activity(activity)) => return Some(Ok(Item::Activity(activity))),
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
            Body::Finished(_) => self.finished = true,
            _ => {}
        }
    }

    /// Reads on in the journal, subscribed first. Returns the end when the run has ended and all was passed on.
    async fn read(&mut self) -> Result<Option<Item>, Failure> {
        if self.live.is_none() {
            self.live = Some(self.engine.feed.events(&self.key));
        }
        if !self.finished {
            let records = self.engine.parts.reader.read_journal_part(&self.key, self.after, PART).await;
            self.backlog = records.map_err(|error| self.engine.unreadable(&error))?.into();
            if !self.backlog.is_empty() {
                return Ok(None);
            }
        }
        // All records were passed on, and new ones come through the subscription; a run that had ended sends none.
        self.unread = false;
        if !self.finished {
            let view = self.engine.glance(&self.key).await?;
            if !view.status.is_terminal() {
                // Nothing happens to a run that this process does not own, so its follower is complete.
                self.over = !self.engine.owns(view.root);
                return Ok(None);
            }
        }
        let view = self.engine.load_run(&self.key).await?;
        match view.seq == self.after {
            true => Ok(Some(Item::Ended(Arc::new(view)))),
            false => {
                self.unread = true;
                Ok(None)
            }
        }
    }
}
