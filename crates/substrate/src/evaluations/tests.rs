//! Evaluations over values: once, by tag, within gates, tenants and limits; listed and summed.

mod lineage;

use std::{
    collections::BTreeMap,
    sync::{Mutex, atomic::AtomicU8, atomic::Ordering},
};

use drawloom_contract::{
    caller::{Proof, Scope},
    failure::Explain as _,
    ids::{AgentName, Digest},
    limits::{Amount, Limit},
    record::Accepted,
    time::{Instant, NoEntropy},
    tool::{Gates, Step, Tool as _, ToolError},
};
use drawloom_testkit::{
    Memory as FakeValues, definition,
    suites::records::{accepted, child, run_id},
};

use super::{record::Identity, tool::EvaluationTool, *};
use crate::VolumeTable;

const SECRET: &str = "hunter2-hunter2";

/// A clock that a test sets, in milliseconds.
#[derive(Default)]
struct SetClock(Mutex<i64>);

#[async_trait]
impl Clock for SetClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(*self.0.lock().expect("no panic"))
    }

    fn now(&self) -> Instant {
        Instant::from_origin(std::time::Duration::ZERO)
    }

    async fn sleep_until(&self, _: Instant) {}
}

struct Counting(AtomicU8);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        bytes.fill(self.0.fetch_add(1, Ordering::SeqCst));
        Ok(())
    }
}

struct Rows(BTreeMap<RunId, RunView>);

#[async_trait]
impl RunRows for Rows {
    async fn find_row(&self, key: &RunKey) -> Result<Option<RunView>, StoreError> {
        Ok(self.0.get(&key.run).filter(|view| view.tenant == key.tenant).cloned())
    }
}

/// Definition `2` was made from `1`, and `1` from `0`.
struct Versions;

fn digest(number: u8) -> Digest {
    Digest::of(&[number])
}

#[async_trait]
impl Lineage for Versions {
    fn current(&self, _: &Tenant, _: &AgentName) -> Option<(Digest, Option<String>)> {
        None
    }

    async fn version(&self, _: &Tenant, definition: &Digest) -> Result<Option<String>, StoreError> {
        Ok((0..3).find(|number| digest(*number) == *definition).map(|number| format!("a@{number}")))
    }

    fn is_version(&self, _: &Tenant, version: &str) -> bool {
        version == "a@5" || version == "a@config"
    }

    fn parent(&self, _: &Tenant, version: &str) -> Option<String> {
        let number = (0..3_u32).find(|number| version == format!("a@{number}"))?;
        Some(number.checked_sub(1).map_or("base@config".into(), |parent| format!("a@{parent}")))
    }

    fn names(&self, _: &Tenant) -> Vec<String> {
        vec!["a".into(), "base".into()]
    }

    async fn parents(&self, _: &Tenant, version: &str) -> Result<Vec<String>, StoreError> {
        let own = (0..3).find(|number| version == format!("a@{number}"));
        let numbers = own.into_iter().flat_map(|own| (0..own).rev()).map(|number| format!("a@{number}"));
        Ok(numbers.chain(own.map(|_| "base@config".to_owned())).collect())
    }
}

struct Case {
    evaluations: Arc<Evaluations>,
    values: Arc<FakeValues>,
    clock: Arc<SetClock>,
}

/// Runs 1 (root) with children 2 and 3, 4 below 2; 5 is another root of the tenant, 6 one of another tenant, 7 to 9 pin the versions
/// 0 to 2 of one agent and belong to bob, 10 pins the agent `base` of the config, from which version 0 was made.
fn rows() -> Rows {
    let deeper = Accepted { root: run_id(1), depth: 2, ..child(4, 2, 1, 0) };
    let foreign = Accepted { tenant: "other".parse().expect("a tenant"), ..accepted(6) };
    let version = |number: u64| Accepted {
        definition: digest(u8::try_from(number - 7).expect("small")),
        agent: "a".parse().expect("a name"),
        user: "bob".parse().expect("a user"),
        ..accepted(number)
    };
    let base = Accepted { definition: Digest::of(b"base"), agent: "base".parse().expect("a name"), ..accepted(10) };
    let all = [
        base,
        accepted(1),
        child(2, 1, 1, 0),
        child(3, 1, 1, 1),
        deeper,
        accepted(5),
        foreign,
        version(7),
        version(8),
        version(9),
    ];
    let rows = all.iter().map(|accepted| (accepted.run, RunView::accepted(accepted, Timestamp::from_millis(0))));
    Rows(rows.collect())
}

impl Case {
    fn new() -> Self {
        let (values, clock) = (Arc::<FakeValues>::default(), Arc::<SetClock>::default());
        let evaluations = Evaluations::new(EvaluationParts {
            values: values.clone(),
            runs: Arc::new(rows()),
            lineage: Arc::new(Versions),
            clock: clock.clone(),
            entropy: Arc::new(Counting(AtomicU8::new(1))),
            redactor: Arc::new(Redactor::new([SECRET])),
        });
        Self { evaluations, values, clock }
    }

    fn at(&self, millis: i64) {
        *self.clock.0.lock().expect("no panic") = millis;
    }

    /// A call of an agent with these scopes.
    async fn call(&self, run: u64, call: u64, scopes: &[&str], input: Value) -> Result<Value, ToolError> {
        let tool = EvaluationTool(self.evaluations.clone());
        match tool.call(&context(run, call, scopes), input).await? {
            Step::Done(result) => Ok(serde_json::from_str(&result.text).expect("JSON")),
            other => panic!("{other:?}"),
        }
    }

    async fn submit(
        &self,
        caller: &Caller,
        key: Option<&str>,
        run: u64,
        asked: Submission,
    ) -> Result<Value, EvaluationError> {
        let key = key.map(|key| RequestKey {
            tenant: caller.tenant.clone(),
            subject: caller.subject.clone(),
            operation: "submit_evaluation",
            key: Digest::of(key.as_bytes()),
            body: Digest::of(b"body"),
        });
        let run = self.evaluations.load_run(&caller.tenant, run_id(run)).await?;
        self.evaluations.submit(&By::Request { caller, key }, &run, asked).await
    }

    /// Puts values into what an owner lists, as if others had.
    async fn fill(&self, owner: &Owner, count: usize, value: &Value) {
        let put = |number| {
            let key = owner.listed(&Tenant::default_tenant(), &format!("{number:016x}/filler"));
            ValueChange::put(key, Redactor::new([SECRET]).clean(value.clone()), Timestamp::from_millis(0), None)
        };
        self.values.change((0..count).map(put).collect(), None).await.expect("kept");
    }

    async fn list(&self, run: u64, asked: ListAsked) -> Listed {
        let visible = Visible::whole(Tenant::default_tenant());
        self.evaluations.list_for_run(&visible, run_id(run), &asked).await.expect("a list")
    }
}

fn context(run: u64, call: u64, scopes: &[&str]) -> ToolContext {
    let mut definition = definition("judge", "p", "m");
    let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    definition.gates.insert(EVALUATION_SCOPES.to_owned(), scopes);
    ToolContext {
        run: RunKey { tenant: Tenant::default_tenant(), run: run_id(run) },
        call,
        root: run_id(run),
        user: "ada".parse().expect("a user"),
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

fn ann() -> Caller {
    Caller { subject: "ann".parse().expect("a user"), ..Caller::open(Proof::Open) }
}

fn scored(score: f64) -> Submission {
    Submission { score, dimensions: BTreeMap::new(), judgement: None, rationale: None, tag: None }
}

fn tagged(score: f64, tag: &str) -> Submission {
    Submission { tag: Some(tag.into()), ..scored(score) }
}

fn all() -> ListAsked {
    ListAsked { limit: 200, ..ListAsked::default() }
}

fn scores(listed: &Listed) -> Vec<f64> {
    listed.evaluations.iter().map(|evaluation| evaluation.score).collect()
}

fn submit(run: u64, score: f64, tag: Option<&str>) -> Value {
    json!({ "op": "submit", "run_id": run_id(run), "score": score, "tag": tag })
}

#[tokio::test]
async fn the_same_tag_is_the_same_evaluation_and_other_content_its_next_revision() {
    let case = Case::new();
    let any = &["submit_any", "read_any"];
    let first = case.call(5, 1, any, submit(1, 0.9, Some("hop1"))).await.expect("submitted");
    assert_eq!(
        (&first["revision"], &first["unchanged"], &first["emitter_role"]),
        (&json!(1), &json!(false), &json!("unrelated"))
    );
    case.at(10);
    let same = case.call(5, 2, any, submit(1, 0.9, Some("hop1"))).await.expect("submitted");
    assert_eq!(
        (&same["eval_id"], &same["unchanged"], &same["created_at"]),
        (&first["eval_id"], &json!(true), &first["created_at"])
    );
    let other = case.call(5, 3, any, submit(1, 0.4, Some("hop1"))).await.expect("submitted");
    assert_eq!(
        (&other["eval_id"], &other["revision"], &other["replaced"]["score"]),
        (&first["eval_id"], &json!(2), &json!(0.9))
    );
    let another = case.call(5, 4, any, submit(1, 0.5, Some("hop2"))).await.expect("submitted");
    assert_ne!(another["eval_id"], first["eval_id"]);
    let by_other = case.call(3, 1, any, submit(1, 0.6, Some("hop1"))).await.expect("submitted");
    assert_ne!(by_other["eval_id"], first["eval_id"], "another emitter");
    assert_eq!(scores(&case.list(1, all()).await), [0.6, 0.5, 0.4], "newest first, nothing doubled");
    let latest = ListAsked { latest_per_tag: true, ..all() };
    assert_eq!(scores(&case.list(1, latest).await), [0.6, 0.5], "the newest of each tag");
    let of_tag = ListAsked { tag: Some("hop1".into()), ..all() };
    assert_eq!(scores(&case.list(1, of_tag).await), [0.6, 0.4]);
    let got = case.call(5, 5, any, json!({ "op": "get", "eval_id": first["eval_id"] })).await.expect("it is there");
    assert_eq!((&got["score"], &got["tag"], &got["emitter"]["agent"]), (&json!(0.4), &json!("hop1"), &json!("judge")));
}

#[tokio::test]
async fn a_call_or_request_that_is_made_again_gets_its_first_answer_and_doubles_nothing() {
    let case = Case::new();
    let any = &["submit_any"];
    let first = case.call(5, 1, any, submit(1, 0.9, None)).await.expect("submitted");
    assert_eq!(case.call(5, 1, any, submit(1, 0.9, None)).await, Ok(first.clone()), "the same call");
    let second = case.call(5, 2, any, submit(1, 0.9, None)).await.expect("submitted");
    assert_ne!(second["eval_id"], first["eval_id"], "without a tag each call is one evaluation");
    // What came after a tagged call does not change what its repeat is told.
    let tag = case.call(5, 3, any, submit(1, 0.1, Some("t"))).await.expect("submitted");
    case.call(5, 4, any, submit(1, 0.2, Some("t"))).await.expect("submitted");
    assert_eq!(case.call(5, 3, any, submit(1, 0.1, Some("t"))).await, Ok(tag));
    assert_eq!(scores(&case.list(1, all()).await), [0.2, 0.9, 0.9]);

    let ann = ann();
    let keyed = case.submit(&ann, Some("k"), 1, scored(0.3)).await.expect("submitted");
    assert_eq!(case.submit(&ann, Some("k"), 1, scored(0.3)).await, Ok(keyed.clone()));
    assert_eq!(keyed["emitter_role"], "external");
    let (one, two) = (case.submit(&ann, None, 1, scored(0.3)).await, case.submit(&ann, None, 1, scored(0.3)).await);
    assert_ne!(one.expect("submitted")["eval_id"], two.expect("submitted")["eval_id"]);
}

#[tokio::test]
async fn submissions_of_one_tag_at_once_leave_one_evaluation() {
    let case = Arc::new(Case::new());
    let submitted = (0..8).map(|number| {
        let case = case.clone();
        tokio::spawn(async move { case.submit(&ann(), None, 1, tagged(f64::from(number) / 10.0, "t")).await })
    });
    let submitted = futures::future::join_all(submitted).await;
    assert!(submitted.iter().all(|answer| matches!(answer, Ok(Ok(_)))), "{submitted:?}");
    let listed = case.list(1, all()).await;
    assert_eq!((listed.evaluations.len(), listed.evaluations[0].revision), (1, 8));
    let (whole, of) =
        (Visible::whole(Tenant::default_tenant()), Of::Definition(Meant::Definition(Digest::of(b"definition"))));
    let sums = case.evaluations.aggregate(&whole, &of, false).await.expect("sums");
    assert_eq!(sums["count"], 1, "the definition counts it once");
}

#[tokio::test]
async fn the_role_comes_from_the_rows_and_each_needs_its_scope() {
    let case = Case::new();
    // emitter, evaluated, role, the narrowest scope
    let cases = [
        (2, 2, "self", "submit_self"),
        (1, 2, "parent", "submit_children"),
        (1, 4, "parent", "submit_children"),
        (3, 2, "sibling", "submit_siblings"),
        (3, 4, "unrelated", "submit_any"),
        (4, 2, "unrelated", "submit_any"),
        (2, 1, "unrelated", "submit_any"),
        (5, 1, "unrelated", "submit_any"),
    ];
    for (call, (emitter, evaluated, role, scope)) in (10..).step_by(10).zip(cases) {
        let given = case.call(emitter, call, &[scope], submit(evaluated, 0.5, None)).await.expect("it may");
        assert_eq!(given["emitter_role"], role, "{emitter} of {evaluated}");
        assert!(case.call(emitter, call + 1, &["submit_any"], submit(evaluated, 0.5, None)).await.is_ok());
        for other in EvaluationScope::ALL
            .map(EvaluationScope::as_str)
            .into_iter()
            .filter(|other| ![scope, "submit_any"].contains(other))
        {
            let refused = case.call(emitter, call + 2, &[other], submit(evaluated, 0.5, None)).await.expect_err(other);
            let wanted = format!("add {scope} to `evaluation_scopes`");
            assert!(matches!(&refused, ToolError::Denied(said) if said.contains(&wanted)), "{refused}");
        }
    }
    let foreign = case.call(5, 9, &["submit_any"], submit(6, 0.5, None)).await.expect_err("another tenant");
    let absent = case.call(5, 9, &["submit_any"], submit(99, 0.5, None)).await.expect_err("no such run");
    assert_eq!(
        foreign.to_string().replace(&run_id(6).to_string(), "R"),
        absent.to_string().replace(&run_id(99).to_string(), "R")
    );
}

#[tokio::test]
async fn reading_needs_read_any_or_its_own_run_and_definition() {
    let case = Case::new();
    let submitted = case.call(2, 1, &["submit_self"], submit(2, 0.5, None)).await.expect("submitted");
    let reads = |run: u64| {
        [
            json!({ "op": "list_for_run", "run_id": run_id(run) }),
            json!({ "op": "get", "eval_id": submitted["eval_id"] }),
        ]
    };
    for read in reads(2) {
        assert!(case.call(2, 2, &["read_self"], read.clone()).await.is_ok(), "{read}");
        assert!(case.call(3, 2, &["read_any"], read.clone()).await.is_ok(), "{read}");
        for (run, scopes) in [(3, &["read_self"][..]), (2, &["submit_any"])] {
            let refused = case.call(run, 2, scopes, read.clone()).await;
            assert!(matches!(refused, Err(ToolError::Denied(_))), "{read}: {refused:?}");
        }
    }
    let own = case.call(2, 3, &["read_self"], json!({ "op": "aggregate" })).await.expect("its own definition");
    assert_eq!((&own["count"], &own["score"]["mean"]), (&json!(1), &json!(0.5)));
    let other = json!({ "op": "aggregate", "def_id": digest(1) });
    assert!(matches!(case.call(2, 3, &["read_self"], other.clone()).await, Err(ToolError::Denied(_))));
    assert_eq!(case.call(2, 3, &["read_any"], other).await.expect("any")["count"], 0);
    let foreign: EvalId = EvalId { run: run_id(6), identity: Identity([0; 16]) };
    let unknown =
        case.call(2, 4, &["read_any"], json!({ "op": "get", "eval_id": foreign })).await.expect_err("not there");
    assert!(unknown.to_string().contains("unknown evaluation"), "{unknown}");
}

#[tokio::test]
async fn a_caller_who_sees_only_its_own_runs_sees_only_their_evaluations() {
    let case = Case::new();
    for run in [1, 7] {
        let submission = Submission { dimensions: BTreeMap::from([("tone".into(), 0.5)]), ..scored(0.5) };
        case.submit(&ann(), None, run, submission).await.expect("submitted");
    }
    let bob = Caller {
        subject: "bob".parse().expect("a user"),
        scopes: vec![Scope::EvaluationsRead],
        ..Caller::open(Proof::Principal)
    };
    let id: EvalId = {
        let listed = case.list(1, all()).await;
        listed.evaluations[0].eval_id
    };
    assert_eq!(case.evaluations.get(&bob.visible(), id).await, Err(EvaluationError::Unknown(id)), "ada's run");
    let sums = async |definition, caller: &Caller| {
        let sums =
            case.evaluations.aggregate(&caller.visible(), &Of::Definition(Meant::Definition(definition)), false).await;
        sums.expect("sums")
    };
    let (hidden, seen) = (sums(Digest::of(b"definition"), &bob).await, sums(digest(0), &bob).await);
    assert_eq!((&hidden["count"], &seen["count"]), (&json!(0), &json!(1)));
    assert_eq!(seen["warnings"][0], "only evaluations of runs of user bob are included");
    let listed = case
        .evaluations
        .list_for_definition(&bob.visible(), &Meant::Definition(Digest::of(b"definition")), &all())
        .await;
    assert_eq!(listed.expect("a list").evaluations, []);
    let foreign = Caller { tenant: "other".parse().expect("a tenant"), ..ann() };
    assert_eq!(sums(digest(0), &foreign).await["count"], 0);
}

#[tokio::test]
async fn pages_go_on_where_the_last_one_ended_also_by_bytes() {
    let case = Case::new();
    for number in 0..7 {
        let submission = Submission {
            rationale: Some("x".repeat(1_000)),
            ..tagged(f64::from(number) / 10.0, &format!("t{number}"))
        };
        case.submit(&ann(), None, 1, submission).await.expect("submitted");
    }
    for (asked, sizes) in [
        (ListAsked { limit: 3, ..all() }, vec![3, 3, 1]),
        (ListAsked { bytes: Some(3_500), ..all() }, vec![2, 2, 2, 1]),
        (ListAsked { limit: 3, latest_per_tag: true, ..all() }, vec![3, 3, 1]),
    ] {
        let (mut asked, mut seen, mut found) = (asked, Vec::new(), Vec::new());
        loop {
            let listed = case.list(1, asked.clone()).await;
            seen.push(listed.evaluations.len());
            found.extend(scores(&listed));
            match listed.next {
                Some(next) => asked.after = Some(next),
                None => break,
            }
        }
        assert_eq!((seen, found), (sizes, vec![0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0]));
    }
}

#[tokio::test]
async fn scores_and_texts_out_of_bounds_are_refused_and_secrets_are_masked() {
    let case = Case::new();
    let dimension = |score| Submission { dimensions: BTreeMap::from([("tone".into(), score)]), ..scored(0.5) };
    for (bad, code) in [
        (scored(1.01), "bad_score"),
        (scored(-0.1), "bad_score"),
        (scored(f64::NAN), "bad_score"),
        (dimension(7.0), "bad_score"),
        (tagged(0.5, ""), "bad_name"),
        (tagged(0.5, "a\nb"), "bad_name"),
        (tagged(0.5, SECRET), "bad_name"),
    ] {
        let refused = case.submit(&ann(), None, 1, bad).await.expect_err(code);
        assert_eq!(refused.code(), code, "{refused}");
        assert!(!refused.to_string().contains(SECRET), "{refused}");
    }
    let secret = Submission {
        rationale: Some(format!("it says {SECRET}")),
        judgement: Some(json!([SECRET])),
        ..tagged(0.5, "t")
    };
    let submitted = case.submit(&ann(), None, 1, secret.clone()).await.expect("submitted");
    assert!(submitted["warnings"][0].as_str().is_some_and(|said| said.contains("masked")), "{submitted}");
    assert!(!json!(case.list(1, all()).await.evaluations).to_string().contains(SECRET));
    let again = case.submit(&ann(), None, 1, secret).await.expect("submitted");
    assert_eq!(again["unchanged"], true, "compared as it is kept");
    for (op, other) in [("get", "score"), ("aggregate", "tag"), ("list_for_def", "run_id")] {
        let refused = case.call(1, 1, &["read_any"], json!({ "op": op, other: "x" })).await;
        assert!(matches!(refused, Err(ToolError::Invalid(_))), "{refused:?}");
    }
}

#[test]
fn the_card_names_the_scopes_and_an_empty_gate_withholds_the_tool() {
    let tool = EvaluationTool(Case::new().evaluations);
    let card = tool.card();
    let offered = |scopes: &[&str]| {
        let context = context(1, 1, scopes);
        tool.card_for(&card, Gates { definition: &context.definition, hosts: &[] })
    };
    assert!(offered(&["read_any"]).is_ok_and(|card| card.description.ends_with("\n- read_any")));
    assert!(offered(&[]).is_err_and(|why| why.contains("to allow it, write `evaluation_scopes: [")));
}

fn limit(name: &str) -> usize {
    let found: &Limit = LIMITS.iter().find(|limit| limit.name == name).expect("a limit of that name");
    match found.default {
        Amount::Count(count) | Amount::Bytes(count) => usize::try_from(count).expect("small"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_limit_of_a_submission_is_crossed() {
    let case = Case::new();
    let judgement = |bytes: usize| Submission { judgement: Some("x".repeat(bytes - 2).into()), ..tagged(0.5, "j") };
    let rationale = |bytes: usize| Submission { rationale: Some("x".repeat(bytes)), ..tagged(0.5, "r") };
    let many = |count: usize| Submission {
        dimensions: (0..count).map(|number| (number.to_string(), 0.5)).collect(),
        ..tagged(0.5, "d")
    };
    let tag = |bytes: usize| tagged(0.5, &"x".repeat(bytes));
    type Make<'a> = &'a dyn Fn(usize) -> Submission;
    let makes: [(&str, Make<'_>, &str); 4] = [
        ("evaluation_judgement_bytes", &judgement, "too_long"),
        ("evaluation_rationale_bytes", &rationale, "too_long"),
        ("evaluation_dimensions", &many, "too_many_dimensions"),
        ("evaluation_name_bytes", &tag, "bad_name"),
    ];
    for (name, make, code) in makes {
        let most = limit(name);
        case.submit(&ann(), None, 1, make(most)).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(case.submit(&ann(), None, 1, make(most + 1)).await.expect_err(name).code(), code);
    }
    let listed = case.list(1, ListAsked { limit: u32::MAX, ..all() }).await;
    assert!(listed.evaluations.len() <= limit("evaluations_listed"));
}

#[tokio::test]
async fn a_run_with_too_many_evaluations_takes_no_more_but_revisions() {
    let case = Case::new();
    let most = limit("evaluations_of_run");
    case.submit(&ann(), None, 1, tagged(0.5, "0")).await.expect("submitted");
    let kept = json!(case.list(1, all()).await.evaluations[0]);
    case.fill(&Owner::Run(run_id(1)), 2 * most - 4, &kept).await;
    case.submit(&ann(), None, 1, tagged(0.5, "last")).await.expect("submitted");
    let refused = case.submit(&ann(), None, 1, tagged(0.5, "more")).await.expect_err("too many");
    assert_eq!(
        (refused.code(), refused.kind()),
        ("too_many_evaluations", drawloom_contract::failure::FailureKind::TooLarge)
    );
    case.submit(&ann(), None, 1, tagged(0.6, "0")).await.expect("a revision takes no more room");
    let listed = case.list(1, ListAsked { limit: 1_000, ..all() }).await;
    assert_eq!((listed.evaluations.len(), listed.next.is_some()), (limit("evaluations_listed"), true));
    // The same by bytes, on another run.
    let large = limit("evaluations_of_run_bytes") / 16;
    case.fill(&Owner::Run(run_id(5)), 15, &"x".repeat(large - 100).into()).await;
    case.submit(&ann(), None, 5, tagged(0.5, "one")).await.expect("there is room");
    case.fill(&Owner::Run(run_id(5)), 16, &"x".repeat(large).into()).await;
    let refused = case.submit(&ann(), None, 5, tagged(0.5, "two")).await.expect_err("too many bytes");
    assert_eq!(refused.code(), "too_many_evaluations");
}

#[tokio::test]
async fn beyond_its_limit_a_definition_forgets_its_oldest_evaluations_and_says_so() {
    let case = Case::new();
    let (most, own) = (limit("evaluations_of_definition"), Owner::Definition(digest(0)));
    let one = case.submit(&ann(), None, 7, tagged(0.5, "first")).await.expect("submitted");
    case.fill(&own, most - 1, &json!(case.list(7, all()).await.evaluations[0])).await;
    let next = case.submit(&ann(), None, 7, tagged(0.9, "next")).await.expect("submitted");
    assert_eq!(next["dropped_oldest"], json!(most.div_ceil(10)), "{one} {next}");
    let whole = Visible::whole(Tenant::default_tenant());
    let sums =
        case.evaluations.aggregate(&whole, &Of::Definition(Meant::Definition(digest(0))), false).await.expect("sums");
    assert_eq!(sums["count"], json!(most - most.div_ceil(10) + 1));
    assert_eq!(case.list(7, all()).await.evaluations.len(), 2, "the run keeps its own");
}

#[tokio::test]
async fn an_agent_with_too_many_definitions_is_told_and_aggregates_are_cut() {
    let case = Case::new();
    let (most, own) = (limit("evaluated_definitions_of_agent"), Owner::Agent("a".parse().expect("a name")));
    let filler: Vec<ValueChange> = (0..most)
        .map(|number| {
            let key = own.key(&Tenant::default_tenant(), Digest::of(&number.to_le_bytes()).to_string());
            let value = Redactor::new([SECRET]).clean(json!({ "first_at": number }));
            ValueChange::put(key, value, Timestamp::from_millis(0), None)
        })
        .collect();
    case.values.change(filler, None).await.expect("kept");
    let submitted = case.submit(&ann(), None, 7, scored(0.5)).await.expect("it is submitted all the same");
    assert!(submitted["warnings"][0].as_str().is_some_and(|said| said.contains("do not list")), "{submitted}");
    let whole = Visible::whole(Tenant::default_tenant());
    let agent = Of::Agent("a".parse().expect("a name"));
    let sums = case.evaluations.aggregate(&whole, &agent, false).await.expect("sums");
    assert_eq!(sums["versions"].as_array().map(Vec::len), Some(limit("evaluation_lineage")));
    assert!(sums["warnings"][0].as_str().is_some_and(|said| said.contains("left out")), "{}", sums["warnings"]);
}
