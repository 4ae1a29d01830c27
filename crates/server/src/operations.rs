//! Every built-in operation, in folders by resource. The list is `drawloom_wire::operations!`; tests walk it.

use std::sync::Arc;

use drawloom_contract::{
    failure::{Failure, FailureKind},
    ids::{AgentId, RunId},
    view::RunView,
};
use serde::Serialize;

use crate::operation::{AnyOperation, Call};

/// A module per resource, and the function that makes all operations.
macro_rules! declare_operations {
    ($($resource:ident { $($file:ident::$operation:ident,)* })*) => {
        $(
            pub(crate) mod $resource {
                $(pub(crate) mod $file;)*
            }
        )*

        /// The built-in operations, in the order that OpenAPI shows them.
        pub(crate) fn builtin() -> Vec<Arc<dyn AnyOperation>> {
            vec![$($(Arc::new($resource::$file::$operation),)*)*]
        }
    };
}

drawloom_wire::operations!(declare_operations);

/// The bytes of a page without its rows.
const EMPTY_PAGE: u64 = 64;

/// How many rows fit a page of at most `most` bytes of JSON. One does, however long it is, so that the next page is another
/// one.
pub(crate) fn fitting(rows: impl ExactSizeIterator<Item = impl Serialize>, most: u64) -> usize {
    let mut length = EMPTY_PAGE;
    let all = rows.len();
    let kept = rows.take_while(|row| {
        // A comma goes with each row.
        length += serde_json::to_vec(row).expect("rows have only text keys").len() as u64 + 1;
        length <= most
    });
    kept.count().max(1).min(all)
}

/// The run that an input names, by `run_id` or `agent_id`.
async fn named_run(call: &Call<'_>, run: Option<RunId>, agent_id: Option<AgentId>) -> Result<RunView, Failure> {
    let refuse = |code, message: &str| Failure::new(FailureKind::Invalid, code, message);
    match (run, agent_id) {
        (Some(run), None) => call.app.runs.load(call.caller, run).await,
        (None, Some(agent_id)) => call.app.runs.load_by_agent_id(call.caller, &agent_id).await,
        (Some(_), Some(_)) => {
            Err(refuse("both_spellings", "run_id and agent_id cannot be combined").with_hint("remove one of them"))
        }
        (None, None) => Err(refuse("missing_key", "run_id is missing").with_hint("pass run_id or agent_id")),
    }
}
