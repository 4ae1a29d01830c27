//! The bodies of the fuzz targets: whatever the bytes are, nothing panics, and where they are cut changes nothing.

use drawloom_contract::model::{DeltaKind, Deltas, Turn};
use drawloom_net::sse;

use crate::{
    anthropic,
    chat::reader::Reasoning,
    deepseek,
    fault::Fault,
    intake::{Intake, Progress, Reader, STREAM},
    openai, responses,
};

struct NoDeltas;

impl Deltas for NoDeltas {
    fn push(&self, _: DeltaKind, _: &str) {}
}

/// Server-sent events.
pub fn check_sse(bytes: &[u8]) {
    let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut parser = sse::Parser::new(STREAM);
        let mut events = Vec::new();
        for piece in pieces {
            parser.feed(piece, &mut events)?;
        }
        events.extend(parser.finish()?);
        Ok::<_, sse::TooLong>(events)
    };
    assert_eq!(read(&mut std::iter::once(bytes)), read(&mut pieces(bytes)), "cuts changed the events");
}

/// Answers of the Messages API.
pub fn check_anthropic(bytes: &[u8]) {
    check(bytes, &anthropic::reader);
}

/// Answers of the Chat Completions API.
pub fn check_openai(bytes: &[u8]) {
    check(bytes, &openai::reader);
}

/// Answers of the Responses API.
pub fn check_responses(bytes: &[u8]) {
    check(bytes, &responses::reader);
}

/// Answers of DeepSeek's API.
pub fn check_deepseek(bytes: &[u8]) {
    check(bytes, &|| deepseek::reader(Reasoning::Expected));
}

fn check(bytes: &[u8], reader: &dyn Fn() -> Box<dyn Reader>) {
    let whole = read(reader(), &mut std::iter::once(bytes));
    assert_eq!(whole, read(reader(), &mut pieces(bytes)), "cuts changed the turn");
}

fn read(reader: Box<dyn Reader>, pieces: &mut dyn Iterator<Item = &[u8]>) -> Result<Turn, Fault> {
    let mut intake = Intake::new(reader);
    for piece in pieces {
        if intake.feed(piece, &NoDeltas)? == Progress::Over {
            break;
        }
    }
    intake.finish(&NoDeltas)
}

/// `bytes` in pieces of one to seven bytes, as they say themselves.
fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let (piece, tail) = rest.split_at(rest.len().min(usize::from(first % 7) + 1));
        rest = tail;
        Some(piece)
    })
}
