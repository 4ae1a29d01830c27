//! Requests over a socket, one connection each, with bodies that no client would send.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::Value;

pub(super) struct Http {
    address: String,
}

impl Http {
    pub(super) fn new(url: &str) -> Self {
        Self { address: url.strip_prefix("http://").expect("a plain address").to_owned() }
    }

    /// The status and the body of an answer.
    pub(super) fn ask(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        self.send(method, path, &format!("Content-Length: {}\r\n", body.len()), body.as_bytes())
    }

    /// The same, with other headers.
    pub(super) fn send(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, Value) {
        let mut stream = open(&self.address, method, path, headers);
        stream.write_all(body).expect("it reads");
        answer(stream)
    }

    /// The same, with a body of `length` blanks that does not say how long it is.
    pub(super) fn send_pieces(&self, method: &str, path: &str, length: usize) -> (u16, Value) {
        const PIECE: usize = 0x10000;
        let mut stream = open(&self.address, method, path, "Transfer-Encoding: chunked\r\n");
        let piece = format!("{PIECE:x}\r\n{}\r\n", " ".repeat(PIECE));
        // The server may answer and close before it was sent whole.
        let sent = (0..length / PIECE).try_for_each(|_| stream.write_all(piece.as_bytes()));
        drop(sent.and_then(|()| stream.write_all(b"0\r\n\r\n")));
        answer(stream)
    }

    /// Starts a run, waits for it, and goes away when its id has come.
    pub(super) fn start_and_hang_up(&self, body: &Value) -> String {
        let body = body.to_string();
        let length = format!("Content-Length: {}\r\n", body.len());
        let mut stream = open(&self.address, "POST", "/v1/runs", &length);
        stream.write_all(body.as_bytes()).expect("it reads");
        let lines = BufReader::new(stream).lines();
        let mut ids = lines.filter_map(|line| Some(line.ok()?.strip_prefix("drawloom-run-id: ")?.to_owned()));
        ids.next().expect("the head has the id of the run")
    }
}

fn open(address: &str, method: &str, path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a socket");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream;q=0.1\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    stream
}

fn answer(stream: TcpStream) -> (u16, Value) {
    let mut text = Vec::new();
    // A connection may be cut after an answer to a body that was not read.
    drop(BufReader::new(stream).read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{text:?}"));
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let from = body.find(['{', '[']).unwrap_or(body.len());
    let value = serde_json::Deserializer::from_str(&body[from..]).into_iter().next();
    (status, value.and_then(Result::ok).unwrap_or_default())
}
