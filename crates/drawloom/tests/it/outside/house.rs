//! A run that is told beforehand which tools to call, against the test server of `testkit`.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{Home, Ran, Server};

/// How the server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Stdio,
    Http,
}

/// The test server, as a program.
pub(super) fn program() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_drawloom")).with_file_name("examples").join("mcp_server");
    assert!(program.exists(), "{} is missing: cargo build -p drawloom-testkit --examples", program.display());
    program
}

/// The test server over HTTP; it ends with the test.
pub(super) struct Remote {
    child: Child,
    pub(super) url: String,
}

impl Remote {
    pub(super) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(program())
            .arg("http")
            .args(arguments)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the test server starts");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut url).expect("it says where it is");
        Self { child, url: url.trim().to_owned() }
    }

    pub(super) fn port(&self) -> &str {
        self.url.trim_end_matches("/mcp").rsplit(':').next().expect("a port")
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // It may have ended before.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A run that is being thought out.
pub(super) struct Play {
    pub(super) home: Home,
    pub(super) remote: Option<Remote>,
    pub(super) config: Value,
    rules: Vec<Value>,
    environment: Vec<(String, String)>,
}

/// What became of it.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) result: Value,
    /// Each call: the tool's own name, whether it failed, what the model was told.
    pub(super) calls: Vec<(String, bool, String)>,
}

impl Played {
    pub(super) fn texts(&self) -> Vec<&str> {
        self.calls.iter().map(|(_, _, text)| text.as_str()).collect()
    }

    /// The text of a call that failed.
    #[track_caller]
    pub(super) fn failure(&self, index: usize) -> &str {
        let (_, failed, text) = &self.calls[index];
        assert!(failed, "{self:#?}");
        text
    }
}

impl Play {
    /// A home whose agent `a` may use all tools of the server `out`, which is started with these arguments.
    pub(super) fn new(wire: Wire, arguments: &[&str]) -> Self {
        let (remote, server) = match wire {
            Wire::Stdio => {
                let program = program().to_string_lossy().into_owned();
                let command: Vec<&str> = [&*program, "stdio"].into_iter().chain(arguments.iter().copied()).collect();
                (None, json!({ "command": command }))
            }
            Wire::Http => {
                let remote = Remote::start(arguments, &[]);
                let url = remote.url.clone();
                (Some(remote), json!({ "url": url }))
            }
        };
        let config = json!({
            "listen": "127.0.0.1:0",
            "providers": {"script": {"driver": "script", "options": {"rules": []}}},
            "defaults": {"provider": "script", "model": "test"},
            "agents": {"a": {"tools": ["mcp__out__*"], "agents": [], "hosts": [], "volumes": []}},
            "mcp_servers": {"out": server},
        });
        let play = Self { home: Home::new(), remote, config, rules: Vec::new(), environment: Vec::new() };
        play.write();
        play
    }

    /// Sets a key of the server.
    pub(super) fn set(mut self, key: &str, value: Value) -> Self {
        self.config["mcp_servers"]["out"][key] = value;
        self
    }

    pub(super) fn agent_tools(mut self, tools: Value) -> Self {
        self.config["agents"]["a"]["tools"] = tools;
        self
    }

    /// A variable of drawloom's environment.
    pub(super) fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// The next turn calls this tool of the server.
    pub(super) fn turn(self, tool: &str, input: Value) -> Self {
        self.turn_after(0, tool, input)
    }

    /// The same, after a pause of the model.
    pub(super) fn turn_after(mut self, delay_ms: u64, tool: &str, input: Value) -> Self {
        let (turn, tool) = (self.rules.len() + 1, format!("mcp__out__{tool}"));
        self.rules.push(json!({
            "when": {"turn": turn}, "delay_ms": delay_ms, "calls": [{"tool": tool, "input": input}],
        }));
        self
    }

    /// The next turn calls these tools of the server at once.
    pub(super) fn turn_of(mut self, calls: &[(&str, Value)]) -> Self {
        let call = |(tool, input): &(&str, Value)| json!({"tool": format!("mcp__out__{tool}"), "input": input});
        let calls: Vec<Value> = calls.iter().map(call).collect();
        let turn = self.rules.len() + 1;
        self.rules.push(json!({"when": {"turn": turn}, "calls": calls}));
        self
    }

    /// Writes the config down.
    pub(super) fn write(&self) {
        let mut config = self.config.clone();
        let end = json!({"text": "the end"});
        config["providers"]["script"]["options"]["rules"] = self.rules.iter().cloned().chain([end]).collect();
        self.home.write("drawloom.yaml", &config.to_string());
    }

    /// A command in the home, with the variables.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(arguments);
        // A config that is named is trusted.
        command.args(["--config", "drawloom.yaml"]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(super) fn serve(&self) -> Server {
        self.home.serve_with(self.command(&["serve", "--json", "--log", "warn"]))
    }

    pub(super) fn finish(&self, arguments: &[&str]) -> Ran {
        self.home.finish(&mut self.command(arguments))
    }

    /// Runs it to its end, which must be good.
    #[track_caller]
    pub(super) fn run(&self) -> Played {
        self.write();
        let result = self.finish(&["run", "a", "begin", "--json", "--embedded"]).exits(0).json();
        assert_eq!(result["final_text"], "the end", "{result:#}");
        self.look(result)
    }

    /// What happened in a run.
    pub(super) fn look(&self, result: Value) -> Played {
        let run = result["run_id"].as_str().expect("an id");
        let calls = self.events(run).iter().filter_map(called).collect();
        Played { result, calls }
    }

    /// The events of a run.
    pub(super) fn events(&self, run: &str) -> Vec<Value> {
        let tail = self.finish(&["runs", "tail", run, "--json"]);
        tail.stdout.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
    }
}

fn called(event: &Value) -> Option<(String, bool, String)> {
    if event["type"] != "tool_result" {
        return None;
    }
    let name = event["tool_use"]["name"].as_str()?.trim_start_matches("mcp__out__").to_owned();
    Some((name, event["is_error"] == true, event["text"].as_str()?.to_owned()))
}
