//! `orchestrate_tail`: the events of a goal since a cursor.

use std::time::Duration;

use drawloom_contract::{
    caller::Scope,
    failure::Failure,
    runs::{Interest, Item},
};
use drawloom_goal::Story;
use drawloom_wire::goals::{self, GoalEvent, GoalEvents};
use futures::StreamExt as _;

use crate::{
    goals::LONG_POLL,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct OrchestrateTail;

impl Operation for OrchestrateTail {
    type Input = goals::OrchestrateTail;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Read the events of a goal after a cursor.", Scope::RunsRead)
            .toolset("goal")
            .advice("Pass wait_ms (up to 50000) to wait for the next event instead of asking again and again.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<GoalEvents>, Failure> {
        let view = call.app.goals.find(call.app, call.caller, input.run_id).await?;
        let (after, limit) = (input.cursor.unwrap_or(0), input.limit.unwrap_or(200) as usize);
        let longest = LONG_POLL.as_millis() as u64;
        let effective = input.wait_ms.unwrap_or(0).min(longest);
        let asked = input.wait_ms.unwrap_or(0);
        let warnings = (asked > longest)
            .then(|| format!("wait_ms: {asked} requested, reduced to {longest}"))
            .into_iter()
            .collect();
        let clock = &call.app.clock;
        let until = clock.now().after(Duration::from_millis(effective));
        let mut live = call.app.runs.follow(call.caller, view.run, 0, Interest::Events).await?;
        let (mut story, mut events, mut more) = (Story::default(), Vec::new(), false);
        let mut running = !view.status.is_terminal();
        let mut seen = 0;
        loop {
            // What was there when the request came is read without waiting.
            let is_past = seen < view.seq;
            let next = tokio::select! {
                biased;
                item = live.next() => item,
                () = clock.sleep_until(until), if !is_past => break,
                () = call.app.stopping.cancelled() => break,
            };
            match next {
                Some(Ok(Item::Record(record))) => {
                    seen = record.seq;
                    if let Some(event) = story.apply(&record).filter(|event| event.seq > after) {
                        if events.len() == limit {
                            more = true;
                            break;
                        }
                        let drawloom_goal::LoopEvent { seq, ts, kind, iteration, data } = event;
                        events.push(GoalEvent { seq, ts, kind, iteration, data });
                    }
                }
                Some(Ok(Item::Delta(_) | Item::Activity(_))) => {}
                Some(Ok(Item::Ended(_))) | None => {
                    running = false;
                    break;
                }
                Some(Err(failure)) => return Err(failure),
            }
            if seen >= view.seq && (!events.is_empty() || effective == 0) {
                running = running && story.status().running;
                break;
            }
        }
        let cursor = events.last().map_or(after, |event| event.seq);
        let run_id = view.run;
        Ok(Answer::Value(GoalEvents { run_id, events, cursor, running, more, effective_wait_ms: effective, warnings }))
    }
}
