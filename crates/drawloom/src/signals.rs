//! The signals that ask this process to stop: Ctrl-C (SIGINT), SIGTERM and SIGHUP.

use std::sync::LazyLock;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from the moment it is made, so make it before the work that a signal may interrupt. A signal that comes while
/// nothing waits for it is not lost; several of them then count as one.
pub(crate) struct StopSignals([Option<Signal>; 3]);

impl StopSignals {
    pub(crate) fn listen() -> Self {
        let listen = |kind| match signal(kind) {
            Ok(listening) => Some(listening),
            Err(error) => {
                tracing::warn!(error = %error, "a signal cannot be caught; it ends the process at once");
                None
            }
        };
        // A process that was started to survive its terminal (`nohup`) does.
        let hangup = if ignores_hangup() { None } else { listen(SignalKind::hangup()) };
        Self([listen(SignalKind::interrupt()), listen(SignalKind::terminate()), hangup])
    }

    /// Returns when the next signal comes: its number.
    pub(crate) async fn next(&mut self) -> u8 {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            () = received(interrupt) => 2,
            () = received(terminate) => 15,
            () = received(hangup) => 1,
        }
    }
}

/// Ends when a signal tells this process to stop. It listens from the moment it is made.
pub fn stop_signal() -> impl Future<Output = ()> {
    let mut signals = StopSignals::listen();
    async move {
        signals.next().await;
    }
}

/// Whether this process was started with SIGHUP ignored. Looked up once: catching the signal changes the answer.
fn ignores_hangup() -> bool {
    static IGNORED: LazyLock<bool> = LazyLock::new(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
    });
    *IGNORED
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
