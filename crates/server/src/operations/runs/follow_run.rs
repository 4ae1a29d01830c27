//! `follow_run`: a run's events so far, then new ones until it ends; with `tree`, those of all runs below it too.

use std::{collections::HashMap, sync::Arc};

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    ids::{AgentName, RunId},
    journal::Placed,
    record::{Body, Seq},
    runs::{Interest, Item, Live, LiveTree, Started},
    view::RunView,
};
use drawloom_wire::{
    events::{Event, Mapper, placed, tree_done, with_prompt},
    runs::{self, How, RunResult},
};
use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};

use crate::{
    handle::{From, Handle},
    operation::{Answer, Call, Card, Operation, Precedence, Told},
};

pub(crate) struct FollowRun;

impl Operation for FollowRun {
    type Input = runs::FollowRun;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Stream the events of a run until it ends.", Scope::RunsRead)
            .toolset("runs")
            .told(Told::Run)
            .advice("Over MCP it returns once, when the run has ended.")
            .streams()
            .header("last-event-id", "from_seq", Precedence::Header)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<RunResult>, Failure> {
        // A stream does not need the final text before its end, and many followers at once would hold it many times.
        let view = match call.interest {
            Interest::Events => call.app.runs.glance(call.caller, input.run_id).await?,
            Interest::Outcome | Interest::None => call.app.runs.load(call.caller, input.run_id).await?,
        };
        if input.tree && input.past {
            let message = "tree and past cannot be combined: a stream of a tree lasts until its runs have ended";
            return Err(Failure::new(FailureKind::Invalid, "bad_value", message).with_hint("leave one of them out"));
        }
        if input.tree && call.interest == Interest::Events {
            let live = call.app.runs.follow_tree(call.caller, view.run).await?;
            return Ok(Answer::Events(tree_events(live, &view, input.from_seq.unwrap_or(0))));
        }
        let view = Arc::new(view);
        // The ids of a tree's events are no sequences of the run.
        if let Some(seq) = input.from_seq.filter(|seq| !input.tree && *seq > view.seq) {
            let message = format!("run {} has {} records; from_seq is {seq}", view.run, view.seq);
            return Err(Failure::new(FailureKind::Invalid, "bad_from_seq", message)
                .with_hint("from_seq and Last-Event-ID must be the id of the last event received"));
        }
        let live = match call.interest {
            // From the first record on: events repeat a little of what came before them (a tool's name, a retry's
            // reason), so the stream reads it all and shows what is new.
            Interest::Events => {
                let live = call.app.runs.follow(call.caller, view.run, 0, Interest::Events).await?;
                Some(if input.past && !view.status.is_terminal() { up_to(live, view.seq) } else { live })
            }
            Interest::Outcome | Interest::None => None,
        };
        let how = How { result_bytes: call.result_bytes, ..How::default() };
        let handle = Handle::run(call.caller.clone(), Started { view, live }, how);
        Ok(Answer::Handle(handle.streamed_from(From::After(input.from_seq.unwrap_or(0)))))
    }
}

/// Items up to the record `last`.
fn up_to(live: Live, last: Seq) -> Live {
    stream::unfold(Some(live), move |live| async move {
        let mut live = live?;
        let item = live.next().await?;
        let is_last = matches!(&item, Ok(Item::Record(record)) if record.seq >= last);
        Some((item, (!is_last).then_some(live)))
    })
    .boxed()
}

/// What of a tree's runs is shown, and how far.
struct Tree {
    live: LiveTree,
    top: RunId,
    /// Only events at later positions are shown.
    after: Seq,
    /// The runs that have not ended, as far as it was read.
    runs: HashMap<RunId, (Mapper, AgentName)>,
    over: bool,
}

/// The events of a tree at positions above `after`, with `tree_done` as the last when all runs have ended. Without it the stream
/// broke, and the caller takes it up again.
fn tree_events(live: LiveTree, view: &RunView, after: Seq) -> BoxStream<'static, Event> {
    let runs = HashMap::from([(view.run, (Mapper::default(), view.agent.clone()))]);
    let tree = Tree { live, top: view.run, after, runs, over: false };
    stream::unfold(tree, |mut tree| async move {
        let event = tree.next().await?;
        Some((event, tree))
    })
    .boxed()
}

impl Tree {
    async fn next(&mut self) -> Option<Event> {
        while !self.over {
            match self.live.next().await {
                Some(Ok(item)) => {
                    if let Some(event) = self.map(&item) {
                        return Some(event);
                    }
                }
                Some(Err(failure)) => {
                    tracing::warn!(code = failure.code, error = %failure, "event stream of a run tree failed");
                    return None;
                }
                None => self.over = true,
            }
            // Runs that no process executes stay open: their story is not over.
            if self.over && self.runs.is_empty() {
                return Some(tree_done(self.top));
            }
        }
        None
    }

    fn map(&mut self, item: &Placed<Item>) -> Option<Event> {
        let Placed { position, run, it } = item;
        if let Item::Record(record) = it
            && let Body::Accepted(accepted) = &record.body
        {
            self.runs.insert(*run, (Mapper::default(), accepted.agent.clone()));
        }
        let (mapper, agent) = self.runs.get_mut(run)?;
        let mut event = placed(mapper.map(it)?, *run, agent, *position);
        if let Item::Record(record) = it
            && let Body::Accepted(accepted) = &record.body
        {
            event = with_prompt(event, &accepted.segments);
        }
        if matches!(it, Item::Ended(_)) {
            // A large tree has many runs that ended long ago.
            self.runs.remove(run);
        }
        Some(event).filter(|event| event.id.is_none_or(|id| id > self.after))
    }
}
