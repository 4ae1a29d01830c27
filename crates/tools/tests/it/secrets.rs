//! Results that are cut hold no part of a secret: it would not be recognised any more.

use std::sync::Arc;

use drawloom_contract::redact::{MASK, Redactor};
use serde_json::json;

use crate::support::Room;

/// Long enough to be cut anywhere; every part of it can be told from other text.
const SECRET: &str = "Zq7Zq8Zq9Zr0Zr1Zr2Zr3Zr4Zr5Zr6Zr7Zr8";

fn room() -> Room {
    let mut room = Room::new();
    room.redactor = Arc::new(Redactor::new([SECRET]));
    room
}

/// A result, after the engine has masked it, holds no part of the secret.
#[track_caller]
fn is_clean(text: &str) {
    let mut text = text.to_owned();
    Redactor::new([SECRET]).mask(&mut text);
    assert!(!text.contains("Zq") && !text.contains("Zr"), "a part of the secret: {text}");
}

#[tokio::test]
async fn a_file_read_byte_by_byte_shows_no_part_of_a_secret() {
    let room = room();
    room.put("a", format!("é before {SECRET} after é"));
    let size = room.get("a").len();
    for offset in 0..size {
        for limit in [4, 7, 30, 100] {
            let input = json!({ "path": "a", "bytes": true, "offset": offset, "limit": limit });
            // Some windows begin inside a character, which is an error.
            if let Ok(drawloom_contract::tool::Step::Done(drawloom_contract::tool::CallResult { text, .. })) =
                room.call("Read", input).await
            {
                is_clean(&text);
            }
        }
    }
    let whole = room.done("Read", json!({ "path": "a", "bytes": true })).await;
    assert_eq!(whole, format!("é before {MASK} after é"), "also when nothing is cut");
}

#[tokio::test]
async fn lines_that_are_cut_inside_a_secret_show_no_part_of_it() {
    let room = room();
    // The limits of Read, Grep and Edit, each met inside the secret.
    for (name, limit) in [("read", 4000), ("grep", 500), ("edit", 300), ("nearest", 200)] {
        let line = |from: usize| format!("{}{SECRET} end", "x".repeat(limit - from));
        let text: String = (1..SECRET.len()).map(|from| line(from) + "\n").collect();
        room.put(name, format!("{text}marked\n"));
    }
    is_clean(&room.done("Read", json!({ "path": "read" })).await);
    for path in ["read", "grep", "edit", "nearest"] {
        let grep = json!({ "path": path, "pattern": "x", "output_mode": "content", "head_limit": 100 });
        is_clean(&room.done("Grep", grep).await);
        let edit = json!({ "path": path, "old_string": "marked", "new_string": "changed" });
        if path != "read" {
            is_clean(&room.done("Edit", edit).await);
        }
    }
    let wanted = format!("{}Q", "x".repeat(195));
    let nearest = room.fails("Edit", json!({ "path": "nearest", "old_string": wanted, "new_string": "" })).await;
    is_clean(&nearest);
}
