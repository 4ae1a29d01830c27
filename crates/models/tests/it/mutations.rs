//! The bodies of the fuzz targets, over many damaged answers: the same seeds each time.

use drawloom_models::fuzzing;
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, RngSeed},
};

use crate::fixture::fixture;

const FIXTURES: &[&str] = &[
    "anthropic/text.sse",
    "anthropic/thinking_and_tools.sse",
    "anthropic/clipped_call.sse",
    "anthropic/whole.json",
    "openai/text.sse",
    "openai/parallel_tools.sse",
    "openai/whole.json",
    "responses/text.sse",
    "responses/thinking_and_tools.sse",
    "responses/clipped_call.sse",
    "responses/whole.json",
    "deepseek/thinking_and_tools.sse",
];

/// One kind of damage: at a place, by a byte.
fn damage(mut bytes: Vec<u8>, changes: &[(u8, usize, u8)]) -> Vec<u8> {
    for (kind, place, byte) in changes {
        let at = place % (bytes.len() + 1);
        match kind % 5 {
            0 => bytes.insert(at, *byte),
            1 if at < bytes.len() => bytes[at] = *byte,
            2 => bytes.truncate(at),
            3 => bytes = [&bytes[..at], &bytes[at / 2..]].concat(),
            _ => bytes.drain(at..bytes.len().min(at + usize::from(*byte))).for_each(drop),
        }
        bytes.truncate(64 * 1024);
    }
    bytes
}

#[test]
fn damaged_answers_never_panic_and_cuts_change_nothing() {
    let fixtures: Vec<Vec<u8>> = FIXTURES.iter().map(|name| fixture(name)).collect();
    let config = Config { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(11), ..Config::default() };
    let change = (any::<u8>(), 0usize..8192, any::<u8>());
    proptest!(config, |(which in 0..fixtures.len(), changes in vec(change, 0..6))| {
        let bytes = damage(fixtures[which].clone(), &changes);
        fuzzing::check_sse(&bytes);
        fuzzing::check_anthropic(&bytes);
        fuzzing::check_openai(&bytes);
        fuzzing::check_responses(&bytes);
        fuzzing::check_deepseek(&bytes);
    });
}

/// What fuzzing found once.
#[test]
fn white_space_before_an_answer_changes_nothing() {
    for bytes in [b"\t  {".as_slice(), b"\n\n{\n \"id\": \"x", b"\n \tdata: {}\n\n", b"  "] {
        fuzzing::check_anthropic(bytes);
        fuzzing::check_openai(bytes);
        fuzzing::check_responses(bytes);
        fuzzing::check_deepseek(bytes);
    }
}
