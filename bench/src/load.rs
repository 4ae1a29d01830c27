//! The load generator: clients on kept connections, each with one request at a time, on this process's one thread.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use tokio::task::JoinSet;

use crate::http::{Connection, find};

const COMPLETED: &[u8] = b"\"status\":\"completed\"";

/// What an answer must say; anything else ends the bench.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expect {
    /// As many runs completed.
    Completed(usize),
    /// The stream of a run that completed ended well.
    Streamed,
    /// A run was accepted.
    Accepted,
}

/// Who asks what.
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) request: Vec<u8>,
    pub(crate) expect: Expect,
    pub(crate) clients: usize,
}

/// When the clients stop.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// After this time; answers that come later do not count.
    Elapsed(Duration),
    /// After this many requests.
    Requests(usize),
}

/// What was seen.
pub(crate) struct Seen {
    /// Requests that were answered.
    pub(crate) requests: usize,
    /// How long it took.
    pub(crate) elapsed: Duration,
    latencies: Vec<Duration>,
}

impl Seen {
    /// The latency that this share of all requests did not exceed.
    pub(crate) fn percentile(&self, share: f64) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }
}

/// Runs the load.
pub(crate) async fn run(load: &Arc<Load>, until: Until) -> Result<Seen> {
    let mut connections = Vec::with_capacity(load.clients);
    for _ in 0..load.clients {
        connections.push(Connection::open(load.address).await?);
    }
    let asked = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for connection in connections {
        clients.spawn(client(Arc::clone(load), connection, begun, until, Arc::clone(&asked)));
    }
    let mut latencies = Vec::new();
    while let Some(client) = clients.join_next().await {
        latencies.append(&mut client??);
    }
    latencies.sort_unstable();
    let elapsed = match until {
        Until::Elapsed(time) => time,
        Until::Requests(_) => begun.elapsed(),
    };
    Ok(Seen { requests: latencies.len(), elapsed, latencies })
}

/// One client: asks, waits, checks, until it is time to stop.
async fn client(
    load: Arc<Load>,
    mut connection: Connection,
    begun: Instant,
    until: Until,
    asked: Arc<AtomicUsize>,
) -> Result<Vec<Duration>> {
    let mut latencies = Vec::with_capacity(4096);
    loop {
        if let Until::Requests(most) = until
            && asked.fetch_add(1, Ordering::Relaxed) >= most
        {
            return Ok(latencies);
        }
        let sent = Instant::now();
        let answer = connection.exchange(&load.request).await?;
        let latency = sent.elapsed();
        if let Until::Elapsed(most) = until
            && begun.elapsed() >= most
        {
            return Ok(latencies);
        }
        check(answer, load.expect)?;
        latencies.push(latency);
    }
}

fn check(answer: &[u8], expect: Expect) -> Result<()> {
    let fine = match expect {
        Expect::Completed(runs) => answer.starts_with(b"HTTP/1.1 200") && occurrences(answer, COMPLETED) == runs,
        Expect::Streamed => {
            answer.starts_with(b"HTTP/1.1 200")
                && find(answer, b"event: done").is_some_and(|done| find(&answer[done..], COMPLETED).is_some())
        }
        Expect::Accepted => answer.starts_with(b"HTTP/1.1 202"),
    };
    if !fine {
        bail!("wanted {expect:?}, but the server answered:\n{}", String::from_utf8_lossy(answer));
    }
    Ok(())
}

/// How often `part` occurs.
fn occurrences(bytes: &[u8], part: &[u8]) -> usize {
    let (mut count, mut rest) = (0, bytes);
    while let Some(at) = find(rest, part) {
        count += 1;
        rest = &rest[at + part.len()..];
    }
    count
}

#[cfg(test)]
mod tests {
    use super::{Expect, check};

    #[test]
    fn an_answer_with_too_few_completed_runs_is_refused() {
        let answer = b"HTTP/1.1 200 OK\r\n\r\n[{\"status\":\"completed\"},{\"status\":\"failed\"}]";
        assert!(check(answer, Expect::Completed(2)).is_err());
        assert!(check(answer, Expect::Completed(1)).is_ok());
    }

    #[test]
    fn a_stream_that_does_not_end_well_is_refused() {
        let failed = b"HTTP/1.1 200 OK\r\n\r\nevent: done\ndata: {\"status\":\"failed\"}\n\n";
        let done = b"HTTP/1.1 200 OK\r\n\r\nevent: done\ndata: {\"status\":\"completed\"}\n\n";
        assert!(check(failed, Expect::Streamed).is_err());
        assert!(check(done, Expect::Streamed).is_ok());
    }
}
