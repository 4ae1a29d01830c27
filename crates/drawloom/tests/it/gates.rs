//! Every tool that needs a gate: without it an agent's operator is told at boot, by `validate` and by `doctor`, and its model in the
//! refusal, each time with what to write.

use drawloom_contract::gate::Gate;
use drawloom_substrate::{STORE_TOOLS, SkillTool, definitions::decides_gate};
use serde_json::Value;

use crate::support::Home;

/// Every tool that has a gate.
fn gated() -> Vec<(&'static str, Gate)> {
    let built_in = drawloom_tools::BUILT_IN.iter().map(|tool| (tool.name, tool.gate));
    let of_store = STORE_TOOLS.iter().map(|tool| (tool.name, tool.gate));
    let all = built_in.chain(of_store).chain([(SkillTool::NAME, Some(SkillTool::GATE))]);
    all.filter_map(|(name, gate)| Some((name, gate?))).collect()
}

/// An agent of the same name for each tool, which lists it and nothing else, and whose model calls it.
fn config(tools: &[(&'static str, Gate)]) -> String {
    let mut agents = String::new();
    for (tool, _) in tools {
        let gates = "agents: [], volumes: [], hosts: []";
        agents.push_str(&format!("  a-{tool}: {{ description: It., tools: [{tool}], {gates} }}\n"));
    }
    let rules: Vec<String> = tools
        .iter()
        .map(|(tool, _)| format!("        - {{ when: {{ agent: a-{tool}, turn: 1 }}, calls: [{{ tool: {tool} }}] }}\n"))
        .collect();
    format!(
        "listen: 127.0.0.1:0\ntools: {{ bash: {{ enabled: true, network: none }}, http: {{ hosts: [example.com] }} }}\n\
         providers:\n  script:\n    driver: script\n    options:\n      rules:\n{}        - {{ text: \"{{{{last}}}}\" }}\n\
         defaults: {{ provider: script, model: m }}\nagents:\n{agents}",
        rules.concat()
    )
}

#[test]
fn it_is_decided_what_a_token_needs_to_give_each_gate() {
    for (tool, gate) in gated() {
        assert!(decides_gate(gate.key), "`{}` of {tool}: add it to `GATES` or `GRANT_ALONE` in power.rs", gate.key);
    }
}

#[test]
fn every_tool_without_its_gate_is_told_with_what_to_write() {
    let tools = gated();
    assert!(tools.iter().any(|(name, _)| *name == "Evaluation") && tools.len() >= 12, "{tools:?}");
    let home = Home::new();
    home.write("drawloom.yaml", &config(&tools));
    home.run(&["trust", "--yes"]).exits(0);
    let validated = home.run(&["validate", "drawloom.yaml", "--json"]).exits(0).stdout;
    let doctor = home.run(&["doctor"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut server = home.serve();
    let mut refusals = Vec::new();
    for (tool, _) in &tools {
        let ran = home.run(&["run", &format!("a-{tool}"), "go"]).exits(0);
        refusals.push(ran.stdout);
    }
    let log = server.stop_and_read();
    for ((tool, gate), refusal) in tools.iter().zip(&refusals) {
        let fix = format!("(to allow it, write `{}`)", gate.fix);
        let warning = format!("lists the tool {tool} but `{}` is empty, so the tool is not available {fix}", gate.key);
        assert!(validated.contains(&warning), "validate: {warning}\n{validated}");
        assert!(doctor.contains(&warning), "doctor: {warning}\n{doctor}");
        assert!(log.contains(&warning), "boot: {warning}\n{log}");
        let refused = format!("the tool {tool} is not available to agent a-{tool}: `{}` is empty {fix}", gate.key);
        assert!(refusal.contains(&refused), "refusal: {refused}\n{refusal}");
    }
}

#[test]
fn a_gate_without_any_of_its_tools_is_told() {
    let home = Home::new();
    home.write(
        "drawloom.yaml",
        "providers: { script: { driver: script } }\ndefaults: { provider: script, model: m }\n\
         agents: { a: { description: It., tools: [], volumes: [], agents: [a], hosts: [x.org], memory_scopes: [user], evaluation_scopes: [read_any] } }\n",
    );
    let said = home.run(&["validate", "drawloom.yaml", "--json"]).exits(0).json();
    let said: Vec<&str> =
        said["findings"].as_array().into_iter().flatten().filter_map(|finding| finding["message"].as_str()).collect();
    for message in [
        "agent a sets `agents` but does not list the tool Agent, so it cannot spawn agents",
        "agent a sets `evaluation_scopes` but does not list the tool Evaluation, so it cannot use evaluations",
        "agent a sets `hosts` but does not list the tool HTTP or WebFetch, so it cannot reach hosts",
        "agent a sets `memory_scopes` but does not list the tool Memory, so it cannot use memory",
    ] {
        assert!(said.contains(&message), "{message}\n{said:?}");
    }
}

#[test]
fn agents_show_names_the_gate_that_withholds_a_tool() {
    let home = Home::new();
    home.write("drawloom.yaml", &config(&gated()));
    home.run(&["trust", "--yes"]).exits(0);
    let shown = home.run(&["agents", "show", "a-Evaluation", "--json"]).exits(0).json();
    assert_eq!(shown["tools"], Value::Array(Vec::new()));
    let reason = shown["tools_not_offered"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("`evaluation_scopes` is empty (to allow it, write"), "{shown}");
}
