//! `Bash`.

use std::time::Duration;

use drawloom_contract::tool::Repeat;
use drawloom_process::{Landlock, landlock_status};
use serde_json::json;

use crate::support::{HANGS, Room};

#[tokio::test]
async fn a_command_runs_in_the_volume_and_its_end_is_told() {
    let room = Room::new();
    room.put("a.txt", "text\n");
    assert_eq!(
        room.done("Bash", json!({ "command": "cat a.txt; echo oops >&2; exit 3" })).await,
        "text\noops\n[exit code 3]"
    );
    assert_eq!(room.done("Bash", json!({ "command": "true" })).await, "[no output]\n[exit code 0]");
    assert_eq!(room.done("Bash", json!({ "command": "printf x; kill -9 $$" })).await, "x\n[ended by signal 9]");
    assert_eq!(
        room.done("Bash", json!({ "command": "sleep 1000 & sleep 1000 & echo on" })).await,
        "on\n[exit code 0]\n[2 processes that it had left running were ended]"
    );
    assert_eq!(
        room.done("Bash", json!({ "command": "printf 'a\\0b\\377'" })).await,
        "a\u{fffd}b\u{fffd}\n[exit code 0]\n[what is not text in the output is shown as \u{fffd}]"
    );
    assert_eq!(std::fs::read_dir(room.temporary.path()).expect("the directory").count(), 0, "nothing temporary stays");
    assert!(matches!(room.tool("Bash").repeat(), Repeat::Never));
}

#[tokio::test]
async fn only_what_the_operator_lists_is_in_its_environment() {
    let mut room = Room::new();
    let command = json!({ "command": "echo $PATH $LANG; echo ${SECRET:-none}; echo ${CARGO_MANIFEST_DIR:-none}" });
    assert_eq!(room.done("Bash", command.clone()).await, "/usr/bin:/bin C.UTF-8\nnone\nnone\n[exit code 0]");
    room.config.bash.env = vec!["SECRET".into(), "NOT_SET".into()];
    assert_eq!(room.done("Bash", command).await, "/usr/bin:/bin C.UTF-8\ns3cret\nnone\n[exit code 0]");
}

#[tokio::test]
async fn time_and_output_have_limits_that_are_told() {
    let mut room = Room::new();
    let slow = room.done("Bash", json!({ "command": "echo begun; sleep 1000", "timeout_seconds": 1 })).await;
    assert_eq!(slow, "begun\n[killed after 1 s: it took too long; ask for more with timeout_seconds]");
    let long = room
        .done("Bash", json!({ "command": "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last" }))
        .await;
    assert!(long.starts_with("first\nxxx") && long.ends_with("xxx\nlast\n[exit code 0]"));
    assert!(long.contains("\n[cut: 1951436 bytes are left out here]\n"), "{:?}", long.lines().nth(2));
    assert!(long.len() < 1024 * 1024 + 200);
    room.config.bash.max_timeout_seconds = 10;
    for bad in [
        json!({ "command": "true", "timeout_seconds": 11 }),
        json!({ "command": "true", "timeout_seconds": 0 }),
        json!({ "command": " " }),
    ] {
        room.fails("Bash", bad).await;
    }
}

#[tokio::test]
async fn dropping_the_call_answers_at_once_and_ends_the_command() {
    let room = Room::new();
    let (tool, context) = (room.tool("Bash"), room.context());
    let command =
        json!({ "command": "trap '' TERM; (setsid sleep 1000 &); echo $$ > started; while :; do sleep 1; done" });
    let call = tokio::spawn(async move { tool.call(&context, command).await });
    let started = room.volume.path().join("started");
    let until = |done: Box<dyn Fn() -> bool>| async move {
        let wait = async {
            while !done() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(HANGS, wait).await.expect("it happens");
    };
    let path = started.clone();
    until(Box::new(move || std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')))).await;
    call.abort();
    assert!(call.await.expect_err("it was dropped").is_cancelled());
    let pid = std::fs::read_to_string(&started).expect("a number").trim().to_owned();
    until(Box::new(move || !std::path::Path::new("/proc").join(&pid).exists())).await;
    let temporary = room.temporary.path().to_owned();
    until(Box::new(move || std::fs::read_dir(&temporary).expect("the directory").count() == 0)).await;
}

#[tokio::test]
async fn what_the_operator_opens_is_open_and_nothing_else() {
    if !matches!(landlock_status(), Landlock::On(_)) {
        return crate::support::report("not tried: this kernel has no Landlock");
    }
    let mut room = Room::new();
    let (readable, writable) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    std::fs::write(readable.path().join("tool"), "read me\n").expect("a file");
    let (from, to) = (readable.path().display(), writable.path().display());
    let command = json!({ "command": format!("cat {from}/tool; echo x > {to}/new; echo y > {from}/new") });
    let closed = room.done("Bash", command.clone()).await;
    assert!(!closed.contains("read me") && !writable.path().join("new").exists(), "{closed}");
    room.config.bash.readable_paths = vec![readable.path().to_owned()];
    room.config.bash.writable_paths = vec![writable.path().to_owned()];
    let open = room.done("Bash", command).await;
    assert!(open.contains("read me") && writable.path().join("new").exists(), "{open}");
    assert!(!readable.path().join("new").exists());
}
