//! `cancel_on_disconnect`: what a caller leaves behind is stopped.

use std::sync::Arc;

use drawloom_contract::{caller::Caller, ids::RunId};
use drawloom_wire::runs::How;

use crate::app::App;

/// Cancels its runs when it is dropped before it was disarmed: then nobody took the result.
pub(crate) struct CancelGuard {
    armed: Option<(Arc<App>, Caller, Vec<RunId>)>,
}

impl CancelGuard {
    /// A guard that is armed when the caller asked for it.
    pub(crate) fn new(app: &Arc<App>, caller: &Caller, how: &How, runs: Vec<RunId>) -> Self {
        Self { armed: how.cancel_on_disconnect.then(|| (app.clone(), caller.clone(), runs)) }
    }

    /// The result is on its way: nothing is cancelled any more.
    pub(crate) fn disarm(&mut self) {
        self.armed = None;
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        let Some((app, caller, runs)) = self.armed.take() else { return };
        // A server that stops cuts its callers off; that is not their doing.
        if app.stopping.is_cancelled() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            for run in runs {
                let reason = Some("the caller disconnected".to_owned());
                match app.runs.cancel(&caller, run, reason).await {
                    Ok(_) => tracing::info!(run = %run, "run cancelled because the caller disconnected"),
                    Err(error) => tracing::warn!(run = %run, error = %error, "cancel on disconnect failed"),
                }
            }
        });
    }
}
