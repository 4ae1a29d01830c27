//! Every operation, one line each. Tests walk the list: parity with the wire's table, scopes, bad input.

mod cancel_batch;
mod cancel_run;
mod follow_run;
mod get_batch;
mod get_load;
mod get_run;
mod list_agents;
mod list_models;
mod list_runs;
mod prune_runs;
pub(crate) mod read_artifact;
mod replay_run;
mod spawn_run;
mod spawn_runs;
mod whoami;

use drawloom_contract::{
    failure::{Failure, FailureKind},
    ids::{AgentId, RunId},
    view::RunView,
};

use drawloom_wire::validate::Validator;
use schemars::SchemaGenerator;
use serde::Serialize;

use crate::operation::{AnyOperation, Call};

/// All operations, in the order that OpenAPI shows them.
pub static OPERATIONS: &[&dyn AnyOperation] = &[
    &spawn_run::SpawnRun,
    &spawn_runs::SpawnRuns,
    &get_run::GetRun,
    &list_runs::ListRuns,
    &follow_run::FollowRun,
    &cancel_run::CancelRun,
    &get_batch::GetBatch,
    &cancel_batch::CancelBatch,
    &read_artifact::ReadArtifact,
    &list_agents::ListAgents,
    &list_models::ListModels,
    &replay_run::ReplayRun,
    &prune_runs::PruneRuns,
    &get_load::GetLoad,
    &whoami::WhoAmI,
];

/// What an operation takes, made ready to check input.
pub(crate) fn validator(operation: &dyn AnyOperation) -> Validator {
    let mut generator = SchemaGenerator::default();
    let mut schema = (operation.entry().input)(&mut generator).to_value();
    let definitions = generator.take_definitions(true);
    if let Some(map) = schema.as_object_mut() {
        map.insert("$defs".into(), definitions.into());
    }
    Validator::new(&schema).expect("inputs use only keywords that the validator knows; a test walks them")
}

/// The bytes of a page without its rows.
const EMPTY_PAGE: u64 = 64;

/// How many rows fit a page of at most `most` bytes of JSON. One does, however long it is, so that whoever turns pages gets
/// on.
pub(crate) fn fitting(rows: &[impl Serialize], most: u64) -> usize {
    let mut length = EMPTY_PAGE;
    let kept = rows.iter().take_while(|row| {
        // A comma goes with each row.
        length += serde_json::to_vec(row).expect("rows have only text keys").len() as u64 + 1;
        length <= most
    });
    kept.count().max(1).min(rows.len())
}

/// The run that an input names, by id or by handle.
async fn named_run(call: &Call<'_>, run: Option<RunId>, agent_id: Option<AgentId>) -> Result<RunView, Failure> {
    let refuse = |code, message: &str| Failure::new(FailureKind::Invalid, code, message);
    match (run, agent_id) {
        (Some(run), None) => call.app.runs.load(call.caller, run).await,
        (None, Some(agent_id)) => call.app.runs.load_by_agent_id(call.caller, &agent_id).await,
        (Some(_), Some(_)) => {
            Err(refuse("both_spellings", "run_id and agent_id are both there").with_hint("leave one of them out"))
        }
        (None, None) => Err(refuse("missing_key", "run_id is missing").with_hint("give run_id, or agent_id")),
    }
}
