//! Evaluations as agents, callers and commands use them: real processes, one store.

use serde_json::{Value, json};

use crate::support::Home;

/// A team whose lead evaluates its worker, the worker itself, and a judge that may evaluate every run.
const CONFIG: &str = r#"
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - { when: { agent: judge, turn: 1 }, calls: [{ tool: Evaluation, input: { op: submit, run_id: "{{prompt}}", score: 0.75, dimensions: { style: 0.5 }, tag: style, rationale: "It is short." } }] }
        - { when: { agent: reader, turn: 1 }, calls: [{ tool: Evaluation, input: { op: list_for_run, run_id: "{{prompt}}" } }, { tool: Context, input: { op: evaluations } }] }
        - { when: { agent: shy, turn: 1 }, calls: [{ tool: Evaluation, input: { op: submit, run_id: "{{prompt}}", score: 0.5 } }] }
        - { when: { agent: worker, turn: 1 }, calls: [{ tool: Evaluation, input: { op: submit, run_id: "{{run}}", score: 0.25, tag: self } }] }
        - { when: { agent: lead, turn: 1 }, calls: [{ tool: Agent, input: { name: worker, prompt: go } }] }
        - { text: "{{last}}" }
defaults: { provider: script, model: test }
agents:
  judge: { description: Judges., tools: [Evaluation], agents: [], hosts: [], volumes: [], evaluation_scopes: [submit_any] }
  reader: { description: Reads., tools: [Evaluation, Context], agents: [], hosts: [], volumes: [], evaluation_scopes: [read_any] }
  shy: { description: Shy., tools: [Evaluation], agents: [], hosts: [], volumes: [], evaluation_scopes: [submit_self, submit_children] }
  worker: { description: Works., tools: [Evaluation], agents: [], hosts: [], volumes: [], evaluation_scopes: [submit_self] }
  lead: { description: Leads., tools: [Agent], agents: [worker], hosts: [], volumes: [] }
"#;

fn home() -> Home {
    let home = Home::new();
    home.write("drawloom.yaml", CONFIG);
    home
}

fn run(home: &Home, agent: &str, prompt: &str) -> (String, String) {
    let ran = home.run(&["run", agent, prompt, "--json"]).exits(0).json();
    let text = |key: &str| ran[key].as_str().unwrap_or_default().to_owned();
    (text("run_id"), text("final_text"))
}

#[test]
fn agents_and_callers_evaluate_a_run_and_commands_show_it() {
    let home = home();
    let (worked, told) = run(&home, "worker", "go");
    assert!(told.contains("\"emitter_role\":\"self\""), "{told}");
    let (_, judged) = run(&home, "judge", &worked);
    let judged: Value = serde_json::from_str(&judged).expect("an answer");
    assert_eq!((&judged["emitter_role"], &judged["run_id"]), (&json!("unrelated"), &json!(worked)));
    let (_, refused) = run(&home, "shy", &worked);
    assert!(
        refused.contains("add submit_any to `evaluation_scopes`, which has: submit_children, submit_self"),
        "{refused}"
    );
    let submit = |score: &str| {
        home.run(&["evaluations", "submit", &worked, score, "-d", "style=0.9", "--tag", "mine", "--json"])
    };
    let first = submit("0.8").exits(0).json();
    assert_eq!(
        (&first["emitter_role"], &first["unchanged"], &first["revision"]),
        (&json!("external"), &json!(false), &json!(1))
    );
    assert_eq!(submit("0.8").exits(0).json()["unchanged"], true);
    let second = submit("0.9").exits(0).json();
    assert_eq!((&second["eval_id"], &second["replaced"]["score"]), (&first["eval_id"], &json!(0.8)));
    assert!(submit("1.5").exits(2).stdout.contains("out_of_range"));

    let listed = home.run(&["evaluations", "ls", &worked, "--json"]).exits(0).json();
    let scores: Vec<&Value> = listed["evaluations"].as_array().expect("a list").iter().map(|it| &it["score"]).collect();
    assert_eq!(scores, [&json!(0.9), &json!(0.75), &json!(0.25)], "newest first: {listed}");
    let table = home.run(&["evaluations", "ls", &worked, "--width", "100"]).exits(0).stdout;
    assert!(table.contains("judge (unrelated)") && table.contains("style 0.50"), "{table}");
    let shown = home.run(&["evaluations", "show", &worked, "--tag", "style"]).exits(0).stdout;
    assert!(shown.contains("It is short.") && shown.contains("0.75"), "{shown}");
    let by_id =
        home.run(&["evaluations", "show", judged["eval_id"].as_str().expect("an id"), "--json"]).exits(0).json();
    assert_eq!((&by_id["rationale"], &by_id["emitter"]["agent"]), (&json!("It is short."), &json!("judge")));
    let (_, read) = run(&home, "reader", &worked);
    assert!(read.contains("\"tag\":\"mine\"") && read.contains("\"evaluation_scopes\":[\"read_any\"]"), "{read}");
    home.run(&["evaluations", "show", &worked, "--tag", "other"]).exits(1);
}

#[test]
fn versions_of_an_agent_are_compared_in_a_table_with_a_trend() {
    let home = home();
    for score in ["0.2", "0.4", "0.3"] {
        let (worked, _) = run(&home, "worker", "go");
        home.run(&["evaluations", "submit", &worked, score, "-d", "style=0.5"]).exits(0);
    }
    home.write("drawloom.yaml", &CONFIG.replace("description: Works.", "description: Works better."));
    home.run(&["stop"]).exits(0);
    let (worked, _) = run(&home, "worker", "go");
    home.run(&["evaluations", "submit", &worked, "0.9"]).exits(0);
    let stats = home.run(&["evaluations", "stats", "worker", "--json"]).exits(0).json();
    let counts: Vec<u64> =
        stats["versions"].as_array().expect("versions").iter().filter_map(|it| it["count"].as_u64()).collect();
    assert_eq!((counts, &stats["count"]), (vec![2, 6], &json!(8)), "{stats}");
    assert_eq!(stats["by_emitter_role"]["external"]["recent"], json!([0.2, 0.4, 0.3, 0.9]));
    assert_ne!(stats["versions"][0]["def_id"], stats["versions"][1]["def_id"]);
    let table = home.run(&["evaluations", "stats", "worker", "--width", "140"]).exits(0).stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4, "two versions, one with a dimension: {table}");
    assert!(lines[1].contains("▁█") && lines[3].contains("style") && lines[3].contains("▄▄▄"), "{table}");
    let now = home.run(&["evaluations", "stats", "--def", "worker", "--json"]).exits(0).json();
    assert_eq!((&now["count"], &now["def_id"]), (&json!(2), &stats["versions"][0]["def_id"]));
}

#[test]
fn evaluations_go_with_their_run_and_their_numbers_stay() {
    let home = home();
    let (worked, _) = run(&home, "lead", "go");
    let children = home.run(&["runs", "list", "--agent", "worker", "--json"]).exits(0).json();
    let child = children["runs"][0]["run_id"].as_str().expect("a child").to_owned();
    assert_eq!(home.run(&["evaluations", "ls", &child, "--json"]).exits(0).json()["evaluations"][0]["score"], 0.25);
    home.run(&["prune", "--older-than", "0s", "--yes"]).exits(0);
    home.run(&["evaluations", "ls", &child]).exits(2);
    home.run(&["runs", "show", &worked]).exits(2);
    let stats = home.run(&["evaluations", "stats", "worker", "--json"]).exits(0).json();
    assert_eq!((&stats["count"], &stats["score"]["mean"]), (&json!(1), &json!(0.25)));
    let listed = home.run(&["evaluations", "ls", "--def", "worker", "--json"]).exits(0).json();
    let id = listed["evaluations"][0]["eval_id"].as_str().expect("an id");
    assert!(home.run(&["evaluations", "show", id, "--json"]).exits(2).stdout.contains("unknown_evaluation"));
}

#[test]
fn unknown_agents_and_scores_that_are_no_numbers_are_refused_and_lineage_names_the_parent_in_the_config() {
    let home = home();
    let unknown = home.run(&["evaluations", "stats", "wroker", "--json"]).exits(2).json();
    assert_eq!(unknown["error"]["code"], "unknown_agent", "{unknown}");
    assert_eq!(unknown["error"]["hint"], "did you mean \"worker\"?");
    let (worked, _) = run(&home, "worker", "go");
    let refused = home.run(&["evaluations", "submit", &worked, "nan"]).exits(2);
    assert!(refused.stderr.contains("\"nan\" is not a number from 0 to 1"), "{refused:?}");
    home.run(&["defs", "fork", "worker", "--name", "worker2", "--promote"]).exits(0);
    let empty = home.run(&["evaluations", "stats", "--def", "worker2@1", "--json"]).exits(0).json();
    assert_eq!(empty["count"], 0, "{empty}");
    home.run(&["defs", "fork", "worker2", "--set", "max_iterations=3"]).exits(0);
    let empty = home.run(&["evaluations", "stats", "--def", "worker2@2", "--json"]).exits(0).json();
    assert_eq!((&empty["count"], &empty["def_id"]), (&json!(0), &json!("worker2@2")), "{empty}");
    let (worked, _) = run(&home, "worker2", "go");
    home.run(&["evaluations", "submit", &worked, "0.9"]).exits(0);
    let all = home.run(&["evaluations", "stats", "--def", "worker2", "--lineage", "--json"]).exits(0).json();
    let of = |index: usize, key: &str| all["versions"][index][key].clone();
    assert_eq!([of(0, "version"), of(0, "parent")], [json!("worker2@1"), json!("worker@config")], "{all}");
    assert_eq!([of(1, "version"), of(1, "is_parent")], [json!("worker@config"), json!(true)], "{all}");
    assert_eq!((&all["count"], &all["lineage_included"]), (&json!(2), &json!(true)));
}
