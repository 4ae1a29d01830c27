//! What a command gets, what it gives back, and how its end is told.

use std::time::Duration;

use drawloom_process::{End, Error, Exceeded, Launcher, Layer, Limits, Resource};

use drawloom_testkit::TestClock;

use crate::support::{Room, launcher};

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
    let private = room.private();
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
    let mut command = room.command("ulimit -c; head -c 2000000 /dev/zero > big; stat -c %s big");
    command.limits = Limits { file_bytes: Some(1_000_000), ..Limits::default() };
    let text = room.run(&command).await.expect("it runs").output.into_text();
    assert!(text.starts_with("0\n") && text.ends_with("1000000\n"), "{text}");
}

#[tokio::test]
async fn a_command_has_pseudo_terminals_of_its_own() {
    // One of the machine's, which must not be seen.
    let _other = std::fs::File::open("/dev/ptmx").expect("a terminal");
    for layers in [&[][..], &[Layer::Landlock], &[Layer::Seccomp]] {
        let launcher = launcher().without(layers);
        if !launcher.confinement().expect("a probe").namespaces.is_on() {
            continue;
        }
        let room = Room::new();
        let command = room.command("ls /dev/pts; script -qec 'tty; echo typed > /dev/tty' /dev/null; echo $?");
        let text = room.run_by(&launcher, &command).await.expect("it runs").output.into_text();
        assert_eq!(text.replace('\r', ""), "ptmx\n/dev/pts/0\ntyped\n0\n", "{layers:?}");
    }
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
    let nowhere = Launcher::new("/no/launcher", &[]).without(&[]);
    let error = nowhere.run(&room.command("true"), &TestClock::default()).await.expect_err("there is none");
    assert!(matches!(error, Error::Launcher { .. }), "{error}");
}

#[tokio::test]
async fn how_it_was_confined_is_told() {
    let room = Room::new();
    let finished = room.shell("true").await;
    assert_eq!(finished.confinement, *launcher().confinement().expect("a probe"));
}

#[tokio::test]
async fn memory_processes_and_disk_are_counted_over_all_processes_and_the_limit_is_told() {
    let eat = "perl -e '$x = \"x\" x 60_000_000; sleep 1000' & perl -e '$x = \"x\" x 60_000_000; sleep 1000' & wait";
    let fork = "i=0; while [ $i -lt 40 ]; do sleep 1000 & i=$((i+1)); done; wait";
    let write = "for i in 1 2 3 4; do head -c 20000000 /dev/zero > f$i; sync f$i; done; sleep 1000";
    for (script, limits, resource) in [
        (eat, Limits { memory_bytes: Some(100_000_000), ..Limits::default() }, Resource::Memory),
        (fork, Limits { processes: Some(20), ..Limits::default() }, Resource::Processes),
        (write, Limits { disk_bytes: Some(50_000_000), ..Limits::default() }, Resource::Disk),
    ] {
        for layers in [&[][..], &[Layer::Namespaces], &[Layer::Cgroup]] {
            let room = Room::new();
            let mut command = room.command(script);
            command.limits = limits;
            let launcher = launcher().without(layers);
            let finished = room.run_by(&launcher, &command).await.expect("it runs");
            if resource == Resource::Processes && launcher.confinement().expect("a probe").cgroup.is_on() {
                // The kernel does not let it start more; nothing has to be ended.
                assert_eq!(finished.limited, Some(Exceeded { resource, used: 20, most: 20 }), "{layers:?}");
                continue;
            }
            let End::Exceeded(exceeded) = finished.end else {
                panic!("{resource:?} without {layers:?}: {:?} {}", finished.end, finished.output.into_text())
            };
            assert_eq!(exceeded.resource, resource);
            assert!(exceeded.used >= exceeded.most, "{exceeded:?}");
            assert_eq!(room.alive(), Vec::<String>::new());
        }
    }
}

/// Runtimes that reserve far more address space than they use, and start threads, are not hindered by those limits.
#[tokio::test]
async fn a_program_that_reserves_a_terabyte_of_address_space_runs() {
    let room = Room::new();
    let mut command = room.command("");
    command.limits = Limits { memory_bytes: Some(256 << 20), processes: Some(64), ..Limits::default() };
    command.program = "perl".into();
    // mmap(0, 1 TiB, none, private | anonymous | noreserve, -1, 0)
    let script = "my $at = syscall(9, 0, 1 << 40, 0, 0x4022, -1, 0); print $at == -1 ? qq(no\n) : qq(reserved\n)";
    command.args = vec!["-e".into(), script.into()];
    let finished = room.run(&command).await.expect("perl is needed for this test");
    assert_eq!((finished.end, finished.output.into_text().as_str()), (End::Exited(0), "reserved\n"));
}

#[tokio::test]
async fn the_kernel_refuses_processes_far_above_the_limit_where_it_can() {
    const FILE: &str = "/proc/sys/kernel/pid_max";
    let machines = std::fs::read_to_string(FILE).expect("the machine's");
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    let is_new = (numbers.next(), numbers.next()) >= (Some(6), Some(14));
    let room = Room::new();
    let mut command = room.command(&format!("cat {FILE}"));
    command.limits = Limits { processes: Some(100), ..Limits::default() };
    let finished = room.run(&command).await.expect("it runs");
    let seen = finished.output.into_text();
    if is_new && rustix::process::geteuid().is_root() && finished.confinement.namespaces.is_on() {
        assert_eq!(seen, "500\n");
    }
    assert_eq!(std::fs::read_to_string(FILE).expect("the machine's"), machines, "the machine's stays as it is");
}
