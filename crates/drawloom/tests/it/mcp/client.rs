//! A small MCP client over plain sockets, so that a test sees every byte and can hang up whenever it likes.

use std::{
    io::{BufRead as _, BufReader, Read, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::{Value, json};

/// A client of one endpoint.
#[derive(Clone)]
pub(crate) struct Client {
    address: String,
    path: String,
    pub(crate) session: Option<String>,
    token: Option<String>,
    era: Era,
    name: &'static str,
}

/// Which protocol it speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25, with a session.
    Sessions,
    /// 2026-07-28, without.
    Stateless,
}

/// One request that is being answered; hanging up is dropping it.
pub(crate) struct Exchange {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    body: Body,
    /// All bytes of the body so far.
    pub(crate) seen: String,
}

struct Body {
    reader: BufReader<TcpStream>,
    chunked: bool,
    /// Bytes left of the chunk, or of the body.
    left: usize,
    ended: bool,
}

impl Client {
    /// A client that has not said anything yet.
    pub(crate) fn new(url: &str, era: Era) -> Self {
        let address = url.strip_prefix("http://").expect("plain HTTP").to_owned();
        Self { address, path: "/mcp".into(), session: None, token: None, era, name: "a test" }
    }

    /// A client with an open session, if its era has sessions.
    pub(crate) fn open(url: &str, era: Era) -> Self {
        Self::new(url, era).opened()
    }

    pub(crate) fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.into());
        self
    }

    /// It calls itself so.
    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    pub(crate) fn at(mut self, path: &str) -> Self {
        self.path = path.into();
        self
    }

    pub(crate) fn opened(mut self) -> Self {
        if self.era == Era::Sessions {
            let mut answer = self.send(&json!({ "jsonrpc": "2.0", "id": "first", "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": self.name, "version": "1" },
            } }));
            let session = answer.header("mcp-session-id").expect("a session").to_owned();
            assert_eq!(answer.answer()["id"], "first");
            self.session = Some(session);
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        }
        self
    }

    /// The same server elsewhere: after a restart.
    pub(crate) fn moved(&self, url: &str) -> Self {
        Self { address: url.strip_prefix("http://").expect("plain HTTP").to_owned(), ..self.clone() }
    }

    /// Sends one message as it is.
    pub(crate) fn send(&self, message: &Value) -> Exchange {
        self.send_as("POST", Some(message))
    }

    pub(crate) fn send_as(&self, method: &str, message: Option<&Value>) -> Exchange {
        let body = message.map(Value::to_string).unwrap_or_default();
        let mut head = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            self.path,
            self.address,
            body.len()
        );
        let mut header = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
        if let Some(token) = &self.token {
            header("Authorization", &format!("Bearer {token}"));
        }
        if let Some(session) = &self.session {
            header("Mcp-Session-Id", session);
        }
        if let (Era::Stateless, Some(message)) = (self.era, message) {
            header("MCP-Protocol-Version", "2026-07-28");
            header("Mcp-Method", message["method"].as_str().unwrap_or_default());
            for name in ["name", "uri", "taskId"] {
                if let Some(value) = message["params"][name].as_str() {
                    header("Mcp-Name", value);
                }
            }
        } else if self.session.is_some() {
            header("MCP-Protocol-Version", "2025-11-25");
        }
        let mut stream = TcpStream::connect(&self.address).expect("somebody listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).expect("somebody reads");
        Exchange::read(stream)
    }

    /// A request with what its era wants in `_meta`.
    pub(crate) fn request(&self, id: i64, method: &str, mut params: Value) -> Value {
        if self.era == Era::Stateless {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": self.name, "version": "1" });
            if meta["io.modelcontextprotocol/clientCapabilities"].is_null() {
                meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
            }
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    /// Asks and waits for the answer.
    pub(crate) fn ask(&self, method: &str, params: Value) -> Value {
        self.send(&self.request(7, method, params)).answer()
    }

    /// Begins a call of a tool.
    pub(crate) fn begin(&self, id: i64, tool: &str, arguments: Value, meta: Value) -> Exchange {
        self.send(&self.request(id, "tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta })))
    }

    /// Calls a tool and returns its result.
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        self.begin(9, tool, arguments, json!({})).answer()["result"].clone()
    }
}

impl Exchange {
    fn read(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("an answer");
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let mut headers = Vec::new();
        loop {
            line.clear();
            reader.read_line(&mut line).expect("a head");
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let find = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let chunked = find("transfer-encoding") == Some("chunked");
        let left = find("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let ended = !chunked && left == 0;
        Self { status, headers, body: Body { reader, chunked, left, ended }, seen: String::new() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The whole body.
    pub(crate) fn text(mut self) -> String {
        let mut text = String::new();
        self.body.read_to_string(&mut text).expect("a body");
        text
    }

    /// The next message; nothing, when the answer is over.
    pub(crate) fn next(&mut self) -> Option<Value> {
        if self.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
            let mut text = String::new();
            self.body.read_to_string(&mut text).expect("a body");
            self.seen.push_str(&text);
            return serde_json::from_str(&text).ok();
        }
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            if self.body.read(&mut byte).expect("a body") == 0 {
                return None;
            }
            line.push(byte[0]);
            if byte[0] != b'\n' {
                continue;
            }
            let text = String::from_utf8(std::mem::take(&mut line)).expect("text");
            self.seen.push_str(&text);
            let message = text.strip_prefix("data:").map(str::trim).filter(|data| !data.is_empty());
            if let Some(message) = message.and_then(|data| serde_json::from_str(data).ok()) {
                return Some(message);
            }
        }
    }

    /// The answer itself, after whatever comes before it.
    pub(crate) fn answer(&mut self) -> Value {
        while let Some(message) = self.next() {
            if message.get("id").is_some() && message.get("method").is_none() {
                return message;
            }
        }
        panic!("no answer: status {}, {}", self.status, self.seen);
    }
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.chunked && self.left == 0 && !self.ended {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            self.left = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            self.ended = self.left == 0;
        }
        if self.ended || self.left == 0 {
            return Ok(0);
        }
        let most = into.len().min(self.left);
        let read = self.reader.read(&mut into[..most])?;
        self.left -= read;
        if read == 0 || (!self.chunked && self.left == 0) {
            self.ended = true;
        }
        if self.chunked && self.left == 0 {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
        }
        Ok(read)
    }
}
