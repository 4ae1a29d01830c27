//! Random histories, beside a simple model of the rows.

use std::collections::{BTreeMap, BTreeSet};

use drawloom_contract::{
    ids::{RunId, RunKey, SessionId},
    journal::{Append, CommitError, Committed, Entry, RunReader as _},
    record::{Accepted, Body, Collect, Record, Seq, Status},
    view::{Patch, RunView},
    wait::{Cause, Wait, WaitChange},
};
use proptest::prelude::*;

use crate::fixtures::{
    Bench, accepted, admitted, after, agent_id, at, begin, child, completed, failed, parked, record, run_id,
    session_id, switched, tenant, turn_done, usage,
};

/// What the tables must say, in the plainest form.
#[derive(Debug, Clone, Default)]
struct Model {
    runs: BTreeMap<RunKey, (RunView, Vec<Record>)>,
    sessions: BTreeSet<(RunKey, SessionId)>,
    /// Children left, or a time.
    waits: BTreeMap<(RunKey, Seq), Option<u32>>,
    position: u64,
}

impl Model {
    fn commit(&mut self, entry: &Entry) -> Result<Committed, CommitError> {
        let mut next = self.clone();
        let mut candidates = Vec::new();
        for append in &entry.runs {
            next.append(append, &mut candidates)?;
        }
        for change in &entry.waits {
            next.change_wait(change);
        }
        let mut woken: Vec<RunKey> = Vec::new();
        for candidate in candidates {
            let is_parked = next.runs.get(&candidate).is_some_and(|(view, _)| view.status == Status::Waiting);
            if is_parked && next.is_free(&candidate) && !woken.contains(&candidate) {
                woken.push(candidate);
            }
        }
        *self = next;
        Ok(Committed { position: self.position, woken, ..Committed::default() })
    }

    fn is_free(&self, key: &RunKey) -> bool {
        let mut children = self.waits.iter().filter(|((run, _), left)| run == key && left.is_some()).peekable();
        children.peek().is_some() && children.all(|(_, left)| *left == Some(0))
    }

    fn append(&mut self, append: &Append, candidates: &mut Vec<RunKey>) -> Result<(), CommitError> {
        let records: Vec<Record> = append.records.iter().map(|record| (**record).clone()).collect();
        if let Body::Accepted(accepted) = &records[0].body {
            let mut view = RunView::accepted(accepted, records[0].at);
            if records.len() > 1 {
                view.apply(Patch::of(&records[1..]));
            }
            self.check(append, &view)?;
            self.sessions.insert((wall(&append.key), view.session));
            self.runs.insert(append.key.clone(), (view, records.clone()));
        } else {
            let found = self.runs.get(&append.key).map_or(0, |(view, _)| view.seq);
            if found != append.expected {
                return Err(CommitError::Conflict { run: append.key.run, expected: append.expected, found });
            }
            let (view, journal) = self.runs.get_mut(&append.key).expect("it has records");
            view.apply(Patch::of(&records));
            journal.extend(records.clone());
        }
        self.position += records.len() as u64;
        let (view, _) = &self.runs[&append.key];
        if view.status.is_terminal() {
            let parent = view.parent.clone();
            self.waits.retain(|(run, _), _| *run != append.key);
            if let Some(parent) = parent {
                let key = RunKey { tenant: append.key.tenant.clone(), run: parent.run };
                if let Some(Some(left @ 1..)) = self.waits.get_mut(&(key.clone(), parent.call)) {
                    *left -= 1;
                    candidates.push(key);
                }
            }
        }
        if matches!(records.last().expect("some records").body, Body::Parked { .. }) {
            candidates.push(append.key.clone());
        }
        Ok(())
    }

    fn check(&self, append: &Append, new: &RunView) -> Result<(), CommitError> {
        let live = |view: &&RunView| view.tenant == new.tenant && view.ended_at.is_none();
        let views = || self.runs.values().map(|(view, _)| view);
        if append.exclusive_session {
            if !self.sessions.contains(&(wall(&append.key), new.session)) {
                return Err(CommitError::UnknownSession(new.session));
            }
            let busy = |view: &&RunView| view.session == new.session && view.run != new.run;
            if let Some(other) = views().filter(live).find(busy) {
                return Err(CommitError::SessionBusy { session: new.session, run: other.run });
            }
        }
        if let Some((view, _)) = self.runs.get(&append.key) {
            return Err(CommitError::Conflict { run: new.run, expected: 0, found: view.seq });
        }
        let place = |view: &RunView| view.parent.as_ref().map(|parent| (parent.run, parent.call, parent.index));
        if let Some((parent, call, index)) = place(new)
            && views().any(|view| view.tenant == new.tenant && place(view) == place(new))
        {
            return Err(CommitError::ChildExists { parent, call, index });
        }
        // A run that ends in the entry that begins it never holds its handle.
        if new.ended_at.is_none()
            && let Some(other) = views().filter(live).find(|view| view.agent_id == new.agent_id)
        {
            return Err(CommitError::AgentIdInUse { agent_id: new.agent_id.clone(), run: other.run });
        }
        Ok(())
    }

    fn change_wait(&mut self, change: &WaitChange) {
        match change {
            WaitChange::Call { run, call, wait, .. } => {
                let Some((count, _)) = wait.children() else { return };
                let ended = |view: &RunView| {
                    view.tenant == run.tenant
                        && view.ended_at.is_some()
                        && view.parent.as_ref().is_some_and(|parent| (parent.run, parent.call) == (run.run, *call))
                };
                let ended = self.runs.values().filter(|(view, _)| ended(view)).count();
                let left = count.saturating_sub(u32::try_from(ended).expect("a few"));
                self.waits.insert((run.clone(), *call), Some(left));
            }
            WaitChange::Run { run, record, .. } => _ = self.waits.insert((run.clone(), *record), None),
            WaitChange::OneMore { run, call } => {
                if let Some(Some(left)) = self.waits.get_mut(&(run.clone(), *call)) {
                    *left += 1;
                }
            }
            WaitChange::End { run, call } => _ = self.waits.remove(&(run.clone(), *call)),
        }
    }

    /// Queued and running, ready, parked.
    fn unfinished(&self) -> (Vec<RunId>, Vec<RunId>, u64) {
        let (mut runs, mut ready, mut parked) = (Vec::new(), Vec::new(), 0);
        for (key, (view, _)) in self.runs.iter().filter(|(_, (view, _))| view.ended_at.is_none()) {
            if view.status != Status::Waiting {
                runs.push(key.run);
                continue;
            }
            parked += 1;
            if self.is_free(key) || self.waits.keys().all(|(run, _)| run != key) {
                ready.push(key.run);
            }
        }
        runs.sort_unstable();
        ready.sort_unstable();
        (runs, ready, parked)
    }
}

/// The tenant alone, as a key.
fn wall(key: &RunKey) -> RunKey {
    RunKey { tenant: key.tenant.clone(), run: run_id(0) }
}

/// One part of an entry; numbers are small, so that parts collide often.
#[derive(Debug, Clone)]
enum Part {
    Begin {
        run: u64,
        session: u64,
        handle: u64,
        parent: Option<(u64, u32)>,
        exclusive: bool,
        bodies: Vec<Body>,
    },
    /// After the record that is there, give or take.
    Append {
        run: u64,
        off: i64,
        bodies: Vec<Body>,
    },
    Children {
        run: u64,
        count: u32,
    },
    Until {
        run: u64,
    },
    Remove {
        run: u64,
    },
}

fn part() -> impl Strategy<Value = Part> {
    let run = || 1..7u64;
    let body = || {
        prop_oneof![
            Just(admitted()),
            Just(parked()),
            Just(turn_done(1, "text")),
            Just(switched()),
            (1..9u64).prop_map(|n| usage(1, n))
        ]
    };
    let end = || prop_oneof![4 => Just(None), 2 => Just(Some(completed())), 1 => Just(Some(failed()))];
    let bodies = move |least: usize| {
        (prop::collection::vec(body(), least..3), end()).prop_map(|(mut bodies, end)| {
            bodies.extend(end);
            bodies
        })
    };
    let parent = prop::option::of((run(), 0..2u32));
    prop_oneof![
        4 => (run(), 1..4u64, 1..7u64, parent, prop::bool::weighted(0.3), bodies(0)).prop_map(
            |(run, session, handle, parent, exclusive, bodies)|
                Part::Begin { run, session, handle, parent, exclusive, bodies }
        ),
        6 => (run(), prop_oneof![8 => Just(0i64), 1 => Just(1), 1 => Just(-1)], bodies(1))
            .prop_map(|(run, off, bodies)| Part::Append { run, off, bodies }),
        2 => (run(), 0..3u32).prop_map(|(run, count)| Part::Children { run, count }),
        1 => run().prop_map(|run| Part::Until { run }),
        1 => run().prop_map(|run| Part::Remove { run }),
    ]
}

/// The entry that these parts are, given what the model holds.
fn entry(epoch: u64, model: &Model, wall: &str, parts: &[Part]) -> Entry {
    let key = |run: u64| RunKey { tenant: tenant(wall), run: run_id(run) };
    let mut entry = Entry { runs: Vec::new(), ..Entry::append(epoch, begin(accepted(99), [])) };
    for part in parts {
        match part.clone() {
            Part::Begin { run, session, handle, parent, exclusive, bodies } => {
                let root = parent.map_or_else(|| accepted(run), |(parent, index)| child(run, parent, 1, index));
                let accepted =
                    Accepted { tenant: tenant(wall), session: session_id(session), agent_id: agent_id(handle), ..root };
                entry.runs.push(Append { exclusive_session: exclusive, ..begin(accepted, bodies) });
            }
            Part::Append { run, off, bodies } => {
                let known = model.runs.get(&key(run)).map(|(view, _)| view);
                // Nobody appends to a run that ended, or that was never there: other tests say what that gives.
                if let Some(view) = known.filter(|view| view.ended_at.is_none()) {
                    entry.runs.push(after(key(run), view.seq.saturating_add_signed(off).max(1), bodies));
                }
            }
            Part::Children { run, count } => {
                let wait = Wait::on(Cause::Children { count, collect: Collect::Many });
                entry.waits.push(WaitChange::Call { run: key(run), call: 1, wait, since: at(1) });
            }
            Part::Until { run } => {
                entry.waits.push(WaitChange::Run { run: key(run), record: 1, until: at(5), since: at(1) });
            }
            Part::Remove { run } => entry.waits.push(WaitChange::End { run: key(run), call: 1 }),
        }
    }
    entry
}

async fn play(history: Vec<(bool, Vec<Part>)>) {
    let bench = Bench::new();
    let mut model = Model::default();
    for (ours, parts) in history {
        let entry_again = || entry(bench.epoch, &model, if ours { "ours" } else { "theirs" }, &parts);
        let (entry, same) = (entry_again(), entry_again());
        if entry.runs.is_empty() {
            continue;
        }
        // Two appends to one run in one entry are no entry that anybody writes.
        let mut named = BTreeSet::new();
        if !entry.runs.iter().all(|append| named.insert(append.key.run)) {
            continue;
        }
        assert_eq!(bench.commit(same).await, model.commit(&entry), "{entry:?}");
    }
    for (key, (view, records)) in &model.runs {
        assert_eq!(bench.view(key).await, *view);
        assert_eq!(bench.records(key).await, *records);
        let numbered: Vec<Record> = (1..).zip(records).map(|(seq, other)| record(seq, other.body.clone())).collect();
        assert_eq!(*records, numbered, "the sequence has no gap");
    }
    let unfinished = bench.store.list_unfinished().await.expect("a readable store");
    let ids = |views: &[RunView]| {
        let mut ids: Vec<RunId> = views.iter().map(|view| view.run).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!((ids(&unfinished.runs), ids(&unfinished.ready), unfinished.parked), model.unfinished());
    assert_eq!(bench.store.integrity().await, Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_rows_are_what_the_records_make_them(
        history in prop::collection::vec((prop::bool::weighted(0.8), prop::collection::vec(part(), 1..4)), 1..40)
    ) {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(play(history));
    }
}
