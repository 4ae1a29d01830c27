//! A server that is older than the command which found it: replaced while it is idle, else only named.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{VERSION, record::Status, time::Clock as _};
use drawloom_wire::{
    client::Client,
    runs::ListRuns,
    server::GetLoad,
    upstream::{Address, Fixed},
};

use crate::{clock::SystemClock, data_dir::ServerFile};

/// A server that does not say by then what it does is not idle.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Whether a server is of an earlier version than this program.
pub(super) fn is_older(server: &ServerFile) -> bool {
    match (numbers(&server.version), numbers(VERSION)) {
        (Some(theirs), Some(ours)) => theirs < ours,
        _ => false,
    }
}

/// `1.2.3` as numbers; what follows a dash is left out.
fn numbers(version: &str) -> Option<Vec<u64>> {
    version.split('-').next()?.split('.').map(|part| part.parse().ok()).collect()
}

/// Whether the server at `address` has no unfinished run. A run that is accepted right after this answer is not lost: a server
/// that is stopped finishes its step, and the next one resumes the run.
pub(super) async fn is_idle(address: &Address) -> bool {
    let client = Client::of(Arc::new(Fixed(address.clone())), Arc::new(SystemClock));
    let status = Some(vec![Status::Queued, Status::Running, Status::Waiting]);
    let ask = ListRuns { status, limit: Some(1), ..ListRuns::default() };
    // The load counts the runs of all tenants; the list has those that are parked.
    let unfinished = async {
        let load = client.call(&GetLoad {}).await.ok()?;
        let page = client.call(&ask).await.ok()?;
        Some(load.active + load.queued + page.runs.len() as u64)
    };
    tokio::select! {
        count = unfinished => count == Some(0),
        () = SystemClock.sleep_until(SystemClock.now().after(ANSWER_TIME)) => false,
    }
}

/// What is said of an older server that goes on.
pub(super) fn note(server: &ServerFile) -> String {
    format!(
        "the server (process {}) is drawloom {}, older than this command ({VERSION}); `drawloom restart` replaces it",
        server.pid, server.version
    )
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(numbers("0.9.12") < numbers("0.10.0") && numbers("0.1.0") == numbers("0.1.0-dev"));
        assert_eq!(numbers("unknown"), None);
    }
}
