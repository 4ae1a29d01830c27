//! A server that is known by more than its address.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use drawloom_contract::failure::Failure;
use drawloom_wire::upstream::{self, Address};
use serde_json::json;

use crate::{
    host::{Fast, Host},
    upstream::{Asked, Do, Upstream},
};

/// Says `old` until it is told that this was wrong, then `new`; always at the same address.
struct Moved {
    url: Arc<str>,
    looked: AtomicUsize,
}

impl Moved {
    fn from(server: &Upstream) -> Arc<Self> {
        Arc::new(Self { url: server.url().into(), looked: AtomicUsize::new(0) })
    }

    fn address(&self) -> Address {
        let instance = if self.looked.load(Ordering::Relaxed) == 0 { "old" } else { "new" };
        Address { url: self.url.clone(), instance: Some(instance.into()), token: None }
    }
}

#[async_trait]
impl upstream::Upstream for Moved {
    async fn find(&self, failed: Option<&Address>) -> Result<Address, Failure> {
        if failed == Some(&self.address()) {
            self.looked.fetch_add(1, Ordering::Relaxed);
        }
        Ok(self.address())
    }

    fn known(&self) -> Option<Address> {
        Some(self.address())
    }
}

fn meant(asked: &Asked) -> Option<&str> {
    asked.header(upstream::INSTANCE)
}

#[tokio::test]
async fn what_another_server_refuses_is_asked_where_the_right_one_is_now() {
    for (status, body) in [(421, ""), (401, "{}"), (403, ""), (404, "<html>"), (200, "{}")] {
        let server = Upstream::start(move |asked| match meant(asked) {
            Some("new") => Do::json(&asked.result(json!("done"))),
            _ => Do::Answer(status, Vec::new(), body.into()),
        })
        .await;
        let mut host = Host::connect_to(Moved::from(&server), Fast::at_speed(20), None);
        host.call(1, "a").await;
        assert_eq!(host.next().await["result"], "done", "{status}");
        let asked = server.asked();
        assert_eq!(asked.iter().map(meant).collect::<Vec<_>>(), [Some("old"), Some("new")], "{status}");
        assert_eq!(asked[0].key(), asked[1].key());
    }
}

#[tokio::test]
async fn a_refusal_of_the_right_server_is_told_at_once() {
    let server = Upstream::start(|_| Do::Answer(401, Vec::new(), "{}".into())).await;
    let mut host = Host::connect_to(Moved::from(&server), Fast::at_speed(1), None);
    host.call(1, "a").await;
    assert_eq!(host.next().await["error"]["data"]["code"], "upstream_denied");
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_server_whose_address_was_given_is_not_told_which_one_is_meant() {
    let server = Upstream::start(|_| Do::Answer(421, Vec::new(), "<html>".into())).await;
    let mut host = Host::connect(&server.url());
    host.call(1, "a").await;
    assert_eq!(host.next().await["error"]["data"]["code"], "not_drawloom");
    assert_eq!(server.asked().iter().map(meant).collect::<Vec<_>>(), [None]);
}
