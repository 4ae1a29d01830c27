//! Large values: out of the journal, and back as they were.

use drawloom_contract::{
    journal::RunReader as _,
    message::Segment,
    record::{Accepted, Body, CallDone},
    usage::Usage,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures::{Bench, accepted, after, begin, completed, key, record, turn_done};

fn large(kib: usize) -> String {
    "a \"quoted\" line\n\u{1f9f5}\\".chars().cycle().take(kib * 1024).collect()
}

/// Commits these notes as one run and reads them back.
async fn round_trip(values: Vec<Value>) {
    let bench = Bench::new();
    let bodies: Vec<Body> = values.into_iter().map(|value| Body::Note { version: 1, value }).collect();
    bench.append(begin(accepted(1), bodies.clone())).await;
    let expected: Vec<_> = (2..).zip(bodies).map(|(seq, body)| record(seq, body)).collect();
    let found = bench.store.read_journal(&key(1), 1, usize::MAX).await.expect("a readable store");
    assert!(found == expected, "a journal changed on its way through the store");
}

#[tokio::test]
async fn large_texts_come_back_wherever_they_stand() {
    let bench = Bench::new();
    let text = large(40);
    let first = Accepted {
        segments: vec![Segment::user(text.clone()), Segment::user("short"), Segment::user(large(9))],
        ..accepted(1)
    };
    let result =
        CallDone { call: 3, text: text.clone(), is_error: false, in_doubt: false, cost: None, usage: Usage::default() };
    let bodies =
        [Body::Accepted(Box::new(first.clone())), Body::CallDone(result), turn_done(1, &text), turn_done(2, "end")];
    bench.append(begin(first, bodies[1..3].to_vec())).await;
    assert_eq!(bench.view(&key(1)).await.final_text.as_ref(), Some(&text));
    bench.append(after(key(1), 3, [bodies[3].clone()])).await;
    assert_eq!(bench.view(&key(1)).await.final_text.as_deref(), Some("end"), "a short text replaces a large one");
    bench.append(after(key(1), 4, [turn_done(3, &text)])).await;
    bench.append(after(key(1), 5, [completed()])).await;
    assert_eq!(bench.view(&key(1)).await.final_text.as_ref(), Some(&text), "and a large one a short one");
    let expected: Vec<_> = (1..).zip(bodies).map(|(seq, body)| record(seq, body)).collect();
    assert!(bench.records(&key(1)).await[..4] == expected[..]);
}

#[tokio::test]
async fn a_large_text_is_kept_once() {
    let bench = Bench::new();
    let text: String = (0..512 * 1024).map(|number: u64| char::from(b'a' + (number * number % 23) as u8)).collect();
    for number in 1..=20 {
        bench.append(begin(accepted(number), [turn_done(1, &text)])).await;
    }
    let file = bench.store.file().to_owned();
    bench.store.close().await.expect("an orderly end");
    let size = std::fs::metadata(file).expect("the store's file").len();
    assert!(size < 1024 * 1024, "twenty runs with one text of 512 KiB take {size} bytes");
}

#[tokio::test]
async fn what_looks_like_a_reference_of_ours_is_left_alone() {
    let reference = json!({ "$blob": "0".repeat(64), "bytes": 9_000 });
    round_trip(vec![
        reference.clone(),
        json!({ "small": reference, "large": large(20) }),
        json!([large(20), { "$blob": large(20) }]),
        json!({ large(20): "$blob" }),
        json!([large(20), "$blob", "\"$blob\"", "{\"$blob\":\""]),
        json!({ large(9): large(9), "\\": large(9) }),
        json!(vec!["short"; 9_000]),
    ])
    .await;
}

fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{\"$blob\":\"".to_owned()),
        Just("\"$blob\"".to_owned()),
        Just("$blob".to_owned()),
        Just("\",\"bytes\":12}".to_owned()),
        Just("\\\"".to_owned()),
        Just("\\".to_owned()),
        "[\\PC]{0,8}",
    ];
    (prop::collection::vec(piece, 0..6), prop_oneof![3 => Just(1usize), 1 => 400usize..2_000])
        .prop_map(|(pieces, times)| pieces.concat().repeat(times))
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![texts().prop_map(Value::String), any::<i64>().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(texts(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_comes_back_as_it_was(values in prop::collection::vec(values(), 1..4)) {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(round_trip(values));
    }
}
