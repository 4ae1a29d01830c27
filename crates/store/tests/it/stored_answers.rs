//! Answers that are stored for repeats: what one caller can make the store hold.

use std::collections::BTreeSet;

use drawloom_contract::{
    ids::{Digest, Tenant},
    journal::Answers as _,
    once::RequestKey,
    redact::{Redacted, Redactor},
    retention::{Prune, Retention as _},
    values::ChangeError,
};
use serde_json::{Value, json};

use crate::fixtures::{Bench, at};

/// Bytes of larger answers that one caller may have.
const LIMIT: i64 = 16 * 1024 * 1024;
const LENGTH: usize = 100 * 1024;

fn key(subject: &str, number: u64) -> RequestKey {
    RequestKey {
        tenant: Tenant::default_tenant(),
        subject: subject.parse().expect("a valid name"),
        operation: "change_memory",
        key: Digest::of(&number.to_be_bytes()),
        body: Digest::of(b"body"),
    }
}

fn cleaned(answer: Value) -> Redacted<Value> {
    Redactor::new::<&str>([]).clean(answer)
}

fn large(number: u64) -> Value {
    json!({ "number": number, "text": "x".repeat(LENGTH) })
}

async fn answer(bench: &Bench, subject: &str, number: u64, answer: Value) -> Result<Value, ChangeError> {
    bench.store.store_answer(key(subject, number), cleaned(answer), at(number as i64)).await
}

/// The number that the table of keys has, as another process sees it.
fn in_keys(bench: &Bench, what: &str) -> i64 {
    let connection = rusqlite::Connection::open(bench.store.file()).expect("the store's file");
    connection.query_row(&format!("SELECT {what} FROM keys"), [], |row| row.get(0)).expect("a number")
}

#[tokio::test]
async fn a_caller_has_a_limit_of_stored_answers_and_each_repeat_is_still_known() {
    let bench = Bench::new();
    answer(&bench, "grace", 0, large(0)).await.expect("an answer of another caller");
    answer(&bench, "ada", 0, json!("small")).await.expect("a small answer");
    for number in 1..=400 {
        assert_eq!(answer(&bench, "ada", number, large(number)).await, Ok(large(number)));
        let stored = in_keys(&bench, "sum(octet_length(answer))");
        assert!(stored < LIMIT + 2 * LENGTH as i64, "{stored} bytes after {number} answers");
    }
    assert_eq!(in_keys(&bench, "count(*)"), 402);
    let mut left_out = 0;
    for number in 1..=400 {
        // No repeat is taken for a new request.
        match answer(&bench, "ada", number, json!("done again")).await {
            Ok(first) => assert_eq!(first, large(number)),
            Err(ChangeError::AnswerLeftOut { .. }) => {
                left_out += 1;
                assert_eq!(left_out, number, "the oldest go first");
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!((1..=400 - 80).contains(&left_out), "{left_out}");
    assert_eq!(bench.store.find_answer(&key("ada", 0)).await, Ok(Some(json!("small"))));
    assert_eq!(bench.store.find_answer(&key("grace", 0)).await, Ok(Some(large(0))));
}

#[tokio::test]
async fn answers_that_were_pruned_count_no_more() {
    let bench = Bench::new();
    for number in 1..=120 {
        answer(&bench, "ada", number, large(number)).await.expect("an answer");
    }
    bench
        .store
        .prune(&Prune { tenant: None, ended_before: at(121), keep: BTreeSet::new() })
        .await
        .expect("a writable store");
    assert_eq!(in_keys(&bench, "count(*)"), 0);
    for number in 121..=240 {
        answer(&bench, "ada", number, large(number)).await.expect("an answer");
    }
    for number in 121..=240 {
        assert_eq!(bench.store.find_answer(&key("ada", number)).await, Ok(Some(large(number))));
    }
}
