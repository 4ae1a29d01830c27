//! A lead's model reads the names of the agents that it may spawn from the tool's schema. The names stay the same until the run
//! ends.

use serde_json::{Value, json};

use crate::{
    http::{Response, get, post},
    process::{Case, Server},
    prove::pass,
};

const CONFIG: &str = r#"
providers:
  script:
    driver: script
    options:
      rules:
        - when: { agent: lead, contains: fan out, turn: 1 }
          calls:
            - tool: Agent
              input:
                op: parallel_spawn
                spawns:
                  - { name: "{{schema.Agent/properties/name/enum/0}}", prompt: a }
                  - { name: "{{schema.Agent/$defs/Spawn/properties/name/enum/1}}", prompt: b }
        - { when: { agent: lead, contains: fan out }, text: "{{last}}" }
        - when: { agent: lead, contains: wrong, turn: 1 }
          calls: [{ tool: Agent, input: { name: nobody, prompt: a } }]
        - { when: { agent: lead, contains: wrong }, text: "{{last}}" }
        - { when: { agent: lead, contains: hold, attempt: 1 }, text: late, delay_ms: 3600000 }
        - { when: { agent: lead }, text: "{{schema.Agent/properties/name/enum}}" }
        - when: { agent: bare, turn: 1 }
          text: "{{tools}}"
          calls:
            - { tool: Agent, input: { name: one, prompt: a } }
            - { tool: Write, input: { path: a, content: b } }
            - { tool: HTTP, input: { method: GET, url: "http://example.com" } }
        - { when: { agent: bare }, text: "{{last}}" }
        - { text: "{{agent}}" }
defaults: { provider: script, model: m }
tools: { http: { hosts: [example.com] } }
volumes:
  notes: { path: "FILES", default: true }
agents:
  lead: { description: leads, tools: [Agent], agents: [one, t*] }
  one: { description: The first. }
  two: { description: The second. }
  other: { description: Not for the lead. }
  bare: { tools: [Agent, Write, Read, HTTP] }
"#;

fn run(server: &Server, agent: &str, prompt: &str) -> Value {
    let body = json!({ "agent": agent, "prompt": prompt });
    post(&server.url, "/v1/runs", &body).and_then(Response::json).expect("a result")
}

#[test]
fn a_model_chooses_its_children_from_the_schema_alone() {
    let case = Case::new(CONFIG);
    let server = case.start(&json!({ "sync": false }));
    let done = run(&server, "lead", "fan out");
    assert_eq!(done["status"], "completed", "{done}");
    let said = done["final_text"].as_str().unwrap_or_default();
    assert!(said.contains("one") && said.contains("two") && !said.contains("error"), "{done}");
    let done = run(&server, "lead", "wrong");
    assert!(done["final_text"].as_str().is_some_and(|said| said.contains("allowed agents: one, two")), "{done}");
}

#[test]
fn a_tool_whose_gate_is_empty_is_not_offered_and_a_call_names_the_gate() {
    let case = Case::new(CONFIG);
    let server = case.start(&json!({ "sync": false }));
    let done = run(&server, "bare", "x");
    let said = done["final_text"].as_str().unwrap_or_default();
    for gate in
        ["`agents` is empty (to allow it", "volumes are read-only (to allow it, write `mode: rw`)", "`hosts` is empty"]
    {
        assert!(said.contains(gate), "{gate}: {done}");
    }
    let events = crate::kill::events(&server.url, done["run_id"].as_str().expect("an id"));
    assert!(events.iter().any(|(_, event)| event.to_string().contains("\"Read\"")), "{events:?}");
}

#[test]
fn a_renamed_agent_changes_the_schema_of_new_runs_and_not_of_pinned_ones() {
    let case = Case::new(CONFIG);
    let settings = json!({ "sync": false });
    let mut server = case.start(&settings);
    let body = json!({ "agent": "lead", "prompt": "hold", "mode": "detach" });
    let held = post(&server.url, "/v1/runs", &body).and_then(Response::json).expect("accepted");
    while case.lines("calls").is_empty() {
        pass(5);
    }
    server.kill();
    let config = std::fs::read_to_string(case.path("drawloom.yaml")).expect("the config");
    let config = config.replace("  two: {", "  three: {");
    std::fs::write(case.path("drawloom.yaml"), config).expect("the config");
    let server = case.start(&settings);
    let held = get(&server.url, &format!("/v1/runs/{}?wait_ms=60000", held["run_id"].as_str().expect("an id")));
    assert_eq!(held["final_text"], r#"["one","two"]"#, "{held}");
    assert_eq!(run(&server, "lead", "look")["final_text"], r#"["one","three"]"#);
}
