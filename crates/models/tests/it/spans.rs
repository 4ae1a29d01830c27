//! What a log of a model call tells.

use std::{
    io,
    sync::{Arc, Mutex},
};

use drawloom_contract::ids::RunId;
use drawloom_testkit::providers::{Refusal, Reply, Shape};
use tracing_subscriber::fmt::MakeWriter;

use crate::fixture::{Fixture, request};

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic while held").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Buffer {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn the_log_of_a_call_has_its_ids_and_how_it_ended() {
    let log = Buffer::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .without_time()
        .with_writer(log.clone())
        .finish();
    // For the whole process: the first thread that comes to an event decides whether it is wanted. Other tests write to the
    // log too, of another run.
    tracing::subscriber::set_global_default(subscriber).expect("no other test sets one");
    let run = RunId::from_bytes([8; 16]);
    let request = || {
        let mut request = request("gpt-4.1");
        request.run.run = run;
        request
    };
    let good = Fixture::new(Shape::Openai, |_| Reply::text("Hello.").into()).await;
    good.ask(request()).await.expect("an answer");
    let bad = Fixture::new(Shape::Openai, |_| Refusal::new(429, "slow down").into()).await;
    bad.ask(request()).await.expect_err("a refusal");
    let log = String::from_utf8(log.0.lock().expect("no panic while held").clone()).expect("text");
    let ours: Vec<&str> =
        log.lines().filter(|line| line.contains("drawloom_models") && line.contains(&run.to_string())).collect();
    let span = format!("model_call{{run={run} turn=1 attempt=1 provider=\"loom\" model=\"gpt-4.1\"}}");
    assert!(ours.iter().all(|line| line.contains(&span)), "{ours:#?}");
    let said = [
        "model answered status=200",
        "model call ended",
        "model answered status=429",
        "model call failed code=\"throttled\"",
    ];
    assert!(ours.len() == said.len() && ours.iter().zip(said).all(|(line, said)| line.contains(said)), "{ours:#?}");
}
