//! What an operator needs: pruning, metrics, logs, models.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Home, Server};

fn count(home: &Home) -> usize {
    home.run(&["runs", "list", "--json"]).exits(0).json()["runs"].as_array().expect("runs").len()
}

#[test]
fn old_runs_are_pruned_and_a_dry_run_only_says_so() {
    let home = Home::new();
    let server = home.serve();
    home.run(&["run", "echo", "one"]).exits(0);
    home.run(&["run", "echo", "two"]).exits(0);
    home.run(&["run", "echo", "slow", "--detach"]).exits(0);
    assert_eq!(home.run(&["prune", "--older-than", "30d", "--yes", "--json"]).exits(0).json()["runs"], 0);
    let dry = home.run(&["prune", "--older-than", "0s", "--dry-run"]).exits(0);
    assert!(dry.stdout.starts_with("would delete 2 runs (2 top-level) that ended before 2"), "{dry:?}");
    assert!(dry.stdout.lines().next().is_some_and(|first| first.ends_with(" UTC")), "{dry:?}");
    let rows: Vec<&str> = dry.stdout.lines().skip(2).collect();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.starts_with("r_") && row.contains("echo")), "{dry:?}");
    let named = home.run(&["prune", "--older-than", "0s", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(named["top_level"].as_array().map(Vec::len), Some(2), "{named}");
    assert_eq!(count(&home), 3);
    // Without a terminal, `prune` cannot ask.
    let refused = home.run(&["prune", "--older-than", "0s"]).exits(3);
    assert!(refused.stderr.contains("would delete 2 runs") && refused.stderr.contains("pass --yes"), "{refused:?}");
    assert_eq!(home.run(&["prune", "--older-than", "0s", "--json"]).exits(3).json()["error"]["code"], "no_answer");
    assert_eq!(count(&home), 3);
    let done = home.run(&["prune", "--older-than", "0s", "--yes", "--json"]).exits(0).json();
    assert_eq!((&done["runs"], &done["dry_run"]), (&Value::from(2), &Value::from(false)));
    assert_eq!(count(&home), 1, "what is unfinished stays");
    for bad in ["soon", "5y", "-1d", "30", ""] {
        home.run(&["prune", "--older-than", bad]).exits(2);
    }
    let unit = home.run(&["prune", "--older-than", "30"]).exits(2);
    assert!(unit.stderr.contains("did you mean 30d?"), "{unit:?}");
    assert_eq!(server.stop(), Some(0));
    home.run(&["prune", "--older-than", "0s", "--yes"]).exits(0);
}

#[test]
fn prune_asks_at_a_terminal_and_deletes_only_after_a_yes() {
    let home = Home::new();
    home.run(&["run", "echo", "one"]).exits(0);
    let terminal = crate::terminal::Terminal::open(&home, "100");
    for (answer, left) in [("", 1), ("n", 1), ("y", 0)] {
        terminal.type_line("clear; drawloom prune --older-than 0s; echo \"exit $?\"");
        let asked = terminal.wait_until("the question", |screen| screen.ends_with("Delete them? [y/N]"));
        assert!(asked.contains("would delete 1 run (1 top-level) that ended before 2"), "{asked}");
        terminal.type_line(answer);
        let ended = terminal.wait_until("the end", |screen| screen.contains("\nexit "));
        let (said, code) = if left == 0 { ("deleted 1 run", "exit 0") } else { ("nothing was deleted", "exit 3") };
        assert!(ended.contains(said) && ended.contains(code), "{ended}");
        assert_eq!(count(&home), left);
    }
}

#[test]
fn metrics_count_what_happened() {
    let home = Home::new();
    let server = home.serve();
    home.run(&["run", "echo", "read it"]).exits(0);
    home.run(&["run", "echo", "boom"]).exits(1);
    let text = get(&server.url, "/metrics");
    for line in [
        "drawloom_runs_accepted_total 2",
        "drawloom_runs_ended_total{status=\"completed\"} 1",
        "drawloom_runs_ended_total{status=\"failed\"} 1",
        "drawloom_run_duration_seconds_count 2",
        "drawloom_model_calls_total{provider=\"script\",model=\"test\",outcome=\"ok\"} 2",
        "drawloom_tool_calls_total{tool=\"Read\",outcome=\"ok\"} 1",
        "drawloom_retention_passes_total{outcome=\"ok\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    for metric in ["drawloom_store_bytes ", "drawloom_process_resident_memory_bytes ", "drawloom_process_open_fds "] {
        let value = text.lines().find_map(|line| line.strip_prefix(metric)).expect("it is there");
        assert!(value.parse::<f64>().is_ok_and(|value| value > 0.0), "{metric}{value}");
    }
}

/// The body of a GET, by hand.
fn get(url: &str, path: &str) -> String {
    request(url, &format!("GET {path}"), "")
}

/// The body that answers a request, by hand.
fn request(url: &str, what: &str, body: &str) -> String {
    use std::io::{Read as _, Write as _};
    let address = url.strip_prefix("http://").expect("an address");
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    let length = body.len();
    let head = format!(
        "{what} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer.split_once("\r\n\r\n").expect("a head").1.to_owned()
}

#[test]
fn a_server_whose_files_may_not_grow_says_that_it_is_full_and_goes_on_when_they_may() {
    let home = Home::new();
    let serve = home.command(&["serve", "--json", "--log", "error"]);
    // The same in a shell that allows 1,024 blocks a file.
    let mut limited = Command::new("sh");
    limited.args(["-ec", "ulimit -S -f 1024; exec \"$@\"", "sh"]).arg(serve.get_program()).args(serve.get_args());
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.current_dir(home.path());
    let server = home.serve_with(limited);
    let start = |number: usize| {
        // Every text is another one: what is there already takes no room.
        let text: String = (0..60_000).map(|place| char::from(b'a' + (place * (number + 7) % 23) as u8)).collect();
        let body = serde_json::json!({ "agent": "echo", "prompt": format!("{number} {text}"), "mode": "detach" });
        let answer = request(&server.url, "POST /v1/runs", &body.to_string());
        serde_json::from_str::<Value>(&answer).unwrap_or_else(|error| panic!("{error} in {answer:?}"))
    };
    let refused = (0..200).map(start).find(|answer| answer["run_id"].is_null()).expect("a file reaches its limit");
    assert_eq!(refused["error"]["code"], "store_full", "{refused}");
    assert!(get(&server.url, "/v1/runs").contains("run_id"), "it still answers");

    server.lift_file_limit();
    let accepted = start(200);
    let run = accepted["run_id"].as_str().expect("an id");
    home.run(&["runs", "show", run]).exits(0);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn logs_are_json_lines_without_secrets_when_nobody_watches() {
    let home = Home::new();
    let token = "a-token-that-nobody-may-see";
    let mut command = home.command(&["serve", "--json", "--log", "info,requests=debug"]);
    command.env("DRAWLOOM_TOKEN", token);
    let mut server = home.serve_with(command);
    let mut ask = home.command(&["runs", "list"]);
    home.finish(ask.env("DRAWLOOM_TOKEN", token)).exits(0);
    // A secret in a path ends up in the request log.
    get(&server.url, &format!("/v1/{token}"));
    let logged = server.stop_and_read();
    assert!(!logged.contains(token), "{logged}");
    let lines: Vec<Value> = logged
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let answered: Vec<&Value> = lines.iter().filter(|line| line["message"] == "answered").collect();
    assert_eq!(answered.len(), 2, "{logged}");
    assert_eq!(answered[1]["path"], "/v1/[redacted]");
    assert!(answered[0]["took_ms"].is_u64() && answered[0]["status"] == 200 && answered[0]["request"].is_string());
    let mut text = home.command(&["serve", "--json", "--log-format", "text"]);
    let mut server = home.serve_with({
        text.stdin(Stdio::null());
        text
    });
    let logged = server.stop_and_read();
    assert!(logged.contains("serving") && !logged.contains("{\""), "{logged}");
}

#[test]
fn models_are_listed_with_what_they_cost_and_who_asks_them() {
    let home = Home::new();
    home.write(
        "drawloom.yaml",
        "\
providers:
  script: { driver: script }
models:
  small: { provider: script, model: mini }
  large: { provider: script, model: maxi }
tiers: { low: [small], high: [large, small] }
user_tiers:
  default: { fallback_on_error: true }
  free: { tiers: { high: [small] } }
pricing:
  currency: EUR
  models: { script/mini: { input: 0.25, output: 2 } }
agents:
  cheap: { tier: low, tools: [], agents: [], volumes: [] }
  dear: { tier: high, tools: [], agents: [], volumes: [] }
",
    );
    let list = home.run(&["models", "list", "--json"]).exits(0).json();
    assert_eq!(list["currency"], "EUR");
    let mini =
        list["models"].as_array().expect("models").iter().find(|model| model["model"] == "mini").expect("it").clone();
    assert_eq!(mini["aliases"], serde_json::json!(["small"]));
    assert_eq!(mini["tiers"], serde_json::json!(["high", "low"]));
    assert_eq!(mini["agents"], serde_json::json!(["cheap", "dear"]));
    assert_eq!(mini["price"]["output"], 2.0);
    insta::assert_snapshot!(home.run(&["models", "list"]).exits(0).stdout);
    let remote = home.run(&["models", "list", "--remote", "script", "--json"]).exits(0).json();
    assert!(remote["remote"].is_array(), "{remote}");
    let unknown = home.run(&["models", "list", "--remote", "nobody"]).exits(2);
    assert!(unknown.stderr.contains("there are script"), "{unknown:?}");
}

#[test]
fn the_doctor_asks_providers_when_told() {
    let home = Home::new();
    let ran = home.run(&["doctor", "--keys", "--json"]).exits(0).json();
    let key =
        ran["checks"].as_array().expect("checks").iter().find(|check| check["what"] == "key").expect("it").clone();
    assert!(key["message"].as_str().is_some_and(|text| text.starts_with("script: accepted")), "{key}");
}

#[test]
fn the_archive_holds_all_that_an_operator_installs_and_is_made_the_same_twice() {
    let home = Home::new();
    let workspace = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let make = |folder: &str| {
        let output = home.path().join(folder);
        let made = Command::new(workspace.join("dist/make"))
            .args(["--binary", env!("CARGO_BIN_EXE_drawloom"), "--output"])
            .arg(&output)
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .output()
            .expect("bash");
        assert!(made.status.success(), "{made:?}");
        let name = String::from_utf8(made.stdout).expect("text").trim().to_owned();
        std::fs::read(name).expect("an archive")
    };
    let archive = make("one");
    assert!(archive == make("two"), "the archives differ");
    let file = std::fs::read_dir(home.path().join("one")).expect("a folder").flatten().map(|entry| entry.path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "gz")).expect("an archive");
    let listed = Command::new("tar").arg("-tzf").arg(&file).output().expect("tar");
    let listed = String::from_utf8(listed.stdout).expect("text");
    for name in [
        "drawloom",
        "README.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "drawloom.service",
        "completions/drawloom.bash",
        "completions/_drawloom",
        "completions/drawloom.fish",
        "man/man1/drawloom.1",
        "man/man1/drawloom-runs-show.1",
        "docs/operating.md",
    ] {
        assert!(listed.lines().any(|line| line.ends_with(&format!("/{name}"))), "{name} is not in\n{listed}");
    }
    let sum = std::fs::read_to_string(file.with_extension("gz.sha256")).expect("a sum");
    assert!(sum.trim_end().ends_with(&*file.file_name().expect("a name").to_string_lossy()), "{sum}");
}

#[test]
fn a_hangup_stops_a_server_in_order_unless_it_was_started_to_survive_it() {
    let home = Home::new();
    let serve = ["serve", "--json", "--listen", "localhost:0"];
    let hang_up = |server: &Server| {
        let pid = rustix::process::Pid::from_child(&server.child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it runs");
    };
    // Whatever this test itself was started with is inherited, so both are said.
    let under = |wrapper: &[&str]| {
        let plain = home.command(&serve);
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(plain.get_program()).args(plain.get_args()).stdin(Stdio::null());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(directory) = plain.get_current_dir() {
            command.current_dir(directory);
        }
        command
    };
    let mut server = home.serve_with(under(&["env", "--default-signal=HUP"]));
    hang_up(&server);
    assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
    let server = home.serve_with(under(&["nohup"]));
    hang_up(&server);
    home.run(&["run", "echo", "still there"]).exits(0);
    assert!(server.url.starts_with("http://127.0.0.1:"), "{}", server.url);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_logs_the_start_and_the_end_of_each_run_on_a_line() {
    let home = Home::new();
    let mut server = home.serve_with(home.command(&["serve", "--json", "--log-format", "json"]));
    home.run(&["run", "echo", "hi"]).exits(0);
    home.run(&["run", "echo", "boom"]).exits(1);
    let log = server.stop_and_read();
    let lines: Vec<serde_json::Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |message: &str| -> Vec<&serde_json::Value> {
        lines.iter().filter(|line| line.to_string().contains(&format!("\"{message}\""))).collect()
    };
    assert_eq!((of("run started").len(), of("run ended").len(), of("run failed").len()), (2, 1, 1), "{log}");
    let (ended, failed) = (of("run ended")[0].to_string(), of("run failed")[0].to_string());
    for field in ["\"run\":\"r_", "\"agent\":\"echo\"", "\"status\":\"completed\"", "\"duration_ms\":", "\"tokens\":"] {
        assert!(ended.contains(field), "{field} in {ended}");
    }
    assert!(
        failed.contains("\"reason\":\"the model refused: it went boom\"")
            && failed.contains("\"code\":\"model_refused\"")
    );
}

#[test]
fn a_full_page_of_runs_says_that_there_are_more_only_when_there_are() {
    let home = Home::new();
    let _server = home.serve();
    for prompt in ["one", "two", "three"] {
        home.run(&["run", "echo", prompt]).exits(0);
    }
    // The search finds two of them.
    for (arguments, is_more) in [
        (&["--limit", "3"] as &[&str], false),
        (&["--limit", "2"], true),
        (&["--limit", "2", "--search", "o"], false),
        (&["--limit", "1", "--search", "o"], true),
    ] {
        let listed = home.run(&[&["runs", "list"], arguments].concat()).exits(0);
        assert_eq!(listed.stderr.contains("there are more: --before r_"), is_more, "{arguments:?}: {listed:?}");
    }
    assert_eq!(home.run(&["runs", "list", "--limit", "3", "--json"]).exits(0).json().get("next"), None);
}
