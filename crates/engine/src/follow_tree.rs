//! Following a tree of runs: the records of all of them in the order of the journal, without a gap and without a repeat.
//!
//! Records are always read from the store. Commits of different runs are told in any order, but the store has one order, and what
//! it shows is complete up to its last position. The feed only says when to read.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use drawloom_contract::{
    failure::Failure,
    ids::{RunId, RunKey},
    journal::Placed,
    record::{Body, Record},
    runs::{Item, LiveTree},
};
use futures::{StreamExt, stream};

use crate::{
    Engine,
    activities::ActivityWatch,
    feed::{Items, Subscription, TreeSignal},
};

/// Bytes of records read at once.
const PART: usize = 64 * 1024;

struct TreeFollower {
    engine: Arc<Engine>,
    /// The run whose part of the tree is followed.
    top: RunKey,
    root: RunKey,
    /// The runs of that part that were seen, and those of them that have not ended.
    seen: HashSet<RunId>,
    open: HashSet<RunId>,
    /// The position up to which everything was read.
    after: u64,
    backlog: VecDeque<Placed<Record>>,
    /// The end of a run, after its last record.
    end: Option<Placed<Item>>,
    signal: Option<TreeSignal>,
    pieces: Option<Subscription<Items>>,
    activity: Option<ActivityWatch>,
    /// The newest try of a turn of `top` whose end was passed on: pieces of it come too late.
    ended_turn: (u32, u32),
    /// Whether the journal may hold more than `backlog`.
    unread: bool,
    over: bool,
}

impl Engine {
    /// What the runs of the part of a tree below `top` did, then what they do.
    pub(crate) fn tree_follower(self: &Arc<Self>, top: RunKey, root: RunId) -> LiveTree {
        let follower = TreeFollower {
            engine: self.clone(),
            root: RunKey { tenant: top.tenant.clone(), run: root },
            seen: HashSet::from([top.run]),
            open: HashSet::from([top.run]),
            top,
            after: 0,
            backlog: VecDeque::new(),
            end: None,
            signal: None,
            pieces: None,
            activity: None,
            ended_turn: (0, 0),
            unread: true,
            over: false,
        };
        stream::unfold(follower, |mut follower| async move {
            let item = follower.next().await?;
            follower.over |= item.is_err();
            Some((item, follower))
        })
        .boxed()
    }
}

impl TreeFollower {
    async fn next(&mut self) -> Option<Result<Placed<Item>, Failure>> {
        loop {
            if let Some(end) = self.end.take() {
                return Some(Ok(end));
            }
            if let Some(placed) = self.backlog.pop_front() {
                match self.pass(placed).await {
                    Ok(None) => continue,
                    Ok(Some(item)) => return Some(Ok(item)),
                    Err(failure) => return Some(Err(failure)),
                }
            }
            if self.over {
                return None;
            }
            if self.unread {
                if let Err(failure) = self.read().await {
                    return Some(Err(failure));
                }
            } else if let Some((run, item)) = self.wait().await {
                return Some(Ok(Placed { position: 0, run, it: item }));
            }
        }
    }

    /// The record as an item, when its run is part of what is followed.
    async fn pass(&mut self, placed: Placed<Record>) -> Result<Option<Placed<Item>>, Failure> {
        let Placed { position, run, it: record } = placed;
        if let Body::Accepted(accepted) = &record.body
            && accepted.parent.as_ref().is_some_and(|parent| self.seen.contains(&parent.run))
            && self.seen.insert(run)
        {
            self.open.insert(run);
        }
        if !self.seen.contains(&run) {
            return Ok(None);
        }
        match &record.body {
            Body::TurnDone(done) if run == self.top.run => self.ended_turn = (done.turn, u32::MAX),
            Body::TurnFailed(failed) if run == self.top.run => self.ended_turn = (failed.turn, failed.attempt),
            Body::Finished(_) => {
                self.open.remove(&run);
                let key = RunKey { tenant: self.top.tenant.clone(), run };
                let view = Arc::new(self.engine.load_run(&key).await?);
                self.end = Some(Placed { position, run, it: Item::Ended(view) });
            }
            _ => {}
        }
        Ok(Some(Placed { position, run, it: Item::Record(Arc::new(record)) }))
    }

    /// Reads on in the journal, subscribed first.
    async fn read(&mut self) -> Result<(), Failure> {
        if self.signal.is_none() {
            self.signal = Some(self.engine.feed.tree(self.root.run));
        }
        if self.pieces.is_none() && self.open.contains(&self.top.run) {
            self.pieces = Some(self.engine.feed.events(&self.top));
        }
        let part = self.engine.parts.reader.read_tree_part(&self.root, self.after, PART).await;
        let (records, up_to) = part.map_err(|error| self.engine.unreadable(&error))?;
        self.after = up_to;
        if !records.is_empty() {
            self.backlog = records.into();
            return Ok(());
        }
        self.unread = false;
        if self.open.is_empty() {
            self.over = true;
            return Ok(());
        }
        // Nothing happens to a tree that this process does not own. One that was removed meanwhile is an error.
        self.engine.glance(&self.top).await?;
        self.over = !self.engine.owns(self.root.run);
        Ok(())
    }

    /// Waits for the next commit in the tree, or returns the next piece of a turn or what a run does now.
    async fn wait(&mut self) -> Option<(RunId, Item)> {
        let Some(signal) = &mut self.signal else {
            self.unread = true;
            return None;
        };
        let piece = async {
            match &mut self.pieces {
                Some(pieces) => pieces.next().await,
                None => std::future::pending().await,
            }
        };
        let engine = &self.engine;
        let activity =
            self.activity.get_or_insert_with(|| engine.activities.watch(self.root.run, engine.parts.clock.clone()));
        tokio::select! {
            // Records first: pieces of the next turn come after the end of the one before.
            biased;
            is_open = signal.changed() => {
                self.unread = true;
                if !is_open {
                    self.signal = None;
                }
                None
            }
            piece = piece => match piece {
                Some(Item::Delta(delta)) if (delta.turn, delta.attempt) > self.ended_turn => {
                    Some((self.top.run, Item::Delta(delta)))
                }
                Some(Item::Delta(_) | Item::Activity(_) | Item::Record(_)) => None,
                // The run has ended, or pieces came faster than they were taken. The next read subscribes again.
                Some(Item::Ended(_)) | None => {
                    self.pieces = None;
                    self.unread = true;
                    None
                }
            },
            activity = activity.next(|run| self.open.contains(&run)) => Some((activity.run, Item::Activity(activity))),
        }
    }
}
