//! Followers of a real server that do not read.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::json;

use crate::support::Home;

/// A build without optimisation takes half a minute for 10 MB. What is measured grows with the length, so 4 MB show it.
const ANSWER: usize = 4 * 1024 * 1024;
const FOLLOWERS: usize = 40;
/// Far less than the followers would cost if each had a copy of its own, and more than they cost on a busy machine.
const MOST_GROWTH: u64 = (ANSWER * FOLLOWERS) as u64 * 3 / 5;

fn open(url: &str, request: &str, body: &str) -> TcpStream {
    let address = url.strip_prefix("http://").expect("a plain address");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a socket");
    let length = body.len();
    let head = format!("{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n");
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\nAccept: application/json\r\n" };
    stream.write_all(format!("{head}{kind}\r\n").as_bytes()).expect("it reads");
    stream.write_all(body.as_bytes()).expect("it reads");
    stream
}

/// Reads to the end, and says how many bytes came.
fn drain(mut stream: impl std::io::Read) -> usize {
    let (mut bytes, mut piece) = (0, vec![0; 1 << 20]);
    loop {
        match stream.read(&mut piece).expect("it is not cut") {
            0 => return bytes,
            count => bytes += count,
        }
    }
}

#[test]
fn forty_followers_that_do_not_read_a_long_answer_share_its_bytes() {
    let home = Home::new();
    let server = home.serve();
    let prompt: String = "0123456789abcde ".repeat(ANSWER / 16);
    let run = open(&server.url, "POST /v1/runs", &json!({"agent": "echo", "prompt": prompt}).to_string());
    let mut answer = String::new();
    BufReader::new(run).read_to_string(&mut answer).expect("an answer");
    assert!(answer.len() > ANSWER);
    let run = answer.lines().find_map(|line| line.strip_prefix("drawloom-run-id: ")).expect("an id");
    let events = format!("GET /v1/runs/{run}/events");
    // What one follower costs who reads everything is not counted.
    assert!(drain(open(&server.url, &events, "")) > 2 * ANSWER);
    let before = server.peak_memory();
    let mut stalled = Vec::new();
    for _ in 0..FOLLOWERS {
        let mut follower = BufReader::with_capacity(1024, open(&server.url, &events, ""));
        let mut line = String::new();
        while !line.contains("event: started") {
            line.clear();
            assert!(follower.read_line(&mut line).expect("it is not cut") > 0);
        }
        stalled.push(follower);
    }
    // Somebody who reads gets all of it, and gets it last: by then each of the others has what it can have.
    assert!(drain(open(&server.url, &events, "")) > 2 * ANSWER);
    let growth = server.peak_memory() - before;
    assert!(growth < MOST_GROWTH, "{FOLLOWERS} followers cost {} MB", growth / 1_000_000);
    drop(stalled);
}

/// Streams that each operation opens in the walk.
const STREAMS: usize = 60;
/// Bytes that each of them has to read: far more than they may hold together.
const FLOOD: usize = 16 * 1024 * 1024;
const VALUE: usize = 60 * 1024;
/// A tenth of what the streams would hold if each had what it has not read.
const MOST_HELD: u64 = (FLOOD * STREAMS) as u64 / 10;

/// What a stream follows, and requests that fill it before and while it is open.
struct Flood {
    stream: (String, String),
    before: Vec<(String, String)>,
    meanwhile: Vec<(String, String)>,
}

fn flood(operation: &str, url: &str) -> Flood {
    let text = "x".repeat(VALUE);
    let half = FLOOD / VALUE / 2;
    let stream = |request: &str| (format!("{request} HTTP/1.1\r\nAccept: text/event-stream"), String::new());
    match operation {
        "watch_memory" => {
            let put = |number| (format!("PUT /v1/memory/tenant/keys/k{number}"), json!({ "value": text }).to_string());
            Flood {
                stream: stream("GET /v1/memory/tenant/watch"),
                before: (0..half).map(put).collect(),
                meanwhile: (half..2 * half).map(put).collect(),
            }
        }
        "follow_channel" => {
            let publish = |_| ("POST /v1/channels/jobs/publish".to_owned(), json!({ "value": text }).to_string());
            Flood {
                stream: stream("GET /v1/channels/jobs/events"),
                before: (0..half).map(publish).collect(),
                meanwhile: (half..2 * half).map(publish).collect(),
            }
        }
        "follow_run" => {
            let body =
                json!({ "agent": "echo", "prompt": "0123456789abcde ".repeat(4 * 1024 * 1024 / 16) }).to_string();
            let mut answer = String::new();
            BufReader::new(open(url, "POST /v1/runs", &body)).read_to_string(&mut answer).expect("an answer");
            let run = answer.lines().find_map(|line| line.strip_prefix("drawloom-run-id: ")).expect("an id");
            let stream = stream(&format!("GET /v1/runs/{run}/events"));
            Flood { stream, before: Vec::new(), meanwhile: Vec::new() }
        }
        // The run that it starts is followed as `follow_run` does; each of these has an answer of its own.
        "spawn_run" => {
            let prompt = "0123456789abcde ".repeat(FLOOD / STREAMS / 16);
            let body = json!({ "agent": "echo", "prompt": prompt }).to_string();
            let stream = ("POST /v1/runs HTTP/1.1\r\nAccept: text/event-stream".to_owned(), body);
            Flood { stream, before: Vec::new(), meanwhile: Vec::new() }
        }
        other => panic!("{other} streams: say here what fills it"),
    }
}

fn send(url: &str, requests: &[(String, String)]) {
    for (request, body) in requests {
        let mut answer = String::new();
        open(url, request, body).read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{request}: {answer}");
    }
}

#[test]
fn streams_that_are_not_read_hold_little_whatever_they_stream() {
    let operations = drawloom_server::Operations::builtin();
    let names: Vec<&str> =
        operations.iter().map(|served| served.card()).filter(|card| card.streams).map(|card| card.name()).collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let home = Home::new();
        let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
        home.write("drawloom.yaml", &format!("{config}channels: {{ jobs: {{}} }}\n"));
        let server = home.serve();
        let Flood { stream: (request, body), before, meanwhile } = flood(name, &server.url);
        send(&server.url, &before);
        let held = server.peak_memory();
        let request = request.replace(" HTTP/1.1", "");
        let (request, accept) = request.split_once("\r\n").expect("a header");
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            let mut stream = BufReader::with_capacity(64, open_with(&server.url, request, accept, &body));
            let mut line = String::new();
            stream.read_line(&mut line).expect("a head");
            assert!(line.starts_with("HTTP/1.1 200"), "{name}: {line}");
            streams.push(stream);
        }
        send(&server.url, &meanwhile);
        // Answered after all that went before it.
        send(&server.url, &[("GET /v1/models".to_owned(), String::new())]);
        let growth = server.peak_memory().saturating_sub(held);
        assert!(growth < MOST_HELD, "{name}: {STREAMS} streams that are not read cost {} MB", growth / 1_000_000);
        drop(streams);
    }
}

fn open_with(url: &str, request: &str, header: &str, body: &str) -> TcpStream {
    let address = url.strip_prefix("http://").expect("a plain address");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a socket");
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let length = body.len();
    let head = format!("{request} HTTP/1.1\r\nHost: {address}\r\n{header}\r\n{kind}Content-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    stream.write_all(body.as_bytes()).expect("it reads");
    stream
}
