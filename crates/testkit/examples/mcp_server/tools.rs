//! What the server offers, and what its tools do instead of behaving.

use std::{
    fs::OpenOptions,
    io::Write as _,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use serde_json::{Value, json};

use super::{Options, Out, say};

const NAMES: [&str; 27] = [
    "echo",
    "environment",
    "hang",
    "freeze",
    "die",
    "flood",
    "endless",
    "garbage",
    "notify",
    "late",
    "fail",
    "refuse",
    "nonsense",
    "garbled",
    "mark",
    "structured",
    "grow",
    "deaf",
    "pid",
    "throttle",
    "pings",
    "strangers",
    "deep",
    "odd",
    "forget",
    "accept",
    "ended",
];

/// How many sessions have ended.
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Counts the end of a session.
pub(crate) fn end() {
    ENDED.fetch_add(1, Ordering::SeqCst);
}

/// Whether there is one more tool by now.
static GROWN: AtomicBool = AtomicBool::new(false);

/// Whether the list has changed.
pub(crate) fn is_grown() -> bool {
    GROWN.load(Ordering::SeqCst)
}

/// The page of tools that is asked for.
pub(crate) fn list(options: &Options, message: &Value) -> Value {
    let hints = !options.is("hints", "none");
    let mut tools: Vec<Value> = NAMES
        .iter()
        .map(|name| {
            json!({
                "name": name,
                "description": format!("The tool {name} of the test server."),
                "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}, "bytes": {"type": "integer"}}},
                "annotations": {"readOnlyHint": hints && *name == "echo", "idempotentHint": hints && *name == "mark"},
            })
        })
        .collect();
    if GROWN.load(Ordering::SeqCst) {
        tools.push(json!({"name": "grown", "inputSchema": {"type": "object"}}));
    }
    if options.is("list", "endless") {
        return json!({"tools": tools, "nextCursor": "on"});
    }
    if options.is("list", "lies") {
        tools.extend([
            json!({"name": "no_schema"}),
            json!({"name": "text_schema", "inputSchema": "object"}),
            json!({"name": "wrong_type", "inputSchema": {"type": "thing"}}),
            json!({"name": "for_text", "inputSchema": {"type": "string"}}),
            json!({"name": "far_reference", "inputSchema": {"properties": {"a": {"$ref": "https://elsewhere/x"}}}}),
            json!({"name": "odd name/with signs", "inputSchema": {"type": "object"}}),
            json!({"name": "echo", "description": "Another one.", "inputSchema": {"type": "object"}}),
            json!({"name": 5, "inputSchema": []}),
            json!(null),
        ]);
    }
    if options.is("list", "leak") {
        let secret = std::env::var("SERVER_TOKEN").unwrap_or_default();
        tools.push(json!({"name": "leak", "inputSchema": {"type": format!("{}{secret}", "x".repeat(45))}}));
    }
    if options.is("list", "many") {
        let first = message.pointer("/params/cursor").and_then(Value::as_str).map_or(0, |at| at.parse().unwrap_or(0));
        let page = (first..first + 1_000).map(|number| json!({"name": format!("tool_{number}"), "inputSchema": {}}));
        let mut result = json!({"tools": page.collect::<Vec<_>>()});
        if first < 9_000 {
            result["nextCursor"] = (first + 1_000).to_string().into();
        }
        return result;
    }
    json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools})
}

fn text(text: impl Into<String>) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text.into()}]})
}

/// An answer that is nested deeper than anybody reads.
pub(crate) fn deep(id: &Value) -> String {
    let (open, close) = ("[".repeat(200), "]".repeat(200));
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{open}{close}}}\n")
}

/// Waits without end, as somebody does whom nobody wakes.
pub(crate) fn for_ever() -> ! {
    let (_kept, never) = mpsc::channel::<()>();
    loop {
        let _ = never.recv_timeout(Duration::from_secs(3600));
    }
}

/// What a tool answers; nothing when it never does.
pub(crate) fn call(message: &Value, out: &Out) -> Option<Result<Value, (i32, String)>> {
    let name = message.pointer("/params/name").and_then(Value::as_str).unwrap_or_default();
    let given = message.pointer("/params/arguments").cloned().unwrap_or_default();
    let said = given["text"].as_str().unwrap_or_default();
    let bytes = given["bytes"].as_u64().unwrap_or_default();
    Some(Ok(match name {
        "echo" => text(said),
        "environment" => {
            let all: serde_json::Map<String, Value> =
                std::env::vars().map(|(name, value)| (name, value.into())).collect();
            text(Value::Object(all).to_string())
        }
        "hang" => return None,
        "freeze" => {
            // Holds the lock on the output, so that nothing is answered any more.
            out.raw(b"");
            let _held = out.0.lock();
            for_ever()
        }
        "die" => {
            say("these are my last words");
            std::process::exit(3)
        }
        "flood" => text("x".repeat(bytes as usize)),
        "endless" => {
            while out.raw(&[b'x'; 65_536]) {}
            return None;
        }
        "garbage" => {
            while out.raw(b"this is no message\n".repeat(4_096).as_slice()) {}
            return None;
        }
        "notify" => {
            let notice = json!({
                "jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": "x".repeat(4_096)},
            });
            while out.send(&notice) {}
            return None;
        }
        "pings" => {
            let ask = |number: u64| json!({"jsonrpc": "2.0", "id": format!("ping {number}"), "method": "ping"});
            (0..).take_while(|number| out.send(&ask(*number))).for_each(drop);
            return None;
        }
        "strangers" => {
            let answer = json!({"jsonrpc": "2.0", "id": 1_000_000, "result": {}});
            while out.send(&answer) {}
            return None;
        }
        "deep" => {
            out.raw(deep(&message["id"]).as_bytes());
            return None;
        }
        "odd" => json!({
            "resultType": "complete", "content": [{"type": "smell", "of": "x"}, {"type": "text", "text": said}],
            "isError": "false",
        }),
        "ended" => text(ENDED.load(Ordering::SeqCst).to_string()),
        "forget" => text("I know you now"),
        "late" => {
            let (_kept, never) = mpsc::channel::<()>();
            let _ = never.recv_timeout(Duration::from_millis(bytes));
            text(format!("late: {said}"))
        }
        "fail" => json!({"content": [{"type": "text", "text": "it did not work"}], "isError": true}),
        "throttle" => return Some(Err((-32000, "slow down".into()))),
        "refuse" => return Some(Err((-32602, "I will not".into()))),
        "nonsense" => json!(5),
        // An answer that is neither a result nor an error.
        "garbled" => {
            out.send(&json!({"jsonrpc": "2.0", "id": message["id"], "error": 7}));
            return None;
        }
        // The first call never ends; every further one does.
        "mark" => {
            let first = !std::path::Path::new(said).exists();
            let mut file = OpenOptions::new().create(true).append(true).open(said).expect("the file opens");
            writeln!(file, "called").expect("the file is written");
            if first {
                return None;
            }
            text("marked")
        }
        "grow" => {
            GROWN.store(true, Ordering::SeqCst);
            out.send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
            text("there is one more")
        }
        "pid" => text(std::process::id().to_string()),
        "deaf" => return None,
        "grown" => text("here I am"),
        "structured" => json!({"content": [], "structuredContent": {"answer": 42}}),
        _ => return Some(Err((-32602, format!("unknown tool {name}")))),
    }))
}
