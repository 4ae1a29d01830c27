//! What [`Log`] promises.

use drawloom_contract::{
    ids::Tenant,
    log::{Log, LogChange, LogChanged, LogKey, MOST_MESSAGE_BYTES, Message, NewMessage, Page, Tail},
    values::{ChangeError, Space},
};
use serde_json::{Value, json};

use super::{
    history::{self, LOG_SEEDS},
    key_value::{clean, once, told},
    records::{at, tenant},
};

pub const SOURCE: &str = include_str!("log.rs");

pub(super) const SPACE: Space = Space::of("suite");
const OTHER: Space = Space::of("suite_other");

/// Runs every promise of logs against the backend that `$open` makes.
#[macro_export]
macro_rules! log_suite {
    ($open:expr) => {
        $crate::suite_tests! { $open, log,
            a_log_without_messages_is_empty
            messages_are_read_as_they_were_appended
            a_page_begins_after_a_sequence_and_has_at_most_so_many
            a_message_whose_id_is_there_is_not_appended_again
            a_message_whose_id_is_not_after_since_is_appended_again
            a_trim_removes_messages_and_sequences_are_never_used_again
            a_log_keeps_at_most_so_many_messages
            logs_of_other_tenants_spaces_and_names_are_apart
            an_append_with_a_message_that_is_too_large_is_refused_whole
            a_request_appends_once_and_its_repeat_gets_the_first_answer
            concurrent_appends_get_sequences_of_their_own
            a_tail_tells_of_appends_from_the_call_on
            a_reader_that_registers_looks_and_waits_misses_nothing
            a_repeated_append_is_told_what_the_first_one_dropped
            random_histories_are_those_of_a_simple_model
        }
    };
}

pub(super) fn key(name: &str) -> LogKey {
    LogKey { tenant: Tenant::default_tenant(), space: SPACE, name: name.into() }
}

pub(super) fn message(id: &str, body: Value) -> NewMessage {
    NewMessage { id: id.into(), at: at(5), body: clean(body) }
}

/// Appends messages with these ids.
fn append(log: LogKey, ids: &[&str]) -> LogChange {
    let messages = ids.iter().map(|id| message(id, json!({ "of": id }))).collect();
    LogChange::Append { log, messages, since: 0, keep: None }
}

async fn change(log: &dyn Log, change: LogChange) -> LogChanged {
    log.change_log(change, None).await.expect("a change").result
}

async fn read(log: &dyn Log, key: &LogKey, after: u64, limit: u32) -> Page {
    log.read_log(key, after, limit).await.expect("a readable store")
}

/// The ids of all messages.
async fn ids(log: &dyn Log, key: &LogKey) -> Vec<String> {
    read(log, key, 0, 1_000).await.messages.into_iter().map(|message| message.id).collect()
}

pub async fn a_log_without_messages_is_empty(log: &dyn Log) {
    assert_eq!(read(log, &key("a"), 0, 10).await, Page { messages: vec![], first: 1, head: 0 });
    assert_eq!(log.head(&key("a")).await, Ok(0));
    let trimmed = change(log, LogChange::Trim { log: key("a"), up_to: 9 }).await;
    assert_eq!(trimmed, LogChanged::default());
    assert_eq!(log.head(&key("a")).await, Ok(0));
}

pub async fn messages_are_read_as_they_were_appended(log: &dyn Log) {
    let first = change(log, append(key("a"), &["x", "y"])).await;
    let second = change(log, append(key("a"), &["z"])).await;
    let sequences: Vec<u64> = first.sequences.iter().chain(&second.sequences).copied().collect();
    assert!(
        sequences.len() == 3 && sequences[0] > 0 && sequences.is_sorted_by(|one, next| one < next),
        "{sequences:?}"
    );
    let head = sequences[2];
    assert_eq!((first.added, first.dropped, first.head), (2, 0, sequences[1]));
    assert_eq!((second.added, second.dropped, second.head), (1, 0, head));
    let message = |(sequence, id): (&u64, &str)| Message {
        sequence: *sequence,
        id: id.into(),
        at: at(5),
        body: json!({ "of": id }),
    };
    let messages = sequences.iter().zip(["x", "y", "z"]).map(message).collect();
    assert_eq!(read(log, &key("a"), 0, 10).await, Page { messages, first: sequences[0], head });
    assert_eq!(log.head(&key("a")).await, Ok(head));
}

pub async fn a_page_begins_after_a_sequence_and_has_at_most_so_many(log: &dyn Log) {
    let names: Vec<String> = (0..25).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let appended = change(log, append(key("a"), &names)).await;
    let (mut read_ids, mut after) = (Vec::new(), 0);
    while read_ids.len() <= 25 {
        let page = read(log, &key("a"), after, 7).await;
        assert_eq!((page.first, page.head), (appended.sequences[0], appended.head));
        let Some(last) = page.messages.last() else { break };
        assert!(page.messages.len() <= 7 && page.messages.iter().all(|message| message.sequence > after));
        after = last.sequence;
        read_ids.extend(page.messages.into_iter().map(|message| message.id));
    }
    assert_eq!(read_ids, names);
    assert_eq!(read(log, &key("a"), appended.head + 5, 7).await.messages, []);
}

pub async fn a_message_whose_id_is_there_is_not_appended_again(log: &dyn Log) {
    let first = change(log, append(key("a"), &["x", "y"])).await;
    let again = change(log, append(key("a"), &["y", "z", "x", "z"])).await;
    let new = again.sequences[1];
    assert_eq!(again.sequences, [first.sequences[1], new, first.sequences[0], new]);
    assert_eq!((again.added, again.head), (1, new));
    assert_eq!(ids(log, &key("a")).await, ["x", "y", "z"]);
}

pub async fn a_message_whose_id_is_not_after_since_is_appended_again(log: &dyn Log) {
    let first = change(log, append(key("a"), &["x", "y"])).await;
    let messages = vec![message("x", json!("again")), message("y", json!("again"))];
    let again = LogChange::Append { log: key("a"), messages, since: first.sequences[0], keep: None };
    let again = change(log, again).await;
    assert_eq!((again.added, again.sequences[1]), (1, first.sequences[1]));
    assert!(again.sequences[0] > first.head);
    assert_eq!(ids(log, &key("a")).await, ["x", "y", "x"]);
}

pub async fn a_trim_removes_messages_and_sequences_are_never_used_again(log: &dyn Log) {
    let sequences = change(log, append(key("a"), &["w", "x", "y", "z"])).await.sequences;
    let trim = |up_to| LogChange::Trim { log: key("a"), up_to };
    let trimmed = change(log, trim(sequences[1])).await;
    assert_eq!(trimmed, LogChanged { sequences: vec![], added: 0, head: sequences[3], dropped: 2 });
    assert_eq!(read(log, &key("a"), 0, 10).await.first, sequences[2]);
    assert_eq!(ids(log, &key("a")).await, ["y", "z"]);
    assert_eq!(change(log, trim(sequences[1])).await.dropped, 0);
    assert_eq!(change(log, trim(u64::from(u32::MAX))).await.dropped, 2);
    let head = sequences[3];
    assert_eq!(read(log, &key("a"), 0, 10).await, Page { messages: vec![], first: head + 1, head });
    // What was removed is not there, so it is appended again.
    let again = change(log, append(key("a"), &["w"])).await;
    assert!(again.added == 1 && again.sequences[0] > head, "{again:?}");
    assert_eq!(log.head(&key("a")).await, Ok(again.head));
}

/// How channels wait: a reader registers, looks, and waits only when it found nothing. Whatever comes between is seen by the look or told by
/// the tail.
pub async fn a_reader_that_registers_looks_and_waits_misses_nothing(log: &dyn Log) {
    const MESSAGES: usize = 200;
    let names: Vec<String> = (0..MESSAGES).map(|number| number.to_string()).collect();
    let publish = async {
        for name in &names {
            change(log, append(key("a"), &[name])).await;
        }
    };
    let reads = async {
        let mut tail = log.tail(&SPACE);
        let (mut seen, mut after) = (Vec::new(), 0);
        while seen.len() < MESSAGES {
            let page = read(log, &key("a"), after, 3).await;
            match page.messages.last() {
                Some(last) => after = last.sequence,
                None => _ = told(&mut tail).await,
            }
            seen.extend(page.messages.into_iter().map(|message| message.id));
        }
        seen
    };
    let ((), seen) = futures::join!(publish, reads);
    assert_eq!(seen, names);
}

pub async fn a_repeated_append_is_told_what_the_first_one_dropped(log: &dyn Log) {
    let capped = |name: &str| match append(key("a"), &[name]) {
        LogChange::Append { log, messages, since, .. } => LogChange::Append { log, messages, since, keep: Some(1) },
        trim => trim,
    };
    change(log, capped("x")).await;
    let first = log.change_log(capped("y"), once("one", "body", json!(1))).await.expect("a change");
    assert_eq!((first.result.dropped, first.repeated), (1, false));
    change(log, capped("z")).await;
    let again = log.change_log(capped("y"), once("one", "body", json!(2))).await.expect("a change");
    assert_eq!((again.result, again.answer, again.repeated), (first.result, json!(1), true));
    assert_eq!(ids(log, &key("a")).await, ["z"]);
}

pub async fn a_log_keeps_at_most_so_many_messages(log: &dyn Log) {
    let capped = |names: &[&str]| match append(key("a"), names) {
        LogChange::Append { log, messages, since, .. } => LogChange::Append { log, messages, since, keep: Some(3) },
        trim => trim,
    };
    assert_eq!(change(log, capped(&["v", "w"])).await.dropped, 0);
    assert_eq!(change(log, capped(&["x", "y"])).await.dropped, 1);
    assert_eq!(ids(log, &key("a")).await, ["w", "x", "y"]);
    let many = change(log, capped(&["1", "2", "3", "4", "5"])).await;
    assert_eq!((many.added, many.dropped, many.sequences.len()), (5, 5, 5));
    assert_eq!(ids(log, &key("a")).await, ["3", "4", "5"]);
    let page = read(log, &key("a"), 0, 10).await;
    assert_eq!((page.first, page.head), (many.sequences[2], many.sequences[4]));
}

pub async fn logs_of_other_tenants_spaces_and_names_are_apart(log: &dyn Log) {
    let here = key("a");
    let elsewhere = [
        LogKey { tenant: tenant("theirs"), ..here.clone() },
        LogKey { space: OTHER, ..here.clone() },
        LogKey { name: "b".into(), ..here.clone() },
    ];
    change(log, append(here.clone(), &["x", "y"])).await;
    for other in &elsewhere {
        assert_eq!(log.head(other).await, Ok(0), "{other:?}");
        assert_eq!(change(log, append(other.clone(), &["x"])).await.added, 1, "{other:?}");
    }
    change(log, LogChange::Trim { log: here.clone(), up_to: u64::from(u32::MAX) }).await;
    for other in &elsewhere {
        assert_eq!(ids(log, other).await, ["x"], "{other:?}");
    }
}

pub async fn an_append_with_a_message_that_is_too_large_is_refused_whole(log: &dyn Log) {
    // Two bytes are its quotes.
    let most = "x".repeat(MOST_MESSAGE_BYTES - 2);
    let of = |bodies: [String; 2]| LogChange::Append {
        log: key("a"),
        messages: bodies.into_iter().zip(["small", "large"]).map(|(body, id)| message(id, json!(body))).collect(),
        since: 0,
        keep: None,
    };
    let refused = log.change_log(of(["a".into(), format!("{most}x")]), once("k", "body", json!(0))).await;
    let (bytes, limit) = (MOST_MESSAGE_BYTES + 1, MOST_MESSAGE_BYTES);
    assert_eq!(refused, Err(ChangeError::TooLarge { key: "large".into(), bytes, most: limit }));
    assert_eq!(log.head(&key("a")).await, Ok(0));
    let made = log.change_log(of(["a".into(), most]), once("k", "other", json!(0))).await.expect("the key is free");
    assert_eq!((made.result.added, made.repeated), (2, false));
}

pub async fn a_request_appends_once_and_its_repeat_gets_the_first_answer(log: &dyn Log) {
    let first = log.change_log(append(key("a"), &["x"]), once("k", "body", json!("first"))).await.expect("a change");
    assert_eq!((&first.answer, first.repeated), (&json!("first"), false));
    change(log, append(key("a"), &["y"])).await;
    let again = log.change_log(append(key("a"), &["z"]), once("k", "body", json!("second"))).await.expect("a repeat");
    assert_eq!((again.result, again.answer, again.repeated), (first.result, json!("first"), true));
    let other = log.change_log(append(key("a"), &["z"]), once("k", "other", json!("third"))).await;
    assert_eq!(other, Err(ChangeError::KeyReused));
    assert_eq!(ids(log, &key("a")).await, ["x", "y"]);
}

pub async fn concurrent_appends_get_sequences_of_their_own(log: &dyn Log) {
    let names: Vec<String> = (0..32).map(|number| number.to_string()).collect();
    let appends = names.iter().map(|name| change(log, append(key("a"), &[name, "same"])));
    let mut sequences = Vec::new();
    for appended in futures::future::join_all(appends).await {
        sequences.extend(appended.sequences);
    }
    sequences.sort_unstable();
    sequences.dedup();
    assert_eq!(sequences.len(), 33, "32 messages, and one that all of them had");
    assert_eq!(ids(log, &key("a")).await.len(), 33);
}

pub async fn a_tail_tells_of_appends_from_the_call_on(log: &dyn Log) {
    change(log, append(key("a"), &["before"])).await;
    let mut tail = log.tail(&SPACE);
    change(log, append(LogKey { space: OTHER, ..key("a") }, &["x"])).await;
    // Neither of them adds anything.
    change(log, append(key("a"), &["before"])).await;
    change(log, LogChange::Trim { log: key("a"), up_to: 1 }).await;
    for log_key in [key("a"), LogKey { tenant: tenant("theirs"), ..key("b") }] {
        let head = change(log, append(log_key.clone(), &["x", "y"])).await.head;
        assert_eq!(told(&mut tail).await, Tail::Grew { log: log_key.clone(), head });
        assert_eq!(log.head(&log_key).await, Ok(head), "it is there when it is told of");
    }
}

pub async fn random_histories_are_those_of_a_simple_model(log: &dyn Log) {
    for seed in LOG_SEEDS {
        history::of_logs(log, seed).await;
    }
}
