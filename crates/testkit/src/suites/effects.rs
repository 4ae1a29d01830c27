//! What [`Journal`](drawloom_contract::journal::Journal) promises of the effects of calls: each happens once, and not after the end
//! of its run.

use drawloom_contract::{
    ids::Tenant,
    journal::{CommitError, Committed, Entry},
    log::{LogChange, LogChanged, LogKey, NewMessage},
    once::{Answered, CallEffect, Effected, Once},
    values::{ChangeError, Expect, Space, ValueChange, ValueKey},
};
use serde_json::json;

use super::{
    TestStore,
    key_value::clean,
    records::{accepted, admitted, after, at, begin, completed, key, note, run_id},
};

pub const SOURCE: &str = include_str!("effects.rs");

const SPACE: Space = Space::of("suite");

/// Runs every promise about effects of calls against the backend that `$open` makes.
#[macro_export]
macro_rules! effects_suite {
    ($open:expr) => {
        $crate::suite_tests! { $open, effects,
            a_repeated_effect_changes_nothing_and_gets_the_first_answer
            the_effects_of_a_call_are_told_apart_by_run_call_and_part
            an_effect_that_is_refused_leaves_no_trace
            an_effect_of_a_run_that_has_ended_is_refused
            an_effect_is_known_to_the_next_process
        }
    };
}

fn value(name: &str) -> ValueKey {
    ValueKey { tenant: Tenant::default_tenant(), space: SPACE, owner: "ada".into(), key: name.into() }
}

impl TestStore {
    /// An effect of a call of a run: counts up a value and appends to a log.
    fn effect(&self, run: u64, call: u64, part: u32, answer: &str) -> Entry {
        let effect = CallEffect { run: key(run), call, part, answer: clean(json!(answer)) };
        let log = LogKey { tenant: Tenant::default_tenant(), space: SPACE, name: "log".into() };
        let messages = vec![NewMessage { id: answer.into(), at: at(1), body: clean(json!(answer)) }];
        Entry {
            values: vec![ValueChange::put(value("a"), clean(json!(answer)), at(1), None)],
            logs: vec![LogChange::Append { log, messages, since: 0, keep: None }],
            once: Some(Once::Call(effect)),
            ..Entry::empty(self.epoch)
        }
    }

    async fn make_effect(&self, run: u64, call: u64, part: u32, answer: &str) -> Committed {
        self.commit(self.effect(run, call, part, answer)).await.expect("a new effect")
    }
}

/// What a repeat of this effect is told.
fn repeated(answer: &str, first: &Committed) -> CommitError {
    let effected = Effected {
        answer: json!(answer),
        revisions: first.revisions.clone(),
        logs: first.logs.clone(),
        left_out: None,
    };
    CommitError::Repeated(Answered::Effect(Box::new(effected)))
}

pub async fn a_repeated_effect_changes_nothing_and_gets_the_first_answer(store: &TestStore) {
    store.append(begin(accepted(1), [admitted()])).await;
    let first = store.make_effect(1, 2, 0, "first").await;
    assert_eq!(first.revisions.len(), 1);
    assert!(matches!(&first.logs[..], [LogChanged { added: 1, .. }]), "{first:?}");
    for again in ["first", "second"] {
        assert_eq!(store.commit(store.effect(1, 2, 0, again)).await, Err(repeated("first", &first)));
    }
    let next = store.make_effect(1, 2, 1, "next").await;
    assert_eq!(next.revisions[0], first.revisions[0] + 1, "the repeats changed nothing");
    assert_eq!(next.logs[0].sequences[0], first.logs[0].head + 1);
}

pub async fn the_effects_of_a_call_are_told_apart_by_run_call_and_part(store: &TestStore) {
    for run in [1, 2] {
        store.append(begin(accepted(run), [admitted(), note("x")])).await;
    }
    let effects = [(1, 2, 0), (1, 2, 1), (1, 3, 0), (2, 2, 0)];
    let mut made = Vec::new();
    for (run, call, part) in effects {
        made.push(store.make_effect(run, call, part, &format!("{run} {call} {part}")).await);
    }
    for ((run, call, part), first) in effects.into_iter().zip(made) {
        let expected = repeated(&format!("{run} {call} {part}"), &first);
        assert_eq!(store.commit(store.effect(run, call, part, "late")).await, Err(expected));
    }
}

pub async fn an_effect_that_is_refused_leaves_no_trace(store: &TestStore) {
    store.append(begin(accepted(1), [admitted()])).await;
    let mut refused = store.effect(1, 2, 0, "first");
    let stale =
        ValueChange { expect: Expect::Revision(99_999), ..ValueChange::put(value("b"), clean(json!(1)), at(1), None) };
    refused.values.push(stale);
    let why = ChangeError::Stale { key: "b".into(), found: None };
    assert_eq!(store.commit(refused).await, Err(CommitError::Refused(why)));
    let made = store.make_effect(1, 2, 0, "second").await;
    assert_eq!(made.logs[0].added, 1);
    assert_eq!(store.commit(store.effect(1, 2, 0, "third")).await, Err(repeated("second", &made)));
}

pub async fn an_effect_of_a_run_that_has_ended_is_refused(store: &TestStore) {
    store.append(begin(accepted(1), [admitted()])).await;
    store.make_effect(1, 2, 0, "first").await;
    store.append(after(key(1), 2, [completed()])).await;
    let ended = || Err(CommitError::Refused(ChangeError::RunEnded(run_id(1))));
    // A new one, and a repeat too: nobody waits for its answer any more.
    assert_eq!(store.commit(store.effect(1, 2, 1, "late")).await, ended());
    assert_eq!(store.commit(store.effect(1, 2, 0, "again")).await, ended());
}

pub async fn an_effect_is_known_to_the_next_process(store: &TestStore) {
    store.append(begin(accepted(1), [admitted()])).await;
    let first = store.make_effect(1, 2, 0, "first").await;
    let next = (store.reopen)();
    assert_eq!(next.commit(next.effect(1, 2, 0, "again")).await, Err(repeated("first", &first)));
    let new = next.make_effect(1, 2, 1, "new").await;
    assert!(new.revisions[0] > first.revisions[0] && new.logs[0].head > first.logs[0].head, "{new:?}");
}
