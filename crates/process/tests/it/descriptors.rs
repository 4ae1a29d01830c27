//! What drawloom's caller has open reaches no child.

use std::{fs::File, os::fd::AsRawFd as _, time::Duration};

use drawloom_process::{Confined, Network, Service};
use drawloom_testkit::{TestClock, files::appears};
use rustix::{
    fs::{FlockOperation, flock},
    io::{FdFlags, fcntl_setfd},
};
use tokio::io::AsyncReadExt as _;

use crate::support::{Room, launcher};

/// Names what a process has open, and tries to read from the descriptor of the test.
const SCRIPT: &str = "for fd in /proc/$$/fd/*; do readlink $fd; done; cat /proc/$$/fd/NUMBER 2>/dev/null; echo end";

/// A file that every program gets which this process starts, as from a shell that redirects a descriptor.
fn inherited(room: &Room) -> File {
    let path = room.temporary.path().join("secret");
    std::fs::write(&path, "canary").expect("a file");
    let file = File::open(path).expect("the file");
    fcntl_setfd(&file, FdFlags::empty()).expect("it can be inherited");
    flock(&file, FlockOperation::NonBlockingLockExclusive).expect("nobody else has it");
    file
}

#[tokio::test]
async fn no_command_and_no_service_gets_what_the_caller_has_open() {
    let room = Room::new();
    let file = inherited(&room);
    let script = SCRIPT.replace("NUMBER", &file.as_raw_fd().to_string());
    for confined in [Confined::Yes, Confined::No] {
        let mut command = room.command(&script);
        (command.confined, command.network) = (confined, Network::Host);
        // A launcher of its own: it is started while the file is open.
        let finished = room.run_by(&launcher(), &command).await.expect("it runs");
        let text = finished.output.into_text();
        assert!(!text.contains("secret") && !text.contains("canary"), "{confined:?}: {text}");
        assert_eq!(text.lines().filter(|line| *line != "end").count(), 3, "{confined:?}: {text}");
    }
    let service = Service {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script],
        directory: None,
        environment: Vec::new(),
        grace: Duration::from_millis(100),
    };
    let mut serving = launcher().serve(&service).await.expect("it starts");
    let mut text = String::new();
    serving.output.read_to_string(&mut text).await.expect("it can be read");
    assert!(text.ends_with("end\n") && !text.contains("secret") && !text.contains("canary"), "{text}");
    serving.watch.ended(&TestClock::default()).await;
}

#[tokio::test]
async fn a_lock_of_the_caller_is_free_when_the_caller_lets_go_of_it() {
    let room = Room::new();
    let file = inherited(&room);
    let path = room.temporary.path().join("secret");
    let launcher = launcher();
    let mut command = room.command("touch begun; while [ ! -e go ]; do sleep 0.02; done");
    command.network = Network::Host;
    let clock = TestClock::default();
    let beside = async {
        appears(&room.volume.path().join("begun")).await;
        drop(file);
        // Programs that other tests are just starting have it until they have closed it. A thread of its own waits for the lock, so that
        // one that is never free does not keep the test from ending.
        let (sender, free) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let file = File::open(&path).expect("the file");
            // Nobody waits any more after the timeout.
            _ = sender.send(flock(file, FlockOperation::LockExclusive));
        });
        let freed = tokio::time::timeout(crate::support::HANGS, free).await;
        std::fs::write(room.volume.path().join("go"), "").expect("a file");
        freed.expect("no child holds the lock").expect("an answer").expect("a lock");
    };
    let (finished, ()) = tokio::join!(launcher.run(&command, &clock), beside);
    finished.expect("it runs");
}
