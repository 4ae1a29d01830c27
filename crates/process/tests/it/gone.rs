//! After drawloom was killed: waiting until nothing of its command runs any more.

use std::{process::Stdio, time::Duration};

use drawloom_process::{Remains, until_gone};

use drawloom_testkit::TestClock;

use crate::support::{HANGS, Room, program};

#[tokio::test]
async fn the_lock_is_held_until_everything_that_the_command_started_is_gone() {
    // It ignores the request to end and writes until it is killed.
    let script = "trap '' TERM; i=0; while :; do i=$((i+1)); echo $i > written; done";
    let room = Room::new();
    let private = room.private();
    assert_eq!(until_gone(&private, Duration::ZERO, &TestClock::default()).await, Remains::Nothing);
    let mut parent = tokio::process::Command::new(program())
        .args(["parent".as_ref(), room.volume.path().as_os_str(), private.as_os_str()])
        .args([&room.mark, script])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the parent");
    room.until_alive(|count| count >= 1).await;
    let wrote = async {
        while !room.volume.path().join("written").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANGS, wrote).await.expect("it writes");
    assert_eq!(until_gone(&private, Duration::ZERO, &TestClock::default()).await, Remains::Running);
    parent.start_kill().expect("SIGKILL");
    parent.wait().await.expect("its end");
    assert_eq!(until_gone(&private, HANGS, &TestClock::default()).await, Remains::Nothing);
    let written = || std::fs::read_to_string(room.volume.path().join("written")).expect("it wrote");
    let last = written();
    assert_eq!(room.alive(), Vec::<String>::new(), "nothing is left that could write");
    assert_eq!(written(), last);
}
