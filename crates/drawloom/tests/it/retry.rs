//! Runs that ended: retried, waited for, deleted, and what they cost.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::Home;

/// A lead with three readers of its own, and prices. The reader of `two` fails.
const TEAM: &str = "\
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - when: { agent: lead, turn: 1 }
          calls:
            - tool: Agent
              input:
                op: parallel_spawn
                spawns: [{ name: reader, prompt: one }, { name: reader, prompt: two }, { name: reader, prompt: slow }]
        - when: { agent: lead }
          text: \"{{last}}\"
        - when: { contains: two }
          fail: { kind: refused, message: not now }
        - when: { contains: cut }
          text: a long text that breaks off
          fail: { kind: cut, after_chunks: 1 }
          chunks: 3
        - when: { contains: slow }
          text: late
          delay_ms: 600000
        - text: \"read {{prompt}}\"
defaults: { provider: script, model: test }
pricing:
  models: { script/test: { input: 1000, output: 1000 } }
agents:
  lead: { description: Leads., tools: [Agent], agents: [reader], hosts: [] }
  reader: { description: Reads., tools: [], agents: [], hosts: [], max_tokens: 100, retry_attempts: 0 }
";

fn team() -> Home {
    let home = Home::new();
    home.write("drawloom.yaml", TEAM);
    home
}

fn id(value: &Value) -> String {
    value.as_str().expect("an id").to_owned()
}

fn show(home: &Home, run: &str) -> Value {
    home.run(&["runs", "show", run, "--json"]).exits(0).json()
}

#[test]
fn a_retry_uses_the_agent_as_it_is_now_and_says_that_it_changed() {
    let home = Home::new();
    let config = TEAM.replace("delay_ms: 600000", "delay_ms: 1").replace("contains: two", "contains: never");
    home.write("drawloom.yaml", &config.replace("max_tokens: 100,", "max_tokens: 100, budget: { tokens: 5 },"));
    let lead = id(&home.run(&["run", "lead", "go", "--json"]).exits(0).json()["run_id"]);
    let runs = home.run(&["runs", "list", "--status", "failed", "--json"]).exits(0).json();
    let failed = id(&runs["runs"][0]["run_id"]);
    home.write("drawloom.yaml", &config);
    let mended = home.run(&["runs", "retry", &failed, "--json"]).exits(0).json();
    assert_eq!((&mended["status"], mended["retry_of"].as_str()), (&json!("completed"), Some(&*failed)), "{mended}");
    assert!(mended["warnings"].to_string().contains("the agent has changed since the first attempt"), "{mended}");
    let shown = home.run(&["runs", "show", &lead]).exits(0);
    assert!(shown.stdout.contains(&format!("retried as {}", id(&mended["run_id"]))), "{shown:?}");
    // A limit of the request holds all the same.
    let asked = home.run(&["call", "spawn_run", "agent=reader", "prompt=one", r#"budget={"tokens":5}"#]);
    let asked = id(&asked.json()["run_id"]);
    let again = home.run(&["runs", "retry", &asked, "--json"]).exits(1).json();
    assert_eq!(again["error"]["code"], "budget_exhausted", "{again}");
}

#[test]
fn a_goal_and_its_runs_are_not_retried() {
    let home = Home::new();
    let options = ["--no-cwd", "--backend", "mock", "--max-iterations", "1", "--json"];
    let goal = home.run(&[&["goal", "run", "Write a briefing"][..], &options[..]].concat());
    let goal = id(&goal.json()["run_id"]);
    let refused = home.run(&["runs", "retry", &goal, "--completed", "--json"]).exits(2).json();
    assert_eq!(refused["error"]["code"], "run_of_goal", "{refused}");
}

#[test]
fn a_child_stays_within_the_budget_of_its_own_agent() {
    let home = Home::new();
    let limited = TEAM
        .replace("delay_ms: 600000", "delay_ms: 1")
        .replace("max_tokens: 100,", "max_tokens: 100, budget: { tokens: 5 },");
    home.write("drawloom.yaml", &limited);
    home.run(&["run", "lead", "go", "--json"]).exits(0);
    let runs = home.run(&["runs", "list", "--status", "failed", "--json"]).exits(0).json();
    let codes: Vec<&Value> = runs["runs"].as_array().expect("runs").iter().map(|run| &run["error"]["code"]).collect();
    assert_eq!(codes, ["budget_exhausted"; 3], "{runs}");
}

#[test]
fn a_retry_is_followed_and_both_runs_name_each_other() {
    let home = Home::new();
    let failed = id(&home.run(&["run", "echo", "boom", "--json"]).exits(1).json()["run_id"]);
    let retried = home.run(&["runs", "retry", &failed]).exits(1);
    assert!(retried.stderr.contains(&format!("retry of {failed}")), "{retried:?}");
    assert!(retried.stderr.contains("it went boom (model_refused)"), "{retried:?}");
    let retry = id(&show(&home, &failed)["retried_as"]);
    assert_eq!(show(&home, &retry)["retry_of"], failed.as_str());
    let twice = home.run(&["runs", "retry", &failed, "--json"]).exits(2);
    assert!(twice.stdout.contains("already_retried") && twice.stdout.contains(&retry), "{twice:?}");
    let last = home.run(&["runs", "retry", &retry, "--json"]).exits(1).json();
    assert_eq!((&last["retry_of"], &last["status"]), (&json!(retry), &json!("failed")));
    home.run(&["runs", "rm", &failed, "--yes"]).exits(0);
    let alone = home.run(&["runs", "show", &retry]).exits(0).stdout;
    assert!(alone.contains(&format!("the run that it retries, {failed}, was deleted")), "{alone}");
    let done = id(&home.run(&["run", "echo", "hello", "--json"]).exits(0).json()["run_id"]);
    let refused = home.run(&["runs", "retry", &done]).exits(2);
    assert!(refused.stderr.contains("all the same, pass `--completed`"), "{refused:?}");
    home.run(&["runs", "retry", &done, "--completed"]).exits(0);
}

#[test]
fn a_failed_child_is_retried_in_its_tree_after_a_kill_of_the_server() {
    let home = team();
    let server = home.serve();
    let lead = id(&home.run(&["run", "lead", "go", "--detach", "--json"]).exits(0).json()["run_id"]);
    let children = loop {
        let list = home.run(&["runs", "list", "--parent", &lead, "--json"]).exits(0).json();
        let children = list["runs"].as_array().expect("runs").clone();
        if children.iter().any(|child| child["status"] == "failed") {
            break children;
        }
    };
    assert_eq!(children.len(), 3);
    let failed = children.iter().find(|child| child["status"] == "failed").map(|child| id(&child["run_id"]));
    let failed = failed.expect("one failed");
    let running = home.run(&["runs", "retry", &lead]).exits(2);
    assert!(running.stderr.contains("has not ended") && running.stderr.contains("drawloom runs cancel"), "{running:?}");
    // The reader of `two` can read now.
    home.write("drawloom.yaml", &TEAM.replace("contains: two", "contains: never"));
    server.kill();
    let retry = id(&home.run(&["runs", "retry", &failed, "--detach", "--json"]).exits(0).json()["run_id"]);
    home.run(&["runs", "wait", &retry]).exits(0);
    let shown = show(&home, &retry);
    assert_eq!((&shown["parent_run_id"], &shown["retry_of"]), (&json!(lead), &json!(failed)));
    assert_eq!((&shown["root_run_id"], &shown["final_text"]), (&json!(lead), &json!("read two")));
    let tail = home.run(&["runs", "tail", &retry, "--json"]).exits(0).stdout;
    assert!(tail.lines().next().is_some_and(|first| first.contains(&format!("\"retry_of\":\"{failed}\""))), "{tail}");
    let tree = home.run(&["runs", "show", &lead]).exits(0).stdout;
    assert!(tree.contains("a retry"), "{tree}");
    home.run(&["runs", "cancel", &lead]).exits(0);
    home.run(&["runs", "wait", &lead]).exits(1);
    let late = home.run(&["runs", "retry", &retry, "--completed"]).exits(0).stderr;
    assert!(late.contains("this retry has no parent") && !late.contains("warning:"), "{late}");
    home.run(&["stop"]).exits(0);
}

#[test]
fn a_cancelled_tree_is_told_in_one_line() {
    let home = team();
    let _server = home.serve();
    let lead = home.command(&["run", "lead", "go"]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let lead = lead.expect("it starts");
    let run = loop {
        let list = home.run(&["runs", "list", "--top-level", "--status", "waiting", "--json"]).exits(0).json();
        if let Some(run) = list["runs"][0]["run_id"].as_str() {
            break run.to_owned();
        }
    };
    home.run(&["runs", "cancel", &run, "--reason", "enough"]).exits(0);
    let output = lead.wait_with_output().expect("it ends");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(said.matches("enough").count(), 1, "{said}");
    assert!(!said.contains("was stopped"), "{said}");
    let shown = home.run(&["runs", "show", &run]).exits(0).stdout;
    assert_eq!(shown.matches("enough").count(), 1, "{shown}");
    assert!(!shown.contains("was stopped") && !shown.contains("child runs failed"), "{shown}");
}

#[test]
fn a_wait_ends_with_the_runs_and_has_their_exit_code() {
    let home = Home::new();
    let _server = home.serve();
    let good = home.run(&["run", "echo", "hello", "--detach", "-q"]).exits(0).stdout.trim().to_owned();
    let bad = home.run(&["run", "echo", "boom", "--detach", "-q"]).exits(0).stdout.trim().to_owned();
    let waited = home.run(&["runs", "wait", &good]).exits(0);
    assert!(waited.stdout.contains("completed") && waited.stdout.contains("hello"), "{waited:?}");
    let both = home.run(&["runs", "wait", &good, &bad, "--json"]).exits(1).json();
    let statuses: Vec<&Value> = both["runs"].as_array().expect("runs").iter().map(|run| &run["status"]).collect();
    assert_eq!(statuses, ["completed", "failed"]);
    let slow = home.run(&["run", "echo", "slow", "--detach", "-q"]).exits(0).stdout.trim().to_owned();
    let late = home.run(&["runs", "wait", &slow, "--timeout", "1s"]).exits(1);
    assert!(late.stderr.contains(&format!("timed out: run {slow} is running")), "{late:?}");
    home.run(&["runs", "cancel", &slow]).exits(0);
    home.run(&["runs", "wait", "last", "--timeout", "1m", "-q"]).exits(1);
    let batch = home.run(&["batch", "--agent", "echo", "one", "two", "--detach", "-q"]).exits(0).stdout;
    let waited = home.run(&["runs", "wait", batch.trim(), "--json"]).exits(0).json();
    assert_eq!(waited["runs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn ended_trees_are_deleted_after_a_question_and_running_ones_are_refused() {
    let home = team();
    let _server = home.serve();
    let one = home.run(&["run", "reader", "one", "-q"]).exits(0).stdout.trim().to_owned();
    let asked = home.run(&["runs", "rm", &one]).exits(3);
    assert!(asked.stderr.contains(&format!("would delete {one}: reader, completed, \"one\"")), "{asked:?}");
    let deleted = home.run(&["runs", "rm", &one, "--yes"]).exits(0);
    assert!(deleted.stdout.starts_with(&format!("deleted {one}: 1 run, ")), "{deleted:?}");
    home.run(&["runs", "show", &one]).exits(2);
    let lead = id(&home.run(&["run", "lead", "go", "--detach", "--json"]).exits(0).json()["run_id"]);
    let running = home.run(&["runs", "rm", &lead, "--yes"]).exits(2);
    assert!(running.stderr.contains("has not ended"), "{running:?}");
    home.run(&["runs", "cancel", &lead]).exits(0);
    home.run(&["runs", "wait", &lead]).exits(1);
    let child = id(&home.run(&["runs", "list", "--parent", &lead, "--json"]).exits(0).json()["runs"][0]["run_id"]);
    let whole = home.run(&["runs", "rm", &child, "--yes"]).exits(2);
    assert!(whole.stderr.contains(&format!("delete its top-level run {lead}")), "{whole:?}");
    let deleted = home.run(&["runs", "rm", &lead, "--yes", "--json"]).exits(0).json();
    assert_eq!(deleted["deleted"][0]["runs"], 4);
    let batch = home.run(&["batch", "--agent", "reader", "one", "three", "-q"]).exits(0).stdout.trim().to_owned();
    let member = id(&home.run(&["runs", "list", "--batch", &batch, "--json"]).exits(0).json()["runs"][0]["run_id"]);
    let refused = home.run(&["runs", "rm", &member, "--yes"]).exits(2);
    assert!(refused.stderr.contains(&format!("delete {batch}")), "{refused:?}");
    home.run(&["runs", "rm", &batch, "--yes"]).exits(0);
    assert_eq!(home.run(&["runs", "list"]).exits(0).stdout, "no runs\n");
}

#[test]
fn costs_are_summed_by_agent_model_user_and_day_and_estimates_are_marked() {
    let home = team();
    let _server = home.serve();
    home.run(&["run", "reader", "one"]).exits(0);
    home.run(&["run", "reader", "three", "--user", "ada"]).exits(0);
    let exact = home.run(&["cost", "--json"]).exits(0).json();
    assert_eq!((&exact["groups"][0]["name"], &exact["groups"][0]["runs"]), (&json!("reader"), &json!(2)));
    assert_eq!((exact["groups"][0].get("assumed_cost"), &exact["total"]["cost"]), (None, &exact["groups"][0]["cost"]));
    assert!(!home.run(&["cost"]).exits(0).stdout.contains("estimated"), "nothing is estimated yet");
    // A stream that breaks has the estimated cost, everywhere.
    let cut = home.run(&["run", "reader", "cut", "--json"]).exits(1).json();
    assert!(cut["cost"].as_f64().is_some_and(|cost| cost > 0.09), "{cut}");
    assert_eq!((&cut["cost"], &cut["tree"]["assumed_cost"]), (&cut["assumed_cost"], &cut["cost"]));
    let list = home.run(&["runs", "list", "--sort", "cost"]).exits(0);
    assert!(list.stdout.lines().nth(1).is_some_and(|first| first.contains("cut") && first.contains('~')), "{list:?}");
    let shown = home.run(&["runs", "show", "last"]).exits(0).stdout;
    let cost = shown.lines().find(|line| line.starts_with("cost")).expect("a cost");
    assert!(cost.starts_with("cost      ~$") && cost.ends_with(" of it estimated"), "{shown}");
    let table = home.run(&["cost", "--by", "model", "--since", "1d"]).exits(0);
    assert!(table.stderr.contains("the oldest run is of 2"), "{table:?}");
    assert!(table.stderr.contains("runs that were deleted or pruned are not counted"), "{table:?}");
    assert!(exact["oldest_run_at"].is_string() && exact["note"].is_string(), "{exact}");
    let rows: Vec<Vec<&str>> = table.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((rows[1][0], rows[1][1], rows[2][0], rows[2][1]), ("script/test", "3", "total", "3"), "{table:?}");
    assert!(rows[1][3].starts_with('~'), "{table:?}");
    assert!(rows[0].ends_with(&["cost", "estimated"]), "{table:?}");
    let (whole, part) = (rows[2][3].trim_start_matches("~$"), rows[2][4].trim_start_matches('$'));
    let amount = |text: &str| text.parse::<f64>().expect("an amount");
    assert!(amount(part) > 0.09 && amount(part) < amount(whole), "only the broken run is estimated: {table:?}");
    let users = home.run(&["cost", "--by", "user", "--json"]).exits(0).json();
    let names: Vec<&Value> = users["groups"].as_array().expect("groups").iter().map(|group| &group["name"]).collect();
    assert_eq!(names, ["default", "ada"]);
    assert_eq!(home.run(&["cost", "--user", "ada", "--json"]).exits(0).json()["total"]["runs"], 1);
    let days = home.run(&["call", "get_costs", "by=day"]).exits(0).json();
    assert_eq!((days["groups"].as_array().map(Vec::len), &days["total"]["runs"]), (Some(1), &json!(3)));
}

#[test]
fn tables_of_batches_mark_estimated_costs() {
    let home = team();
    let _server = home.serve();
    home.run(&["run", "reader", "cut"]).exits(1);
    for command in [&["runs", "wait", "last"][..], &["batch", "--agent", "reader", "cut"]] {
        let table = home.run(command).exits(1);
        assert!(table.stdout.contains(" ~$") && table.stderr.contains("~ estimated: "), "{table:?}");
    }
    let batch = home.run(&["batch", "--agent", "reader", "one", "cut", "--json"]).exits(1).json();
    assert!(batch["assumed_cost"].as_f64().is_some_and(|part| batch["cost"].as_f64() > Some(part)), "{batch}");
}

#[test]
fn an_unknown_agent_in_a_batch_fails_alone_unless_the_batch_is_strict() {
    let home = Home::new();
    let spawns = json!([
        { "agent": "echo", "prompt": "one" }, { "agent": "nobody", "prompt": "two" }, { "agent": "echo", "prompt": "three" },
    ]);
    home.write("batch.json", &spawns.to_string());
    let told = |batch: &Value| {
        let results = batch["results"].as_array().expect("results").clone();
        results.iter().map(|run| (run["index"].clone(), run["status"].clone())).collect::<Vec<_>>()
    };
    let wanted = [(json!(0), json!("completed")), (json!(1), json!("failed")), (json!(2), json!("completed"))];
    let first = home.run(&["batch", "batch.json", "--json"]).exits(1).json();
    assert_eq!(told(&first), wanted);
    assert_eq!(first["already_done"], 0, "a run that cannot start is not one that an earlier command ran");
    assert_eq!(first["results"][1]["error"]["code"], "unknown_agent", "{first}");
    let batch = id(&first["batch_id"]);
    home.run(&["restart"]).exits(0);
    let later = home.run(&["call", "get_batch", &format!("batch_id={batch}")]).exits(0).json();
    assert_eq!(told(&later), wanted);
    assert_eq!(later["results"][1]["error"], first["results"][1]["error"]);
    home.run(&["runs", "show", &id(&first["results"][1]["run_id"])]).exits(0);
    home.write("strict.json", &json!({ "spawns": spawns, "strict": true }).to_string());
    let strict = home.run(&["batch", "strict.json"]).exits(2);
    assert!(strict.stderr.contains("spawns[1]: unknown agent \"nobody\""), "{strict:?}");
}

#[test]
fn at_80_columns_a_list_has_status_error_and_cost_and_cuts_the_prompt() {
    let home = team();
    let _server = home.serve();
    home.run(&["run", "reader", "read this page about the two towers and their shadows in the evening"]).exits(1);
    home.run(&["run", "reader", "cut this page about the towers and their shadows in the evening"]).exits(1);
    let list = home.run(&["runs", "list", "--width", "80"]).exits(0).stdout;
    let head: Vec<&str> = list.lines().next().unwrap_or_default().split_whitespace().collect();
    for title in ["status", "error", "cost"] {
        assert!(head.contains(&title), "{title}: {list}");
    }
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    assert!(list.contains("the model refused"), "{list}");
}
