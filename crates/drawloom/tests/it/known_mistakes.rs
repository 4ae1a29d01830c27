//! Mistakes that others made in systems like this one, found when ten of their agents reviewed their own runtime: for each that
//! could be made here, a test that fails if it was. Real binary, or a whole instance in this process; real SQLite files.
//!
//! | finding | here |
//! |---|---|
//! | 1. a timer fires before its entry is committed | `waiting.rs` and `waking.rs` of the engine: `no_wake_up_is_lost_whenever_the_message_comes`, `a_message_that_comes_while_the_wait_is_committed_wakes_the_call`. There are no deferred messages yet |
//! | 2. the generator of ids panics without entropy | `without_entropy_a_start_is_refused_and_the_next_one_works` |
//! | 3. pausing forgets to let go of a tool call | not here: there is no pause. A call's end is a record; `stopping.rs` of the engine ends calls from outside |
//! | 4. restored runs have a status that no resume looks for | `runs_of_a_restored_backup_go_on_also_parked_ones`; after a crash: `kill.rs` of the durability tests |
//! | 5. quotas are checked after the commit | `no_change_of_memory_commits_more_than_the_quota`; races: `no_update_is_lost_and_no_quota_exceeded_when_64_writers_and_kills_meet` |
//! | 6. bodies without a limit | `every_operation_with_a_body_refuses_one_that_is_too_long` |
//! | 7. the slot of a detached run is released when its handler returns | `a_detached_run_keeps_its_slot_until_it_ends` |
//! | 8. stopping a refresher of OAuth tokens that was never started hangs | not here: there is no OAuth |
//! | 9. an absolute pattern finds nothing | `an_absolute_pattern_finds_files_inside_and_fails_outside` |
//! | 10. a fallback loses the reasoning, and a strict provider refuses | `a_thinking_conversation_goes_to_a_strict_provider_and_back_also_through_crashes` of the durability tests, with the real binary; `falling_back.rs` of the engine |
//! | 11. a fan-out meets the provider's rate limit | `ten_runs_meet_a_rate_limit_and_none_fails`; larger: `storm.rs` of the durability tests |
//! | 12. an import drops `skills:` | `an_import_carries_the_skills_of_an_agent` |
//! | theme: variables of the environment end up in the config | `only_listed_variables_are_expanded_and_never_as_structure`; in headers: `a_credential_that_no_header_can_carry_is_refused_and_not_shown` |
//! | theme: the tenant is not checked on some routes | `walk.rs` of the server, over every operation: `a_foreign_tenants_things_are_not_there` |
//! | theme: work hangs on the wrong context | `a_cancel_reaches_queued_running_and_parked_runs_and_all_below` of the engine; a caller that hangs up: `a_detached_run_keeps_its_slot_until_it_ends` |
//! | theme: errors are dropped without a word, dead code | clippy denies both (`unused_must_use`, `dead_code`) |

mod http;

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use drawloom::{Extra, Parts, Surface, clock::SystemEntropy, config, data_dir::DataDir, start};
use drawloom_contract::{
    record::Status,
    time::{Entropy, NoEntropy},
};
use drawloom_testkit::providers::{Outcome, Provider, RetryAfter, Settings, Shape, parrot};
use drawloom_wire::runs::SpawnRun;
use serde_json::{Value, json};

use self::http::Http;
use crate::support::Home;

/// Random bytes that can run out.
#[derive(Default)]
struct Tap {
    is_closed: AtomicBool,
    real: SystemEntropy,
}

impl Entropy for Tap {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        match self.is_closed.load(Ordering::SeqCst) {
            true => Err(NoEntropy { reason: "none is left".into() }),
            false => self.real.fill(bytes),
        }
    }
}

#[tokio::test]
async fn without_entropy_a_start_is_refused_and_the_next_one_works() {
    let home = Home::new();
    let loaded = config::load_files(&[home.path().join("drawloom.yaml")]).expect("a config");
    let lock = DataDir::new(home.data()).lock("a test").expect("the directory is not locked");
    let mut parts = Parts::from_config(loaded, lock, Surface::Embedded, &Extra::default()).expect("parts");
    let tap = Arc::new(Tap::default());
    parts.entropy = tap.clone();
    let running = start(parts).await.expect("it starts");
    let spawn = || SpawnRun::new("echo".parse().expect("a name"), "hello");
    assert_eq!(running.call(&spawn()).await.expect("a result").status, Status::Completed);
    tap.is_closed.store(true, Ordering::SeqCst);
    let refused = running.call(&spawn()).await.expect_err("no id can be made");
    assert_eq!(refused.code, "no_entropy", "{refused:?}");
    tap.is_closed.store(false, Ordering::SeqCst);
    assert_eq!(running.call(&spawn()).await.expect("a result").status, Status::Completed);
    running.stop().await;
}

/// A lead that waits for a worker, which takes `delay_ms`.
fn waiting_config(delay_ms: u64) -> String {
    format!(
        "listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - {{ when: {{ agent: lead, turn: 1 }}, calls: [{{ tool: Agent, input: {{ name: worker, prompt: dig }} }}] }}
        - {{ when: {{ agent: lead }}, text: \"the worker said {{{{last}}}}\" }}
        - {{ text: \"gold\", delay_ms: {delay_ms} }}
defaults: {{ provider: script, model: test }}
agents:
  lead: {{ tools: [Agent], agents: [worker], hosts: [] }}
  worker: {{ tools: [], agents: [], hosts: [] }}
"
    )
}

#[test]
fn runs_of_a_restored_backup_go_on_also_parked_ones() {
    let home = Home::new();
    home.write("drawloom.yaml", &waiting_config(600_000));
    let server = home.serve();
    let lead = home.run(&["run", "lead", "go", "--detach", "--json"]).exits(0).json();
    let lead = lead["run_id"].as_str().expect("a run").to_owned();
    let statuses = || -> Vec<Value> {
        let listed = home.run(&["runs", "list", "--json"]).exits(0).json();
        listed["runs"].as_array().expect("runs").iter().map(|run| run["status"].clone()).collect()
    };
    while statuses() != [json!("running"), json!("waiting")] {}
    home.run(&["backup", "copy.backup"]).exits(0);
    server.kill();
    // In the same place after the crash, and elsewhere from the backup.
    home.write("drawloom.yaml", &waiting_config(0));
    let elsewhere = Home::new();
    elsewhere.write("drawloom.yaml", &waiting_config(0));
    let copy = home.path().join("copy.backup");
    elsewhere.run(&["restore", copy.to_str().expect("a name"), "--resume"]).exits(0);
    for home in [&home, &elsewhere] {
        let server = home.serve();
        let ended = home.run(&["runs", "show", &lead, "--wait", "--json"]).exits(0).json();
        assert_eq!(ended["status"], "completed", "{ended:#}");
        assert!(ended["final_text"].as_str().is_some_and(|text| text.contains("gold")), "{ended:#}");
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
fn no_change_of_memory_commits_more_than_the_quota() {
    const MOST: usize = 4096;
    let home = Home::new();
    let text = fs::read_to_string(home.path().join("drawloom.yaml")).expect("the config");
    home.write("drawloom.yaml", &format!("{text}memory: {{ max_keys: 4, max_bytes: {MOST} }}\n"));
    let server = home.serve();
    let http = Http::new(&server.url);
    let large = |number: usize| format!("{number}{}", "x".repeat(300));
    let keys = |owner: &str| -> Vec<Value> {
        let (status, page) = http.ask("GET", &format!("/v1/memory/user/keys?user_id={owner}"), None);
        assert_eq!(status, 200, "{page}");
        page["entries"].as_array().expect("entries").clone()
    };
    let sizes = |owner: &str| keys(owner).iter().map(|entry| entry["value"].to_string().len()).sum::<usize>();
    // Each operation on memory of its own, until it is refused.
    for op in ["merge", "append_dedupe", "bounded_list", "set", "import"] {
        let mut refused = None;
        for number in 0..64 {
            let before = keys(op);
            let (status, answer) = match op {
                "set" => {
                    let value: Vec<String> = (0..=number).map(large).collect();
                    http.ask("PUT", "/v1/memory/user/keys/k", Some(json!({ "user_id": op, "value": value })))
                }
                "import" => {
                    let value: Vec<String> = (0..=number).map(large).collect();
                    let entries = json!([{ "key": "k", "value": value }]);
                    http.ask("POST", "/v1/memory/user/import", Some(json!({ "user_id": op, "entries": entries })))
                }
                _ => {
                    let value = match op {
                        "merge" => json!({ number.to_string(): large(number) }),
                        _ => json!(large(number)),
                    };
                    let mut body = json!({ "user_id": op, "op": op, "value": value });
                    if op == "bounded_list" {
                        body["limit"] = json!(1_000);
                    }
                    http.ask("POST", "/v1/memory/user/keys/k", Some(body))
                }
            };
            assert!(sizes(op) <= MOST, "{op}: more than the quota is kept");
            if status != 200 {
                assert_eq!((status, &answer["error"]["code"]), (413, &json!("over_quota")), "{op}: {answer}");
                assert_eq!(keys(op), before, "{op}: a refused change changed something");
                refused = Some(number);
                break;
            }
        }
        assert!(
            refused.is_some_and(|number| number > 3),
            "{op} is allowed within the quota and refused beyond: {refused:?}"
        );
    }
    // Keys are counted too, also for a change that makes one.
    for number in 0..6 {
        let path = format!("/v1/memory/user/keys/n{number}");
        let (status, answer) = http.ask("POST", &path, Some(json!({ "user_id": "incr", "op": "incr" })));
        assert_eq!(status, if number < 4 { 200 } else { 413 }, "{answer}");
    }
    assert_eq!(keys("incr").len(), 4);
}

#[test]
fn every_operation_with_a_body_refuses_one_that_is_too_long() {
    // The limit is 16 MiB.
    const LONG_BODY: usize = 17 << 20;
    let home = Home::new();
    let server = home.serve();
    let http = Http::new(&server.url);
    let run = home.run(&["run", "echo", "hello", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run").to_owned();
    let (_, batch) =
        http.ask("POST", "/v1/runs:batch", Some(json!({ "spawns": [{ "agent": "echo", "prompt": "x" }] })));
    let batch = batch["batch_id"].as_str().expect("a batch").to_owned();
    let (_, document) = http.ask("GET", "/v1/openapi.json", None);
    let mut tried = vec![("POST".to_owned(), "/mcp".to_owned())];
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            if operation.get("requestBody").is_some() {
                let path = path
                    .replace("{run_id}", &run)
                    .replace("{agent_id}", &run)
                    .replace("{batch_id}", &batch)
                    .replace("{scope}", "user")
                    .replace("{key}", "k")
                    .replace("{channel}", "c")
                    .replace("{name}", "c")
                    .replace("{user_id}", "default");
                assert!(!path.contains('{'), "{path}: say here what stands for its parameters");
                tried.push((method.to_uppercase(), path));
            }
        }
    }
    assert!(tried.len() > 8, "{tried:?}");
    let before = server.peak_memory();
    for (method, path) in &tried {
        // One whose sender asks before it sends, and one that does not say how long it is.
        let asks = "Content-Length: 1000000000000\r\nExpect: 100-continue\r\n";
        for (status, answer) in [http.send(method, path, asks, b""), http.send_pieces(method, path, LONG_BODY)] {
            assert_eq!(status, 413, "{method} {path}: {answer}");
            assert!(answer.to_string().contains("too_large"), "{method} {path}: {answer}");
        }
    }
    // Far less than all bodies together: what is not kept is not held.
    let growth = server.peak_memory().saturating_sub(before);
    assert!(growth < 6 * LONG_BODY as u64, "{} MiB for {} bodies", growth >> 20, tried.len());
    home.run(&["run", "echo", "still here"]).exits(0);
}

#[test]
fn a_detached_run_keeps_its_slot_until_it_ends() {
    let home = Home::new();
    let text = fs::read_to_string(home.path().join("drawloom.yaml")).expect("the config");
    home.write("drawloom.yaml", &format!("{text}concurrency: {{ max_concurrent_runs: 1 }}\n"));
    let server = home.serve();
    let http = Http::new(&server.url);
    let detached = json!({ "agent": "echo", "prompt": "slow", "mode": "detach" });
    let hasty = json!({ "agent": "echo", "prompt": "slow", "wait_ms": 0 });
    for (first, is_hung_up) in [(detached, false), (hasty, false), (json!({ "agent": "echo", "prompt": "slow" }), true)]
    {
        let holder = match is_hung_up {
            // The caller is gone as soon as it knows the run.
            true => http.start_and_hang_up(&first),
            false => http.ask("POST", "/v1/runs", Some(first.clone())).1["run_id"].as_str().expect("a run").to_owned(),
        };
        let next = json!({ "agent": "echo", "prompt": "hello", "mode": "detach" });
        let next = http.ask("POST", "/v1/runs", Some(next)).1["run_id"].as_str().expect("a run").to_owned();
        let (_, shown) = http.ask("GET", &format!("/v1/runs/{next}"), None);
        assert_eq!(shown["status"], "queued", "the slot is taken: {first}");
        let load = home.run(&["call", "get_load"]).exits(0).json();
        assert_eq!((&load["active"], &load["queued"]), (&json!(1), &json!(1)), "{first}: {load}");
        home.run(&["runs", "cancel", &holder]).exits(0);
        let ended = home.run(&["runs", "show", &next, "--wait", "--json"]).exits(0).json();
        assert_eq!(ended["status"], "completed", "the slot was freed once: {first}");
        let load = home.run(&["call", "get_load"]).exits(0).json();
        assert_eq!((&load["active"], &load["queued"]), (&json!(0), &json!(0)), "{first}: {load}");
    }
}

#[test]
fn an_absolute_pattern_finds_files_inside_and_fails_outside() {
    let home = Home::new();
    let glob = |pattern: &str, tool: &str| {
        let config = json!({
            "listen": "127.0.0.1:0",
            "providers": { "script": { "driver": "script", "options": { "rules": [
                { "when": { "turn": 1 }, "calls": [{ "tool": tool, "input": { "pattern": pattern } }] },
                { "text": "{{last}}" },
            ] } } },
            "defaults": { "provider": "script", "model": "test" },
            "volumes": { "src": { "path": "src", "mode": "ro", "default": true } },
            "agents": { "reader": { "tools": [tool], "agents": [], "hosts": [] } },
        });
        home.write("drawloom.yaml", &config.to_string());
        home.run(&["run", "reader", "go", "--embedded", "--config", "drawloom.yaml"]).exits(0).stdout
    };
    fs::create_dir_all(home.path().join("src/api/http")).expect("folders");
    fs::create_dir_all(home.path().join("src-other")).expect("a folder");
    for file in ["src/api/http/server.rs", "src/main.rs", "src-other/evil.rs"] {
        home.write(file, "fn main() {}\n");
    }
    let root = home.path().join("src").canonicalize().expect("a path");
    let root = root.to_str().expect("a path");
    let inside = glob(&format!("{root}/api/**/*.rs"), "Glob");
    assert!(inside.contains("api/http/server.rs") && !inside.contains("main.rs"), "{inside}");
    assert!(glob(&format!("{root}/*.rs"), "Glob").contains("main.rs"));
    for outside in [format!("{root}-other/*.rs"), "/etc/*".to_owned(), format!("{root}/../src-other/*")] {
        let said = glob(&outside, "Glob");
        assert!(said.contains("outside") || said.contains(".."), "{outside} fails loudly: {said}");
        assert!(!said.contains("no files match") && !said.contains("evil.rs"), "{outside}: {said}");
    }
}

#[test]
fn ten_runs_meet_a_rate_limit_and_none_fails() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    for cap in ["", ", max_concurrent: 2"] {
        let settings =
            Settings::new(Shape::Openai).max_concurrent(2, RetryAfter::Absent).delay(Duration::from_millis(60));
        let provider = runtime.block_on(Provider::start(settings, parrot)).expect("a provider");
        let home = Home::new();
        home.write(
            "drawloom.yaml",
            &format!(
                "listen: 127.0.0.1:0\nproviders: {{ busy: {{ driver: openai, base_url: '{}'{cap} }} }}\n\
                 agents: {{ reviewer: {{ provider: busy, model: m, tools: [], agents: [], hosts: [] }} }}\n\
                 concurrency: {{ max_concurrent_runs: 4 }}\n",
                provider.base_url()
            ),
        );
        home.run(&["trust", "--yes"]).exits(0);
        let server = home.serve();
        let spawns: Vec<Value> =
            (0..10).map(|slice| json!({ "agent": "reviewer", "prompt": format!("slice {slice}") })).collect();
        let (status, batch) = Http::new(&server.url).ask("POST", "/v1/runs:batch", Some(json!({ "spawns": spawns })));
        assert_eq!(status, 200, "{batch}");
        let results = batch["results"].as_array().expect("results");
        assert_eq!(results.len(), 10);
        for (slice, result) in results.iter().enumerate() {
            assert_eq!(result["status"], "completed", "{result:#}");
            assert_eq!(result["final_text"], format!("You said: slice {slice}"), "by index");
        }
        let crowded = provider.calls().iter().filter(|call| call.outcome == Outcome::Crowded).count();
        if !cap.is_empty() {
            assert_eq!(crowded, 0, "a provider with its own limit in the config refuses nothing");
        }
        assert_eq!(server.stop(), Some(0));
    }
}

#[test]
fn an_import_carries_the_skills_of_an_agent() {
    let home = Home::new();
    let rules = "rules:\n        - when: { contains: load, turn: 1 }\n          calls: [{ tool: Skill, input: { name: code-review } }]\n        \
                 - when: { contains: load }\n          text: \"{{last}}\"\n";
    let text = fs::read_to_string(home.path().join("drawloom.yaml")).expect("the config");
    home.write("drawloom.yaml", &text.replace("rules:\n", rules));
    for folder in [".claude/agents", ".claude/skills/code-review"] {
        fs::create_dir_all(home.path().join(folder)).expect("a folder");
    }
    home.write(
        ".claude/agents/code-reviewer.md",
        "---\nname: code-reviewer\ntools: Read, Grep, Glob\nskills: code-review\nmodel: sonnet\n---\nReview.\n",
    );
    home.write(
        ".claude/skills/code-review/SKILL.md",
        "---\nname: code-review\ndescription: How to review.\n---\nLook twice.\n",
    );
    home.run(&["import", "claude-code", "--write"]).exits(0);
    let listed = home.run(&["agents", "list", "--json"]).exits(0).json();
    let agents = listed["agents"].as_array().expect("agents");
    let reviewer = agents.iter().find(|agent| agent["name"] == "code-reviewer").expect("the agent");
    assert_eq!(reviewer["gates"]["skills"], json!(["code-review"]), "{reviewer:#}");
    let ran = home.run(&["run", "code-reviewer", "load it", "--embedded", "--config", "drawloom.yaml"]).exits(0);
    assert!(ran.stdout.contains("Look twice."), "no hand has to attach it: {ran:?}");
}

#[test]
fn only_listed_variables_are_expanded_and_never_as_structure() {
    let home = Home::new();
    let text = fs::read_to_string(home.path().join("drawloom.yaml")).expect("the config");
    let described = |env: &str| text.replace("Says it again.", "\"${PLANTED}\"") + env;
    let run = |arguments: &[&str], value: &str| {
        let mut command = home.command(arguments);
        home.finish(command.env("PLANTED", value).env("DATABASE_URL", "postgres://secret@host"))
    };
    home.write("drawloom.yaml", &described(""));
    let refused = run(&["validate"], "s3cret-of-the-machine").exits(2);
    assert!(refused.stderr.contains("${PLANTED} is not listed under `env`"), "{refused:?}");
    assert!(!format!("{refused:?}").contains("s3cret-of-the-machine"), "{refused:?}");
    // A value with line ends cannot become keys.
    home.write("drawloom.yaml", &described("env: [PLANTED]\n"));
    let planted = "x\"\n  planted: { tools: [Bash] }\nlisten: 0.0.0.0:1\nmore: ${DATABASE_URL}";
    let listed = run(&["agents", "list", "--json", "--config", "drawloom.yaml"], planted).exits(0).json();
    assert_eq!(listed["agents"].as_array().map(Vec::len), Some(1), "{listed:#}");
    assert_eq!(listed["agents"][0]["description"], planted, "it is a text, and nothing in it is expanded again");
    // What is read of the environment is a power that the user is asked about.
    let powers = run(&["trust", "--json"], planted).stdout;
    assert!(powers.contains("reads the variable PLANTED (env)"), "{powers}");
}
