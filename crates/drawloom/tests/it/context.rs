//! What a model is told about its own run by the tool `Context`.

use serde_json::{Value, json};

use crate::support::Home;

const CONFIG: &str = r#"
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - when: { agent: asker, turn: 1 }
          calls: [{ tool: Context, input: { op: "{{prompt}}" } }]
        - when: { agent: lead, turn: 1 }
          calls: [{ tool: Agent, input: { name: asker, prompt: limits } }]
        - when: { agent: closed, turn: 1 }
          calls: [{ tool: Context, input: { op: tools } }]
        - when: { agent: reader, turn: 1 }
          calls: [{ tool: Context, input: { op: help, topic: artefacts } }]
        - text: "{{last}}"
defaults: { provider: script, model: test }
pricing: { models: { script/test: { input: 1, output: 1 } } }
agents:
  asker:
    description: Looks itself up.
    system_prompt: CANARY-PROMPT
    tools: [Context, Read, Agent]
    agents: [helper]
    hosts: [docs.example.com]
    volumes: [notes]
    budget: { tokens: 100000 }
  helper: { description: Helps., tools: [], agents: [], hosts: [] }
  lead: { tools: [Agent], agents: [asker], hosts: [], budget: { tokens: 50000 } }
  reader: { tools: [Context], agents: [], hosts: [] }
  closed: { tools: [Context, Agent], agents: [], hosts: [], volumes: [] }
volumes:
  notes: { path: notes, mode: ro }
"#;

fn ask(home: &Home, op: &str) -> Value {
    let run = home.run(&["call", "spawn_run", "agent=asker", &format!("prompt={op}"), "user_id=ada"]).exits(0).json();
    let text = run["final_text"].as_str().unwrap_or_else(|| panic!("{run}"));
    let mut told: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    if op == "self" {
        assert_eq!(told["run_id"], run["run_id"]);
        told["usage"].take();
    }
    assert!(!text.contains("CANARY"), "{text}");
    told
}

#[test]
fn a_model_learns_what_it_is_and_what_it_may_do() {
    let home = Home::new();
    home.write("drawloom.yaml", CONFIG);
    let _server = home.serve();
    let told = ask(&home, "self");
    assert_eq!((&told["agent"], &told["description"]), (&json!("asker"), &json!("Looks itself up.")));
    assert_eq!((&told["user_id"], &told["depth"], &told["model"]), (&json!("ada"), &json!(0), &json!("test")));
    assert_eq!((&told["root_run_id"], &told["parent"]), (&told["run_id"], &Value::Null));
    // The first turn read some thousand characters at a dollar a million tokens.
    assert!(told["cost"].as_f64().is_some_and(|cost| cost > 0.0 && cost < 0.01), "{told}");

    let told = ask(&home, "tools");
    let names: Vec<&Value> = told["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["Agent", "Context", "Read"]);
    assert!(told["tools"].as_array().expect("tools").iter().all(|tool| tool["offered"] == true), "{told}");

    let run = home.run(&["call", "spawn_run", "agent=closed", "prompt=go"]).exits(0).json();
    let told: Value = serde_json::from_str(run["final_text"].as_str().expect("a text")).expect("JSON");
    assert_eq!((&told["tools"][0]["name"], &told["tools"][0]["offered"]), (&json!("Agent"), &json!(false)));
    assert!(told["tools"][0]["reason"].as_str().is_some_and(|reason| reason.contains("`agents`")), "{told}");

    assert_eq!(ask(&home, "agents")["agents"], json!([{ "name": "helper", "description": "Helps." }]));

    let told = ask(&home, "permissions");
    assert_eq!(told["volumes"], json!([{ "name": "notes", "mode": "ro" }]));
    assert_eq!((&told["hosts"], &told["agents"]), (&json!(["docs.example.com"]), &json!(["helper"])));

    let told = ask(&home, "limits");
    assert_eq!(told["budgets"][0]["tokens"]["most"], 100_000);
    let left = told["budgets"][0]["tokens"]["left"].as_u64().expect("tokens");
    assert!((1..100_000).contains(&left), "the first turn is counted: {told}");

    let told = ask(&home, "time");
    assert!(told["utc"].as_str().is_some_and(|time| time.ends_with('Z')), "{told}");
    let told = ask(&home, "help");
    assert!(told["topics"].as_array().is_some_and(|topics| topics.len() > 5), "{told}");
}

#[test]
fn a_child_learns_of_its_tree_and_a_request_that_narrows_shows() {
    let home = Home::new();
    home.write("drawloom.yaml", CONFIG);
    let _server = home.serve();
    let run = home.run(&["call", "spawn_run", "agent=lead", "prompt=go"]).exits(0).json();
    let text = run["final_text"].as_str().expect("a text");
    // The tree's budget is the root's.
    assert!(text.contains(r#"\"most\":50000"#) || text.contains(r#""most":50000"#), "{text}");
    assert!(text.contains(r#"\"depth\":1"#) || text.contains(r#""depth":1"#), "{text}");

    let narrowed = "tools=Context";
    let run = home.run(&["call", "spawn_run", "agent=asker", "prompt=permissions", narrowed]).exits(0).json();
    let told: Value = serde_json::from_str(run["final_text"].as_str().expect("a text")).expect("JSON");
    assert_eq!((&told["tools"], &told["narrowed_by_request"]["tools"]), (&json!(["Context"]), &json!(true)));

    let run = home.run(&["call", "spawn_run", "agent=reader", "prompt=go"]).exits(0).json();
    let text = run["final_text"].as_str().expect("a text");
    assert!(text.contains("did you mean \"artifacts\"?"), "{text}");
}
