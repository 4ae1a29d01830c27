//! Whose runs a caller sees: a bound subject only its own, unless its token reads all.

use drawloom_contract::{
    caller::{Caller, Proof, Scope},
    failure::{Failure, FailureKind},
    ids::{BatchId, RunId, SessionId},
    journal::RunFilter,
    runs::{Interest, Runs, Start},
    view::RunView,
};
use serde_json::json;

use crate::house::{House, Plan, ask};

fn principal(name: &str, scopes: &[Scope]) -> Caller {
    Caller { subject: name.parse().expect("a user"), scopes: scopes.to_vec(), ..Caller::open(Proof::Principal) }
}

async fn start(house: &House, caller: &Caller, start: Start) -> RunView {
    let started = house.engine.start(caller, start, None, Interest::Outcome).await.expect("accepted");
    house.finish(started).await
}

/// Everything that a caller can ask of a run, its batch and its session, by name, with why it was refused.
async fn asked(house: &House, caller: &Caller, run: &RunView) -> Vec<(&'static str, Option<Failure>)> {
    let (engine, id) = (&house.engine, run.run);
    let batch = run.batch.expect("it is in a batch").batch;
    let join = Start { session: Some(run.session), ..ask("alice", "x") };
    vec![
        ("load", engine.load(caller, id).await.err()),
        ("glance", engine.glance(caller, id).await.err()),
        ("load_by_agent_id", engine.load_by_agent_id(caller, &run.agent_id).await.err()),
        ("spent", engine.spent(caller, id).await.err()),
        ("load_batch", engine.load_batch(caller, batch).await.err()),
        ("follow", engine.follow(caller, id, 0, Interest::Events).await.err()),
        ("wait", engine.wait(caller, id, None).await.err()),
        ("cancel", engine.cancel(caller, id, None).await.err()),
        ("replay", engine.replay(caller, id).await.err()),
        ("join", engine.start(caller, join, None, Interest::None).await.err()),
    ]
}

#[tokio::test]
async fn a_bound_subject_finds_only_its_own_runs_batches_and_sessions() {
    let house = House::new(Plan::new(json!([{ "text": "hi" }])));
    let create = [Scope::RunsCreate, Scope::RunsRead];
    let (ann, bob) = (principal("ann", &create), principal("bob", &create));
    let started = house.engine.start_batch(&ann, vec![ask("alice", "x")], None, Interest::Outcome).await;
    let hers = house.finish(started.expect("accepted").runs.pop().expect("one")).await;
    let nothing = RunView {
        run: RunId::from_bytes([7; 16]),
        session: SessionId::from_bytes([7; 16]),
        agent_id: "a_nothing".parse().expect("an agent id"),
        batch: hers
            .batch
            .map(|place| drawloom_contract::record::BatchPlace { batch: BatchId::from_bytes([7; 16]), ..place }),
        ..hers.clone()
    };
    let unknown = asked(&house, &bob, &nothing).await;
    for ((name, failure), (_, known)) in asked(&house, &bob, &hers).await.into_iter().zip(unknown) {
        let (failure, known) = (failure.expect(name), known.expect(name));
        assert_eq!((failure.kind, failure.code), (FailureKind::NotFound, known.code), "{name}");
        assert_eq!(failure.hint, known.hint, "{name}");
    }
    let all = RunFilter { limit: 10, ..RunFilter::default() };
    assert_eq!(house.engine.list(&bob, all.clone()).await.expect("a list"), []);
    let of_ann = RunFilter { user: Some(ann.subject.clone()), ..all.clone() };
    assert_eq!(house.engine.list(&bob, of_ann).await.expect("a list"), []);
    assert_eq!(house.engine.list(&ann, all.clone()).await.expect("a list").len(), 1);

    let reader = principal("bob", &[Scope::RunsReadAll, Scope::RunsCreate]);
    for caller in [&ann, &reader, &house.caller] {
        for (name, failure) in asked(&house, caller, &hers).await {
            assert_eq!(failure, None, "{name} by {caller:?}");
        }
        // The run that joined may still go on.
        let newest = house.engine.list(caller, all.clone()).await.expect("a list").remove(0);
        house.engine.wait(caller, newest.run, None).await.expect("its end");
    }
}

#[tokio::test]
async fn a_session_that_another_user_took_part_in_is_unknown_to_a_bound_subject() {
    let house = House::new(Plan::new(json!([{ "text": "hi" }])));
    let ann = principal("ann", &[Scope::RunsCreate]);
    let hers = start(&house, &ann, ask("alice", "x")).await;
    let bob = Some("bob".parse().expect("a user"));
    start(&house, &house.caller, Start { session: Some(hers.session), user: bob, ..ask("alice", "x") }).await;
    let join = Start { session: Some(hers.session), ..ask("alice", "x") };
    let refused = house.engine.start(&ann, join, None, Interest::None).await.err().expect("refused");
    assert_eq!(refused.code, "unknown_session");
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
