//! The server as a process of its own.

use std::{process::Stdio, time::Duration};

use drawloom_testkit::providers::Call;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use crate::send;

#[tokio::test]
async fn it_prints_its_address_refuses_calls_over_its_limit_and_writes_everything_down() {
    let mut program = std::env::current_exe().expect("this test");
    program.pop();
    program.pop();
    program.push("examples/provider");
    let log = std::env::temp_dir().join(format!("drawloom-provider-{}.log", std::process::id()));
    let mut process = Command::new(program)
        .args([
            "--shape",
            "openai",
            "--max-concurrent",
            "2",
            "--delay-ms",
            "1000",
            "--retry-after",
            "seconds:1",
            "--log",
        ])
        .arg(&log)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("cargo has built the example");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).await.expect("its address");
    let address = line.trim().parse().expect("an address");

    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hello" }] });
    let calls = (0..5).map(|_| send(address, "POST", "/v1/chat/completions", &body));
    let answers = tokio::time::timeout(Duration::from_secs(20), futures::future::join_all(calls)).await;
    let mut statuses: Vec<u16> = answers.expect("no hang").into_iter().map(|(status, _)| status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 429, 429, 429]);

    let (status, told) = send(address, "GET", "/__log", &Value::Null).await;
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let told: Vec<Call> = serde_json::from_value(told["calls"].clone()).expect("calls");
    let written = std::fs::read_to_string(&log).expect("the log");
    let written: Vec<Call> = written.lines().map(|line| serde_json::from_str(line).expect("a call")).collect();
    assert_eq!((status, &told), (200, &written));
    let of = |status: u16| told.iter().filter(move |call| call.status == status);
    assert!(of(200).all(|call| call.ended_ms - call.started_ms >= 900.0 && call.in_flight <= 2), "{told:?}");
    assert_eq!((of(200).count(), of(429).count()), (2, 3));
    std::fs::remove_file(&log).expect("the log");
}
