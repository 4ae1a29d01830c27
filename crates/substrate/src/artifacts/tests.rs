use drawloom_contract::{
    ids::Tenant,
    tool::{Step, Tool as _},
};
use drawloom_testkit::{Memory, TestClock, definition};

use super::*;
use crate::{VolumeTable, artifacts::tool::ArtifactTool};

/// A root with two children, and a run of another tree.
const ROOT: [u8; 16] = [1; 16];
const CHILD: [u8; 16] = [2; 16];
const STRANGER: [u8; 16] = [9; 16];

struct Case {
    values: Arc<Memory>,
    tool: ArtifactTool,
}

impl Case {
    fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(TestClock::default());
        let values = Arc::<Memory>::default();
        let artifacts = Artifacts::new(values.clone(), clock.clone());
        Self { values, tool: ArtifactTool { artifacts, clock } }
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Value, String> {
        match self.tool.call(context, input).await {
            Ok(Step::Done(result)) => Ok(serde_json::from_str(&result.text).expect("JSON")),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn context(run: [u8; 16], root: [u8; 16], call: Seq) -> ToolContext {
    ToolContext {
        run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes(run) },
        call,
        root: RunId::from_bytes(root),
        user: drawloom_contract::ids::UserId::default_user(),
        depth: 0,
        definition: Arc::new(definition("writer", "p", "m")),
        hosts: [].into(),
        volumes: Arc::new(VolumeTable::default()),
        redactor: Arc::new(Redactor::new(vec!["hunter2hunter2".to_owned()])),
        evidence: None,
        woken: None,
        progress: Arc::new(()),
        began: drawloom_contract::time::Timestamp::from_millis(0),
    }
}

fn tree() -> RunKey {
    RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes(ROOT) }
}

fn write(name: &str, text: &str) -> Value {
    json!({ "op": "write", "name": name, "text": text })
}

#[tokio::test]
async fn runs_of_one_tree_share_artifacts_and_others_see_none() {
    let case = Case::new();
    let written =
        case.call(&context(CHILD, ROOT, 5), write("review/a.md", "one\ntwo\nthree\n")).await.expect("written");
    assert_eq!(
        (&written["media_type"], &written["bytes"], &written["lines"]),
        (&json!("text/markdown"), &json!(14), &json!(3))
    );
    let parent = context(ROOT, ROOT, 7);
    let read = json!({ "op": "read", "name": "review/a.md", "from_line": 2, "lines": 1 });
    let part = case.call(&parent, read.clone()).await.expect("a part");
    assert_eq!((&part["text"], &part["next_offset"]), (&json!("two\n"), &json!(8)));
    let grep = json!({ "op": "grep", "name": "review/a.md", "pattern": "^t", "context": 0 });
    let found = case.call(&parent, grep).await.expect("lines");
    assert_eq!((&found["text"], &found["matches"]), (&json!("2: two\n3: three\n"), &json!(2)));
    let list = case.call(&parent, json!({ "op": "list", "prefix": "review/" })).await.expect("a list");
    assert_eq!(
        (&list["artifacts"][0]["name"], &list["artifacts"][0]["agent"]),
        (&json!("review/a.md"), &json!("writer"))
    );

    let stranger = context(STRANGER, STRANGER, 7);
    let refused = case.call(&stranger, read).await.expect_err("another tree");
    assert_eq!(refused, "unknown artifact \"review/a.md\" in this tree; use op=list to see the artifacts");
    assert_eq!(case.call(&stranger, json!({ "op": "list" })).await.expect("a list")["artifacts"], json!([]));
}

#[tokio::test]
async fn a_call_that_is_made_again_writes_once_and_gets_the_first_answer() {
    let case = Case::new();
    let first = case.call(&context(CHILD, ROOT, 5), write("a", "text")).await.expect("written");
    let again = case.call(&context(CHILD, ROOT, 5), write("a", "text")).await.expect("the same call");
    assert_eq!(again, first);
    let other = case.call(&context(CHILD, ROOT, 6), write("a", "more")).await.expect_err("another call");
    let run = RunId::from_bytes(CHILD);
    let expected =
        format!("artifact a already exists (written by writer, run {run}); choose another name, or set replace: true");
    assert_eq!(other, expected);

    let mut replace = write("a", "more");
    replace["replace"] = json!(true);
    let replaced = case.call(&context(ROOT, ROOT, 7), replace.clone()).await.expect("replaced");
    assert_eq!(replaced["replaced"], first["sha256"]);
    // Between the replacement and its repeat, another run replaces it too: the repeat changes nothing.
    let mut later = write("a", "newest");
    later["replace"] = json!(true);
    case.call(&context(CHILD, ROOT, 8), later).await.expect("replaced");
    assert_eq!(case.call(&context(ROOT, ROOT, 7), replace).await, Ok(replaced));
    let found = case.tool.artifacts.find(&tree(), "a").await.expect("a store").expect("an artifact");
    assert_eq!(found.text, "newest");
    let replaced = found.about.replaced.map(|replaced| replaced.run_id);
    assert_eq!(replaced, Some(RunId::from_bytes(ROOT)));
}

#[tokio::test]
async fn secrets_are_masked_before_anything_is_kept() {
    let case = Case::new();
    let written = case.call(&context(CHILD, ROOT, 5), write("a", "the key is hunter2hunter2.")).await.expect("written");
    let part = case.call(&context(CHILD, ROOT, 6), json!({ "op": "read", "name": "a" })).await.expect("a part");
    let text = part["text"].as_str().expect("a string");
    assert!(!text.contains("hunter2") && text.starts_with("the key is "), "{text}");
    assert_eq!((&written["bytes"], &written["sha256"]), (&json!(text.len()), &json!(Digest::of(text.as_bytes()))));
    let refused = case.call(&context(CHILD, ROOT, 7), write("hunter2hunter2", "x")).await.expect_err("a secret");
    assert_eq!(refused, "the name contains a secret; choose another");
}

/// What is told when this limit is crossed.
async fn cross(limit: &Limit) -> String {
    let case = Case::new();
    let child = |call| context(CHILD, ROOT, call);
    let long = "x".repeat(MOST_BYTES);
    let crossed = match limit.name {
        "artifact_bytes" => case.call(&child(5), write("long", &format!("{long}x"))).await,
        "artifact_name_bytes" => case.call(&child(5), write(&"x".repeat(LONGEST_NAME + 1), "x")).await,
        "artifacts_per_tree" => {
            for number in 0..MOST_IN_TREE {
                case.call(&child(5 + number), write(&format!("n{number}"), "x")).await.expect("there is room");
            }
            let mut replace = write("n0", "y");
            replace["replace"] = json!(true);
            case.call(&child(998), replace).await.expect("a replacement is not one more");
            case.call(&child(999), write("more", "x")).await
        }
        "artifact_bytes_per_tree" => {
            // Nearly all of it at once, because every write of the tool is searched for secrets.
            let big = Redactor::new::<&str>([]).clean(json!("x".repeat(MOST_BYTES_IN_TREE as usize / 33)));
            let fill = |number: u64| {
                let key = key(&tree(), "text", &format!("n{number}"));
                ValueChange::put(key, big.clone(), Timestamp::from_millis(0), None)
            };
            case.values.change((0..32).map(fill).collect(), None).await.expect("there is room");
            case.call(&child(998), write("fits", &long)).await.expect("there is room");
            case.call(&child(999), write("more", &long)).await
        }
        other => panic!("no test crosses {other}"),
    };
    crossed.expect_err("it is refused")
}

#[tokio::test]
async fn every_limit_is_crossed_and_told() {
    for limit in LIMITS {
        let told = cross(limit).await;
        let wanted = match limit.name {
            "artifact_bytes" => {
                "the text has 524289 bytes; the limit for an artifact is 524288: split it and write the parts"
            }
            "artifact_name_bytes" => "an artifact name must have 1 to 200 bytes, not 201",
            _ => "over_quota: ",
        };
        assert!(told.starts_with(wanted), "{}: {told}", limit.name);
    }
}

#[tokio::test]
async fn a_text_that_is_too_long_as_json_is_refused_with_what_to_do() {
    let case = Case::new();
    let quotes = write("quotes", &"\"".repeat(MOST_BYTES));
    assert_eq!(case.call(&context(CHILD, ROOT, 5), quotes).await, Err(TOO_MANY_ESCAPES.to_owned()));
    let lines = write("lines", &"a line of text\n".repeat(MOST_BYTES / 15));
    case.call(&context(CHILD, ROOT, 6), lines).await.expect("ordinary text fits");
}

#[tokio::test]
async fn what_does_not_belong_together_is_refused_with_what_does() {
    let case = Case::new();
    let context = context(CHILD, ROOT, 5);
    for (input, wanted) in [
        (json!({ "op": "write", "name": "a" }), "op=write requires `name` and `text`"),
        (json!({ "op": "grep", "name": "a" }), "unknown artifact \"a\""),
        (json!({ "op": "read" }), "op=read requires `name`"),
        (json!({ "op": "list", "name": "a" }), "op=list does not take `name`; it takes prefix, after"),
        (json!({ "op": "read", "nme": "a" }), "unknown field `nme`"),
        (json!({ "op": "write", "name": "../a", "text": "x" }), "invalid artifact name \"../a\""),
        (json!({ "op": "write", "name": "journal", "text": "x" }), "the name journal is reserved"),
        (json!({ "op": "write", "name": "a", "text": "x", "media_type": "html" }), "invalid media type \"html\""),
    ] {
        let refused = case.call(&context, input.clone()).await.expect_err("it is refused");
        assert!(refused.contains(wanted), "{input}: {refused}");
    }
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    let case = Case::new();
    for number in 0..120 {
        case.call(&context(CHILD, ROOT, 5 + number), write(&format!("n{number:03}"), "x")).await.expect("written");
    }
    let first = case.call(&context(ROOT, ROOT, 1), json!({ "op": "list" })).await.expect("a list");
    assert_eq!((first["artifacts"].as_array().map(Vec::len), &first["more_after"]), (Some(100), &json!("n099")));
    let rest = case.call(&context(ROOT, ROOT, 2), json!({ "op": "list", "after": "n099" })).await.expect("a list");
    assert_eq!((rest["artifacts"].as_array().map(Vec::len), &rest["more_after"]), (Some(20), &Value::Null));
}
