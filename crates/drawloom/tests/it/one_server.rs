//! One server for each project: every command that needs the engine finds it or starts it, and no command fails because another
//! one runs.

use std::{
    os::unix::fs::PermissionsExt as _,
    process::{Child, Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    mcp_proxy::{Host, stateless},
    support::{Home, Server},
};

/// A model that answers after a moment, one that never does, and one whose runs fail.
const CONFIG: &str = "\
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - when: { contains: never }
          text: never said
          delay_ms: 600000
        - when: { contains: later }
          text: \"{{prompt}}\"
          delay_ms: 700
        - text: \"{{prompt}}\"
defaults: { provider: script, model: test }
agents:
  echo: { description: Says it again., tools: [], agents: [], hosts: [], volumes: [] }
";

fn home() -> Home {
    let home = Home::new();
    home.write("drawloom.yaml", CONFIG);
    home
}

fn spawn(home: &Home, arguments: &[&str]) -> Child {
    home.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
}

fn answered(child: Child) -> String {
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

fn server(home: &Home) -> Value {
    home.run(&["status", "--json"]).exits(0).json()["server"].clone()
}

fn kill(server: &Value) {
    let pid = server["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("a server");
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("it runs");
}

/// How many servers served this home's data, as their log says.
fn servers(home: &Home) -> usize {
    let log = std::fs::read_to_string(home.data().join("serve.log")).expect("a log");
    log.lines().filter(|line| line.contains("\"serving\"")).count()
}

fn runs(home: &Home) -> Vec<Value> {
    let list = home.run(&["runs", "list", "--limit", "200", "--json"]).exits(0).json();
    list["runs"].as_array().expect("runs").clone()
}

/// A run that was accepted and whose server is dead.
fn interrupted_run(home: &Home) -> String {
    let server = home.serve();
    let run = home.run(&["run", "echo", "never", "--detach", "--json"]).exits(0).json();
    server.kill();
    run["run_id"].as_str().expect("a run").to_owned()
}

#[test]
fn commands_of_the_same_second_share_one_server() {
    let home = home();
    let before = interrupted_run(&home);
    let prompts: Vec<String> = (0..10).map(|number| format!("later {number}")).collect();
    let mut started: Vec<Child> =
        prompts.iter().map(|prompt| spawn(&home, &["run", "echo", prompt, "--json"])).collect();
    let list = spawn(&home, &["runs", "list", "--json"]);
    let cancel = spawn(&home, &["runs", "cancel", &before, "--json"]);
    let mut hosts = [Host::start(home.command(&["mcp"])), Host::start(home.command(&["mcp"]))];
    for host in &mut hosts {
        host.call(1, "spawn_run", json!({ "agent": "echo", "prompt": "from a host" }));
    }
    for (child, prompt) in started.drain(..).zip(&prompts) {
        let result: Value = serde_json::from_str(&answered(child)).expect("JSON");
        assert_eq!((&result["status"], &result["final_text"]), (&json!("completed"), &json!(prompt)));
    }
    assert!(answered(list).contains(&before));
    assert!(answered(cancel).contains("\"cancelled\": true"));
    for host in &hosts {
        assert_eq!(host.next()["result"]["structuredContent"]["final_text"], "from a host");
    }
    assert_eq!(servers(&home), 1);
    assert_eq!(home.run(&["runs", "show", &before, "--wait", "--json"]).exits(0).json()["status"], "cancelled");
    assert_eq!(runs(&home).len(), 13);
}

#[test]
fn a_killed_server_is_replaced_and_every_command_is_answered() {
    let home = home();
    let prompts: Vec<String> = (0..10).map(|number| format!("later {number}")).collect();
    let children: Vec<Child> = prompts.iter().map(|prompt| spawn(&home, &["run", "echo", prompt, "--json"])).collect();
    let batch = spawn(&home, &["batch", "--agent", "echo", "later a", "later b", "--json"]);
    let mut host = Host::start(home.command(&["mcp"]));
    host.request(1, "tools/list", json!({ "_meta": stateless() }));
    host.call(2, "spawn_run", json!({ "agent": "echo", "prompt": "later, from a host" }));
    // Three servers die while runs are accepted and executed; the moments differ from one test run to the next.
    let mut killed = 0;
    while killed < 3 {
        let server = server(&home);
        if server.is_null() || runs(&home).len() < 4 * (killed + 1) {
            continue;
        }
        kill(&server);
        killed += 1;
    }
    for (child, prompt) in children.into_iter().zip(&prompts) {
        let result: Value = serde_json::from_str(&answered(child)).expect("JSON");
        assert_eq!((&result["status"], &result["final_text"]), (&json!("completed"), &json!(prompt)));
    }
    let batch: Value = serde_json::from_str(&answered(batch)).expect("JSON");
    assert_eq!(batch["results"].as_array().map(Vec::len), Some(2));
    let mut answers = [host.next(), host.next()];
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert!(answers[0]["result"]["tools"].is_array(), "{answers:?}");
    assert_eq!(answers[1]["result"]["structuredContent"]["final_text"], "later, from a host");
    let runs = runs(&home);
    assert_eq!(runs.len(), 13, "each run was accepted once");
    assert!(runs.iter().all(|run| run["status"] == "completed"), "{runs:#?}");
}

#[test]
fn reads_and_cancels_without_a_server_start_none() {
    let home = home();
    let run = interrupted_run(&home);
    home.run(&["runs", "list"]).exits(0);
    home.run(&["runs", "show", &run]).exits(0);
    home.run(&["replay", &run]).exits(0);
    home.run(&["call", "list_runs"]).exits(0);
    home.run(&["agents", "list"]).exits(0);
    home.run(&["prune", "--older-than", "1d", "--dry-run"]).exits(0);
    let waits = home.run(&["runs", "show", &run, "--wait"]).exits(2);
    assert!(waits.stderr.contains("no process executes it") && waits.stderr.contains("drawloom restart"), "{waits:?}");
    home.run(&["runs", "cancel", &run]).exits(0);
    home.run(&["prune", "--older-than", "1d", "--yes"]).exits(0);
    assert!(server(&home).is_null() && !home.data().join("serve.log").exists());
    assert_eq!(runs(&home)[0]["status"], "cancelled");
}

#[test]
fn an_embedded_run_and_other_commands_know_each_other() {
    let home = home();
    let server = home.serve();
    let refused = home.run(&["run", "echo", "hello", "--embedded"]).exits(2);
    assert!(refused.stderr.contains(&format!("(process {})", server.child.id())), "{refused:?}");
    assert_eq!(server.stop(), Some(0));

    let mut embedded = spawn(&home, &["run", "echo", "never", "--embedded"]);
    // Reads work beside it, and do not call its run interrupted.
    let run = loop {
        if let [run] = runs(&home).as_slice()
            && run["status"] == "running"
        {
            break run.clone();
        }
    };
    assert_eq!(run["interrupted"], Value::Null);
    let id = run["run_id"].as_str().expect("a run");
    assert!(home.run(&["runs", "show", id]).exits(0).stdout.contains("running"));
    let process = format!("process {}", embedded.id());
    let tail = home.run(&["runs", "tail", id]).exits(1);
    assert!(tail.stdout.contains("▶ started") && tail.stderr.contains(&process), "{tail:?}");
    for other in [
        &["run", "echo", "hello"][..],
        &["run", "echo", "hello", "--embedded"],
        &["runs", "cancel", id],
        &["batch", "--agent", "echo", "hello"],
    ] {
        let refused = home.run(other).exits(2);
        assert!(refused.stderr.contains(&process), "{other:?}: {refused:?}");
    }
    embedded.kill().expect("it runs");
    embedded.wait().expect("it ends");
    assert_eq!(runs(&home)[0]["interrupted"], true);
    // The next server resumes it, and the command that started the server says so.
    let next = home.run(&["run", "echo", "hello"]).exits(0);
    assert!(next.stderr.contains("resumed 1 interrupted run"), "{next:?}");
    home.run(&["runs", "cancel", id]).exits(0);
}

/// What a server answers to a request with this token.
fn status_of(url: &str, token: Option<&str>) -> u16 {
    use std::io::{Read as _, Write as _};
    let mut socket = std::net::TcpStream::connect(url.trim_start_matches("http://")).expect("a server");
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    write!(socket, "GET /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n{token}Connection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}

#[test]
fn a_server_in_the_background_wants_the_token_of_its_data_directory() {
    let home = home();
    home.run(&["run", "echo", "hello"]).exits(0);
    let background = server(&home);
    let url = background["url"].as_str().expect("an address");
    let file = home.data().join("token");
    assert_eq!(std::fs::metadata(&file).expect("a token").permissions().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(&file).expect("a token");
    assert_eq!(token.len(), 64);
    assert_eq!(status_of(url, None), 401);
    assert_eq!(status_of(url, Some("guess")), 401);
    assert_eq!(status_of(url, Some(&token)), 200);
    // The token is in no output and no log.
    let shown = home.run(&["status", "--json"]).exits(0).stdout;
    let log = std::fs::read_to_string(home.data().join("serve.log")).expect("a log");
    assert!(!shown.contains(&token) && !log.contains(&token));
    // A token of the user's own decides, also when it is wrong.
    let wrong = home.finish(home.command(&["run", "echo", "hello"]).env("DRAWLOOM_TOKEN", "guess")).exits(2);
    assert!(wrong.stderr.contains("DRAWLOOM_TOKEN"), "{wrong:?}");

    // A server that was started by hand is open to this machine, unless it has a token; its user's commands have one anyway.
    home.run(&["stop"]).exits(0);
    let open = home.serve();
    assert_eq!(status_of(&open.url, None), 200);
    home.run(&["run", "echo", "hello"]).exits(0);
    assert_eq!(open.stop(), Some(0));
    let mut command = home.command(&["serve", "--json", "--log", "warn"]);
    command.env("DRAWLOOM_TOKEN", "a-token-of-the-operator");
    let closed: Server = home.serve_with(command);
    assert_eq!((status_of(&closed.url, None), status_of(&closed.url, Some("a-token-of-the-operator"))), (401, 200));
    home.run(&["run", "echo", "hello"]).exits(0);
}

/// Makes the running server look like one of an earlier version.
fn make_older(home: &Home) {
    let file = home.data().join("server.json");
    let mut server: Value = serde_json::from_slice(&std::fs::read(&file).expect("a server")).expect("JSON");
    server["version"] = "0.0.9".into();
    std::fs::write(&file, server.to_string()).expect("a writable file");
}

#[test]
fn an_older_server_is_replaced_when_it_is_idle() {
    let home = home();
    home.run(&["run", "echo", "hello"]).exits(0);
    let first = server(&home);
    make_older(&home);
    let replaced = home.run(&["run", "echo", "hello"]).exits(0);
    assert!(replaced.stderr.contains("the server of drawloom 0.0.9"), "{replaced:?}");
    let second = server(&home);
    assert_ne!(first["pid"], second["pid"]);
    // A busy one goes on.
    let run = home.run(&["run", "echo", "never", "--detach", "--json"]).exits(0).json();
    make_older(&home);
    let noted = home.run(&["run", "echo", "hello"]).exits(0);
    assert!(noted.stderr.contains("older than this command") && noted.stderr.contains("drawloom restart"), "{noted:?}");
    assert_eq!(server(&home)["pid"], second["pid"]);
    home.run(&["runs", "cancel", run["run_id"].as_str().expect("a run")]).exits(0);
}

#[test]
fn a_command_that_waits_says_when_the_server_it_waits_for_has_stopped() {
    let home = home();
    let run = home.run(&["run", "echo", "never", "--detach", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run");
    let waiting = [&["runs", "show", run, "--wait"][..], &["runs", "tail", run]].map(|command| spawn(&home, command));
    // Both are connected before the server stops.
    let url = server(&home)["url"].as_str().expect("an address").to_owned();
    let port = url.rsplit_once(':').expect("a port").1.parse::<u16>().expect("a port");
    let clients = || {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("a list of connections");
        table.matches(&format!("0100007F:{port:04X} 01")).count()
    };
    while clients() < 2 {
        std::thread::yield_now();
    }
    home.run(&["stop"]).exits(0);
    for child in waiting {
        let ended = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("interrupted") && said.contains("drawloom restart"), "{said}");
        assert!(!ended.status.success());
    }
}

#[test]
fn serve_can_be_stopped_while_it_waits_for_another_command() {
    let home = home();
    home.run(&["run", "echo", "hello"]).exits(0);
    home.run(&["stop"]).exits(0);
    let held = std::fs::File::open(home.data().join("start.lock")).expect("a lock file");
    held.lock().expect("a lock");
    let mut serve = spawn(&home, &["serve", "--log", "debug"]);
    let pid = Pid::from_child(&serve);
    // Its signals are caught once it has another thread than the first.
    while std::fs::read_dir(format!("/proc/{}/task", serve.id())).map_or(0, Iterator::count) < 2 {
        std::thread::yield_now();
    }
    while serve.try_wait().expect("it can be asked").is_none() {
        // It may have ended.
        _ = kill_process(pid, Signal::TERM);
        std::thread::yield_now();
    }
    drop(held);
    home.run(&["run", "echo", "hello"]).exits(0);
}

#[test]
fn reads_need_neither_a_right_config_nor_a_token() {
    let home = home();
    let run = interrupted_run(&home);
    home.write("drawloom.yaml", &format!("{CONFIG}volumes: {{ gone: {{ path: not-there }} }}\nnonsense: 1\n"));
    home.run(&["runs", "list"]).exits(0);
    home.run(&["runs", "show", &run]).exits(0);
    home.run(&["agents", "list"]).exits(2);
    // A server with such an agent would need a token.
    let open = CONFIG.replace("tools: [], agents: [], hosts: []", "tools: [Bash], agents: [], hosts: ['*']");
    home.write("drawloom.yaml", &format!("{open}tools: {{ bash: {{ enabled: true, network: host }} }}\n"));
    home.run(&["serve", "--config", "drawloom.yaml"]).exits(2);
    home.run(&["runs", "list"]).exits(0);
    home.run(&["agents", "list"]).exits(0);
    home.run(&["run", "echo", "hello", "--embedded", "--config", "drawloom.yaml"]).exits(0);
    home.run(&["runs", "cancel", &run]).exits(0);
}

#[test]
fn a_cancel_where_nothing_ever_ran_makes_no_store() {
    let home = home();
    home.run(&["runs", "cancel", "r_00000000000000000000000000000000"]).exits(2);
    assert!(!home.data().join("drawloom.db").exists());
}

#[test]
fn the_token_of_the_data_directory_can_be_given_and_is_used_for_the_own_address() {
    let home = home();
    home.run(&["run", "echo", "hello"]).exits(0);
    let url = server(&home)["url"].as_str().expect("an address").to_owned();
    home.run(&["runs", "list", "--url", &url]).exits(0);
    home.run(&["stop"]).exits(0);
    let token = std::fs::read_to_string(home.data().join("token")).expect("a token");
    home.finish(home.command(&["run", "echo", "hello"]).env("DRAWLOOM_TOKEN", &token)).exits(0);
    home.finish(home.command(&["runs", "list"]).env("DRAWLOOM_TOKEN", &token)).exits(0);
}

#[test]
fn paths_for_commands_cannot_show_the_data_of_any_project() {
    let home = home();
    std::fs::create_dir_all(home.path().join(".local/share/drawloom/projects")).expect("a directory");
    for path in [home.path().to_owned(), home.data(), home.path().join(".local/share")] {
        for section in [
            json!({ "tools": { "bash": { "enabled": true, "readable_paths": [path] } } }),
            json!({ "clis": { "codex": { "readable_paths": [path] } } }),
            json!({ "clis": { "codex": { "writable_paths": [path] } } }),
            json!({ "goals": { "readable_paths": [path] } }),
        ] {
            let (key, value) = section.as_object().and_then(|section| section.iter().next()).expect("a section");
            home.write("drawloom.yaml", &format!("{CONFIG}{key}: {value}\n"));
            let refused = home.run(&["run", "echo", "hello", "--config", "drawloom.yaml"]).exits(2);
            assert!(refused.stderr.contains("shows commands the data directory"), "{path:?}: {refused:?}");
        }
    }
}

#[test]
fn a_server_that_cannot_listen_leaves_the_one_in_the_background_alone_and_a_stop_names_what_goes_on() {
    let home = Home::new();
    let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    home.write("drawloom.yaml", &format!("{config}concurrency: {{ drain_timeout_ms: 100 }}\n"));
    let run = home.run(&["run", "echo", "slow", "--detach", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("an id").to_owned();
    let server = || home.run(&["status", "--json"]).exits(0).json()["server"]["pid"].clone();
    let before = server();
    assert!(before.is_u64(), "a server runs");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let refused = home.run(&["serve", "--json", "--listen", &address]).exits(2).json();
    assert_eq!(refused["error"]["code"], "cannot_listen", "{refused}");
    assert_eq!(server(), before, "it still runs");
    // The port of the server that gives way is no obstacle.
    let url = home.run(&["status", "--json"]).exits(0).json()["server"]["url"].as_str().expect("a URL").to_owned();
    let mut replacing =
        home.serve_with(home.command(&["serve", "--json", "--listen", url.trim_start_matches("http://")]));
    assert_eq!(replacing.url, url);
    assert_ne!(server(), before, "it was replaced");
    let stopped = home.run(&["stop"]).exits(0);
    assert!(
        stopped.stderr.contains(&format!("1 active run, {run} (echo), goes on when the server starts again")),
        "{stopped:?}"
    );
    replacing.child.wait().expect("it ends");
}

#[test]
fn what_the_caller_has_open_does_not_reach_the_server_that_it_starts() {
    use rustix::fs::{FlockOperation, flock};
    let home = home();
    let path = home.path().join("secret");
    std::fs::write(&path, "canary").expect("a file");
    // A shell has the file open as descriptor 9, with a lock, for as long as the command runs.
    let command = home.command(&["run", "echo", "hello"]);
    let mut shell = std::process::Command::new("/bin/sh");
    shell.env_clear().env("PATH", "/usr/bin:/bin").args(["-c", "exec 9<\"$0\" && flock -x 9 && exec \"$@\""]);
    shell.arg(&path).arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().unwrap_or(home.path()));
    let ran = shell.output().expect("it runs");
    assert!(ran.status.success(), "{ran:?}");
    let pid = server(&home)["pid"].as_i64().expect("a server");
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files");
    let open: Vec<_> = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
    assert!(!open.contains(&path), "{open:?}");
    let again = std::fs::File::open(&path).expect("the file");
    flock(&again, FlockOperation::NonBlockingLockExclusive).expect("the lock is free while the server runs");
}
