//! As little HTTP/1.1 as the load needs: one request at a time on a kept connection.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The bytes of a `GET`.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

/// The bytes of a `POST` of JSON.
pub(crate) fn post(path: &str, accept: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: {accept}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The bytes of a `PUT` of JSON.
pub(crate) fn put(path: &str, body: &str) -> Vec<u8> {
    format!(
        "PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Asks once on a connection of its own and wants a 200.
pub(crate) async fn fetch(address: SocketAddr, path: &str) -> Result<Vec<u8>> {
    let mut connection = Connection::open(address).await?;
    let answer = connection.exchange(&get(path)).await?;
    if !answer.starts_with(b"HTTP/1.1 200") {
        bail!("GET {path} answered {}", String::from_utf8_lossy(answer));
    }
    let head = find(answer, b"\r\n\r\n").context("an answer has a head")?;
    Ok(answer[head + 4..].to_vec())
}

/// A kept connection.
pub(crate) struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::with_capacity(64 * 1024) })
    }

    /// Sends a request and returns the whole answer as it came, head and chunk sizes included.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.answer.clear();
        self.stream.write_all(request).await?;
        let mut progress = Progress::Head;
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                bail!("the server hung up amid its answer: {}", String::from_utf8_lossy(&self.answer));
            }
            progress = progress.advance(&self.answer)?;
            if matches!(progress, Progress::Whole) {
                return Ok(&self.answer);
            }
        }
    }
}

/// How far an answer has been read.
enum Progress {
    /// Its head is not whole.
    Head,
    /// It ends at this byte.
    Until(usize),
    /// The size of the next chunk begins at this byte.
    Chunk(usize),
    /// It is whole.
    Whole,
}

impl Progress {
    /// Goes as far as the bytes allow.
    fn advance(mut self, answer: &[u8]) -> Result<Self> {
        loop {
            self = match self {
                Self::Head => match find(answer, b"\r\n\r\n") {
                    Some(end) => after_head(&answer[..end], end + 4)?,
                    None => return Ok(self),
                },
                Self::Until(end) if answer.len() < end => return Ok(self),
                Self::Until(_) | Self::Whole => return Ok(Self::Whole),
                Self::Chunk(at) => {
                    let rest = answer.get(at..).unwrap_or_default();
                    let Some(line) = find(rest, b"\r\n") else { return Ok(self) };
                    match usize::from_str_radix(std::str::from_utf8(&rest[..line])?, 16)? {
                        // The last chunk has no bytes; an empty line ends the answer.
                        0 => Self::Until(at + line + 4),
                        size => Self::Chunk(at + line + 2 + size + 2),
                    }
                }
            }
        }
    }
}

/// How the body ends, by the head.
fn after_head(head: &[u8], body: usize) -> Result<Progress> {
    for line in head.split(|byte| *byte == b'\n') {
        if let Some(value) = header(line, b"content-length:") {
            return Ok(Progress::Until(body + std::str::from_utf8(value)?.trim().parse::<usize>()?));
        }
        if header(line, b"transfer-encoding:").is_some() {
            return Ok(Progress::Chunk(body));
        }
    }
    bail!("the answer does not say how it ends: {}", String::from_utf8_lossy(head))
}

/// The value of a header line with this lower-case name.
fn header<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then_some(value)
}

/// Where `part` first begins.
pub(crate) fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::Progress;

    fn whole_at(answer: &[u8]) -> Vec<usize> {
        let mut progress = Progress::Head;
        let mut whole = Vec::new();
        for length in 1..=answer.len() {
            progress = progress.advance(&answer[..length]).expect("a fine answer");
            if matches!(progress, Progress::Whole) {
                whole.push(length);
            }
        }
        whole
    }

    #[test]
    fn an_answer_with_a_length_is_whole_at_its_last_byte() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(whole_at(answer), [answer.len()]);
    }

    #[test]
    fn a_chunked_answer_is_whole_at_its_last_byte() {
        let answer =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nb\r\n 0\r\n\r\nworld\r\n0\r\n\r\n";
        assert_eq!(whole_at(answer), [answer.len()]);
    }

    #[test]
    fn an_answer_without_an_end_is_an_error() {
        assert!(Progress::Head.advance(b"HTTP/1.1 200 OK\r\ndate: now\r\n\r\n").is_err());
    }
}
