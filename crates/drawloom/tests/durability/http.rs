//! A plain HTTP client that shows every byte: what a caller has seen when the server dies is exactly what was read.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use serde_json::Value;

/// An answer whose head was read.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    body: BufReader<TcpStream>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body, to its end.
    pub(crate) fn text(mut self) -> io::Result<String> {
        let mut text = String::new();
        match self.header("content-length").map(str::parse::<usize>) {
            Some(Ok(length)) => {
                let mut bytes = vec![0; length];
                self.body.read_exact(&mut bytes)?;
                text = String::from_utf8(bytes).map_err(io::Error::other)?;
            }
            _ => {
                self.into_chunks().read_to_string(&mut text)?;
            }
        }
        Ok(text)
    }

    pub(crate) fn json(self) -> io::Result<Value> {
        serde_json::from_str(&self.text()?).map_err(io::Error::other)
    }

    /// The body of a chunked answer.
    pub(crate) fn into_chunks(self) -> Chunks {
        Chunks { body: self.body, left: 0, over: false }
    }
}

/// The bytes of a chunked body. An end that comes too early is an error.
pub(crate) struct Chunks {
    body: BufReader<TcpStream>,
    left: usize,
    over: bool,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.over {
            return Ok(0);
        }
        if self.left == 0 {
            let mut line = String::new();
            self.body.read_line(&mut line)?;
            self.left = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            if self.left == 0 {
                self.over = true;
                return Ok(0);
            }
        }
        let most = buffer.len().min(self.left);
        let read = self.body.read(&mut buffer[..most])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read;
        if self.left == 0 {
            self.body.read_line(&mut String::new())?;
        }
        Ok(read)
    }
}

/// Sends a request and reads the answer's head.
pub(crate) fn send(url: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> io::Result<Response> {
    let address = url.strip_prefix("http://").expect("a plain address");
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no answer: {line:?}")))?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => break,
        }
    }
    Ok(Response { status, headers, body: reader })
}

pub(crate) fn get(url: &str, path: &str) -> Value {
    send(url, "GET", path, &[], "").and_then(Response::json).unwrap_or_else(|error| panic!("GET {path}: {error}"))
}

/// Posts JSON and waits for the result as JSON.
pub(crate) fn post(url: &str, path: &str, body: &Value) -> io::Result<Response> {
    let headers = [("Content-Type", "application/json"), ("Accept", "application/json")];
    send(url, "POST", path, &headers, &body.to_string())
}
