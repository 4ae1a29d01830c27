//! Memory over values: once, with provenance, within quotas and scopes, at exact times.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicI64, Ordering},
};

use async_trait::async_trait;
use drawloom_contract::{
    caller::Proof,
    definition::MemoryScope,
    failure::Explain as _,
    ids::{Digest, RunId, RunKey, Tenant, UserId},
    journal::StoreError,
    limits::{Amount, Limit},
    time::Instant,
    tool::{Gates, Step, Tool, ToolError},
    values::{Kept, Within},
};
use drawloom_testkit::{Memory as FakeValues, definition};

mod times;

use super::{rules::Change, search::Terms, *};
use crate::VolumeTable;

const SECRET: &str = "hunter2-hunter2";

/// A search that finds what it is asked as often as it may be found: the store's own is tested with the store.
struct Mirror;

#[async_trait]
impl Search for Mirror {
    async fn search_memory(&self, asked: &Terms<'_>, now: Timestamp) -> Result<Vec<(ValueKey, Kept, i64)>, StoreError> {
        let hit = |number: usize| {
            let key = ValueKey {
                tenant: asked.tenant.clone(),
                space: drawloom_contract::values::MEMORY,
                owner: asked.owners[0].clone(),
                key: format!("k{number}"),
            };
            let value = entry::stored(json!(asked.terms[0].words), &Writer::default(), None);
            (key, Kept { value, revision: number as u64, at: now, expires_at: None }, 1_000_000)
        };
        Ok((0..asked.limit).map(hit).collect())
    }

    fn limit(&self, terms: &mut Vec<search::Term>) -> Option<usize> {
        terms.get(30).map(|_| 30)
    }
}

/// A clock that a test sets, in milliseconds.
#[derive(Default)]
struct SetClock(AtomicI64);

impl SetClock {
    fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for SetClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn now(&self) -> Instant {
        Instant::from_origin(std::time::Duration::ZERO)
    }

    async fn sleep_until(&self, _: Instant) {}
}

fn memory_with(config: MemoryConfig) -> Arc<Memory> {
    timed_memory(config, Arc::default())
}

fn timed_memory(config: MemoryConfig, clock: Arc<SetClock>) -> Arc<Memory> {
    Memory::new(MemoryParts {
        config,
        values: Arc::new(FakeValues::default()),
        search: Arc::new(Mirror),
        clock,
        redactor: Arc::new(Redactor::new([SECRET])),
    })
}

fn memory() -> Arc<Memory> {
    memory_with(MemoryConfig::default())
}

fn place(owner: Owner) -> Place {
    Place::new(Tenant::default_tenant(), owner)
}

fn ann() -> Owner {
    Owner::User("ann".parse().expect("a user"))
}

fn ask(change: Change) -> Ask {
    Ask { change, if_revision: None, ttl_seconds: None }
}

fn caller() -> Caller {
    Caller { subject: "ann".parse().expect("a user"), ..Caller::open(Proof::Open) }
}

/// A request without a key, or with this one.
fn by<'a>(caller: &'a Caller, key: Option<&str>) -> By<'a> {
    let key = key.map(|key| RequestKey {
        tenant: caller.tenant.clone(),
        subject: caller.subject.clone(),
        operation: "set_memory",
        key: Digest::of(key.as_bytes()),
        body: Digest::of(b"body"),
    });
    By::Request { caller, operation: "set_memory", key }
}

fn context(agent: &str, user: &str, run: u8, call: u64, scopes: &[MemoryScope]) -> ToolContext {
    let mut definition = definition(agent, "p", "m");
    definition.memory_scopes = scopes.to_vec();
    ToolContext {
        run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([run; 16]) },
        call,
        root: RunId::from_bytes([run / 10; 16]),
        user: user.parse().expect("a user"),
        depth: 0,
        definition: Arc::new(definition),
        hosts: Arc::new([]),
        volumes: Arc::new(VolumeTable::default()),
        redactor: Arc::new(Redactor::new([SECRET])),
        evidence: None,
        woken: None,
        progress: Arc::new(()),
        began: drawloom_contract::time::Timestamp::from_millis(0),
    }
}

#[tokio::test]
async fn no_update_is_lost_when_many_add_at_once() {
    let (memory, caller) = (memory(), caller());
    let adds = (0..64).map(|_| {
        let (memory, caller) = (memory.clone(), caller.clone());
        tokio::spawn(async move {
            let answer = memory.change(&place(ann()), "n", &ask(Change::Incr(1.into())), &by(&caller, None)).await;
            answer.expect("it is a number")["value"].as_u64().expect("a number")
        })
    });
    let answers: BTreeSet<u64> =
        futures::future::join_all(adds).await.into_iter().map(|answer| answer.expect("no panic")).collect();
    assert_eq!(answers, (1..=64).collect());
    assert_eq!(memory.get(&place(ann()), "n").await.expect("a store").expect("it is there").value, json!(64));
}

#[tokio::test]
async fn a_change_that_is_made_again_gets_its_first_answer_whatever_became_of_the_key() {
    let (memory, caller, here) = (memory(), caller(), place(ann()));
    let context = context("a", "ann", 11, 3, &[MemoryScope::User]);
    let incr = ask(Change::Incr(5.into()));
    let first = memory.change(&here, "n", &incr, &By::Call(&context)).await.expect("a number");
    assert_eq!((&first["value"], &first["revision"]), (&json!(5), &json!(1)));
    assert_eq!(memory.change(&here, "n", &incr, &By::Call(&context)).await, Ok(first.clone()));
    // The key is a text now, which could not be added to.
    memory.change(&here, "n", &ask(Change::Set(json!("text"))), &by(&caller, None)).await.expect("it is set");
    assert_eq!(memory.change(&here, "n", &incr, &By::Call(&context)).await, Ok(first));
    let set = ask(Change::Set(json!(1)));
    let once = memory.change(&here, "k", &set, &by(&caller, Some("key"))).await.expect("it is set");
    memory.change(&here, "k", &ask(Change::Delete), &by(&caller, None)).await.expect("it is removed");
    assert_eq!(memory.change(&here, "k", &set, &by(&caller, Some("key"))).await, Ok(once));
    assert_eq!(memory.get(&here, "k").await, Ok(None), "the repeat changed nothing");
    // A refusal is not kept: the same request may succeed later.
    let stale = Ask { if_revision: Some(99), ..set };
    let refused = memory.change(&here, "k", &stale, &by(&caller, Some("other"))).await.expect_err("another revision");
    assert_eq!(refused.code(), "stale");
    let absent = Ask { if_revision: Some(0), ..stale };
    assert!(memory.change(&here, "k", &absent, &by(&caller, Some("other"))).await.is_ok());
}

#[tokio::test]
async fn an_entry_says_who_wrote_it_and_what_it_replaced() {
    let (memory, caller, here) = (memory(), caller(), place(Owner::Tenant));
    let call = context("scribe", "bob", 12, 9, &[MemoryScope::Tenant]);
    memory.change(&here, "k", &ask(Change::Set(json!({"b": 1, "a": 2}))), &by(&caller, None)).await.expect("set");
    let first = memory.get(&here, "k").await.expect("a store").expect("it is there");
    assert_eq!(first.replaced, None);
    assert_eq!(first.writer.operation.as_deref(), Some("set_memory"));
    assert_eq!(first.writer.user_id, Some(caller.subject.clone()));
    memory.change(&here, "k", &ask(Change::Merge(json!({"a": 3}))), &By::Call(&call)).await.expect("merged");
    let second = memory.get(&here, "k").await.expect("a store").expect("it is there");
    let replaced = second.replaced.expect("it replaced something");
    assert_eq!((replaced.revision, replaced.digest), (first.revision, Digest::of(br#"{"a":2,"b":1}"#)));
    assert_eq!(
        (second.writer.run_id, second.writer.agent.as_ref().map(|name| name.as_str()), second.writer.call),
        (Some(call.run.run), Some("scribe"), Some(9))
    );
}

#[tokio::test]
async fn scopes_tenants_agents_users_and_trees_do_not_see_each_other() {
    let (memory, caller) = (memory(), caller());
    let other = Place::new("other".parse().expect("a tenant"), ann());
    let places = [
        place(ann()),
        place(Owner::User("bob".parse().expect("a user"))),
        place(Owner::Agent("ann".parse().expect("a name"))),
        place(Owner::Agent("bob".parse().expect("a name"))),
        place(Owner::Tenant),
        place(Owner::Run(RunId::from_bytes([1; 16]))),
        place(Owner::Run(RunId::from_bytes([2; 16]))),
        other,
    ];
    for (number, place) in places.iter().enumerate() {
        memory.change(place, "k", &ask(Change::Set(json!(number))), &by(&caller, None)).await.expect("set");
    }
    for (number, place) in places.iter().enumerate() {
        assert_eq!(memory.get(place, "k").await.expect("a store").expect("it is there").value, json!(number));
        let listed = memory.list(place, &ListAsked { limit: 10, ..ListAsked::default() }).await.expect("a store");
        assert_eq!(listed.entries.len(), 1);
    }
}

#[tokio::test]
async fn a_quota_is_checked_before_the_commit_and_what_is_over_does_not_count() {
    let clock = Arc::<SetClock>::default();
    let config = MemoryConfig { max_keys: 2, max_bytes: 1_024, ..MemoryConfig::default() };
    let memory = timed_memory(config, clock.clone());
    let (caller, here) = (caller(), place(ann()));
    let set = |key: &'static str, value: Value, ttl_seconds| {
        let (memory, caller, here) = (memory.clone(), caller.clone(), here.clone());
        async move {
            let ask = Ask { ttl_seconds, ..ask(Change::Set(value)) };
            memory.change(&here, key, &ask, &by(&caller, None)).await.map(drop).map_err(|error| error.code())
        }
    };
    assert_eq!(set("a", json!(1), Some(10)).await, Ok(()));
    assert_eq!(set("b", json!(1), None).await, Ok(()));
    assert_eq!(set("c", json!(1), None).await, Err("over_quota"));
    assert_eq!(set("b", json!("x".repeat(1_000)), None).await, Err("over_quota"));
    for change in [
        Change::AppendDedupe(json!("x".repeat(1_000))),
        Change::BoundedList { value: json!("x".repeat(1_000)), limit: 5 },
    ] {
        let refused = memory.change(&here, "a", &ask(change.clone()), &by(&caller, None)).await;
        assert!(refused.is_err(), "{change:?}");
    }
    let kept = memory.get(&here, "b").await.expect("a store").expect("it is there");
    assert_eq!(kept.value, json!(1), "nothing of a refused change is kept");
    clock.advance(10_000);
    assert_eq!(set("c", json!(1), None).await, Ok(()));
}

#[tokio::test]
async fn a_value_is_there_until_its_time_to_the_millisecond() {
    let clock = Arc::<SetClock>::default();
    let (memory, caller, here) = (timed_memory(MemoryConfig::default(), clock.clone()), caller(), place(ann()));
    let timed = Ask { ttl_seconds: Some(5), ..ask(Change::Set(json!(1))) };
    memory.change(&here, "k", &timed, &by(&caller, None)).await.expect("set");
    clock.advance(4_999);
    assert!(memory.get(&here, "k").await.expect("a store").is_some());
    clock.advance(1);
    assert_eq!(memory.get(&here, "k").await, Ok(None));
    assert!(
        memory.list(&here, &ListAsked { limit: 5, ..ListAsked::default() }).await.expect("a store").entries.is_empty()
    );
    let again = memory.change(&here, "k", &ask(Change::Incr(1.into())), &by(&caller, None)).await.expect("a new key");
    assert_eq!(again["value"], 1);
    assert_eq!(memory.get(&here, "k").await.expect("a store").expect("it is there").replaced, None);
}

#[tokio::test]
async fn keys_are_listed_page_by_page_within_bytes() {
    let (memory, caller, here) = (memory(), caller(), place(ann()));
    for number in 0..10 {
        let value = json!("x".repeat(100));
        let key = format!("p:{number}");
        memory.change(&here, &key, &ask(Change::Set(value)), &by(&caller, None)).await.expect("set");
    }
    memory.change(&here, "q", &ask(Change::Set(json!(1))), &by(&caller, None)).await.expect("set");
    let mut asked = ListAsked { prefix: "p:".into(), after: None, limit: 4, bytes: Some(350) };
    let mut keys = Vec::new();
    let mut pages = 0;
    loop {
        let page = memory.list(&here, &asked).await.expect("a store");
        keys.extend(page.entries.into_iter().map(|entry| entry.key));
        pages += 1;
        asked.after = page.next;
        if asked.after.is_none() {
            break;
        }
    }
    assert_eq!(keys, (0..10).map(|number| format!("p:{number}")).collect::<Vec<_>>());
    assert_eq!(pages, 4, "three entries have 350 bytes");
    let tiny = ListAsked { bytes: Some(1), after: None, ..asked };
    assert_eq!(memory.list(&here, &tiny).await.expect("a store").entries.len(), 1, "a page always goes on");
}

#[tokio::test]
async fn an_import_is_all_or_nothing_and_happens_once() {
    let memory = memory_with(MemoryConfig { max_keys: 3, ..MemoryConfig::default() });
    let (caller, here) = (caller(), place(ann()));
    let entry = |key: &str| NewEntry { key: key.into(), value: json!(key), expires_at: None };
    let over = Timestamp::from_millis(-1);
    let many = vec![entry("a"), entry("b"), entry("c"), entry("d")];
    assert_eq!(memory.import(&here, many, &by(&caller, Some("1"))).await.expect_err("too many").code(), "over_quota");
    assert_eq!(memory.list(&here, &ListAsked { limit: 9, ..ListAsked::default() }).await.expect("a store").entries, []);
    let few = vec![entry("a"), NewEntry { expires_at: Some(over), ..entry("old") }, entry("b")];
    let first = memory.import(&here, few.clone(), &by(&caller, Some("2"))).await;
    assert_eq!(first, Ok(json!({ "imported": 2, "expired": 1 })));
    memory.change(&here, "a", &ask(Change::Set(json!("newer"))), &by(&caller, None)).await.expect("set");
    assert_eq!(memory.import(&here, few, &by(&caller, Some("2"))).await, first);
    assert_eq!(memory.get(&here, "a").await.expect("a store").expect("it is there").value, json!("newer"));
    let twice = vec![entry("x"), entry("x")];
    assert_eq!(memory.import(&here, twice, &by(&caller, None)).await, Err(MemoryError::Twice("x".into())));
}

#[tokio::test]
async fn secrets_are_masked_in_values_and_refused_in_keys() {
    let (memory, caller, here) = (memory(), caller(), place(ann()));
    let value = json!({ "token": SECRET });
    let answer = memory.change(&here, "k", &ask(Change::Merge(value)), &by(&caller, None)).await.expect("merged");
    assert!(!answer.to_string().contains(SECRET), "{answer}");
    let kept = memory.get(&here, "k").await.expect("a store").expect("it is there");
    assert!(!kept.value.to_string().contains(SECRET));
    let key = format!("k:{SECRET}");
    let refused = memory.change(&here, &key, &ask(Change::Delete), &by(&caller, None)).await.expect_err("a secret");
    assert!(refused.code() == "bad_key" && !refused.to_string().contains(SECRET), "{refused}");
    for bad in ["", "a\nb", &"x".repeat(513)] {
        assert_eq!(memory.get(&here, bad).await.expect_err("a bad key").code(), "bad_key");
    }
}

#[tokio::test]
async fn a_watch_tells_what_is_there_then_changes_and_removals_of_its_place_alone() {
    let (memory, caller, here) = (memory(), caller(), place(ann()));
    let set = |here: Place, key: &'static str, change: Change| {
        let (memory, caller) = (memory.clone(), caller.clone());
        async move { memory.change(&here, key, &ask(change), &by(&caller, None)).await.expect("it is changed") }
    };
    set(here.clone(), "p:a", Change::Set(json!(1))).await;
    let mut told = memory.watch(&here, "p:", WatchFrom::Start);
    let mut keys = Vec::new();
    while keys.len() < 5 {
        if keys.len() == 2 {
            set(place(Owner::Tenant), "p:a", Change::Set(json!(2))).await;
            set(here.clone(), "q", Change::Set(json!(2))).await;
            // A watcher that is slow is told of the last change alone.
            set(here.clone(), "p:c", Change::Set(json!(1))).await;
            set(here.clone(), "p:c", Change::Set(json!(2))).await;
            set(here.clone(), "p:b", Change::Set(json!(3))).await;
            set(here.clone(), "p:a", Change::Delete).await;
        }
        keys.push(match told.next().await.expect("it goes on") {
            Told::Written(entry) => format!("{}={}", entry.key, entry.value),
            Told::Removed { key, .. } => format!("{key} removed"),
            Told::CaughtUp => "caught up".into(),
            Told::Gap => "gap".into(),
        });
    }
    assert_eq!(keys, ["p:a=1", "caught up", "p:c=2", "p:b=3", "p:a removed"]);
}

fn tool(memory: &Arc<Memory>) -> Arc<dyn Tool> {
    Arc::new(tool::MemoryTool(memory.clone()))
}

async fn say(tool: &Arc<dyn Tool>, context: &ToolContext, input: Value) -> Result<Value, ToolError> {
    match tool.call(context, input).await? {
        Step::Done(done) => Ok(serde_json::from_str(&done.text).expect("JSON")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_tool_reaches_only_what_its_gate_allows_and_derives_every_id() {
    let memory = memory();
    let tool = tool(&memory);
    let scopes = [MemoryScope::Agent, MemoryScope::User, MemoryScope::Run];
    let one = context("one", "ann", 11, 1, &scopes);
    say(&tool, &one, json!({"op": "set", "scope": "user", "key": "k", "value": null})).await.expect("set");
    let next = |context: &ToolContext, call| ToolContext { call, ..context.clone() };
    let got = say(&tool, &next(&one, 2), json!({"op": "get", "scope": "user", "key": "k"})).await.expect("got");
    assert_eq!((&got["value"], got["revision"].as_u64()), (&Value::Null, Some(1)), "null is a value");
    let denied = say(&tool, &one, json!({"op": "get", "scope": "tenant", "key": "k"})).await;
    assert!(matches!(&denied, Err(ToolError::Denied(text)) if text.contains("agent, user, run")), "{denied:?}");
    let missing = say(&tool, &one, json!({"op": "get", "key": "k"})).await;
    assert!(matches!(&missing, Err(ToolError::Invalid(text)) if text.contains("`scope` is missing")), "{missing:?}");
    // Another agent of the same user shares the user's; a child shares its root's; nobody shares the agent's.
    say(&tool, &next(&one, 3), json!({"op": "set", "scope": "run", "key": "r", "value": 1})).await.expect("set");
    say(&tool, &next(&one, 4), json!({"op": "set", "scope": "agent", "key": "a", "value": 1})).await.expect("set");
    let child = context("two", "ann", 12, 1, &scopes);
    let revision = |scope, key| json!({"op": "get", "scope": scope, "key": key});
    assert_eq!(say(&tool, &child, revision("user", "k")).await.expect("got")["revision"], 1);
    assert_eq!(say(&tool, &child, revision("run", "r")).await.expect("got")["value"], 1);
    assert_eq!(say(&tool, &child, revision("agent", "a")).await.expect("got")["revision"], 0);
    let stranger = context("one", "bob", 21, 1, &scopes);
    assert_eq!(say(&tool, &stranger, revision("user", "k")).await.expect("got")["revision"], 0);
    assert_eq!(say(&tool, &stranger, revision("run", "r")).await.expect("got")["revision"], 0);
    assert_eq!(say(&tool, &stranger, revision("agent", "a")).await.expect("got")["value"], 1);
}

#[tokio::test]
async fn the_tool_does_every_operation_once() {
    let memory = memory();
    let tool = tool(&memory);
    let at = |call| context("one", "ann", 11, call, &[MemoryScope::Tenant]);
    let mut call = 0;
    for (input, field, wanted) in [
        (json!({"op": "incr", "key": "n"}), "value", json!(1)),
        (json!({"op": "incr", "key": "n", "delta": 4, "scope": "global"}), "value", json!(5)),
        (json!({"op": "merge", "key": "o", "value": {"a": 1}}), "value", json!({"a": 1})),
        (json!({"op": "append_dedupe", "key": "l", "value": 1}), "appended", json!(true)),
        (json!({"op": "append_dedupe", "key": "l", "value": 1}), "appended", json!(false)),
        (json!({"op": "bounded_list", "key": "l", "value": 2, "limit": 1}), "dropped", json!(1)),
        (json!({"op": "set", "key": "s", "value": "x", "ttl": 5, "if_revision": 0}), "ok", json!(true)),
        (json!({"op": "delete", "key": "s"}), "deleted", json!(true)),
    ] {
        call += 1;
        let first = say(&tool, &at(call), input.clone()).await.expect("it is done");
        assert_eq!(first[field], wanted, "{input}");
        assert_eq!(say(&tool, &at(call), input.clone()).await, Ok(first), "{input} again");
    }
    let listed = say(&tool, &at(100), json!({"op": "list", "keys_only": true, "limit": 2})).await.expect("a list");
    assert_eq!(
        (&listed["entries"][0]["key"], &listed["next"], &listed["truncated"]),
        (&json!("l"), &json!("n"), &json!(true))
    );
    assert_eq!(listed["entries"][0].get("value"), None);
    let shown = json!({"op": "get", "key": "n", "include_provenance": true});
    let shown = say(&tool, &at(101), shown).await.expect("got");
    assert_eq!(
        (&shown["provenance"]["by"]["agent"], &shown["provenance"]["replaced"]["revision"]),
        (&json!("one"), &json!(1))
    );
    for bad in [
        json!({"op": "set", "key": "k"}),
        json!({"op": "set", "value": 1}),
        json!({"op": "bounded_list", "key": "k", "value": 1}),
        json!({"op": "search"}),
        json!({"op": "search", "query": "--"}),
        json!({"op": "nothing"}),
        json!({"op": "get", "key": "k", "keyy": 1}),
    ] {
        let refused = say(&tool, &at(102), bad.clone()).await;
        assert!(matches!(refused, Err(ToolError::Invalid(_))), "{bad}: {refused:?}");
    }
}

#[test]
fn the_card_names_the_scopes_and_an_empty_gate_withholds_the_tool() {
    let tool = tool(&memory());
    let card = tool.card();
    let gated = |scopes: &[MemoryScope]| {
        let mut definition = definition("a", "p", "m");
        definition.memory_scopes = scopes.to_vec();
        tool.card_for(&card, Gates { definition: &definition, hosts: &[] })
    };
    assert!(gated(&[]).is_err_and(|why| why.contains("(to allow it, write `memory_scopes: [user]`)")));
    let card = gated(&[MemoryScope::User, MemoryScope::Run]).expect("a card");
    assert_eq!(card.input_schema["properties"]["scope"]["enum"], json!(["user", "run"]));
    assert!(card.description.contains("- run: shared by all runs of this run's tree"), "{}", card.description);
}

#[test]
fn values_are_where_the_store_looks_for_a_trees_memory() {
    let root = RunId::from_bytes([3; 16]);
    let key = place(Owner::Run(root)).key("k");
    assert_eq!(key.owner, format!("run/{root}"), "retention of the store removes this owner");
    let range = place(Owner::User(UserId::default_user())).range("p");
    assert!(matches!(range.within, Within::Owner { owner, .. } if owner == "user/default"));
}

/// Crosses a limit, and returns what says so.
async fn cross(limit: &Limit) -> String {
    let most = match limit.default {
        Amount::Count(number) | Amount::Bytes(number) => usize::try_from(number).expect("a number that fits"),
        Amount::Off => 60,
        other => panic!("{} allows {other:?}", limit.name),
    };
    let small = MemoryConfig { max_keys: 2, max_ttl_seconds: Some(60), ..MemoryConfig::default() };
    let (memory, caller, here) = (memory_with(small), caller(), place(ann()));
    let set = async |key: &str, value: Value, ttl_seconds: Option<u64>| {
        let ask = Ask { ttl_seconds, ..ask(Change::Set(value)) };
        memory.change(&here, key, &ask, &by(&caller, None)).await.map_or_else(|error| error.code(), |_| "")
    };
    let tool = tool(&memory);
    let context = context("one", "ann", 11, 1, &[MemoryScope::User]);
    let said = async |input: Value| say(&tool, &context, input).await.expect("an answer");
    match limit.name {
        "memory_key_bytes" => set(&"k".repeat(most + 1), json!(1), None).await.into(),
        "memory_value_bytes" => set("k", json!("x".repeat(most)), None).await.into(),
        "memory_keys" => {
            for key in ["a", "b"] {
                assert_eq!(set(key, json!(1), None).await, "");
            }
            set("c", json!(1), None).await.into()
        }
        "memory_bytes" => {
            let memory = memory_with(MemoryConfig { max_value_bytes: 1_000_000, ..MemoryConfig::default() });
            let mut code = "";
            for number in 0..=most / 1_000_000 {
                let (key, value) = (format!("k{number}"), json!("x".repeat(999_000)));
                let set = memory.change(&here, &key, &ask(Change::Set(value)), &by(&caller, None)).await;
                code = set.map_or_else(|error| error.code(), |_| "");
            }
            code.into()
        }
        "memory_ttl" => set("k", json!(1), Some(most as u64 + 1)).await.into(),
        "memory_list_entries" => {
            let change = Change::BoundedList { value: json!(1), limit: most as u32 + 1 };
            let refused = memory.change(&here, "l", &ask(change), &by(&caller, None)).await;
            refused.expect_err("too many").code().into()
        }
        "memory_listed" => {
            let memory = memory_with(MemoryConfig::default());
            let entry = |number: usize| NewEntry { key: format!("k{number}"), value: json!(1), expires_at: None };
            for batch in (0..=most).collect::<Vec<_>>().chunks(MOST_IMPORTED) {
                let entries = batch.iter().copied().map(entry).collect();
                memory.import(&here, entries, &by(&caller, None)).await.expect("room");
            }
            let asked = ListAsked { limit: u32::MAX, ..ListAsked::default() };
            let listed = memory.list(&here, &asked).await.expect("a store");
            assert_eq!(listed.entries.len(), most);
            if listed.next.is_some() { "truncated".into() } else { String::new() }
        }
        "memory_hits" => {
            let answer = said(json!({"op": "search", "query": "word", "limit": 10_000})).await;
            assert_eq!(answer["entries"].as_array().map(Vec::len), Some(most));
            if answer["truncated"] == true { "truncated".into() } else { String::new() }
        }
        "memory_search_bytes" => {
            let answer = said(json!({"op": "search", "query": "x".repeat(most), "max_bytes": 10_000_000})).await;
            let shown = answer["entries"][0].as_object().expect("an entry");
            shown.keys().find(|key| key.as_str() == limit.code).cloned().unwrap_or_default()
        }
        "memory_imported" => {
            let entry = |number: usize| NewEntry { key: format!("k{number}"), value: json!(1), expires_at: None };
            let refused = memory.import(&here, (0..=most).map(entry).collect(), &by(&caller, None)).await;
            refused.expect_err("too many").code().into()
        }
        other => panic!("no test crosses the limit `{other}`: add one here"),
    }
}

#[tokio::test]
async fn every_limit_is_crossed_and_told() {
    for limit in LIMITS {
        assert_eq!(cross(limit).await, limit.code, "{}", limit.name);
    }
}

#[tokio::test]
async fn a_search_shows_values_within_its_bytes_and_says_what_it_left_out() {
    let memory = memory();
    let asked = Asked { query: "twelve-bytes".into(), prefix: String::new(), limit: 3, bytes: 30 };
    let hits = memory.search(&[place(ann()), place(Owner::Tenant)], &asked).await.expect("an index");
    let shown: Vec<(bool, u64)> = hits.hits.iter().map(|hit| (hit.omitted, hit.bytes)).collect();
    assert_eq!(shown, [(false, 14), (false, 14), (true, 14)]);
    assert!(hits.truncated && hits.fit == Fit::All);
    assert_eq!(hits.hits[2].entry.value, Value::Null);
    let long = Asked { query: "x ".repeat(31), ..asked.clone() };
    let hits = memory.search(&[place(ann())], &long).await.expect("an index");
    assert!(hits.warning.is_some_and(|warning| warning.contains("the first 30 words")));
    let long = Asked { query: "x ".repeat(33), ..asked };
    let refused = memory.search(&[place(ann())], &long).await.expect_err("33 words");
    assert_eq!((refused.code(), &refused), ("too_long", &MemoryError::TooManyWords(33)));
}

#[tokio::test]
async fn what_this_process_remembers_is_never_believed_against_the_store() {
    let values = Arc::new(FakeValues::default());
    let open = || {
        Memory::new(MemoryParts {
            config: MemoryConfig::default(),
            values: values.clone(),
            search: Arc::new(Mirror),
            clock: Arc::new(SetClock::default()),
            redactor: Arc::new(Redactor::new([SECRET])),
        })
    };
    // Two of them over one store: each is another process to the other.
    let (one, other, caller, here) = (open(), open(), caller(), place(ann()));
    let change =
        async |memory: &Memory, change: Change| memory.change(&here, "k", &ask(change), &by(&caller, None)).await;
    change(&one, Change::Set(json!("text"))).await.expect("set");
    change(&other, Change::Set(json!(5))).await.expect("set");
    // To the first it is still a text.
    assert_eq!(change(&one, Change::Incr(1.into())).await.expect("a number")["value"], 6);
    change(&other, Change::Incr(1.into())).await.expect("a number");
    assert_eq!(change(&one, Change::Incr(1.into())).await.expect("a number")["value"], 8, "no update is lost");
    change(&other, Change::Delete).await.expect("removed");
    assert_eq!(change(&one, Change::AppendDedupe(json!(1))).await.expect("a list")["appended"], true);
    change(&other, Change::Set(json!([2]))).await.expect("set");
    assert_eq!(change(&one, Change::AppendDedupe(json!(1))).await.expect("a list")["value"], json!([2, 1]));
    let stale = Ask { if_revision: Some(1), ..ask(Change::Set(json!(1))) };
    assert_eq!(one.change(&here, "k", &stale, &by(&caller, None)).await.expect_err("stale").code(), "stale");
}
