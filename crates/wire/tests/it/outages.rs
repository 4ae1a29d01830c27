//! A server that goes away, breaks off, or never comes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    host::{Host, Recording},
    upstream::{Asked, Do, Event, Upstream},
};

#[tokio::test]
async fn a_call_made_before_the_server_is_there_is_answered_once_it_comes() {
    let mut server = Upstream::absent(|asked| Do::json(&asked.result(json!(1)))).await;
    let mut host = Host::connect(&server.url());
    host.call(1, "a").await;
    host.send_line("nonsense").await;
    // The reader is not held up, so the call was taken before this was answered.
    assert_eq!(host.next().await["error"]["code"], -32700);
    server.appear().await;
    assert_eq!(host.next().await["id"], 1);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn what_was_cut_off_is_sent_again_under_the_same_key_and_answered_once() {
    type Failure = Box<dyn Fn() -> Do + Send + Sync>;
    let progress = |value: i64| {
        let params = json!({ "progressToken": 9, "progress": value });
        Event::Say(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }))
    };
    let failures: Vec<Failure> = vec![
        Box::new(|| Do::Cut),
        Box::new(|| Do::Answer(503, Vec::new(), String::new())),
        Box::new(|| Do::Answer(502, Vec::new(), "<html>".into())),
        Box::new(|| Do::Answer(500, Vec::new(), "the server is stopping".into())),
        Box::new(|| {
            Do::Answer(500, Vec::new(), json!({ "error": { "code": "internal", "message": "x" } }).to_string())
        }),
        Box::new(|| Do::Answer(429, vec![("retry-after", "0".into())], String::new())),
        Box::new(|| Do::Stream(Vec::new())),
        Box::new(move || Do::Stream(vec![progress(5), Event::Cut])),
        Box::new(|| Do::Stream(vec![Event::Raw("data: {\"jsonrpc\":".into()), Event::Cut])),
    ];
    let (count, most) = (AtomicUsize::new(0), failures.len());
    let server = Upstream::start(move |asked| match failures.get(count.fetch_add(1, Ordering::Relaxed)) {
        Some(failure) => failure(),
        None => Do::Stream(vec![progress(1), Event::Say(asked.result(json!("done")))]),
    })
    .await;
    let mut host = Host::connect_at_speed(&server.url(), 20);
    host.request(4, "tools/call", json!({ "name": "a", "_meta": { "progressToken": 9 } })).await;
    let mut last = f64::NEG_INFINITY;
    let answer = loop {
        let next = host.next().await;
        match next["params"]["progress"].as_f64() {
            Some(progress) => {
                assert!(progress > last, "{progress} after {last}");
                last = progress;
            }
            None => break next,
        }
    };
    assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": 4, "result": "done" }));
    let asked = server.asked();
    assert_eq!(asked.len(), most + 1);
    assert!(asked.iter().all(|again| again.body == asked[0].body), "the same frame each time");
    assert_eq!(host.close().await, Vec::<Value>::new());
}

#[tokio::test]
async fn many_calls_survive_a_server_that_goes_away_under_them() {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let mut server =
        Upstream::start(move |asked| Do::After(held.clone(), Box::new(Do::json(&asked.result(json!(1)))))).await;
    let mut host = Host::connect(&server.url());
    for id in 0..20 {
        host.call(id, "a").await;
        server.hear("tools/call").await;
    }
    server.vanish().await;
    gate.add_permits(1000);
    server.appear().await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(host.next().await["id"].as_i64().expect("an id"));
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..20).collect::<Vec<_>>());
    let mut keys: Vec<String> = server.asked().iter().filter_map(|asked| asked.key().map(str::to_owned)).collect();
    assert_eq!(keys.len(), 40);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 20);
    assert_eq!(host.close().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_host_that_wants_progress_hears_of_an_outage_and_at_its_end_why() {
    let server = Upstream::absent(|_| Do::Cut).await;
    let mut host = Host::connect_at_speed(&server.url(), 200);
    host.request(1, "tools/call", json!({ "name": "a", "_meta": { "progressToken": "t" } })).await;
    let mut heard = Vec::new();
    let answer = loop {
        let next = host.next().await;
        match next["params"]["progress"].as_f64() {
            Some(progress) => heard.push(progress),
            None => break next,
        }
    };
    assert!(heard.len() >= 20 && heard.is_sorted_by(|one, next| one < next), "{heard:?}");
    assert_eq!(answer["id"], 1);
    assert_eq!(answer["error"]["data"]["code"], "upstream_away");
    let message = answer["error"]["message"].as_str().expect("text");
    assert!(message.contains("300 s") && message.contains("What to do"), "{message}");
}

#[tokio::test]
async fn the_first_request_is_told_soon_that_nobody_is_there() {
    let server = Upstream::absent(|_| Do::Cut).await;
    let mut host = Host::connect_at_speed(&server.url(), 20);
    host.request("server-discover-probe-1", "server/discover", json!({})).await;
    let answer = host.next().await;
    let message = answer["error"]["message"].as_str().expect("text");
    assert!(message.contains("within 8 s") && message.contains("cannot connect to"), "{message}");
}

#[tokio::test]
async fn the_first_request_is_answered_in_time_also_when_the_server_is_silent() {
    for method in ["initialize", "server/discover"] {
        let server = Upstream::start(|_| Do::After(Arc::new(Semaphore::new(0)), Box::new(Do::Cut))).await;
        let mut host = Host::connect_at_speed(&server.url(), 20);
        host.request(1, method, json!({})).await;
        let answer = host.next().await;
        let message = answer["error"]["message"].as_str().expect("text");
        assert!(message.contains("within 8 s") && message.contains("silent"), "{message}");
    }
}

#[tokio::test]
async fn a_server_that_only_begins_to_answer_is_left_alone_for_longer_each_time() {
    let server = Upstream::start(|_| Do::Stream(vec![Event::Raw(": hello\n\n".into()), Event::Cut])).await;
    let clock = Recording::at_speed(200);
    let mut host = Host::connect_by(&server.url(), clock.clone());
    host.call(1, "a").await;
    assert_eq!(host.next().await["error"]["data"]["code"], "upstream_away");
    assert_eq!(server.asked().len(), drawloom_wire::mcp::MOST_SENDS as usize);
    let waits: Duration = clock.waits().iter().sum();
    assert!(waits > Duration::from_secs(20), "{waits:?}");
}

#[tokio::test]
async fn a_server_that_breaks_off_every_time_is_given_up() {
    let server = Upstream::start(|_| Do::Cut).await;
    let mut host = Host::connect_at_speed(&server.url(), 200);
    host.call(1, "a").await;
    assert_eq!(host.next().await["error"]["data"]["code"], "upstream_away");
    assert_eq!(server.asked().len(), drawloom_wire::mcp::MOST_SENDS as usize);
}

#[tokio::test]
async fn what_must_not_happen_twice_and_has_no_key_is_not_sent_again() {
    let server = Upstream::start(|_| Do::Cut).await;
    let mut host = Host::connect(&server.url());
    host.request(1, "tasks/update", json!({ "taskId": "t" })).await;
    assert_eq!(host.next().await["error"]["data"]["code"], "outcome_unknown");
    host.send(&json!({ "jsonrpc": "2.0", "method": "notifications/of/others", "params": {} })).await;
    host.close().await;
    assert_eq!(server.asked_for("tasks/update").len(), 1);
    assert_eq!(server.asked_for("notifications/of/others").len(), 1);
}

#[tokio::test]
async fn a_gateway_that_cuts_every_long_wait_does_not_end_a_call() {
    let cuts = drawloom_wire::mcp::MOST_SENDS as usize + 5;
    let (gate, count) = (Arc::new(Semaphore::new(0)), AtomicUsize::new(0));
    let held = gate.clone();
    let mut server = Upstream::start(move |asked| match count.fetch_add(1, Ordering::Relaxed) {
        tries if tries < cuts => Do::Stream(vec![Event::Wait(held.clone()), Event::Cut]),
        _ => Do::json(&asked.result(json!("done"))),
    })
    .await;
    let mut host = Host::connect_at_speed(&server.url(), 2000);
    host.call(1, "a").await;
    for _ in 0..cuts {
        let again = tokio::time::timeout(Duration::from_secs(20), server.hear("tools/call")).await;
        again.expect("it is sent again");
        // The connection lives for more than half a minute of the proxy's time.
        tokio::time::sleep(drawloom_wire::mcp::LONG_LIFE / 1000).await;
        gate.add_permits(1);
    }
    assert_eq!(host.next().await["result"], "done");
}

#[tokio::test]
async fn each_time_a_call_is_sent_it_says_what_is_left_of_the_hosts_patience() {
    let (gate, count) = (Arc::new(Semaphore::new(0)), AtomicUsize::new(0));
    let held = gate.clone();
    let mut server = Upstream::start(move |asked| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Do::Stream(vec![Event::Wait(held.clone()), Event::Cut]),
        _ => Do::json(&asked.result(json!("done"))),
    })
    .await;
    let mut host = Host::connect_with_patience(&server.url(), 20, Some(Duration::from_secs(600)));
    host.call(1, "a").await;
    let left = |asked: &Asked| asked.body["params"]["_meta"]["io.drawloom/answerWithinMs"].as_u64().expect("a number");
    let first = left(&server.hear("tools/call").await);
    // Ten seconds of the proxy's time.
    tokio::time::sleep(Duration::from_millis(500)).await;
    gate.add_permits(1);
    let second = left(&server.hear("tools/call").await);
    assert!(first <= 600_000 && second + 10_000 <= first, "{first}, then {second}");
    assert_eq!(host.next().await["result"], "done");
}

#[tokio::test]
async fn a_host_whose_patience_ends_in_an_outage_is_told_how_to_go_on() {
    let mut server = Upstream::start(|_| Do::Stream(vec![Event::Wait(Arc::new(Semaphore::new(0)))])).await;
    let patience = Some(Duration::from_secs(60));
    let mut host = Host::connect_with_patience(&server.url(), 40, patience);
    host.call(1, "spawn_run").await;
    let key = server.hear("tools/call").await.key().expect("a key").to_owned();
    server.vanish().await;
    let answer = host.next().await;
    assert_eq!((&answer["id"], &answer["error"]["data"]["code"]), (&json!(1), &json!("upstream_away")));
    let message = answer["error"]["message"].as_str().expect("text");
    assert!(message.contains("as long as the client waits") && message.contains("list_runs"), "{message}");
    assert!(message.contains(&key), "{message}");
    let mut host = Host::connect_with_patience(&server.url(), 40, patience);
    host.call(2, "spawn_run").await;
    let message = host.next().await["error"]["message"].as_str().expect("text").to_owned();
    assert!(message.contains("was not sent") && message.contains("call again"), "{message}");
}

#[tokio::test]
async fn a_host_whose_patience_ends_while_the_server_is_silent_is_told_how_to_go_on() {
    let never = || Arc::new(Semaphore::new(0));
    for has_begun in [false, true] {
        let play = move |_: &Asked| match has_begun {
            false => Do::After(never(), Box::new(Do::Cut)),
            true => Do::Stream(vec![Event::Wait(never())]),
        };
        let mut server = Upstream::start(play).await;
        let mut host = Host::connect_with_patience(&server.url(), 40, Some(Duration::from_secs(20)));
        host.call(1, "spawn_run").await;
        let key = server.hear("tools/call").await.key().expect("a key").to_owned();
        let message = host.next().await["error"]["message"].as_str().expect("text").to_owned();
        assert!(message.contains("may have arrived") && message.contains(&key), "{message}");
    }
}
