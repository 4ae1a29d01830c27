//! An operation's input out of a request: body, path, query and headers, each a field.

use std::{task::Poll, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, header, request},
};
use bytes::{Bytes, BytesMut};
use drawloom_contract::failure::{Failure, FailureKind};
use drawloom_wire::{body, request::Method, validate::Validator};
use futures::StreamExt;
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    app::App,
    operation::{Card, Precedence},
    rest::Refusal,
};

/// Refuses a body where none is read: it would be ignored in silence.
pub(super) fn no_body(method: Method, headers: &HeaderMap) -> Result<(), Failure> {
    let has_length = headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0");
    if has_length || headers.contains_key(header::TRANSFER_ENCODING) {
        let message = format!("a {} request must not have a body", method.as_str());
        return Err(
            Failure::new(FailureKind::Invalid, "unexpected_body", message).with_hint("move the fields to the query")
        );
    }
    Ok(())
}

/// A body, and the room that it takes while it is held.
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// Bodies up to this long are not counted: there cannot be enough of them to matter.
const UNCOUNTED: usize = 64 * 1024;

/// How long a body waits for room.
const ROOM_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads a whole body of at most `limit` bytes, in bounded time and with bounded memory over all requests.
pub(crate) async fn read_body(app: &App, headers: &HeaderMap, body: Body, limit: usize) -> Result<Held, Failure> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let too_long = length.is_some_and(|length| length > limit as u64);
    if too_long && headers.contains_key(header::EXPECT) {
        // The sender waits for a word before it sends: this is it.
        return Err(too_large(limit));
    }
    let mut read = std::pin::pin!(collect(app, body, limit));
    // Most bodies come with their head; only others need a clock.
    if let Poll::Ready(done) = futures::poll!(&mut read) {
        return done;
    }
    let deadline = app.clock.now().after(app.limits.body_timeout);
    tokio::select! {
        done = read => done,
        () = app.clock.sleep_until(deadline) => {
            let message = format!("timed out after {} s reading the body", app.limits.body_timeout.as_secs());
            Err(Failure::new(FailureKind::Invalid, "body_too_slow", message))
        }
    }
}

/// Room for `bytes` more of a large body. When there is none, the upload that began first makes room: one that does not
/// go on would otherwise keep others out until its time is up.
async fn room(app: &App, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
    let kibibytes = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
    let rooms = &app.room_for_bodies;
    if let Ok(room) = rooms.clone().try_acquire_many_owned(kibibytes) {
        return Ok(room);
    }
    app.connections.close_oldest_upload();
    let deadline = app.clock.now().after(ROOM_TIMEOUT);
    tokio::select! {
        room = rooms.clone().acquire_many_owned(kibibytes) => Ok(room.expect("it is never closed")),
        () = app.clock.sleep_until(deadline) => {
            let message = format!("request body limit reached: {} bytes of other large bodies are being read", app.limits.bodies);
            let failure = Failure::new(FailureKind::Unavailable, "too_many_bodies", message);
            Err(failure.with_hint("send fewer large requests at a time"))
        }
    }
}

/// The body whole. A body that is too long is read on for as much again, unkept, so that its sender gets to read why.
async fn collect(app: &App, body: Body, limit: usize) -> Result<Held, Failure> {
    let mut stream = body.into_data_stream();
    let mut whole = BytesMut::new();
    let mut first: Option<Bytes> = None;
    let mut held: Option<OwnedSemaphorePermit> = None;
    let (mut length, mut counted) = (0, UNCOUNTED);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| {
            Failure::new(FailureKind::Invalid, "broken_body", format!("the body ended after {length} bytes: {error}"))
        })?;
        length += chunk.len();
        if length > limit.saturating_mul(2) {
            break;
        }
        if length > limit {
            (whole, first, held) = (BytesMut::new(), None, None);
            continue;
        }
        if length > counted {
            let more = room(app, length - counted).await?;
            counted = length;
            match &mut held {
                Some(held) => held.merge(more),
                None => held = Some(more),
            }
        }
        // One piece is the usual case, and needs no copy.
        match first.take() {
            None if whole.is_empty() => first = Some(chunk),
            None => whole.extend_from_slice(&chunk),
            Some(piece) => {
                whole.extend_from_slice(&piece);
                whole.extend_from_slice(&chunk);
            }
        }
    }
    if length > limit {
        return Err(too_large(limit));
    }
    Ok(Held { bytes: first.unwrap_or_else(|| whole.freeze()), _room: held })
}

fn too_large(limit: usize) -> Failure {
    Failure::new(FailureKind::TooLarge, "too_large", format!("the body is longer than {limit} bytes"))
        .with_hint("send less; put large texts in a volume and pass the file name")
}

/// The whole input: the body's fields, joined by those of path, query and headers.
pub(super) fn assemble<'a>(
    card: &Card,
    validator: &Validator,
    parts: &request::Parts,
    path: impl Iterator<Item = (&'static str, &'a str)>,
    body: Option<&[u8]>,
) -> Result<Value, Refusal> {
    let mut value = body::parse(body.unwrap_or_default())?;
    let Some(map) = value.as_object_mut() else {
        let failure = Failure::new(FailureKind::Invalid, "wrong_type", "the body must be a JSON object");
        return Err(failure.with_hint("send {\"name\": value, ...}").into());
    };
    if body.is_none() {
        query(validator, parts.uri.query().unwrap_or_default(), map)?;
    } else if let Some(query) = parts.uri.query().filter(|query| !query.is_empty()) {
        let failure = Failure::new(FailureKind::Invalid, "unexpected_query", format!("unexpected query ?{query}"));
        return Err(failure.with_hint("move the fields to the body").into());
    }
    for (name, text) in path {
        join(map, name, validator.read_text(name, text), "the path")?;
    }
    for known in &card.headers {
        let Some(header) = parts.headers.get(known.header) else { continue };
        let text = header.to_str().map_err(|_| {
            Failure::new(FailureKind::Invalid, "bad_header", format!("the header {} is not plain text", known.header))
        })?;
        let said = validator.read_text(known.field, text);
        match known.precedence {
            Precedence::Header => drop(map.insert(known.field.into(), said)),
            Precedence::MustAgree => join(map, known.field, said, &format!("the header {}", known.header))?,
        }
    }
    Ok(value)
}

fn join(map: &mut Map<String, Value>, name: &str, said: Value, place: &str) -> Result<(), Failure> {
    match map.get(name) {
        Some(there) if *there != said => {
            let message = format!("{name} is {there} in the body and {said} in {place}");
            Err(Failure::new(FailureKind::Invalid, "contradiction", message).with_hint("set it in one place only"))
        }
        Some(_) => Ok(()),
        None => {
            map.insert(name.into(), said);
            Ok(())
        }
    }
}

fn query(validator: &Validator, query: &str, map: &mut Map<String, Value>) -> Result<(), Failure> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, text) = (unescape(name)?, unescape(text)?);
        let said = validator.read_text(&name, &text);
        let more = match (map.remove(&name), said) {
            (None, said) => said,
            // A list may be written by repeating its key.
            (Some(Value::Array(mut there)), Value::Array(more)) => {
                there.extend(more);
                Value::Array(there)
            }
            (Some(_), _) => {
                return Err(Failure::new(
                    FailureKind::Invalid,
                    "repeated",
                    format!("duplicate query parameter {name}"),
                ));
            }
        };
        map.insert(name, more);
    }
    Ok(())
}

fn unescape(text: &str) -> Result<String, Failure> {
    if !text.contains(['%', '+']) {
        return Ok(text.into());
    }
    let bad = || {
        let shown: String = text.chars().take(80).collect();
        Failure::new(FailureKind::Invalid, "bad_query", format!("invalid percent-encoding in {shown:?}"))
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16)).ok_or_else(bad);
                let byte = digit()? * 16 + digit()?;
                u8::try_from(byte).map_err(|_| bad())?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| bad())
}
