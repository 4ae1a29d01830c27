//! Channels under stress: publishers, plain readers, groups whose members forget, deferral, caps, TTL and purges, while the server is
//! killed and frozen at random. The histories are then checked: every message was taken once, acknowledged messages never came back, no
//! other was lost unless a cap or a purge said so, order was kept, and no waiting reader slept through a message.

mod history;

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use self::history::{Acked, Delivered, History};
use super::{Dice, pass, say, setting};
use crate::{
    http::{get, send},
    process::{Case, Server},
};

const CONFIG: &str = r#"
channels:
  plain: {}
  group: { lease_ms: 400, max_attempts: 1000 }
  poison: { lease_ms: 100, max_attempts: 2 }
  later: {}
  small: { max_messages: 20 }
  short: { default_ttl: 1 }
  purged: {}
  pong: {}
providers: { script: { driver: script } }
defaults: { provider: script, model: m }
agents: {}
"#;

const PUBLISHERS: u64 = 4;
const READERS: u64 = 3;
const MEMBERS: u64 = 4;

/// How long a waiting request waits: longer than any outage.
const WAIT_MS: u64 = 8_000;

struct Stress {
    url: Mutex<String>,
    history: Mutex<History>,
    publishing: AtomicUsize,
    is_over: AtomicBool,
}

impl Stress {
    /// Asks until there is an answer, under one idempotency key.
    fn ask(&self, path: &str, key: &str, body: &Value) -> (u16, Value) {
        let mut body = body.clone();
        body["idempotency_key"] = key.into();
        self.ask_plainly(path, &body)
    }

    fn ask_plainly(&self, path: &str, body: &Value) -> (u16, Value) {
        let headers = [("Content-Type", "application/json"), ("Accept", "application/json")];
        loop {
            let url = self.url.lock().expect("no panic").clone();
            let answer = send(&url, "POST", path, &headers, &body.to_string())
                .and_then(|answer| Ok((answer.status, answer.json()?)));
            match answer {
                Ok((status, answer)) if status < 500 => return (status, answer),
                // The server is gone, or stopping. What it did is not known; the key says it.
                Ok(_) | Err(_) => pass(5),
            }
        }
    }

    fn publish(&self, channel: &str, key: &str, value: Value, more: Value) -> Value {
        let mut body = json!({ "value": value });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let (status, answer) =
            self.ask(&format!("/v1/channels/{channel}/publish"), &format!("p-{channel}-{key}"), &body);
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// What one publisher does.
    fn publish_all(&self, publisher: u64, messages: u64) {
        for number in 0..messages {
            let (key, value) = (format!("{publisher}-{number}"), json!([publisher, number]));
            for channel in ["plain", "group", "short", "purged"] {
                self.publish(channel, &key, value.clone(), json!({}));
            }
            let small = self.publish("small", &key, value.clone(), json!({}));
            self.publish("later", &key, value.clone(), json!({ "deliver_after_ms": 50 + number * 7 }));
            if number % 5 == 0 {
                self.publish("poison", &key, value, json!({}));
            }
            let mut history = self.history.lock().expect("no panic");
            history.published += 1;
            history.dropped += small["dropped_oldest"].as_u64().expect("a count");
            history.poisoned += u64::from(number % 5 == 0);
        }
        self.publishing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Reads a channel until the end, and then until it is empty.
    fn read_all(&self, channel: &str, reader: u64, seed: u64) {
        let mut dice = Dice::new(seed * 77 + reader + 1);
        let path = format!("/v1/channels/{channel}/subscribe");
        for number in 0_u64.. {
            let was_over = self.is_over.load(Ordering::SeqCst);
            let wait = if was_over { 0 } else { dice.roll(0, 300) };
            let body = json!({ "wait_ms": wait, "max_messages": dice.roll(1, 20) });
            let began = wall();
            let (status, answer) = self.ask(&path, &format!("r-{channel}-{reader}-{number}"), &body);
            assert_eq!(status, 200, "{answer}");
            let messages = answer["messages"].as_array().expect("messages");
            self.history.lock().expect("no panic").read(channel, messages, answer["missed"].as_u64(), began);
            if was_over && messages.is_empty() {
                return;
            }
        }
    }

    /// A member of a group that acknowledges, gives back, extends, or forgets what it took.
    fn work(&self, channel: &str, member: u64, seed: u64) {
        let mut dice = Dice::new(seed * 99 + member + 1);
        let mut quiet = 0;
        for number in 0_u64.. {
            let was_over = self.is_over.load(Ordering::SeqCst);
            let body = json!({ "group": "g", "wait_ms": 200, "max_messages": dice.roll(1, 8) });
            let began = Instant::now();
            let (status, answer) = self.ask(
                &format!("/v1/channels/{channel}/subscribe"),
                &format!("t-{channel}-{member}-{number}"),
                &body,
            );
            assert_eq!(status, 200, "{answer}");
            let messages = answer["messages"].as_array().expect("messages").clone();
            quiet = if messages.is_empty() { quiet + 1 } else { 0 };
            // Leases of members that forgot are over after some quiet looks.
            if was_over && quiet > 8 {
                return;
            }
            for message in &messages {
                let delivered = Delivered { cursor: cursor_of(message), began, attempt: attempt_of(message) };
                self.history.lock().expect("no panic").delivered(channel, delivered);
                // Poison is never acknowledged.
                if channel == "poison" {
                    continue;
                }
                let lease = message["lease"].clone();
                let key = format!("s-{channel}-{member}-{}", lease.as_str().expect("a lease"));
                match dice.roll(0, 10) {
                    0 if !was_over => {}
                    1 if !was_over => {
                        let body = json!({ "group": "g", "leases": [lease] });
                        let (status, _) = self.ask(&format!("/v1/channels/{channel}/nak"), &key, &body);
                        assert!([200, 409].contains(&status));
                    }
                    2 => {
                        let body = json!({ "group": "g", "leases": [lease], "lease_ms": 2_000 });
                        let (status, answer) = self.ask(&format!("/v1/channels/{channel}/extend"), &key, &body);
                        if status == 200 {
                            self.acknowledge(channel, message, &answer["leases"][0], &format!("{key}-x"));
                        }
                    }
                    _ => self.acknowledge(channel, message, &lease, &key),
                }
            }
        }
    }

    fn acknowledge(&self, channel: &str, message: &Value, lease: &Value, key: &str) {
        let body = json!({ "group": "g", "leases": [lease] });
        let (status, answer) = self.ask(&format!("/v1/channels/{channel}/ack"), key, &body);
        match status {
            200 => {
                let acked = Acked { cursor: cursor_of(message), at: Instant::now() };
                self.history.lock().expect("no panic").acked.push(acked);
            }
            // It came too late, and was told.
            409 => assert_eq!(answer["error"]["code"], "channel_lease_lost", "{answer}"),
            _ => panic!("{status} {answer}"),
        }
    }

    /// One message at a time, each published while a reader waits: none may be slept through.
    fn ping(&self, rounds: u64) {
        for round in 0..rounds {
            thread::scope(|scope| {
                let reader = scope.spawn(move || {
                    let body = json!({ "wait_ms": WAIT_MS, "max_messages": 1 });
                    self.ask("/v1/channels/pong/subscribe", &format!("pong-{round}"), &body).1
                });
                pass(round % 4);
                self.publish("pong", &round.to_string(), json!(round), json!({}));
                let answer = reader.join().expect("no panic");
                assert_eq!(answer["messages"][0]["value"], round, "a reader slept through a message: {answer}");
            });
            self.history.lock().expect("no panic").woken += 1;
        }
    }

    /// Purges now and then.
    fn purge(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            pass(150);
            let (status, answer) = self.ask_plainly("/v1/channels/purged/purge", &json!({}));
            assert_eq!(status, 200, "{answer}");
            self.history.lock().expect("no panic").purged += answer["purged"].as_u64().expect("a count");
        }
    }
}

fn cursor_of(message: &Value) -> u64 {
    let cursor = message["cursor"].as_str().expect("a cursor");
    cursor.strip_prefix("cur_").and_then(|number| number.parse().ok()).expect("a cursor")
}

fn attempt_of(message: &Value) -> u64 {
    message["attempt"].as_u64().expect("a count")
}

#[test]
fn nothing_is_lost_or_comes_back_when_publishers_readers_groups_kills_and_freezes_meet() {
    let (seed, kills, freezes) = (setting("PROVE_SEED", 16), setting("PROVE_KILLS", 4), setting("PROVE_FREEZES", 2));
    let messages = setting("PROVE_MESSAGES", 25);
    let case = Case::new(CONFIG);
    let start = || -> Server {
        let server = case.start(&json!({}));
        assert!(!server.url.is_empty(), "the server does not start again");
        server
    };
    let mut server = start();
    let stress = Stress {
        url: Mutex::new(server.url.clone()),
        history: Mutex::default(),
        publishing: AtomicUsize::new(PUBLISHERS as usize),
        is_over: AtomicBool::new(false),
    };
    let (mut killed, mut frozen) = (0, 0);
    thread::scope(|scope| {
        let stress = &stress;
        for publisher in 0..PUBLISHERS {
            scope.spawn(move || stress.publish_all(publisher, messages));
        }
        for channel in ["plain", "later", "small", "short", "purged"] {
            for reader in 0..READERS {
                scope.spawn(move || stress.read_all(channel, reader, seed));
            }
        }
        for member in 0..MEMBERS {
            scope.spawn(move || stress.work("group", member, seed));
            scope.spawn(move || stress.work("poison", member, seed));
        }
        scope.spawn(move || stress.ping(messages));
        scope.spawn(move || stress.purge());
        let mut dice = Dice::new(seed);
        while killed < kills || frozen < freezes || stress.publishing.load(Ordering::SeqCst) > 0 {
            pass(dice.roll(100, 500));
            let is_freeze = frozen < freezes && (killed >= kills || dice.roll(0, kills + freezes) < freezes);
            if is_freeze {
                server.signal(Signal::STOP);
                pass(dice.roll(100, 900));
                server.signal(Signal::CONT);
                frozen += 1;
            } else if killed < kills {
                server.kill();
                killed += 1;
                server = start();
                *stress.url.lock().expect("no panic") = server.url.clone();
            }
        }
        // The last deferred message is visible by then, and readers drain what is left.
        pass(100 + messages * 7 + 500);
        stress.is_over.store(true, Ordering::SeqCst);
    });
    let dead = dead_letters(&server.url);
    let left = get(&server.url, "/v1/channels?prefix=small")["channels"][0]["message_count"].as_u64().expect("a count");
    let history = stress.history.into_inner().expect("no panic");
    let summary = history.check(PUBLISHERS, messages, left, &dead);
    say(&format!("{summary}; {killed} kills, {frozen} freezes, seed {seed}"));
}

/// What the dead-letter channel has.
fn dead_letters(url: &str) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let page = get(url, &format!("/v1/channels/poison.dead/peek?from_cursor=cur_{after}&max_messages=100"));
        let messages = page["messages"].as_array().expect("messages");
        if messages.is_empty() {
            return all;
        }
        all.extend(messages.iter().cloned());
        after = cursor_of(messages.last().expect("not empty"));
    }
}

/// Milliseconds of the machine's wall clock, which the server's expiry of messages is compared with.
#[expect(clippy::disallowed_methods, reason = "the server under test reads the machine's clock")]
fn wall() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis() as i64
}
