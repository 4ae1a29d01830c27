//! Lists of tools: how much of one is looked at, and when it is asked for again.

use std::{
    sync::{
        Arc, Mutex as StdMutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::fixture::{MovedClock, answering, answering_later, server, server_with, told};

#[tokio::test]
async fn a_list_is_cut_at_the_sum_of_what_is_kept() {
    let pages = Arc::new(AtomicUsize::new(0));
    let count = pages.clone();
    let url = answering(move |asked| {
        if asked.method() != "tools/list" {
            return asked.older("s", &json!([]));
        }
        let page = count.fetch_add(1, Ordering::SeqCst);
        let schema = json!({"type": "object", "description": "x".repeat(60_000)});
        let tool = |number: usize| json!({"name": format!("t{page}_{number}"), "inputSchema": schema});
        asked.result("", &json!({"tools": (0..20).map(tool).collect::<Vec<_>>(), "nextCursor": "on"}))
    })
    .await;
    let offer = server(url, 20_000).offer().await;
    assert_eq!(offer.unavailable, None);
    assert_eq!(pages.load(Ordering::SeqCst), 4);
    assert_eq!(offer.tools.len(), 4 * 1024 * 1024 / 60_050);
    let text = &offer.remarks[0].text;
    assert!(text.starts_with("the tool list of `mcp__out__*` is too long"), "{text}");
}

#[tokio::test]
async fn one_odd_tool_does_not_take_the_headers_of_the_others() {
    let called = Arc::new(StdMutex::new(String::new()));
    let seen = called.clone();
    let url = answering(move |asked| {
        if asked.method() == "tools/call" {
            *seen.lock().expect("nobody panics") = asked.head.clone();
        }
        let schema = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
        let task = json!({"name": "task", "inputSchema": {}, "execution": {"taskSupport": "required"}});
        asked.newer(&json!([{"name": "odd"}, {"name": "good", "inputSchema": schema}, task]))
    })
    .await;
    let server = server(url, 5_000);
    let offer = server.offer().await;
    let remarks: Vec<_> = offer.remarks.iter().map(|remark| remark.text.as_str()).collect();
    assert_eq!(
        remarks,
        [
            "`mcp__out__odd` omitted: its input schema is not a JSON object",
            "`mcp__out__task` omitted: it can only be called as a task, which is not supported"
        ]
    );
    let arguments = json!({"region": "north"}).as_object().expect("an object").clone();
    assert_eq!(told(server.call("good", arguments).await), "done");
    let head = called.lock().expect("nobody panics").clone();
    assert!(head.contains("mcp-param-region: north"), "{head}");
}

/// A server that has one more tool each time that it is asked, in the newer era or in the older one; and its lists.
async fn growing(ttl_ms: Option<u64>) -> (String, Arc<AtomicUsize>) {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = lists.clone();
    let url = answering(move |asked| {
        let many = match asked.method() {
            "tools/list" => count.fetch_add(1, Ordering::SeqCst) + 1,
            _ => 0,
        };
        let tools: Value = (0..many).map(|number| json!({"name": format!("t{number}"), "inputSchema": {}})).collect();
        match ttl_ms {
            // The same number of digits, so that the length stays right.
            Some(ttl) => asked.newer(&tools).replace("\"ttlMs\":100000", &format!("\"ttlMs\":{ttl:06}")),
            None => asked.older("s", &tools),
        }
    })
    .await;
    (url, lists)
}

#[tokio::test]
async fn a_list_of_tools_that_is_not_good_any_more_is_asked_for_again() {
    for (ttl_ms, too_early, late_enough) in [(None, 30_000, 31_000), (Some(500_000), 300_000, 201_000)] {
        let (url, lists) = growing(ttl_ms).await;
        let clock = Arc::new(MovedClock::default());
        let server = server_with(url, 5_000, clock.clone());
        let first = server.offer().await;
        clock.ahead_ms.fetch_add(too_early, Ordering::SeqCst);
        assert!(Arc::ptr_eq(&first, &server.offer().await), "{ttl_ms:?}");
        assert_eq!((first.tools.len(), lists.load(Ordering::SeqCst)), (1, 1), "{ttl_ms:?}");
        clock.ahead_ms.fetch_add(late_enough, Ordering::SeqCst);
        assert_eq!(server.offer().await.tools.len(), 2, "{ttl_ms:?}");
    }
}

#[tokio::test]
async fn a_run_does_not_wait_long_for_a_newer_list_of_tools() {
    let (release, released) = tokio::sync::watch::channel(false);
    let url = answering_later(move |asked| {
        let mut released = released.clone();
        let answer = asked.older("s", &json!([{"name": "t", "inputSchema": {}}]));
        let first = asked.message["id"].as_u64() < Some(3);
        let waits = asked.method() == "tools/list" && !first;
        Box::pin(async move {
            if waits {
                let _ = released.wait_for(|released| *released).await;
            }
            answer
        })
    })
    .await;
    let clock = Arc::new(MovedClock::default());
    let server = server_with(url, 60_000, clock.clone());
    let first = server.offer().await;
    assert_eq!(first.tools.len(), 1);
    clock.ahead_ms.fetch_add(61_000, Ordering::SeqCst);
    let began = Instant::now();
    assert!(Arc::ptr_eq(&first, &server.offer().await));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    release.send_replace(true);
    server.settled().await;
    assert!(Arc::ptr_eq(&first, &server.offer().await), "the same list is another offer");
}

#[tokio::test]
async fn a_session_that_is_lost_is_begun_anew_when_the_list_is_asked_for() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let begun = sessions.clone();
    let url = answering(move |asked| {
        if asked.method() == "initialize" {
            begun.fetch_add(1, Ordering::SeqCst);
        }
        let session = format!("session-{}", begun.load(Ordering::SeqCst));
        let begins = ["server/discover", "initialize"].contains(&asked.method());
        match begins || asked.head.contains(&session) {
            true => asked.older(&session, &json!([{"name": format!("of-{session}"), "inputSchema": {}}])),
            false => asked.with(404, "", ""),
        }
    })
    .await;
    let clock = Arc::new(MovedClock::default());
    let server = server_with(url, 5_000, clock.clone());
    assert_eq!(server.offer().await.tools[0].card().name, "mcp__out__of-session-1");
    sessions.fetch_add(1, Ordering::SeqCst);
    clock.ahead_ms.fetch_add(61_000, Ordering::SeqCst);
    assert_eq!(server.offer().await.tools[0].card().name, "mcp__out__of-session-3");
}

#[tokio::test]
async fn lists_that_never_come_take_nothing_from_calls() {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = lists.clone();
    let url = answering_later(move |asked| {
        let answer = asked.older("s", &json!([{"name": "t", "inputSchema": {}}]));
        let hangs = asked.method() == "tools/list" && count.fetch_add(1, Ordering::SeqCst) > 0;
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            answer
        })
    })
    .await;
    let clock = Arc::new(MovedClock::default());
    let server = server_with(url, 500, clock.clone());
    assert_eq!(server.offer().await.tools.len(), 1);
    // More than the library asks at once.
    for _ in 0..20 {
        clock.ahead_ms.fetch_add(61_000, Ordering::SeqCst);
        assert_eq!(server.offer().await.tools.len(), 1);
        server.settled().await;
    }
    assert_eq!(lists.load(Ordering::SeqCst), 21);
    assert_eq!(told(server.call("t", serde_json::Map::new()).await), "done");
}
