//! Random histories of values and logs, step by step beside the simplest model of each. A seed gives the same history each time;
//! what fails names its seed and step.

use std::{
    collections::{BTreeMap, HashMap},
    ops::RangeInclusive,
};

use drawloom_contract::{
    log::{Log, LogChange, LogKey, NewMessage, Page, Tail},
    once::Applied,
    time::Timestamp,
    values::{
        ChangeError, Expect, Kept, KeyValue, Present, Quota, Range, Seen, Space, ValueChange, ValueKey, WatchFrom,
        Within,
    },
};
use serde_json::{Value, json};

use super::{
    key_value::{new_value, once, told},
    log::message,
    records::{at, tenant},
};

/// The seeds that every backend runs.
pub const VALUE_SEEDS: RangeInclusive<u64> = 1..=8;
pub const LOG_SEEDS: RangeInclusive<u64> = 1..=8;

const STEPS: usize = 120;

/// Numbers by chance, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    fn roll(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize].clone()
    }

    /// A sequence near the head of a log, and sometimes far from it.
    fn place(&mut self, head: u64) -> u64 {
        let far = if self.roll(4) == 0 { 40 } else { 8 };
        (head + 2).saturating_sub(self.roll(far))
    }
}

/// Values as they must be; those whose time is over stay until they are replaced.
#[derive(Clone, Default)]
struct Values {
    kept: BTreeMap<ValueKey, Kept>,
    newest: u64,
}

fn is_live(kept: &Kept, now: Timestamp) -> bool {
    kept.expires_at.is_none_or(|time| time > now)
}

impl Values {
    fn live(&self, key: &ValueKey, now: Timestamp) -> Option<&Kept> {
        self.kept.get(key).filter(|kept| is_live(kept, now))
    }

    fn list(&self, range: &Range, after: Option<&ValueKey>, limit: usize, now: Timestamp) -> Vec<(ValueKey, Kept)> {
        let is_listed = |(key, kept): &(&ValueKey, &Kept)| {
            range.contains(key) && is_live(kept, now) && after.is_none_or(|after| *key > after)
        };
        let listed = self.kept.iter().filter(is_listed).take(limit);
        listed.map(|(key, kept)| (key.clone(), kept.clone())).collect()
    }

    /// Why a change is refused.
    fn refusal(&self, change: &ValueChange) -> Option<ChangeError> {
        let ValueChange { key, expect, to, at } = change;
        let found = self.live(key, *at).map(|kept| kept.revision);
        let is_expected = match expect {
            Expect::Anything => true,
            Expect::Absent => found.is_none(),
            Expect::Revision(revision) => found == Some(*revision),
        };
        if !is_expected {
            return Some(ChangeError::Stale { key: key.key.clone(), found });
        }
        let quota = to.as_ref()?.quota?;
        let of_owner =
            |other: &ValueKey| other.tenant == key.tenant && other.space == key.space && other.owner == key.owner;
        let mut sizes: HashMap<&str, u64> = self
            .kept
            .iter()
            .filter(|(other, kept)| of_owner(other) && is_live(kept, *at))
            .map(|(other, kept)| (other.key.as_str(), (other.key.len() + kept.value.to_string().len()) as u64))
            .collect();
        sizes.insert(&key.key, (key.key.len() + to.as_ref()?.value.to_string().len()) as u64);
        let (keys, bytes) = (sizes.len() as u64, sizes.values().sum());
        let is_over = keys > quota.keys || bytes > quota.bytes;
        is_over.then(|| ChangeError::OverQuota { owner: key.owner.clone(), keys, bytes, quota })
    }

    /// Makes a change that got this revision.
    fn make(&mut self, change: &ValueChange, revision: u64) {
        let was_live = self.live(&change.key, change.at).is_some();
        match &change.to {
            None if !was_live => assert_eq!(revision, 0, "the removal of nothing"),
            _ => {
                assert!(revision > self.newest, "revision {revision} after {}", self.newest);
                self.newest = revision;
            }
        }
        match &change.to {
            None => _ = self.kept.remove(&change.key),
            Some(new) => {
                let value = Value::clone(&new.value);
                let kept = Kept { value, revision, at: change.at, expires_at: new.expires_at };
                self.kept.insert(change.key.clone(), kept);
            }
        }
    }

    fn change(&self, dice: &mut Dice, space: &Space, now: Timestamp) -> ValueChange {
        let key = ValueKey {
            tenant: tenant(dice.pick(&["default", "theirs"])),
            space: space.clone(),
            owner: dice.pick(&["ada", "bob"]).into(),
            key: dice.pick(&["a", "a/b", "a/c", "b"]).into(),
        };
        let found = self.kept.get(&key).map_or(0, |kept| kept.revision);
        let expect = match dice.roll(6) {
            0..=2 => Expect::Anything,
            3 => Expect::Absent,
            // Mostly what is there.
            4 => Expect::Revision(found),
            _ => Expect::Revision(found.saturating_sub(dice.roll(3)).max(1)),
        };
        let value = json!("x".repeat(dice.roll(12) as usize));
        let expires_at =
            (dice.roll(3) == 0).then(|| at(now.as_millis() - at(0).as_millis() + 1 + dice.roll(20) as i64));
        let quota = (dice.roll(3) == 0).then(|| Quota { keys: 1 + dice.roll(4), bytes: 10 + dice.roll(40) });
        let to = if dice.roll(5) == 0 { None } else { new_value(value, expires_at, quota) };
        ValueChange { key, expect, to, at: now }
    }
}

fn range(dice: &mut Dice, space: &Space) -> Range {
    let within = match dice.roll(3) {
        0 => Within::Space,
        1 => Within::Tenant(tenant(dice.pick(&["default", "theirs"]))),
        _ => Within::Owner {
            tenant: tenant(dice.pick(&["default", "theirs"])),
            owner: dice.pick(&["ada", "bob"]).into(),
            prefix: dice.pick(&["", "a", "a/", "c"]).into(),
        },
    };
    Range { space: space.clone(), within }
}

/// Changes, finds, lists and repeats, with a watch over all of it.
pub async fn of_values(values: &dyn KeyValue, seed: u64) {
    let (mut dice, mut model) = (Dice::new(seed), Values::default());
    let space = Space::named(format!("history_{seed}"));
    let mut watch = values.watch(&Range { space: space.clone(), within: Within::Space }, WatchFrom::Start);
    let mut answered: Vec<(String, Applied<Vec<u64>>)> = Vec::new();
    let mut now = 0;
    for step in 0..STEPS {
        let here = format!("seed {seed}, step {step}");
        now += dice.roll(4) as i64;
        let count = if dice.roll(4) == 0 { 2 + dice.roll(2) } else { 1 };
        let changes: Vec<ValueChange> = (0..count).map(|_| model.change(&mut dice, &space, at(now))).collect();
        let name = format!("{seed}/{step}");
        let keyed = dice.roll(3) == 0;
        let request = if keyed { once(&name, "body", json!(step)) } else { None };
        let outcome = values.change(changes.clone(), request).await;
        // Each change sees those before it in its entry.
        let mut next = model.clone();
        let mut refused = None;
        for (index, change) in changes.iter().enumerate() {
            refused = next.refusal(change);
            if refused.is_some() {
                break;
            }
            let revision = outcome.as_ref().map_or(next.newest + 1, |applied| applied.result[index]);
            let is_nothing = change.to.is_none() && next.live(&change.key, change.at).is_none();
            next.make(change, if outcome.is_err() && is_nothing { 0 } else { revision });
        }
        match (outcome, refused) {
            (Ok(applied), None) => {
                assert_eq!((applied.result.len(), applied.repeated), (changes.len(), false), "{here}: {changes:?}");
                model = next;
                if keyed {
                    answered.push((name, applied));
                }
            }
            (outcome, refused) => assert_eq!(outcome.err(), refused, "{here}: {changes:?}"),
        }
        if !answered.is_empty() && dice.roll(4) == 0 {
            let (name, first) = dice.pick(&answered);
            let again = values.change(changes.clone(), once(&name, "body", Value::Null)).await.expect("a repeat");
            assert_eq!(again, Applied { repeated: true, ..first }, "{here}");
            let other = values.change(changes.clone(), once(&name, "other", Value::Null)).await;
            assert_eq!(other, Err(ChangeError::KeyReused), "{here}");
        }
        for change in &changes {
            let found = values.find_value(&change.key, at(now)).await.expect("a readable store");
            assert_eq!(found.as_ref(), model.live(&change.key, at(now)), "{here}: {:?}", change.key);
        }
        let (range, limit) = (range(&mut dice, &space), 1 + dice.roll(6) as u32);
        let after = (dice.roll(2) == 0).then(|| changes[0].key.clone());
        let listed = values.list_values(&range, after.as_ref(), limit, at(now)).await;
        let expected = model.list(&range, after.as_ref(), limit as usize, at(now));
        assert_eq!(listed, Ok(expected), "{here}: {limit} of {range:?} after {after:?}");
    }
    let last = ValueKey { tenant: tenant("zzz"), space: space.clone(), owner: String::new(), key: "last".into() };
    let change =
        ValueChange { key: last.clone(), expect: Expect::Absent, to: new_value(json!(0), None, None), at: at(now) };
    let end = values.change(vec![change], None).await.expect("a change").result[0];
    let mut seen: HashMap<ValueKey, (u64, Option<Present>)> = HashMap::new();
    loop {
        match told(&mut watch).await {
            Seen::Is { key, revision, .. } if key == last && revision == end => break,
            Seen::Is { key, revision, present } => {
                let before = seen.insert(key.clone(), (revision, present));
                assert!(
                    before.is_none_or(|(before, _)| before < revision),
                    "seed {seed}: {key:?} was told out of order"
                );
            }
            Seen::CaughtUp => {}
            Seen::Gap => panic!("seed {seed}: the watch missed something, and little happened"),
        }
    }
    // The newest of each key was told; what was over when it was removed is not told of again.
    for (key, kept) in model.kept.iter().filter(|(_, kept)| is_live(kept, at(now))) {
        let present = Present { expires_at: kept.expires_at };
        assert_eq!(seen.get(key), Some(&(kept.revision, Some(present))), "seed {seed}: {key:?}");
    }
    for (key, (_, present)) in seen.iter().filter(|(key, _)| model.live(key, at(now)).is_none()) {
        let is_over = |present: &Present| present.expires_at.is_some_and(|time| time <= at(now));
        assert!(present.as_ref().is_none_or(is_over), "seed {seed}: {key:?} was removed: {present:?}");
    }
}

/// A log as it must be: its messages by sequence.
#[derive(Clone, Default)]
struct Messages {
    kept: BTreeMap<u64, (String, Value)>,
    head: u64,
}

impl Messages {
    /// Appends messages that got these sequences; says how many were new and how many old ones went.
    fn append(&mut self, messages: &[NewMessage], sequences: &[u64], since: u64, keep: Option<u64>) -> (u64, u64) {
        let mut added = 0;
        for (message, sequence) in messages.iter().zip(sequences) {
            let known = self.kept.iter().find(|(known, (id, _))| **known > since && *id == message.id);
            if let Some((known, _)) = known {
                assert_eq!(sequence, known, "{} is there already", message.id);
                continue;
            }
            assert!(*sequence > self.head, "sequence {sequence} after {}", self.head);
            self.head = *sequence;
            self.kept.insert(*sequence, (message.id.clone(), Value::clone(&message.body)));
            added += 1;
        }
        let surplus = keep.map_or(0, |most| (self.kept.len() as u64).saturating_sub(most));
        for _ in 0..surplus {
            self.kept.pop_first();
        }
        (added, surplus)
    }

    fn trim(&mut self, up_to: u64) -> u64 {
        let before = self.kept.len();
        self.kept.retain(|sequence, _| *sequence > up_to);
        (before - self.kept.len()) as u64
    }

    /// The page as it must be, without times.
    fn page(&self, after: u64, limit: usize) -> (Vec<(u64, String, Value)>, u64, u64) {
        let messages = self.kept.iter().filter(|(sequence, _)| **sequence > after).take(limit);
        let messages = messages.map(|(sequence, (id, body))| (*sequence, id.clone(), body.clone())).collect();
        let first = self.kept.first_key_value().map_or(self.head + 1, |(sequence, _)| *sequence);
        (messages, first, self.head)
    }
}

/// Appends, repeats of ids and keys, caps, trims and reads, with a tail over all of it.
pub async fn of_logs(log: &dyn Log, seed: u64) {
    let mut dice = Dice::new(seed);
    let space = Space::named(format!("history_{seed}"));
    let key = |name: &str| LogKey { tenant: tenant("default"), space: space.clone(), name: name.into() };
    let keys = [key("a"), key("b"), LogKey { tenant: tenant("theirs"), ..key("a") }];
    let mut models: HashMap<LogKey, Messages> = HashMap::new();
    let mut tail = log.tail(&space);
    let mut answered: Vec<(String, LogKey, _)> = Vec::new();
    for step in 0..STEPS {
        let here = format!("seed {seed}, step {step}");
        let key = dice.pick(&keys);
        let model = models.entry(key.clone()).or_default();
        let change = if dice.roll(6) == 0 {
            LogChange::Trim { log: key.clone(), up_to: dice.place(model.head) }
        } else {
            let count = 1 + dice.roll(3);
            let messages = (0..count).map(|_| message(&format!("m{}", dice.roll(30)), json!(step))).collect();
            let since = if dice.roll(2) == 0 { 0 } else { dice.place(model.head) };
            let keep = (dice.roll(4) == 0).then(|| 1 + dice.roll(10));
            LogChange::Append { log: key.clone(), messages, since, keep }
        };
        let name = format!("log {seed}/{step}");
        let keyed = dice.roll(3) == 0;
        let request = if keyed { once(&name, "body", json!(step)) } else { None };
        let applied = log.change_log(change.clone(), request).await.unwrap_or_else(|error| panic!("{here}: {error}"));
        let changed = &applied.result;
        let (added, dropped) = match &change {
            LogChange::Append { messages, since, keep, .. } => {
                assert_eq!(changed.sequences.len(), messages.len(), "{here}: {change:?}");
                model.append(messages, &changed.sequences, *since, *keep)
            }
            LogChange::Trim { up_to, .. } => (0, model.trim(*up_to)),
        };
        assert_eq!((changed.added, changed.dropped, changed.head), (added, dropped, model.head), "{here}: {change:?}");
        if keyed {
            answered.push((name, key.clone(), applied));
        }
        if !answered.is_empty() && dice.roll(4) == 0 {
            let (name, _, first) = dice.pick(&answered);
            let again = log.change_log(change.clone(), once(&name, "body", Value::Null)).await.expect("a repeat");
            assert_eq!(again, Applied { repeated: true, ..first }, "{here}");
        }
        let (after, limit) = (dice.place(model.head), 1 + dice.roll(6) as u32);
        let Page { messages, first, head } = log.read_log(&key, after, limit).await.expect("a readable store");
        let messages = messages.into_iter().map(|message| (message.sequence, message.id, message.body)).collect();
        assert_eq!((messages, first, head), model.page(after, limit as usize), "{here}: {limit} after {after}");
        assert_eq!(log.head(&key).await, Ok(model.head), "{here}");
    }
    let last = key("last");
    let messages = vec![message("last", Value::Null)];
    let change = LogChange::Append { log: last.clone(), messages, since: 0, keep: None };
    log.change_log(change, None).await.expect("a change");
    let mut heads: HashMap<LogKey, u64> = HashMap::new();
    loop {
        match told(&mut tail).await {
            Tail::Grew { log, .. } if log == last => break,
            Tail::Grew { log, head } => {
                let before = heads.insert(log.clone(), head);
                assert!(before.is_none_or(|before| before < head), "seed {seed}: {log:?} was told out of order");
            }
            Tail::Gap => panic!("seed {seed}: the tail missed something, and little happened"),
        }
    }
    for (key, model) in models.iter().filter(|(_, model)| model.head > 0) {
        assert_eq!(heads.get(key), Some(&model.head), "seed {seed}: {key:?}");
    }
}
