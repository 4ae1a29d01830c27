//! Servers that hang, die, flood, lie or are late.

use serde_json::json;

use super::house::{Play, Remote, Wire};

#[test]
fn a_server_that_hangs_fails_the_call_and_names_the_limit() {
    for wire in [Wire::Stdio, Wire::Http] {
        let played = Play::new(wire, &[])
            .set("timeout_ms", json!(300))
            .turn("hang", json!({}))
            .turn("echo", json!({"text": "next"}))
            .run();
        let said = played.failure(0);
        let begin = "`hang` on the MCP server out timed out after 300 ms (mcp_servers.out.timeout_ms)";
        assert!(said.starts_with(begin), "{wire:?}: {said}");
        assert_eq!(played.texts()[1], "next", "{wire:?}");
    }
}

#[test]
fn a_server_that_answers_nothing_any_more_is_started_again() {
    let played = Play::new(Wire::Stdio, &[])
        .set("timeout_ms", json!(300))
        .turn("freeze", json!({}))
        .turn("echo", json!({"text": "too early"}))
        .turn_after(6_500, "echo", json!({"text": "again"}))
        .run();
    assert!(played.failure(0).contains("`freeze` on the MCP server out timed out"));
    assert!(played.failure(1).contains("`echo` on the MCP server out timed out"));
    assert_eq!(played.calls[2], ("echo".to_owned(), false, "again".to_owned()));
}

#[test]
fn a_server_that_does_not_read_its_input_any_more_is_replaced() {
    let played = Play::new(Wire::Stdio, &[])
        .set("timeout_ms", json!(300))
        .turn("pid", json!({}))
        .turn("deaf", json!({}))
        // More than a pipe holds.
        .turn("echo", json!({"text": "x".repeat(300_000)}))
        .turn_after(6_500, "echo", json!({"text": "again"}))
        .turn("pid", json!({}))
        .run();
    assert!(played.failure(1).contains("`deaf` on the MCP server out timed out"), "{played:#?}");
    assert!(played.failure(2).contains("`echo` on the MCP server out timed out"), "{:.300}", played.texts()[2]);
    assert_eq!(played.calls[3], ("echo".to_owned(), false, "again".to_owned()));
    assert_ne!(played.texts()[0], played.texts()[4], "it is still the same process");
}

#[test]
fn a_program_that_dies_is_started_again_and_the_call_says_how_it_died() {
    let played = Play::new(Wire::Stdio, &[]).turn("die", json!({})).turn("echo", json!({"text": "risen"})).run();
    let said = played.failure(0);
    assert!(
        said.starts_with(
            "the MCP server out failed during `die`: it exited with code 3; last output: these are my last words. The call \
             may have taken effect"
        ),
        "{said}"
    );
    assert_eq!(played.texts()[1], "risen");
}

#[test]
fn a_server_elsewhere_that_dies_is_reached_again_when_it_is_back() {
    let mut play = Play::new(Wire::Http, &["era=legacy"]).turn("die", json!({})).turn("echo", json!({"text": "x"}));
    let played = play.run();
    assert!(played.failure(0).starts_with("the MCP server out failed during `die`"), "{played:#?}");
    assert!(played.failure(1).contains("was not called: the MCP server out is not available: "), "{played:#?}");
    let port = format!("port={}", play.remote.as_ref().expect("a server").port());
    play.remote = Some(Remote::start(&["era=legacy", &port], &[]));
    let mut again = Play::new(Wire::Stdio, &[]);
    again.config = play.config.clone();
    assert_eq!(again.turn("echo", json!({"text": "back"})).run().texts(), ["back"]);
}

#[test]
fn a_request_that_is_refused_does_not_break_off_the_others() {
    for era in ["modern", "legacy"] {
        let played = Play::new(Wire::Http, &[&format!("era={era}")])
            .turn_of(&[("late", json!({"text": "one", "bytes": 1_500})), ("throttle", json!({}))])
            .turn("echo", json!({"text": "next"}))
            .run();
        let mut calls = played.calls.clone();
        calls[..2].sort();
        assert_eq!(calls[0], ("late".to_owned(), false, "late: one".to_owned()), "{era}");
        let refusal = "`throttle` was not called: the MCP server out did not accept the request: HTTP 429 (text/plain): slow \
                       down";
        assert_eq!(calls[1], ("throttle".to_owned(), true, refusal.to_owned()), "{era}");
        assert_eq!(calls[2].2, "next", "{era}");
    }
}

#[test]
fn a_server_that_keeps_dying_is_left_alone_for_a_while() {
    let played = Play::new(Wire::Stdio, &[])
        .turn("die", json!({}))
        .turn("die", json!({}))
        .turn("die", json!({}))
        .turn("echo", json!({"text": "x"}))
        .run();
    assert!(played.failure(2).contains("failed during `die`"), "{played:#?}");
    let said = played.failure(3);
    assert!(
        said.starts_with("`echo` was not called: the MCP server out keeps exiting: it exited with code 3"),
        "{said}"
    );
}

#[test]
fn a_huge_result_is_cut_and_says_how_much_is_missing() {
    for wire in [Wire::Stdio, Wire::Http] {
        let played =
            Play::new(wire, &[]).set("max_output_bytes", json!(2_000)).turn("flood", json!({"bytes": 3_000_000})).run();
        let text = played.texts()[0];
        let half = "x".repeat(1_000);
        assert_eq!(text, format!("{half}\n[truncated: 2998000 bytes omitted]\n{half}"), "{wire:?}");
        let played =
            Play::new(wire, &[]).turn("flood", json!({"bytes": 9_000_000})).turn("echo", json!({"text": "on"})).run();
        assert!(
            played.failure(0).contains("it sent a message of more than 8388608 bytes"),
            "{wire:?}: {:.300}",
            played.texts()[0]
        );
        assert_eq!(played.texts()[1], "on", "{wire:?}");
    }
}

#[test]
fn floods_are_hung_up_on_within_bounded_memory() {
    for tool in ["endless", "garbage", "notify", "pings", "strangers"] {
        let play = Play::new(Wire::Stdio, &[]).turn(tool, json!({})).turn("echo", json!({"text": "on"}));
        play.write();
        let server = play.serve();
        let result = play.finish(&["run", "a", "begin", "--json"]).exits(0).json();
        let played = play.look(result);
        let said = played.failure(0);
        assert!(said.contains("connection closed: "), "{tool}: {said}");
        assert_eq!(played.texts()[1], "on", "{tool}");
        let peak = server.peak_memory();
        assert!(peak < 200 * 1024 * 1024, "{tool}: {peak} bytes");
    }
}

#[test]
fn floods_over_http_end_with_their_call() {
    let cases =
        [("endless", "connection closed: "), ("garbage", "invalid event stream"), ("notify", "connection closed: ")];
    let both = |(tool, why)| [(tool, why, "era=modern"), (tool, why, "era=legacy")];
    let pings = both(("pings", "connection closed: it sent more than 16 requests without reading the responses"));
    for (tool, why, era) in cases.map(|(tool, why)| (tool, why, "era=both")).into_iter().chain(pings) {
        let play = Play::new(Wire::Http, &[era])
            .set("timeout_ms", json!(5_000))
            .turn(tool, json!({}))
            .turn("echo", json!({"text": "on"}));
        play.write();
        let server = play.serve();
        let result = play.finish(&["run", "a", "begin", "--json"]).exits(0).json();
        let played = play.look(result);
        let said = played.failure(0);
        assert!(said.contains(why), "{tool}: {said}");
        assert_eq!(played.texts()[1], "on", "{tool}");
        let peak = server.peak_memory();
        assert!(peak < 250 * 1024 * 1024, "{tool}: {peak} bytes");
    }
}

#[test]
fn tools_whose_schema_lies_are_left_out_and_the_run_says_so() {
    for wire in [Wire::Stdio, Wire::Http] {
        let played = Play::new(wire, &["list=lies"])
            .turn("echo", json!({"text": "the first echo"}))
            .turn("odd_name_with_signs", json!({}))
            .turn("wrong_type", json!({}))
            .run();
        assert_eq!(played.texts()[0], "the first echo", "{wire:?}");
        assert!(played.failure(1).contains("unknown tool odd name/with signs"), "{wire:?} {played:#?}");
        assert!(played.failure(2).starts_with("unknown tool \"mcp__out__wrong_type\"; "), "{wire:?}");
        let warnings = played.result["warnings"].to_string();
        for said in [
            "`mcp__out__no_schema` omitted: its input schema is not a JSON object",
            "`mcp__out__text_schema` omitted: its input schema is not a JSON object",
            "unknown type",
            "`mcp__out__far_reference` omitted",
            "is renamed to `mcp__out__odd_name_with_signs`",
            "`mcp__out__echo` omitted: the server has another tool of that name",
        ] {
            assert!(warnings.contains(said), "{wire:?} {said}: {warnings}");
        }
    }
}

#[test]
fn of_ten_thousand_tools_as_many_are_offered_as_a_turn_can_hold() {
    let played = Play::new(Wire::Stdio, &["list=many"]).turn("tool_5", json!({})).run();
    let said = "tools: 9872 tools of `mcp__out__*` omitted: the limit is 128; filter them with `tools`";
    assert_eq!(played.result["warnings"], json!([said]));
    assert!(played.failure(0).contains("unknown tool tool_5"));
}

#[test]
fn an_answer_that_comes_too_late_does_not_confuse_the_next_call() {
    for wire in [Wire::Stdio, Wire::Http] {
        let played = Play::new(wire, &[])
            .set("timeout_ms", json!(600))
            .turn("late", json!({"text": "one", "bytes": 1_000}))
            .turn("late", json!({"text": "two", "bytes": 300}))
            .turn("late", json!({"text": "three", "bytes": 300}))
            .run();
        assert!(
            played.failure(0).contains("`late` on the MCP server out timed out after 600 ms"),
            "{wire:?} {played:#?}"
        );
        assert_eq!(played.texts()[1..], ["late: two", "late: three"], "{wire:?}");
    }
}

#[test]
fn a_run_starts_without_a_server_that_does_not_and_says_which_tools_are_missing() {
    let cases = [
        (Play::new(Wire::Stdio, &["start=die"]), "it exited with code 7; last output: this server dies at once"),
        (
            Play::new(Wire::Stdio, &["start=hang"]).set("start_timeout_ms", json!(400)),
            "timed out after 400 ms listing its tools (mcp_servers.out.start_timeout_ms)",
        ),
        (
            Play::new(Wire::Http, &["start=hang"]).set("start_timeout_ms", json!(400)),
            "timed out after 400 ms listing its tools (mcp_servers.out.start_timeout_ms)",
        ),
        (Play::new(Wire::Stdio, &[]).set("command", json!(["/no/such/program"])), "it cannot be started"),
    ];
    for (play, why) in cases {
        let played = play.turn("echo", json!({})).run();
        let warning = played.result["warnings"][0].as_str().expect("a warning");
        let begin = "tools: `mcp__out__*` not available: the MCP server out is not available: ";
        assert!(warning.starts_with(&format!("{begin}{why}")), "{warning}");
        assert_eq!(played.failure(0), "unknown tool \"mcp__out__echo\"; this agent has no tools");
    }
}

#[test]
fn a_server_of_the_older_era_that_ignores_the_newer_question_is_reached_within_a_short_limit() {
    for wire in [Wire::Stdio, Wire::Http] {
        let played = Play::new(wire, &["era=silent"])
            .set("start_timeout_ms", json!(6_000))
            .turn("echo", json!({"text": "hello"}))
            .run();
        assert_eq!(played.texts(), ["hello"], "{wire:?}");
    }
}

#[test]
fn an_answer_that_cannot_be_parsed_fails_its_call_at_once() {
    for wire in [Wire::Stdio, Wire::Http] {
        let played = Play::new(wire, &[]).turn("deep", json!({})).turn("echo", json!({"text": "next"})).run();
        let said = played.failure(0);
        assert!(said.contains("the response is not valid JSON: recursion limit exceeded"), "{wire:?}: {said}");
        assert_eq!(played.texts()[1], "next", "{wire:?}");
    }
}

#[test]
fn a_session_that_is_lost_fails_neither_the_call_nor_those_under_way() {
    let played = Play::new(Wire::Http, &["era=legacy"])
        .turn_of(&[("late", json!({"text": "one", "bytes": 2_000})), ("forget", json!({}))])
        .turn("echo", json!({"text": "next"}))
        .run();
    let mut texts = played.texts();
    texts.sort();
    assert_eq!(texts, ["I know you now", "late: one", "next"], "{played:#?}");
}

#[test]
fn a_request_that_is_only_accepted_fails_at_once() {
    for era in ["modern", "legacy"] {
        let played = Play::new(Wire::Http, &[&format!("era={era}")])
            .turn("accept", json!({}))
            .turn("echo", json!({"text": "next"}))
            .run();
        assert!(played.failure(0).contains("HTTP 202 without a response message"), "{era}: {played:#?}");
        assert_eq!(played.texts()[1], "next", "{era}");
    }
}

#[test]
fn a_list_of_tools_that_cannot_be_parsed_is_said_at_once() {
    for wire in [Wire::Stdio, Wire::Http] {
        let warning = Play::new(wire, &["list=deep"]).run().result["warnings"][0].to_string();
        assert!(warning.contains("the response is not valid JSON: recursion limit"), "{wire:?}: {warning}");
    }
}
