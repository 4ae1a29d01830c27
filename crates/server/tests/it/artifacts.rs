//! Reading what runs said and did.

use std::sync::Arc;

use drawloom_contract::{
    ids::{RunId, RunKey, Tenant, UserId},
    record::Status,
    redact::Redactor,
    tool::ToolContext,
};
use drawloom_net::Method;
use drawloom_substrate::{
    VolumeTable,
    artifacts::{Artifacts, Draft, IfExists},
};
use futures::future::{Either, select};
use serde_json::json;

use crate::setup::{Server, Setup, clock, within};

/// Writes an artifact as an agent does.
pub(crate) async fn keep(server: &Server, root: RunId, name: &str, text: &str) {
    let context = ToolContext {
        run: RunKey { tenant: Tenant::default_tenant(), run: root },
        call: name.bytes().map(u64::from).sum(),
        root,
        user: UserId::default_user(),
        depth: 0,
        definition: Arc::new(drawloom_testkit::definition("writer", "p", "m")),
        hosts: [].into(),
        volumes: Arc::new(VolumeTable::default()),
        redactor: Arc::new(Redactor::new::<&str>([])),
        evidence: None,
        woken: None,
        progress: Arc::new(()),
        began: drawloom_contract::time::Timestamp::from_millis(0),
    };
    let draft = Draft { name: name.into(), text: text.into(), media_type: None, if_exists: IfExists::Refuse };
    Artifacts::new(server.store.clone(), clock()).write(&context, draft).await.expect("it is kept");
}

async fn begin(server: &Server) -> RunId {
    server.post("/v1/runs", json!({"agent": "slow", "prompt": "go", "mode": "detach"})).await;
    server.fake.run_ids()[0]
}

#[tokio::test]
async fn a_search_that_takes_long_stops_nobody_and_ends_in_time() {
    let server = Setup::default().start().await;
    let run = begin(&server).await;
    let mut state = 7u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if state >> 31 == 0 { 'a' } else { 'b' }
    };
    let line: String = (0..30_000).map(|_| letter()).collect();
    server.fake.say(run, &format!("{line}\n").repeat(200));
    server.fake.finish(run, Status::Completed);
    // No state of this search comes twice, so every step costs all of the pattern.
    let path = format!("/v1/runs/{run}/artifact?grep=a%5Bab%5D%7B800%7D%5B%5Eab%5D");
    let mut search = Box::pin(within(server.get(&path)));
    let mut others = 0;
    let found = loop {
        // One thread does everything here: a search on it would let nobody else in.
        match select(search, Box::pin(server.get("/v1/_concurrency/stats"))).await {
            Either::Left((found, _)) => break found,
            Either::Right((other, still)) => {
                assert_eq!(other.status, 200);
                (others, search) = (others + 1, still);
            }
        }
    };
    assert_eq!((found.status, &found.body["matches"], &found.body["truncated"]), (200, &json!(0), &json!(true)));
    assert!(others > 10, "{others} others were answered meanwhile");
}

#[tokio::test]
async fn the_journal_of_a_run_that_goes_on_is_what_there_is_so_far() {
    let server = Setup::default().start().await;
    let run = begin(&server).await;
    for records in [1, 2] {
        let journal = within(server.get(&format!("/v1/runs/{run}/artifact?name=journal"))).await;
        assert_eq!((journal.status, &journal.body["lines"]), (200, &json!(records)), "{}", journal.body);
        server.fake.admit(run);
    }
    let text = within(server.get(&format!("/v1/runs/{run}/artifact"))).await;
    assert_eq!((text.status, text.code()), (404, "no_artifact"));
}

#[tokio::test]
async fn what_agents_wrote_is_listed_in_pages_and_read_under_its_name() {
    let server = Setup::default().start().await;
    let run = begin(&server).await;
    for name in ["a.md", "b/one.md", "b/two.md"] {
        keep(&server, run, name, &format!("text of {name}\nsecond\n")).await;
    }
    let page = server.get(&format!("/v1/runs/{run}/artifacts?limit=2")).await;
    assert_eq!((&page.body["artifacts"][1]["name"], &page.body["next"]), (&json!("b/one.md"), &json!("b/one.md")));
    let rest = server.get(&format!("/v1/runs/{run}/artifacts?limit=2&after=b/one.md")).await;
    assert_eq!((&rest.body["artifacts"][0]["name"], rest.body.get("next")), (&json!("b/two.md"), None));
    let some = server.get(&format!("/v1/runs/{run}/artifacts?prefix=b/")).await;
    assert_eq!(some.body["artifacts"].as_array().map(Vec::len), Some(2));
    let part = server.get(&format!("/v1/runs/{run}/artifact?name=b/two.md&from_line=2")).await;
    assert_eq!((&part.body["text"], &part.body["lines"]), (&json!("second\n"), &json!(2)));
    let whole = server
        .send(Method::Get, &format!("/v1/runs/{run}/artifacts/a.md"), &[("accept", "application/json")], None)
        .await;
    assert_eq!(
        (&whole.body["text"], &whole.body["artifact"]["agent"]),
        (&json!("text of a.md\nsecond\n"), &json!("writer"))
    );
    for path in ["artifact?name=c.md", "artifacts/c.md"] {
        let missing = server.get(&format!("/v1/runs/{run}/{path}")).await;
        assert_eq!((missing.status, missing.code()), (404, "no_artifact"), "{path}");
    }
    for path in ["artifact?name=..%2F%00", "artifacts/a%20b", "artifacts?prefix=%22"] {
        let refused = server.get(&format!("/v1/runs/{run}/{path}")).await;
        assert_eq!((refused.status, refused.code()), (400, "bad_form"), "{path}");
    }
}
