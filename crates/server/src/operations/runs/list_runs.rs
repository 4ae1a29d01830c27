//! `list_runs`: runs, newest first.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::runs::{self, RunPage, RunResult};

use crate::{
    handle::positions,
    operation::{Answer, Call, Card, Operation},
    operations::fitting,
};

pub(crate) struct ListRuns;

impl Operation for ListRuns {
    type Input = runs::ListRuns;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("List runs, newest first.", Scope::RunsRead).toolset("core").advice(
            "Use it to find a run again, or to see what is still going on. Texts are left out; get_run has them.",
        )
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<RunPage>, Failure> {
        let size = input.page_size();
        let views = call.app.runs.list(call.caller, input.into()).await?;
        let positions = positions(call.app, views.iter());
        let next = views.last().filter(|_| views.len() >= size as usize).map(|view| view.run);
        let runs = views.iter().map(|view| {
            let mut row = RunResult::of(view, positions.get(&view.run).copied());
            // A page of long texts would be very long; the run itself has its text.
            row.final_text = None;
            row
        });
        let mut page = RunPage { runs: runs.collect(), next };
        let kept = call.result_bytes.map_or(page.runs.len(), |most| fitting(&page.runs, most));
        if kept < page.runs.len() {
            page.runs.truncate(kept);
            page.next = page.runs.last().map(|row| row.run_id);
        }
        Ok(Answer::Value(page))
    }
}
