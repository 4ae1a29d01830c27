//! Reads: lists, handles, trees and definitions.

use std::sync::Arc;

use drawloom_contract::{
    caller::Visible,
    definition::Definition,
    ids::{Digest, Tenant},
    journal::{Entry, RunFilter, RunReader as _},
    money::{Cost, Spent},
    record::{Accepted, Status},
    redact::Redactor,
    view::RunView,
};
use drawloom_store::Opened;

use crate::fixtures::{
    Bench, accepted, admitted, after, batch_id, begin, child, completed, failed, key, member, open, run_id, session_id,
    tenant, turn_done, usage,
};

fn ids(views: &[RunView]) -> Vec<u64> {
    let number = |view: &RunView| u128::from_be_bytes(*view.run.as_bytes()) as u64;
    views.iter().map(number).collect()
}

#[tokio::test]
async fn a_list_shows_what_its_filter_says_newest_first() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [admitted()])).await;
    bench.append(begin(child(2, 1, 2, 0), [])).await;
    bench.append(begin(child(3, 1, 2, 1), [admitted(), failed()])).await;
    bench.append(begin(member(4, 1, 0), [completed()])).await;
    let graces = Accepted { user: "grace".parse().expect("a valid name"), session: session_id(4), ..accepted(5) };
    bench.append(begin(graces, [])).await;
    let other_agent = Accepted { agent: "other".parse().expect("a valid name"), ..accepted(6) };
    bench.append(begin(other_agent, [])).await;
    bench.append(begin(Accepted { tenant: tenant("theirs"), ..accepted(7) }, [])).await;

    let all = RunFilter { limit: 100, ..RunFilter::default() };
    let cases = [
        (all.clone(), vec![6, 5, 4, 3, 2, 1]),
        (RunFilter { limit: 2, ..all.clone() }, vec![6, 5]),
        (RunFilter { limit: 2, before: Some(run_id(5)), ..all.clone() }, vec![4, 3]),
        (RunFilter { user: "grace".parse().ok(), ..all.clone() }, vec![5]),
        (RunFilter { agent: "team/worker".parse().ok(), ..all.clone() }, vec![5, 4, 3, 2, 1]),
        (RunFilter { status: vec![Status::Failed, Status::Completed], ..all.clone() }, vec![4, 3]),
        (RunFilter { session: Some(session_id(4)), ..all.clone() }, vec![5, 4]),
        (RunFilter { batch: Some(batch_id(1)), ..all.clone() }, vec![4]),
        (RunFilter { parent: Some(run_id(1)), ..all.clone() }, vec![3, 2]),
        (
            RunFilter {
                parent: Some(run_id(1)),
                status: vec![Status::Queued],
                user: "ada".parse().ok(),
                before: Some(run_id(3)),
                ..all.clone()
            },
            vec![2],
        ),
    ];
    for (filter, expected) in cases {
        let found =
            bench.store.list_runs(&Visible::whole(Tenant::default_tenant()), &filter).await.expect("a readable store");
        assert_eq!(ids(&found), expected, "{filter:?}");
    }
}

#[tokio::test]
async fn a_list_leaves_texts_where_they_are() {
    let bench = Bench::new();
    let texts = ["short".to_owned(), "long ".repeat(100_000)];
    for (number, text) in (1..).zip(&texts) {
        bench.append(begin(accepted(number), [admitted(), turn_done(1, text), completed()])).await;
    }
    let filter = RunFilter { limit: 100, ..RunFilter::default() };
    let listed =
        bench.store.list_runs(&Visible::whole(Tenant::default_tenant()), &filter).await.expect("a readable store");
    assert_eq!(ids(&listed), [2, 1]);
    for (row, text) in listed.into_iter().rev().zip(texts) {
        let whole = bench.view(&row.key()).await;
        assert_eq!((&row.final_text, &whole.final_text), (&None, &Some(text)));
        assert_eq!(RunView { final_text: None, ..whole }, row, "all else is there");
    }
}

#[tokio::test]
async fn a_handle_finds_its_live_run_or_else_the_newest() {
    let bench = Bench::new();
    let with_handle = |number| Accepted { agent_id: accepted(1).agent_id, ..accepted(number) };
    let Accepted { tenant, agent_id, .. } = accepted(1);
    let found = async || {
        let found = bench.store.find_by_agent_id(&Visible::whole(tenant.clone()), &agent_id).await;
        found.expect("a readable store").map(|view| ids(&[view]))
    };
    assert_eq!(found().await, None);
    for (number, newest) in [(5, 5), (3, 5), (9, 9)] {
        bench.append(begin(with_handle(number), [])).await;
        assert_eq!(found().await, Some(vec![number]), "the live one");
        bench.append(after(key(number), 1, [completed()])).await;
        assert_eq!(found().await, Some(vec![newest]), "the newest one");
    }
}

#[tokio::test]
async fn a_tree_is_listed_and_its_tokens_are_summed() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [admitted(), usage(1, 10)])).await;
    bench.append(begin(child(3, 1, 2, 1), [usage(1, 100)])).await;
    bench.append(begin(child(2, 1, 2, 0), [usage(1, 1_000)])).await;
    bench.append(begin(child(4, 1, 3, 0), [])).await;
    let grandchild = Accepted { root: run_id(1), depth: 2, ..child(5, 2, 2, 0) };
    bench.append(begin(grandchild, [usage(1, 10_000)])).await;
    bench.append(begin(accepted(6), [usage(1, 77)])).await;
    assert_eq!(bench.store.tree_spent(&key(1)).await, Ok(Spent { tokens: 11_110 + 4, cost: Cost(40) }));
    assert_eq!(bench.store.tree_size(&key(1)).await, Ok(5));
    assert_eq!(bench.store.tree_size(&key(6)).await, Ok(1));
    assert_eq!(bench.store.tree_spent(&key(6)).await, Ok(Spent { tokens: 78, cost: Cost(10) }));

    bench.append(after(key(3), 2, [completed()])).await;
    let children = bench.store.list_children(&key(1), 2).await.expect("a readable store");
    assert_eq!(ids(&children), [2, 3]);
    let live = bench.store.list_live_children(&key(1)).await.expect("a readable store");
    assert_eq!(ids(&live), [2, 4]);
}

#[tokio::test]
async fn a_definition_is_kept_under_the_digest_that_its_runs_carry() {
    let bench = Bench::new();
    let definition = |prompt: &str| Definition {
        system_prompt: prompt.into(),
        tools: vec!["Read".into()],
        ..Definition::new("team/worker".parse().expect("a valid name"), "script", "scripted")
    };
    let redactor = Redactor::new(["a-secret-of-ours"]);
    let original = definition("Say a-secret-of-ours.");
    let digest = original.digest();
    let entry = |epoch, number| Entry {
        definitions: vec![redactor.clean(Arc::new(original.clone()))],
        ..Entry::append(epoch, begin(Accepted { definition: digest, ..accepted(number) }, []))
    };
    for number in 1..=3 {
        bench.commit(entry(bench.epoch, number)).await.expect("a run that begins");
    }
    let found = bench.store.find_definition(&Tenant::default_tenant(), &digest).await;
    assert_eq!(found, Ok(Some(definition("Say [redacted]."))));
    assert_eq!(bench.store.find_definition(&tenant("theirs"), &digest).await, Ok(None));
    assert_eq!(bench.store.find_definition(&Tenant::default_tenant(), &Digest::of(b"?")).await, Ok(None));

    bench.store.close().await.expect("an orderly end");
    let Opened { store, epoch, .. } = open(&bench.directory);
    drawloom_contract::journal::Journal::commit(&*store, entry(epoch, 4)).await.expect("a known definition");
}

#[tokio::test]
async fn a_read_sees_every_commit_that_was_answered() {
    let bench = Bench::new();
    bench.append(begin(accepted(1), [admitted()])).await;
    for turn in 1..=100u32 {
        let text = format!("turn {turn}");
        bench.append(after(key(1), u64::from(turn) + 1, [turn_done(turn, &text)])).await;
        assert_eq!(bench.view(&key(1)).await.final_text, Some(text));
    }
}
