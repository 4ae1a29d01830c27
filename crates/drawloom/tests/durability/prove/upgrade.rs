//! An upgrade under load: an older server is killed, a new one takes over its data directory. None of its runs is lost, every
//! one ends as it should, and each effect has happened once or is in doubt.
//!
//! `./prove upgrade` begins with a fixture of an older version. `./test` begins with the fixture of this one: it shows that the
//! load is what it should be and that a takeover loses nothing; `golden.rs` and the store's tests open older formats there.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use serde_json::{Value, json};

use super::{
    Dice, pass, say, setting,
    storm::{Counts, all_runs, inspect},
};
use crate::{
    http::{Response, get, post},
    process::{Case, fixture_program},
    storm::Provider,
};

/// A lead spawns three workers, a booker is nearly always inside a call, `timer` is told to come back later, and `busy` has a provider that
/// takes two calls at once. What is slow is slow on the first attempt only, so it is under way when the server is killed.
const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      seed: SEED
      rules:
        - when: { agent: lead, turn: 1 }
          calls: [{ tool: Ledger, input: { line: "{{run}}-begins" } }]
        - when: { agent: lead, turn: 2 }
          calls:
            - tool: Agent
              input:
                op: parallel_spawn
                spawns: [{ name: worker, prompt: one }, { name: worker, prompt: two }, { name: worker, prompt: three }]
        - when: { agent: lead, turn: 3 }
          calls: [{ tool: Ledger, input: { line: "{{run}}-ends" } }]
        - when: { agent: worker, turn: 1 }
          calls: [{ tool: Ledger, input: { line: "{{run}}-a" } }]
          delay_ms: 20
        - when: { agent: worker, turn: 2, attempt: 1 }
          calls: [{ tool: Write, input: { path: "out-{{run}}.txt", content: "of {{run}}" } }]
          delay_ms: 250
        - when: { agent: worker, turn: 2 }
          calls: [{ tool: Write, input: { path: "out-{{run}}.txt", content: "of {{run}}" } }]
        - when: { agent: worker, turn: 3 }
          calls: [{ tool: Ledger, input: { line: "{{run}}-b" } }]
        - { when: { agent: booker, turn: 13 }, text: booked }
        - { when: { agent: booker }, calls: [{ tool: Ledger, input: { line: "{{run}}-{{turn}}" } }] }
        - { when: { agent: timer, attempt: 1 }, fail: { kind: throttled, message: "429", retry_after_ms: 1500 } }
        - { text: "done", chunks: 4, chunk_delay_ms: 5 }
  busy: { driver: anthropic, base_url: "http://PROVIDER" }
concurrency: { max_concurrent_runs: 10 }
defaults: { provider: script, model: m }
volumes:
  files: { path: "FILES", mode: rw, default: true }
agents:
  lead: { tools: [Agent, Ledger], agents: [worker], hosts: [] }
  worker: { tools: [Ledger, Write], agents: [], hosts: [] }
  booker: { tools: [Ledger], agents: [], hosts: [] }
  timer: { tools: [], retry_attempts: 12 }
  busy: { provider: busy, model: m, tools: [], retry_attempts: 20 }
"#;

/// Unfinished runs of one moment, by what they did.
#[derive(Debug, Default, Clone, Copy)]
struct Moment {
    queued: usize,
    running: usize,
    /// Parked until their children end.
    for_children: usize,
    /// Parked until a time.
    for_a_time: usize,
    /// Parked until their provider takes another call.
    throttled: usize,
}

impl Moment {
    fn has_every_kind(&self) -> bool {
        let Self { queued, running, for_children, for_a_time, throttled } = *self;
        [queued, running, for_children, for_a_time, throttled].iter().all(|count| *count > 0)
    }

    fn now(url: &str) -> Self {
        let mut moment = Self::default();
        let page = get(url, "/v1/runs?limit=100");
        for run in page["runs"].as_array().into_iter().flatten() {
            match (run["status"].as_str(), run["agent"].as_str()) {
                (Some("queued"), _) => moment.queued += 1,
                (Some("running"), _) => moment.running += 1,
                (Some("waiting"), Some("lead")) => moment.for_children += 1,
                (Some("waiting"), Some("timer")) => moment.for_a_time += 1,
                (Some("waiting"), Some("busy")) => moment.throttled += 1,
                _ => {}
            }
        }
        moment
    }
}

/// Keeps a server busy until it is gone. Gives the run of every request that was answered, by its key.
fn keep_busy(url: &str, answered: &AtomicUsize, over: &AtomicBool, seed: u64) -> BTreeMap<String, (Value, String)> {
    let (mut accepted, mut dice) = (BTreeMap::new(), Dice::new(seed));
    for number in 0.. {
        // The first ones are of every kind.
        let agent = ["lead", "timer", "busy", "busy", "booker", "booker"]
            [if number < 12 { number % 6 } else { dice.roll(0, 6) as usize }];
        let key = format!("request {number}");
        let ask = json!({ "agent": agent, "prompt": "go", "mode": "detach", "idempotency_key": key });
        if over.load(Ordering::Relaxed) {
            break;
        }
        // An answer that is lost says nothing: the request may have been accepted.
        let Ok(answer) = post(url, "/v1/runs", &ask).and_then(Response::json) else { break };
        let run = answer["run_id"].as_str().unwrap_or_else(|| panic!("{key} was refused: {answer}"));
        accepted.insert(key, (ask, run.to_owned()));
        answered.fetch_add(1, Ordering::Relaxed);
        pass(dice.roll(5, 40));
    }
    accepted
}

/// What one upgrade came to.
struct Upgraded {
    at_kill: Moment,
    accepted: usize,
    counts: Counts,
    /// Copies of the store of the format before.
    copies: usize,
}

fn upgrade(old: &Path, seed: u64) -> Result<Upgraded, String> {
    let scratch = tempfile::tempdir().expect("a directory");
    let arguments =
        ["--shape", "anthropic", "--max-concurrent", "2", "--delay-ms", "250", "--retry-after", "seconds:1"];
    let provider = Provider::start(&arguments, &scratch.path().join("provider"));
    let config = CONFIG.replace("SEED", &seed.to_string()).replace("PROVIDER", &provider.address);
    let case = Case::new(&config);
    let mut server = case.start_program(&[], old, &json!({}));
    assert!(!server.url.is_empty(), "the older server does not start");
    let url = server.url.clone();
    let (answered, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let least = setting("PROVE_REQUESTS", 8) as usize;
    let (at_kill, accepted) = std::thread::scope(|scope| {
        let load = scope.spawn(|| keep_busy(&url, &answered, &over, seed));
        let mut dice = Dice::new(seed);
        // A load that never gets there has ended, and says so. The kill comes anywhere in a step, with requests under way.
        let moment = loop {
            pass(dice.roll(1, 60));
            let moment = Moment::now(&url);
            let is_loaded = answered.load(Ordering::Relaxed) >= least && moment.has_every_kind();
            if is_loaded || load.is_finished() {
                break moment;
            }
        };
        server.kill();
        over.store(true, Ordering::Relaxed);
        (moment, load.join().expect("the load does not panic"))
    });
    if !at_kill.has_every_kind() {
        return Err(format!("not every kind of run was unfinished when the server was killed: {at_kill:?}"));
    }

    let server = case.start(&json!({}));
    if server.url.is_empty() {
        return Err("the new server does not start".into());
    }
    let names = std::fs::read_dir(case.path("data")).expect("a directory").flatten();
    let copies = names.filter(|entry| entry.file_name().to_string_lossy().starts_with("drawloom.db.before-")).count();
    for (key, (ask, run)) in &accepted {
        // The same request is the same run, and it ends as its agent says.
        let again = post(&server.url, "/v1/runs", ask).and_then(Response::json).map_err(|error| error.to_string())?;
        if again["run_id"] != *run {
            return Err(format!("{key} was run {run} and is now {again}"));
        }
    }
    for run in all_runs(&server.url) {
        let ended = get(&server.url, &format!("/v1/runs/{run}?wait_ms=50000"));
        if ended["status"] != "completed" {
            return Err(format!("run {run} did not complete: {ended}"));
        }
    }
    let counts = inspect(&case, &server.url, &written(&case.path("files")))?;
    let first = accepted.values().next().map(|(_, run)| run.clone()).unwrap_or_default();
    let replay = get(&server.url, &format!("/v1/runs/{first}/replay"));
    match replay["fold_error"].is_null() && replay["ok"] == true {
        true => Ok(Upgraded { at_kill, accepted: accepted.len(), counts, copies }),
        false => Err(format!("run {first} cannot be folded again: {replay}")),
    }
}

/// The files that runs wrote, each once.
fn written(files: &Path) -> BTreeMap<String, usize> {
    let names = std::fs::read_dir(files).expect("a directory").flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("out-")).map(|name| (name, 1)).collect()
}

#[test]
fn nothing_is_lost_and_nothing_happens_twice_when_a_new_version_takes_over() {
    let (seed, upgrades) = (setting("PROVE_SEED", 11), setting("PROVE_UPGRADES", 1));
    let older = std::env::var_os("PROVE_OLD_FIXTURE").map(PathBuf::from);
    let old = older.clone().unwrap_or_else(fixture_program);
    let (mut sum, mut accepted, mut total) = (Moment::default(), 0, Counts::default());
    for round in 0..upgrades {
        let seed = seed + round;
        let one = upgrade(&old, seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!(one.copies, usize::from(older.is_some()), "copies of the store of the format before (seed {seed})");
        let Moment { queued, running, for_children, for_a_time, throttled } = one.at_kill;
        sum.queued += queued;
        sum.running += running;
        sum.for_children += for_children;
        sum.for_a_time += for_a_time;
        sum.throttled += throttled;
        accepted += one.accepted;
        total.runs += one.counts.runs;
        total.completed += one.counts.completed;
        total.effects += one.counts.effects;
        total.in_doubt += one.counts.in_doubt;
    }
    assert_eq!(total.runs, total.completed);
    let Moment { queued, running, for_children, for_a_time, throttled } = sum;
    say(&format!("seeds {seed} to {}, {upgrades} upgrades", seed + upgrades - 1));
    say(&format!(
        "unfinished when they were killed: {queued} queued, {running} running, parked {for_children} for children, {for_a_time} for a \
         time, {throttled} throttled"
    ));
    say(&format!("requests answered before the kill {accepted}; runs {}, all completed", total.runs));
    say(&format!("effects {}, calls in doubt {}", total.effects, total.in_doubt));
}
