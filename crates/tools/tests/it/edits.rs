//! `Write` and `Edit`.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use drawloom_contract::tool::{Mode, Step};
use serde_json::json;

use crate::support::Room;

#[tokio::test]
async fn write_makes_directories_and_keeps_permissions() {
    let room = Room::new();
    let said = room.done("Write", json!({ "path": "a/b/c.txt", "content": "new" })).await;
    assert_eq!(said, "wrote 3 bytes to a/b/c.txt (created the directory a/b)");
    let path = room.volume.path().join("a/b/c.txt");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).expect("permissions");
    assert_eq!(
        room.done("Write", json!({ "path": "a/b/c.txt", "content": "newer" })).await,
        "wrote 5 bytes to a/b/c.txt"
    );
    assert_eq!(std::fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o750);
    let said = room.done("Edit", json!({ "path": "a/b/c.txt", "old_string": "newer", "new_string": "newest" })).await;
    assert!(said.starts_with("replaced 1 occurrence in a/b/c.txt"), "{said}");
    assert_eq!(std::fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o750);
    assert_eq!(
        std::fs::read_dir(path.parent().expect("a parent")).expect("the directory").count(),
        1,
        "nothing else stays"
    );
    let error = room.fails("Write", json!({ "path": "big", "content": "x".repeat(1024 * 1024 + 1) })).await;
    assert!(error.contains("the limit is 1048576"), "{error}");
    assert!(room.fails("Write", json!({ "path": "a", "content": "x" })).await.contains("directory"));
}

#[tokio::test]
async fn a_link_inside_the_volume_stays_a_link() {
    let room = Room::new();
    room.put("real", "text");
    std::os::unix::fs::symlink("real", room.volume.path().join("link")).expect("a link");
    room.done("Write", json!({ "path": "link", "content": "written" })).await;
    room.done("Edit", json!({ "path": "link", "old_string": "written", "new_string": "edited" })).await;
    assert_eq!(room.get("real"), "edited");
    assert!(std::fs::symlink_metadata(room.volume.path().join("link")).expect("the link").is_symlink());
}

#[tokio::test]
async fn edit_replaces_one_place_or_all_and_shows_what_is_there_now() {
    let room = Room::new();
    room.put("a.rs", "fn one() {}\nfn two() {}\nfn three() {}\nfn four() {}\nfn five() {}\nfn six() {}\n");
    let said =
        room.done("Edit", json!({ "path": "a.rs", "old_string": "fn five() {}", "new_string": "fn 5() {\n}" })).await;
    assert_eq!(
        said,
        "replaced 1 occurrence in a.rs; it now reads\n     2\tfn two() {}\n     3\tfn three() {}\n     4\tfn four() {}\n     \
         5\tfn 5() {\n     6\t}\n     7\tfn six() {}"
    );
    let error = room.fails("Edit", json!({ "path": "a.rs", "old_string": "fn ", "new_string": "def " })).await;
    assert_eq!(
        error,
        "a.rs: old_string occurs 6 times (lines 1, 2, 3, 4, 5, 7); include more surrounding text, or set replace_all"
    );
    let said = room
        .done("Edit", json!({ "path": "a.rs", "old_string": "fn ", "new_string": "def ", "replace_all": true }))
        .await;
    assert!(said.starts_with("replaced 6 occurrences in a.rs"), "{said}");
    assert!(room.get("a.rs").starts_with("def one() {}\ndef two"));
    for (old, says) in [
        ("  def two() {}", "line 2 matches its first line, but the whitespace"),
        ("def tow() {}", "the closest match is line 2: \"def two() {}\""),
    ] {
        let error = room.fails("Edit", json!({ "path": "a.rs", "old_string": old, "new_string": "x" })).await;
        assert!(error.contains(says), "{error}");
    }
    let far = room.fails("Edit", json!({ "path": "a.rs", "old_string": "zzzz", "new_string": "x" })).await;
    assert_eq!(far, "a.rs: old_string not found");
    for bad in [
        json!({ "path": "a.rs", "old_string": "", "new_string": "x" }),
        json!({ "path": "a.rs", "old_string": "x", "new_string": "x" }),
    ] {
        room.fails("Edit", bad).await;
    }
    room.put("large", "x".repeat(1024 * 1024 + 1));
    assert!(
        room.fails("Edit", json!({ "path": "large", "old_string": "y", "new_string": "z" }))
            .await
            .contains("the limit for Edit")
    );
    room.put("binary", [b'a', 0xff]);
    assert!(
        room.fails("Edit", json!({ "path": "binary", "old_string": "a", "new_string": "b" })).await.contains("UTF-8")
    );
}

#[tokio::test]
async fn edit_follows_the_line_ends_of_the_file() {
    let room = Room::new();
    room.put("w", "one\r\ntwo\r\nthree\r\n");
    room.done("Edit", json!({ "path": "w", "old_string": "one\ntwo", "new_string": "1\n2" })).await;
    room.done("Edit", json!({ "path": "w", "old_string": "three", "new_string": "3\n4" })).await;
    assert_eq!(room.get("w"), "1\r\n2\r\n3\r\n4\r\n");
    // Where both are in one file, the place decides.
    room.put("m", "a\r\nb\nc\r\nb");
    let both = json!({ "path": "m", "old_string": "b", "new_string": "x\ny", "replace_all": true });
    room.done("Edit", both).await;
    assert_eq!(room.get("m"), "a\r\nx\ny\nc\r\nx\r\ny");
    room.done("Edit", json!({ "path": "m", "old_string": "a", "new_string": "1\n2" })).await;
    assert_eq!(room.get("m"), "1\r\n2\r\nx\ny\nc\r\nx\r\ny");
}

#[tokio::test]
async fn a_read_only_volume_is_not_changed() {
    let mut room = Room::new();
    room.put("a", "old");
    room.mode = Mode::ReadOnly;
    assert!(room.fails("Write", json!({ "path": "b", "content": "x" })).await.contains("read-only"));
    let edit = json!({ "path": "a", "old_string": "old", "new_string": "new" });
    assert!(room.fails("Edit", edit).await.contains("read-only"));
    let bash = room.call("Bash", json!({ "command": "echo new > a" })).await;
    assert!(!matches!(bash, Ok(Step::Done(ref answer)) if answer.text.contains("exit code 0")), "{bash:?}");
    assert_eq!(room.get("a"), "old");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_of_one_file_wait_for_each_other_and_none_is_lost() {
    let room = Room::new();
    std::fs::create_dir(room.volume.path().join("sub")).expect("a directory");
    std::os::unix::fs::symlink("../a.txt", room.volume.path().join("sub/link")).expect("a link");
    room.put("a.txt", (0..32).map(|number| format!("<{number}>\n")).collect::<String>());
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..32 {
        let call = room.call_later("Edit");
        // The same file by another name, too.
        let path = if number % 2 == 0 { "a.txt" } else { "sub/link" };
        let input = json!({ "path": path, "old_string": format!("<{number}>"), "new_string": format!("[{number}]") });
        calls.spawn(call(input));
    }
    let ended = calls.join_all().await;
    assert!(ended.iter().all(|ended| matches!(ended, Ok(Step::Done(_)))), "{ended:?}");
    assert_eq!(room.get("a.txt"), (0..32).map(|number| format!("[{number}]\n")).collect::<String>());
}

#[tokio::test]
async fn what_is_no_regular_file_is_neither_waited_for_nor_replaced() {
    let room = Room::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, room.volume.path().join("pipe"), rustix::fs::Mode::RWXU).expect("a pipe");
    let _socket = std::os::unix::net::UnixListener::bind(room.volume.path().join("socket")).expect("a socket");
    for path in ["pipe", "socket"] {
        for (name, input) in [
            ("Write", json!({ "path": path, "content": "x" })),
            ("Edit", json!({ "path": path, "old_string": "x", "new_string": "y" })),
        ] {
            let error = room.fails(name, input).await;
            assert!(error.contains("not a regular file"), "{name} {path}: {error}");
        }
    }
    std::fs::File::create(room.volume.path().join("huge")).expect("a file").set_len(1 << 40).expect("a sparse file");
    let error = room.fails("Write", json!({ "path": "huge", "content": "x" })).await;
    assert!(error.contains("more than 67108864 bytes"), "{error}");
    assert!(
        room.fails("Edit", json!({ "path": "huge", "old_string": "x", "new_string": "y" }))
            .await
            .contains("the limit for Edit")
    );
}

#[tokio::test]
async fn the_owner_stays_the_right_to_run_as_him_does_not_and_other_names_are_said() {
    let room = Room::new();
    room.put("a", "old");
    let path = room.volume.path().join("a");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(12345), Some(23456)).expect("root may");
    }
    let owner = |path: &std::path::Path| std::fs::metadata(path).map(|found| (found.uid(), found.gid())).expect("it");
    let before = owner(&path);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o6755)).expect("permissions");
    std::fs::hard_link(&path, room.volume.path().join("b")).expect("a hard link");
    let said = room.done("Edit", json!({ "path": "a", "old_string": "old", "new_string": "new" })).await;
    assert!(said.ends_with("[the file had 1 other hard links; they keep the old content]"), "{said}");
    assert_eq!((room.get("a"), room.get("b")), ("new".into(), "old".into()));
    assert_eq!(owner(&path), before);
    assert_eq!(std::fs::metadata(&path).expect("the file").permissions().mode() & 0o7777, 0o755);
    let said = room.done("Write", json!({ "path": "b", "content": "newer" })).await;
    assert_eq!((said.as_str(), owner(&room.volume.path().join("b"))), ("wrote 5 bytes to b", before));
}
