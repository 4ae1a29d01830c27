//! Looking at runs, following them, stopping them, folding them again.

use serde_json::Value;

use crate::support::Home;

fn first_run(home: &Home) -> String {
    let list = home.run(&["runs", "list", "--json"]).exits(0).json();
    list["runs"][0]["run_id"].as_str().expect("a run").to_owned()
}

#[test]
fn runs_are_listed_newest_first() {
    let home = Home::new();
    assert_eq!(home.run(&["runs", "list"]).exits(0).stdout, "no runs\n");
    home.run(&["run", "echo", "one"]).exits(0);
    home.run(&["run", "echo", "boom"]).exits(1);
    let list = home.run(&["runs", "list", "--json"]).exits(0).json();
    let statuses: Vec<&Value> = list["runs"].as_array().expect("runs").iter().map(|run| &run["status"]).collect();
    assert_eq!(statuses, ["failed", "completed"]);
    let failed = home.run(&["runs", "list", "--status", "failed,cancelled", "--json"]).exits(0).json();
    assert_eq!(failed["runs"].as_array().map(Vec::len), Some(1));
    let table = home.run(&["runs", "list"]).exits(0).stdout;
    assert!(table.contains("the model refused: it went boom"), "{table}");
}

#[test]
fn the_journal_can_be_read_without_a_config() {
    let home = Home::new();
    home.run(&["run", "echo", "hello"]).exits(0);
    std::fs::remove_file(home.path().join("drawloom.yaml")).expect("it is there");
    let run = first_run(&home);
    let tail = home.run(&["runs", "tail", &run]).exits(0).stdout;
    assert!(
        tail.contains("» hello\n") && tail.lines().last().is_some_and(|line| line.contains("✓ completed")),
        "{tail}"
    );
    home.run(&["replay", &run]).exits(0);
    home.run(&["stop"]).exits(0);
    assert_eq!(first_run(&home), run);
    home.run(&["runs", "tail", &run]).exits(0);
    home.run(&["replay", &run]).exits(0);
    home.run(&["run", "echo", "hello"]).exits(2);
}

#[test]
fn a_run_is_shown_with_its_text() {
    let home = Home::new();
    home.run(&["run", "echo", "hello"]).exits(0);
    let run = first_run(&home);
    let shown = home.run(&["runs", "show", &run]).exits(0).stdout;
    assert!(shown.contains("status    completed (end_turn)\n") && shown.ends_with("\n\nhello\n"), "{shown}");
    let handle = home.run(&["runs", "show", &run, "--json"]).json()["agent_id"].as_str().expect("one").to_owned();
    assert_eq!(home.run(&["runs", "show", &handle, "--json"]).exits(0).json()["run_id"], run.as_str());
    let nobody = home.run(&["runs", "show", "r_00000000000000000000000000000000"]).exits(2);
    assert!(nobody.stderr.starts_with("error: "), "{nobody:?}");
    home.run(&["runs", "show", "not a handle"]).exits(2);
}

#[test]
fn the_events_of_a_run_that_ended_can_be_read_again() {
    let home = Home::new();
    home.run(&["run", "echo", "read it"]).exits(0);
    let run = first_run(&home);
    let events = home.run(&["runs", "tail", &run, "--json"]).exits(0).stdout;
    let kinds: Vec<String> = events
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("a line of JSON")["type"].as_str().expect("a type").into()
        })
        .collect();
    assert_eq!(kinds.first().map(String::as_str), Some("agent"));
    assert_eq!(kinds.last().map(String::as_str), Some("done"));
    assert!(kinds.iter().any(|kind| kind == "tool_result"), "{kinds:?}");
    let last: Value = serde_json::from_str(events.lines().last().expect("events")).expect("JSON");
    let seq = last["seq"].as_u64().expect("a number");
    let rest = home.run(&["runs", "tail", &run, "--json", "--from", &(seq - 1).to_string()]).exits(0).stdout;
    assert_eq!(rest.lines().count(), 1, "{rest}");
    let tail = home.run(&["runs", "tail", &run, "--since", "1h"]).exits(0).stdout;
    assert!(tail.contains("→ Read note.txt\n") && tail.contains("remember the milk"), "{tail}");
    assert_eq!(home.run(&["runs", "tail", &run, &run]).exits(0).stdout.lines().count(), tail.lines().count() * 2);
}

#[test]
fn a_run_that_has_ended_cannot_be_cancelled() {
    let home = Home::new();
    home.run(&["run", "echo", "hello"]).exits(0);
    let run = first_run(&home);
    let ran = home.run(&["runs", "cancel", &run]).exits(0);
    assert_eq!(ran.stdout, format!("{run} has already ended: completed\n"));
}

#[test]
fn a_journal_folds_again_to_the_same_decisions() {
    let home = Home::new();
    home.run(&["run", "echo", "read it"]).exits(0);
    let run = first_run(&home);
    let replay = home.run(&["replay", &run, "--json"]).exits(0).json();
    assert_eq!(replay["ok"], true);
    let shown = home.run(&["replay", &run]).exits(0).stdout;
    assert!(shown.contains("0 of them differ now"), "{shown}");
    home.run(&["replay", "r_00000000000000000000000000000000"]).exits(2);
}

#[test]
fn a_run_is_named_by_the_start_of_its_id_by_last_and_by_its_batch() {
    let home = Home::new();
    home.run(&["run", "echo", "first"]).exits(0);
    let first = first_run(&home);
    let batch = home.run(&["batch", "--agent", "echo", "--json", "one", "two"]).exits(0).json();
    let batch = batch["batch_id"].as_str().expect("a batch").to_owned();
    let id_of = |name: &str| home.run(&["runs", "show", name, "--json"]).exits(0).json()["run_id"].clone();
    // What a table shows is accepted, with and without its kind.
    let table = home.run(&["runs", "ls", "--search", "FIRST"]).exits(0).stdout;
    let shown = table.lines().nth(1).and_then(|line| line.split(' ').next()).expect("an id").to_owned();
    assert!(shown.len() < 34 && first.starts_with(&shown), "{table}");
    for name in [&shown, &shown[2..], &shown[2..].to_uppercase(), &first] {
        assert_eq!(id_of(name), first.as_str(), "{name}");
    }
    let newest = home.run(&["runs", "list", "--limit", "1", "--json"]).exits(0).json();
    assert_eq!(id_of("last"), newest["runs"][0]["run_id"]);
    // All begin with the same digits of their time.
    let ambiguous = home.run(&["replay", &first[..6]]).exits(2);
    assert!(ambiguous.stderr.starts_with(&format!("error: {:?} matches 3 ids\n", &first[..6])), "{ambiguous:?}");
    assert!(ambiguous.stderr.contains(&format!("{first}  completed  echo: first\n")), "{ambiguous:?}");
    let unknown = home.run(&["runs", "cancel", "r_ffff"]).exits(2);
    assert_eq!(unknown.stderr, "error: no run matches \"r_ffff\"; see `drawloom runs list`\n");
    // A batch is taken where a run is.
    let start = &batch[..20];
    let shown = home.run(&["runs", "show", start]).exits(0).stdout;
    assert!(shown.starts_with(&format!("batch {batch}: 2 runs, ")) && shown.contains("one\n"), "{shown}");
    let tail = home.run(&["runs", "tail", start]).exits(0).stdout;
    assert!(tail.contains("  echo    ") && tail.contains("  echo#2  ") && tail.contains("» two"), "{tail}");
    assert_eq!(
        home.run(&["runs", "cancel", start]).exits(0).stdout,
        format!("all runs of {batch} have already ended\n")
    );
    let one = home.run(&["replay", start]).exits(2);
    assert!(one.stderr.contains("is a batch; this command takes one run"), "{one:?}");
    let listed = home.run(&["runs", "list", "--batch", start, "--json"]).exits(0).json();
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(2));
}

#[test]
fn runs_are_found_by_state_age_and_prompt() {
    let home = Home::new();
    home.run(&["run", "echo", "Say Invoice 17"]).exits(0);
    home.run(&["run", "echo", "boom"]).exits(1);
    let count = |arguments: &[&str]| {
        let list = home.run(&[&["runs", "list", "--json"], arguments].concat()).exits(0).json();
        list["runs"].as_array().map(Vec::len)
    };
    assert_eq!(count(&["--search", "invoice"]), Some(1));
    assert_eq!(count(&["--search", "invoice", "--status", "failed"]), Some(0));
    assert_eq!(count(&["--search", "no such text"]), Some(0));
    assert_eq!(count(&["--active"]), Some(0));
    assert_eq!(count(&["--since", "1h", "--agent", "echo"]), Some(2));
    assert_eq!(count(&["--top-level", "--limit", "1"]), Some(1));
    let list = home.run(&["runs", "list", "--width", "80"]).exits(0).stdout;
    assert!(list.contains("Say Invoice") && list.lines().next().is_some_and(|head| head.ends_with("error")), "{list}");
}

#[test]
fn a_run_is_shown_with_the_reason_of_every_failed_call_and_with_calls_on_demand() {
    let home = Home::new();
    std::fs::remove_file(home.path().join("notes/note.txt")).expect("it is there");
    home.run(&["run", "echo", "read it"]).exits(0);
    let brief = home.run(&["runs", "show", "last"]).exits(0).stdout;
    assert!(brief.contains("prompt    read it\n"), "{brief}");
    assert!(brief.contains("     ✗ Read note.txt  ") && brief.contains("\n       note.txt: no such file"), "{brief}");
    assert!(!brief.contains("input"), "{brief}");
    let whole = home.run(&["runs", "show", "last", "--calls"]).exits(0).stdout;
    assert!(whole.contains("       input\n         {\n") && whole.contains("\"path\": \"note.txt\""), "{whole}");
    assert!(whole.contains("       error\n         note.txt: no such file"), "{whole}");
    let json = home.run(&["runs", "show", "last", "--calls", "--json"]).exits(0).json();
    assert_eq!((&json["calls"][0]["tool"], &json["calls"][0]["is_error"]), (&"Read".into(), &true.into()));
    assert_eq!((&json["prompt"], &json["calls"][0]["input"]["path"]), (&"read it".into(), &"note.txt".into()));
}

#[test]
fn a_run_at_work_is_shown_with_what_it_did_so_far() {
    let home = Home::new();
    let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    let slow = "        - when: { contains: dawdle, turn: 2 }\n          text: never said\n          delay_ms: 600000\n        - when: { contains: read, turn: 1 }";
    home.write("drawloom.yaml", &config.replace("        - when: { contains: read, turn: 1 }", slow));
    home.run(&["run", "echo", "read it and dawdle", "--detach"]).exits(0);
    let shown = loop {
        let shown = home.run(&["runs", "show", "last"]).exits(0).stdout;
        if shown.contains("✓ Read") {
            break shown;
        }
    };
    assert!(shown.contains("status    running\n") && shown.contains("  1  requests 1 tool call\n"), "{shown}");
    home.run(&["runs", "cancel", "last"]).exits(0);
}

#[test]
fn costs_that_are_assumed_are_marked_and_the_mark_is_explained() {
    let home = Home::new();
    home.write(
        "drawloom.yaml",
        "listen: 127.0.0.1:0\n\
         providers: { script: { driver: script, options: { rules: [\
         { when: { attempt: 1 }, text: a b c, chunks: 3, fail: { kind: cut, after_chunks: 2 } }, { text: done }] } } }\n\
         defaults: { provider: script, model: test }\n\
         pricing: { models: { script/test: { input: 3, output: 15 } } }\n\
         agents: { echo: { tools: [], agents: [], volumes: [], budget: { cost: 1 } } }\n",
    );
    let ran = home.run(&["run", "echo", "hi"]).exits(0);
    let legend = "~ estimated: the provider did not report what some calls used\n";
    assert!(ran.stderr.contains(" · ~$0.") && ran.stderr.ends_with(legend), "{ran:?}");
    let list = home.run(&["runs", "list"]).exits(0);
    assert!(list.stdout.contains("  ~$0.") && list.stderr.ends_with(legend), "{list:?}");
    let shown = home.run(&["runs", "show", "last"]).exits(0);
    assert!(shown.stdout.contains("\ncost      ~$0.") && shown.stderr.ends_with(legend), "{shown:?}");
    let json = home.run(&["runs", "show", "last", "--json"]).exits(0).json();
    assert!(
        json["assumed_cost"].as_f64().is_some_and(|assumed| assumed > 0.0 && json["cost"].as_f64() >= Some(assumed))
    );
    let tail = home.run(&["runs", "tail", "last"]).exits(0).stdout;
    assert!(tail.contains("(assumed: the provider did not report it)"), "{tail}");
}

/// A lead whose three readers are asked in an order that is not that of the alphabet; one fails, one waits when it is asked to.
const TEAM: &str = "\
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
                spawns:
                  - { name: reader, prompt: '{{prompt}} warp' }
                  - { name: reader, prompt: '{{prompt}} boom' }
                  - { name: reader, prompt: '{{prompt}} reed, which is a text that is far too long for one line of a tree of runs' }
        - when: { contains: boom }
          fail: { kind: refused, message: it went boom }
        - when: { agent: reader, contains: slow }
          text: never said
          delay_ms: 600000
        - text: done
defaults: { provider: script, model: test }
agents:
  lead: { tools: [Agent], agents: [reader], volumes: [], hosts: [] }
  reader: { tools: [], agents: [], volumes: [], hosts: [] }
";

#[test]
fn the_tree_has_the_child_runs_in_the_order_of_their_spawns_with_their_prompts() {
    let home = Home::new();
    home.write("drawloom.yaml", TEAM);
    home.run(&["run", "lead", "read"]).exits(0);
    let shown = home.run(&["runs", "show", "last", "--width", "120"]).exits(0).stdout;
    let tree: Vec<&str> = shown.lines().skip_while(|line| !line.starts_with("lead  ")).collect();
    assert!(tree[0].ends_with(" tokens with children"), "{shown}");
    assert!(tree[1].starts_with("├─ reader  completed") && tree[1].ends_with("  \"read warp\""), "{shown}");
    assert!(tree[2].starts_with("├─ reader  failed") && tree[2].ends_with("  \"read boom\""), "{shown}");
    assert!(tree[4].starts_with("└─ reader  completed") && tree[4].ends_with("…\""), "{shown}");
    for width in ["40", "60", "80"] {
        let shown = home.run(&["runs", "show", "last", "--width", width]).exits(0).stdout;
        let tree = shown.lines().skip_while(|line| !line.starts_with("lead  ")).skip(1);
        let widest = tree.map(|line| line.chars().count()).max();
        assert!(widest <= width.parse().ok(), "{shown}");
    }
}

#[test]
fn a_failed_model_call_is_a_step_of_its_own() {
    let home = Home::new();
    let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    let fails = "        - when: { contains: read, turn: 2 }\n          fail: { kind: refused, message: not this one }\n        - when: { contains: read, turn: 1 }";
    home.write("drawloom.yaml", &config.replace("        - when: { contains: read, turn: 1 }", fails));
    home.run(&["run", "echo", "read it"]).exits(1);
    let shown = home.run(&["runs", "show", "last"]).exits(0).stdout;
    let (_, steps) = shown.split_once("\n\n").expect("steps");
    let steps: Vec<&str> = steps.lines().collect();
    assert_eq!(steps[0], "  1  requests 1 tool call", "{shown}");
    assert_eq!(
        steps[2], "  2  ✗ model call failed (attempt 1): the model refused: not this one; not retried",
        "{shown}"
    );
    let listed = home.run(&["runs", "list"]).exits(0).stdout;
    assert!(listed.contains("  the model refused: not this one"), "{listed}");
}

#[test]
fn a_cancelled_run_says_so_once_and_has_no_error() {
    let home = Home::new();
    home.write("drawloom.yaml", TEAM);
    home.run(&["run", "lead", "slow", "--detach"]).exits(0);
    let readers = || home.run(&["runs", "list", "--agent", "reader", "--active", "--json"]).exits(0).json();
    while readers()["runs"].as_array().map(Vec::len) != Some(2) {}
    let run = home.run(&["runs", "show", "last", "--json"]).exits(0).json()["run_id"].as_str().expect("one").to_owned();
    let told = home.run(&["runs", "cancel", "last", "--reason", "enough of it"]).exits(0).stdout;
    assert_eq!(told, format!("cancelled {run} and 2 child runs\n"));
    let shown = home.run(&["runs", "show", "last"]).exits(0).stdout;
    assert!(shown.contains("\nstatus    cancelled: enough of it"), "{shown}");
    assert!(!shown.contains("\nerror ") && !shown.contains("(cancelled)"), "{shown}");
    let child = home.run(&["runs", "list", "--agent", "reader", "--status", "cancelled", "-q"]).exits(0).stdout;
    let child = child.lines().next().expect("a child");
    let shown = home.run(&["runs", "show", child]).exits(0).stdout;
    assert!(shown.contains(&format!("\nstatus    cancelled: the parent run {run} was stopped")), "{shown}");
    let again = home.run(&["runs", "cancel", "last"]).exits(0).stdout;
    assert_eq!(again, format!("{run} has already ended: cancelled\n"));
}
