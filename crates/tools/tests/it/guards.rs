//! Files that the server protects from agents: its config is read only, the `.env` beside it is neither read nor made.

use std::{fs::File, os::unix::fs::symlink, path::Path, sync::Arc};

use drawloom_contract::tool::{Guard, Guarded};
use serde_json::json;

use crate::support::Room;

/// A volume with a config in it that is protected like the server's own.
fn room() -> Room {
    let mut room = Room::new();
    room.put("conf/drawloom.yaml", "agents: {}\n");
    room.put("conf/other.txt", "other s3cret-of-env\n");
    let directory = Arc::new(File::open(room.volume.path().join("conf")).expect("the directory"));
    let guarded = |name: &str, rule| Guarded {
        directory: directory.clone(),
        name: name.into(),
        path: Some(Path::new("conf").join(name)),
        rule,
    };
    room.guarded = [guarded("drawloom.yaml", Guard::ReadOnly), guarded(".env", Guard::Hidden)].into();
    room
}

#[tokio::test]
async fn the_config_can_be_read_and_not_changed() {
    let room = room();
    let root = room.volume.path();
    symlink("conf", root.join("link")).expect("a link");
    symlink("conf/drawloom.yaml", root.join("direct")).expect("a link");
    std::fs::hard_link(root.join("conf/drawloom.yaml"), root.join("hard")).expect("a hard link");
    let names = ["conf/drawloom.yaml", "link/drawloom.yaml", "direct", "hard"];
    for path in names {
        assert!(room.done("Read", json!({ "path": path })).await.contains("agents"), "{path}");
        let write = room.fails("Write", json!({ "path": path, "content": "x" })).await;
        let edit = json!({ "path": path, "old_string": "agents", "new_string": "x" });
        for refused in [write, room.fails("Edit", edit).await] {
            assert!(refused.contains("config file of the server; agents can read it but not change it"), "{refused}");
        }
    }
    assert_eq!(room.get("conf/drawloom.yaml"), "agents: {}\n");
    // The same file after a directory above it was renamed, and what is made at its old path.
    std::fs::rename(root.join("conf"), root.join("moved")).expect("a renamed directory");
    assert!(
        room.fails("Write", json!({ "path": "moved/drawloom.yaml", "content": "x" })).await.contains("config file")
    );
}

#[tokio::test]
async fn the_environment_file_is_not_read_by_any_name() {
    let room = room();
    let root = room.volume.path();
    room.put("conf/.env", "KEY=s3cret-of-env\n");
    symlink("conf/.env", root.join("direct")).expect("a link");
    std::fs::hard_link(root.join("conf/.env"), root.join("hard")).expect("a hard link");
    for path in ["conf/.env", "direct", "hard", "./conf/../conf/.env"] {
        for (tool, input) in [
            ("Read", json!({ "path": path })),
            ("Read", json!({ "path": path, "bytes": true })),
            ("Grep", json!({ "path": path, "pattern": "s3cret", "output_mode": "content" })),
            ("Write", json!({ "path": path, "content": "x" })),
            ("Edit", json!({ "path": path, "old_string": "KEY", "new_string": "x" })),
        ] {
            let refused = room.fails(tool, input).await;
            assert!(refused.contains("agents cannot read or write this file"), "{tool} {path}: {refused}");
        }
    }
    let grep = json!({ "pattern": "s3cret-of-env", "output_mode": "content", "hidden": true });
    let found = room.done("Grep", grep).await;
    assert_eq!(
        found,
        "conf/other.txt:1:other s3cret-of-env\n[symlinks not followed: 1]\n[files protected by the server, skipped: 2]"
    );
    let found = room.done("Glob", json!({ "pattern": "**", "hidden": true })).await;
    assert!(!found.contains(".env") && found.contains("[files protected by the server, skipped: 2]"), "{found}");
    assert_eq!(room.get("conf/.env"), "KEY=s3cret-of-env\n");
}

#[tokio::test]
async fn an_environment_file_that_does_not_exist_cannot_be_made() {
    let room = room();
    symlink("conf", room.volume.path().join("link")).expect("a link");
    for path in ["conf/.env", "link/.env", "conf/.ENV", "conf/.env/x", "link/.env/deep/x"] {
        let refused = room.fails("Write", json!({ "path": path, "content": "x" })).await;
        assert!(refused.contains("agents cannot read or write this file"), "{path}: {refused}");
    }
    assert_eq!(std::fs::read_dir(room.volume.path().join("conf")).expect("the directory").count(), 2);
    room.done("Write", json!({ "path": "elsewhere/.env", "content": "x" })).await;
}

/// A folder that the server reads agents from, in a volume that agents may change.
#[tokio::test]
async fn nothing_in_a_protected_folder_is_changed_or_made_by_any_way_there() {
    let mut room = Room::new();
    room.put("proj/.claude/agents/a.md", "text\n");
    room.put("proj/other.txt", "text\n");
    let root = room.volume.path().to_owned();
    room.guarded = [Guarded {
        directory: Arc::new(File::open(root.join("proj")).expect("the directory")),
        name: ".claude".into(),
        path: Some("proj/.claude".into()),
        rule: Guard::ReadOnly,
    }]
    .into();
    symlink("proj/.claude/agents", root.join("link")).expect("a link");
    symlink("proj/.claude", root.join("whole")).expect("a link");
    for path in [
        "proj/.claude/agents/a.md",
        "proj/.claude/agents/new.md",
        "proj/.claude/skills/new/SKILL.md",
        "link/a.md",
        "link/new.md",
        "whole/deep/er/new.md",
    ] {
        let refused = room.fails("Write", json!({ "path": path, "content": "x" })).await;
        assert!(refused.contains("agents can read it but not change it"), "{path}: {refused}");
    }
    let edit = json!({ "path": "link/a.md", "old_string": "text", "new_string": "x" });
    assert!(room.fails("Edit", edit).await.contains("not change it"));
    for command in [
        "echo x > proj/.claude/agents/a.md",
        "echo x > proj/.claude/agents/new.md",
        "mkdir proj/.claude/skills",
        "rm -r proj/.claude",
        "mv proj/.claude proj/moved",
        "mv proj gone",
        "echo x > link/new.md",
    ] {
        room.fails("Bash", json!({ "command": command })).await;
    }
    assert_eq!(room.get("proj/.claude/agents/a.md"), "text\n");
    assert_eq!(std::fs::read_dir(root.join("proj/.claude/agents")).expect("the folder").count(), 1);
    assert_eq!(std::fs::read_dir(root.join("proj/.claude")).expect("the folder").count(), 1);
    assert_eq!(room.done("Read", json!({ "path": "link/a.md" })).await.trim_end().lines().count(), 1);
    room.done("Write", json!({ "path": "proj/other.txt", "content": "x" })).await;
    room.done("Bash", json!({ "command": "echo y > proj/other.txt && cat proj/.claude/agents/a.md" })).await;
}
