//! Reading what runs said and did.

use drawloom_contract::{ids::RunId, record::Status};
use futures::future::{Either, select};
use serde_json::json;

use crate::setup::{Server, Setup, within};

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
