//! `list_runs`: runs, newest first.

use drawloom_contract::{caller::Scope, failure::Failure, ids::RunId, journal::RunFilter, view::RunView};
use drawloom_wire::runs::{self, Include, RunPage, RunResult};

use crate::{
    handle::positions,
    labels, lean,
    operation::{Answer, Call, Card, Operation, Parameter, Told},
    operations::fitting,
};

/// Bytes of a prompt in a list.
const EXCERPT: usize = 200;

/// Bytes of each prompt that a search looks at.
const SEARCHED_BYTES: usize = 64 * 1024;

/// Runs that are searched at once, which bounds the memory.
const SEARCHED_PAGE: u32 = 100;

/// Runs that one request searches at most, so that none takes long; the caller goes on with `next`.
const SEARCHED_RUNS: usize = 2_000;

pub(crate) struct ListRuns;

const PARAMETERS: &[Parameter] = &[
    Parameter::takes("agent", "Only runs of this agent."),
    Parameter::takes("status", "Only runs with one of these statuses."),
    Parameter::takes("batch_id", "Only runs of this batch."),
    Parameter::takes("parent_run_id", "Only children of this run."),
    Parameter::takes("max_age_seconds", "Only runs that were started within this many seconds."),
    Parameter::takes("search", "Only runs whose prompt contains this text. A page may be empty although more follow."),
    Parameter::takes("include", "prompt adds the beginning of each prompt."),
    Parameter::takes("before", "next of the previous page, to get the next page."),
    Parameter::takes("limit", "Maximum number of runs (default 50)."),
];

impl Operation for ListRuns {
    type Input = runs::ListRuns;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("List runs, newest first.", Scope::RunsRead)
            .toolset("core")
            .told(Told::Runs)
            .parameters(PARAMETERS)
            .advice("Finds a run again, or shows what is still at work. Answers are left out; get_run has them.")
    }

    async fn call(&self, call: &Call<'_>, mut input: Self::Input) -> Result<Answer<RunPage>, Failure> {
        let size = input.page_size();
        let (search, include) = (input.search.take(), std::mem::take(&mut input.include));
        let filter = input.filter(call.app.clock.wall());
        let (views, next) = match search {
            Some(text) => search_prompts(call, filter, &text.to_lowercase()).await?,
            None => {
                let views = call.app.runs.list(call.caller, filter).await?;
                let next = views.last().filter(|_| views.len() >= size as usize).map(|view| view.run);
                (views, next)
            }
        };
        let positions = positions(call.app, views.iter());
        let runs = views.iter().map(|view| {
            let mut row = RunResult::of(view, positions.get(&view.run).copied());
            // A page of long texts would be very long; the run itself has its text.
            row.final_text = None;
            row
        });
        let mut page = RunPage { runs: runs.collect(), next };
        labels::add_retries(call.app, &views, &mut page.runs).await?;
        labels::add(call.app, &views, &mut page.runs, &include, EXCERPT).await?;
        if include.contains(&Include::Tree) {
            for row in &mut page.runs {
                row.tree = Some(call.app.runs.total(call.caller, row.run_id).await?.into());
            }
        }
        let kept = call.result_bytes.map_or(page.runs.len(), |most| fitting(page.runs.iter().map(lean::run_row), most));
        if kept < page.runs.len() {
            page.runs.truncate(kept);
            page.next = page.runs.last().map(|row| row.run_id);
        }
        Ok(Answer::Value(page))
    }
}

/// Runs whose prompt contains `text`, which is in lower case, and where to go on.
async fn search_prompts(
    call: &Call<'_>,
    mut filter: RunFilter,
    text: &str,
) -> Result<(Vec<RunView>, Option<RunId>), Failure> {
    let wanted = std::mem::replace(&mut filter.limit, SEARCHED_PAGE) as usize;
    let mut found = Vec::new();
    let mut searched = 0;
    loop {
        let views = call.app.runs.list(call.caller, filter.clone()).await?;
        let labels = call.app.runs.label(&views, SEARCHED_BYTES).await?;
        searched += views.len();
        let is_last_page = views.len() < SEARCHED_PAGE as usize;
        for (view, label) in views.into_iter().zip(labels) {
            filter.before = Some(view.run);
            if label.prompt.to_lowercase().contains(text) {
                found.push(view);
                if found.len() == wanted {
                    return Ok((found, filter.before));
                }
            }
        }
        if is_last_page {
            return Ok((found, None));
        }
        if searched >= SEARCHED_RUNS {
            return Ok((found, filter.before));
        }
    }
}
