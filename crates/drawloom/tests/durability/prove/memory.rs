//! Memory under stress: 64 writers with every operation on one key, more on keys of one kind and on a full quota, while the server is
//! killed at random. The history is then checked against the rules: every answer, in the order of revisions, is what the rules
//! make of the answers before it.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use drawloom_contract::time::Timestamp;
use drawloom_substrate::memory::rules::{Ask, Bounds, Change, Current, Next, apply};
use serde_json::{Value, json};

use super::{Dice, pass, say, setting};
use crate::{
    http::{get, send},
    process::{Case, Server},
};

const WRITERS: u64 = 64;

/// Keys of the quota race, of which fewer fit.
const RACED: u64 = 24;
const MAX_KEYS: usize = 16;

const CONFIG: &str = r#"
memory: { max_keys: 16, max_bytes: 131072, max_value_bytes: 8192 }
providers: { script: { driver: script } }
defaults: { provider: script, model: m }
agents: {}
"#;

/// A change that was answered.
#[derive(Debug, Clone)]
struct Done {
    key: String,
    ask: Ask,
    answer: Value,
}

/// What writers and the one who kills share.
struct Stress {
    url: Mutex<String>,
    done: Mutex<Vec<Done>>,
    refused: Mutex<BTreeMap<String, u64>>,
    writing: AtomicUsize,
}

impl Stress {
    /// Asks until there is an answer, under one idempotency key.
    fn ask(&self, method: &str, path: &str, key: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let headers = [("Content-Type", "application/json"), ("Accept", "application/json"), ("Idempotency-Key", key)];
        loop {
            let url = self.url.lock().expect("no panic").clone();
            let answer =
                send(&url, method, path, &headers, &body).and_then(|answer| Ok((answer.status, answer.json()?)));
            match answer {
                Ok((status, answer)) if status < 500 => return (status, answer),
                // The server is gone, or stopping. What it did is not known; the key says it.
                Ok(_) | Err(_) => pass(5),
            }
        }
    }

    /// Makes a change. A refusal is counted.
    fn change(&self, key: &str, ask: Ask, request: &str) {
        let path = format!("/v1/memory/tenant/keys/{key}");
        let (status, answer) = match &ask.change {
            Change::Set(value) => {
                let body = json!({ "value": value, "if_revision": ask.if_revision });
                self.ask("PUT", &path, request, &body)
            }
            Change::Delete => self.ask("DELETE", &path, request, &Value::Null),
            Change::Incr(delta) => self.ask("POST", &path, request, &json!({ "op": "incr", "delta": delta })),
            Change::Merge(value) => self.ask("POST", &path, request, &json!({ "op": "merge", "value": value })),
            Change::AppendDedupe(value) => {
                self.ask("POST", &path, request, &json!({ "op": "append_dedupe", "value": value }))
            }
            Change::BoundedList { value, limit } => {
                let body = json!({ "op": "bounded_list", "value": value, "limit": limit });
                self.ask("POST", &path, request, &body)
            }
        };
        if status == 200 {
            self.done.lock().expect("no panic").push(Done { key: key.to_owned(), ask, answer });
            return;
        }
        let code = answer["error"]["code"].as_str().unwrap_or_default().to_owned();
        assert!(["wrong_type", "stale", "over_quota", "value_too_large"].contains(&code.as_str()), "{status} {answer}");
        *self.refused.lock().expect("no panic").entry(code).or_default() += 1;
    }

    /// What one writer does: of everything, in an order by chance.
    fn write(&self, writer: u64, changes: u64, seed: u64) {
        let mut dice = Dice::new(seed * 1_000 + writer + 1);
        for number in 0..changes {
            let request = format!("w{writer}-{number}");
            let ask = |change| Ask { change, if_revision: None, ttl_seconds: None };
            let entry = json!(format!("{writer}-{}", number % 3));
            match dice.roll(0, 12) {
                0 => self.change("n", ask(Change::Incr(dice.roll(1, 9).into())), &request),
                1 => self.change("l", ask(Change::AppendDedupe(entry)), &request),
                2 => self.change("b", ask(Change::BoundedList { value: entry, limit: 5 }), &request),
                3 => self.change("o", ask(Change::Merge(json!({ format!("w{writer}"): number }))), &request),
                // A counter by compare-and-set, for which others are often first.
                4 => {
                    let (_, now) = self.ask("GET", "/v1/memory/tenant/keys/c", &request, &Value::Null);
                    let next = now["value"].as_u64().unwrap_or(0) + 1;
                    let if_revision = now["revision"].as_u64();
                    self.change("c", Ask { if_revision, ..ask(Change::Set(json!(next))) }, &request);
                }
                5 => self.change(&format!("q{}", dice.roll(0, RACED)), ask(Change::Set(entry)), &request),
                6 => self.change(&format!("q{}", dice.roll(0, RACED)), ask(Change::Delete), &request),
                // One key with every operation: most are refused for its type at that moment.
                7 => self.change(
                    "x",
                    ask(Change::Set([json!(0), json!([]), json!({})][(number % 3) as usize].clone())),
                    &request,
                ),
                8 => self.change("x", ask(Change::Incr(1.into())), &request),
                9 => self.change("x", ask(Change::AppendDedupe(entry)), &request),
                10 => self.change("x", ask(Change::Merge(json!({ "last": entry }))), &request),
                _ if number % 4 == 0 => self.change("x", ask(Change::Delete), &request),
                _ => self.change("x", ask(Change::BoundedList { value: entry, limit: 3 }), &request),
            }
        }
        self.writing.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Plays the history of all keys in the order of revisions.
fn check(done: &[Done], now: &BTreeMap<String, Value>) {
    let bounds = Bounds { value_bytes: 8_192, usual_ttl: None, longest_ttl: None };
    let revision = |done: &Done| done.answer["revision"].as_u64().expect("a revision");
    let changed_nothing =
        |done: &Done| done.answer["appended"] == json!(false) || done.answer["deleted"] == json!(false);
    let (looked, mut history): (Vec<&Done>, Vec<&Done>) = done.iter().partition(|done| changed_nothing(done));
    history.sort_by_key(|done| revision(done));
    assert!(history.windows(2).all(|pair| revision(pair[0]) < revision(pair[1])), "one revision for two changes");
    let mut keys: BTreeMap<&str, Current> = BTreeMap::new();
    let mut at: BTreeMap<(&str, u64), Value> = BTreeMap::new();
    let mut most = 0;
    for change in history {
        let before = keys.get(change.key.as_str());
        let (next, mut answer) = apply(&change.ask, before, Timestamp::from_millis(0), bounds)
            .unwrap_or_else(|refusal| panic!("{change:?} was answered, and after {before:?} it is refused: {refusal}"));
        answer["revision"] = revision(change).into();
        assert_eq!(answer, change.answer, "{change:?} after {before:?}");
        match next {
            Next::Put { value, expires_at } => {
                at.insert((&change.key, revision(change)), value.clone());
                keys.insert(&change.key, Current { value, revision: revision(change), expires_at });
            }
            Next::Removed => _ = keys.remove(change.key.as_str()),
            Next::Same => panic!("{change:?} changed nothing"),
        }
        most = most.max(keys.len());
        assert!(keys.len() <= MAX_KEYS, "{} keys at revision {}", keys.len(), revision(change));
        let bytes: usize = keys.iter().map(|(key, current)| key.len() + current.value.to_string().len()).sum();
        assert!(bytes <= 131_072, "{bytes} bytes at revision {}", revision(change));
    }
    // What was answered without a change was true at the revision that it names.
    for done in looked.into_iter().filter(|done| done.answer["appended"] == json!(false)) {
        assert_eq!(at.get(&(done.key.as_str(), revision(done))), Some(&done.answer["value"]), "{done:?}");
    }
    let last: BTreeMap<String, Value> =
        keys.into_iter().map(|(key, current)| (key.to_owned(), current.value)).collect();
    assert_eq!(last, *now, "what the store has is not what the history makes");
    assert_eq!(most, MAX_KEYS, "the quota was never reached: the race shows nothing");
    let sum = |done: &&Done| match (&*done.key, &done.ask.change) {
        ("n", Change::Incr(delta)) => delta.as_i64(),
        _ => None,
    };
    let total: i64 = done.iter().filter_map(|done| sum(&done)).sum();
    assert_eq!(now.get("n"), Some(&json!(total)), "the total is not that of the acknowledged calls");
    let sets = done.iter().filter(|done| done.key == "c").count();
    assert_eq!(now.get("c").and_then(Value::as_u64), Some(sets as u64), "a compare-and-set was lost");
}

#[test]
fn no_update_is_lost_and_no_quota_exceeded_when_64_writers_and_kills_meet() {
    let (seed, kills, changes) = (setting("PROVE_SEED", 14), setting("PROVE_KILLS", 6), setting("PROVE_CHANGES", 40));
    let case = Case::new(CONFIG);
    let start = || -> Server {
        let server = case.start(&json!({}));
        assert!(!server.url.is_empty(), "the server does not start again");
        server
    };
    let mut server = start();
    let stress = Stress {
        url: Mutex::new(server.url.clone()),
        done: Mutex::default(),
        refused: Mutex::default(),
        writing: AtomicUsize::new(WRITERS as usize),
    };
    let mut killed = 0;
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let stress = &stress;
            scope.spawn(move || stress.write(writer, changes, seed));
        }
        let mut dice = Dice::new(seed);
        while stress.writing.load(Ordering::SeqCst) > 0 && killed < kills {
            pass(dice.roll(100, 600));
            server.kill();
            killed += 1;
            server = start();
            *stress.url.lock().expect("no panic") = server.url.clone();
        }
    });
    let page = get(&server.url, "/v1/memory/tenant/keys?limit=1000");
    let entries = page["entries"].as_array().expect("entries").iter();
    let now = entries.map(|entry| (entry["key"].as_str().expect("a key").to_owned(), entry["value"].clone())).collect();
    let done = stress.done.into_inner().expect("no panic");
    check(&done, &now);
    let refused = stress.refused.into_inner().expect("no panic");
    say(&format!(
        "{} changes of {} were acknowledged and fit one order of revisions; refused: {refused:?}; {killed} kills, seed {seed}",
        done.len(),
        WRITERS * changes
    ));
}
