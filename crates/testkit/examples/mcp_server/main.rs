//! An MCP server for tests that does what servers should not: `mcp_server stdio|http [OPTION=VALUE]...`.
//!
//! Options: `era=both|modern|legacy|dies|silent|lists|unsupported|agrees` (which protocol it speaks; one that dies or is silent
//! does so at `server/discover`; the last three answer it and speak the older one: with the older versions, with the error for
//! them, with `{}` as they do to all that they do not know), `start=die|hang` (what it does instead of answering), `list=lies|many|once|deep|leak` (what it says of its
//! tools; `once`: nothing any more when they have changed; `deep`: what nobody can parse; `leak`: a secret of its own),
//! `hints=none` (it does not say which tools can be repeated),
//! `bearer=TOKEN_VARIABLE` (HTTP: whose value it wants), `port=N` (HTTP: where to listen). Over HTTP it prints its address
//! first. Written by hand on purpose, so that no library makes it better than it should be.

mod http;
mod tools;

use std::{
    collections::BTreeMap,
    io::{BufRead as _, Write},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};

/// How it was started.
pub(crate) struct Options(BTreeMap<String, String>);

impl Options {
    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.0.get(name).is_some_and(|given| given == value)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let transport = arguments.next().unwrap_or_default();
    let options = arguments.filter_map(|argument| {
        let (name, value) = argument.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let options = Arc::new(Options(options.collect()));
    if options.is("start", "die") {
        say("this server dies at once");
        std::process::exit(7);
    }
    match transport.as_str() {
        "stdio" => stdio(&options),
        "http" => http::serve(&options),
        _ => std::process::exit(2),
    }
}

/// Says something on standard error.
pub(crate) fn say(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// Where answers and notifications go.
#[derive(Clone)]
pub(crate) struct Out(Arc<Mutex<Box<dyn Write + Send>>>);

impl Out {
    pub(crate) fn new(to: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(to))))
    }

    /// Sends a message; false when nobody listens any more.
    pub(crate) fn send(&self, message: &Value) -> bool {
        self.raw(format!("{message}\n").as_bytes())
    }

    pub(crate) fn raw(&self, bytes: &[u8]) -> bool {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pipe.write_all(bytes).and_then(|()| pipe.flush()).is_ok()
    }
}

fn stdio(options: &Arc<Options>) {
    let out = Out::new(std::io::stdout());
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if message.pointer("/params/name").is_some_and(|name| name == "deaf") {
            // Its input stays open and is not read any more.
            tools::for_ever();
        }
        answer(options, &message, &out);
    }
}

/// Answers a message, if it wants an answer. A call is answered from a thread of its own, as a server should.
pub(crate) fn answer(options: &Arc<Options>, message: &Value, out: &Out) {
    let (Some(id), Some(method)) = (message.get("id"), message.get("method").and_then(Value::as_str)) else { return };
    if options.is("start", "hang") {
        return;
    }
    let legacy = !options.is("era", "modern");
    let modern = options.get("era").is_none_or(|era| era == "both" || era == "modern");
    let result = match method {
        "server/discover" if options.is("era", "dies") => std::process::exit(9),
        "server/discover" if options.is("era", "silent") => return,
        "server/discover" if options.is("era", "agrees") => Ok(json!({})),
        "server/discover" if options.is("era", "unsupported") => {
            let error = json!({"code": -32022, "message": "no", "data": {"supported": ["2025-11-25"]}});
            out.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            return;
        }
        "server/discover" if modern || options.is("era", "lists") => Ok(json!({
            "resultType": "complete", "supportedVersions": [if modern { "2026-07-28" } else { "2025-11-25" }], "capabilities": {"tools": {}},
            "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "test", "version": "1"}},
        })),
        "initialize" if legacy => Ok(json!({
            "protocolVersion": message.pointer("/params/protocolVersion").cloned().unwrap_or_default(),
            "capabilities": {"tools": {}}, "serverInfo": {"name": "test", "version": "1"},
        })),
        "ping" => Ok(json!({})),
        "tools/list" if options.is("list", "once") && tools::is_grown() => return,
        "tools/list" if options.is("list", "deep") => {
            out.raw(tools::deep(id).as_bytes());
            return;
        }
        "tools/list" => Ok(tools::list(options, message)),
        "tools/call" => {
            let (message, out, id) = (message.clone(), out.clone(), id.clone());
            std::thread::spawn(move || {
                let Some(result) = tools::call(&message, &out) else { return };
                out.send(&reply(&id, result));
            });
            return;
        }
        _ => Err((-32601, format!("there is no method {method}"))),
    };
    out.send(&reply(id, result));
}

/// An answer of JSON-RPC.
pub(crate) fn reply(id: &Value, result: Result<Value, (i32, String)>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, message)) => json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}),
    }
}
