//! What callers see of runs, as [`Runs`](drawloom_contract::runs::Runs) promises. The backend is that of `suites::runs`.

use drawloom_contract::{
    caller::{Caller, Scope},
    failure::{Failure, FailureKind},
    ids::{BatchId, RunId, RunKey, SessionId},
    journal::RunFilter,
    record::{BatchPlace, Status},
    runs::{Interest, OnRefusal, Start},
    view::RunView,
};

use super::runs::{TestRuns, ask, elsewhere, everything, ids, items, owner, principal, told, why};

pub const SOURCE: &str = include_str!("seen_runs.rs");

/// Runs every promise about what callers see against the backend that `$open` makes.
#[macro_export]
macro_rules! seen_runs_suite {
    ($open:expr) => {
        $crate::suite_tests! { $open, seen_runs,
            a_list_shows_what_its_filter_asks_for_newest_first_and_without_texts
            pages_of_a_list_show_every_run_once
            only_queued_runs_have_positions
            unfinished_runs_are_counted_in_the_load
            a_run_spends_what_its_turns_used
            a_journal_folds_again_into_the_same_decisions
            unknown_things_are_not_found
            another_tenant_sees_nothing
            a_bound_subject_sees_only_what_is_its_own
            a_batch_and_a_session_with_runs_of_others_are_unknown_to_a_bound_subject
        }
    };
}

pub async fn a_list_shows_what_its_filter_asks_for_newest_first_and_without_texts(at: &TestRuns) {
    let quick = at.run("quick").await;
    let failing = at.run("failing").await.run;
    let slow = at.start("slow").await.run;
    let quick_id = quick.run;
    let of_agent = |agent: &str| RunFilter { agent: agent.parse().ok(), ..everything() };
    for (filter, expected) in [
        (everything(), vec![slow, failing, quick_id]),
        (RunFilter { limit: 2, ..everything() }, vec![slow, failing]),
        (RunFilter { before: Some(slow), ..everything() }, vec![failing, quick_id]),
        (of_agent("failing"), vec![failing]),
        (of_agent("nobody"), vec![]),
        (RunFilter { status: vec![Status::Completed, Status::Failed], ..everything() }, vec![failing, quick_id]),
        (RunFilter { session: Some(quick.session), ..everything() }, vec![quick_id]),
        (RunFilter { batch: Some(BatchId::from_bytes([0xee; 16])), ..everything() }, vec![]),
        (RunFilter { parent: Some(slow), ..everything() }, vec![]),
        (RunFilter { user: "nobody".parse().ok(), ..everything() }, vec![]),
    ] {
        assert_eq!(at.list(filter.clone()).await, expected, "{filter:?}");
    }
    let listed = at.runs.list(&owner(), of_agent("quick")).await.expect("a list");
    assert_eq!(listed, [RunView { final_text: None, ..quick }]);
}

pub async fn pages_of_a_list_show_every_run_once(at: &TestRuns) {
    let mut started = Vec::new();
    for _ in 0..10 {
        started.push(at.run("quick").await.run);
    }
    let (mut listed, mut before) = (Vec::new(), None);
    while listed.len() <= started.len() {
        let page = at.list(RunFilter { before, limit: 3, ..RunFilter::default() }).await;
        let Some(last) = page.last() else { break };
        before = Some(*last);
        listed.extend(page);
    }
    started.reverse();
    assert_eq!(listed, started);
}

pub async fn only_queued_runs_have_positions(at: &TestRuns) {
    let ended = at.run("quick").await.key();
    let unknown = RunKey { run: RunId::from_bytes([0xee; 16]), ..ended.clone() };
    let mut keys = Vec::new();
    for _ in 0..5 {
        keys.push(at.start("slow").await.key());
    }
    let mut queued = Vec::new();
    for key in &keys {
        if at.load(key.run).await.status == Status::Queued {
            queued.push(key.run);
        }
    }
    assert!(!queued.is_empty(), "the backend has a slot for all of them");
    keys.extend([ended, unknown]);
    // Asked in another order: a place is that in the queue.
    keys.reverse();
    assert_eq!(at.runs.positions(&keys), queued.into_iter().zip(1..).collect());
    assert!(at.runs.positions(&[]).is_empty());
}

pub async fn unfinished_runs_are_counted_in_the_load(at: &TestRuns) {
    let unfinished = || {
        let load = at.runs.load_now();
        assert!(load.max_concurrent_runs > 0 && load.active <= load.max_concurrent_runs, "{load:?}");
        load.active + load.queued
    };
    assert_eq!(unfinished(), 0);
    for _ in 0..3 {
        at.start("slow").await;
    }
    assert_eq!(unfinished(), 3);
}

pub async fn a_run_spends_what_its_turns_used(at: &TestRuns) {
    let view = at.run("quick").await;
    let spent = at.runs.total(&owner(), view.run).await.expect("the run is there").spent;
    assert!(spent.tokens > 0);
    assert_eq!((spent.tokens, spent.cost), (view.usage.total(), view.cost.unwrap_or_default()));
}

pub async fn a_journal_folds_again_into_the_same_decisions(at: &TestRuns) {
    let view = at.run("quick").await;
    let replay = at.runs.replay(&owner(), view.run).await.expect("the run is there");
    assert_eq!((replay.run_id, replay.records, replay.ok), (view.run, view.seq, true), "{replay:?}");
}

impl TestRuns {
    /// All that a caller can ask of a run, its agent_id, its batch and its session, each with why it was refused.
    async fn ask_for_all(&self, caller: &Caller, view: &RunView) -> Vec<(&'static str, Option<Failure>)> {
        let (runs, run) = (&self.runs, view.run);
        let batch = view.batch.expect("it is in a batch").batch;
        let join = Start { session: Some(view.session), ..ask("quick") };
        vec![
            ("load", runs.load(caller, run).await.err()),
            ("glance", runs.glance(caller, run).await.err()),
            ("total", runs.total(caller, run).await.err()),
            ("follow_tree", runs.follow_tree(caller, run).await.err()),
            ("follow", runs.follow(caller, run, 0, Interest::Events).await.err()),
            ("wait", runs.wait(caller, run, Some(self.clock.now())).await.err()),
            ("cancel", runs.cancel(caller, run, None).await.err()),
            ("replay", runs.replay(caller, run).await.err()),
            ("load_by_agent_id", runs.load_by_agent_id(caller, &view.agent_id).await.err()),
            ("load_batch", runs.load_batch(caller, batch).await.err()),
            ("join", runs.start(caller, join, None, Interest::None).await.err()),
        ]
    }

    /// What is there and may not be seen is answered as what was never there.
    async fn is_unknown_to(&self, caller: &Caller, view: &RunView) {
        let asked =
            self.ask_for_all(caller, view).await.into_iter().zip(self.ask_for_all(caller, &nothing(view)).await);
        for ((question, failure), (_, unknown)) in asked {
            let (failure, unknown) = (failure.expect(question), unknown.expect(question));
            assert_eq!((failure.kind, failure.code), (FailureKind::NotFound, unknown.code), "{question} of {caller:?}");
            assert_eq!(failure.hint, unknown.hint, "{question} of {caller:?}");
        }
    }

    /// A run of `caller` in a batch of its own, ended.
    async fn run_in_batch(&self, caller: &Caller) -> RunView {
        let batch =
            self.runs.start_batch(caller, vec![ask("quick")], OnRefusal::RefuseAll, None, Interest::Outcome).await;
        let started = batch.expect("accepted").runs.pop().expect("one run");
        told(&items(started.live.expect("it was asked for")).await).1
    }
}

/// A row like `view` of a run that does not exist, nor its agent_id, batch and session.
fn nothing(view: &RunView) -> RunView {
    RunView {
        run: RunId::from_bytes([0xee; 16]),
        session: SessionId::from_bytes([0xee; 16]),
        agent_id: "nothing".parse().expect("a valid name"),
        batch: Some(BatchPlace { batch: BatchId::from_bytes([0xee; 16]), index: 0 }),
        ..view.clone()
    }
}

pub async fn unknown_things_are_not_found(at: &TestRuns) {
    let view = at.run_in_batch(&owner()).await;
    let codes = at.ask_for_all(&owner(), &nothing(&view)).await.into_iter().map(|(question, failure)| {
        let failure = failure.expect(question);
        assert_eq!(failure.kind, FailureKind::NotFound, "{question}");
        failure.code
    });
    let of_run = ["unknown_run"; 8].into_iter();
    assert!(codes.eq(of_run.chain(["unknown_agent_id", "unknown_batch", "unknown_session"])));
    assert_eq!(at.runs.find_keyed(&owner(), "spawn_run", "k").await, Ok(None));
}

pub async fn another_tenant_sees_nothing(at: &TestRuns) {
    let view = at.run_in_batch(&owner()).await;
    at.is_unknown_to(&elsewhere(), &view).await;
    for filter in [everything(), RunFilter { batch: view.batch.map(|place| place.batch), ..everything() }] {
        assert_eq!(at.runs.list(&elsewhere(), filter).await, Ok(vec![]));
    }
    assert_eq!(at.load(view.run).await, view, "nothing of it changed");
}

pub async fn a_bound_subject_sees_only_what_is_its_own(at: &TestRuns) {
    let (ann, bob) = (principal("ann"), principal("bob"));
    let hers = at.run_in_batch(&ann).await;
    at.is_unknown_to(&bob, &hers).await;
    assert_eq!(at.runs.list(&bob, everything()).await, Ok(vec![]));
    let of_ann = RunFilter { user: Some(ann.subject.clone()), ..everything() };
    assert_eq!(at.runs.list(&bob, of_ann).await, Ok(vec![]));
    assert_eq!(at.list(everything()).await, [hers.run]);
    let reader = Caller { scopes: vec![Scope::RunsReadAll, Scope::RunsCreate], ..bob };
    for caller in [&ann, &reader, &owner()] {
        for (question, failure) in at.ask_for_all(caller, &hers).await {
            assert_eq!(failure, None, "{question} of {caller:?}");
        }
        // The run that joined the session may still go on.
        let newest = at.runs.list(caller, everything()).await.expect("a list").remove(0);
        at.end(newest.run).await;
    }
}

pub async fn a_batch_and_a_session_with_runs_of_others_are_unknown_to_a_bound_subject(at: &TestRuns) {
    let ann = principal("ann");
    let starts = ["ann", "bob"].map(|user| Start { user: user.parse().ok(), ..ask("quick") });
    let batch = at
        .runs
        .start_batch(&owner(), starts.into(), OnRefusal::RefuseAll, None, Interest::None)
        .await
        .expect("accepted");
    let hers = at.end(batch.runs[0].view.run).await;
    assert_eq!(ids(&[at.runs.load(&ann, hers.run).await.expect("it is hers")]), [hers.run]);
    assert_eq!(why(at.runs.load_batch(&ann, batch.batch).await), (FailureKind::NotFound, "unknown_batch"));
    let his = Start { user: "bob".parse().ok(), session: Some(hers.session), ..ask("quick") };
    let his = at.runs.start(&owner(), his, None, Interest::None).await.expect("accepted").view.run;
    at.end(his).await;
    let join = Start { session: Some(hers.session), ..ask("quick") };
    let refused = at.runs.start(&ann, join, None, Interest::None).await;
    assert_eq!(why(refused), (FailureKind::NotFound, "unknown_session"));
}
