//! What [`Answers`] promises.

use drawloom_contract::{
    ids::{Digest, Tenant},
    journal::Answers,
    once::{MAX_STORED_ANSWER, RequestKey},
    values::ChangeError,
};
use serde_json::{Value, json};

use super::{
    key_value::clean,
    records::{at, tenant},
};

pub const SOURCE: &str = include_str!("answers.rs");

/// Runs every promise of answers against the backend that `$open` makes.
#[macro_export]
macro_rules! answers_suite {
    ($open:expr) => {
        $crate::suite_tests! { $open, answers,
            the_first_answer_of_a_request_stays
            another_body_under_the_same_key_is_refused
            an_answer_belongs_to_its_tenant_subject_operation_and_key
            of_many_answers_of_one_request_one_stays
            a_large_answer_is_left_out_and_a_repeat_says_so
        }
    };
}

fn key(body: &str) -> RequestKey {
    RequestKey {
        tenant: Tenant::default_tenant(),
        subject: "ada".parse().expect("a valid name"),
        operation: "suite",
        key: Digest::of(b"key"),
        body: Digest::of(body.as_bytes()),
    }
}

async fn store(answers: &dyn Answers, key: RequestKey, answer: Value) -> Result<Value, ChangeError> {
    answers.store_answer(key, clean(answer), at(1)).await
}

pub async fn the_first_answer_of_a_request_stays(answers: &dyn Answers) {
    assert_eq!(answers.find_answer(&key("body")).await, Ok(None));
    assert_eq!(store(answers, key("body"), json!({ "n": 1 })).await, Ok(json!({ "n": 1 })));
    assert_eq!(store(answers, key("body"), json!({ "n": 2 })).await, Ok(json!({ "n": 1 })));
    assert_eq!(answers.find_answer(&key("body")).await, Ok(Some(json!({ "n": 1 }))));
}

pub async fn another_body_under_the_same_key_is_refused(answers: &dyn Answers) {
    store(answers, key("body"), Value::Null).await.expect("the first of them");
    assert_eq!(store(answers, key("other"), json!(2)).await, Err(ChangeError::KeyReused));
    assert_eq!(answers.find_answer(&key("other")).await, Err(ChangeError::KeyReused));
    assert_eq!(answers.find_answer(&key("body")).await, Ok(Some(Value::Null)));
}

pub async fn an_answer_belongs_to_its_tenant_subject_operation_and_key(answers: &dyn Answers) {
    store(answers, key("body"), json!(0)).await.expect("the first of them");
    let others = [
        RequestKey { tenant: tenant("theirs"), ..key("other") },
        RequestKey { subject: "grace".parse().expect("a valid name"), ..key("other") },
        RequestKey { operation: "another", ..key("other") },
        RequestKey { key: Digest::of(b"another"), ..key("other") },
    ];
    for (number, other) in (1..).zip(others) {
        assert_eq!(answers.find_answer(&other).await, Ok(None), "{other:?}");
        assert_eq!(store(answers, other.clone(), json!(number)).await, Ok(json!(number)), "{other:?}");
        assert_eq!(answers.find_answer(&other).await, Ok(Some(json!(number))), "{other:?}");
    }
    assert_eq!(answers.find_answer(&key("body")).await, Ok(Some(json!(0))));
}

pub async fn of_many_answers_of_one_request_one_stays(answers: &dyn Answers) {
    let answered = (0..16).map(|number| store(answers, key("body"), json!(number)));
    let answered = futures::future::join_all(answered).await;
    let first = answers.find_answer(&key("body")).await.expect("a readable store").expect("an answer");
    assert_eq!(answered, vec![Ok(first); 16]);
}

pub async fn a_large_answer_is_left_out_and_a_repeat_says_so(answers: &dyn Answers) {
    // Two quotes are part of its JSON.
    let most = json!("x".repeat(MAX_STORED_ANSWER - 2));
    assert_eq!(store(answers, key("body"), most.clone()).await, Ok(most.clone()));
    assert_eq!(answers.find_answer(&key("body")).await, Ok(Some(most)));
    let larger = || RequestKey { key: Digest::of(b"larger"), ..key("body") };
    let large = json!("x".repeat(MAX_STORED_ANSWER - 1));
    assert_eq!(store(answers, larger(), large.clone()).await, Ok(large.clone()), "the first request gets it");
    let left_out = ChangeError::AnswerLeftOut { bytes: MAX_STORED_ANSWER + 1 };
    assert_eq!(store(answers, larger(), large).await, Err(left_out.clone()));
    assert_eq!(answers.find_answer(&larger()).await, Err(left_out));
    let other = RequestKey { body: Digest::of(b"other"), ..larger() };
    assert_eq!(answers.find_answer(&other).await, Err(ChangeError::KeyReused));
}
