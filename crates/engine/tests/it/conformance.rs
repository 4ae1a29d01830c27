//! The engine keeps the promises of `Runs`.

use std::sync::Arc;

use drawloom_testkit::suites::runs::TestRuns;
use serde_json::json;

use crate::house::{House, Plan, Wall};

async fn open() -> Box<TestRuns> {
    let rules = json!([
        { "when": { "agent": "quick" }, "text": "done" },
        { "when": { "agent": "failing" }, "fail": { "kind": "bad_request" } },
        { "when": { "agent": "slow" }, "text": "late", "delay_ms": 600_000 } ]);
    let plan = Plan::new(rules).config(|config| config.max_concurrent_runs = 2);
    let plan = ["quick", "failing", "slow"].into_iter().fold(plan, |plan, name| plan.agent(name, |_| {}));
    let house = House::new(plan);
    Box::new(TestRuns { runs: house.engine.clone(), clock: Arc::new(Wall), keeps: Arc::new(house) })
}

mod runs {
    drawloom_testkit::runs_suite!(super::open);
}

mod seen_runs {
    drawloom_testkit::seen_runs_suite!(super::open);
}
