//! Servers that are reached over a real socket.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    redact::Redactor,
    time::{Clock, Timestamp},
};
use drawloom_process::Launcher;
use tokio::{net::TcpListener, time::Instant};

use super::{McpServerConfig, OutsideParts, server::Server};

/// The time since it was made.
pub(super) struct WallClock(Instant);

impl Default for WallClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

#[async_trait]
impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.0.elapsed().as_millis()).expect("a short time"))
    }

    async fn sleep_until(&self, time: Timestamp) {
        tokio::time::sleep(time.since(self.now())).await;
    }
}

fn server(url: String, start_timeout_ms: u64) -> Arc<Server> {
    let parts = OutsideParts {
        launcher: Launcher::this_program(&[]),
        environment: BTreeMap::new(),
        redactor: Arc::new(Redactor::new([""; 0])),
        clock: Arc::new(WallClock::default()),
    };
    let config = McpServerConfig { url: Some(url), start_timeout_ms, ..McpServerConfig::default() };
    Arc::new(Server::new("out", config, parts))
}

/// An address where somebody takes connections and says nothing; and how many there were.
async fn silence() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let taken = Arc::<AtomicUsize>::default();
    let count = taken.clone();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            kept.push(stream);
        }
    });
    (url, taken)
}

#[tokio::test]
async fn all_who_wait_for_a_server_share_one_opening_and_its_failure() {
    let (url, taken) = silence().await;
    let server = server(url, 600);
    let began = Instant::now();
    let offers = futures::future::join_all((0..8).map(|_| server.offer())).await;
    assert!(began.elapsed() < Duration::from_millis(1_200), "{:?}", began.elapsed());
    server.settled().await;
    for offer in offers {
        let why = offer.unavailable.as_deref().expect("nobody answers");
        assert!(why.contains("it did not say within 600 ms which tools it has"), "{why}");
    }
    // One for each era of the protocol.
    assert!(taken.load(Ordering::SeqCst) <= 2, "{taken:?}");
}

#[tokio::test]
async fn what_stands_after_the_question_mark_of_an_address_is_not_shown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let offer = server(format!("http://{address}/mcp?key=k3y"), 5_000).offer().await;
    let why = offer.unavailable.as_deref().expect("nobody is there");
    assert!(why.contains(&format!("no connection to http://{address}/mcp?…")), "{why}");
    assert!(!why.contains("k3y"), "{why}");
}
