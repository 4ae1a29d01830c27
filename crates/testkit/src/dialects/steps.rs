//! Ten turns of a model that thinks and reads a file line by line.

use std::time::Duration;

use serde_json::json;

use crate::providers::{Asked, Reply, ServerReply, Shape};

/// Turns of the model, the last one without a call.
pub const TURNS: usize = 10;

/// A turn of a model that thinks, reads the next line of `note.txt` and, in its tenth turn, is done. Each turn reads 100 tokens and 60
/// from the cache, and writes 40, of which 7 are reasoning.
pub fn ten_turns(asked: &Asked) -> ServerReply {
    let said = match asked.shape {
        Shape::Responses => asked.items().iter().filter(|item| item["type"] == "function_call").count(),
        _ => asked.messages().iter().filter(|message| message["role"] == "assistant").count(),
    };
    let turn = said + 1;
    let reply = match turn < TURNS {
        true => Reply::text("").call("Read", &json!({ "path": "note.txt", "offset": turn, "limit": 1 })),
        false => Reply::text("All ten lines are read."),
    };
    let reply = reply.thinking(format!("Line {turn:02} comes next, I think.")).usage([100, 40, 0, 60]);
    reply.pieces(3, Duration::ZERO).into()
}
