//! Conversations that go from one model API to another and back while the shipped server is killed with SIGKILL at random moments: in the
//! middle of streams, between calls, after commits. The servers of the models outlive it, are as strict as the real ones, and reject nothing.
//! `engine/tests/it/dialects.rs` has many more conversations inside one process; what each is like is in `testkit::dialects`.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Range,
    sync::mpsc,
    time::Duration,
};

use drawloom_testkit::dialects::{Conversation, Failures, KEY, Servers};
use serde_json::{Value, json};

use crate::{
    http::{Response, get, post, send},
    kill::for_each,
    process::{Case, Server},
    prove::{Dice, pass, say, setting},
};

/// How many conversations share a server.
const TOGETHER: u64 = 30;

/// How many processes of a server are killed; the next one may end its conversations.
const KILLS: u64 = 8;

/// From one event of an answer to the next.
const BETWEEN: Duration = Duration::from_millis(3);

/// What `serve` gets: each conversation has a tier of users of its own, which may go to every model.
fn config(servers: &Servers, process: u64, seeds: Range<u64>) -> String {
    let mut providers = servers.configs(process);
    for provider in providers.values_mut() {
        provider["api_key_env"] = "LOOM_KEY".into();
    }
    let mut tiers: BTreeMap<String, Value> = seeds
        .map(|seed| {
            let candidates = Conversation::of(seed).candidates;
            let candidates = candidates.iter().map(|name| json!({ "provider": name.provider, "model": name.model }));
            let tier = json!({
                "fallback_on_error": true, "max_fallback_attempts": 20, "rate_limit_cooldown_ms": 1000, "retry_attempts": 5,
                "tiers": { "high": candidates.collect::<Value>() },
            });
            (user_tier(seed), tier)
        })
        .collect();
    tiers.insert("default".into(), json!({}));
    let agent = |effort: Option<&str>| {
        let mut agent = json!({ "tier": "high", "tools": ["Read"], "max_tokens": 4096 });
        if let Some(effort) = effort {
            agent["effort"] = effort.into();
        }
        agent
    };
    let config = json!({
        "providers": providers,
        "tiers": { "high": [{ "provider": "anthropic", "model": "claude-opus-5-5" }] },
        "user_tiers": tiers,
        "volumes": { "files": { "path": "files", "mode": "ro", "default": true } },
        "agents": { "plain": agent(None), "low": agent(Some("low")), "high": agent(Some("high")) },
    });
    config.to_string()
}

fn user_tier(seed: u64) -> String {
    format!("u{seed}")
}

/// Starts a conversation, or finds the run that an earlier request started.
fn start(server: &Server, seed: u64) -> io::Result<String> {
    let Conversation { effort, segments, .. } = Conversation::of(seed);
    let agent = effort.map_or("plain", |effort| effort.as_str());
    let request = json!({
        "agent": agent, "segments": segments, "user_tier": user_tier(seed), "mode": "detach", "idempotency_key": format!("seed {seed}"),
    });
    let answer = post(&server.url, "/v1/runs", &request).and_then(Response::json)?;
    let run = answer["run_id"].as_str().map(str::to_owned);
    run.ok_or_else(|| io::Error::other(format!("no run for seed {seed}: {answer}")))
}

/// Waits until every run has ended; an error when the server dies.
fn ends(url: &str, runs: &[String]) -> io::Result<Vec<Value>> {
    let end = |run: &String| loop {
        let view = send(url, "GET", &format!("/v1/runs/{run}?wait_ms=30000"), &[], "").and_then(Response::json)?;
        if view["timings"]["ended_at"].is_string() {
            return Ok(view);
        }
    };
    runs.iter().map(end).collect()
}

/// Some conversations on servers that are killed after each other.
fn converse(servers: &Servers, seeds: Range<u64>, dice: &mut Dice) -> (u64, BTreeMap<String, u64>) {
    let mut case = Case::new("");
    case.environment.push(("LOOM_KEY", KEY.to_owned()));
    let mut kills = 0;
    loop {
        let mut server = case.serve(&config(servers, kills, seeds.clone()));
        let runs: io::Result<Vec<String>> = seeds.clone().map(|seed| start(&server, seed)).collect();
        let runs = runs.expect("nothing kills it yet");
        let (tell, told) = mpsc::channel();
        if kills < KILLS {
            let tell = tell.clone();
            servers.after(dice.roll(1, runs.len() as u64 / 2 + 2), move || drop(tell.send(None)));
        }
        let url = server.url.clone();
        let waited = runs.clone();
        std::thread::spawn(move || tell.send(Some(ends(&url, &waited))));
        match told.recv().expect("one of them tells") {
            Some(views) => return (kills, check(servers, &server, seeds, &views.expect("the server was not killed"))),
            None => {
                pass(dice.roll(0, 40));
                server.kill();
                kills += 1;
            }
        }
    }
}

/// Each conversation has ended as its models wanted, and its journal holds nothing that it must not.
fn check(servers: &Servers, server: &Server, seeds: Range<u64>, views: &[Value]) -> BTreeMap<String, u64> {
    let mut ended = BTreeMap::new();
    for (seed, view) in seeds.zip(views) {
        let code = view["error"]["code"].as_str();
        let is_right = match code {
            None => view["status"] == "completed",
            Some(code) => code == "model_refused" && servers.memory().is_refused(seed),
        };
        assert!(is_right, "{seed}: {view}");
        *ended.entry(code.unwrap_or("completed").to_owned()).or_default() += 1;
    }
    for_each(views, |view| {
        let run = view["run_id"].as_str().expect("an id");
        let replay = get(&server.url, &format!("/v1/runs/{run}/replay"));
        assert!(replay["ok"] == true, "the replay of {run} differs: {replay}");
        let events = send(&server.url, "GET", &format!("/v1/runs/{run}/events"), &[], "").and_then(Response::text);
        assert!(!events.expect("a stream").contains(KEY), "{run}: the journal holds a secret");
        false
    });
    ended
}

#[test]
fn conversations_between_apis_survive_kills_and_no_server_rejects_them() {
    let (count, seed) = (setting("PROVE_KILLED_CONVERSATIONS", 20), setting("PROVE_SEED", 11));
    let servers = Servers::start(Failures::Transient, BETWEEN);
    let mut dice = Dice::new(seed);
    let (mut kills, mut ended) = (0, BTreeMap::<String, u64>::new());
    let first = seed * 1_000_000;
    for begin in (0..count).step_by(usize::try_from(TOGETHER).expect("a small number")) {
        let seeds = first + begin..first + count.min(begin + TOGETHER);
        let (killed, ends) = converse(&servers, seeds, &mut dice);
        kills += killed;
        for (end, count) in ends {
            *ended.entry(end).or_default() += count;
        }
    }
    let calls = servers.calls();
    say(&format!("conversations by end {ended:?} through {kills} kills; calls {calls:?}"));
    assert!(calls.keys().all(|(_, status)| *status != 400), "{calls:?}");
    assert_eq!(servers.memory().forgotten(), [""; 0], "reasoning that did not come back");
    let apis: BTreeSet<&str> = calls.keys().map(|(server, _)| *server).collect();
    assert_eq!((apis.len(), kills > 2), (4, true), "{kills} kills; {calls:?}");
}
