use std::{fs::File, path::Path, sync::Arc};

use drawloom_contract::{
    definition::Definition,
    ids::{RunId, RunKey, Tenant},
    record::Collect,
    tool::{ChildStart, Mode, Place, Repeat, Step, Tool, ToolContext, ToolError, Verdict, Volumes, Wait},
};
use serde_json::{Value, json};

use crate::builtin;

/// One volume; what a path may look like is the substrate's to test.
struct One(Arc<File>, Mode);

impl Volumes for One {
    fn locate(&self, _: &Definition, _: Option<&str>, path: &str) -> Result<Place, ToolError> {
        Ok(Place { volume: "v".into(), root: self.0.clone(), mode: self.1, path: path.into() })
    }
}

fn context(dir: &Path, mode: Mode) -> ToolContext {
    let definition = Definition {
        name: "tester".parse().expect("a name"),
        description: String::new(),
        provider: "p".into(),
        model: "m".into(),
        system_prompt: String::new(),
        tools: vec![],
        agents: vec![],
        volumes: vec![],
        max_iterations: 1,
        max_tokens: 1,
        retry_attempts: 0,
        run_timeout_ms: None,
        budget_tokens: None,
    };
    ToolContext {
        run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([1; 16]) },
        call: 7,
        depth: 0,
        definition: Arc::new(definition),
        volumes: Arc::new(One(Arc::new(File::open(dir).expect("the directory")), mode)),
    }
}

fn tool(name: &str) -> Arc<dyn Tool> {
    builtin().into_iter().find(|tool| tool.card().name == name).expect("a built-in tool")
}

async fn call(name: &str, dir: &Path, input: Value) -> Result<Step, ToolError> {
    tool(name).call(&context(dir, Mode::ReadWrite), input).await
}

fn done(step: Result<Step, ToolError>) -> String {
    match step {
        Ok(Step::Done(text)) => text,
        other => panic!("not done: {other:?}"),
    }
}

#[test]
fn every_tool_has_a_name_of_its_own_a_closed_schema_and_a_sentence() {
    let cards: Vec<_> = builtin().iter().map(|tool| tool.card()).collect();
    let mut names: Vec<_> = cards.iter().map(|card| card.name.clone()).collect();
    names.dedup();
    assert_eq!(names.len(), cards.len());
    for card in cards {
        assert!(card.description.ends_with('.'), "{}", card.name);
        assert_eq!(card.input_schema["additionalProperties"], json!(false), "{}", card.name);
    }
}

#[tokio::test]
async fn read_gives_the_text_and_says_where_it_was_cut() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("a.txt"), "abcdéf").expect("a file");
    assert_eq!(done(call("Read", dir.path(), json!({ "path": "a.txt" })).await), "abcdéf");
    assert_eq!(
        done(call("Read", dir.path(), json!({ "path": "a.txt", "limit": 5 })).await),
        "abcd\n[cut: bytes 0 to 4 of 7; go on with offset=4]"
    );
    assert_eq!(done(call("Read", dir.path(), json!({ "path": "a.txt", "offset": 4 })).await), "éf");
    std::fs::write(dir.path().join("b.bin"), [0xff, 0xfe, 0x00]).expect("a file");
    for (path, says) in [("b.bin", "not UTF-8"), ("none", "no such file"), (".", "not a regular file")] {
        let error = call("Read", dir.path(), json!({ "path": path })).await.expect_err(path);
        assert!(error.to_string().contains(says), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_link_that_leads_out_of_the_volume_is_not_followed() {
    let outside = tempfile::tempdir().expect("a directory");
    std::fs::write(outside.path().join("secret"), "s").expect("a file");
    let dir = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink(outside.path(), dir.path().join("out")).expect("a link");
    std::os::unix::fs::symlink(outside.path().join("secret"), dir.path().join("file")).expect("a link");
    for path in ["out/secret", "file", "../secret", "/etc/passwd"] {
        assert!(call("Read", dir.path(), json!({ "path": path })).await.is_err(), "{path}");
        let write = call("Write", dir.path(), json!({ "path": path, "content": "x" })).await;
        assert!(write.is_err() || path == "file", "{path}");
    }
    assert_eq!(std::fs::read_to_string(outside.path().join("secret")).expect("still there"), "s");
}

#[tokio::test]
async fn after_a_crash_the_file_itself_says_whether_it_was_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let context = context(dir.path(), Mode::ReadWrite);
    let input = json!({ "path": "a.txt", "content": "new" });
    let write = tool("Write");
    let Repeat::Check(check) = write.repeat() else { panic!("Write keeps evidence") };
    let evidence = check.evidence(&context, &input).await.expect("evidence");
    assert_eq!(check.verdict(&context, &input, &evidence).await, Verdict::DidNot);
    let said = done(write.call(&context, input.clone()).await);
    assert_eq!(check.verdict(&context, &input, &evidence).await, Verdict::Happened(said));
    std::fs::write(dir.path().join("a.txt"), "somebody else's").expect("a file");
    assert_eq!(check.verdict(&context, &input, &evidence).await, Verdict::InDoubt);
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("the directory").collect();
    assert_eq!(left.len(), 1, "no temporary file stays");
}

#[tokio::test]
async fn a_read_only_volume_is_not_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let context = context(dir.path(), Mode::ReadOnly);
    let error = tool("Write").call(&context, json!({ "path": "a", "content": "x" })).await.expect_err("read-only");
    assert!(matches!(error, ToolError::Denied(ref text) if text.contains("read-only")), "{error}");
}

#[tokio::test]
async fn agent_waits_for_whom_it_names_and_refuses_what_is_neither_form() {
    let dir = tempfile::tempdir().expect("a directory");
    let child = |name: &str, prompt: &str| ChildStart { agent: name.parse().expect("a name"), prompt: prompt.into() };
    let one = call("Agent", dir.path(), json!({ "name": "a", "prompt": "p" })).await;
    assert_eq!(one, Ok(Step::Wait(Wait::Children { starts: vec![child("a", "p")], collect: Collect::One })));
    let spawns = json!([{ "name": "a", "prompt": "p" }, { "name": "b", "prompt": "q" }]);
    let many = call("Agent", dir.path(), json!({ "op": "parallel_spawn", "spawns": spawns })).await;
    let starts = vec![child("a", "p"), child("b", "q")];
    assert_eq!(many, Ok(Step::Wait(Wait::Children { starts, collect: Collect::Many })));
    for bad in [
        json!({}),
        json!({ "name": "a" }),
        json!({ "name": "a b", "prompt": "p" }),
        json!({ "name": "a", "prompt": "" }),
        json!({ "op": "parallel_spawn", "spawns": [] }),
        json!({ "op": "spawn", "spawns": spawns }),
        json!({ "name": "a", "prompt": "p", "extra": 1 }),
        json!("text"),
    ] {
        assert!(matches!(call("Agent", dir.path(), bad.clone()).await, Err(ToolError::Invalid(_))), "{bad}");
    }
}
