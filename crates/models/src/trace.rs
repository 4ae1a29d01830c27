//! The span of a model call, and how the call ended.

use drawloom_contract::model::{Turn, TurnError, TurnRequest};
use tracing::Instrument as _;

/// Makes a call in a span of its own, which carries the ids of the run and the turn.
pub(crate) async fn in_span(
    provider: &str,
    request: &TurnRequest,
    call: impl Future<Output = Result<Turn, TurnError>>,
) -> Result<Turn, TurnError> {
    let span = tracing::debug_span!(
        "model_call",
        run = %request.run.run,
        turn = request.turn,
        attempt = request.attempt,
        provider,
        model = request.model,
    );
    async {
        let result = call.await;
        match &result {
            Ok(Turn { usage, calls, .. }) => tracing::debug!(
                input_tokens = usage.input_tokens,
                output_tokens = usage.output_tokens,
                calls = calls.len(),
                "model call ended"
            ),
            Err(error) => tracing::debug!(code = error.code(), %error, "model call failed"),
        }
        result
    }
    .instrument(span)
    .await
}
