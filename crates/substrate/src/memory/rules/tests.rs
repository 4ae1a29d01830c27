//! Each change does what its docs say, at the exact time, and never makes more than the bounds allow.

use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const BOUNDS: Bounds = Bounds { value_bytes: 1_000, usual_ttl: None, longest_ttl: None };

fn ask(change: Change) -> Ask {
    Ask { change, if_revision: None, ttl_seconds: None }
}

fn current(value: Value) -> Current {
    Current { value, revision: 7, expires_at: None }
}

fn number(value: Value) -> Number {
    value.as_number().cloned().expect("a number")
}

/// The value and the answer that a change makes of `before`.
fn make(change: Change, before: Option<Value>) -> Result<(Option<Value>, Value), Refusal> {
    let (next, answer) = apply(&ask(change), before.map(current).as_ref(), NOW, BOUNDS)?;
    Ok(match next {
        Next::Put { value, .. } => (Some(value), answer),
        Next::Removed | Next::Same => (None, answer),
    })
}

#[test]
fn a_number_is_added_to_and_nothing_else_is() {
    let incr = |delta: Value, before: Option<Value>| make(Change::Incr(number(delta)), before);
    assert_eq!(incr(json!(1), None), Ok((Some(json!(1)), json!({ "value": 1 }))));
    assert_eq!(incr(json!(-5), Some(json!(3))).map(|made| made.0), Ok(Some(json!(-2))));
    assert_eq!(incr(json!(0.5), Some(json!(2))).map(|made| made.0), Ok(Some(json!(2.5))));
    let full = incr(json!(1), Some(json!(u64::MAX)));
    assert_eq!(full, Err(Refusal::Overflow { from: u64::MAX.into(), delta: 1.into() }));
    let text = incr(json!(1), Some(json!("3")));
    assert_eq!(text, Err(Refusal::WrongType { change: "incr", needed: "a number", found: "a string" }));
    // A value that is null is there, and is no number.
    assert!(incr(json!(1), Some(Value::Null)).is_err());
}

/// The examples of RFC 7396 with an object on both sides.
#[test]
fn objects_are_merged_as_rfc_7396_says() {
    for (before, patch, after) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ] {
        assert_eq!(
            make(Change::Merge(patch.clone()), Some(before.clone())).map(|made| made.0),
            Ok(Some(after)),
            "{patch}"
        );
    }
    assert_eq!(make(Change::Merge(json!({"a": null, "b": 1})), None).map(|made| made.0), Ok(Some(json!({"b": 1}))));
    assert!(matches!(make(Change::Merge(json!([1])), None), Err(Refusal::WrongValue { .. })));
    assert!(matches!(make(Change::Merge(json!({})), Some(json!([]))), Err(Refusal::WrongType { .. })));
}

#[test]
fn a_list_gets_an_entry_once_and_a_bounded_one_drops_its_oldest() {
    let entry = json!({"a": 1, "b": 2});
    let same = serde_json::from_str::<Value>(r#"{"b": 2, "a": 1}"#).expect("JSON");
    let first = make(Change::AppendDedupe(entry.clone()), None);
    assert_eq!(first, Ok((Some(json!([entry])), json!({ "appended": true, "value": [entry] }))));
    let again = make(Change::AppendDedupe(same), Some(json!([entry])));
    assert_eq!(again, Ok((None, json!({ "appended": false, "value": [entry] }))));
    let bounded = |limit| make(Change::BoundedList { value: json!(4), limit }, Some(json!([1, 2, 3])));
    assert_eq!(bounded(4), Ok((Some(json!([1, 2, 3, 4])), json!({ "dropped": 0, "value": [1, 2, 3, 4] }))));
    assert_eq!(bounded(2), Ok((Some(json!([3, 4])), json!({ "dropped": 2, "value": [3, 4] }))));
    assert_eq!(bounded(0), Err(Refusal::BadLimit(0)));
    assert_eq!(bounded(10_001), Err(Refusal::BadLimit(10_001)));
}

#[test]
fn a_change_with_a_revision_happens_only_at_that_revision() {
    let at = |if_revision, before: Option<Value>| {
        let ask = Ask { if_revision: Some(if_revision), ..ask(Change::Set(json!(1))) };
        apply(&ask, before.map(current).as_ref(), NOW, BOUNDS).map(drop)
    };
    assert_eq!(at(0, None), Ok(()));
    assert_eq!(at(7, Some(json!("x"))), Ok(()));
    assert_eq!(at(0, Some(json!("x"))), Err(Refusal::Stale { expected: 0, found: 7 }));
    assert_eq!(at(7, None), Err(Refusal::Stale { expected: 7, found: 0 }));
}

#[test]
fn times_are_exact_and_only_a_set_forgets_them() {
    let until = |change, ttl_seconds, before: Option<Current>, bounds| {
        let (next, _) = apply(&Ask { change, if_revision: None, ttl_seconds }, before.as_ref(), NOW, bounds)?;
        match next {
            Next::Put { expires_at, .. } => Ok(expires_at.map(Timestamp::as_millis)),
            other => panic!("{other:?}"),
        }
    };
    let (set, incr) = (|| Change::Set(json!(1)), || Change::Incr(1.into()));
    let timed = || Some(Current { expires_at: Some(Timestamp::from_millis(5_000_000)), ..current(json!(1)) });
    let limited = Bounds { longest_ttl: Some(60), usual_ttl: Some(30), ..BOUNDS };
    assert_eq!(until(set(), Some(2), None, BOUNDS), Ok(Some(1_002_000)));
    assert_eq!(until(set(), None, timed(), BOUNDS), Ok(None));
    assert_eq!(until(incr(), None, timed(), BOUNDS), Ok(Some(5_000_000)));
    assert_eq!(until(incr(), Some(1), timed(), BOUNDS), Ok(Some(1_001_000)));
    assert_eq!(until(incr(), None, None, limited), Ok(Some(1_030_000)));
    assert_eq!(until(set(), Some(60), None, limited), Ok(Some(1_060_000)));
    assert_eq!(until(set(), Some(61), None, limited), Err(Refusal::BadTtl { asked: 61, most: Some(60) }));
    assert_eq!(until(set(), Some(0), None, BOUNDS), Err(Refusal::BadTtl { asked: 0, most: None }));
    // Far away is not an overflow.
    assert_eq!(until(set(), Some(u64::MAX), None, BOUNDS), Ok(Some(i64::MAX)));
}

#[test]
fn a_value_over_the_bound_is_refused_whatever_made_it() {
    let long = "x".repeat(400);
    let list = json!([long, long]);
    for change in [
        Change::Set(json!([long, long, long])),
        Change::Merge(json!({"a": long, "b": long, "c": long})),
        Change::AppendDedupe(json!(format!("{long}y"))),
        Change::BoundedList { value: json!(format!("{long}y")), limit: 3 },
    ] {
        let before = matches!(change, Change::AppendDedupe(_) | Change::BoundedList { .. }).then(|| list.clone());
        assert!(matches!(make(change.clone(), before), Err(Refusal::TooLarge { most: 1_000, .. })), "{change:?}");
    }
    assert!(
        make(Change::BoundedList { value: json!(long), limit: 2 }, Some(list)).is_ok(),
        "what is dropped is not counted"
    );
}

#[test]
fn a_removal_says_whether_the_key_was_there() {
    let removed = apply(&ask(Change::Delete), Some(&current(Value::Null)), NOW, BOUNDS);
    assert_eq!(removed, Ok((Next::Removed, json!({ "deleted": true }))));
    assert_eq!(apply(&ask(Change::Delete), None, NOW, BOUNDS), Ok((Next::Same, json!({ "deleted": false }))));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        any_value().prop_map(Change::Set),
        Just(Change::Delete),
        any::<i64>().prop_map(|delta| Change::Incr(delta.into())),
        any_value().prop_map(Change::Merge),
        any_value().prop_map(Change::AppendDedupe),
        (any_value(), 0..5u32).prop_map(|(value, limit)| Change::BoundedList { value, limit }),
    ]
}

proptest! {
    /// Whatever is done in whatever order: nothing panics, bounds hold, and what the answer says is what the key holds.
    #[test]
    fn any_order_of_changes_keeps_to_the_rules(changes in prop::collection::vec(any_change(), 1..24)) {
        let mut key: Option<Current> = None;
        for (number, change) in changes.into_iter().enumerate() {
            let Ok((next, answer)) = apply(&ask(change.clone()), key.as_ref(), NOW, BOUNDS) else { continue };
            match next {
                Next::Same => {}
                Next::Removed => key = None,
                Next::Put { value, expires_at } => {
                    prop_assert!(value.to_string().len() <= 1_000);
                    prop_assert_eq!(expires_at, None);
                    key = Some(Current { value, revision: number as u64 + 1, expires_at });
                }
            }
            let held = key.as_ref().map(|current| current.value.clone());
            match change {
                Change::Delete => prop_assert!(held.is_none()),
                Change::Set(value) => prop_assert_eq!(held, Some(value)),
                Change::AppendDedupe(value) => {
                    let list = held.as_ref().and_then(Value::as_array).expect("a list");
                    prop_assert!(list.contains(&value));
                    prop_assert_eq!(&answer["value"], &json!(list));
                }
                Change::BoundedList { limit, .. } => {
                    let list = held.as_ref().and_then(Value::as_array).expect("a list");
                    prop_assert!(list.len() <= limit as usize);
                }
                Change::Incr(_) | Change::Merge(_) => prop_assert_eq!(Some(answer["value"].clone()), held),
            }
        }
    }
}

#[test]
fn whole_numbers_are_added_exactly_and_a_sum_that_would_hide_what_was_added_is_refused() {
    let add = |from: Value, delta: Value| {
        let current = Current { value: from, revision: 1, expires_at: None };
        let delta = serde_json::from_value(delta).expect("a number");
        let ask = Ask { change: Change::Incr(delta), if_revision: None, ttl_seconds: None };
        let bounds = Bounds { value_bytes: 1_000, usual_ttl: None, longest_ttl: None };
        apply(&ask, Some(&current), Timestamp::from_millis(0), bounds).map(|(_, answer)| answer["value"].clone())
    };
    assert_eq!(add(json!(9_223_372_036_854_775_807_u64), json!(1)), Ok(json!(9_223_372_036_854_775_808_u64)));
    assert_eq!(add(json!(0.5), json!(1)), Ok(json!(1.5)));
    assert!(matches!(add(json!(u64::MAX), json!(1)), Err(Refusal::Overflow { .. })));
    assert!(matches!(add(json!(9_007_199_254_740_992.0), json!(1)), Err(Refusal::Overflow { .. })));
}

#[test]
fn an_imported_entry_gets_the_config_s_time_and_none_beyond_its_longest() {
    let now = Timestamp::from_millis(1_000_000);
    let at = |seconds: u64| now.after(Duration::from_secs(seconds));
    let bounds = Bounds { value_bytes: 1_000, usual_ttl: Some(60), longest_ttl: Some(100) };
    assert_eq!(imported_expiry(None, now, bounds), Ok(Some(at(60))));
    assert_eq!(imported_expiry(Some(at(100)), now, bounds), Ok(Some(at(100))));
    let refused = imported_expiry(Some(at(101)), now, bounds);
    assert_eq!(refused, Err(Refusal::BadTtl { asked: 101, most: Some(100) }));
}
