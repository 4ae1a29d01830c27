//! What a command may try in order to outlive its end, and what it needs in order to work.

use std::{os::unix::process::ExitStatusExt, process::Stdio, time::Duration};

use drawloom_process::{Access, End, Error, Layer};

use drawloom_testkit::TestClock;

use crate::support::{HANGS, Room, count, launcher, program};

/// Ways to leave something behind: what it is, the script, and whether it ends by itself.
const SURVIVORS: &[(&str, &str, bool)] = &[
    ("a background child that holds the output", "sleep 1000 & echo done", true),
    ("a background child of a background child", "sh -c 'sleep 1000 & sleep 1000' & echo done", true),
    ("a session of its own", "setsid sleep 1000 & echo done", true),
    ("a daemon by double fork", "setsid sh -c '(sleep 1000 &) & exit 0' & wait; echo done", true),
    ("nohup", "nohup sleep 1000 >/dev/null 2>&1 & echo done", true),
    (
        "a daemon that ignores SIGTERM",
        "setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' & echo done",
        true,
    ),
    ("a stopped process", "sleep 1000 & kill -STOP $!; echo done", true),
    ("a hundred processes", "i=0; while [ $i -lt 100 ]; do setsid sleep 1000 & i=$((i+1)); done; echo done", true),
    ("closed output", "exec >&- 2>&-; sleep 1000", false),
    ("SIGTERM ignored", "trap '' TERM; while :; do sleep 0.1; done", false),
    ("SIGTERM ignored by a tree", "trap '' TERM; sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' ; sleep 1000", false),
    ("SIGTERM forks again", "trap 'setsid sleep 1000 &' TERM; while :; do sleep 0.1; done", false),
    ("stopped itself", "kill -STOP $$", false),
    ("a process that hops from child to child", "hop() { sleep 0.01; hop & }; hop; sleep 1000", false),
    ("endless output", "yes", false),
];

#[tokio::test]
async fn nothing_that_a_command_starts_outlives_it() {
    for (what, script, ends) in SURVIVORS {
        let room = Room::new();
        let mut command = room.command(script);
        command.time_limit = if *ends { HANGS } else { Duration::from_millis(400) };
        let finished = room.run(&command).await.expect(what);
        assert_eq!(finished.end, if *ends { End::Exited(0) } else { End::TimedOut }, "{what}");
        assert!(finished.left > 0 || !ends, "{what}: what was left is told");
        assert_eq!(room.alive(), Vec::<String>::new(), "{what}");
        assert_eq!(finished.trouble, None, "{what}");
    }
    count(&format!("{} ways to outlive a command tried, 0 got through", SURVIVORS.len()));
}

/// `MANY` processes that ignore SIGTERM and never live long: each forks and ends, in a group of its own. They begin when
/// all are there. `EACH` is what every new one does first. Those that nobody ends give up after a while and leave a note.
const CHAINS: &str = "$SIG{TERM} = $SIG{HUP} = 'IGNORE'; pipe(R, W); \
                      for (1 .. MANY) { next if fork; setpgrp(0, 0); close W; <R>; \
                      while (time - $^T < 20) { exit 0 if fork; EACH } open(F, '>gave-up'); exit 0 } \
                      close W; sleep 1; exit 3";

#[tokio::test]
async fn who_forks_and_ends_all_the_time_is_ended_too() {
    for (many, each) in [("64", ""), ("300", ""), ("16", "setpgrp(0, 0) if rand() < 0.5;")] {
        let room = Room::new();
        let mut command = room.command("");
        command.program = "perl".into();
        command.args = vec!["-e".into(), CHAINS.replace("MANY", many).replace("EACH", each)];
        let finished = room.run(&command).await.expect("perl is needed for this test");
        assert_eq!(finished.end, End::Exited(3), "{many} {}", finished.output.into_text());
        assert_eq!(finished.trouble, None, "{many}");
        assert_eq!(room.alive(), Vec::<String>::new(), "{many}");
        assert!(!room.volume.path().join("gave-up").exists(), "{many}: they were ended, and did not end by themselves");
    }
}

#[tokio::test]
async fn dropping_the_call_ends_everything() {
    for script in ["sleep 1000", "setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' & sleep 1000"] {
        let room = Room::new();
        let command = room.command(script);
        let call = tokio::spawn(async move { launcher().run(&command, &TestClock::default()).await });
        room.until_alive(|count| count >= 1).await;
        call.abort();
        assert!(call.await.expect_err("it was dropped").is_cancelled());
        room.until_alive(|count| count == 0).await;
        let empty = async {
            while std::fs::read_dir(room.temporary.path()).expect("the directory").count() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(HANGS, empty).await.expect("its temporary directory goes too");
    }
}

#[tokio::test]
async fn when_drawloom_is_killed_nothing_survives() {
    let room = Room::new();
    let mut parent = tokio::process::Command::new(program())
        .args(["parent".as_ref(), room.volume.path().as_os_str(), room.private().as_os_str()])
        .args([&room.mark, "setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' & sleep 1000"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the parent");
    room.until_alive(|count| count >= 3).await;
    parent.start_kill().expect("SIGKILL");
    assert_eq!(parent.wait().await.expect("its end").signal(), Some(9));
    room.until_alive(|count| count == 0).await;
}

#[tokio::test]
async fn a_launcher_that_is_killed_takes_the_command_with_it_and_the_call_ends() {
    // The supervisor of the command, and where there are namespaces the launcher above that one.
    for (off, above) in [(&[][..], 1), (&[][..], 2), (&[Layer::Namespaces][..], 1)] {
        let launcher = launcher().without(off);
        let isolated = launcher.confinement().expect("a probe").namespaces.is_on();
        if off.is_empty() && !isolated {
            continue;
        }
        let room = Room::new();
        // It begins with a pause, so that the launcher has told of its start before it is killed.
        let command = room.command("sleep 0.5; setsid sh -c 'sleep 1000; sleep 1000' & sleep 1000");
        let clock = TestClock::default();
        let kill = async {
            room.until_alive(|count| count >= 4).await;
            let killed = (0..above).fold(marked_shell(&room), |pid, _| parent_of(&pid));
            std::process::Command::new("kill").args(["-9", &killed]).status().expect("kill");
        };
        let run = tokio::time::timeout(HANGS, launcher.run(&command, &clock));
        let (finished, ()) = tokio::join!(run, kill);
        let finished = finished.expect("it does not hang").expect("it ran");
        // With the launcher above it gone, the supervisor still ends everything and tells how, unless it takes too long.
        let told = above == 2 && finished.end == End::Signalled(15);
        if !told {
            assert_eq!(finished.end, End::Lost);
            let means = if isolated { "all its processes were killed" } else { "may still be running" };
            assert!(finished.trouble.is_some_and(|trouble| trouble.contains(means)), "and what that means is said");
        }
        assert_eq!(
            std::fs::read_dir(room.temporary.path()).expect("the directory").count(),
            0,
            "nothing of it is left"
        );
        if isolated {
            room.until_alive(|count| count == 0).await;
        } else {
            // The command's own group is gone; this is what is lost without namespaces.
            room.until_alive(|count| count <= 2).await;
            room.kill_all();
        }
    }
}

#[tokio::test]
async fn commands_go_on_when_the_launcher_that_stays_is_killed() {
    for off in [&[][..], &[Layer::Namespaces][..]] {
        let launcher = launcher().without(off);
        let above = if launcher.confinement().expect("a probe").namespaces.is_on() { 3 } else { 2 };
        let room = Room::new();
        let command = room.command("while [ ! -e go ]; do sleep 0.01; done; echo done");
        let kill = async {
            room.until_alive(|count| count >= 1).await;
            let killed = (0..above).fold(marked_shell(&room), |pid, _| parent_of(&pid));
            let shown = std::fs::read_to_string(format!("/proc/{killed}/cmdline")).expect("its arguments");
            assert!(shown.ends_with("spawn\0"), "{shown}");
            std::process::Command::new("kill").args(["-9", &killed]).status().expect("kill");
            std::fs::write(room.volume.path().join("go"), "").expect("a file");
        };
        let (finished, ()) = tokio::join!(room.run_by(&launcher, &command), kill);
        let finished = finished.expect("it ran");
        assert_eq!(
            (finished.end, finished.output.into_text()),
            (End::Exited(0), "done\n".into()),
            "it does not notice"
        );
        let finished = room.run_by(&launcher, &room.command("echo again")).await.expect("it runs");
        assert_eq!(
            (finished.end, finished.output.into_text()),
            (End::Exited(0), "again\n".into()),
            "a new one is started"
        );
    }
}

/// More requests than the socket of the launcher holds, while it is stopped: none is lost and none fails.
#[tokio::test]
async fn a_launcher_that_does_not_keep_up_is_replaced_and_no_command_is_lost() {
    const COMMANDS: usize = 400;
    let launcher = launcher();
    let room = Room::new();
    let wait = room.command("while [ ! -e go ]; do sleep 0.01; done; echo done");
    let crowd = async {
        room.until_alive(|count| count >= 1).await;
        let namespaces = launcher.confinement().expect("a probe").namespaces.is_on();
        let stays = (0..if namespaces { 3 } else { 2 }).fold(marked_shell(&room), |pid, _| parent_of(&pid));
        let signal = |signal: &str| {
            std::process::Command::new("kill").args([signal, &stays]).status().expect("kill");
        };
        signal("-STOP");
        let rooms: Vec<Room> = (0..COMMANDS).map(|_| Room::new()).collect();
        let commands: Vec<_> = rooms.iter().map(|room| room.command("echo one")).collect();
        let all = futures::future::join_all(
            rooms.iter().zip(&commands).map(|(room, command)| room.run_by(&launcher, command)),
        );
        let go_on = async {
            // All requests are made before any command is waited for.
            tokio::task::yield_now().await;
            signal("-CONT");
        };
        let (all, ()) = tokio::join!(all, go_on);
        for finished in all {
            let finished = finished.expect("it ran");
            assert_eq!((finished.end, finished.output.into_text()), (End::Exited(0), "one\n".into()));
        }
        std::fs::write(room.volume.path().join("go"), "").expect("a file");
    };
    let (finished, ()) = tokio::join!(room.run_by(&launcher, &wait), crowd);
    assert_eq!(finished.expect("it ran").end, End::Exited(0));
}

fn parent_of(pid: &str) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    stat.rsplit_once(") ").expect("stat").1.split(' ').nth(1).expect("a parent").to_owned()
}

fn marked_shell(room: &Room) -> String {
    let wanted = format!("MARK={}", room.mark);
    let carries = |path: &std::path::Path| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        let command = std::fs::read(path.join("cmdline")).unwrap_or_default();
        command.starts_with(b"/bin/sh") && environment.split(|byte| *byte == 0).any(|held| held == wanted.as_bytes())
    };
    loop {
        let mut entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        if let Some(entry) = entries.find(|entry| carries(&entry.path())) {
            return entry.file_name().to_string_lossy().into_owned();
        }
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn what_every_program_needs_is_there() {
    let room = Room::new();
    let script = "set -e; head -c 1 /dev/zero > /dev/null; head -c 1 /dev/urandom > /dev/null; echo x > /dev/stdout; \
                  cat /etc/passwd > /dev/null; cat /etc/hosts > /dev/null; echo in > /dev/stderr; echo y | cat /dev/stdin";
    let finished = room.shell(script).await;
    assert_eq!((finished.end, finished.output.into_text().as_str()), (End::Exited(0), "x\nin\ny\n"));
}

#[tokio::test]
async fn a_read_only_directory_stays_as_it_is_or_nothing_runs() {
    let room = Room::new();
    std::fs::write(room.volume.path().join("kept"), "as it was").expect("a file");
    for script in
        ["echo x > new", "echo x > kept", "rm kept", "mv kept other", "truncate -s 0 kept", "mkdir d", "ln -s a b"]
    {
        let mut command = room.command(script);
        command.access = Access::ReadOnly;
        match room.run(&command).await {
            Ok(finished) => assert!(matches!(finished.end, End::Exited(1..)), "{script}: {:?}", finished.end),
            Err(error) => assert!(matches!(error, Error::Refused { .. }), "{script}: {error}"),
        }
        assert_eq!(std::fs::read_to_string(room.volume.path().join("kept")).expect("kept"), "as it was", "{script}");
        assert_eq!(std::fs::read_dir(room.volume.path()).expect("the directory").count(), 1, "{script}");
    }
    let mut command = room.command("cat kept; echo x > $TMPDIR/y && cat $TMPDIR/y");
    command.access = Access::ReadOnly;
    if let Ok(finished) = room.run(&command).await {
        assert_eq!(finished.output.into_text(), "as it wasx\n");
    }
}
