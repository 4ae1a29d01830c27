//! What workers do is told while they work: on a terminal's stderr, by `tail`, over SSE, over MCP and in the status. A script stands
//! for Claude Code; it stops after each step until the test lets it go on.

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use super::Project;
use crate::{
    mcp_proxy::{Host, stateless},
    terminal::Terminal,
};

/// What the CLI prints: a tool, the next one when the test says so, and its result when the test says so again.
const LIVE: &str = r#"cat > /dev/null
message() { printf '{"type":"assistant","message":{"id":"%s","content":[{"type":"tool_use","name":"%s","input":{%s}}],"usage":{"input_tokens":%s,"output_tokens":400}}}\n' "$@"; }
message m1 Edit "\"file_path\":\"$PWD/src/lib.rs\"" 12000
read go < STATE/first
message m2 Bash '"command":"echo \u001b[2J hunter2-hunter2"' 7000
read go < STATE/second
echo alpha > alpha.txt
printf '{"type":"result","subtype":"success","result":"done","total_cost_usd":0.5,"usage":{"input_tokens":19000,"output_tokens":800}}\n'"#;

const GOAL: &str = "Write it.\nPLAN: [{\"id\":\"alpha\",\"description\":\"write alpha.txt\"}]\n";

/// Ends a command that a test does not wait for.
struct Follower<R> {
    child: Child,
    lines: Lines<BufReader<R>>,
}

impl<R> Drop for Follower<R> {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn stdout(mut command: Command) -> Follower<ChildStdout> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    Follower { child, lines }
}

fn stderr(mut command: Command) -> Follower<ChildStderr> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    Follower { child, lines }
}

impl<R: std::io::Read> Follower<R> {
    /// Reads on to the first line with this text.
    fn until(&mut self, text: &str) -> String {
        let mut seen = Vec::new();
        for line in self.lines.by_ref().map_while(Result::ok) {
            if line.contains(text) {
                return line;
            }
            seen.push(line);
        }
        panic!("no {text:?} in {seen:#?}");
    }
}

/// A project with the CLI `live`, and the pipes that let it go on: one for each step, because a pipe that a writer is just closing lets
/// the next reader pass.
fn live() -> (Project, [PathBuf; 2]) {
    let project = Project::new();
    let state = project.add_cli("live", LIVE);
    project.configure(|config| {
        let start = config.find("  live: { command: [").expect("the CLI");
        let (before, own) = config.split_at(start);
        let own = own.replacen("command: [", "preset: claude_code, program: ", 1).replacen(
            "], readable",
            ", env: [MINE_TOKEN], readable",
            1,
        );
        format!("{before}{own}")
    });
    let steps = ["first", "second"].map(|name| state.join(name));
    let made = Command::new("mkfifo").args(&steps).status().expect("mkfifo starts");
    assert!(made.success());
    (project, steps)
}

fn go_on(next: &Path) {
    fs::write(next, "go\n").expect("the CLI reads");
}

#[test]
fn followers_see_tool_and_tokens_of_a_worker_before_it_ends() {
    let (project, [first, second]) = live();
    let arguments = ["goal", "run", GOAL, "--backend", "script", "--worker", "live", "--criteria", "x"];
    let mut secret = project.command(&arguments);
    secret.env("MINE_TOKEN", "hunter2-hunter2");
    let mut run = stderr(secret);
    // Paths in the checkout are relative to it.
    let line = run.until("Edit");
    assert_eq!(line, "    alpha: Edit src/lib.rs · 12,400 tokens");

    let listed = project.home.run(&["goal", "list", "--json"]).exits(0).json();
    let id = listed["runs"][0]["run_id"].as_str().expect("an id").to_owned();
    let mut host = Host::start(project.command(&["mcp", "--toolsets", "goal"]));
    let mut meta = stateless();
    meta["progressToken"] = "waits".into();
    host.request(
        1,
        "tools/call",
        json!({ "name": "orchestrate_result", "arguments": { "run_id": id, "wait": true }, "_meta": meta }),
    );
    let progress = host.next();
    let text = progress["params"]["message"].as_str().expect("a message");
    assert!(text.ends_with("execute: 1 worker at work (alpha); alpha: Edit src/lib.rs, 12400 tokens"), "{progress}");

    // Followers that come later begin with what is done now.
    let mut tail = stdout(project.command(&["goal", "tail", &id]));
    assert_eq!(tail.until("Edit"), line);
    let mut json_tail = stdout(project.command(&["goal", "tail", &id, "--json"]));
    let told: Value = serde_json::from_str(&json_tail.until("Edit")).expect("JSON");
    assert_eq!(
        (&told["kind"], &told["worker"], &told["tokens"]),
        (&json!("activity"), &json!("alpha"), &json!(12_400))
    );
    let mut events = stdout(project.command(&["runs", "tail", &id, "--tree", "--json"]));
    let event: Value = serde_json::from_str(&events.until("\"activity\"")).expect("JSON");
    assert_eq!(
        (&event["tool"], &event["detail"], &event["tokens"]),
        (&json!("Edit"), &json!("src/lib.rs"), &json!(12_400))
    );
    let worker = &event["run_id"];
    let status = project.run(&["goal", "status", &id, "--json"]).exits(0).json();
    assert_eq!(
        status["workers"],
        json!([{ "worker": "alpha", "run_id": worker, "tool": "Edit", "detail": "src/lib.rs", "tokens": 12_400 }])
    );

    let shown = project.run(&["goal", "status", &id]).exits(0).stdout;
    assert!(shown.contains("workers    alpha: Edit src/lib.rs · 12,400 tokens\n"), "{shown}");

    go_on(&first);
    assert_eq!(tail.until("Bash"), "    alpha: Bash echo [2J [redacted] · 19,800 tokens");
    assert!(json_tail.until("Bash").contains("19800"));
    let event: Value = serde_json::from_str(&events.until("Bash")).expect("JSON");
    assert_eq!((&event["detail"], &event["run_id"]), (&json!("echo [2J [redacted]"), worker));
    go_on(&second);
    tail.until("✓ alpha: done");
    events.until("tree_done");
    run.until("completed in 1 iteration");
    let status = project.run(&["goal", "status", &id, "--json"]).exits(0).json();
    assert_eq!((&status["status"], &status["workers"]), (&json!("completed"), &Value::Null), "nothing is kept");
    let journal = project.run(&["replay", worker.as_str().expect("an id"), "--json"]).exits(0).stdout;
    assert!(!journal.contains("Bash"), "{journal}");
}

#[test]
fn a_terminal_shows_the_last_tool_of_a_worker_in_place() {
    let (project, [first, second]) = live();
    let terminal = Terminal::open(&project.home, "100");
    let goal = "drawloom --config drawloom.yaml goal run --goal-file goal.txt --cwd repository --backend script --worker live \
                        --criteria x --non-interactive; echo ended with $?";
    project.home.write("goal.txt", GOAL);
    terminal.type_line(goal);
    terminal.wait_until("the first tool", |screen| {
        screen.contains("iteration 1 · execute") && screen.contains("alpha") && screen.contains("Edit src/lib.rs")
    });
    go_on(&first);
    terminal.wait_until("the second tool in its place", |screen| {
        screen.contains("Bash echo") && screen.contains("19,800 tok") && !screen.contains("Edit src/lib.rs")
    });
    go_on(&second);
    terminal.wait_until("the end, without the board", |screen| {
        screen.contains("ended with 0") && screen.contains("✓ alpha: done") && !screen.contains("Bash echo")
    });
}
