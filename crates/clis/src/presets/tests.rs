//! What each CLI is told, and what its recorded output means. The recordings are of the real CLIs with a scripted model.

use std::{collections::BTreeMap, path::Path};

use drawloom_contract::{money::Cost, time::Timestamp, usage::Usage};
use drawloom_process::{End, Line};
use serde_json::json;

use crate::{
    config::{CliConfig, PresetName},
    input::Mode,
    known::Clis,
    preset::{Ended, Preset, Request, Session, Setting},
    presets::{Template, of},
    reply::{ProblemKind, Reply},
};

/// What a process of `preset` with this output came to.
fn read(preset: PresetName, output: &str, errors: &str, end: End) -> Reply {
    let preset = of(preset);
    let mut reader = preset.reader();
    for line in output.lines() {
        reader.line(&Line { text: line.into(), missing: 0 });
    }
    reader.finish(&Ended { title: preset.title(), name: "mine", end, output, errors, seconds: 60 })
}

fn problem(reply: &Reply) -> (ProblemKind, &str) {
    reply.problem.as_ref().map(|problem| (problem.kind, problem.message.as_str())).expect("a problem")
}

fn tokens(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

macro_rules! recorded {
    ($preset:ident, $file:literal, $end:expr) => {
        read(PresetName::$preset, include_str!(concat!("recorded/", $file)), "", $end)
    };
}

#[test]
fn claude_code_reports_text_session_cost_and_tokens() {
    let reply = recorded!(ClaudeCode, "claude-ok.jsonl", End::Exited(0));
    assert_eq!(reply.text, "Hello there.");
    assert_eq!(reply.session.as_deref(), Some("11111111-2222-4333-8444-555555555555"));
    assert_eq!((reply.usage, reply.turns, reply.problem), (tokens(10, 5), Some(1), None));
    let cost = Cost::from_units(0.00014);
    assert_eq!(reply.cost, cost);
    // The total of a continued session has the first process in it too.
    let resumed = recorded!(ClaudeCode, "claude-resume.jsonl", End::Exited(0));
    assert_eq!((resumed.cost, resumed.usage), (cost, tokens(10, 5)));
    let denied = recorded!(ClaudeCode, "claude-denied.jsonl", End::Exited(0));
    assert_eq!(denied.permission_denials, ["Write {\"content\":\"x\\n\",\"file_path\":\"/outside/outside.txt\"}"]);
    assert_eq!((denied.text.as_str(), denied.problem), ("Could not write.", None));
}

#[test]
fn failures_of_claude_code_are_told_apart_by_its_result() {
    let failed = |output: &str| read(PresetName::ClaudeCode, output, "", End::Exited(1));
    let not_logged_in = failed(include_str!("recorded/claude-not-logged-in.jsonl"));
    let (kind, message) = problem(&not_logged_in);
    assert_eq!(kind, ProblemKind::NotLoggedIn);
    assert!(
        message.starts_with("Claude Code is not logged in (Not logged in · Please run /login); run `claude`"),
        "{message}"
    );
    for (output, kind) in [
        (include_str!("recorded/claude-401.jsonl"), ProblemKind::NotLoggedIn),
        (include_str!("recorded/claude-429.jsonl"), ProblemKind::RateLimited),
        (include_str!("recorded/claude-500.jsonl"), ProblemKind::Overloaded),
        (include_str!("recorded/claude-max-turns.jsonl"), ProblemKind::MaxTurns),
        (include_str!("recorded/claude-budget.jsonl"), ProblemKind::Budget),
        (include_str!("recorded/claude-unknown-session.jsonl"), ProblemKind::SessionLost),
    ] {
        assert_eq!(problem(&failed(output)).0, kind);
    }
    let limited = failed(include_str!("recorded/claude-429-oauth.jsonl")).problem.expect("a problem");
    assert_eq!(
        (limited.kind, limited.until),
        (ProblemKind::RateLimited, Some(Timestamp::from_millis(1_794_992_555_000)))
    );
    let in_use = read(PresetName::ClaudeCode, "", include_str!("recorded/claude-same-id.err"), End::Exited(1));
    let (kind, message) = problem(&in_use);
    assert_eq!(kind, ProblemKind::Crashed);
    assert!(message.contains("exited with code 1: Error: Session ID"), "{message}");
}

#[test]
fn what_a_model_says_about_rate_limits_is_not_taken_for_one() {
    let said = "API Error: Request rejected (429) rate limit reached, Not logged in";
    let line = json!({ "type": "result", "subtype": "success", "is_error": false, "result": said, "session_id": "s" });
    assert_eq!(read(PresetName::ClaudeCode, &line.to_string(), said, End::Exited(0)).problem, None);
    let message = json!({ "type": "item.completed", "item": { "type": "agent_message", "text": "last status: 429" } });
    let output = format!("{message}\n{}", json!({ "type": "turn.completed", "usage": {} }));
    assert_eq!(read(PresetName::Codex, &output, "", End::Exited(0)).problem, None);
    let aider =
        "Repo-map: disabled\n\nlitellm.RateLimitError: this is what the log says\n\nTokens: 5 sent, 3 received.\n";
    let reply = read(PresetName::Aider, aider, "", End::Exited(0));
    assert_eq!((reply.text.as_str(), reply.problem), ("litellm.RateLimitError: this is what the log says", None));
}

#[test]
fn codex_reports_its_thread_and_tokens_and_why_a_turn_failed() {
    let reply = recorded!(Codex, "codex-ok.jsonl", End::Exited(0));
    assert_eq!((reply.text.as_str(), reply.usage, reply.problem), ("Hello there.", tokens(10, 5), None));
    assert!(reply.session.is_some_and(|session| session.len() == 36));
    let edited = recorded!(Codex, "codex-edit.jsonl", End::Exited(0));
    assert_eq!((edited.text.as_str(), edited.problem), ("Wrote it.", None));
    assert_eq!(problem(&recorded!(Codex, "codex-401.jsonl", End::Exited(1))).0, ProblemKind::NotLoggedIn);
    assert_eq!(problem(&recorded!(Codex, "codex-429.jsonl", End::Exited(1))).0, ProblemKind::RateLimited);
    assert_eq!(problem(&recorded!(Codex, "codex-503.jsonl", End::Exited(1))).0, ProblemKind::Overloaded);
    let lost = read(PresetName::Codex, "", include_str!("recorded/codex-unknown-session.err"), End::Exited(1));
    assert_eq!(problem(&lost).0, ProblemKind::SessionLost);
}

#[test]
fn opencode_reports_its_session_and_the_sum_of_its_steps() {
    let reply = recorded!(Opencode, "opencode-ok.jsonl", End::Exited(0));
    assert_eq!((reply.text.as_str(), reply.usage, reply.turns), ("Hello there.", tokens(10, 5), Some(1)));
    assert!(reply.session.is_some_and(|session| session.starts_with("ses_")));
    let edited = recorded!(Opencode, "opencode-edit.jsonl", End::Exited(0));
    assert_eq!((edited.text.as_str(), edited.usage, edited.turns), ("Wrote it.", tokens(20, 10), Some(2)));
    assert_eq!(problem(&recorded!(Opencode, "opencode-401.jsonl", End::Exited(1))).0, ProblemKind::NotLoggedIn);
    let denied = recorded!(Opencode, "opencode-denied.jsonl", End::Exited(0));
    let said = "opencode stopped because a tool call was refused: write";
    assert_eq!(problem(&denied), (ProblemKind::PermissionDenied, said));
    let lost = read(PresetName::Opencode, "", include_str!("recorded/opencode-unknown-session.err"), End::Exited(1));
    assert_eq!(problem(&lost), (ProblemKind::SessionLost, "opencode exited with code 1: Error: Session not found"));
}

#[test]
fn aider_is_read_by_what_follows_an_answer() {
    let edited = recorded!(Aider, "aider-edit.txt", End::Exited(0));
    assert_eq!(edited.text, "Here it is.\n\nnew.txt\n```\nhello\n```");
    assert_eq!((edited.usage, edited.problem), (tokens(596, 13), None));
    assert!(recorded!(Aider, "aider-read-only.txt", End::Exited(0)).text.ends_with("Just an answer."));
    for (output, kind) in [
        (include_str!("recorded/aider-401.txt"), ProblemKind::NotLoggedIn),
        (include_str!("recorded/aider-not-logged-in.txt"), ProblemKind::NotLoggedIn),
        (include_str!("recorded/aider-429.txt"), ProblemKind::RateLimited),
    ] {
        assert_eq!(problem(&read(PresetName::Aider, output, "", End::Exited(0))).0, kind);
    }
    let costs = "Repo-map: disabled\nHi.\nTokens: 1.2k sent, 13 received. Cost: $0.02 message, $0.50 session.\n";
    let reply = read(PresetName::Aider, costs, "", End::Exited(0));
    assert_eq!((reply.usage, reply.cost), (tokens(1200, 13), Cost::from_units(0.02)));
}

#[test]
fn a_process_without_a_result_says_how_it_ended() {
    let said = |end: End| {
        let reply = read(PresetName::Codex, "", "first line\nthe last words\n", end);
        let (kind, message) = problem(&reply);
        (kind, message.to_owned())
    };
    assert_eq!(
        said(End::Exited(2)),
        (ProblemKind::Crashed, "Codex exited with code 2: first line\nthe last words".into())
    );
    assert_eq!(said(End::Signalled(9)).0, ProblemKind::Crashed);
    assert_eq!(said(End::Exited(0)).0, ProblemKind::BadOutput);
    let (kind, message) = said(End::TimedOut);
    assert_eq!(kind, ProblemKind::TimedOut);
    assert!(
        message.starts_with("Codex had not finished after 60 s and was stopped; raise time_limit_seconds"),
        "{message}"
    );
}

fn request<'a>(session: Session<'a>, extra: &'a [String]) -> Request<'a> {
    Request {
        prompt: "-do {this}",
        system: "Be brief.",
        model: Some("m"),
        session,
        schema: None,
        max_cost: None,
        directory: Path::new("/w"),
        files: Path::new("/f"),
        home: Path::new("/no/home"),
        extra,
    }
}

/// The arguments in one line, and the standard input.
fn told(preset: &dyn Preset, request: &Request<'_>) -> (String, Option<String>) {
    let invocation = preset.invocation(request).expect("it can be asked");
    assert!(!invocation.args.iter().any(|argument| argument.contains("{this}")), "a prompt is never an argument");
    (invocation.args.join(" "), invocation.input)
}

#[test]
fn the_arguments_of_each_cli() {
    let extra = ["--mode".to_owned()];
    let (new, old) = (request(Session::New("id"), &extra), request(Session::Resume("old"), &extra));
    let (prompt, both) = (Some("-do {this}".to_owned()), Some("Be brief.\n\n-do {this}".to_owned()));
    let claude = of(PresetName::ClaudeCode);
    let start = "-p --output-format stream-json --verbose --setting-sources user --strict-mcp-config";
    let rest = "--model m --append-system-prompt-file /f/system.md --mode";
    assert_eq!(told(claude, &new), (format!("{start} --session-id id {rest}"), prompt.clone()));
    assert_eq!(told(claude, &old), (format!("{start} --resume old {rest}"), prompt));
    let schema = json!({ "type": "object" });
    let more =
        Request { schema: Some(&schema), max_cost: Cost::from_units(1.5), ..request(Session::New("id"), &extra) };
    let (args, _) = told(claude, &more);
    assert!(args.ends_with("--json-schema {\"type\":\"object\"} --max-budget-usd 1.500000 --mode"), "{args}");
    let codex = of(PresetName::Codex);
    let start = "exec --json --color never --skip-git-repo-check --ignore-rules -c projects.\"/w\".trust_level=\"untrusted\" -m m";
    assert_eq!(told(codex, &new), (format!("{start} --mode -"), both.clone()));
    assert_eq!(told(codex, &old), (format!("{start} --mode resume old -"), both.clone()));
    assert!(told(codex, &more).0.contains("--output-schema /f/schema.json"));
    let opencode = of(PresetName::Opencode);
    assert_eq!(told(opencode, &old), ("run --format json --pure --session old --model m --mode".into(), both.clone()));
    let aider = of(PresetName::Aider).invocation(&new).expect("it can be asked");
    let args = aider.args.join(" ");
    assert!(
        args.contains("--no-auto-commits") && args.ends_with("--model m --mode --message-file /f/prompt.md"),
        "{args}"
    );
    assert_eq!((aider.files[0].1.as_str(), aider.input), ("Task:\n\nBe brief.\n\n-do {this}", None));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let template = Template { command: words(&["tool", "--in={prompt_file}", "{directory}", "{model}", "{else}"]) };
    let invocation = template.invocation(&new).expect("it can be asked");
    assert_eq!(invocation.args, ["--in=/f/prompt.md", "/w", "m", "{else}", "--mode"]);
    assert_eq!((invocation.files[0].1.clone(), invocation.input), (both.clone().unwrap_or_default(), None));
    assert_eq!(told(&Template { command: words(&["tool"]) }, &new), ("--mode".into(), both));
}

#[test]
fn a_mode_is_the_clis_own_flag_or_is_refused() {
    let clis = Clis::new(&BTreeMap::from([
        ("mine".to_owned(), CliConfig { command: Some(vec!["tool".into()]), ..CliConfig::default() }),
        (
            "ours".to_owned(),
            CliConfig {
                command: Some(vec!["tool".into()]),
                skip_permissions_args: Some(vec!["--yolo".into()]),
                ..CliConfig::default()
            },
        ),
    ]));
    let ask = |cli: &str, mode: Mode, confined: bool| {
        let setting = Setting { mode, confined, isolated: true, is_root: true };
        let args = clis.find(cli).expect("a CLI").mode_args(setting);
        args.map(|mode| (mode.args.join(" "), mode.environment)).map_err(|error| error.to_string())
    };
    let args = |cli: &str, mode: Mode, confined: bool| ask(cli, mode, confined).expect("it can").0;
    use Mode::{Edit, ReadOnly, SkipPermissions};
    assert_eq!(args("claude", Edit, true), "--permission-mode acceptEdits");
    assert!(!args("claude_code", ReadOnly, false).contains("--allowedTools"));
    let (skip, environment) = ask("claude_code", SkipPermissions, true).expect("it can");
    assert_eq!((skip.as_str(), &environment[0].0[..]), ("--dangerously-skip-permissions", "IS_SANDBOX"));
    assert_eq!(args("codex", ReadOnly, false), "-s read-only");
    assert_eq!(args("codex", Edit, false), "-s workspace-write");
    assert_eq!(args("codex", Edit, true), "--dangerously-bypass-approvals-and-sandbox");
    let (_, environment) = ask("opencode", Edit, true).expect("it can");
    assert!(environment[0].1.contains("\"bash\":\"allow\""));
    for cli in ["opencode", "aider", "mine"] {
        let refused = ask(cli, ReadOnly, false).expect_err("it cannot");
        assert_eq!(refused, format!("{cli} has no way to run in the mode read_only without confinement"));
        assert!(ask(cli, ReadOnly, true).is_ok());
    }
    assert_eq!(
        ask("mine", SkipPermissions, true).expect_err("it cannot"),
        "mine has no way to run in the mode skip_permissions"
    );
    assert_eq!(args("ours", SkipPermissions, true), "--yolo");
    assert!(clis.find("gpt").is_err_and(|error| error.to_string() == "unknown CLI \"gpt\""));
}

#[test]
fn a_section_with_mistakes_says_them_all() {
    let section: crate::config::ClisConfig = serde_json::from_value(json!({
        "claude_code": { "model": "opus" },
        "both": { "preset": "codex", "command": ["x"] },
        "neither": {},
        "empty": { "command": [] },
        "typo": { "command": ["x", "{promt_file}"] },
        "texts": { "command": ["x", "{prompt}", "{system}", "{combined}"] },
        "shell": { "command": ["env", "sh", "-c", "echo {prompt}"] },
        "safe": { "command": ["sh", "-c", "echo \"$1\"", "sh", "{prompt}"] },
        "far": { "preset": "aider", "readable_paths": ["/no/such/path"], "writable_paths": ["relative"] },
        "bad name": { "preset": "aider" }
    }))
    .expect("a section");
    let found: Vec<String> = crate::config::problems(&section)
        .into_iter()
        .map(|(keys, message, _)| format!("{}: {message}", keys.join(".")))
        .collect();
    assert_eq!(
        found,
        [
            "bad name: \"bad name\" is not a valid name of a CLI",
            "both.command: `preset` and `command` exclude each other",
            "empty.command: the command has no program",
            "far.readable_paths.0: \"/no/such/path\" must exist: No such file or directory (os error 2)",
            "far.writable_paths.0: \"relative\" must be an absolute path",
            "neither: the CLI \"neither\" has neither `preset` nor `command`",
            "shell.command.3: \"echo {prompt}\" is code, and a text in it would run as code",
            "typo.command.1: unknown placeholder in \"{promt_file}\"",
        ]
    );
}

#[test]
fn the_names_of_files_that_aider_adds_are_not_its_answer() {
    let said = |answer: &str| {
        let output = format!(
            "Aider v0.86.2\nRepo-map: using 1024 tokens, auto refresh\n\n\ncheck.sh\n\nsrc/warp.txt\n{answer}\nTokens: 6 sent, 3 received.\n"
        );
        read(PresetName::Aider, &output, "", End::Exited(0)).text
    };
    assert_eq!(said("{\"goal_complete\": true}"), "{\"goal_complete\": true}");
    assert_eq!(said("new.txt\n```\nwoven\n```"), "new.txt\n```\nwoven\n```");
    assert_eq!(said("Done."), "Done.");
}

/// What a process of `preset` does after each line that changes it, in words.
fn activities(preset: PresetName, output: &str) -> Vec<String> {
    let mut reader = of(preset).reader();
    let mut said: Vec<String> = Vec::new();
    for line in output.lines() {
        reader.line(&Line { text: line.into(), missing: 0 });
        if let Some(now) = reader.activity() {
            let cost = now.cost.map(|cost| format!(", {}", cost.units())).unwrap_or_default();
            said.push(format!("{}, {} tokens{cost}", now.head(), now.tokens));
        }
    }
    said.dedup();
    said
}

#[test]
fn activity_has_the_last_tool_and_tokens_and_cost_so_far() {
    let claude = activities(PresetName::ClaudeCode, include_str!("recorded/claude-denied.jsonl"));
    assert_eq!(
        claude,
        [
            "Write /outside/outside.txt, 15 tokens",
            "Write /outside/outside.txt, 30 tokens",
            "Write /outside/outside.txt, 30 tokens, 0.00028"
        ]
    );
    let codex = activities(PresetName::Codex, include_str!("recorded/codex-edit.jsonl"));
    let command = "shell /bin/bash -lc 'echo x > new.txt; echo y > /outside/outside2.txt'";
    assert_eq!(codex, [format!("{command}, 0 tokens"), format!("{command}, 30 tokens")]);
    let opencode = activities(PresetName::Opencode, include_str!("recorded/opencode-edit.jsonl"));
    let file = "write /home/user/work/new.txt";
    assert_eq!(
        opencode,
        [format!("{file}, 0 tokens"), format!("{file}, 15 tokens, 0"), format!("{file}, 30 tokens, 0")]
    );
    let aider = activities(PresetName::Aider, include_str!("recorded/aider-edit.txt"));
    assert_eq!(aider, [", 609 tokens", "edit new.txt, 609 tokens"]);
}

#[test]
fn parts_of_one_message_count_its_tokens_once() {
    let part = |id: &str, output: u64, content: serde_json::Value| {
        let usage = json!({ "input_tokens": 10, "output_tokens": output, "cache_read_input_tokens": 100 });
        json!({ "type": "assistant", "message": { "id": id, "content": [content], "usage": usage } }).to_string()
    };
    let read = json!({ "type": "tool_use", "name": "Read", "input": { "file_path": "a.rs" } });
    let lines = [
        part("m1", 1, json!({ "type": "text", "text": "Let me look." })),
        part("m1", 2, read),
        part("m2", 5, json!({ "type": "tool_use", "name": "Todo", "input": 3 })),
        json!({ "type": "assistant", "message": "nonsense" }).to_string(),
    ];
    let said = activities(PresetName::ClaudeCode, &lines.join("\n"));
    assert_eq!(said, [", 111 tokens", "Read a.rs, 112 tokens", "Todo, 227 tokens"]);
}
