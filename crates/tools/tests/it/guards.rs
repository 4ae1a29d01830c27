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
            assert!(refused.contains("config file of the server; agents may read it but not change it"), "{refused}");
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
            assert!(refused.contains("agents may neither read nor write this file"), "{tool} {path}: {refused}");
        }
    }
    let grep = json!({ "pattern": "s3cret-of-env", "output_mode": "content", "hidden": true });
    let found = room.done("Grep", grep).await;
    assert_eq!(
        found,
        "conf/other.txt:1:other s3cret-of-env\n[links not followed: 1]\n[files that the server protects from agents, left out: 2]"
    );
    let found = room.done("Glob", json!({ "pattern": "**", "hidden": true })).await;
    assert!(
        !found.contains(".env") && found.contains("[files that the server protects from agents, left out: 2]"),
        "{found}"
    );
    assert_eq!(room.get("conf/.env"), "KEY=s3cret-of-env\n");
}

#[tokio::test]
async fn an_environment_file_that_does_not_exist_cannot_be_made() {
    let room = room();
    symlink("conf", room.volume.path().join("link")).expect("a link");
    for path in ["conf/.env", "link/.env", "conf/.ENV", "conf/.env/x", "link/.env/deep/x"] {
        let refused = room.fails("Write", json!({ "path": path, "content": "x" })).await;
        assert!(refused.contains("agents may neither read nor write this file"), "{path}: {refused}");
    }
    assert_eq!(std::fs::read_dir(room.volume.path().join("conf")).expect("the directory").count(), 2);
    room.done("Write", json!({ "path": "elsewhere/.env", "content": "x" })).await;
}
