//! Commands that serve for long.

use std::time::Duration;

use drawloom_process::{Gone, Service, Serving};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use drawloom_testkit::TestClock;

use crate::support::{HANGS, Room, launcher};

fn shell(room: &Room, script: &str) -> Service {
    Service {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        directory: Some(room.volume.path().to_owned()),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into()), ("MARK".into(), room.mark.clone())],
        grace: Duration::from_millis(300),
    }
}

async fn end(mut serving: Serving) -> Gone {
    drop(serving.input);
    let mut rest = Vec::new();
    serving.output.read_to_end(&mut rest).await.expect("a pipe");
    let ended = async { serving.watch.ended(&TestClock::default()).await };
    tokio::time::timeout(HANGS, ended).await.expect("it ends")
}

#[tokio::test]
async fn a_service_reads_and_writes_from_the_first_byte_on() {
    let room = Room::new();
    let Serving { mut input, output, watch } = launcher().serve(&shell(&room, "cat")).await.expect("it starts");
    let mut output = BufReader::new(output);
    for number in 0..3 {
        let line = format!("line {number}\n");
        input.write_all(line.as_bytes()).await.expect("a pipe");
        let mut back = String::new();
        output.read_line(&mut back).await.expect("a pipe");
        assert_eq!(back, line);
    }
    let gone = end(Serving { input, output: output.into_inner(), watch }).await;
    assert_eq!(gone, Gone { started: true, how: "it exited with code 0".into(), said: String::new() });
}

#[tokio::test]
async fn its_directory_and_environment_are_its_own() {
    let room = Room::new();
    let serving = launcher().serve(&shell(&room, "pwd -P; env | cut -d= -f1 | sort")).await.expect("it starts");
    let mut text = String::new();
    let mut output = serving.output;
    output.read_to_string(&mut text).await.expect("a pipe");
    let directory = room.volume.path().canonicalize().expect("a path");
    let mut lines = text.lines();
    assert_eq!(lines.next(), directory.to_str());
    let names: Vec<&str> = lines.filter(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name)).collect();
    assert_eq!(names, ["MARK", "PATH"]);
}

#[tokio::test]
async fn how_it_ended_and_what_it_last_said_is_known() {
    let room = Room::new();
    let noisy = "i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 4";
    for (script, how, said) in [
        ("echo sorry >&2; exit 3", "it exited with code 3", "sorry"),
        ("kill -9 $$", "it was killed by signal 9", ""),
        (noisy, "it exited with code 4", "line 1999"),
    ] {
        let gone = end(launcher().serve(&shell(&room, script)).await.expect("it starts")).await;
        assert_eq!(gone.how, how);
        assert!(gone.said.ends_with(said) && gone.said.len() < 5_000, "{gone:?}");
    }
    let missing = Service { program: "/no/such/program".into(), ..shell(&room, "") };
    let gone = end(launcher().serve(&missing).await.expect("the launcher starts")).await;
    assert!(!gone.started && gone.how.starts_with("it cannot be started (/no/such/program: "), "{gone:?}");
}

#[tokio::test]
async fn all_that_it_started_ends_when_its_input_is_let_go() {
    let room = Room::new();
    let script = "trap '' TERM HUP; (setsid sleep 1000 &) ; sleep 1000 & cat >/dev/null; sleep 1000";
    let serving = launcher().serve(&shell(&room, script)).await.expect("it starts");
    room.until_alive(|count| count >= 4).await;
    drop(serving);
    room.until_alive(|count| count == 0).await;
}

#[tokio::test]
async fn what_no_process_can_be_given_is_refused() {
    let room = Room::new();
    let mut service = shell(&room, "true");
    service.environment.push(("A=B".into(), "x".into()));
    let error = launcher().serve(&service).await.expect_err("it is refused");
    assert!(error.to_string().contains("the environment variable \"A=B\""), "{error}");
    assert!(!format!("{service:?}").contains(&room.mark), "values are not shown");
}
