//! A server of raw sockets that does exactly what a test says, request by request.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{Semaphore, mpsc},
    task::JoinHandle,
};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) verb: String,
    pub(crate) target: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The key of a call, or of its cancel.
    pub(crate) fn key(&self) -> Option<&str> {
        self.body["params"]["_meta"]["io.drawloom/idempotencyKey"].as_str()
    }

    /// A result for this request.
    pub(crate) fn result(&self, result: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.body["id"], "result": result })
    }
}

/// What the server does.
pub(crate) enum Do {
    /// Answers with a status, more headers and a body.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// Streams events.
    Stream(Vec<Event>),
    /// Closes the connection without a word.
    Cut,
    /// Waits for a permit, then does the other thing.
    After(Arc<Semaphore>, Box<Do>),
}

/// A step of a stream.
pub(crate) enum Event {
    /// A message.
    Say(Value),
    /// Raw bytes.
    Raw(String),
    /// Waits for a permit.
    Wait(Arc<Semaphore>),
    /// Breaks off in the middle.
    Cut,
}

impl Do {
    pub(crate) fn json(value: &Value) -> Self {
        Self::Answer(200, vec![("content-type", "application/json".into())], value.to_string())
    }

    pub(crate) fn accepted() -> Self {
        Self::Answer(202, Vec::new(), String::new())
    }
}

type Play = Arc<dyn Fn(&Asked) -> Do + Send + Sync>;

/// The server. It can go away and come back at the same address.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    play: Play,
    asked: Arc<Mutex<Vec<Asked>>>,
    heard: (mpsc::UnboundedSender<Asked>, mpsc::UnboundedReceiver<Asked>),
    serving: Option<JoinHandle<()>>,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
    _reserved: TcpSocket,
}

impl Upstream {
    /// A server that is there.
    pub(crate) async fn start(play: impl Fn(&Asked) -> Do + Send + Sync + 'static) -> Self {
        let mut server = Self::absent(play).await;
        server.appear().await;
        server
    }

    /// A server that is not there yet, at an address that is free.
    pub(crate) async fn absent(play: impl Fn(&Asked) -> Do + Send + Sync + 'static) -> Self {
        // Bound and never listening: while the server is away, no other one gets the port.
        let reserved = TcpSocket::new_v4().expect("a socket");
        reserved.set_reuseaddr(true).expect("an option");
        reserved.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        Self {
            address: reserved.local_addr().expect("it is bound"),
            _reserved: reserved,
            play: Arc::new(play),
            asked: Arc::default(),
            heard: mpsc::unbounded_channel(),
            serving: None,
            connections: Arc::default(),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Comes back.
    pub(crate) async fn appear(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("the port is still free");
        let (play, asked, heard) = (self.play.clone(), self.asked.clone(), self.heard.0.clone());
        let connections = self.connections.clone();
        self.serving = Some(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let task = tokio::spawn(serve(stream, play.clone(), asked.clone(), heard.clone()));
                connections.lock().expect("no panic").push(task);
            }
        }));
    }

    /// Goes away, with all connections.
    pub(crate) async fn vanish(&mut self) {
        let serving = self.serving.take().expect("it was there");
        serving.abort();
        drop(serving.await);
        let connections = std::mem::take(&mut *self.connections.lock().expect("no panic"));
        for connection in connections {
            connection.abort();
            drop(connection.await);
        }
    }

    /// Everything that was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }

    /// What was asked with this method so far.
    pub(crate) fn asked_for(&self, method: &str) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.method() == method).collect()
    }

    /// The next request of this method.
    pub(crate) async fn hear(&mut self, method: &str) -> Asked {
        loop {
            let asked = self.heard.1.recv().await.expect("the server lives");
            if asked.method() == method {
                return asked;
            }
        }
    }
}

async fn serve(
    mut stream: TcpStream,
    play: Play,
    all: Arc<Mutex<Vec<Asked>>>,
    heard: mpsc::UnboundedSender<Asked>,
) -> () {
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    while let Some(asked) = receive(&mut read).await {
        let mut what = play(&asked);
        all.lock().expect("no panic").push(asked.clone());
        drop(heard.send(asked));
        while let Do::After(gate, then) = what {
            gate.acquire().await.expect("it is open").forget();
            what = *then;
        }
        match what {
            Do::Cut => return,
            Do::After(..) => unreachable!("just resolved"),
            Do::Answer(status, headers, body) => {
                let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
                for (name, value) in headers {
                    head.push_str(&format!("{name}: {value}\r\n"));
                }
                if write.write_all(format!("{head}\r\n{body}").as_bytes()).await.is_err() {
                    return;
                }
            }
            Do::Stream(events) => {
                let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
                drop(write.write_all(head.as_bytes()).await);
                for event in events {
                    let text = match event {
                        Event::Cut => return,
                        Event::Wait(gate) => {
                            gate.acquire().await.expect("it is open").forget();
                            continue;
                        }
                        Event::Say(message) => format!("data: {message}\n\n"),
                        Event::Raw(text) => text,
                    };
                    if write.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await.is_err() {
                        return;
                    }
                }
                drop(write.write_all(b"0\r\n\r\n").await);
            }
        }
    }
}

async fn receive(read: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> Option<Asked> {
    let mut line = String::new();
    read.read_line(&mut line).await.ok().filter(|count| *count > 0)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (verb, target) = (words.next()?, words.next()?);
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        read.read_line(&mut line).await.ok().filter(|count| *count > 0)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    read.read_exact(&mut body).await.ok()?;
    Some(Asked { verb, target, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
}
