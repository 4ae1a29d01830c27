//! What a real server does with the memory of a flood when that is over.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::{Home, Server};

/// Connections that ask for a large answer at the same time.
const CONNECTIONS: usize = 64;
const ANSWER: usize = 4 * 1024 * 1024;
/// Far below what the flood takes.
const MOST_LEFT: u64 = 48 * 1024 * 1024;
/// For a machine that is busy; ten seconds are usual.
const PATIENCE: Duration = Duration::from_secs(600);

fn open(server: &Server, request: &str, body: &str) -> BufReader<TcpStream> {
    let address = server.url.strip_prefix("http://").expect("a plain address");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let head = format!("{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAccept: application/json\r\n");
    let length = body.len();
    stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n").as_bytes()).expect("it reads");
    stream.write_all(body.as_bytes()).expect("it reads");
    BufReader::with_capacity(1024, stream)
}

fn read(mut stream: BufReader<TcpStream>) -> Vec<u8> {
    let mut answer = Vec::new();
    // The server ends connections whose readers are late when others need the room.
    drop(stream.read_to_end(&mut answer));
    answer
}

/// Many ask for a large answer and read it late.
fn flood(server: &Server, request: &str) -> u64 {
    let mut readers: Vec<_> = (0..CONNECTIONS).map(|_| open(server, request, "")).collect();
    for reader in &mut readers {
        // It has begun, there is no room for it, or it had to make room.
        drop(reader.read_line(&mut String::new()));
    }
    let held = server.memory();
    for reader in readers {
        read(reader);
    }
    held
}

#[test]
fn memory_goes_back_after_a_flood() {
    let home = Home::new();
    let server = home.serve();
    let body = json!({ "agent": "echo", "prompt": "0123456789abcde ".repeat(ANSWER / 16) }).to_string();
    let answer = read(open(&server, "POST /v1/runs", &body));
    let answer = String::from_utf8_lossy(&answer);
    let run = answer.lines().find_map(|line| line.strip_prefix("drawloom-run-id: ")).expect("an id");
    let request = format!("GET /v1/runs/{run}");
    // What one large answer costs is not counted.
    assert!(read(open(&server, &request, "")).len() > ANSWER);
    let before = server.memory();
    for round in 0..2 {
        let held = flood(&server, &request);
        assert!(held > before + 2 * MOST_LEFT, "round {round}: the flood took {} MiB", (held - before) >> 20);
        // Without another request.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = server.memory().saturating_sub(before);
            if left < MOST_LEFT {
                break;
            }
            assert!(Instant::now() < deadline, "{} MiB of {} are still taken", left >> 20, (held - before) >> 20);
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}
