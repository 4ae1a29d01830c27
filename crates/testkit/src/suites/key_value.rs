//! What [`KeyValue`] promises.

use std::time::Duration;

use drawloom_contract::{
    ids::{Digest, Tenant},
    journal::StoreError,
    once::{Made, Once, RequestKey},
    redact::{Redacted, Redactor},
    time::Timestamp,
    values::{
        ChangeError, Expect, Kept, KeyValue, MOST_VALUE_BYTES, NewValue, Present, Quota, Range, Seen, Space,
        ValueChange, ValueKey, WatchFrom, Within,
    },
};
use futures::{StreamExt as _, stream::BoxStream};
use serde_json::{Value, json};

use super::{
    history::{self, VALUE_SEEDS},
    records::{at, tenant},
};

pub const SOURCE: &str = include_str!("key_value.rs");

pub(super) const SPACE: Space = Space::of("suite");
const OTHER: Space = Space::of("suite_other");

/// Runs every promise of values against the backend that `$open` makes.
#[macro_export]
macro_rules! key_value_suite {
    ($open:expr) => {
        $crate::suite_tests! { $open, key_value,
            a_value_is_found_as_it_was_put
            revisions_increase_and_are_never_used_again
            a_change_happens_only_when_what_is_there_is_expected
            of_many_writers_with_one_expectation_one_wins
            changes_of_several_keys_happen_together_or_not_at_all
            a_value_whose_time_is_over_counts_as_absent
            values_of_other_tenants_spaces_and_owners_are_apart
            an_owner_has_at_most_its_quota
            what_is_over_does_not_count_against_a_quota
            a_quota_without_an_owner_is_refused
            a_value_that_is_too_large_is_refused
            a_list_is_in_order_and_within_its_range
            pages_of_a_list_show_every_value_once
            a_request_changes_values_once_and_its_repeat_gets_the_first_answer
            a_refused_change_leaves_no_key
            a_watch_tells_of_changes_from_the_call_on
            a_watch_from_the_start_tells_what_is_there_first
            random_histories_are_those_of_a_simple_model
        }
    };
}

pub(super) fn clean(value: Value) -> Redacted<Value> {
    Redactor::new([""; 0]).clean(value)
}

pub(super) fn key(owner: &str, name: &str) -> ValueKey {
    ValueKey { tenant: Tenant::default_tenant(), space: SPACE, owner: owner.into(), key: name.into() }
}

pub(super) fn new_value(value: Value, expires_at: Option<Timestamp>, quota: Option<Quota>) -> Option<NewValue> {
    Some(NewValue { value: clean(value), expires_at, quota, searched: None })
}

fn put(key: ValueKey, value: Value) -> ValueChange {
    ValueChange::put(key, clean(value), at(1), None)
}

fn put_if(expect: Expect, key: ValueKey, value: Value) -> ValueChange {
    ValueChange { expect, ..put(key, value) }
}

fn remove_if(expect: Expect, key: ValueKey) -> ValueChange {
    ValueChange { expect, ..ValueChange::remove(key, at(1)) }
}

/// A key of a caller's request, whose answer is `answer`.
pub(super) fn once(name: &str, body: &str, answer: Value) -> Option<Once> {
    let key = RequestKey {
        tenant: Tenant::default_tenant(),
        subject: "ada".parse().expect("a valid name"),
        operation: "suite",
        key: Digest::of(name.as_bytes()),
        body: Digest::of(body.as_bytes()),
    };
    Some(Once::Request { key, made: Made::Answer { answer: clean(answer), at: at(1) } })
}

async fn change(values: &dyn KeyValue, change: ValueChange) -> Result<u64, ChangeError> {
    Ok(values.change(vec![change], None).await?.result[0])
}

async fn find(values: &dyn KeyValue, key: &ValueKey) -> Option<Kept> {
    values.find_value(key, at(1)).await.expect("a readable store")
}

async fn names(values: &dyn KeyValue, within: Within) -> Vec<String> {
    let listed = values.list_values(&Range { space: SPACE, within }, None, 1_000, at(1)).await;
    let name = |(key, _): (ValueKey, Kept)| format!("{}/{}/{}", key.tenant, key.owner, key.key);
    listed.expect("a readable store").into_iter().map(name).collect()
}

/// What a watch tells next. A watch that tells nothing fails the promise in the end.
pub(super) async fn told<T>(stream: &mut BoxStream<'static, T>) -> T {
    let next = tokio::time::timeout(Duration::from_secs(60), stream.next()).await;
    next.expect("nothing was told").expect("the stream ended")
}

pub async fn a_value_is_found_as_it_was_put(values: &dyn KeyValue) {
    let value = json!({ "n": 1.5, "s": "\u{1f9f5}", "deep": [null, { "x": true }] });
    assert_eq!(find(values, &key("", "a")).await, None);
    let to = new_value(value.clone(), Some(at(50)), None);
    let revision = change(values, ValueChange { key: key("", "a"), expect: Expect::Anything, to, at: at(7) }).await;
    let kept = find(values, &key("", "a")).await.expect("it was put");
    let expected = Kept { value, revision: revision.expect("a change"), at: at(7), expires_at: Some(at(50)) };
    assert_eq!(kept, expected);
    assert!(kept.revision > 0);
    change(values, put(key("", "a"), Value::Null)).await.expect("a change");
    let kept = find(values, &key("", "a")).await.expect("it was put");
    assert_eq!((kept.value, kept.expires_at), (Value::Null, None));
}

pub async fn revisions_increase_and_are_never_used_again(values: &dyn KeyValue) {
    let mut revisions = Vec::new();
    for round in 0..3 {
        for name in ["a", "b"] {
            revisions.push(change(values, put(key("", name), json!(round))).await.expect("a change"));
        }
        revisions.push(change(values, ValueChange::remove(key("", "a"), at(1))).await.expect("a change"));
    }
    assert!(revisions.is_sorted_by(|one, next| one < next), "{revisions:?}");
    let absent = change(values, ValueChange::remove(key("", "a"), at(1))).await;
    assert_eq!(absent, Ok(0), "nothing was removed");
}

pub async fn a_change_happens_only_when_what_is_there_is_expected(values: &dyn KeyValue) {
    let stale = |found| Err(ChangeError::Stale { key: "a".into(), found });
    let a = || key("", "a");
    assert_eq!(change(values, put_if(Expect::Revision(1), a(), json!(0))).await, stale(None));
    assert_eq!(change(values, remove_if(Expect::Revision(1), a())).await, stale(None));
    let first = change(values, put_if(Expect::Absent, a(), json!(1))).await.expect("it was absent");
    assert_eq!(change(values, put_if(Expect::Absent, a(), json!(2))).await, stale(Some(first)));
    let second = change(values, put_if(Expect::Revision(first), a(), json!(3))).await.expect("it was at the first");
    for late in [put_if(Expect::Revision(first), a(), json!(4)), remove_if(Expect::Revision(first), a())] {
        assert_eq!(change(values, late).await, stale(Some(second)));
    }
    assert_eq!(change(values, remove_if(Expect::Absent, a())).await, stale(Some(second)));
    assert_eq!(find(values, &a()).await.map(|kept| kept.value), Some(json!(3)));
    change(values, remove_if(Expect::Revision(second), a())).await.expect("it was at the second");
    assert_eq!(find(values, &a()).await, None);
    assert_eq!(change(values, remove_if(Expect::Absent, a())).await, Ok(0));
}

pub async fn of_many_writers_with_one_expectation_one_wins(values: &dyn KeyValue) {
    let first = change(values, put(key("", "a"), json!("first"))).await.expect("a change");
    let writers = (0..16).map(|number| change(values, put_if(Expect::Revision(first), key("", "a"), json!(number))));
    let outcomes = futures::future::join_all(writers).await;
    let won: Vec<u64> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok().copied()).collect();
    assert_eq!(won.len(), 1, "{outcomes:?}");
    let stale = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    assert!(stale.eq(vec![&ChangeError::Stale { key: "a".into(), found: Some(won[0]) }; 15]), "{outcomes:?}");
}

pub async fn changes_of_several_keys_happen_together_or_not_at_all(values: &dyn KeyValue) {
    let all = |last: Expect| {
        let last = put_if(last, key("", "c"), json!(3));
        vec![put(key("", "a"), json!(1)), ValueChange::remove(key("", "b"), at(1)), last]
    };
    let before = change(values, put(key("", "b"), json!(0))).await.expect("a change");
    let refused = values.change(all(Expect::Revision(99_999)), None).await;
    assert_eq!(refused, Err(ChangeError::Stale { key: "c".into(), found: None }));
    assert_eq!(names(values, Within::Space).await, ["default//b"]);
    assert_eq!(find(values, &key("", "b")).await.map(|kept| kept.revision), Some(before));
    let revisions = values.change(all(Expect::Absent), None).await.expect("all are as expected").result;
    assert!(revisions.len() == 3 && revisions.is_sorted_by(|one, next| one < next), "{revisions:?}");
    assert_eq!(names(values, Within::Space).await, ["default//a", "default//c"]);
    // A later change of an entry sees the earlier ones.
    let twice = vec![put_if(Expect::Absent, key("", "d"), json!(1)), put_if(Expect::Absent, key("", "d"), json!(2))];
    assert!(matches!(values.change(twice, None).await, Err(ChangeError::Stale { found: Some(_), .. })));
    assert_eq!(find(values, &key("", "d")).await, None);
}

pub async fn a_value_whose_time_is_over_counts_as_absent(values: &dyn KeyValue) {
    let until = |name: &str, expect, now, end| ValueChange {
        key: key("", name),
        expect,
        to: new_value(json!(end), Some(at(end)), None),
        at: at(now),
    };
    let first = change(values, until("a", Expect::Anything, 0, 10)).await.expect("a change");
    let range = Range { space: SPACE, within: Within::Space };
    for (now, is_there) in [(9, true), (10, false), (11, false)] {
        let found = values.find_value(&key("", "a"), at(now)).await.expect("a readable store");
        let listed = values.list_values(&range, None, 10, at(now)).await.expect("a readable store");
        assert_eq!((found.is_some(), listed.len()), (is_there, usize::from(is_there)), "at {now}");
    }
    let late = change(values, until("a", Expect::Revision(first), 10, 20)).await;
    assert_eq!(late, Err(ChangeError::Stale { key: "a".into(), found: None }));
    let second = change(values, until("a", Expect::Absent, 10, 20)).await.expect("it counts as absent");
    assert!(second > first);
    let removed = change(values, ValueChange::remove(key("", "a"), at(20))).await;
    assert_eq!(removed, Ok(0), "nothing was there");
}

pub async fn values_of_other_tenants_spaces_and_owners_are_apart(values: &dyn KeyValue) {
    let here = key("ada", "a");
    let elsewhere = [
        ValueKey { tenant: tenant("theirs"), ..here.clone() },
        ValueKey { space: OTHER, ..here.clone() },
        ValueKey { owner: "bob".into(), ..here.clone() },
        ValueKey { owner: String::new(), ..here.clone() },
    ];
    change(values, put(here.clone(), json!("here"))).await.expect("a change");
    for (number, other) in elsewhere.iter().enumerate() {
        assert_eq!(find(values, other).await, None, "{other:?}");
        change(values, put_if(Expect::Absent, other.clone(), json!(number))).await.expect("another key");
    }
    change(values, ValueChange::remove(here.clone(), at(1))).await.expect("a change");
    for (number, other) in elsewhere.iter().enumerate() {
        assert_eq!(find(values, other).await.map(|kept| kept.value), Some(json!(number)), "{other:?}");
    }
    assert_eq!(find(values, &here).await, None);
}

pub async fn an_owner_has_at_most_its_quota(values: &dyn KeyValue) {
    let quota = Quota { keys: 2, bytes: 20 };
    let within = |key: ValueKey, value: Value| ValueChange {
        key,
        expect: Expect::Anything,
        to: new_value(value, None, Some(quota)),
        at: at(1),
    };
    // A key of one byte and a value of four.
    for name in ["a", "b", "a"] {
        change(values, within(key("ada", name), json!("xy"))).await.expect("room");
    }
    let over = |keys, bytes| Err(ChangeError::OverQuota { owner: "ada".into(), keys, bytes, quota });
    assert_eq!(change(values, within(key("ada", "c"), json!("xy"))).await, over(3, 15));
    assert_eq!(change(values, within(key("ada", "b"), json!("0123456789abcd"))).await, over(2, 22));
    change(values, within(key("ada", "b"), json!("0123456789ab"))).await.expect("20 bytes");
    assert_eq!(find(values, &key("ada", "c")).await, None);
    // Others have quotas of their own, and what has no quota is not refused.
    change(values, within(key("bob", "c"), json!("xy"))).await.expect("room");
    change(values, within(ValueKey { tenant: tenant("theirs"), ..key("ada", "c") }, json!("xy"))).await.expect("room");
    change(values, within(ValueKey { space: OTHER, ..key("ada", "c") }, json!("xy"))).await.expect("room");
    change(values, ValueChange::remove(key("ada", "b"), at(1))).await.expect("a change");
    change(values, within(key("ada", "c"), json!("xy"))).await.expect("there is room again");
    change(values, put(key("ada", "d"), json!("xy"))).await.expect("no quota was given");
    assert_eq!(change(values, within(key("ada", "a"), json!("xy"))).await, over(3, 15));
}

pub async fn what_is_over_does_not_count_against_a_quota(values: &dyn KeyValue) {
    let within = |name: &str, now, end| ValueChange {
        key: key("ada", name),
        expect: Expect::Anything,
        to: new_value(json!(0), Some(at(end)), Some(Quota { keys: 1, bytes: 100 })),
        at: at(now),
    };
    // A backend may remove some of what is over with each change; this is more than it removes at once.
    let others = (0..200).map(|number| ValueChange {
        to: new_value(json!(0), Some(at(5)), None),
        ..put(key(&format!("other{number}"), "a"), json!(0))
    });
    values.change(others.collect(), None).await.expect("room");
    change(values, within("a", 0, 10)).await.expect("room");
    assert!(matches!(change(values, within("b", 9, 20)).await, Err(ChangeError::OverQuota { keys: 2, .. })));
    change(values, within("b", 10, 20)).await.expect("the first is over");
}

pub async fn a_quota_without_an_owner_is_refused(values: &dyn KeyValue) {
    let to = new_value(json!(1), None, Some(Quota { keys: 1, bytes: 10 }));
    let refused = change(values, ValueChange { to, ..put(key("", "a"), json!(0)) }).await;
    assert!(matches!(refused, Err(ChangeError::Store(StoreError::Failed { .. }))), "{refused:?}");
    assert_eq!(find(values, &key("", "a")).await, None);
}

pub async fn a_value_that_is_too_large_is_refused(values: &dyn KeyValue) {
    // Two bytes are its quotes.
    let most = "x".repeat(MOST_VALUE_BYTES - 2);
    change(values, put(key("", "a"), json!(most))).await.expect("it is as large as one may be");
    let larger = change(values, put(key("", "b"), json!(format!("{most}x")))).await;
    let (bytes, most) = (MOST_VALUE_BYTES + 1, MOST_VALUE_BYTES);
    assert_eq!(larger, Err(ChangeError::TooLarge { key: "b".into(), bytes, most }));
    assert_eq!(find(values, &key("", "b")).await, None);
}

pub async fn a_list_is_in_order_and_within_its_range(values: &dyn KeyValue) {
    for (owner, name) in
        [("b", "x"), ("a", "y/2"), ("a", "y/10"), ("", "z"), ("a", "y"), ("a", "z"), ("a", "Y"), ("a", "")]
    {
        change(values, put(key(owner, name), json!(0))).await.expect("a change");
    }
    change(values, put(ValueKey { tenant: tenant("theirs"), ..key("a", "y") }, json!(0))).await.expect("a change");
    change(values, put(ValueKey { space: OTHER, ..key("a", "y") }, json!(0))).await.expect("a change");
    let ours = [
        "default//z",
        "default/a/",
        "default/a/Y",
        "default/a/y",
        "default/a/y/10",
        "default/a/y/2",
        "default/a/z",
        "default/b/x",
    ];
    assert_eq!(names(values, Within::Tenant(Tenant::default_tenant())).await, ours);
    assert_eq!(names(values, Within::Space).await, [&ours[..], &["theirs/a/y"]].concat());
    let of = |owner: &str, prefix: &str| {
        let tenant = Tenant::default_tenant();
        names(values, Within::Owner { tenant, owner: owner.into(), prefix: prefix.into() })
    };
    assert_eq!(of("a", "").await, ours[1..7]);
    assert_eq!(of("a", "y").await, ours[3..6]);
    assert_eq!(of("a", "y/").await, ours[4..6]);
    assert_eq!((of("a", "q").await, of("nobody", "").await), (vec![], vec![]));
}

pub async fn pages_of_a_list_show_every_value_once(values: &dyn KeyValue) {
    for number in 0..25 {
        let owner = if number % 2 == 0 { "a" } else { "b" };
        change(values, put(key(owner, &format!("{number:02}")), json!(number))).await.expect("a change");
    }
    let range = Range { space: SPACE, within: Within::Space };
    let mut listed: Vec<(ValueKey, Kept)> = Vec::new();
    while listed.len() <= 25 {
        let after = listed.last().map(|(key, _)| key.clone());
        let page = values.list_values(&range, after.as_ref(), 7, at(1)).await.expect("a readable store");
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 7);
        listed.extend(page);
    }
    let whole = values.list_values(&range, None, 1_000, at(1)).await;
    assert_eq!((listed.len(), Ok(listed)), (25, whole));
}

pub async fn a_request_changes_values_once_and_its_repeat_gets_the_first_answer(values: &dyn KeyValue) {
    let changes = |value: Value| vec![put(key("", "a"), value), put(key("", "b"), json!(0))];
    let first = values.change(changes(json!(1)), once("k", "body", json!("first"))).await.expect("a change");
    assert_eq!((&first.answer, first.repeated), (&json!("first"), false));
    let again = values.change(changes(json!(2)), once("k", "body", json!("second"))).await.expect("a repeat");
    assert_eq!((again.result, again.answer, again.repeated), (first.result, json!("first"), true));
    let other = values.change(changes(json!(3)), once("k", "other", json!("third"))).await;
    assert_eq!(other, Err(ChangeError::KeyReused));
    assert_eq!(find(values, &key("", "a")).await.map(|kept| kept.value), Some(json!(1)));
    let another = values.change(changes(json!(4)), once("l", "other", Value::Null)).await.expect("another key");
    assert_eq!((another.answer, another.repeated), (Value::Null, false));
    assert_eq!(find(values, &key("", "a")).await.map(|kept| kept.value), Some(json!(4)));
}

pub async fn a_refused_change_leaves_no_key(values: &dyn KeyValue) {
    let expecting = |expect| vec![put_if(expect, key("", "a"), json!(1))];
    let refused = values.change(expecting(Expect::Revision(9)), once("k", "body", json!(0))).await;
    assert_eq!(refused, Err(ChangeError::Stale { key: "a".into(), found: None }));
    let made = values.change(expecting(Expect::Absent), once("k", "other", json!(0))).await.expect("the key is free");
    assert!(!made.repeated);
}

pub async fn a_watch_tells_of_changes_from_the_call_on(values: &dyn KeyValue) {
    change(values, put(key("a", "before"), json!(0))).await.expect("a change");
    let within = Within::Owner { tenant: Tenant::default_tenant(), owner: "a".into(), prefix: "x".into() };
    let mut watch = values.watch(&Range { space: SPACE, within }, WatchFrom::Now);
    let first = change(values, put(key("a", "x1"), json!(1))).await.expect("a change");
    for outside in [key("a", "y"), key("b", "x1"), ValueKey { space: OTHER, ..key("a", "x1") }] {
        change(values, put(outside, json!(0))).await.expect("a change");
    }
    let refused = change(values, put_if(Expect::Absent, key("a", "x1"), json!(9))).await;
    assert!(matches!(refused, Err(ChangeError::Stale { .. })));
    assert_eq!(change(values, ValueChange::remove(key("a", "x2"), at(1))).await, Ok(0));
    assert_eq!(
        told(&mut watch).await,
        Seen::Is { key: key("a", "x1"), revision: first, present: Some(Present { expires_at: None }) }
    );
    let removed = change(values, ValueChange::remove(key("a", "x1"), at(1))).await.expect("a change");
    assert_eq!(told(&mut watch).await, Seen::Is { key: key("a", "x1"), revision: removed, present: None });
}

pub async fn a_watch_from_the_start_tells_what_is_there_first(values: &dyn KeyValue) {
    for number in 0..3 {
        change(values, put(key("", &number.to_string()), json!(number))).await.expect("a change");
    }
    change(values, ValueChange::remove(key("", "1"), at(1))).await.expect("a change");
    let mut watch = values.watch(&Range { space: SPACE, within: Within::Space }, WatchFrom::Start);
    let mut found = Vec::new();
    loop {
        match told(&mut watch).await {
            Seen::Is { key, present, .. } => found.push((key.key, present.is_some())),
            Seen::CaughtUp => break,
            Seen::Gap => panic!("nothing can be missed here"),
        }
    }
    assert_eq!(found, [("0".to_owned(), true), ("2".to_owned(), true)]);
    let next = change(values, put(key("", "3"), json!(3))).await.expect("a change");
    let Seen::Is { key, revision, .. } = told(&mut watch).await else { panic!("a change") };
    assert_eq!((key.key.as_str(), revision), ("3", next));
}

pub async fn random_histories_are_those_of_a_simple_model(values: &dyn KeyValue) {
    for seed in VALUE_SEEDS {
        history::of_values(values, seed).await;
    }
}
