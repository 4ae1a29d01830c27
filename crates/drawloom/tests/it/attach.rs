//! One process per data directory: a server, and commands that find it.

use serde_json::Value;

use crate::support::Home;

#[test]
fn a_second_server_refuses_with_the_first_ones_address() {
    let home = Home::new();
    let server = home.serve();
    let ran = home.run(&["serve"]).exits(2);
    assert!(ran.stderr.starts_with("error: <home>/data is in use by `drawloom serve` (process "), "{ran:?}");
    assert!(
        ran.stderr.contains(&format!("hint: use its server at {}, or end that with `drawloom stop`", server.url)),
        "{ran:?}"
    );
}

#[test]
fn commands_beside_a_server_are_its_clients() {
    let home = Home::new();
    let server = home.serve();
    let run = home.run(&["run", "echo", "hello", "--detach", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run");
    let shown = home.run(&["runs", "show", run, "--wait", "--json"]).exits(0).json();
    assert_eq!(shown["final_text"], "hello");
    let tail = home.run(&["runs", "tail", run]).exits(0).stdout;
    assert!(tail.contains("» hello\n"), "{tail}");
    assert_eq!(home.run(&["run", "echo", "live"]).exits(0).stdout, "live\n");
    assert_eq!(home.run(&["runs", "list", "--json"]).exits(0).json()["runs"].as_array().map(Vec::len), Some(2));
    assert_eq!(home.run(&["replay", run, "--json"]).exits(0).json()["ok"], true);
    home.run(&["batch", "--agent", "echo", "a", "b"]).exits(0);
    home.run(&["demo"]).exits(0);
    assert_eq!(server.stop(), Some(0));
    // The journal is the same one, whoever asks it.
    assert_eq!(home.run(&["runs", "list", "--json"]).exits(0).json()["runs"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_run_in_the_server_can_be_cancelled_from_outside() {
    let home = Home::new();
    let _server = home.serve();
    let run = home.run(&["run", "echo", "slow", "--detach", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run");
    let cancelled = home.run(&["runs", "cancel", run, "--reason", "enough"]).exits(0).stdout;
    assert_eq!(cancelled, format!("cancelled {run}\n"));
    let shown = home.run(&["runs", "show", run, "--wait", "--json"]).exits(0).json();
    assert_eq!(shown["status"], "cancelled");
}

#[test]
fn the_address_is_in_the_data_directory_while_the_server_runs() {
    let home = Home::new();
    let file = home.data().join("server.json");
    let server = home.serve();
    let written: Value = serde_json::from_slice(&std::fs::read(&file).expect("it is there")).expect("JSON");
    assert_eq!(written["url"], server.url.as_str());
    assert_eq!(server.stop(), Some(0));
    assert!(!file.exists());
}

#[test]
fn status_and_stop_name_the_process_that_holds_the_directory_when_no_server_can_be_reached() {
    let home = Home::new();
    let server = home.serve();
    let pid = server.child.id();
    // What it announced is gone, and then its lock file too.
    for file in ["server.json", "drawloom.lock"] {
        std::fs::remove_file(home.data().join(file)).expect("removed");
        for command in ["status", "stop"] {
            let said = home.run(&[command]).exits(0);
            let all = format!("{}{}", said.stdout, said.stderr);
            assert!(all.contains(&format!("process {pid}")), "{command} without {file}: {all}");
            assert_eq!(home.run(&[command, "--json"]).exits(0).json()["held_by"]["pid"], pid);
        }
    }
    server.stop();
    let after = home.run(&["status", "--json"]).exits(0).json();
    assert_eq!(after["held_by"], Value::Null, "{after}");
}

#[test]
fn after_a_crash_commands_say_what_is_unfinished_and_leave_it_to_the_next_server() {
    let home = Home::new();
    let server = home.serve();
    let run = home.run(&["run", "echo", "slow", "--detach", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run").to_owned();
    server.kill();
    assert!(home.data().join("server.json").exists(), "a crash leaves it behind");
    let list = home.run(&["runs", "list"]).exits(0);
    assert!(list.stdout.contains("interrupted") && list.stderr.contains("drawloom restart"), "{list:?}");
    let tail = home.run(&["runs", "tail", &run]).exits(1);
    assert!(
        tail.stderr.contains("is interrupted: no process executes it\nhint: `drawloom restart` resumes"),
        "{tail:?}"
    );
    let another = home.run(&["run", "echo", "another", "--embedded"]).exits(0);
    assert_eq!(another.stdout, "another\n");
    assert!(another.stderr.contains("1 other run is interrupted; `drawloom restart` resumes them\n"), "{another:?}");
    let before = home.run(&["runs", "show", &run, "--json"]).exits(0).json();
    assert!(matches!(before["status"].as_str(), Some("running" | "queued")), "{before}");
    let _server = home.serve();
    home.run(&["serve"]).exits(2);
    home.run(&["runs", "list"]).exits(0);
    home.run(&["runs", "cancel", &run]).exits(0);
    let after = home.run(&["runs", "show", &run, "--wait", "--json"]).exits(0).json();
    assert_eq!(after["status"], "cancelled");
    let replay = home.run(&["replay", &run, "--json"]).exits(0).json();
    let steps = replay["steps"].as_array().expect("steps");
    let turns =
        steps.iter().filter(|step| step["recorded"].as_str().is_some_and(|said| said.starts_with("turn "))).count();
    assert!((1..=2).contains(&turns), "begun by the first server and resumed by the second alone: {replay}");
}

#[test]
fn a_token_closes_the_server_and_opens_it_again() {
    let home = Home::new();
    let mut command = home.command(&["serve", "--json", "--log", "warn"]);
    command.env("DRAWLOOM_TOKEN", "a-long-shared-token-of-all");
    let server = home.serve_with(command);
    // Commands of the same user read a token in the data directory; others have none.
    home.run(&["runs", "list"]).exits(0);
    let elsewhere = Home::new();
    let refused = elsewhere.run(&["runs", "list", "--url", &server.url]).exits(2);
    assert_eq!(
        refused.stderr,
        "error: a token is required\n\
         hint: send Authorization: Bearer TOKEN; the CLI takes it from DRAWLOOM_TOKEN\n"
    );
    let with = |token: &str| home.finish(home.command(&["runs", "list"]).env("DRAWLOOM_TOKEN", token));
    with("a-long-shared-token-of-all").exits(0);
    with("another-token").exits(2);
    let mut command = elsewhere.command(&["runs", "list", "--url", &server.url]);
    elsewhere.finish(command.env("DRAWLOOM_TOKEN", "a-long-shared-token-of-all")).exits(0);
}

#[test]
fn without_a_token_only_loopback_is_listened_on() {
    let home = Home::new();
    let ran = home.run(&["serve", "--listen", "0.0.0.0:0"]).exits(2);
    assert!(ran.stderr.contains("is not a loopback address\nhint: set DRAWLOOM_TOKEN"), "{ran:?}");
    let ran = home.run(&["serve", "--listen", "everywhere"]).exits(2);
    assert!(ran.stderr.contains("\"everywhere\" is not an address to listen on\nhint: write it like"), "{ran:?}");
}

#[test]
fn principals_whose_tokens_are_missing_do_not_leave_the_server_open() {
    let home = Home::new();
    home.write("more.yaml", "principals: { ann: { subject: ann, scopes: [\"runs:read\"], token_env: ANN_TOKEN } }\n");
    let arguments = ["serve", "--json", "--log", "error", "--config", "drawloom.yaml", "--config", "more.yaml"];
    let ran = home.run(&arguments).exits(2);
    assert_eq!(ran.json()["error"]["code"], "no_tokens");
    let mut command = home.command(&arguments);
    command.env("ANN_TOKEN", "the-token-of-ann-and-no-other");
    let _server = home.serve_with(command);
    let as_ann = |arguments: &[&str]| {
        home.finish(home.command(arguments).env("DRAWLOOM_TOKEN", "the-token-of-ann-and-no-other"))
    };
    as_ann(&["runs", "list"]).exits(0);
    let denied = as_ann(&["run", "echo", "hi", "--json"]).exits(2).json();
    assert_eq!(denied["error"]["code"], "insufficient_scope");
}

#[test]
fn a_server_that_is_not_there_is_an_error_that_says_so() {
    let home = Home::new();
    let ran = home.run(&["runs", "list", "--url", "http://127.0.0.1:9"]).exits(1);
    let wanted =
        "error: cannot connect to http://127.0.0.1:9\nhint: check that a server is listening at http://127.0.0.1:9\n";
    assert_eq!(ran.stderr, wanted);
}

#[test]
fn a_url_that_is_none_is_named_as_it_was_given() {
    let home = Home::new();
    for url in ["nonsense", "127.0.0.1:8787", "ftp://127.0.0.1", "http://", "http://127.0.0.1:99999", "http://a/?b"] {
        for command in [&["runs", "list"][..], &["run", "echo", "hi"], &["agents", "list"]] {
            let ran = home.run(&[command, &["--url", url]].concat()).exits(2);
            let wanted =
                format!("error: {url:?} is not the URL of a server\nhint: write it like http://127.0.0.1:8787\n");
            assert_eq!(ran.stderr, wanted, "{command:?}");
        }
        let doctor = home.run(&["doctor", "--url", url]).exits(1);
        assert!(doctor.stdout.contains(&format!("{url:?} is not the URL of a server")), "{doctor:?}");
    }
}

#[test]
fn a_secret_of_the_environment_never_reaches_the_journal() {
    let home = Home::new();
    home.write("more.yaml", "redaction: { values_env: [SECRET_WORD] }\n");
    let mut command = home.command(&[
        "run",
        "echo",
        "the word is open-sesame-42",
        "--config",
        "drawloom.yaml",
        "--config",
        "more.yaml",
    ]);
    let ran = home.finish(command.env("SECRET_WORD", "open-sesame-42")).exits(0);
    assert_eq!(ran.stdout, "the word is [redacted]\n");
    for entry in std::fs::read_dir(home.data()).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            // The temporary directory of commands, of which there were none.
            assert_eq!(std::fs::read_dir(&path).expect("a directory").count(), 0);
            continue;
        }
        let bytes = std::fs::read(&path).expect("a file");
        let found = bytes.windows(14).any(|window| window == b"open-sesame-42");
        assert!(!found, "the secret is in {}", path.display());
    }
}

#[test]
fn a_secret_on_a_command_line_is_used_and_never_kept_or_shown() {
    let home = Home::new();
    home.write(
        "more.yaml",
        r#"
redaction: { values_env: [SECRET_WORD] }
tools: { bash: { enabled: true } }
providers:
  shell:
    driver: script
    options:
      rules:
        - when: { turn: 1 }
          text: "I use open-ses"
          calls: [{ tool: Bash, input: { command: "echo open-sesame-42 | rev; echo open-sesame-42; echo [$SECRET_WORD]" } }]
        - { text: "it said {{last}} and open-sesame-42", chunks: 12 }
volumes: { box: { path: notes, mode: rw } }
agents:
  shell: { provider: shell, model: m, tools: [Bash], agents: [], volumes: [box], hosts: [] }
"#,
    );
    let mut command =
        home.command(&["run", "shell", "go", "--json", "--config", "drawloom.yaml", "--config", "more.yaml"]);
    let ran = home.finish(command.env("SECRET_WORD", "open-sesame-42")).exits(0);
    let all = format!("{}{}", ran.stdout, ran.stderr);
    // The command had the word itself; what came back, and all that was kept, has the mask.
    assert!(all.contains("24-emases-nepo") && all.contains("[redacted]") && all.contains("[]"), "{all}");
    assert!(!all.contains("open-sesame-42"), "{all}");
    let mut folders = vec![home.data()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).expect("a file");
            let found = bytes.windows(14).any(|window| window == b"open-sesame-42");
            assert!(!found, "the secret is in {}", path.display());
        }
    }
}

#[test]
fn a_relative_data_directory_is_the_same_for_commands_that_start_elsewhere() {
    let home = Home::new();
    home.write(
        "more.yaml",
        r#"
tools: { bash: { enabled: true } }
providers:
  shell:
    driver: script
    options:
      rules:
        - { when: { turn: 1 }, calls: [{ tool: Bash, input: { command: "echo hidden > $TMPDIR/x && rev $TMPDIR/x" } }] }
        - { text: "it said {{last}}" }
volumes: { box: { path: notes, mode: rw } }
agents:
  shell: { provider: shell, model: m, tools: [Bash], agents: [], volumes: [box], hosts: [] }
"#,
    );
    let words = ["run", "shell", "go", "--config", "drawloom.yaml", "--config", "more.yaml", "--data-dir", "near/data"];
    let ran = home.run(&words).exits(0);
    assert!(ran.stdout.contains("it said") && ran.stdout.contains("neddih"), "{ran:#?}");
    assert!(home.path().join("near/data/drawloom.db").exists() && !home.path().join("notes/near").exists());
}

#[test]
fn a_command_with_another_config_does_not_use_the_server() {
    let home = Home::new();
    let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    std::fs::create_dir(home.path().join("other")).expect("a directory");
    home.write("other/drawloom.yaml", &config);
    let server = home.serve();
    let there = home.path().join("other");
    // From another folder, and with the flag, relative and absolute.
    let absolute = there.join("drawloom.yaml");
    let absolute = absolute.to_str().expect("a plain path");
    for arguments in [
        vec!["run", "echo", "hi"],
        vec!["run", "echo", "hi", "--config", "drawloom.yaml"],
        vec!["run", "echo", "hi", "--config", absolute],
        vec!["agents", "list"],
    ] {
        let refused = home.command(&arguments).current_dir(&there).output().expect("the binary starts");
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("other/drawloom.yaml") && said.contains("this command found"), "{said}");
    }
    let none = home.run(&["runs", "list", "--json"]).exits(0).json();
    assert_eq!(none["runs"].as_array().map(Vec::len), Some(0), "nothing was started: {none}");
    // The same file by another name is the same config.
    let link = home.path().join("link");
    std::os::unix::fs::symlink(home.path(), &link).expect("a link");
    let same = home.command(&["run", "echo", "hi"]).current_dir(&link).output().expect("the binary starts");
    assert_eq!(same.status.code(), Some(0), "{same:?}");
    // After an edit the command says that the server that was started by hand has the old config.
    let quiet = home.run(&["run", "echo", "hi"]).exits(0);
    assert!(!quiet.stderr.contains("old version"), "{quiet:?}");
    home.write("drawloom.yaml", &format!("{config}\n# more\n"));
    let told = home.run(&["run", "echo", "hi"]).exits(0);
    assert!(told.stderr.contains("the server still uses the old version"), "{told:?}");
    let status = home.run(&["status"]).exits(0);
    assert!(status.stdout.contains("changed since the server started"), "{status:?}");
    let doctor = home.run(&["doctor"]);
    assert!(doctor.stdout.contains("the server still uses the old version"), "{doctor:?}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_in_the_background_is_restarted_for_a_config_that_has_changed_and_is_good() {
    let home = Home::new();
    let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    home.run(&["run", "echo", "hi"]).exits(0);
    let pid = || home.run(&["status", "--json"]).exits(0).json()["server"]["pid"].as_u64();
    let first = pid();
    assert!(first.is_some());
    // A broken one is refused with its mistakes, and the server stays.
    home.write("drawloom.yaml", &format!("{config}\nagentz: {{}}\n"));
    let refused = home.run(&["run", "echo", "hi"]).exits(2);
    assert!(refused.stderr.contains("agentz") && refused.stdout.is_empty(), "{refused:?}");
    assert_eq!(pid(), first);
    home.write("drawloom.yaml", &format!("{config}\n# more\n"));
    let again = home.run(&["run", "echo", "hi"]).exits(0);
    assert!(again.stderr.contains("restarted the server: ") && again.stderr.contains("has changed"), "{again:?}");
    let second = pid();
    assert!(second.is_some() && second != first, "{first:?} {second:?}");
    let quiet = home.run(&["run", "echo", "hi"]).exits(0);
    assert!(!quiet.stderr.contains("restarted"), "{quiet:?}");
    assert_eq!(pid(), second);
    home.run(&["stop"]).exits(0);
}
