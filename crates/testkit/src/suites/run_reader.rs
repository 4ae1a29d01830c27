//! What [`RunReader`](drawloom_contract::journal::RunReader) promises of what a journal holds.

use std::sync::Arc;

use drawloom_contract::{
    caller::{Caller, Proof, Scope, Visible},
    costs::{CostBy, CostGroup, CostQuery},
    definition::Definition,
    ids::{Digest, RunId, RunKey, Tenant},
    journal::{Entry, Label, NewBatch, RunFilter},
    message::Segment,
    money::{Cost, Spent, TreeTotal},
    record::{Accepted, Body, Status},
    redact::Redactor,
    time::Timestamp,
    usage::Usage,
    view::RunView,
};

use super::{
    TestStore,
    records::{
        accepted, admitted, after, agent_id, batch_id, begin, child, completed, failed, key, member, note, numbers,
        run_id, session_id, switched, tenant, turn_done, usage,
    },
};

pub const SOURCE: &str = include_str!("run_reader.rs");

/// Runs every promise of the run reader against the backend that `$open` makes.
#[macro_export]
macro_rules! run_reader_suite {
    ($open:expr) => {
        $crate::suite_tests! { $open, run_reader,
            an_unknown_run_is_none_and_has_no_records
            a_read_sees_every_commit_that_was_answered
            a_row_can_be_read_without_its_text
            records_are_read_in_order_from_a_sequence_up_to_a_limit
            a_part_of_a_journal_has_so_many_bytes_but_at_least_one_record
            a_list_shows_what_its_filter_asks_for_newest_first
            pages_of_a_list_show_every_run_once
            a_list_has_no_texts
            an_agent_id_finds_its_live_run_or_else_the_newest
            children_are_listed_by_index_and_live_ones_apart
            a_tree_is_counted_and_its_spending_is_summed
            costs_are_summed_in_groups_of_what_is_visible
            the_records_of_a_tree_are_read_in_the_order_of_the_journal
            labels_have_the_prompt_and_tell_ids_apart
            a_batch_shows_its_runs_by_index
            one_tenant_sees_nothing_of_another
            a_user_who_sees_only_their_own_things_sees_no_part_of_others
            a_definition_is_found_under_the_digest_that_its_runs_carry
        }
    };
}

fn ours() -> Visible {
    Visible::whole(Tenant::default_tenant())
}

fn only_of(user: &str) -> Visible {
    let subject = user.parse().expect("a valid name");
    let scopes = vec![Scope::RunsRead];
    Caller { tenant: Tenant::default_tenant(), subject, scopes, proof: Proof::Principal }.visible()
}

fn of(user: &str, accepted: Accepted) -> Accepted {
    Accepted { user: user.parse().expect("a valid name"), ..accepted }
}

fn everything() -> RunFilter {
    RunFilter { limit: 100, ..RunFilter::default() }
}

impl TestStore {
    async fn list(&self, visible: &Visible, filter: &RunFilter) -> Vec<u64> {
        numbers(&self.reader.list_runs(visible, filter).await.expect("a readable store"))
    }

    async fn find_agent_id(&self, visible: &Visible, number: u64) -> Option<u64> {
        let found = self.reader.find_by_agent_id(visible, &agent_id(number)).await.expect("a readable store");
        found.map(|view| numbers(&[view])[0])
    }

    async fn batch(&self, visible: &Visible, number: u64) -> Option<Vec<u64>> {
        let found = self.reader.list_batch(visible, batch_id(number)).await.expect("a readable store");
        found.map(|views| numbers(&views))
    }

    async fn sees_session(&self, visible: &Visible, number: u64) -> bool {
        self.reader.sees_session(visible, session_id(number)).await.expect("a readable store")
    }

    /// Begins a batch of these runs, whose indexes their records say.
    async fn begin_batch(&self, number: u64, members: Vec<Accepted>) {
        let (batch, size) = (batch_id(number), u32::try_from(members.len()).expect("a few"));
        let user = "ada".parse().expect("a valid name");
        let new = NewBatch { tenant: Tenant::default_tenant(), batch, user, size };
        let runs = members.into_iter().map(|member| begin(member, [])).collect();
        self.commit(Entry { runs, batch: Some(new), ..Entry::empty(self.epoch) }).await.expect("a batch");
    }
}

pub async fn an_unknown_run_is_none_and_has_no_records(store: &TestStore) {
    assert_eq!(store.reader.find_run(&key(1)).await, Ok(None));
    assert_eq!(store.reader.find_run_without_text(&key(1)).await, Ok(None));
    assert_eq!(store.records(&key(1)).await, []);
    assert_eq!(store.reader.read_journal_part(&key(1), 0, 1_000).await, Ok(vec![]));
    assert_eq!(store.reader.list_children(&key(1), 1).await, Ok(vec![]));
    assert_eq!(store.reader.list_live_children(&key(1)).await, Ok(vec![]));
    assert_eq!(store.find_agent_id(&ours(), 1).await, None);
    assert_eq!(store.batch(&ours(), 1).await, None);
    assert!(!store.sees_session(&ours(), 1).await);
    assert_eq!(store.list(&ours(), &everything()).await, [0; 0]);
}

pub async fn a_read_sees_every_commit_that_was_answered(store: &TestStore) {
    store.append(begin(accepted(1), [admitted()])).await;
    for turn in 1..=100u32 {
        let text = format!("turn {turn}");
        store.append(after(key(1), u64::from(turn) + 1, [turn_done(turn, &text)])).await;
        assert_eq!(store.view(&key(1)).await.final_text, Some(text));
    }
}

pub async fn a_row_can_be_read_without_its_text(store: &TestStore) {
    store.append(begin(accepted(1), [admitted(), turn_done(1, "long"), usage(1, 3), completed()])).await;
    let whole = store.view(&key(1)).await;
    assert_eq!(whole.final_text.as_deref(), Some("long"));
    let without = store.reader.find_run_without_text(&key(1)).await;
    assert_eq!(without, Ok(Some(RunView { final_text: None, ..whole })));
}

pub async fn records_are_read_in_order_from_a_sequence_up_to_a_limit(store: &TestStore) {
    let notes = ["a", "b", "c", "d", "e", "f"].map(note);
    store.append(begin(accepted(1), notes)).await;
    let all = store.records(&key(1)).await;
    assert_eq!(all.iter().map(|record| record.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    for (after, limit, expected) in [(0, 2, &all[..2]), (2, 3, &all[2..5]), (6, 9, &all[6..]), (7, 9, &all[..0])] {
        let read = store.reader.read_journal(&key(1), after, limit).await;
        assert_eq!(read.as_deref(), Ok(expected), "{limit} after {after}");
    }
}

pub async fn a_part_of_a_journal_has_so_many_bytes_but_at_least_one_record(store: &TestStore) {
    let long = "x".repeat(10_000);
    store.append(begin(accepted(1), [note("a"), note(&long), note("b"), note("c")])).await;
    let all = store.records(&key(1)).await;
    let (mut read, mut parts) = (Vec::new(), Vec::new());
    loop {
        let after = read.len() as u64;
        let part = store.reader.read_journal_part(&key(1), after, 5_000).await.expect("a readable store");
        if part.is_empty() {
            break;
        }
        parts.push(part.len());
        read.extend(part);
    }
    assert_eq!(read, all);
    assert!(parts.len() > 1, "the long record does not fit in a part with the others: {parts:?}");
    let one = store.reader.read_journal_part(&key(1), 2, 1).await;
    assert_eq!(one.as_deref(), Ok(&all[2..3]), "the first one comes however long it is");
    let whole = store.reader.read_journal_part(&key(1), 0, 1_000_000).await;
    assert_eq!(whole, Ok(all));
}

/// Seven runs that differ in everything that a list can be asked for.
async fn fill(store: &TestStore) {
    store.append(begin(accepted(1), [admitted()])).await;
    store.append(begin(child(2, 1, 2, 0), [])).await;
    store.append(begin(child(3, 1, 2, 1), [admitted(), failed()])).await;
    store.append(begin(member(4, 1, 0), [completed()])).await;
    store.append(begin(of("grace", Accepted { session: session_id(4), ..accepted(5) }), [])).await;
    store.append(begin(Accepted { agent: "other".parse().expect("a valid name"), ..accepted(6) }, [])).await;
    store.append(begin(Accepted { tenant: tenant("theirs"), ..accepted(7) }, [])).await;
}

pub async fn a_list_shows_what_its_filter_asks_for_newest_first(store: &TestStore) {
    fill(store).await;
    let all = everything();
    let cases = [
        (all.clone(), vec![6, 5, 4, 3, 2, 1]),
        (RunFilter { limit: 2, ..all.clone() }, vec![6, 5]),
        (RunFilter { limit: 2, before: Some(run_id(5)), ..all.clone() }, vec![4, 3]),
        (RunFilter { user: "grace".parse().ok(), ..all.clone() }, vec![5]),
        (RunFilter { user: "nobody".parse().ok(), ..all.clone() }, vec![]),
        (RunFilter { agent: "team/worker".parse().ok(), ..all.clone() }, vec![5, 4, 3, 2, 1]),
        (RunFilter { status: vec![Status::Failed, Status::Completed], ..all.clone() }, vec![4, 3]),
        (RunFilter { status: vec![Status::Running], ..all.clone() }, vec![1]),
        (RunFilter { session: Some(session_id(4)), ..all.clone() }, vec![5, 4]),
        (RunFilter { batch: Some(batch_id(1)), ..all.clone() }, vec![4]),
        (RunFilter { parent: Some(run_id(1)), ..all.clone() }, vec![3, 2]),
        (RunFilter { ids: Some((run_id(2), run_id(4))), ..all.clone() }, vec![4, 3, 2]),
        (RunFilter { batches: Some((batch_id(1), batch_id(1))), ..all.clone() }, vec![4]),
        (RunFilter { batches: Some((batch_id(2), batch_id(9))), ..all.clone() }, vec![]),
        (RunFilter { roots: true, ..all.clone() }, vec![6, 5, 4, 1]),
        (RunFilter { roots: true, status: vec![Status::Running, Status::Queued], ..all.clone() }, vec![6, 5, 1]),
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
        assert_eq!(store.list(&ours(), &filter).await, expected, "{filter:?}");
    }
}

pub async fn pages_of_a_list_show_every_run_once(store: &TestStore) {
    for number in 1..=25 {
        store.append(begin(accepted(number), [])).await;
    }
    let (mut listed, mut before) = (Vec::new(), None);
    while listed.len() <= 25 {
        let page = store.list(&ours(), &RunFilter { before, limit: 7, ..RunFilter::default() }).await;
        let Some(last) = page.last() else { break };
        before = Some(run_id(*last));
        listed.extend(page);
    }
    assert_eq!(listed, (1..=25).rev().collect::<Vec<_>>());
}

pub async fn a_list_has_no_texts(store: &TestStore) {
    let texts = ["short".to_owned(), "long ".repeat(100_000)];
    for (number, text) in (1..).zip(&texts) {
        store.append(begin(accepted(number), [admitted(), turn_done(1, text), completed()])).await;
    }
    let listed = store.reader.list_runs(&ours(), &everything()).await.expect("a readable store");
    assert_eq!(numbers(&listed), [2, 1]);
    for (row, text) in listed.into_iter().rev().zip(texts) {
        let whole = store.view(&row.key()).await;
        assert_eq!(whole.final_text, Some(text));
        assert_eq!(row, RunView { final_text: None, ..whole });
    }
}

pub async fn an_agent_id_finds_its_live_run_or_else_the_newest(store: &TestStore) {
    let with_handle = |number| Accepted { agent_id: agent_id(1), ..accepted(number) };
    assert_eq!(store.find_agent_id(&ours(), 1).await, None);
    for (number, newest) in [(5, 5), (3, 5), (9, 9)] {
        store.append(begin(with_handle(number), [])).await;
        assert_eq!(store.find_agent_id(&ours(), 1).await, Some(number), "the live one");
        store.append(after(key(number), 1, [completed()])).await;
        assert_eq!(store.find_agent_id(&ours(), 1).await, Some(newest), "the newest one");
    }
}

pub async fn children_are_listed_by_index_and_live_ones_apart(store: &TestStore) {
    store.append(begin(accepted(1), [admitted()])).await;
    store.append(begin(child(3, 1, 2, 1), [admitted()])).await;
    store.append(begin(child(2, 1, 2, 0), [])).await;
    store.append(begin(child(4, 1, 3, 0), [])).await;
    store.append(after(key(3), 2, [completed()])).await;
    let of_call = async |call| numbers(&store.reader.list_children(&key(1), call).await.expect("a readable store"));
    assert_eq!((of_call(2).await, of_call(3).await, of_call(4).await), (vec![2, 3], vec![4], vec![]));
    let live = store.reader.list_live_children(&key(1)).await.expect("a readable store");
    assert_eq!(numbers(&live), [2, 4]);
}

pub async fn a_tree_is_counted_and_its_spending_is_summed(store: &TestStore) {
    store.append(begin(accepted(1), [admitted(), usage(1, 10)])).await;
    store.append(begin(child(3, 1, 2, 1), [usage(1, 100)])).await;
    store.append(begin(child(2, 1, 2, 0), [usage(1, 1_000)])).await;
    store.append(begin(child(4, 1, 3, 0), [])).await;
    let grandchild = Accepted { root: run_id(1), depth: 2, ..child(5, 2, 2, 0) };
    store.append(begin(grandchild, [usage(1, 10_000)])).await;
    store.append(begin(accepted(6), [usage(1, 77)])).await;
    let total = async |number| store.reader.tree_total(&key(number)).await.expect("a readable store");
    let spent = Spent { tokens: 11_110 + 4, cost: Cost(40) };
    assert_eq!(total(1).await, TreeTotal { spent, below: 4, failed: 0, assumed: None });
    let spent = Spent { tokens: 11_000 + 2, cost: Cost(20) };
    assert_eq!(total(2).await, TreeTotal { spent, below: 1, failed: 0, assumed: None }, "a run and what is below it");
    assert_eq!(store.reader.tree_size(&key(1)).await, Ok(5));
    assert_eq!(store.reader.tree_size(&key(6)).await, Ok(1));
    let spent = Spent { tokens: 78, cost: Cost(10) };
    assert_eq!(total(6).await, TreeTotal { spent, below: 0, failed: 0, assumed: None });
    // What is assumed or in doubt is marked, and runs that did not complete are counted.
    let assumed = Body::Usage { turn: 2, usage: Usage::default(), cost: Some(Cost(7)), assumed: true };
    store.append(after(key(4), 1, [admitted(), assumed, failed()])).await;
    store.append(after(key(3), 2, [completed()])).await;
    let (whole, row) = (total(1).await, store.view(&key(4)).await);
    assert_eq!((whole.failed, whole.assumed, whole.spent.cost), (1, Some(Cost(7)), Cost(47)));
    assert_eq!((row.assumed, row.cost, total(2).await.assumed), (Some(Cost(7)), Some(Cost(7)), None));
}

pub async fn costs_are_summed_in_groups_of_what_is_visible(store: &TestStore) {
    let reader = |accepted: Accepted| Accepted { agent: "reader".parse().expect("a name"), ..accepted };
    let assumed = Body::Usage { turn: 2, usage: Usage::default(), cost: Some(Cost(7)), assumed: true };
    store.append(begin(of("bob", accepted(1)), [usage(1, 10), usage(2, 10)])).await;
    store.append(begin(of("bob", child(2, 1, 2, 0)), [usage(1, 4), assumed])).await;
    store.append(begin(reader(of("ada", accepted(3))), [usage(1, 1_000), switched()])).await;
    store.append(begin(reader(of("default", accepted(4))), [])).await;
    let theirs = Accepted { tenant: tenant("theirs"), ..accepted(5) };
    store.append(begin(theirs, [usage(1, 99)])).await;
    let sums = async |visible: &Visible, query: CostQuery| {
        let groups = store.reader.sum_costs(visible, &query).await.expect("a readable store");
        let row = |group: CostGroup| (group.name, group.runs, group.tokens, group.cost.map(|Cost(cost)| cost));
        groups.into_iter().map(row).collect::<Vec<_>>()
    };
    let by = |by| CostQuery { by, ..CostQuery::default() };
    let agents = [("team/worker".to_owned(), 2, 22 + 5, Some(37)), ("reader".to_owned(), 2, 1_001, Some(10))];
    assert_eq!(sums(&ours(), by(CostBy::Agent)).await, agents);
    let users = [
        ("bob".to_owned(), 2, 27, Some(37)),
        ("ada".to_owned(), 1, 1_001, Some(10)),
        ("default".to_owned(), 1, 0, None),
    ];
    assert_eq!(sums(&ours(), by(CostBy::User)).await, users);
    let models = [("script/scripted".to_owned(), 3, 27, Some(37)), ("other/sibling".to_owned(), 1, 1_001, Some(10))];
    assert_eq!(sums(&ours(), by(CostBy::Model)).await, models);
    assert_eq!(sums(&only_of("bob"), by(CostBy::User)).await, users[..1]);
    let of_ada = CostQuery { user: Some("ada".parse().expect("a name")), ..by(CostBy::User) };
    assert_eq!(sums(&only_of("bob"), of_ada.clone()).await, []);
    assert_eq!(sums(&ours(), of_ada).await, users[1..2]);
    let days = sums(&ours(), by(CostBy::Day)).await;
    assert_eq!((days.len(), days[0].1), (1, 4));
    // The ids of these runs are of the year 1970.
    let since = CostQuery { since: Some(Timestamp::from_millis(1)), ..by(CostBy::Agent) };
    assert_eq!(sums(&ours(), since).await, []);
    let groups = store.reader.sum_costs(&ours(), &by(CostBy::Agent)).await.expect("a readable store");
    assert_eq!((groups[0].assumed, groups[1].assumed), (Some(Cost(7)), None));
    // No provider's count is too large to be added.
    store.append(after(key(1), 3, [usage(3, u64::MAX)])).await;
    store.append(after(key(2), 3, [usage(3, u64::MAX)])).await;
    let huge = sums(&ours(), by(CostBy::Agent)).await;
    assert!(huge[0].2 > 1 << 62 && huge[0].3.is_some(), "{huge:?}");
}

pub async fn the_records_of_a_tree_are_read_in_the_order_of_the_journal(store: &TestStore) {
    store.append(begin(accepted(1), [admitted()])).await;
    store.append(begin(accepted(9), [admitted()])).await;
    store.append(begin(child(2, 1, 2, 0), [])).await;
    store.append(after(key(1), 2, [usage(1, 1)])).await;
    store.append(after(key(9), 2, [usage(1, 1)])).await;
    store.append(after(key(2), 1, [admitted(), completed()])).await;
    let grandchild = Accepted { root: run_id(1), depth: 2, ..child(3, 2, 2, 0) };
    store.append(begin(grandchild, [])).await;
    let all = [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2), (2, 3), (3, 1)];
    // Whole, and one record at a time.
    for bytes in [usize::MAX, 1] {
        let (mut found, mut at, mut last) = (Vec::new(), 0, 0);
        loop {
            let (part, up_to) = store.reader.read_tree_part(&key(1), at, bytes).await.expect("a readable store");
            assert!(up_to >= at && part.iter().all(|placed| placed.position > at && placed.position <= up_to));
            at = up_to;
            if part.is_empty() {
                break;
            }
            assert!(bytes > 1 || part.len() == 1, "{part:?}");
            for placed in part {
                assert!(std::mem::replace(&mut last, placed.position) < placed.position, "positions increase");
                found.push((numbers(&[store.view(&key_of(placed.run)).await])[0], placed.it.seq));
            }
        }
        assert_eq!(found, all);
        // New records of others are passed over.
        let rest = store.reader.read_tree_part(&key(1), at, bytes).await;
        assert_eq!(rest, Ok((vec![], at)));
    }
    // From the middle.
    let (whole, _) = store.reader.read_tree_part(&key(1), 0, usize::MAX).await.expect("a readable store");
    let (rest, _) =
        store.reader.read_tree_part(&key(1), whole[3].position, usize::MAX).await.expect("a readable store");
    assert_eq!(rest, whole[4..]);
    let elsewhere = RunKey { tenant: tenant("theirs"), run: run_id(1) };
    assert_eq!(store.reader.read_tree_part(&elsewhere, 0, usize::MAX).await.map(|(part, _)| part), Ok(vec![]));
}

fn key_of(run: RunId) -> RunKey {
    RunKey { tenant: key(1).tenant, run }
}

pub async fn labels_have_the_prompt_and_tell_ids_apart(store: &TestStore) {
    let long = "é".repeat(20_000);
    let asks = |number, text: &str| Accepted { segments: vec![Segment::user(text)], ..accepted(number) };
    store.append(begin(asks(1, "read\nit"), [])).await;
    store.append(begin(asks(2, &long), [])).await;
    let runs = [run_id(1), run_id(2), run_id(7)];
    let labels = store.reader.label_runs(&key(1).tenant, &runs, 101).await.expect("a readable store");
    let prompts: Vec<&str> = labels.iter().map(|label| label.prompt.as_str()).collect();
    assert_eq!(prompts, ["read\nit", &long[..100], ""], "a character is never cut in two");
    for (label, run) in labels.iter().zip(&runs) {
        let digits = &run.to_string()[..2 + label.digits];
        let same = runs[..2].iter().filter(|other| *other != run && other.to_string().starts_with(digits)).count();
        assert_eq!(same, 0, "{digits}");
    }
    let whole = store.reader.label_runs(&key(1).tenant, &runs[1..2], usize::MAX >> 1).await.expect("a readable store");
    assert_eq!(whole[0].prompt, long);
    let theirs = store.reader.label_runs(&tenant("theirs"), &runs[..1], 10).await.expect("a readable store");
    assert_eq!(theirs, [Label { prompt: String::new(), digits: 0 }], "nothing of another tenant");
}

pub async fn a_batch_shows_its_runs_by_index(store: &TestStore) {
    // Given out of order: the index says where each belongs.
    store.begin_batch(1, vec![member(30, 1, 2), member(10, 1, 0), member(20, 1, 1)]).await;
    assert_eq!(store.batch(&ours(), 1).await, Some(vec![10, 20, 30]));
    assert_eq!(store.batch(&ours(), 2).await, None);
}

pub async fn one_tenant_sees_nothing_of_another(store: &TestStore) {
    store.append(begin(accepted(1), [admitted(), usage(1, 5)])).await;
    store.append(begin(child(2, 1, 2, 0), [])).await;
    store.begin_batch(1, vec![member(3, 1, 0)]).await;
    let theirs = Visible::whole(tenant("theirs"));
    let there = RunKey { tenant: tenant("theirs"), run: run_id(1) };
    assert_eq!(store.reader.find_run(&there).await, Ok(None));
    assert_eq!(store.reader.find_run_without_text(&there).await, Ok(None));
    assert_eq!(store.records(&there).await, []);
    assert_eq!(store.reader.read_journal_part(&there, 0, 1_000).await, Ok(vec![]));
    assert_eq!(store.reader.list_children(&there, 2).await, Ok(vec![]));
    assert_eq!(store.reader.list_live_children(&there).await, Ok(vec![]));
    assert_eq!(store.reader.tree_total(&there).await, Ok(TreeTotal::default()));
    assert_eq!(store.find_agent_id(&theirs, 1).await, None);
    assert_eq!(store.list(&theirs, &everything()).await, [0; 0]);
    assert_eq!(store.list(&theirs, &RunFilter { parent: Some(run_id(1)), ..everything() }).await, [0; 0]);
    assert_eq!(store.batch(&theirs, 1).await, None);
    assert!(!store.sees_session(&theirs, 1).await);
    // The same ids there are other things.
    store.append(begin(Accepted { tenant: tenant("theirs"), ..accepted(1) }, [note("theirs")])).await;
    let found = store.reader.find_by_agent_id(&theirs, &agent_id(1)).await.expect("a readable store");
    assert_eq!(found.map(|view| view.key()), Some(there));
    assert!(store.sees_session(&theirs, 1).await);
    assert_eq!(store.list(&theirs, &everything()).await, [1]);
    assert_eq!(store.view(&key(1)).await.seq, 3);
}

pub async fn a_user_who_sees_only_their_own_things_sees_no_part_of_others(store: &TestStore) {
    let (ada, grace) = (only_of("ada"), only_of("grace"));
    store.append(begin(of("ada", accepted(1)), [completed()])).await;
    store.append(begin(of("grace", Accepted { session: session_id(9), ..accepted(2) }), [])).await;
    // A session and a batch with runs of both.
    store.append(begin(of("grace", Accepted { session: session_id(1), ..accepted(3) }), [completed()])).await;
    store.begin_batch(1, vec![of("ada", member(4, 1, 0)), of("grace", member(5, 1, 1))]).await;
    store.begin_batch(2, vec![of("ada", member(6, 2, 0)), of("ada", member(7, 2, 1))]).await;

    assert_eq!(store.list(&ada, &everything()).await, [7, 6, 4, 1]);
    assert_eq!(store.list(&grace, &everything()).await, [5, 3, 2]);
    assert_eq!(store.list(&grace, &RunFilter { user: "ada".parse().ok(), ..everything() }).await, [0; 0]);
    assert_eq!(store.list(&grace, &RunFilter { session: Some(session_id(1)), ..everything() }).await, [3]);
    assert_eq!((store.find_agent_id(&ada, 1).await, store.find_agent_id(&grace, 1).await), (Some(1), None));
    assert_eq!((store.sees_session(&ada, 1).await, store.sees_session(&grace, 1).await), (false, false));
    assert_eq!((store.sees_session(&ada, 9).await, store.sees_session(&grace, 9).await), (false, true));
    assert_eq!((store.batch(&ada, 1).await, store.batch(&grace, 1).await), (None, None));
    assert_eq!((store.batch(&ada, 2).await, store.batch(&grace, 2).await), (Some(vec![6, 7]), None));
    assert_eq!(store.batch(&ours(), 1).await, Some(vec![4, 5]));
    assert!(store.sees_session(&ours(), 1).await);
}

pub async fn a_definition_is_found_under_the_digest_that_its_runs_carry(store: &TestStore) {
    let definition = |prompt: &str| Definition {
        system_prompt: prompt.into(),
        tools: vec!["Read".into()],
        ..crate::definition("team/worker", "script", "scripted")
    };
    let redactor = Redactor::new(["a-secret-of-ours"]);
    let original = definition("Say a-secret-of-ours.");
    let digest = original.digest();
    let entry = |epoch, number| Entry {
        definitions: vec![redactor.clean(Arc::new(original.clone()))],
        ..Entry::append(epoch, begin(Accepted { definition: digest, ..accepted(number) }, []))
    };
    for number in 1..=3 {
        store.commit(entry(store.epoch, number)).await.expect("a run that begins");
    }
    let next = (store.reopen)();
    next.commit(entry(next.epoch, 4)).await.expect("a known definition");
    for store in [store, &next] {
        let found = store.reader.find_definition(&Tenant::default_tenant(), &digest).await;
        assert_eq!(found, Ok(Some(definition("Say [redacted]."))));
        assert_eq!(store.reader.find_definition(&tenant("theirs"), &digest).await, Ok(None));
        assert_eq!(store.reader.find_definition(&Tenant::default_tenant(), &Digest::of(b"?")).await, Ok(None));
    }
}
