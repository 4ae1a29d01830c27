//! The storm: nested fan-outs with faulty models, while the server is killed and frozen at random, files are taken as soon
//! as they are written, followers do not read, and the clock jumps. At the end each run has ended once, and each effect
//! has happened once or is in doubt.

use std::{
    collections::BTreeMap,
    io::Read as _,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Dice, pass, say, setting};
use crate::{
    http::{self, Chunks, Response, get, post},
    kill::{IN_DOUBT, check_turns, events},
    process::{Case, Server},
};

/// Followers that hold their connection and do not read.
const FOLLOWERS: usize = 12;

/// Runs of one tree: a lead, two middles, and two workers of each.
const TREE: usize = 7;

const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      seed: SEED
      rules:
        - { when: { chance: 0.03 }, fail: { kind: throttled, message: "429", retry_after_ms: 40 } }
        - { when: { chance: 0.03 }, fail: { kind: overloaded, message: "529", retry_after_ms: 40 } }
        - { when: { chance: 0.04 }, fail: { kind: unavailable, message: "500" } }
        - { when: { chance: 0.04 }, text: "one two three", chunks: 3, fail: { kind: cut, after_chunks: 2 } }
        - { when: { chance: 0.01 }, delay_ms: 1500, fail: { kind: unavailable, message: it hung } }
        - when: { agent: lead, turn: 1 }
          calls: [{ tool: Ledger, input: { line: "{{run}}-begins" } }]
        - when: { agent: lead, turn: 2 }
          calls:
            - tool: Agent
              input: { op: parallel_spawn, spawns: [{ name: middle, prompt: one }, { name: middle, prompt: two }] }
        - when: { agent: lead, turn: 3 }
          calls: [{ tool: Ledger, input: { line: "{{run}}-ends" } }]
        - when: { agent: middle, turn: 1 }
          calls:
            - tool: Agent
              input: { op: parallel_spawn, spawns: [{ name: worker, prompt: one }, { name: worker, prompt: two }] }
        - when: { agent: middle, turn: 2 }
          calls: [{ tool: Ledger, input: { line: "{{run}}-middle" } }]
        - when: { agent: worker, turn: 1 }
          calls: [{ tool: Ledger, input: { line: "{{run}}-a" } }]
          delay_ms: 20
        - when: { agent: worker, turn: 2 }
          calls: [{ tool: Write, input: { path: "out-{{run}}.txt", content: "of {{run}}" } }]
        - when: { agent: worker, turn: 3 }
          calls: [{ tool: Ledger, input: { line: "{{run}}-b" } }]
        - { text: "done", chunks: 4, chunk_delay_ms: 5 }
concurrency: { max_concurrent_runs: 8 }
defaults: { provider: script, model: m }
volumes:
  files: { path: "FILES", mode: rw, default: true }
agents:
  lead: { retry_attempts: 12, tools: [Agent, Ledger], agents: [middle], hosts: [] }
  middle: { retry_attempts: 12, tools: [Agent, Ledger], agents: [worker], hosts: [] }
  worker: { retry_attempts: 12, tools: [Ledger, Write], agents: [], hosts: [] }
"#;

/// What a storm does, and with which server.
struct Storm {
    case: Case,
    settings: Value,
    dice: Dice,
    /// The root that each key gave.
    roots: BTreeMap<String, String>,
    followers: Vec<Chunks>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let case = Case::new(&CONFIG.replace("SEED", &seed.to_string()));
        std::fs::write(case.path("clock"), "0").expect("a file");
        Self { case, settings: json!({}), dice: Dice::new(seed), roots: BTreeMap::new(), followers: Vec::new() }
    }

    /// Whether the fixture can shift its clock; one that cannot does not start with such a setting.
    fn try_clock(&mut self) -> bool {
        let settings = json!({ "clock": self.case.path("clock") });
        let jumps = !self.case.start(&settings).url.is_empty();
        if jumps {
            self.settings = settings;
        }
        jumps
    }

    fn start(&self) -> Server {
        let server = self.case.start(&self.settings);
        assert!(!server.url.is_empty(), "the server does not start again");
        server
    }

    /// Asks for a root under a key. The answer may be lost; then the next try tells.
    fn submit(&mut self, server: &Server, number: usize) {
        let key = format!("root {number}");
        let ask = json!({ "agent": "lead", "prompt": "go", "mode": "detach", "idempotency_key": key });
        let Ok(answer) = post(&server.url, "/v1/runs", &ask).and_then(Response::json) else { return };
        let Some(run) = answer["run_id"].as_str() else { return };
        match self.roots.get(&key) {
            Some(known) => assert_eq!(known, run, "{key} gave two runs"),
            None => _ = self.roots.insert(key, run.to_owned()),
        }
    }

    /// Follows a run, reads its first bytes, and no more.
    fn follow(&mut self, server: &Server) {
        let Some(run) = self.roots.values().nth(self.dice.roll(0, self.roots.len().max(1) as u64) as usize) else {
            return;
        };
        let Ok(answer) = http::send(&server.url, "GET", &format!("/v1/runs/{run}/events"), &[], "") else { return };
        let mut chunks = answer.into_chunks();
        if chunks.read(&mut [0; 16]).is_ok() {
            self.followers.push(chunks);
        }
        if self.followers.len() > FOLLOWERS {
            self.followers.remove(0);
        }
    }

    fn jump(&mut self) {
        let hours = self.dice.roll(0, 49) as i64 - 24;
        std::fs::write(self.case.path("clock.new"), (hours * 3_600_000).to_string()).expect("a file");
        std::fs::rename(self.case.path("clock.new"), self.case.path("clock")).expect("a file");
    }
}

/// Takes each file away as soon as it is there, and counts how often it came.
fn consume(files: &Path, taken: &Mutex<BTreeMap<String, usize>>, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        for entry in std::fs::read_dir(files).expect("a directory").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("out-") && std::fs::remove_file(entry.path()).is_ok() {
                *taken.lock().expect("no panic").entry(name).or_default() += 1;
            }
        }
        pass(2);
    }
}

/// Ends the consumer.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Every run that there is, over all pages.
pub(super) fn all_runs(url: &str) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    loop {
        let before = ids.last().map(|last| format!("&before={last}")).unwrap_or_default();
        let page = get(url, &format!("/v1/runs?limit=100{before}"));
        let found = page["runs"].as_array().cloned().unwrap_or_default();
        if found.is_empty() {
            return ids;
        }
        ids.extend(found.iter().filter_map(|run| run["run_id"].as_str().map(str::to_owned)));
    }
}

/// What a load came to.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) runs: usize,
    pub(super) completed: usize,
    /// Ended early, because the clock was set forward while the server was down.
    hurried: usize,
    pub(super) effects: usize,
    pub(super) in_doubt: usize,
}

/// Looks at every run: ended once, and each effect once or in doubt.
pub(super) fn inspect(case: &Case, url: &str, taken: &BTreeMap<String, usize>) -> Result<Counts, String> {
    let mut ledger: BTreeMap<String, usize> = BTreeMap::new();
    for line in case.lines("ledger") {
        *ledger.entry(line).or_default() += 1;
    }
    let (mut counts, calls) = (Counts::default(), case.lines("calls"));
    let mut calls_of: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in &calls {
        calls_of.entry(line.split(' ').next().unwrap_or_default()).or_default().push(line.clone());
    }
    let mut asked_for = 0;
    for run in all_runs(url) {
        let result = get(url, &format!("/v1/runs/{run}?wait_ms=300000"));
        let status = result["status"].as_str().unwrap_or_default();
        if !["completed", "failed", "cancelled", "timed_out"].contains(&status) {
            return Err(format!("run {run} does not end: it is {status}"));
        }
        let events = events(url, &run);
        let ends = events.iter().filter(|(name, _)| name == "done" || name == "error").count();
        if ends != 1 {
            return Err(format!("run {run} ended {ends} times"));
        }
        let message = result["error"]["message"].as_str().unwrap_or_default();
        if status == "timed_out" && !message.contains("set forward") {
            return Err(format!("run {run} ended too early and does not name the clock: {message}"));
        }
        check_turns(&run, &events, calls_of.get(run.as_str()).map(Vec::as_slice).unwrap_or_default())?;
        counts.runs += 1;
        counts.completed += usize::from(status == "completed");
        counts.hurried += usize::from(status == "timed_out");
        for (_, call) in events.iter().filter(|(name, _)| name == "tool_call") {
            let input = &call["tool_use"]["input"];
            let times = match call["tool_use"]["name"].as_str() {
                Some("Ledger") => ledger.get(input["line"].as_str().unwrap_or_default()),
                Some("Write") => taken.get(input["path"].as_str().unwrap_or_default()),
                _ => continue,
            };
            let times = times.copied().unwrap_or_default();
            let done = events.iter().find(|(name, done)| name == "tool_result" && done["call"] == call["call"]);
            let in_doubt = done.is_some_and(|(_, done)| done["in_doubt"] == true || done["text"] == IN_DOUBT);
            let failed = done.is_some_and(|(_, done)| done["is_error"] == true);
            asked_for += times.min(1);
            counts.effects += times;
            counts.in_doubt += usize::from(in_doubt);
            match (times, in_doubt) {
                (1, _) | (0, true) => {}
                // A run that was stopped in the middle of a call, or whose call was refused, did nothing.
                (0, false) if done.is_none() || failed => {}
                (times, _) => {
                    return Err(format!("run {run}: {times} effects of {}, in doubt: {in_doubt}", call["tool_use"]));
                }
            }
        }
    }
    let effects = ledger.len() + taken.len();
    match asked_for == effects {
        true => Ok(counts),
        false => Err(format!("{effects} effects happened, and {asked_for} of them are journaled")),
    }
}

#[test]
fn nothing_is_lost_and_nothing_happens_twice_in_a_storm() {
    let seed = setting("PROVE_SEED", 11);
    let (kills, freezes) = (setting("PROVE_KILLS", 8) as usize, setting("PROVE_FREEZES", 4) as usize);
    let mut storm = Storm::new(seed);
    let jumps = storm.try_clock();
    let files: PathBuf = storm.case.path("files");
    let (taken, over) = (Mutex::default(), AtomicBool::new(false));
    let (mut killed, mut frozen, mut jumped, mut submitted) = (0, 0, 0, 0);
    let counts = std::thread::scope(|scope| {
        scope.spawn(|| consume(&files, &taken, &over));
        // Also when this panics: the scope waits for the consumer.
        let _over = Over(&over);
        let mut server = storm.start();
        while killed < kills || frozen < freezes {
            // A tree for every second crash keeps the server busy.
            if submitted * 2 <= killed + frozen {
                submitted += 1;
            }
            for number in 0..submitted {
                if !storm.roots.contains_key(&format!("root {number}")) {
                    storm.submit(&server, number);
                }
            }
            storm.follow(&server);
            if jumps && storm.dice.roll(0, 4) == 0 {
                storm.jump();
                jumped += 1;
            }
            // Sometimes long enough to come far, mostly not.
            let calm = if storm.dice.roll(0, 6) == 0 { storm.dice.roll(400, 1_200) } else { storm.dice.roll(5, 250) };
            pass(calm);
            let freeze =
                killed >= kills || (frozen < freezes && storm.dice.roll(0, (kills + freezes) as u64) < freezes as u64);
            if freeze {
                server.signal(Signal::STOP);
                pass(storm.dice.roll(20, 300));
                server.signal(Signal::CONT);
                frozen += 1;
            } else {
                server.kill();
                server = storm.start();
                killed += 1;
            }
        }
        for number in 0..submitted {
            // Those that are known are asked for again: the key must give the same run.
            storm.submit(&server, number);
        }
        // Whoever still writes is waited for before files are counted.
        for run in all_runs(&server.url) {
            get(&server.url, &format!("/v1/runs/{run}?wait_ms=300000"));
        }
        let out = |files: &Path| {
            let names = std::fs::read_dir(files).expect("a directory").flatten();
            names.filter(|entry| entry.file_name().to_string_lossy().starts_with("out-")).count()
        };
        while out(&files) > 0 {
            pass(5);
        }
        pass(20);
        inspect(&storm.case, &server.url, &taken.lock().expect("no panic").clone())
    });
    say(&format!("seed {seed}"));
    say(&format!("kills {killed}, freezes {frozen}, clock jumps {jumped}, trees {submitted}"));
    match counts {
        Ok(counts) => {
            assert_eq!(storm.roots.len(), submitted, "a root was never accepted (seed {seed})");
            assert!(counts.runs >= submitted && counts.runs <= submitted * TREE);
            let Counts { runs, completed, hurried, effects, in_doubt } = counts;
            let stopped = runs - completed - hurried;
            say(&format!(
                "runs {runs}, completed {completed}, timed out by the clock {hurried}, stopped with them {stopped}"
            ));
            say(&format!("effects {effects}, calls in doubt {in_doubt}"));
        }
        Err(why) => {
            let kept = storm.case.directory.keep();
            panic!("seed {seed}: {why}; the journal is in {}", kept.join("data").display());
        }
    }
}
