//! Agents on coding CLIs, through the real program. A script stands for the CLI.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::Home;

const TOKEN: &str = "weave-0123456789-abcdefghij";

/// A home whose agent `worker` runs on `script`, in the volume `work`.
fn home(script: &str, more: &str) -> Home {
    let home = Home::new();
    let config = format!(
        "listen: 127.0.0.1:0
clis:
  mine:
    command: [{cli}, '{{prompt_file}}', '{{model}}']
    env: [MINE_TOKEN]
    {more}
agents:
  worker: {{ executor: cli, provider: mine, model: small, system_prompt: Be brief., volumes: [work], retry_attempts: 0 }}
  reader: {{ executor: cli, provider: mine, volumes: [notes] }}
volumes:
  work: {{ path: work, mode: rw, default: true }}
  notes: {{ path: notes, mode: ro }}
",
        cli = cli(&home).display()
    );
    home.write("drawloom.yaml", &config);
    fs::create_dir(home.path().join("work")).expect("a directory");
    home.write("cli", &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(cli(&home), fs::Permissions::from_mode(0o755)).expect("permissions");
    home.run(&["trust", "--yes"]).exits(0);
    home
}

fn cli(home: &Home) -> PathBuf {
    home.path().join("cli")
}

/// Runs an agent without a server.
fn run(home: &Home, agent: &str) -> (i32, Value) {
    let mut command = home.command(&["run", agent, "Weave it", "--json", "--embedded"]);
    let ran = home.finish(command.env("MINE_TOKEN", "hunter2-hunter2").env("OTHER_TOKEN", "not-for-the-cli"));
    (ran.code, ran.json())
}

#[test]
fn an_agent_on_a_cli_edits_its_volume_and_answers_what_the_cli_says() {
    let script = "cat $1; echo; echo model $2 depth $DRAWLOOM_DEPTH other $OTHER_TOKEN; echo woven > woven.txt; \
                  echo token $MINE_TOKEN; echo x > ../outside.txt; cat ~/.ssh/id 2>&1; exit 0";
    let home = home(script, "");
    fs::create_dir(home.path().join(".ssh")).expect("a directory");
    home.write(".ssh/id", "private-key");
    let (code, result) = run(&home, "worker");
    assert_eq!(code, 0, "{result}");
    let text = result["final_text"].as_str().expect("a text");
    assert!(text.starts_with("Be brief.\n\nWeave it\nmodel small depth 1 other\ntoken [redacted]\n"), "{text}");
    assert!(!text.contains("private-key"), "{text}");
    assert_eq!(fs::read_to_string(home.path().join("work/woven.txt")).expect("it wrote"), "woven\n");
    assert!(!home.path().join("outside.txt").exists(), "it writes only to its volume");
    let left: Vec<_> = fs::read_dir(home.data().join("tmp")).expect("a directory").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_agent_with_a_read_only_volume_changes_nothing() {
    let home = home("cat note.txt; echo x > new.txt; rm -f note.txt; echo; ls", "");
    let (code, result) = run(&home, "reader");
    assert_eq!((code, result["final_text"].as_str()), (0, Some("remember the milk\nnote.txt")), "{result}");
}

#[test]
fn a_cli_that_takes_too_long_or_is_not_there_ends_the_run_with_the_reason() {
    let slow = home("setsid sleep 1000 & sleep 1000", "time_limit_seconds: 1");
    let (code, result) = run(&slow, "worker");
    assert_eq!((code, result["error"]["code"].as_str()), (1, Some("timed_out")), "{result}");
    let failing = home("echo no luck >&2; exit 7", "");
    let (code, result) = run(&failing, "worker");
    assert_eq!((code, result["error"]["code"].as_str()), (1, Some("crashed")), "{result}");
    assert!(result["error"]["message"].as_str().is_some_and(|said| said.contains("code 7: no luck")), "{result}");
    fs::remove_file(cli(&failing)).expect("the program");
    let (code, result) = run(&failing, "worker");
    assert_eq!((code, result["error"]["code"].as_str()), (1, Some("not_installed")), "{result}");
}

#[test]
fn a_server_that_is_killed_leaves_no_process_and_its_run_goes_on_in_the_next() {
    // The first process waits for ever; the second one finds what the first one left.
    let script = "if [ -e begun ]; then echo done; cat $1 | head -1; else echo '{\"token\":\"second\"}' > ~/.mine/login.json; \
                  echo evil > ~/.mine/settings; echo $$ > begun; trap '' TERM; setsid sleep 1000 & sleep 1000; fi";
    let home = home(
        script,
        "state: [{ path: ~/.mine, settings: [settings], login: [{ file: login.json, fields: [token] }] }]",
    );
    fs::create_dir(home.path().join(".mine")).expect("a directory");
    home.write(".mine/login.json", "{\"token\": \"first\"}");
    home.write(".mine/settings", "fine");
    let mark = format!("mark-{}", std::process::id());
    let serve = || {
        let mut command = home.command(&["serve", "--json", "--log", "warn"]);
        command.env("MINE_TOKEN", &mark).env("DRAWLOOM_TOKEN", TOKEN);
        home.serve_with(command)
    };
    let server = serve();
    let via = |url: &str, arguments: &[&str]| {
        home.finish(home.command(arguments).env("DRAWLOOM_URL", url).env("DRAWLOOM_TOKEN", TOKEN))
    };
    let started = via(&server.url, &["run", "worker", "Weave it", "--json", "--detach"]).exits(0).json();
    let run = started["run_id"].as_str().expect("an id").to_owned();
    until(|| home.path().join("work/begun").exists());
    server.kill();
    let server = serve();
    let show = || via(&server.url, &["runs", "show", &run, "--json"]).exits(0).json();
    until(|| show()["status"] == "completed");
    let result = show();
    let text = result["final_text"].as_str().expect("a text");
    assert!(text.starts_with("done\nBe brief."), "{text}");
    server.stop();
    let replay = home.run(&["replay", &run, "--json"]).exits(0).stdout;
    assert!(replay.contains("note "), "that it may be paid twice is noted: {replay}");
    assert_eq!(marked(&mark), Vec::<String>::new());
    let kept = |name: &str| fs::read_to_string(home.path().join(".mine").join(name)).expect("a file");
    assert_eq!((kept("login.json").as_str(), kept("settings").as_str()), ("{\"token\": \"second\"}", "fine"));
}

#[test]
fn a_server_without_a_token_starts_no_cli() {
    let home = home("echo called >> calls", "");
    let error = home.run(&["serve", "--json"]).exits(2).json()["error"].clone();
    assert_eq!(error["code"], "cli_without_token", "{error}");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("worker") && message.contains("reader"), "{message}");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("set a token in DRAWLOOM_TOKEN")), "{error}");
    // A run that a server with a token has accepted does not go on in one without, whatever the config says then.
    let waits =
        fs::read_to_string(cli(&home)).expect("the CLI").replace("echo called", "echo called; sleep 1000; true");
    fs::write(cli(&home), waits).expect("the CLI");
    let mut command = home.command(&["serve", "--json", "--log", "warn"]);
    command.env("DRAWLOOM_TOKEN", TOKEN);
    let server = home.serve_with(command);
    let mut started = home.command(&["run", "worker", "Weave it", "--json", "--detach"]);
    let started = home.finish(started.env("DRAWLOOM_URL", &server.url).env("DRAWLOOM_TOKEN", TOKEN)).exits(0).json();
    server.kill();
    home.write("drawloom.yaml", "listen: 127.0.0.1:0\n");
    home.run(&["trust", "--yes"]).exits(0);
    let server = home.serve_with(home.command(&["serve", "--json", "--log", "warn"]));
    let run = started["run_id"].as_str().expect("an id");
    let show = || {
        let mut command = home.command(&["runs", "show", run, "--json"]);
        home.finish(command.env("DRAWLOOM_URL", &server.url)).exits(0).json()
    };
    until(|| show()["status"] == "failed");
    assert_eq!(show()["error"]["code"], "cli_without_token");
    server.stop();
}

#[test]
fn a_fork_bomb_of_a_cli_ends_the_run_with_the_key_to_raise() {
    // Bounded by itself too. Slow enough to be counted before the kernel refuses processes, which ends the shell.
    let home = home("i=0; while [ $i -lt 500 ]; do sleep 60 & sleep 0.02; i=$((i+1)); done; wait", "max_processes: 50");
    let (code, result) = run(&home, "worker");
    assert_eq!((code, result["error"]["code"].as_str()), (1, Some("limit_exceeded")), "{result}");
    let message = result["error"]["message"].as_str().expect("a message");
    assert!(message.contains("the limit is 50") && message.ends_with("raise clis.mine.max_processes"), "{message}");
}

#[test]
fn a_config_with_mistakes_about_clis_says_them() {
    let home = home("true", "");
    home.write(
        "drawloom.yaml",
        "clis: { mine: {} }\nagents: { a: { executor: cli, provider: claud }, b: { executor: cli } }\n",
    );
    let said = home.run(&["validate"]);
    let said = said.stdout + &said.stderr;
    for expected in [
        "the CLI \"mine\" has neither `preset` nor `command`",
        "unknown provider \"claud\" of the executor \"cli\"",
        "the executor \"cli\" needs `provider`",
    ] {
        assert!(said.contains(expected), "{expected} in {said}");
    }
}

/// Processes that have this text in their environment, but no server.
fn marked(mark: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    let has_mark = |path: &PathBuf| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(mark)
    };
    processes.filter(has_mark).map(|path| path.display().to_string()).collect()
}

fn until(is_true: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not happen");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// A CLI that uses 100,000 tools as fast as it can, and one more when the test lets it end.
const FLOOD: &str = r#"cat > /dev/null
awk 'BEGIN { for (number = 1; number <= 100000; number++)
    printf "{\"type\":\"assistant\",\"message\":{\"id\":\"m%d\",\"content\":[{\"type\":\"tool_use\",\"name\":\"Edit\",\"input\":{\"file_path\":\"file%d\"}}],\"usage\":{\"input_tokens\":1}}}\n", number, number }'
read go < next
printf '{"type":"result","subtype":"success","result":"done"}\n'"#;

#[test]
fn a_hundred_thousand_tools_neither_grow_memory_nor_flood_followers() {
    let home = home(FLOOD, "");
    let config = fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    let cli = cli(&home).display().to_string();
    let preset = format!("    preset: claude_code\n    program: {cli}\n    readable_paths: [{cli}]\n");
    let is_command = |line: &&str| !line.contains("command: [");
    let (before, after) = config.split_once("  mine:\n").expect("the CLI");
    let after: Vec<&str> = after.lines().filter(is_command).collect();
    home.write("drawloom.yaml", &format!("{before}  mine:\n{preset}{}\n", after.join("\n")));
    home.run(&["trust", "--yes"]).exits(0);
    let next = home.path().join("work/next");
    assert!(std::process::Command::new("mkfifo").arg(&next).status().expect("mkfifo starts").success());
    let mut command = home.command(&["serve", "--json", "--log", "warn"]);
    let server = home.serve_with({
        command.env("DRAWLOOM_TOKEN", TOKEN);
        command
    });
    let via = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.env("DRAWLOOM_URL", &server.url).env("DRAWLOOM_TOKEN", TOKEN);
        command
    };
    let before = server.peak_memory();
    let started = home.finish(&mut via(&["run", "worker", "Weave it", "--json", "--detach"])).exits(0).json();
    let run = started["run_id"].as_str().expect("an id").to_owned();
    let address = server.url.strip_prefix("http://").expect("a plain address");
    let stalled: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            let head = format!(
                "GET /v1/runs/{run}/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).expect("it reads");
            stream
        })
        .collect();
    let began = Instant::now();
    let mut tail = via(&["runs", "tail", &run, "--json"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(tail.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut count = 0;
    let last = lines.by_ref().filter(|line| line.contains("\"activity\"")).inspect(|_| count += 1);
    // The newest is told, however many went by.
    assert!(last.into_iter().any(|line| line.contains("\"file100000\"")), "the last of {count}");
    let most = began.elapsed().as_secs_f64() * 4.0 + 2.0;
    assert!(f64::from(count) <= most, "{count} events in {:?}", began.elapsed());
    let growth = server.peak_memory() - before;
    assert!(growth < 64 * 1024 * 1024, "the server grew by {} MB", growth / 1_000_000);
    fs::write(&next, "go\n").expect("the CLI reads");
    assert!(lines.any(|line| line.contains("\"done\"")), "it ends");
    drop(stalled);
    assert!(tail.wait().expect("it ends").success());
    server.stop();
}
