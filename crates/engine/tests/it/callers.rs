//! What a refusal tells a caller of somebody else's run; what callers see is in the suites of `conformance.rs`.

use std::sync::Arc;

use drawloom_contract::{
    caller::{Caller, Proof, Scope},
    definition::Definition,
    journal::RunFilter,
    runs::{Interest, OnRefusal, Runs, Start},
};
use serde_json::json;

use crate::house::{House, Plan, ask};

fn principal(name: &str, scopes: &[Scope]) -> Caller {
    Caller { subject: name.parse().expect("a user"), scopes: scopes.to_vec(), ..Caller::open(Proof::Principal) }
}

#[tokio::test]
async fn an_agent_id_that_is_in_use_does_not_name_somebody_elses_run() {
    let house = House::new(Plan::new(json!([{ "text": "hi", "delay_ms": 600_000 }])));
    let (ann, bob) = (principal("ann", &[Scope::RunsCreate]), principal("bob", &[Scope::RunsCreate]));
    let same = || Start { agent_id: Some("the-one".parse().expect("an agent id")), ..ask("alice", "x") };
    let hers = house.engine.start(&ann, same(), None, Interest::None).await.expect("accepted").view.run.to_string();
    let again = house.engine.start(&ann, same(), None, Interest::None).await.err().expect("refused");
    assert!(again.code == "agent_id_in_use" && again.message.contains(&hers), "{again:?}");
    let his = house.engine.start(&bob, same(), None, Interest::None).await.err().expect("refused");
    assert!(his.code == "agent_id_in_use" && !his.message.contains(&hers), "{his:?}");
}

#[tokio::test]
async fn a_reserved_agent_is_started_neither_by_callers_nor_by_other_agents() {
    let spawns = json!([{ "name": "bob", "prompt": "x" }, { "name": "drawloom/goal", "prompt": "x" }]);
    let rules = json!([
        { "when": { "contains": "one", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "name": "drawloom/goal", "prompt": "x" } }] },
        { "when": { "contains": "many", "turn": 1 }, "calls": [{ "tool": "Agent", "input": { "op": "parallel_spawn", "spawns": spawns } }] },
        { "text": "{{last}}" },
    ]);
    let house = House::new(Plan::new(rules).agent("drawloom/goal", |_| {}).agent("drawloom/part", |_| {}));
    let caller = &house.caller;
    let alone = house.engine.start(caller, ask("drawloom/goal", "x"), None, Interest::None).await;
    assert_eq!(alone.err().expect("refused").code, "reserved_agent");
    for on_refusal in [OnRefusal::FailThatRun, OnRefusal::RefuseAll] {
        let starts = vec![ask("bob", "x"), ask("drawloom/goal", "x")];
        let batch = house.engine.start_batch(caller, starts, on_refusal, None, Interest::None).await;
        assert_eq!(batch.err().expect("the batch is refused").code, "reserved_agent");
    }
    for prompt in ["one", "many"] {
        let text = house.run("alice", prompt).await.final_text.expect("a text");
        assert!(text.contains("cannot be started directly"), "{prompt}: {text}");
    }
    let listed = house.engine.list(caller, RunFilter { limit: 100, ..RunFilter::default() }).await.expect("runs");
    assert!(listed.iter().all(|view| view.agent.as_str() == "alice"), "{listed:?}");
    // Operations of drawloom bring the definition, and such an agent starts others of drawloom.
    let definition = drawloom_testkit::definition("drawloom/goal", "script", "scripted");
    let own = Definition { tools: vec!["Agent".into()], agents: vec!["*".into()], ..definition };
    let child = json!({ "tool": "Agent", "input": { "name": "drawloom/part", "prompt": "x" } });
    let rules = json!([{ "when": { "agent": "drawloom/goal", "turn": 1 }, "calls": [child] }, { "text": "{{agent}}: {{last}}" }]);
    let house = House::new(Plan::new(rules).agent("drawloom/part", |_| {}));
    let start = Start { definition: Some(Arc::new(own)), ..ask("drawloom/goal", "x") };
    let view = house.finish(house.start(start, Interest::Outcome).await).await;
    assert!(view.final_text.as_deref().is_some_and(|text| text.contains("drawloom/part")), "{view:?}");
}
