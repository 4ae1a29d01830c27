//! `Write` and `Edit` stage their content before their intent is journaled; after a crash the staged file says what happened.

use std::{path::PathBuf, sync::Arc};

use drawloom_contract::{
    ids::Digest,
    redact::MASK,
    tool::{Repeat, Step, Tool, ToolContext, ToolError, Verdict},
};
use drawloom_tools::leftovers;
use serde_json::{Value, json};

use crate::support::Room;

/// A call of `Write` or `Edit`, from its intent to what a crash leaves.
struct Call {
    tool: Arc<dyn Tool>,
    context: ToolContext,
    input: Value,
}

impl Call {
    /// Everything up to the commit of the intent.
    async fn intend(room: &Room, name: &str, input: Value) -> Self {
        let mut call = Self { tool: room.tool(name), context: room.context(), input };
        let Repeat::Check(check) = call.tool.repeat() else { panic!("{name} keeps evidence") };
        let evidence = check.evidence(&call.context, &call.input).await.expect("it can be staged");
        call.context.evidence = Some(evidence.expect("this file system can tell"));
        call
    }

    async fn make(&self) -> Result<String, ToolError> {
        match self.tool.call(&self.context, self.input.clone()).await? {
            Step::Done(answer) => Ok(answer.text),
            other => panic!("{other:?}"),
        }
    }

    async fn verdict(&self) -> Verdict {
        let Repeat::Check(check) = self.tool.repeat() else { panic!("it keeps evidence") };
        let evidence = self.context.evidence.clone().expect("evidence");
        check.verdict(&self.context, &self.input, &evidence).await
    }

    async fn discard(&self) {
        let Repeat::Check(check) = self.tool.repeat() else { panic!("it keeps evidence") };
        check.discard(&self.context).await;
    }

    fn staged(&self, room: &Room) -> PathBuf {
        room.volume.path().join(format!(".drawloom-{}-{}.tmp", self.context.run.run, self.context.call))
    }
}

/// A new file, a replaced file and an edited file, as calls on a volume where `old.txt` holds `old`.
fn cases() -> [(&'static str, &'static str, Value); 3] {
    [
        ("Write", "new.txt", json!({ "path": "new.txt", "content": "new" })),
        ("Write", "old.txt", json!({ "path": "old.txt", "content": "new" })),
        ("Edit", "old.txt", json!({ "path": "old.txt", "old_string": "old", "new_string": "new" })),
    ]
}

fn room() -> Room {
    let room = Room::new();
    room.put("old.txt", "old");
    room
}

fn entries(room: &Room) -> usize {
    std::fs::read_dir(room.volume.path()).expect("the directory").count()
}

#[tokio::test]
async fn a_file_that_was_consumed_or_changed_back_has_been_written() {
    for (name, path, input) in cases() {
        let room = room();
        let call = Call::intend(&room, name, input).await;
        assert_eq!(call.verdict().await, Verdict::DidNot, "{name} {path}: staged and not renamed");
        let said = call.make().await.expect("it works");
        assert_eq!(room.get(path), "new");
        assert_eq!(call.verdict().await, Verdict::Happened(said.clone()), "{name} {path}");
        std::fs::remove_file(room.volume.path().join(path)).expect("a consumer takes it");
        assert_eq!(call.verdict().await, Verdict::Happened(said.clone()), "{name} {path}: consumed");
        room.put(path, "old");
        match call.verdict().await {
            Verdict::Happened(now) => assert!(now.starts_with(&said), "{name} {path}: changed back: {now}"),
            // The inode of the file before may be given to the next file; then nothing is certain.
            other => assert_eq!(other, Verdict::InDoubt, "{name} {path}: changed back"),
        }
    }
}

#[tokio::test]
async fn what_was_staged_and_not_renamed_is_made_after_the_crash() {
    for (name, path, input) in cases() {
        let room = room();
        let call = Call::intend(&room, name, input).await;
        assert_eq!(call.verdict().await, Verdict::DidNot);
        call.make().await.expect("it works");
        call.discard().await;
        assert_eq!(room.get(path), "new", "{name}");
        let left = leftovers(&room.temporary.path().join("staged")).expect("the notes");
        assert!(left.is_empty() && !call.staged(&room).exists(), "{name}: {left:?}");
    }
}

#[tokio::test]
async fn what_others_changed_while_the_server_was_down_is_not_overwritten() {
    let room = room();
    let call = Call::intend(&room, "Write", json!({ "path": "old.txt", "content": "new" })).await;
    room.put("old.txt", "somebody else's");
    let Verdict::Failed(why) = call.verdict().await else { panic!("it did not happen and must not") };
    assert!(why.contains("the file changed in the meantime; read it again"), "{why}");
    // An edit says itself what it needs, so it is planned again.
    let edit = json!({ "path": "old.txt", "old_string": "somebody", "new_string": "nobody" });
    let call = Call::intend(&room, "Edit", edit).await;
    room.put("old.txt", "now somebody else's");
    assert_eq!(call.verdict().await, Verdict::DidNot);
    call.make().await.expect("it works");
    assert_eq!(room.get("old.txt"), "now nobody else's");
    let Verdict::Happened(said) = call.verdict().await else { panic!("it happened") };
    assert!(said.ends_with("[the file was also changed by others; read it again]"), "{said}");
}

#[tokio::test]
async fn a_staged_file_that_others_removed_or_replaced_is_in_doubt() {
    let room = room();
    let call = Call::intend(&room, "Write", json!({ "path": "old.txt", "content": "new" })).await;
    let aside = room.volume.path().join("aside");
    std::fs::rename(call.staged(&room), &aside).expect("a command moves it");
    assert_eq!(call.verdict().await, Verdict::InDoubt, "the file that it replaces is untouched");
    let error = call.make().await.expect_err("nothing to rename").to_string();
    assert!(error.contains("nothing was written: its temporary file"), "{error}");
    std::fs::write(call.staged(&room), "forged").expect("a command makes it");
    assert_eq!(call.verdict().await, Verdict::InDoubt, "another file under its name");
    assert!(call.make().await.is_err());
    assert_eq!(room.get("old.txt"), "old");
    // In a directory of another identity, such as that of a file system that is not mounted, nothing says anything.
    let call = Call::intend(&room, "Write", json!({ "path": "new/x", "content": "new" })).await;
    call.make().await.expect("it works");
    let other = Room::new();
    let moved = ToolContext { volumes: other.context().volumes, ..call.context.clone() };
    assert_eq!(Call { context: moved, ..call }.verdict().await, Verdict::InDoubt);
}

#[tokio::test]
async fn nothing_but_the_staged_file_is_made_before_the_intent_and_searches_do_not_show_it() {
    let room = room();
    let call = Call::intend(&room, "Write", json!({ "path": "deep/er/x.txt", "content": "new-content" })).await;
    assert!(call.staged(&room).exists() && !room.volume.path().join("deep").exists());
    let glob = room.done("Glob", json!({ "pattern": "**", "hidden": true })).await;
    assert_eq!(glob, "old.txt");
    let grep = room.done("Grep", json!({ "pattern": "new-content", "hidden": true })).await;
    assert_eq!(grep, "[no matches]");
    assert_eq!(call.make().await.expect("it works"), "wrote 11 bytes to deep/er/x.txt (created the directory deep/er)");
    assert_eq!(entries(&room), 2);
}

#[tokio::test]
async fn staged_files_are_removed_when_the_result_is_journaled_and_not_before() {
    let room = room();
    let call = Call::intend(&room, "Edit", json!({ "path": "old.txt", "old_string": "old", "new_string": "n" })).await;
    room.put("old.txt", "changed");
    assert!(call.make().await.is_err(), "there is nothing to replace any more");
    assert!(call.staged(&room).exists(), "a crash now must not read as success");
    call.discard().await;
    assert_eq!(entries(&room), 1);
    // One whose call was never journaled is found by its note.
    let call = Call::intend(&room, "Write", json!({ "path": "a/b", "content": "x" })).await;
    let left = leftovers(&room.temporary.path().join("staged")).expect("the notes");
    assert_eq!((left.len(), &left[0].run, left[0].call), (1, &call.context.run, call.context.call));
    left[0].remove(Some(&std::fs::File::open(room.volume.path()).expect("the volume"))).expect("removed");
    assert_eq!(entries(&room), 1);
    assert!(leftovers(&room.temporary.path().join("staged")).expect("the notes").is_empty());
}

#[tokio::test]
async fn evidence_of_older_versions_proves_only_what_it_can() {
    let room = room();
    let evidence = json!({ "before": Digest::of(b"old"), "after": Digest::of(b"new"), "said": "wrote it" });
    let mut call = Call::intend(&room, "Write", json!({ "path": "old.txt", "content": "new" })).await;
    call.context.evidence = Some(evidence);
    assert_eq!(call.verdict().await, Verdict::InDoubt, "it may have been written and changed back");
    room.put("old.txt", "new");
    assert_eq!(call.verdict().await, Verdict::Happened("wrote it".into()));
}

#[tokio::test]
async fn a_full_disk_or_a_directory_that_cannot_be_written_fails_the_call() {
    let room = room();
    std::fs::create_dir(room.volume.path().join("dir")).expect("a directory");
    let context = room.context();
    // A directory in the place of the staged file cannot be removed as a file, which root may not do either.
    let name = format!("dir/.drawloom-{}-{}.tmp", context.run.run, context.call + 1);
    std::fs::create_dir(room.volume.path().join(name)).expect("a directory");
    let error = room.fails("Write", json!({ "path": "dir/x", "content": "x" })).await;
    assert!(error.starts_with("dir/x: "), "{error}");
    assert!(!room.volume.path().join("dir/x").exists());
}

fn masked(value: &Value) -> Value {
    serde_json::from_str(&value.to_string().replace("s3cret", MASK)).expect("JSON")
}

/// The intent is journaled with secrets masked, so that its path may lead nowhere. What was staged is found all the same.
#[tokio::test]
async fn what_was_staged_is_removed_also_when_its_path_was_masked() {
    let room = room();
    room.put("s3cret/old.txt", "old");
    for (name, input) in [
        ("Write", json!({ "path": "s3cret/new.txt", "content": "new" })),
        ("Edit", json!({ "path": "s3cret/old.txt", "old_string": "old", "new_string": "new" })),
    ] {
        let mut call = Call::intend(&room, name, input).await;
        call.input = masked(&call.input);
        call.context.evidence = call.context.evidence.as_ref().map(masked);
        call.discard().await;
        assert_eq!(std::fs::read_dir(room.volume.path().join("s3cret")).expect("the directory").count(), 1, "{name}");
        assert!(leftovers(&room.temporary.path().join("staged")).expect("the notes").is_empty(), "{name}");
    }
}
