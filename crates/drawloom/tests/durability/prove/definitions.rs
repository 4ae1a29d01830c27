//! Definitions under load: one writer creates, forks, promotes and retires while runs start and the server is killed at random. Every
//! run has the version that was active at some moment between its request and its answer, and no version is lost or made twice.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use serde_json::{Value, json};

use super::{Dice, pass, say, setting};
use crate::{
    http::{get, send},
    process::{Case, Server},
};

const STARTERS: u64 = 4;

/// An agent says which version it is: the tool `Context` knows it.
const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - { when: { turn: 1 }, calls: [{ tool: Context, input: { op: self } }] }
        - { text: "{{last}}" }
defaults: { provider: script, model: m }
agents: {}
"#;

/// From when to when, in microseconds since the beginning, something was asked for and answered.
#[derive(Debug, Clone, Copy)]
struct Span {
    asked: u64,
    answered: u64,
}

/// A change after which a version, or none, was active.
#[derive(Debug, Clone, Copy)]
struct Change {
    span: Span,
    active: Option<u64>,
}

/// A start that was answered: with the version of its run, or refused because there was none.
#[derive(Debug, Clone, Copy)]
struct Start {
    span: Span,
    version: Option<u64>,
}

struct Load {
    began: Instant,
    url: Mutex<String>,
    changes: Mutex<Vec<Change>>,
    runs: Mutex<Vec<(Span, Option<String>)>>,
    is_over: AtomicBool,
    kills: AtomicU64,
}

impl Load {
    fn now(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// Asks until there is an answer, under one idempotency key.
    fn ask(&self, path: &str, key: &str, body: &Value) -> (u16, Value, Span) {
        let headers = [("Content-Type", "application/json"), ("Accept", "application/json"), ("Idempotency-Key", key)];
        let asked = self.now();
        loop {
            let url = self.url.lock().expect("no panic").clone();
            let answer = send(&url, "POST", path, &headers, &body.to_string())
                .and_then(|answer| Ok((answer.status, answer.json()?)));
            match answer {
                Ok((status, answer)) if status < 500 => {
                    return (status, answer, Span { asked, answered: self.now() });
                }
                Ok(_) | Err(_) => pass(5),
            }
        }
    }

    fn change(&self, path: &str, key: &str, body: &Value) -> (Value, Span) {
        let (status, answer, span) = self.ask(path, key, body);
        assert_eq!(status, 200, "{path} {body}: {answer}");
        (answer, span)
    }

    /// The only writer, so that it knows what each answer must be.
    fn write(&self, changes: u64, seed: u64) -> Vec<bool> {
        let _end = End(self);
        let mut dice = Dice::new(seed);
        // Whether each version, from 1 on, is retired.
        let mut retired: Vec<bool> = Vec::new();
        let mut active = None;
        for number in 0..changes {
            let key = format!("c{number}");
            let usable: Vec<u64> =
                (1..).zip(&retired).filter(|(_, retired)| !**retired).map(|(version, _)| version).collect();
            let chosen = (!usable.is_empty()).then(|| usable[dice.roll(0, usable.len() as u64) as usize]);
            let source = json!({ "system_prompt": format!("Number {number}."), "tools": ["Context"] });
            let (answer, span) = match (dice.roll(0, 6), chosen, active) {
                (0 | 1, _, _) | (_, None, _) => {
                    let body = json!({ "kind": "agent", "name": "a", "source": source });
                    let done = self.change("/v1/definitions", &key, &body);
                    retired.push(false);
                    active = Some(retired.len() as u64);
                    assert_eq!(done.0["version"].as_u64(), active, "{}", done.0);
                    done
                }
                (2, Some(version), _) => {
                    let changes = json!({ "system_prompt": format!("Fork {number}.") });
                    let body = json!({ "kind": "agent", "from": format!("a@{version}"), "changes": changes });
                    let done = self.change("/v1/definitions:fork", &key, &body);
                    retired.push(false);
                    assert_eq!(done.0["version"].as_u64(), Some(retired.len() as u64), "{}", done.0);
                    done
                }
                (3, _, Some(version)) => {
                    let body = json!({ "kind": "agent", "name": "a", "version": version });
                    retired[version as usize - 1] = true;
                    active = None;
                    self.change("/v1/definitions:retire", &key, &body)
                }
                (_, Some(version), _) => {
                    let body = json!({ "kind": "agent", "name": "a", "version": version });
                    active = Some(version);
                    self.change("/v1/definitions:promote", &key, &body)
                }
            };
            assert_eq!(answer["name"], "a");
            self.changes.lock().expect("no panic").push(Change { span, active });
        }
        retired
    }

    fn start_runs(&self, starter: u64) {
        for number in 0.. {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let body = json!({ "agent": "a", "prompt": "go", "mode": "detach" });
            let (status, answer, span) = self.ask("/v1/runs", &format!("r{starter}-{number}"), &body);
            let run = match status {
                202 => Some(answer["run_id"].as_str().expect("a run").to_owned()),
                404 | 409 => None,
                _ => panic!("{status} {answer}"),
            };
            self.runs.lock().expect("no panic").push((span, run));
            if status != 202 {
                pass(2);
            }
        }
    }
}

/// Ends the load, also when the writer fails.
struct End<'a>(&'a Load);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

/// Whether a version, or none, can have been active at a moment of the span.
fn fits(changes: &[Change], start: &Start) -> bool {
    let first = (start.version.is_none()
        && changes.first().is_none_or(|change| change.span.answered >= start.span.asked))
    .then_some(true);
    let later = changes.iter().enumerate().any(|(index, change)| {
        let until = changes.get(index + 1).map_or(u64::MAX, |next| next.span.answered);
        change.active == start.version && change.span.asked <= start.span.answered && start.span.asked <= until
    });
    first.unwrap_or(later)
}

#[test]
fn every_run_has_a_version_that_was_active_when_it_was_accepted() {
    let (seed, kills, changes) = (setting("PROVE_SEED", 16), setting("PROVE_KILLS", 3), setting("PROVE_CHANGES", 60));
    let case = Case::new(CONFIG);
    let mut server: Server = case.start(&json!({}));
    let load = Load {
        began: Instant::now(),
        url: Mutex::new(server.url.clone()),
        changes: Mutex::default(),
        runs: Mutex::default(),
        is_over: AtomicBool::new(false),
        kills: AtomicU64::new(0),
    };
    let retired = thread::scope(|scope| {
        let writer = scope.spawn(|| load.write(changes, seed));
        for starter in 0..STARTERS {
            let load = &load;
            scope.spawn(move || load.start_runs(starter));
        }
        let mut dice = Dice::new(seed + 1);
        while load.kills.load(Ordering::SeqCst) < kills && !load.is_over.load(Ordering::SeqCst) {
            pass(dice.roll(50, 400));
            server.kill();
            server = case.start(&json!({}));
            *load.url.lock().expect("no panic") = server.url.clone();
            load.kills.fetch_add(1, Ordering::SeqCst);
        }
        writer.join().expect("the writer's answers are right")
    });
    // No version is lost or made twice.
    let listed = get(&server.url, "/v1/definitions?name=a");
    let states: Vec<bool> = listed["versions"]
        .as_array()
        .expect("versions")
        .iter()
        .map(|row| row["retired"].as_bool().expect("a state"))
        .collect();
    assert_eq!(states, retired, "{listed}");
    let changes = load.changes.lock().expect("no panic").clone();
    let runs = load.runs.lock().expect("no panic").clone();
    let (mut started, mut refused) = (0, 0);
    for (span, run) in runs {
        let version = run.as_ref().map(|run| {
            let found = get(&server.url, &format!("/v1/runs/{run}?wait_ms=60000"));
            let text = found["final_text"].as_str().unwrap_or_else(|| panic!("{found}"));
            let about: Value = serde_json::from_str(text).expect("Context answers JSON");
            about["version"].as_u64().expect("a version")
        });
        let start = Start { span, version };
        assert!(fits(&changes, &start), "{run:?} {start:?} among {changes:#?}");
        started += u64::from(version.is_some());
        refused += u64::from(version.is_none());
    }
    assert!(started > 10, "{started} runs started: the load is too small");
    say(&format!(
        "seed {seed}: {} changes of one name, {started} runs started and {refused} refused, {} kills: every run had an active version",
        changes.len(),
        load.kills.load(Ordering::SeqCst)
    ));
}
