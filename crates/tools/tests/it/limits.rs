//! Every limit of the built-in tools is crossed, and the model learns it as the list says.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use drawloom_contract::{
    limits::{Amount, Limit},
    time::{Clock, Timestamp},
    tool::{Over, Repeat, Step, ToolError},
};
use drawloom_tools::{LIMITS, builtin};
use serde_json::{Value, json};

use crate::{
    support::{HANGS, Room, report},
    web::{page, redirect, serve},
};

/// A clock on which a second takes a millisecond, for limits on time that are constants.
struct FastClock(Instant);

const FASTER: u32 = 1_000;

#[async_trait]
impl Clock for FastClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(0).after(self.0.elapsed() * FASTER)
    }

    fn now(&self) -> drawloom_contract::time::Instant {
        drawloom_contract::time::Instant::from_origin(self.0.elapsed() * FASTER)
    }

    async fn sleep_until(&self, time: drawloom_contract::time::Instant) {
        tokio::time::sleep(time.since(self.now()) / FASTER).await;
    }
}

/// The number that a limit allows.
fn most(limit: &Limit) -> usize {
    match limit.default {
        Amount::Count(number) | Amount::Bytes(number) => usize::try_from(number).expect("a number that fits"),
        other => panic!("{} allows {other:?}", limit.name),
    }
}

/// Calls a tool; returns the code of what the model gets, which must contain the notice or error `says`.
async fn call(room: &Room, tool: &str, input: Value, says: &str) -> String {
    let (code, text) = match room.call(tool, input).await {
        Ok(Step::Done(answer)) => ("truncated", answer.text),
        Ok(other) => panic!("{tool}: {other:?}"),
        Err(ToolError::Failed(text) | ToolError::Denied(text) | ToolError::Invalid(text)) => ("tool_error", text),
    };
    let end = &text[text.floor_char_boundary(text.len().saturating_sub(400))..];
    assert!(text.contains(says), "{tool} does not say {says:?}: …{end}");
    code.to_owned()
}

async fn bash(room: &Room, command: &str, says: &str) -> String {
    call(room, "Bash", json!({ "command": command }), says).await
}

async fn read(room: &Room, content: String, says: &str) -> String {
    room.put("file", content);
    call(room, "Read", json!({ "path": "file" }), says).await
}

async fn grep(room: &Room, input: Value, says: &str) -> String {
    let mut whole = json!({ "pattern": "x", "output_mode": "content" });
    whole.as_object_mut().expect("an object").extend(input.as_object().expect("an object").clone());
    call(room, "Grep", whole, says).await
}

async fn http(room: &Room, input: Value, says: &str) -> String {
    let mut whole = json!({ "url": "http://a.example/" });
    whole.as_object_mut().expect("an object").extend(input.as_object().expect("an object").clone());
    call(room, "HTTP", whole, says).await
}

/// Crosses a limit; returns the code by which the model learns it.
async fn cross(limit: &Limit) -> String {
    let mut room = Room::new();
    let config = &mut room.config.bash;
    match limit.name {
        "bash_time" => {
            config.max_timeout_seconds = 1;
            let asked = json!({ "command": "true", "timeout_seconds": 2 });
            assert_eq!(call(&room, "Bash", asked, "must be 1 to 1").await, "tool_error");
            bash(&room, "sleep 1000", "timed out after 1 s").await
        }
        "bash_memory" => {
            config.max_memory_bytes = Some(60_000_000);
            let eat = "perl -e '$x = \"x\" x 200_000_000; sleep 1000'";
            bash(&room, eat, "tools.bash.max_memory_bytes").await
        }
        "bash_file_bytes" => {
            config.max_file_bytes = Some(10_000);
            let code = bash(&room, "exec head -c 20000 /dev/zero > large", "[killed by signal 25]").await;
            assert_eq!(room.get("large").len(), 10_000);
            code
        }
        "bash_disk_bytes" => {
            config.max_disk_bytes = 5_000_000;
            bash(&room, "head -c 50000000 /dev/zero > large; sync large; sleep 1000", "tools.bash.max_disk_bytes").await
        }
        "bash_processes" => {
            config.max_processes = 10;
            bash(&room, "for i in $(seq 20); do sleep 1000 & done; wait", "tools.bash.max_processes").await
        }
        "bash_output_bytes" => bash(&room, &format!("yes | head -c {}", most(limit) + 1_000), "\n[truncated: ").await,
        "bash_command_bytes" => bash(&room, &format!(": {}", "x".repeat(most(limit))), "the limit is").await,
        "bash_resume_time" => resumed(&room).await,
        "read_bytes" => {
            read(&room, format!("{}\n", "x".repeat(1_000)).repeat(most(limit) / 1_000 + 1), "continue with").await
        }
        "read_lines" => read(&room, "x\n".repeat(most(limit) + 1), "more follow: continue with offset=2001]").await,
        "read_line_bytes" => read(&room, "x".repeat(most(limit) + 1), "line 1 truncated").await,
        "read_line_search_bytes" => {
            let code =
                read(&room, format!("{}\nnext\n", "x".repeat(most(limit) + 100_000)), "does not end within").await;
            if code == "done" { "truncated".into() } else { code }
        }
        "write_bytes" => {
            let content = "x".repeat(most(limit) + 1);
            room.put("large", &content);
            let edit = json!({ "path": "large", "old_string": "x", "new_string": "y" });
            assert_eq!(call(&room, "Edit", edit, "the limit for Edit is").await, "tool_error");
            call(&room, "Write", json!({ "path": "new", "content": content }), "the limit is").await
        }
        "replaced_bytes" => {
            room.put("large", "");
            let file = std::fs::OpenOptions::new().write(true).open(room.volume.path().join("large"));
            file.and_then(|file| file.set_len(most(limit) as u64 + 1)).expect("a file with a hole");
            call(&room, "Write", json!({ "path": "large", "content": "x" }), "too large to replace").await
        }
        "glob_files" => {
            (0..=most(limit)).for_each(|number| room.put(&format!("{number}.txt"), ""));
            call(&room, "Glob", json!({ "pattern": "*.txt" }), "of 101 files").await
        }
        "search_depth" => {
            let deep: PathBuf = std::iter::repeat_n("d", most(limit) + 1).collect();
            room.put(deep.join("file.txt").to_str().expect("text"), "");
            call(&room, "Glob", json!({ "pattern": "**/*.txt" }), "[directories too deep to search: 1]").await
        }
        "ignore_file_bytes" => {
            room.put(".ignore", format!("early.txt\n#{}\nlate.txt\n", "x".repeat(most(limit))));
            room.put("early.txt", "");
            room.put("late.txt", "");
            let found = room.done("Glob", json!({ "pattern": "*.txt" })).await;
            (if found == "late.txt" { "ignored" } else { "applied" }).into()
        }
        "grep_results" => grep(&room, json!({ "head_limit": most(limit) + 1 }), "head_limit must be").await,
        "grep_offset" => grep(&room, json!({ "offset": most(limit) + 1 }), "offset must be").await,
        "grep_context" => grep(&room, json!({ "context": most(limit) + 1 }), "context must be").await,
        "grep_pattern_bytes" => grep(&room, json!({ "pattern": "(\\w{500}){100}" }), "pattern: ").await,
        "grep_bytes" => {
            room.put("file", format!("{}\n", "x".repeat(400)).repeat(900));
            grep(&room, json!({ "head_limit": 1_000 }), "[truncated at 256 KiB: ").await
        }
        "grep_line_bytes" => {
            room.put("file", "x".repeat(most(limit) + 1));
            grep(&room, json!({}), "long lines are truncated").await
        }
        "grep_memory" => {
            room.put("file", "x");
            let file = std::fs::OpenOptions::new().append(true).open(room.volume.path().join("file")).expect("a file");
            let piece = "y".repeat(1 << 20);
            (0..=most(limit) >> 20)
                .for_each(|_| std::io::Write::write_all(&mut &file, piece.as_bytes()).expect("room"));
            grep(&room, json!({ "pattern": "x.*y", "multiline": true }), "cannot be opened: 1]").await
        }
        "url_bytes" => {
            http(&room, json!({ "url": format!("http://a.example/{}", "x".repeat(most(limit))) }), "the limit is").await
        }
        "fetch_time" => {
            // The server takes the connection and never answers.
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            *room.network.server.lock().expect("the lock") = Some(listener.local_addr().expect("its address"));
            let mut parts = room.parts();
            parts.clock = Arc::new(FastClock(Instant::now()));
            let tool = builtin(&parts).into_iter().find(|tool| tool.card().name == "HTTP").expect("the tool");
            let context = room.context();
            let called = tool.call(&context, json!({ "url": "http://a.example/" }));
            let error = tokio::time::timeout(HANGS, called).await.expect("it does not hang").expect_err("no answer");
            assert!(error.to_string().contains("timed out after 30 s"), "{error}");
            "tool_error".into()
        }
        "fetch_redirects" => {
            serve(&room, vec![("/", redirect(302, "/"))]).await;
            http(&room, json!({}), "more than 5 redirects").await
        }
        "http_request_bytes" => {
            http(&room, json!({ "method": "POST", "body": "x".repeat(most(limit) + 1) }), "the limit is").await
        }
        "http_request_headers" => {
            let headers: serde_json::Map<String, Value> =
                (0..=most(limit)).map(|number| (format!("x-{number}"), json!("x"))).collect();
            http(&room, json!({ "headers": headers }), "the limit is").await
        }
        "http_response_bytes" => {
            serve(&room, vec![("/", page("text/plain", &"x".repeat(most(limit) + 1)))]).await;
            http(&room, json!({}), "[truncated: the first 262144 bytes").await
        }
        "http_response_header_bytes" => {
            let answer =
                format!("HTTP/1.1 200 OK\r\nx-long: {}\r\ncontent-length: 0\r\n\r\n", "x".repeat(most(limit) + 1));
            serve(&room, vec![("/", answer)]).await;
            http(&room, json!({}), "… [truncated]").await
        }
        "web_fetch_bytes" => fetch(&room, "text/plain", "x".repeat(most(limit) + 1), "continue with offset=").await,
        "web_fetch_page_bytes" => {
            fetch(&room, "text/plain", "x".repeat(most(limit) + 1), "KiB of the page were fetched]").await
        }
        "web_fetch_text_bytes" => {
            // Deep lists are indented, so that their text is longer than their page.
            let html = format!("{}{}", "<ul>".repeat(8), "<li>x".repeat(most(limit) / 8));
            fetch(&room, "text/html", html, "KiB of text; the rest is omitted]").await
        }
        other => panic!("no test crosses the limit `{other}`: add one here"),
    }
}

async fn fetch(room: &Room, kind: &str, body: String, says: &str) -> String {
    serve(room, vec![("/", page(kind, &body))]).await;
    call(room, "WebFetch", json!({ "url": "http://a.example/" }), says).await
}

/// A command of another process runs on while a resumed run waits for its end.
async fn resumed(room: &Room) -> String {
    let (tool, context) = (room.tool("Bash"), room.context());
    let mut later = room.context();
    later.call = context.call;
    let running =
        tokio::spawn(async move { tool.call(&context, json!({ "command": "touch up; sleep 1000" })).await.is_ok() });
    let up = room.volume.path().join("up");
    let started = async {
        while !up.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANGS, started).await.expect("it starts");
    let mut parts = room.parts();
    parts.clock = Arc::new(FastClock(Instant::now()));
    let tool = builtin(&parts).into_iter().find(|tool| tool.card().name == "Bash").expect("the tool");
    let Repeat::Outlives(outlives) = tool.repeat() else { panic!("a command may outlive its process") };
    let over = tokio::time::timeout(HANGS, outlives.until_over(&later)).await.expect("it does not wait for ever");
    running.abort();
    match over {
        Over::NotWithin(_) => "in_doubt".into(),
        Over::Yes => "over".into(),
    }
}

#[tokio::test]
async fn every_limit_is_crossed_and_told() {
    for limit in LIMITS {
        assert_eq!(cross(limit).await, limit.code, "{}", limit.name);
    }
    report(&format!("limits: {} limits of the built-in tools crossed", LIMITS.len()));
}
