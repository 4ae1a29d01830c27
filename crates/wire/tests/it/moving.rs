//! The typed client of a server that is found and may move: what is asked again, and what is not.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use drawloom_contract::failure::{Failure, FailureKind};
use drawloom_wire::{
    client::Client,
    request::Description,
    runs::{CancelRun, ListRuns, SpawnRun},
    upstream::{self, Address, INSTANCE},
};
use serde_json::json;

use crate::{
    host::Fast,
    upstream::{Asked, Do, Upstream},
};

/// Says the first address until that failed, then the second; says `refusal` when there is one.
struct Moving {
    addresses: [Address; 2],
    moved: AtomicUsize,
    looked: AtomicUsize,
    refusal: Option<Failure>,
}

impl Moving {
    fn between(first: &Upstream, second: &Upstream) -> Self {
        let address = |server: &Upstream, instance: &str| Address {
            url: format!("http://{}", server.address).into(),
            instance: Some(instance.into()),
            token: Some("a token".into()),
        };
        Self {
            addresses: [address(first, "first"), address(second, "second")],
            moved: 0.into(),
            looked: 0.into(),
            refusal: None,
        }
    }

    fn now(&self) -> Address {
        self.addresses[self.moved.load(Ordering::Relaxed)].clone()
    }
}

#[async_trait]
impl upstream::Upstream for Moving {
    async fn find(&self, failed: Option<&Address>) -> Result<Address, Failure> {
        self.looked.fetch_add(1, Ordering::Relaxed);
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        if failed == Some(&self.addresses[0]) {
            self.moved.store(1, Ordering::Relaxed);
        }
        Ok(self.now())
    }

    fn known(&self) -> Option<Address> {
        Some(self.now())
    }
}

fn client(upstream: Moving) -> Client {
    Client::of(Arc::new(upstream), Fast::at_speed(20))
}

fn refuse(status: u16, code: &str) -> Do {
    let error = json!({ "code": code, "message": "no", "hint": null, "retryable": false, "request_id": "q" });
    Do::Answer(status, Vec::new(), json!({ "error": error }).to_string())
}

/// Servers of which the first does this, and the second answers.
async fn servers(first: fn(&Asked) -> Do) -> (Upstream, Upstream) {
    (Upstream::start(first).await, Upstream::start(|_| Do::json(&json!({ "answer": 2 }))).await)
}

#[tokio::test]
async fn what_is_safe_is_asked_again_where_the_server_is_now() {
    let aways: [fn(&Asked) -> Do; 4] = [
        |_| Do::Cut,
        |_| refuse(421, "wrong_instance"),
        |_| refuse(503, "stopping"),
        |_| Do::Answer(404, Vec::new(), "<html>".into()),
    ];
    for away in aways {
        for (operation, input) in [
            (Description::of::<ListRuns>(), json!({})),
            (Description::of::<CancelRun>(), json!({ "run_id": "r_1" })),
            (Description::of::<SpawnRun>(), json!({ "agent": "a", "prompt": "p", "idempotency_key": "k" })),
        ] {
            let (first, second) = servers(away).await;
            let answer = client(Moving::between(&first, &second)).call_json(&operation, input).await;
            assert_eq!(answer.expect("an answer"), json!({ "answer": 2 }), "{operation:?}");
            assert_eq!((first.asked().len(), second.asked().len()), (1, 1), "{operation:?}");
            let asked = &second.asked()[0];
            assert_eq!(asked.header(INSTANCE), Some("second"));
            assert_eq!(asked.header("authorization"), Some("Bearer a token"));
            assert_eq!(asked.body, first.asked()[0].body, "the same request");
        }
    }
}

#[tokio::test]
async fn what_may_have_happened_is_not_asked_again_without_a_key() {
    let spawn = || (Description::of::<SpawnRun>(), json!({ "agent": "a", "prompt": "p" }));
    let (first, second) = servers(|_| Do::Cut).await;
    let (operation, input) = spawn();
    client(Moving::between(&first, &second)).call_json(&operation, input).await.expect_err("it may have been accepted");
    assert_eq!(second.asked().len(), 0);
    // A server that refuses before it does anything, or that is not there, has not accepted it.
    let refusals: [fn(&Asked) -> Do; 2] = [|_| refuse(421, "wrong_instance"), |_| refuse(503, "stopping")];
    for refusal in refusals {
        let (first, second) = servers(refusal).await;
        let (operation, input) = spawn();
        client(Moving::between(&first, &second)).call_json(&operation, input).await.expect("an answer");
        assert_eq!(second.asked().len(), 1);
    }
    let absent = Upstream::absent(|_| Do::Cut).await;
    let second = Upstream::start(|_| Do::json(&json!({}))).await;
    let (operation, input) = spawn();
    client(Moving::between(&absent, &second)).call_json(&operation, input).await.expect("an answer");
}

#[tokio::test]
async fn a_refusal_of_the_right_server_is_told_at_once() {
    for (status, code) in [(401, "unknown_token"), (404, "no_run"), (400, "unknown_key")] {
        let server = Upstream::start(move |_| refuse(status, code)).await;
        let error =
            client(Moving::between(&server, &server)).call_json(&Description::of::<ListRuns>(), json!({})).await;
        assert_eq!(error.expect_err("a refusal").wire_code(), code);
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_is_not_found_is_waited_for_unless_that_is_useless() {
    let server = Upstream::start(|_| Do::Cut).await;
    for (kind, code, waits) in [
        (FailureKind::Unavailable, "upstream_away", true),
        (FailureKind::Unavailable, "no_server", false),
        (FailureKind::Unavailable, "in_use", false),
        (FailureKind::Invalid, "server_not_started", false),
    ] {
        let refusal = Some(Failure::new(kind, code, "not now"));
        let upstream = Arc::new(Moving { refusal, ..Moving::between(&server, &server) });
        let client = Client::of(upstream.clone(), Fast::at_speed(200));
        let error = client.call_json(&Description::of::<ListRuns>(), json!({})).await.expect_err("no server");
        assert_eq!(error.wire_code(), code);
        assert_eq!(upstream.looked.load(Ordering::Relaxed) > 1, waits, "{code}");
    }
}
