//! The fake model servers: what they reject, and the process that serves them.

mod process;
mod strictness;

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// One request over a connection of its own: the status and the body of the answer.
async fn send(address: SocketAddr, method: &str, path: &str, body: &Value) -> (u16, String) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nanthropic-version: 2023-06-01\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("it answers");
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}
