//! A store that is deleted under a running server, and volumes that would let agents delete it.

use std::fs;

use serde_json::json;

use crate::{
    mcp::client::{Client, Era},
    support::Home,
};

#[test]
fn a_server_whose_data_is_deleted_says_so_and_no_second_one_starts_beside_it() {
    let home = Home::new();
    let mut server = home.serve();
    let via = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        home.finish(command.env("DRAWLOOM_URL", &server.url))
    };
    via(&["run", "echo", "hi"]).exits(0);
    let host = Client::open(&server.url, Era::Stateless);
    let uri = "drawloom://runs/{run_id}";
    let complete = || {
        let params =
            json!({ "ref": { "type": "ref/resource", "uri": uri }, "argument": { "name": "run_id", "value": "r_" } });
        host.ask("completion/complete", params).to_string()
    };
    assert!(complete().contains("\"r_"), "it proposes the run");
    fs::remove_dir_all(home.data()).expect("the data directory");
    for arguments in [&["run", "echo", "hi", "--json"][..], &["runs", "list", "--json"]] {
        let ran = via(arguments);
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!((ran.stdout.clone() + &ran.stderr).contains("store_gone"), "{ran:?}");
    }
    assert!(complete().contains("store_gone"), "not an empty list");
    for path in ["/healthz", "/readyz"] {
        let health = get(&server.url, path);
        assert!(health.starts_with("HTTP/1.1 503") && health.contains("store_gone"), "{path}: {health}");
    }
    // The lock file went with the directory; the server still has the path.
    let second = home.run(&["serve", "--json", "--listen", "127.0.0.1:0"]).exits(1).json();
    assert_eq!(second["error"]["code"], json!("store_gone"), "{second}");
    let said = server.stop_and_read();
    assert!(said.contains("was deleted or moved while the server was using it"), "{said}");
    assert_eq!(said.matches("cannot write a group of entries").count(), 1, "said once:\n{said}");
    home.serve();
}

/// Commands that need neither data nor a server of the project.
const OTHERS: &[&str] = &[
    "drawloom agents show",
    "drawloom init",
    "drawloom import claude-code",
    "drawloom mcp install",
    "drawloom mcp uninstall",
    "drawloom projects list",
    "drawloom projects rm",
    "drawloom skills list",
    "drawloom skills show",
    "drawloom validate",
    "drawloom config schema",
    "drawloom config show",
    "drawloom trust",
    "drawloom demo",
    "drawloom goal demo",
    "drawloom completions",
    "drawloom complete",
    "drawloom man",
];

#[test]
fn every_command_says_the_same_of_data_that_was_deleted_under_a_server() {
    every_command_says("data", |home| fs::remove_dir_all(home.data()));
}

#[test]
fn every_command_says_the_same_of_a_store_that_was_deleted_under_a_server() {
    every_command_says("data/drawloom.db", |home| fs::remove_file(home.data().join("drawloom.db")));
}

/// Walks all commands after `delete` has removed `lost` under a server.
fn every_command_says(lost: &str, delete: impl Fn(&Home) -> std::io::Result<()>) {
    let home = Home::new();
    let server = home.serve();
    let mut command = home.command(&["run", "echo", "hi"]);
    home.finish(command.env("DRAWLOOM_URL", &server.url)).exits(0);
    delete(&home).expect("it was there");
    let pid = server.child.id();
    for (file, text) in [
        ("reviews.yaml", "[{ agent: echo, prompt: hi }]\n"),
        ("memory.jsonl", "{ \"key\": \"k\", \"value\": 1 }\n"),
        ("writer.yaml", "{ description: Writes. }\n"),
        ("style.yaml", "{ description: A style. }\n"),
    ] {
        home.write(file, text);
    }
    let message = format!("<home>/{lost} was deleted, moved or replaced while process {pid} was using it");
    let mut walked = 0;
    for (path, line) in crate::help::first_examples() {
        if OTHERS.contains(&path.as_str()) {
            continue;
        }
        let line = match path.as_str() {
            "drawloom call" => "drawloom call list_runs".to_owned(),
            "drawloom goal run" => format!("{line} --no-cwd"),
            _ => line,
        };
        let mut words = crate::help::words(&line);
        words.remove(0);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = home.run(&words);
        assert_ne!(ran.code, 0, "{line}: {ran:#?}");
        let said = format!("{}{}", ran.stdout, ran.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(&message) && said.contains(&format!("kill {pid}")), "{line}: {ran:#?}");
        assert!(!home.path().join(lost).exists(), "{line} made new data");
        walked += 1;
    }
    assert!(walked > 60, "{walked}");
}

#[test]
fn a_server_whose_data_is_deleted_does_not_stay_for_ever() {
    let home = Home::new();
    let mut server = home.serve_with(home.command(&["serve", "--json", "--log", "warn", "--idle-exit", "1"]));
    fs::remove_dir_all(home.data()).expect("the data directory");
    assert!(server.child.wait().expect("it ends").success());
}

#[test]
fn a_log_that_was_removed_after_a_crash_is_noticed_at_the_start_and_told_until_somebody_takes_note() {
    let home = Home::new();
    let server = home.serve();
    home.run(&["run", "echo", "hi", "--url", &server.url]).exits(0);
    server.kill();
    assert_eq!(home.run(&["status", "--json"]).exits(0).json()["lost"], json!(null));
    for ending in ["-wal", "-shm"] {
        fs::remove_file(home.data().join(format!("drawloom.db{ending}"))).expect("it was there");
    }
    let missing = "all changes of the last time that the store was open are missing";
    let said = home.serve().stop_and_read();
    assert!(said.contains(missing), "{said}");
    let status = home.run(&["status"]).exits(0).stderr;
    assert!(status.contains(missing) && status.contains("restore a backup with"), "{status}");
    let doctor = home.run(&["doctor"]).exits(1).stdout;
    assert!(doctor.contains(missing), "{doctor}");
    fs::remove_file(home.data().join("written.json")).expect("the mark");
    let said = home.serve().stop_and_read();
    assert!(!said.contains(missing), "{said}");
    assert_eq!(home.run(&["status"]).exits(0).stderr, "");
}

/// One request by hand; the whole answer.
fn get(url: &str, path: &str) -> String {
    send(url, "GET", path, "")
}

/// The same with a method and a body of JSON.
pub(crate) fn send(url: &str, method: &str, path: &str, body: &str) -> String {
    use std::io::{Read as _, Write as _};
    let address = url.strip_prefix("http://").expect("an address");
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    if !body.is_empty() {
        let length = body.len();
        head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"));
        head.push_str("Accept: application/json, text/event-stream\r\n");
    }
    write!(stream, "{head}\r\n{body}").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_volume_around_or_inside_the_data_directory_is_refused() {
    let home = Home::new();
    fs::create_dir_all(home.data().join("inside")).expect("a directory");
    std::os::unix::fs::symlink(home.data(), home.path().join("link")).expect("a link");
    for (path, mode, how, could) in [
        (".", "rw", "contains the data directory", "change"),
        ("data", "ro", "contains the data directory", "read"),
        ("link", "rw", "contains the data directory", "change"),
        ("data/inside", "ro", "is inside the data directory", "read"),
    ] {
        home.write("more.yaml", &format!("volumes: {{ bad: {{ path: {path:?}, mode: {mode} }} }}\n"));
        let layers = ["--config", "drawloom.yaml", "--config", "more.yaml"];
        for command in [&["serve"][..], &["run", "echo", "hi"]] {
            let ran = home.run(&[command, &layers].concat()).exits(2);
            let said = format!("volumes.bad.path: volume bad {how} <home>/data: its agents could {could} every run");
            assert!(ran.stderr.contains(&said), "{path}: {}", ran.stderr);
        }
        // Those who only look say the same.
        let said = format!("volume bad {how} <home>/data: its agents could {could} every run");
        let ran = home.run(&[&["validate"][..], &layers].concat()).exits(2);
        assert!(ran.stderr.contains(&said), "{path}: {}", ran.stderr);
        let ran = home.run(&[&["doctor", "--json"][..], &layers].concat()).exits(1).json();
        let checks = ran["checks"].as_array().expect("checks");
        let failed = checks.iter().find(|check| check["what"] == "config" && check["verdict"] == "fail");
        assert!(
            failed.is_some_and(|check| check["message"].as_str().unwrap_or_default().contains(&said)),
            "{path}: {ran}"
        );
    }
    // Also before there is one.
    fs::remove_dir_all(home.data()).expect("the data directory");
    home.write("more.yaml", "volumes: { bad: { path: . } }\n");
    let ran = home.run(&["validate", "drawloom.yaml", "more.yaml"]).exits(2);
    assert!(ran.stderr.contains("volume bad contains the data directory"), "{}", ran.stderr);
    assert!(!home.data().exists(), "to look makes nothing");
}
