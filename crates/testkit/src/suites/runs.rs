//! What [`Runs`] promises. A backend knows the agents `quick`, which completes with a text, `failing`, which fails, and `slow`,
//! which never ends by itself. Two runs or more can be unfinished at once.

use std::{any::Any, sync::Arc};

use drawloom_contract::{
    caller::{Caller, Proof, Scope},
    failure::{Failure, FailureKind},
    ids::{Digest, RunId, SessionId},
    journal::RunFilter,
    once::HandleId,
    record::{BatchPlace, Status},
    runs::{Idempotency, Interest, Item, Live, OnRefusal, Runs, Start, Started, StartedBatch},
    time::Clock,
    view::RunView,
};
use futures::StreamExt as _;

pub const SOURCE: &str = include_str!("runs.rs");

/// Most runs of a batch.
const MOST: usize = 32;

/// A service of runs under test: it has none when a promise begins.
pub struct TestRuns {
    pub runs: Arc<dyn Runs>,
    /// The clock that its waits are counted by.
    pub clock: Arc<dyn Clock>,
    /// What must live as long as it does.
    pub keeps: Arc<dyn Any + Send + Sync>,
}

/// Runs every promise of runs against the backend that `$open` makes.
#[macro_export]
macro_rules! runs_suite {
    ($open:expr) => {
        $crate::suite_tests! { $open, runs,
            a_run_is_there_when_its_start_returns
            a_run_ends_as_its_agent_does
            an_unknown_agent_is_not_found_and_nothing_is_started
            a_run_is_for_the_caller_or_for_whom_the_caller_names
            an_outcome_is_one_item_and_events_are_every_record_and_the_end
            a_run_is_followed_from_any_record
            a_follower_of_an_unfinished_run_sees_its_end
            a_wait_is_over_at_its_time_or_at_the_end
            a_glance_is_the_row_without_its_text
            a_repeated_key_is_the_same_run_and_another_body_a_conflict
            a_key_belongs_to_a_caller_and_an_operation
            a_repeated_key_is_answered_even_when_a_new_run_would_be_refused
            a_repeated_key_of_a_batch_is_the_same_batch
            a_batch_is_listed_by_index
            a_batch_is_refused_whole
            a_batch_has_1_to_32_runs
            a_cancel_ends_a_run_once
            a_cancel_leaves_a_run_that_has_ended_as_it_is
            an_agent_id_belongs_to_one_live_run_and_finds_it_or_else_the_newest
            a_session_is_joined_when_it_is_known_and_free
        }
    };
}

pub(super) fn owner() -> Caller {
    Caller::open(Proof::Open)
}

pub(super) fn principal(name: &str) -> Caller {
    let scopes = vec![Scope::RunsCreate, Scope::RunsRead];
    Caller { subject: name.parse().expect("a valid name"), scopes, ..Caller::open(Proof::Principal) }
}

pub(super) fn elsewhere() -> Caller {
    Caller { tenant: "elsewhere".parse().expect("a valid name"), ..owner() }
}

pub(super) fn ask(agent: &str) -> Start {
    Start::new(agent.parse().expect("a valid name"), "go")
}

fn key(operation: &'static str, key: &str, body: &str) -> Option<Idempotency> {
    Some(Idempotency { operation, key: key.into(), body: Digest::of(body.as_bytes()) })
}

pub(super) fn everything() -> RunFilter {
    RunFilter { limit: 100, ..RunFilter::default() }
}

pub(super) fn ids(views: &[RunView]) -> Vec<RunId> {
    views.iter().map(|view| view.run).collect()
}

pub(super) fn why(refused: Result<impl Sized, Failure>) -> (FailureKind, &'static str) {
    let failure = refused.err().expect("it is refused");
    (failure.kind, failure.code)
}

impl TestRuns {
    async fn try_start(&self, start: Start) -> Result<Started, Failure> {
        self.runs.start(&owner(), start, None, Interest::None).await
    }

    pub(super) async fn start(&self, agent: &str) -> Arc<RunView> {
        self.try_start(ask(agent)).await.expect("accepted").view
    }

    async fn start_keyed(&self, caller: &Caller, agent: &str, key: Option<Idempotency>) -> Result<RunId, Failure> {
        Ok(self.runs.start(caller, ask(agent), key, Interest::None).await?.view.run)
    }

    async fn start_batch(&self, starts: Vec<Start>, key: Option<Idempotency>) -> Result<StartedBatch, Failure> {
        self.runs.start_batch(&owner(), starts, OnRefusal::RefuseAll, key, Interest::None).await
    }

    pub(super) async fn load(&self, run: RunId) -> RunView {
        self.runs.load(&owner(), run).await.expect("the run is there")
    }

    pub(super) async fn list(&self, filter: RunFilter) -> Vec<RunId> {
        ids(&self.runs.list(&owner(), filter).await.expect("a list"))
    }

    /// The row at the end of a run.
    pub(super) async fn end(&self, run: RunId) -> RunView {
        let view = self.runs.wait(&owner(), run, None).await.expect("the run is there");
        assert!(view.status.is_terminal(), "{view:?}");
        (*view).clone()
    }

    pub(super) async fn run(&self, agent: &str) -> RunView {
        self.end(self.start(agent).await.run).await
    }

    async fn cancel(&self, run: RunId) {
        self.runs.cancel(&owner(), run, None).await.expect("it can be cancelled");
        self.end(run).await;
    }
}

pub(super) async fn items(live: Live) -> Vec<Item> {
    live.map(|item| item.expect("no failure")).collect().await
}

/// The sequences of the records among items, and the row at the end, which comes last.
pub(super) fn told(items: &[Item]) -> (Vec<u64>, RunView) {
    let records = items.iter().filter_map(|item| match item {
        Item::Record(record) => Some(record.seq),
        Item::Delta(_) | Item::Activity(_) | Item::Ended(_) => None,
    });
    let ends = items.iter().filter(|item| matches!(item, Item::Ended(_))).count();
    let Some(Item::Ended(view)) = items.last() else { panic!("the last item is not the end: {items:?}") };
    assert_eq!(ends, 1);
    (records.collect(), (**view).clone())
}

pub async fn a_run_is_there_when_its_start_returns(at: &TestRuns) {
    let started = at.try_start(ask("slow")).await.expect("accepted");
    assert!(started.live.is_none(), "nothing was asked for");
    let view = at.load(started.view.run).await;
    assert!(!view.status.is_terminal() && view.seq >= started.view.seq, "{view:?}");
    assert_eq!((view.agent.as_str(), &view.agent_id), ("slow", &started.view.agent_id));
    assert_eq!((view.session, view.root, view.depth), (started.view.session, view.run, 0));
    assert_eq!(at.list(everything()).await, [view.run]);
}

pub async fn a_run_ends_as_its_agent_does(at: &TestRuns) {
    let quick = at.run("quick").await;
    assert_eq!((quick.status, quick.error.clone()), (Status::Completed, None));
    assert!(quick.final_text.as_ref().is_some_and(|text| !text.is_empty()), "{quick:?}");
    assert!(quick.started_at.is_some() && quick.ended_at.is_some(), "{quick:?}");
    assert_eq!(at.load(quick.run).await, quick);
    let failing = at.run("failing").await;
    assert!(failing.status == Status::Failed && failing.error.is_some(), "{failing:?}");
}

pub async fn an_unknown_agent_is_not_found_and_nothing_is_started(at: &TestRuns) {
    assert_eq!(why(at.try_start(ask("nobody")).await), (FailureKind::NotFound, "unknown_agent"));
    assert_eq!(at.list(everything()).await, []);
}

pub async fn a_run_is_for_the_caller_or_for_whom_the_caller_names(at: &TestRuns) {
    let ann = principal("ann");
    let hers = at.start_keyed(&ann, "quick", None).await.expect("accepted");
    let his = Start { user: "bob".parse().ok(), ..ask("quick") };
    let his = at.try_start(his).await.expect("accepted").view.run;
    assert_eq!((at.load(hers).await.user, at.load(his).await.user.as_str()), (ann.subject, "bob"));
    assert_eq!(at.list(RunFilter { user: "bob".parse().ok(), ..everything() }).await, [his]);
}

pub async fn an_outcome_is_one_item_and_events_are_every_record_and_the_end(at: &TestRuns) {
    for agent in ["quick", "failing"] {
        let started = at.runs.start(&owner(), ask(agent), None, Interest::Outcome).await.expect("accepted");
        let heard = items(started.live.expect("it was asked for")).await;
        assert_eq!((heard.len(), told(&heard).1), (1, at.load(started.view.run).await));

        let started = at.runs.start(&owner(), ask(agent), None, Interest::Events).await.expect("accepted");
        let (records, ended) = told(&items(started.live.expect("it was asked for")).await);
        assert_eq!(records, (1..=ended.seq).collect::<Vec<_>>());
        assert_eq!(ended, at.load(started.view.run).await);
    }
}

pub async fn a_run_is_followed_from_any_record(at: &TestRuns) {
    let view = at.run("quick").await;
    for after in 0..=view.seq {
        let live = at.runs.follow(&owner(), view.run, after, Interest::Events).await.expect("a run");
        let (records, ended) = told(&items(live).await);
        assert_eq!((records, &ended), ((after + 1..=view.seq).collect(), &view));
    }
    let outcome = at.runs.follow(&owner(), view.run, 0, Interest::Outcome).await.expect("a run");
    assert_eq!(told(&items(outcome).await), (vec![], view.clone()));
    let nothing = at.runs.follow(&owner(), view.run, 0, Interest::None).await.expect("a run");
    assert!(items(nothing).await.is_empty());
    let beyond = at.runs.follow(&owner(), view.run, view.seq + 1, Interest::Events).await;
    assert_eq!(why(beyond), (FailureKind::Invalid, "bad_from_seq"));
}

pub async fn a_follower_of_an_unfinished_run_sees_its_end(at: &TestRuns) {
    let run = at.start("slow").await.run;
    let events = at.runs.follow(&owner(), run, 0, Interest::Events).await.expect("a run");
    let outcome = at.runs.follow(&owner(), run, 0, Interest::Outcome).await.expect("a run");
    let (events, outcome, ()) = futures::join!(items(events), items(outcome), at.cancel(run));
    let (records, ended) = told(&events);
    assert_eq!(records, (1..=ended.seq).collect::<Vec<_>>());
    assert_eq!((ended.status, told(&outcome)), (Status::Cancelled, (vec![], ended)));
}

pub async fn a_wait_is_over_at_its_time_or_at_the_end(at: &TestRuns) {
    let run = at.start("slow").await.run;
    let view = at.runs.wait(&owner(), run, Some(at.clock.now())).await.expect("the run is there");
    assert!(view.run == run && !view.status.is_terminal(), "{view:?}");
    let (ended, ()) = futures::join!(at.end(run), at.cancel(run));
    assert_eq!(ended.status, Status::Cancelled);
    // A run that has ended is not waited for, whatever the time.
    assert_eq!(*at.runs.wait(&owner(), run, Some(at.clock.now())).await.expect("the run is there"), ended);
    assert_eq!(at.load(run).await, ended);
}

pub async fn a_glance_is_the_row_without_its_text(at: &TestRuns) {
    let view = at.run("quick").await;
    let glance = at.runs.glance(&owner(), view.run).await.expect("the run is there");
    assert!(view.final_text.is_some());
    assert_eq!(glance, RunView { final_text: None, ..view });
}

pub async fn a_repeated_key_is_the_same_run_and_another_body_a_conflict(at: &TestRuns) {
    let first = at.start_keyed(&owner(), "quick", key("spawn_run", "k", "body")).await.expect("accepted");
    let ended = at.end(first).await;
    let again = at.runs.start(&owner(), ask("quick"), key("spawn_run", "k", "body"), Interest::Outcome).await;
    let again = again.expect("the same run");
    assert_eq!(*again.view, ended, "as it is now");
    if let Some(live) = again.live {
        assert_eq!(told(&items(live).await).1, ended);
    }
    let other = at.start_keyed(&owner(), "quick", key("spawn_run", "k", "other")).await;
    assert_eq!(why(other), (FailureKind::Conflict, "idempotency_key_reused"));
    assert_eq!(at.list(everything()).await, [first]);
    assert_eq!(at.runs.find_keyed(&owner(), "spawn_run", "k").await, Ok(Some(HandleId::Run(first))));
}

pub async fn a_key_belongs_to_a_caller_and_an_operation(at: &TestRuns) {
    let first = at.start_keyed(&owner(), "quick", key("spawn_run", "k", "body")).await.expect("accepted");
    for (caller, operation, name) in [
        (principal("ann"), "spawn_run", "k"),
        (elsewhere(), "spawn_run", "k"),
        (owner(), "another", "k"),
        (owner(), "spawn_run", "l"),
    ] {
        assert_eq!(at.runs.find_keyed(&caller, operation, name).await, Ok(None), "{caller:?} {operation} {name}");
        let run = at.start_keyed(&caller, "quick", key(operation, name, "other")).await.expect("another key");
        assert_ne!(run, first);
        let found = at.runs.find_keyed(&caller, operation, name).await;
        assert_eq!(found, Ok(Some(HandleId::Run(run))), "{caller:?} {operation} {name}");
    }
}

pub async fn a_repeated_key_is_answered_even_when_a_new_run_would_be_refused(at: &TestRuns) {
    let start = || Start { agent_id: "mine".parse().ok(), ..ask("slow") };
    let first = at.runs.start(&owner(), start(), key("spawn_run", "k", "body"), Interest::None).await;
    let again = at.runs.start(&owner(), start(), key("spawn_run", "k", "body"), Interest::None).await;
    assert_eq!(again.expect("the same run").view.run, first.expect("accepted").view.run);
    let new = at.runs.start(&owner(), start(), key("spawn_run", "l", "body"), Interest::None).await;
    assert_eq!(why(new), (FailureKind::Conflict, "agent_id_in_use"));
    assert_eq!(at.runs.find_keyed(&owner(), "spawn_run", "l").await, Ok(None), "a refused request leaves no key");
}

pub async fn a_repeated_key_of_a_batch_is_the_same_batch(at: &TestRuns) {
    let starts = || vec![ask("quick"), ask("failing")];
    let first = at.start_batch(starts(), key("spawn_runs", "k", "body")).await.expect("accepted");
    let again = at.start_batch(starts(), key("spawn_runs", "k", "body")).await.expect("the same batch");
    let runs = |batch: &StartedBatch| batch.runs.iter().map(|started| started.view.run).collect::<Vec<_>>();
    assert_eq!((again.batch, runs(&again)), (first.batch, runs(&first)));
    let other = at.start_batch(starts(), key("spawn_runs", "k", "other")).await;
    assert_eq!(why(other), (FailureKind::Conflict, "idempotency_key_reused"));
    assert_eq!(at.list(everything()).await.len(), 2);
    assert_eq!(at.runs.find_keyed(&owner(), "spawn_runs", "k").await, Ok(Some(HandleId::Batch(first.batch))));
}

pub async fn a_batch_is_listed_by_index(at: &TestRuns) {
    let starts = vec![ask("quick"), ask("failing"), ask("quick")];
    let started =
        at.runs.start_batch(&owner(), starts, OnRefusal::RefuseAll, None, Interest::Outcome).await.expect("accepted");
    let batch = started.batch;
    let mut ended = Vec::new();
    for (index, started) in (0..).zip(started.runs) {
        assert_eq!(started.view.batch, Some(BatchPlace { batch, index }));
        ended.push(told(&items(started.live.expect("it was asked for")).await).1);
    }
    let statuses: Vec<Status> = ended.iter().map(|view| view.status).collect();
    assert_eq!(statuses, [Status::Completed, Status::Failed, Status::Completed]);
    assert_eq!(ids(&at.runs.load_batch(&owner(), batch).await.expect("the batch")), ids(&ended));
    let another = at.start_batch(vec![ask("quick")], None).await.expect("accepted");
    assert_ne!(another.batch, batch);
    assert_eq!(at.list(RunFilter { batch: Some(batch), ..everything() }).await.len(), 3);
}

pub async fn a_batch_is_refused_whole(at: &TestRuns) {
    let refused = at.start_batch(vec![ask("quick"), ask("nobody"), ask("quick")], None).await;
    assert_eq!(why(refused), (FailureKind::NotFound, "unknown_agent"));
    let same = || Start { agent_id: "mine".parse().ok(), ..ask("slow") };
    let refused = at.start_batch(vec![ask("quick"), same(), same()], None).await;
    assert_eq!(why(refused), (FailureKind::Conflict, "agent_id_in_use"));
    assert_eq!(at.list(everything()).await, []);
}

pub async fn a_batch_has_1_to_32_runs(at: &TestRuns) {
    for size in [0, MOST + 1] {
        let refused = at.start_batch(vec![ask("quick"); size], None).await;
        assert_eq!(why(refused), (FailureKind::Invalid, "bad_batch_size"), "{size}");
    }
    let most = at.start_batch(vec![ask("quick"); MOST], None).await.expect("accepted");
    assert_eq!(at.runs.load_batch(&owner(), most.batch).await.expect("the batch").len(), MOST);
}

pub async fn a_cancel_ends_a_run_once(at: &TestRuns) {
    let run = at.start("slow").await.run;
    let first = at.runs.cancel(&owner(), run, Some("enough".into())).await.expect("it can be cancelled");
    assert_eq!((first.view.run, first.cancelled, first.cascaded), (run, true, vec![]));
    let ended = at.end(run).await;
    assert!(ended.status == Status::Cancelled && ended.error.is_some(), "{ended:?}");
    let again = at.runs.cancel(&owner(), run, None).await.expect("the run is there");
    assert_eq!((again.view, again.cancelled, again.cascaded), (ended, false, vec![]));
}

pub async fn a_cancel_leaves_a_run_that_has_ended_as_it_is(at: &TestRuns) {
    let ended = at.run("quick").await;
    let late = at.runs.cancel(&owner(), ended.run, None).await.expect("the run is there");
    assert_eq!((&late.view, late.cancelled), (&ended, false));
    assert_eq!(at.load(ended.run).await, ended);
}

pub async fn an_agent_id_belongs_to_one_live_run_and_finds_it_or_else_the_newest(at: &TestRuns) {
    let start = |agent| at.try_start(Start { agent_id: "mine".parse().ok(), ..ask(agent) });
    let found = async || at.runs.load_by_agent_id(&owner(), &"mine".parse().expect("a handle")).await;
    assert_eq!(why(found().await), (FailureKind::NotFound, "unknown_agent_id"));
    let first = start("slow").await.expect("accepted").view.run;
    assert_eq!(why(start("quick").await), (FailureKind::Conflict, "agent_id_in_use"));
    assert_eq!(found().await.expect("the live one").run, first);
    at.cancel(first).await;
    assert_eq!(found().await.expect("the newest").run, first);
    let second = start("quick").await.expect("accepted").view.run;
    at.end(second).await;
    assert_eq!(found().await.expect("the newest").run, second);
}

pub async fn a_session_is_joined_when_it_is_known_and_free(at: &TestRuns) {
    let join = |session| at.try_start(Start { session: Some(session), ..ask("slow") });
    let unknown = join(SessionId::from_bytes([0xee; 16])).await;
    assert_eq!(why(unknown), (FailureKind::NotFound, "unknown_session"));
    let first = at.start("slow").await;
    assert_eq!(why(join(first.session).await), (FailureKind::Conflict, "session_busy"));
    at.cancel(first.run).await;
    let second = join(first.session).await.expect("the session is free").view;
    assert_eq!(second.session, first.session);
    assert_eq!(why(join(first.session).await), (FailureKind::Conflict, "session_busy"));
    let of_session = RunFilter { session: Some(first.session), ..everything() };
    assert_eq!(at.list(of_session).await, [second.run, first.run]);
}
