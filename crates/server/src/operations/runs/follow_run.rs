//! `follow_run`: a run's events so far, then new ones until it ends.

use std::sync::Arc;

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    runs::{Interest, Started},
};
use drawloom_wire::runs::{self, How, RunResult};

use crate::{
    handle::{From, Handle},
    operation::{Answer, Call, Card, Operation, Precedence},
};

pub(crate) struct FollowRun;

impl Operation for FollowRun {
    type Input = runs::FollowRun;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Follow a run's events until it ends.", Scope::RunsRead)
            .toolset("runs")
            .advice("Over MCP it answers once, when the run has ended.")
            .streams()
            .header("last-event-id", "from_seq", Precedence::Header)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<RunResult>, Failure> {
        // A stream does not need the final text before its end, and many followers at once would hold it many times.
        let view = match call.interest {
            Interest::Events => call.app.runs.glance(call.caller, input.run_id).await?,
            Interest::Outcome | Interest::None => call.app.runs.load(call.caller, input.run_id).await?,
        };
        let view = Arc::new(view);
        if let Some(seq) = input.from_seq.filter(|seq| *seq > view.seq) {
            let message = format!("run {} has {} records; there is none after {seq}", view.run, view.seq);
            return Err(Failure::new(FailureKind::Invalid, "bad_from_seq", message)
                .with_hint("from_seq and Last-Event-ID are the id of the last event that you saw"));
        }
        let live = match call.interest {
            // From the first record on: events repeat a little of what came before them (a tool's name, a retry's
            // reason), so the stream reads it all and shows what is new.
            Interest::Events => Some(call.app.runs.follow(call.caller, view.run, 0, Interest::Events).await?),
            Interest::Outcome | Interest::None => None,
        };
        let how = How { result_bytes: call.result_bytes, ..How::default() };
        let handle = Handle::run(call.caller.clone(), Started { view, live }, how);
        Ok(Answer::Handle(handle.streamed_from(From::After(input.from_seq.unwrap_or(0)))))
    }
}
