//! Reports of work that takes long.

use std::{
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// Between two reports, and before the first.
const PAUSE: Duration = Duration::from_secs(1);

/// Does `work`, and calls `report` with the seconds so far once a second meanwhile.
pub(super) fn report<T>(report: impl Fn(u64) + Send, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    thread::scope(|scope| {
        let (working, done) = channel::<()>();
        let reports = move || {
            while let Err(RecvTimeoutError::Timeout) = done.recv_timeout(PAUSE) {
                report(started.elapsed().as_secs());
            }
        };
        if let Err(error) = thread::Builder::new().name("progress".into()).spawn_scoped(scope, reports) {
            tracing::warn!(%error, "cannot start the progress thread");
        }
        let result = work();
        drop(working);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_takes_long_is_reported_and_short_work_is_not() {
        let (reported, reports) = channel();
        let seconds = report(move |seconds| _ = reported.send(seconds), || reports.recv());
        assert!(seconds.is_ok_and(|seconds| seconds >= 1));
        assert_eq!(report(|_| panic!("it did not take long"), || 7), 7);
    }
}
