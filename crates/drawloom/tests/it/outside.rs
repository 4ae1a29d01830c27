//! Outside MCP servers as tools, in whole runs: whatever a server does, the run goes on and says what happened.

mod faults;
mod house;
mod lives;
mod secrets;

use serde_json::json;

use house::{Play, Wire};

#[test]
fn tools_are_called_over_every_wire_and_in_both_eras() {
    for wire in [Wire::Stdio, Wire::Http] {
        for era in ["both", "modern", "legacy", "lists", "unsupported", "agrees"] {
            let played = Play::new(wire, &[&format!("era={era}")])
                .turn("echo", json!({"text": "hello"}))
                .turn("structured", json!({}))
                .run();
            assert_eq!(played.texts(), ["hello", "{\"answer\":42}"], "{wire:?} {era}");
            assert_eq!(played.result["warnings"], json!(null), "{wire:?} {era}");
        }
    }
}

#[test]
fn a_server_that_ends_at_a_question_it_does_not_know_is_asked_the_older_way() {
    let played = Play::new(Wire::Stdio, &["era=dies"]).turn("echo", json!({"text": "hello"})).run();
    assert_eq!(played.texts(), ["hello"]);
}

#[test]
fn errors_of_tools_are_told_to_the_model_and_the_run_goes_on() {
    for wire in [Wire::Stdio, Wire::Http] {
        let played = Play::new(wire, &[])
            .turn("fail", json!({}))
            .turn("refuse", json!({}))
            .turn("nonsense", json!({}))
            .turn("echo", json!({"text": "still here"}))
            .run();
        assert_eq!(
            played.calls,
            [
                ("fail".to_owned(), true, "it did not work".to_owned()),
                ("refuse".to_owned(), true, "the MCP server out rejected `refuse`: I will not (code -32602)".to_owned()),
                (
                    "nonsense".to_owned(),
                    true,
                    "the response of the MCP server out to `nonsense` is not a tool result. The call may have taken effect"
                        .to_owned()
                ),

                ("echo".to_owned(), false, "still here".to_owned()),
            ],
            "{wire:?}"
        );
    }
}

#[test]
fn an_answer_that_cannot_be_read_leaves_the_call_in_doubt() {
    for wire in [Wire::Stdio, Wire::Http] {
        let played = Play::new(wire, &[]).turn("garbled", json!({})).turn("echo", json!({"text": "still here"})).run();
        let (_, is_error, text) = &played.calls[0];
        let begins = "cannot read the response of the MCP server out to `garbled`: ";
        assert!(*is_error && text.starts_with(begins) && !text.contains("refused"), "{wire:?}: {text}");
        assert!(text.ends_with(". The call may have taken effect"), "{wire:?}: {text}");
        assert_eq!(played.calls[1].2, "still here", "{wire:?}");
    }
}

#[test]
fn the_operators_filter_and_the_agents_list_decide_which_tools_there_are() {
    let played = Play::new(Wire::Stdio, &[])
        .set("tools", json!(["echo", "*ai*"]))
        .agent_tools(json!(["mcp__out__echo", "mcp__out__hang", "mcp__out__fail"]))
        .turn("hang", json!({}))
        .turn("echo", json!({"text": "hello"}))
        .run();
    let hidden =
        "tools: `mcp__out__hang` not available: the MCP server has no such tool, or the config's filter hides it";
    assert_eq!(played.result["warnings"], json!([hidden]));
    let refusal = "unknown tool \"mcp__out__hang\"; this agent's tools: mcp__out__echo, mcp__out__fail";
    assert_eq!(played.texts(), [refusal, "hello"]);
}

#[test]
fn doctor_says_whether_a_server_starts_and_what_it_has() {
    let play = Play::new(Wire::Stdio, &["list=lies"]);
    let ran = play.finish(&["doctor"]).exits(0);
    assert!(
        ran.stdout.contains("mcp server      out: it answers in ") && ran.stdout.contains(" and has 28 tools"),
        "{ran:#?}"
    );
    assert!(ran.stdout.contains("`mcp__out__wrong_type` omitted"), "{ran:#?}");
    let play = Play::new(Wire::Stdio, &["start=die"]);
    let ran = play.finish(&["doctor"]).exits(1);
    let said = "out: the MCP server out is not available: it exited with code 7; last output: this server dies at once";
    let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(said) && text.contains("FAIL mcp server"), "{ran:#?}");
}

#[test]
fn a_config_that_names_a_server_that_is_not_there_is_refused_with_a_hint() {
    let play = Play::new(Wire::Stdio, &[]).agent_tools(json!(["mcp__uot__echo"]));
    play.write();
    let ran = play.home.run(&["validate"]).exits(2);
    assert!(
        ran.stderr.contains("unknown MCP server \"uot\"") && ran.stderr.contains("did you mean \"out\"?"),
        "{ran:#?}"
    );
}

#[test]
fn a_tool_that_comes_later_is_there_for_the_next_run() {
    let play = Play::new(Wire::Stdio, &[]).turn("grow", json!({})).turn("grown", json!({}));
    play.write();
    let _server = play.serve();
    let run = || play.look(play.finish(&["run", "a", "begin", "--json"]).exits(0).json());
    let first = run();
    assert!(first.failure(1).starts_with("unknown tool \"mcp__out__grown\"; "), "{first:#?}");
    assert_eq!(run().texts(), ["there is one more", "here I am"]);
}

#[test]
fn a_list_without_end_is_cut_and_that_is_said() {
    let played = Play::new(Wire::Stdio, &["list=endless"]).turn("echo", json!({"text": "hello"})).run();
    assert_eq!(played.texts(), ["hello"]);
    let warnings = played.result["warnings"].to_string();
    assert!(warnings.contains("the tool list of `mcp__out__*` is too long"), "{warnings}");
}

#[test]
fn a_child_has_tools_that_its_parent_has_not() {
    let mut play = Play::new(Wire::Stdio, &[]);
    play.config["agents"]["boss"] = json!({"tools": ["Agent"], "agents": ["a"], "hosts": [], "volumes": []});
    play.config["providers"]["script"]["options"]["rules"] = json!([
        {"when": {"agent": "boss", "turn": 1}, "calls": [{"tool": "Agent", "input": {"name": "a", "prompt": "x"}}]},
        {"when": {"agent": "a", "turn": 1}, "calls": [{"tool": "mcp__out__echo", "input": {"text": "from the child"}}]},
        {"text": "{{last}}"},
    ]);
    play.home.write("drawloom.yaml", &play.config.to_string());
    let result = play.finish(&["run", "boss", "begin", "--json"]).exits(0).json();
    assert!(result["final_text"].as_str().is_some_and(|text| text.ends_with(": from the child")), "{result:#}");
}

#[test]
fn calls_go_on_and_the_old_tools_stay_when_the_new_list_does_not_come() {
    let play = Play::new(Wire::Stdio, &["list=once"])
        .set("start_timeout_ms", json!(1_500))
        .turn("grow", json!({}))
        .turn("echo", json!({"text": "still here"}))
        .turn("pid", json!({}));
    play.write();
    let _server = play.serve();
    let run = || play.look(play.finish(&["run", "a", "begin", "--json"]).exits(0).json());
    let (first, second) = (run(), run());
    for played in [&first, &second] {
        assert_eq!(played.texts()[..2], ["there is one more", "still here"], "{played:#?}");
        assert_eq!(played.result["warnings"], json!(null), "{played:#?}");
    }
    assert_eq!(first.texts()[2], second.texts()[2], "it is another process");
}

#[test]
fn one_odd_block_does_not_hide_the_others() {
    for wire in [Wire::Stdio, Wire::Http] {
        let played = Play::new(wire, &[]).turn("odd", json!({"text": "plain"})).run();
        let told = "[content of an unknown type]\nplain".to_owned();
        assert_eq!(played.calls, [("odd".to_owned(), false, told)], "{wire:?}");
    }
}

#[test]
fn config_mistakes_of_a_server_are_named() {
    let play = Play::new(Wire::Stdio, &[]).set("cwd", json!("no/such/place")).set("tools", json!(["red_*"]));
    play.write();
    let ran = play.finish(&["validate"]).exits(0);
    assert!(ran.stdout.contains("`cwd` of MCP server out is not a directory: "), "{ran:#?}");
    let ran = play.finish(&["doctor"]).exits(1);
    let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("its `cwd` ") && text.contains("→ run its command by hand"), "{ran:#?}");
    let play = Play::new(Wire::Stdio, &[]).set("tools", json!(["red_*"]));
    play.write();
    let ran = play.finish(&["doctor"]);
    assert!(ran.stdout.contains("the filter `tools` hides all "), "{ran:#?}");
    let mut play = Play::new(Wire::Stdio, &[]);
    play.config["mcp_servers"]["out"] = json!({"url": "http://127.0.0.1:1/mcp"});
    play.write();
    let ran = play.finish(&["doctor"]).exits(1);
    assert!(!ran.stdout.contains("by hand"), "{ran:#?}");
}

#[test]
fn what_a_server_says_does_not_move_the_terminal() {
    let script = "printf '\\033]0;owned\\007\\033[2J' >&2; exit 7";
    let play = Play::new(Wire::Stdio, &[]).set("command", json!(["/bin/sh", "-c", script]));
    play.write();
    let ran = play.finish(&["run", "a", "begin"]).exits(0);
    assert!(ran.stderr.contains("last output: ␛]0;owned␇␛[2J"), "{ran:#?}");
    assert!(!ran.stderr.contains('\u{1b}'), "{ran:#?}");
    let ran = play.finish(&["doctor"]).exits(1);
    assert!(!ran.stdout.contains('\u{1b}'), "{ran:#?}");
}
