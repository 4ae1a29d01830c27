//! Waiting: until the end, until a time, or until the server stops.

use std::{future::Future, sync::Arc, time::Duration};

use drawloom_contract::{
    caller::Caller,
    failure::Failure,
    ids::BatchId,
    runs::{Item, Live, Started},
    time::Instant,
    view::RunView,
};
use drawloom_wire::runs::How;
use futures::StreamExt;

use crate::app::App;

/// When a wait is over at the latest.
pub(super) fn until(app: &App, how: &How) -> Option<Instant> {
    how.wait_ms.map(|millis| app.clock.now().after(Duration::from_millis(millis)))
}

/// The run when it ended or the wait is over, and what cut the wait short.
pub(super) async fn run(
    app: &App,
    caller: &Caller,
    view: Arc<RunView>,
    live: Option<Live>,
    until: Option<Instant>,
) -> (Arc<RunView>, Option<String>) {
    if view.status.is_terminal() {
        return (view, None);
    }
    let stopped = match bounded(app, until, ended(app, caller, &view, live)).await {
        Some(Ok(view)) => return (view, None),
        Some(Err(failure)) => Some(broken(&failure)),
        None => cut(app),
    };
    match app.runs.load(caller, view.run).await {
        Ok(now) => (Arc::new(now), stopped),
        Err(failure) => (view, stopped.or_else(|| Some(broken(&failure)))),
    }
}

/// The batch's runs when all ended or the wait is over, and what cut the wait short.
pub(super) async fn batch(
    app: &App,
    caller: &Caller,
    batch: BatchId,
    runs: Vec<Started>,
    until: Option<Instant>,
) -> (Vec<Arc<RunView>>, Option<String>) {
    let known: Vec<Arc<RunView>> = runs.iter().map(|started| started.view.clone()).collect();
    let all = async {
        let mut views = Vec::with_capacity(runs.len());
        for started in runs {
            // One after the other is as good as together: the last to end decides.
            views.push(match started.view.status.is_terminal() {
                true => started.view,
                false => ended(app, caller, &started.view, started.live).await?,
            });
        }
        Ok::<_, Failure>(views)
    };
    let stopped = match bounded(app, until, all).await {
        Some(Ok(views)) => return (views, None),
        Some(Err(failure)) => Some(broken(&failure)),
        None => cut(app),
    };
    match app.runs.load_batch(caller, batch).await {
        Ok(now) => (now.into_iter().map(Arc::new).collect(), stopped),
        Err(failure) => (known, stopped.or_else(|| Some(broken(&failure)))),
    }
}

/// The row at the run's end: from what is already listened to, else from the engine.
async fn ended(app: &App, caller: &Caller, view: &RunView, live: Option<Live>) -> Result<Arc<RunView>, Failure> {
    if let Some(mut live) = live {
        while let Some(item) = live.next().await {
            if let Item::Ended(view) = item? {
                return Ok(view);
            }
        }
    }
    app.runs.wait(caller, view.run, None).await
}

/// What `work` yields, unless the time is up or the server stops first.
async fn bounded<T>(app: &App, until: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    let time_is_up = async {
        match until {
            Some(until) => app.clock.sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        done = work => Some(done),
        () = time_is_up => None,
        () = app.stopping.cancelled() => None,
    }
}

/// What ended a wait that did not end by itself; a caller's own `wait_ms` needs no word.
fn cut(app: &App) -> Option<String> {
    app.stopping.is_cancelled().then(|| "the server stopped before the end; it goes on when the server is back".into())
}

fn broken(failure: &Failure) -> String {
    format!("the wait was cut short ({}): {failure}", failure.code)
}
