//! What a command gets, what it gives back, and how its end is told.

use std::time::Duration;

use drawloom_process::{End, Error, Landlock, Launcher, Limits};

use crate::support::{Room, TestClock};

#[tokio::test]
async fn output_comes_in_the_order_of_writing_and_the_code_is_told() {
    let room = Room::new();
    let finished = room.shell("echo one; echo two >&2; echo three; exit 7").await;
    assert_eq!(finished.end, End::Exited(7));
    assert_eq!(finished.output.into_text(), "one\ntwo\nthree\n");
    assert_eq!((finished.left, finished.trouble), (0, None));
    let killed = room.shell("kill -USR1 $$").await;
    assert_eq!(killed.end, End::Signalled(10));
}

#[tokio::test]
async fn nothing_of_our_environment_is_inherited_and_input_is_empty() {
    let room = Room::new();
    let text = room.shell("cat; env | grep -v '^\\(_\\|PWD\\|SHLVL\\|OLDPWD\\)=' | sort").await.output.into_text();
    let private = room.temporary.path().join("private");
    let (private, mark) = (private.display(), &room.mark);
    assert_eq!(text, format!("HOME={private}\nMARK={mark}\nPATH=/usr/bin:/bin\nTMPDIR={private}\n"));
}

#[tokio::test]
async fn it_runs_in_its_directory_and_its_temporary_one_is_gone_afterwards() {
    let room = Room::new();
    let text = room.shell("pwd -P; echo x > here; echo y > $TMPDIR/there; stat -c %a $TMPDIR").await.output.into_text();
    assert_eq!(text, format!("{}\n700\n", room.volume.path().canonicalize().expect("a path").display()));
    assert!(room.volume.path().join("here").exists());
    assert_eq!(std::fs::read_dir(room.temporary.path()).expect("the directory").count(), 0);
}

#[tokio::test]
async fn a_gigabyte_of_output_leaves_its_ends_and_says_what_is_missing() {
    let room = Room::new();
    let finished = room.shell("echo begin; head -c 1000000000 /dev/zero; echo; echo end").await;
    assert_eq!(finished.end, End::Exited(0));
    let kept = (finished.output.head.len() + finished.output.tail.len()) as u64;
    assert_eq!((kept, kept + finished.output.missing), (64 * 1024, 1_000_000_011));
    assert!(finished.output.head.starts_with(b"begin\n") && finished.output.tail.ends_with(b"\nend\n"));
}

#[tokio::test]
async fn limits_hold_and_there_are_no_core_dumps() {
    let room = Room::new();
    let mut command = room.command("ulimit -c; ulimit -n; head -c 2000000 /dev/zero > big; stat -c %s big");
    command.limits = Limits { file_bytes: Some(1_000_000), open_files: Some(40), ..Limits::default() };
    let text = room.run(&command).await.expect("it runs").output.into_text();
    assert!(text.starts_with("0\n40\n") && text.ends_with("1000000\n"), "{text}");
}

#[tokio::test]
async fn what_takes_too_long_is_asked_to_end_and_then_killed() {
    let room = Room::new();
    let mut polite = room.command("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done");
    polite.time_limit = Duration::from_millis(500);
    let finished = room.run(&polite).await.expect("it runs");
    assert_eq!(finished.end, End::TimedOut);
    assert!(finished.output.into_text().ends_with("bye\n"));
    let mut deaf = room.command("trap '' TERM; echo up; while :; do sleep 0.05; done");
    deaf.time_limit = Duration::from_millis(500);
    assert_eq!(room.run(&deaf).await.expect("it runs").end, End::TimedOut);
    assert_eq!(room.alive(), Vec::<String>::new());
}

#[tokio::test]
async fn what_ends_by_itself_kept_its_time_whatever_it_leaves() {
    let room = Room::new();
    let mut command = room.command("setsid sh -c 'trap \"\" TERM; echo up; sleep 1000; sleep 1000' & exit 3");
    (command.time_limit, command.grace) = (Duration::from_secs(2), Duration::from_secs(4));
    let finished = room.run(&command).await.expect("it runs");
    assert_eq!(finished.end, End::Exited(3));
    assert!(finished.left > 0);
}

#[tokio::test]
async fn what_cannot_be_started_is_an_error_that_says_why() {
    let room = Room::new();
    let mut command = room.command("");
    command.program = "/no/such/program".into();
    let error = room.run(&command).await.expect_err("there is none");
    assert!(matches!(&error, Error::Refused { reason } if reason.contains("/no/such/program")), "{error}");
    assert_eq!(std::fs::read_dir(room.temporary.path()).expect("the directory").count(), 0);
    let mut command = room.command("true");
    command.environment.push(("A=B".into(), "c".into()));
    assert!(matches!(room.run(&command).await, Err(Error::Unsendable { .. })));
    let nowhere = Launcher { program: "/no/launcher".into(), args: vec![] };
    let error = nowhere.run(&room.command("true"), &TestClock::default()).await.expect_err("there is none");
    assert!(matches!(error, Error::Launcher { .. }), "{error}");
}

#[tokio::test]
async fn how_far_it_was_confined_is_told() {
    let room = Room::new();
    let finished = room.shell("true").await;
    assert_eq!(finished.landlock, drawloom_process::landlock_status());
    assert_eq!(finished.landlock.notice().is_some(), !matches!(finished.landlock, Landlock::On(6..)));
}
