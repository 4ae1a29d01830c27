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
