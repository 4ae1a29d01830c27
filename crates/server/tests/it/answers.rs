//! Large answers and events that wait for their readers are counted, and a caller is told when there are too many.

use std::time::Duration;

use drawloom_contract::{ids::RunId, record::Status};
use drawloom_server::Limits;
use serde_json::json;
use tokio::{io::AsyncReadExt, net::TcpStream};

use crate::setup::{Server, Setup, read_until, within};

/// More than sockets buffer.
const LARGE: usize = 3 << 20;

/// A server with room for two large answers, whose readers may take as long as they like.
async fn server() -> Server {
    let hour = Duration::from_secs(3600);
    let limits = Limits { answers: 5 * LARGE / 2, write_timeout: hour, head_grace: hour, ..Limits::default() };
    Setup { limits, ..Setup::default() }.start().await
}

/// A run that ended with a large text.
async fn large_run(server: &Server) -> RunId {
    let known = server.fake.run_ids();
    server.post("/v1/runs", json!({ "agent": "slow", "prompt": "go", "mode": "detach" })).await;
    let run = server.fake.run_ids().into_iter().find(|run| !known.contains(run)).expect("a new run");
    server.fake.admit(run);
    server.fake.say(run, &"x".repeat(LARGE));
    server.fake.finish(run, Status::Completed);
    run
}

async fn ask(server: &Server, path: &str, more: &str) -> TcpStream {
    server.say(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}Connection: close\r\n\r\n").as_bytes()).await
}

/// Follows a run and reads no further than to its first event.
async fn follow(server: &Server, run: RunId) -> TcpStream {
    let mut stream = ask(server, &format!("/v1/runs/{run}/events"), "").await;
    read_until(&mut stream, "event: started").await;
    stream
}

/// What comes until the server closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    _ = within(stream.read_to_end(&mut bytes)).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits until there are at most so many connections.
async fn until_few(server: &Server, most: usize) {
    within(async {
        while server.app.presence().connections() > most {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn events_of_different_runs_that_wait_for_their_readers_are_counted() {
    let server = server().await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(large_run(&server).await);
    }
    // The client of the test keeps some connections.
    let before = server.app.presence().connections();
    let mut followers = Vec::new();
    for run in runs {
        followers.push((run, follow(&server, run).await));
    }
    // There is room for two. The others are dropped.
    until_few(&server, before + 2).await;
    let (run, dropped) = followers.pop().expect("the last one");
    let begun = rest(dropped).await;
    assert!(begun.len() < LARGE, "{}", begun.len());
    drop(followers);
    until_few(&server, before).await;
    let last = begun.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap_or("0").to_owned();
    let header = format!("Last-Event-ID: {last}\r\n");
    let rest = rest(ask(&server, &format!("/v1/runs/{run}/events"), &header).await).await;
    assert!(rest.len() > LARGE && rest.contains("event: done"), "{}", rest.len());
}

#[tokio::test]
async fn an_event_that_many_followers_wait_for_is_counted_once() {
    let server = server().await;
    let run = large_run(&server).await;
    let mut followers = Vec::new();
    for _ in 0..8 {
        followers.push(follow(&server, run).await);
    }
    for follower in followers {
        let rest = rest(follower).await;
        assert!(rest.len() > LARGE && rest.contains("event: done"), "{}", rest.len());
    }
}

#[tokio::test]
async fn a_large_answer_for_which_there_is_no_room_is_a_typed_error_and_not_a_closed_connection() {
    let server = server().await;
    let run = large_run(&server).await;
    let path = format!("/v1/runs/{run}");
    let mut readers = Vec::new();
    for _ in 0..2 {
        let mut reader = ask(&server, &path, "").await;
        read_until(&mut reader, "HTTP/1.1 200").await;
        readers.push(reader);
    }
    let refused = within(server.get(&path)).await;
    assert_eq!((refused.status, refused.code()), (503, "too_many_answers"), "{}", refused.body);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.body["error"]["retryable"], true);
    // A run that was started must not be started again: the answer names it.
    let started = server.post("/v1/runs", json!({ "agent": "slow", "prompt": "go" }));
    let ends = async {
        server.fake.until(|fake| fake.run_ids().len() == 2).await;
        let other = server.fake.run_ids().into_iter().find(|other| *other != run).expect("the second run");
        server.fake.say(other, &"x".repeat(LARGE));
        server.fake.finish(other, Status::Completed);
        other
    };
    let (refused, other) = within(futures::future::join(started, ends)).await;
    assert_eq!((refused.status, refused.code()), (503, "too_many_answers"), "{}", refused.body);
    assert_eq!((&refused.body["error"]["retryable"], refused.header("retry-after")), (&json!(false), None));
    assert_eq!(refused.header("drawloom-run-id"), Some(&*other.to_string()));
    // Those who were first get all of it, and then there is room.
    for reader in readers {
        assert!(rest(reader).await.len() > LARGE - 4096);
    }
    assert_eq!(within(server.get(&path)).await.status, 200);
}
