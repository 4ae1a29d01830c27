//! What a refusal tells a caller of somebody else's run; what callers see is in the suites of `conformance.rs`.

use drawloom_contract::{
    caller::{Caller, Proof, Scope},
    runs::{Interest, Runs, Start},
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
