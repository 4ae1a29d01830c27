//! A command that outlives the server for its grace: the model hears "in doubt" only when the command can have no effect any
//! more.

use std::{
    fs::{self, File},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use crate::{
    http::{get, post, send},
    process::{Case, Server},
    prove::pass,
};

/// The first command ignores the request to end and goes on writing. A model that looks twice and sees it grow was told too early.
const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - when: { agent: worker, turn: 1 }
          calls:
            - tool: Bash
              input:
                command: "trap '' TERM; while :; do echo tick >> ticks; sleep 0.01; done"
                timeout_seconds: 60
        - when: { agent: worker, turn: 2 }
          calls: [{ tool: Bash, input: { command: "cat ticks | wc -l; sleep 0.5; cat ticks | wc -l" } }]
        - when: { agent: worker }
          text: "{{last}}"
tools: { bash: { enabled: true } }
volumes:
  files: { path: "FILES", mode: rw, default: true }
agents:
  worker: { provider: script, model: m, tools: [Bash] }
"#;

/// Longer than anything here takes.
const HANGS: Duration = Duration::from_secs(180);

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < HANGS, "{what}");
        pass(5);
    }
}

/// A server with a run whose first command writes.
fn begin(case: &Case) -> (Server, String) {
    let server = case.start(&json!({}));
    let body = json!({ "agent": "worker", "prompt": "work", "mode": "detach" });
    let answer = post(&server.url, "/v1/runs", &body).expect("an answer").json().expect("ids");
    let run = answer["run_id"].as_str().expect("an id").to_owned();
    until("the command writes", || (case.lines("files/ticks").len() > 2).then_some(()));
    (server, run)
}

#[test]
fn a_command_is_in_doubt_only_when_it_can_have_no_effect_any_more() {
    let case = Case::new(CONFIG);
    let (mut server, run) = begin(&case);
    server.kill();
    let server = case.start(&json!({}));
    let result: Value = until("the run ends", || {
        let run = get(&server.url, &format!("/v1/runs/{run}"));
        matches!(run["status"].as_str(), Some("completed" | "failed")).then_some(run)
    });
    assert_eq!(result["status"], "completed", "{result}");
    let text = result["final_text"].as_str().expect("a text");
    let counts: Vec<&str> = text.lines().take(2).collect();
    assert_eq!(counts[0], counts[1], "nothing was written after the model was told: {text}");
    let events = send(&server.url, "GET", &format!("/v1/runs/{run}/events?from_seq=0"), &[], "").expect("events");
    let events = events.text().expect("a stream that ends");
    assert!(events.contains("in doubt"), "{events}");
    assert!(!events.contains("may still be running"), "{events}");
}

/// The config may have turned commands off in the meantime: the old one is waited for all the same.
#[test]
fn a_command_is_waited_for_when_commands_were_turned_off_meanwhile() {
    let case = Case::new(CONFIG);
    let (mut server, run) = begin(&case);
    let mut locks =
        fs::read_dir(case.path("data/tmp")).expect("a directory").map(|entry| entry.expect("an entry").path());
    let lock = locks.find(|path| path.extension().is_some_and(|extension| extension == "lock"));
    let lock = File::open(lock.expect("the command's lock")).expect("it can be opened");
    server.kill();
    let config = fs::read_to_string(case.path("drawloom.yaml")).expect("the config");
    let config = config.replace("bash: { enabled: true }", "bash: { enabled: false }");
    fs::write(case.path("drawloom.yaml"), config).expect("a config");
    let server = case.start(&json!({}));
    until("the run ends", || {
        let run = get(&server.url, &format!("/v1/runs/{run}"));
        matches!(run["status"].as_str(), Some("completed" | "failed")).then_some(())
    });
    flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("the command had ended before the model was told");
    let events = send(&server.url, "GET", &format!("/v1/runs/{run}/events?from_seq=0"), &[], "").expect("events");
    let events = events.text().expect("a stream that ends");
    assert!(events.contains("in doubt"), "{events}");
}
