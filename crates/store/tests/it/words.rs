//! Search of values: ranked, within owners and times, kept in step with the values in the same commit.

use std::collections::BTreeSet;

use drawloom_contract::{
    ids::{RunId, Tenant},
    redact::Redactor,
    retention::{Prune, Retention as _},
    values::{ARTIFACTS, Expect, KeyValue as _, MEMORY, NewValue, Quota, ValueChange, ValueKey},
};
use drawloom_store::{Needs, Search, Term};
use serde_json::{Value, json};

use crate::fixtures::{Bench, accepted, at, begin, completed, run_id};

fn key(owner: &str, name: &str) -> ValueKey {
    ValueKey { tenant: Tenant::default_tenant(), space: MEMORY, owner: owner.into(), key: name.into() }
}

fn put(key: ValueKey, value: Value, until: Option<i64>) -> ValueChange {
    let value = Redactor::new::<&str>([]).clean(json!({ "value": value, "by": "provenance" }));
    let (expires_at, quota) = (until.map(at), Some(Quota { keys: 1_000_000, bytes: 1 << 40 }));
    let to = Some(NewValue { value, expires_at, quota, searched: Some("/value") });
    ValueChange { key, expect: Expect::Anything, to, at: at(0) }
}

fn ask(words: &[&str]) -> Search {
    let term = |word: &&str| Term { words: word.trim_end_matches('*').into(), is_prefix: word.ends_with('*') };
    Search {
        tenant: Tenant::default_tenant(),
        space: MEMORY,
        owners: vec!["user/ann".into()],
        prefix: String::new(),
        terms: words.iter().map(term).collect(),
        needs: Needs::EveryTerm,
        limit: 10,
    }
}

impl Bench {
    async fn set(&self, owner: &str, name: &str, value: Value) {
        self.store.change(vec![put(key(owner, name), value, None)], None).await.expect("room");
    }

    async fn keys(&self, search: Search, now: i64) -> Vec<String> {
        let hits = self.store.search(search, at(now)).await.expect("a readable store");
        assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "best first");
        hits.into_iter().map(|hit| hit.key.key).collect()
    }
}

#[tokio::test]
async fn a_word_that_every_value_has_still_ranks_them() {
    let bench = Bench::new();
    bench.set("user/ann", "a", json!("widget one")).await;
    bench.set("user/ann", "b", json!("widget widget widget")).await;
    bench.set("user/ann", "c", json!("widget two")).await;
    assert_eq!(bench.keys(ask(&["widget"]), 1).await, ["b", "a", "c"]);
}

#[tokio::test]
async fn hits_come_best_first_and_follow_every_change_of_a_value() {
    let bench = Bench::new();
    bench.set("user/ann", "short", json!("the lock is held")).await;
    bench.set("user/ann", "long", json!(["x ".repeat(200), { "note": "a lock, said once in a long text" }])).await;
    bench.set("user/ann", "lock:key", json!(7)).await;
    bench.set("user/ann", "other", json!("nothing to see")).await;
    assert_eq!(bench.keys(ask(&["LOCK"]), 1).await, ["lock:key", "short", "long"]);
    assert_eq!(bench.keys(ask(&["lock", "held"]), 1).await, ["short"]);
    assert_eq!(bench.keys(ask(&["lock is"]), 1).await, ["short"], "words that follow each other");
    assert_eq!(bench.keys(ask(&["is lock"]), 1).await, [""; 0]);
    assert_eq!(bench.keys(ask(&["loc*"]), 1).await.len(), 3);
    assert_eq!(bench.keys(ask(&["note"]), 1).await, ["long"], "names of fields are words too");
    assert_eq!(bench.keys(ask(&["provenance"]), 1).await, [""; 0]);
    assert_eq!(bench.keys(Search { prefix: "lock:".into(), ..ask(&["lock"]) }, 1).await, ["lock:key"]);
    assert_eq!(bench.keys(Search { limit: 1, ..ask(&["lock"]) }, 1).await, ["lock:key"]);
    assert_eq!(bench.keys(Search { needs: Needs::AnyTerm, ..ask(&["held", "nothing"]) }, 1).await.len(), 2);
    bench.set("user/ann", "short", json!("the door is open")).await;
    assert_eq!(bench.keys(ask(&["lock"]), 1).await, ["lock:key", "long"]);
    assert_eq!(bench.keys(ask(&["door"]), 1).await, ["short"]);
    let removal = ValueChange::remove(key("user/ann", "long"), at(1));
    bench.store.change(vec![removal], None).await.expect("room");
    assert_eq!(bench.keys(ask(&["lock"]), 1).await, ["lock:key"]);
    assert_eq!(bench.store.integrity().await, Ok(()));
}

#[tokio::test]
async fn a_phrase_of_hundreds_of_words_is_searched_for_by_its_beginning() {
    let bench = Bench::new();
    bench.set("user/ann", "k", json!("word ".repeat(70))).await;
    let long = "word ".repeat(400);
    assert_eq!(bench.keys(ask(&[&long]), 1).await, ["k"], "the whole phrase is not in the value");
}

#[tokio::test]
async fn changes_of_one_commit_leave_the_words_of_the_last_one() {
    let bench = Bench::new();
    bench.set("user/ann", "kept", json!("first")).await;
    bench.set("user/ann", "gone", json!("first")).await;
    let stale = ValueChange { expect: Expect::Revision(99), ..put(key("user/ann", "kept"), json!("stale"), None) };
    let refused = vec![put(key("user/ann", "new"), json!("refused"), None), stale];
    // Asked for together, so that one commit has all of them.
    let (written, refused, removed) = tokio::join!(
        bench.store.change(
            vec![
                put(key("user/ann", "kept"), json!("second"), None),
                put(key("user/ann", "gone"), json!("second"), None),
                put(key("user/ann", "kept"), json!("third"), None),
            ],
            None
        ),
        bench.store.change(refused, None),
        bench.store.change(vec![ValueChange::remove(key("user/ann", "gone"), at(1))], None),
    );
    written.expect("room");
    removed.expect("room");
    refused.expect_err("it is stale");
    for (word, wanted) in [("first", None), ("second", None), ("third", Some("kept")), ("refused", None)] {
        assert_eq!(bench.keys(ask(&[word]), 1).await, Vec::from_iter(wanted), "{word}");
    }
    bench.set("user/ann", "kept", json!("fourth")).await;
    assert_eq!(bench.keys(ask(&["third"]), 1).await, [""; 0]);
    assert_eq!(bench.store.integrity().await, Ok(()));
}

#[tokio::test]
async fn no_query_is_an_error() {
    let bench = Bench::new();
    bench.set("user/ann", "k", json!("plain words")).await;
    for query in
        ["\"", "a\"b", "*", "NEAR(a b)", "key:plain", "-", "^a", "a AND", "(((", "a\0b", "{a b}: c", "\u{1f600}", "é"]
    {
        bench.store.search(ask(&[query]), at(1)).await.unwrap_or_else(|error| panic!("{query:?}: {error}"));
        bench.store.search(ask(&["plain", query]), at(1)).await.unwrap_or_else(|error| panic!("{query:?}: {error}"));
    }
    assert_eq!(bench.keys(ask(&["\"plain\" words", "--"]), 1).await, ["k"]);
}

/// BM25 over the whole index would tell how often others use a word.
#[tokio::test]
async fn scores_depend_only_on_entries_of_the_owners() {
    let bench = Bench::new();
    let mine = [
        ("a", json!("the lock is held by the writer and the reader")),
        ("b", json!("the lock lock lock")),
        ("lock:c", json!("unrelated")),
        ("d", json!("the writer waits")),
        ("e", json!("x ".repeat(300))),
    ];
    for (name, value) in &mine {
        bench.set("user/ann", name, value.clone()).await;
    }
    let searches = || {
        let any = Search { needs: Needs::AnyTerm, ..ask(&["lock", "writer", "the writer"]) };
        let two = Search { owners: vec!["user/ann".into(), "user/cid".into()], ..ask(&["lock"]) };
        [ask(&["lock"]), ask(&["the", "lock"]), ask(&["wri*"]), ask(&["x"]), any, two]
    };
    let scores = async || {
        let mut found = Vec::new();
        for search in searches() {
            let hits = bench.store.search(search, at(1)).await.expect("a readable store");
            found.push(hits.into_iter().map(|hit| (hit.key.key, hit.score)).collect::<Vec<_>>());
        }
        found
    };
    let alone = scores().await;
    assert!(alone.iter().all(|hits| !hits.is_empty() && hits.iter().all(|(_, score)| *score > 0)), "{alone:?}");
    let foreign = |name: &str| ValueKey { tenant: "other".parse().expect("a tenant"), ..key("user/ann", name) };
    for number in 0..200 {
        let (text, name) = (format!("lock writer {}", "the ".repeat(number)), format!("k{number}"));
        bench.set("user/bob", &name, json!(text)).await;
        bench.store.change(vec![put(foreign(&name), json!(text), None)], None).await.expect("room");
    }
    assert_eq!(scores().await, alone, "others write the same words");
    // Rewritten and removed entries leave no trace either.
    for number in 0..200 {
        let removal = ValueChange::remove(key("user/bob", &format!("k{number}")), at(1));
        bench.store.change(vec![removal], None).await.expect("room");
    }
    assert_eq!(scores().await, alone);
    bench.set("user/ann", "f", json!("lock")).await;
    assert_ne!(scores().await[0], alone[0], "an entry of the owner counts");
}

#[tokio::test]
async fn others_and_what_is_over_are_not_found() {
    let bench = Bench::new();
    let foreign = ValueKey { tenant: "other".parse().expect("a tenant"), ..key("user/ann", "foreign") };
    for change in [
        put(key("user/ann", "mine"), json!("canary"), Some(10)),
        put(key("user/bob", "his"), json!("canary"), None),
        put(key("tenant", "ours"), json!("canary"), None),
        put(foreign, json!("canary"), None),
    ] {
        bench.store.change(vec![change], None).await.expect("room");
    }
    assert_eq!(bench.keys(ask(&["canary"]), 9).await, ["mine"]);
    assert_eq!(bench.keys(ask(&["canary"]), 10).await, [""; 0], "its time is over");
    let both = Search { owners: vec!["user/ann".into(), "tenant".into()], ..ask(&["canary"]) };
    assert_eq!(bench.keys(both, 9).await, ["mine", "ours"]);
    assert_eq!(bench.keys(Search { owners: Vec::new(), ..ask(&["canary"]) }, 9).await, [""; 0]);
    assert_eq!(bench.store.remove_expired(at(9)).await, Ok(0));
    assert_eq!(bench.store.remove_expired(at(10)).await, Ok(1));
    // At a time when it was not over it would be found, were it still there.
    assert_eq!(bench.keys(ask(&["canary"]), 5).await, [""; 0]);
}

#[tokio::test]
async fn memory_and_artifacts_of_a_tree_go_with_the_tree_and_no_others_do() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [completed()])).await;
    bench.append(begin(accepted(2), [])).await;
    let owner = |run: RunId| format!("run/{run}");
    let many = (0..1_100).map(|number| put(key(&owner(run_id(1)), &format!("k{number}")), json!("canary"), None));
    bench.store.change(many.collect(), None).await.expect("room");
    let artifact = |run| ValueKey { space: ARTIFACTS, ..key(&owner(run_id(run)), "text/a") };
    let artifacts = [1, 2].map(|run| put(artifact(run), json!("canary"), None));
    bench.store.change(artifacts.into(), None).await.expect("room");
    bench.set(&owner(run_id(2)), "kept", json!("canary")).await;
    bench.set("user/ann", "kept", json!("canary")).await;
    let prune = Prune { tenant: None, ended_before: at(1_000_000), keep: BTreeSet::new() };
    assert_eq!(bench.store.prune(&prune).await.map(|pruned| pruned.trees), Ok(1));
    let all = vec![owner(run_id(1)), owner(run_id(2)), "user/ann".into()];
    assert_eq!(bench.keys(Search { owners: all, ..ask(&["canary"]) }, 1).await, ["kept", "kept"]);
    let gone = bench.store.find_value(&key(&owner(run_id(1)), "k0"), at(1)).await;
    assert_eq!(gone, Ok(None));
    let found = async |run| bench.store.find_value(&artifact(run), at(1)).await.map(|kept| kept.is_some());
    assert_eq!((found(1).await, found(2).await), (Ok(false), Ok(true)));
}

#[tokio::test]
async fn words_of_chinese_japanese_and_korean_are_found_inside_of_their_runs() {
    let bench = Bench::new();
    bench.set("user/ann", "tokyo", json!("東京都に住む人の言語はRust言語です")).await;
    bench.set("user/ann", "beijing", json!({ "城市": "北京大学的研究报告" })).await;
    bench.set("user/ann", "seoul", json!("한국어를 배우는 학생")).await;
    bench.set("user/ann", "目的:latin", json!("no such words, but a lock")).await;
    for (words, wanted) in [
        (&["京都"][..], &["tokyo"][..]),
        (&["言語"], &["tokyo"]),
        (&["Rust言語"], &["tokyo"]),
        (&["rust"], &["tokyo"]),
        (&["言語は", "東京"], &["tokyo"]),
        (&["東"], &["tokyo"]),
        (&["す"], &["tokyo"]),
        (&["东京"], &[]),
        (&["京東"], &[]),
        (&["大学的研究"], &["beijing"]),
        (&["城市"], &["beijing"]),
        (&["京"], &["beijing", "tokyo"]),
        (&["한국어"], &["seoul"]),
        (&["학생"], &["seoul"]),
        (&["국어*"], &["seoul"]),
        (&["目的"], &["目的:latin"]),
        (&["lock"], &["目的:latin"]),
    ] {
        let mut found = bench.keys(ask(words), 1).await;
        found.sort();
        assert_eq!(found, wanted, "{words:?}");
    }
    assert_eq!(bench.store.integrity().await, Ok(()));
}
