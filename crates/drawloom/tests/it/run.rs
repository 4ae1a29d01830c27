//! `run` and `batch`, without a server.

use crate::support::Home;

#[test]
fn a_run_prints_its_text_and_nothing_else_on_stdout() {
    let home = Home::new();
    let ran = home.run(&["run", "echo", "hello there"]).exits(0);
    assert_eq!(ran.stdout, "hello there\n");
    let lines: Vec<&str> = ran.stderr.lines().map(|line| line.split("r_").next().unwrap_or_default()).collect();
    assert_eq!(lines.len(), 2, "{ran:?}");
    assert!(lines[0] == "run " && lines[1].starts_with("✓ completed  "), "{ran:?}");
}

#[test]
fn tools_are_shown_beside_the_text() {
    let ran = Home::new().run(&["run", "echo", "read it"]).exits(0);
    assert_eq!(ran.stdout, "the note says: remember the milk\n");
    assert!(ran.stderr.contains("✓ Read note.txt  ") && ran.stderr.contains(", 17 B\n"), "{ran:?}");
}

#[test]
fn the_prompt_can_come_from_stdin() {
    let home = Home::new();
    assert_eq!(home.run_with_input(&["run", "echo", "-"], "piped").exits(0).stdout, "piped\n");
    assert_eq!(home.run_with_input(&["run", "echo"], "piped too").exits(0).stdout, "piped too\n");
    let nothing = home.run(&["run", "echo"]).exits(3);
    assert_eq!(nothing.stderr, "error: the prompt on stdin is empty\n");
}

#[test]
fn a_run_that_fails_exits_1_and_says_why() {
    let home = Home::new();
    let ran = home.run(&["run", "echo", "boom"]).exits(1);
    assert!(ran.stderr.contains("error: the model refused: it went boom (model_refused)"), "{ran:?}");
    let json = home.run(&["run", "echo", "boom", "--json"]).exits(1).json();
    assert_eq!((&json["status"], &json["error"]["code"]), (&"failed".into(), &"model_refused".into()));
}

#[test]
fn a_run_can_have_a_time_limit() {
    let json = Home::new().run(&["run", "echo", "slow", "--timeout", "1", "--json"]).exits(1).json();
    assert_eq!(json["status"], "timed_out");
}

#[test]
fn a_run_that_is_interrupted_is_cancelled_and_says_so() {
    use std::{
        io::{BufRead as _, BufReader, Read as _},
        process::Stdio,
    };
    let home = Home::new();
    let mut child = home.command(&["run", "echo", "slow"]).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("it says which run it is");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
    let run = line.trim().trim_start_matches("run ");
    assert!(rest.starts_with("cancelling; Ctrl-C again leaves at once\n✗ cancelled  "), "{rest}");
    assert_eq!(home.run(&["runs", "show", run, "--json"]).exits(0).json()["status"], "cancelled");
}

#[test]
fn an_unknown_agent_exits_2_with_the_agents_that_there_are() {
    let home = Home::new();
    let ran = home.run(&["run", "ecko", "hi"]).exits(2);
    assert!(ran.stderr.starts_with("error: unknown agent \"ecko\"\nhint: "), "{ran:?}");
    let json = home.run(&["run", "ecko", "hi", "--json"]).exits(2).json();
    assert_eq!(json["error"]["code"], "unknown_agent");
}

#[test]
fn one_key_is_one_run() {
    let home = Home::new();
    let first = home.run(&["run", "echo", "hi", "--json", "--idempotency-key", "k"]).exits(0).json();
    let again = home.run(&["run", "echo", "hi", "--json", "--idempotency-key", "k"]).exits(0).json();
    assert_eq!(first["run_id"], again["run_id"]);
    let other = home.run(&["run", "echo", "other", "--json", "--idempotency-key", "k"]).exits(2).json();
    assert_eq!(other["error"]["code"], "idempotency_key_reused");
}

#[test]
fn leaving_a_run_behind_needs_a_server() {
    let ran = Home::new().run(&["run", "echo", "hi", "--detach", "--embedded"]).exits(2);
    assert!(ran.stderr.contains("'--detach' cannot be used with '--embedded'"), "{ran:?}");
}

#[test]
fn a_batch_shows_every_result_by_index() {
    let home = Home::new();
    let json = home.run(&["batch", "--agent", "echo", "--json", "one", "boom", "three"]).exits(1).json();
    let seen: Vec<String> = json["results"]
        .as_array()
        .expect("results")
        .iter()
        .map(|run| format!("{} {} {}", run["index"], run["status"], run["final_text"]))
        .collect();
    assert_eq!(seen, ["0 \"completed\" \"one\"", "1 \"failed\" null", "2 \"completed\" \"three\""]);
    let table = home.run(&["batch", "--agent", "echo", "one", "two"]).exits(0).stdout;
    assert!(table.contains("0  echo   completed"), "{table}");
}

#[test]
fn a_batch_can_come_from_a_file() {
    let home = Home::new();
    home.write("batch.yaml", "- { agent: echo, prompt: one }\n- { agent: echo, prompt: two }\n");
    home.run(&["batch", "batch.yaml"]).exits(0);
    home.write("batch.json", r#"{"spawns": [{"agent": "echo", "prompt": "one"}]}"#);
    home.run(&["batch", "batch.json"]).exits(0);
    home.write("bad.yaml", "- { agent: echo, promt: one }\n- 3\n");
    let ran = home.run(&["batch", "bad.yaml"]).exits(2);
    assert_eq!(
        ran.stderr,
        "error: invalid batch: 2 problems\n  \
         spawns[0].promt is not a known key (did you mean prompt?)\n  \
         spawns[1] must be an object, not 3\n\
         hint: a batch is a list of runs: - { agent: AGENT, prompt: PROMPT }\n"
    );
}

#[test]
fn a_reader_who_goes_away_is_no_error() {
    use std::process::Stdio;
    let home = Home::new();
    let mut child = home
        .command(&["config", "schema"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn reasoning_is_shown_beside_the_text_when_somebody_wants_it() {
    let home = Home::new();
    home.write(
        "drawloom.yaml",
        "providers: { script: { driver: script, options: { rules: [{ thinking: let me see, text: it is so }] } } }\n\
         defaults: { provider: script, model: test }\n\
         agents: { echo: { tools: [], agents: [], volumes: [] } }\n",
    );
    let plain = home.run(&["run", "echo", "is it?"]).exits(0);
    assert!(!plain.stderr.contains("let me see"), "{plain:?}");
    let thinking = home.run(&["run", "echo", "is it?", "--thinking"]).exits(0);
    assert_eq!(thinking.stdout, "it is so\n");
    assert!(thinking.stderr.contains("let me see\n"), "{thinking:?}");
}
