//! What is known of clients: how long each waits for an answer, whether progress makes it wait longer, and which part of an
//! answer its model gets.

use std::time::Duration;

use rmcp::model::CallToolResult;

/// How a client waits.
struct Client {
    /// How its `clientInfo.name` begins, in lower case.
    name: &'static str,
    /// How long it waits in silence.
    silent: Duration,
    /// How long it waits while it hears of progress; without end, when absent.
    informed: Option<Duration>,
}

/// How long a client waits that nobody knows: most give up after a minute.
const UNKNOWN: Duration = Duration::from_secs(50);

/// The longest wait of one call, heartbeats or not: a session that is idle longer is put away.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Clients whose limits were seen; `docs/mcp.md` says what was seen of each. A user can set shorter ones, which only the
/// client knows: then it stops waiting, and the run goes on.
const CLIENTS: &[Client] = &[
    // 300 s of silence over HTTP; word of progress resets it.
    Client { name: "claude-code", silent: Duration::from_secs(280), informed: None },
    // tool_timeout_sec, whatever it hears: 300 by default, 60 in older versions and many configs.
    Client { name: "codex", silent: UNKNOWN, informed: Some(UNKNOWN) },
    // 60 s by default; word of progress resets it.
    Client { name: "opencode", silent: UNKNOWN, informed: None },
];

/// Clients that hand their model `structuredContent` in place of the text, as seen (`tests/hosts/FACTS.md`). Their models get
/// the text, which is shorter and leads with the answer.
const HAND_ON_VALUES: [&str; 2] = ["claude-code", "codex"];

/// Leaves out of `result` what the client that calls itself `name` would tell its model in place of the text.
pub(super) fn lead_with_text(name: Option<&str>, result: &mut CallToolResult) {
    let name = name.unwrap_or_default().to_ascii_lowercase();
    if !result.content.is_empty() && HAND_ON_VALUES.iter().any(|known| name.starts_with(known)) {
        result.structured_content = None;
    }
}

/// How long the client that calls itself `name` can be kept waiting. `informed` says whether it hears of progress, and
/// `own` is when it wants an answer at the latest.
pub(super) fn patience(name: Option<&str>, informed: bool, own: Option<Duration>) -> Duration {
    let name = name.unwrap_or_default().to_ascii_lowercase();
    let known = CLIENTS.iter().find(|client| name.starts_with(client.name));
    let bears = match (known, informed) {
        (Some(client), true) => client.informed,
        (Some(client), false) => Some(client.silent),
        (None, true) => None,
        (None, false) => Some(UNKNOWN),
    };
    let bears = bears.unwrap_or(LONGEST);
    own.map_or(bears, |own| bears.min(own))
}

#[cfg(test)]
mod tests {
    use rmcp::model::ContentBlock;

    use super::*;

    #[test]
    fn a_client_is_answered_before_it_gives_up() {
        let seconds =
            |name, informed, own: Option<u64>| patience(name, informed, own.map(Duration::from_secs)).as_secs();
        assert_eq!(seconds(None, false, None), 50);
        assert_eq!(seconds(None, true, None), 86_400);
        assert_eq!(seconds(Some("claude-code"), true, None), 86_400);
        assert_eq!(seconds(Some("Claude-Code"), false, None), 280);
        assert_eq!(seconds(Some("codex-mcp-client"), true, None), 50);
        assert_eq!(seconds(Some("opencode"), false, None), 50);
        assert_eq!(seconds(Some("opencode"), true, None), 86_400);
        assert_eq!(seconds(Some("claude-code"), true, Some(10)), 10);
    }

    #[test]
    fn a_client_that_hands_values_on_gets_the_text_alone() {
        let answer = |name| {
            let mut result = CallToolResult::success(vec![ContentBlock::text("text")]);
            result.structured_content = Some(serde_json::json!({ "status": "done" }));
            lead_with_text(name, &mut result);
            (result.content.len(), result.structured_content.is_some())
        };
        assert_eq!(["claude-code", "codex-mcp-client"].map(|name| answer(Some(name))), [(1, false); 2]);
        assert_eq!([Some("opencode"), Some("a program"), None].map(answer), [(1, true); 3]);
    }
}
