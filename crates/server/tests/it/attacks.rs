//! Peers that hold connections without using them as honest ones do. Each test lets attackers take all that they can
//! get; then an honest caller must be answered.

use std::time::Duration;

use drawloom_contract::{ids::RunId, record::Status};
use drawloom_net::Method;
use drawloom_server::Limits;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::setup::{Server, Setup, read_until};

/// Connections of a test's server, and how many attackers come: more than there are places.
const PLACES: usize = 8;
const ATTACKERS: usize = 40;

/// Time for what must happen at some time, also on a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(60);

fn limits() -> Limits {
    let write_timeout = Duration::from_millis(800);
    Limits { connections: PLACES, reserved: 4, connections_per_caller: 6, write_timeout, ..Limits::default() }
}

async fn open_server() -> Server {
    Setup { limits: limits(), ..Setup::default() }.start().await
}

async fn attack(server: &Server, words: &[u8]) -> Vec<TcpStream> {
    let mut attackers = Vec::new();
    for _ in 0..ATTACKERS {
        let mut socket = TcpStream::connect(server.address).await.expect("it listens");
        // The server may have closed it, or take no more: both are fine.
        _ = tokio::time::timeout(Duration::from_millis(50), socket.write_all(words)).await;
        attackers.push(socket);
    }
    attackers
}

/// Asks on a new connection until it is answered: 503 and a closed connection mean that there is no room yet.
async fn is_answered(server: &Server, token: Option<&str>) -> bool {
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET /v1/_me HTTP/1.1\r\nHost: localhost\r\n{authorization}Connection: close\r\n\r\n");
    let ask = async || {
        let mut socket = TcpStream::connect(server.address).await.ok()?;
        socket.write_all(request.as_bytes()).await.ok()?;
        let mut text = String::new();
        socket.read_to_string(&mut text).await.ok()?;
        text.starts_with("HTTP/1.1 200").then_some(())
    };
    let asked = tokio::time::timeout(PATIENCE, async {
        while ask().await.is_none() {
            tokio::task::yield_now().await;
        }
    });
    asked.await.is_ok()
}

/// Returns when at most `count` connections are open.
async fn until_open(server: &Server, count: usize) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while server.app.presence().connections() > count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{} connections are open", server.app.presence().connections()));
}

/// A run whose events are far more than the kernel buffers.
async fn long_run(server: &Server) -> RunId {
    let body = r#"{"agent":"slow","prompt":"go","mode":"detach"}"#;
    let head = "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length:";
    let mut started = server.say(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).await;
    read_until(&mut started, "\"run_id\"").await;
    drop(started);
    until_open(server, 0).await;
    let run = *server.fake.run_ids().last().expect("a run");
    server.fake.admit(run);
    for _ in 0..8 {
        server.fake.say(run, &"x".repeat(4 * 1024 * 1024));
    }
    server.fake.finish(run, Status::Completed);
    run
}

#[tokio::test]
async fn peers_that_send_no_whole_request_keep_nobody_out() {
    let for_ever = Duration::from_secs(3_600);
    let limits = Limits { head_timeout: for_ever, body_timeout: for_ever, ..limits() };
    let server = Setup { limits, ..Setup::default() }.start().await;
    let forms: [&[u8]; 4] = [
        b"",
        b"GET /v1/_me HTTP/1.1\r\nHost: loc",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"agent\":",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"jso",
    ];
    for words in forms {
        let attackers = attack(&server, words).await;
        assert!(is_answered(&server, None).await, "{:?}", String::from_utf8_lossy(words));
        drop(attackers);
    }
}

#[tokio::test]
async fn peers_that_ask_and_do_not_read_keep_nobody_out_and_are_dropped() {
    let server = open_server().await;
    // Answers of 100 KB and more, several hundred of them.
    let request = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(400);
    let attackers = attack(&server, &request).await;
    assert!(is_answered(&server, None).await);
    until_open(&server, 0).await;
    drop(attackers);
}

#[tokio::test]
async fn a_follower_that_does_not_read_is_dropped_and_goes_on_where_it_was() {
    let server = open_server().await;
    let run = long_run(&server).await;
    let request = format!("GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut follower = server.say(request.as_bytes()).await;
    read_until(&mut follower, "event: started").await;
    until_open(&server, 0).await;
    let rest = server.open(Method::Get, &format!("/v1/runs/{run}/events"), &[("last-event-id", "2")], None).await;
    assert_eq!(rest.status(), 200);
    let rest = rest.bytes(1 << 27).await.expect("the rest of the stream");
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.starts_with("event: message\nid: 3\n"), "{}", &rest[..100]);
    assert!(rest.trim_end().ends_with('}') && rest.contains("event: done"));
}

#[tokio::test]
async fn a_follower_that_reads_a_byte_now_and_then_is_dropped() {
    let server = open_server().await;
    let run = long_run(&server).await;
    let request = format!("GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut follower = server.say(request.as_bytes()).await;
    read_until(&mut follower, "event: started").await;
    let drip = async {
        while follower.read_u8().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = until_open(&server, 0) => {}
        () = drip => {}
    }
}

#[tokio::test]
async fn a_slow_reader_that_keeps_reading_gets_everything() {
    let server = open_server().await;
    let run = long_run(&server).await;
    let request = format!("GET /v1/runs/{run} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut reader = server.say(request.as_bytes()).await;
    let (mut bytes, mut piece) = (0, vec![0; 64 * 1024]);
    loop {
        match reader.read(&mut piece).await.expect("it is not cut") {
            0 => break,
            count => bytes += count,
        }
        tokio::task::yield_now().await;
    }
    assert!(bytes > 4 * 1024 * 1024, "{bytes}");
}

#[tokio::test]
async fn strangers_leave_room_for_callers_with_a_token() {
    let server = Setup { limits: limits(), principals: true, ..Setup::default() }.start().await;
    let held =
        "GET /v1/runs/none/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ann-token-of-the-tests\r\n\r\n";
    let mut hers = server.say(held.as_bytes()).await;
    read_until(&mut hers, "HTTP/1.1 400").await;
    for words in [
        &b""[..],
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/runs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let attackers = attack(&server, words).await;
        assert!(is_answered(&server, Some("ann-token-of-the-tests")).await);
        assert!(server.app.presence().connections() <= PLACES);
        drop(attackers);
    }
    // Her connection was idle all the time, and no stranger took its place.
    hers.write_all(held.as_bytes()).await.expect("it is open");
    read_until(&mut hers, "HTTP/1.1 400").await;
}

#[tokio::test]
async fn a_caller_with_many_waiting_calls_leaves_room_for_other_callers() {
    let server = Setup { limits: limits(), principals: true, ..Setup::default() }.start().await;
    let body = r#"{"agent":"slow","prompt":"go"}"#;
    let mut waiting = Vec::new();
    for _ in 0..ATTACKERS {
        let request = format!(
            "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ann-token-of-the-tests\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut socket = server.say(request.as_bytes()).await;
        let mut head = [0; 12];
        // A connection over the limit may be closed before it said anything.
        _ = socket.read_exact(&mut head).await;
        waiting.push((socket, head));
    }
    let (streams, refused) = waiting.iter().fold((0, 0), |(streams, refused), (_, head)| match head {
        b"HTTP/1.1 200" => (streams + 1, refused),
        b"HTTP/1.1 503" => (streams, refused + 1),
        _ => (streams, refused),
    });
    assert_eq!((streams, refused), (6, ATTACKERS - 6));
    assert!(is_answered(&server, Some("eve-token-of-the-tests")).await);
}
