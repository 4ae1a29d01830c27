//! Mapping: what each field becomes, and that nothing is lost without a word.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};

use super::*;
use crate::config;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    home
}

fn target(yaml: &str) -> Target {
    let loaded = config::join(vec![("c.yaml".into(), yaml.as_bytes().to_vec())], &|_| None).expect("a config");
    Target { may_add_tiers: true, ..Target::of(&loaded.config) }
}

const PLAIN: &str = "providers: { s: { driver: script } }\ndefaults: { provider: s, model: m }\n";

fn mapped(files: &[(&str, &str)]) -> Mapped {
    mapped_for(files, PLAIN)
}

fn mapped_for(files: &[(&str, &str)], yaml: &str) -> Mapped {
    let home = folder(files);
    map(&Tree::read(home.path()), &target(yaml), &|name| (name == "SET").then(|| "value".to_owned()))
}

/// One agent with these fields.
fn agent(fields: &str) -> (Value, Vec<Note>) {
    let mapped = mapped(&[("agents/a.md", &format!("---\n{fields}\n---\nBody.\n"))]);
    let item = mapped.items.iter().find(|item| item.kind == Kind::Agent).expect("an agent").clone();
    (mapped.agents.first().unwrap_or_else(|| panic!("{item:?}")).value(), item.notes)
}

fn reasons(notes: &[Note], field: &str) -> Vec<String> {
    let notes = notes.iter().filter(|note| note.field == field);
    notes.map(|note| format!("{}: {}", note.outcome.word(), note.becomes.as_deref().unwrap_or("-"))).collect()
}

#[test]
fn a_plain_agent_keeps_what_it_says() {
    let (value, _) = agent("name: reviewer\ndescription: Reviews.\ntools: Read, Grep\nmodel: sonnet");
    assert_eq!(
        value,
        json!({
            "description": "Reviews.", "tier": "middle", "tools": ["Read", "Grep"], "agents": [], "hosts": [],
            "system_prompt": "Body."
        })
    );
}

#[test]
fn models_become_tiers_or_models_of_a_known_provider() {
    for (model, fields) in [
        ("opus", json!({ "tier": "high" })),
        ("Sonnet", json!({ "tier": "middle" })),
        ("haiku", json!({ "tier": "low" })),
        ("sonnet[1m]", json!({ "tier": "middle" })),
        ("opusplan", json!({ "tier": "high" })),
        ("claude-opus-4-5-20251101", json!({ "tier": "high" })),
        ("anthropic/claude-haiku-4-5", json!({ "tier": "low" })),
        ("inherit", json!({})),
        ("''", json!({})),
        ("gpt-5", json!({})),
    ] {
        let (value, notes) = agent(&format!("name: a\nmodel: {model}"));
        let mut chosen = value;
        for key in ["description", "tools", "agents", "hosts", "system_prompt"] {
            chosen.as_object_mut().expect("an object").remove(key);
        }
        assert_eq!(chosen, fields, "{model}");
        assert!(notes.iter().any(|note| note.field == "model"), "{model}: {notes:?}");
    }
    let known = "providers: { c: { driver: anthropic, api_key_env: K }, o: { driver: openai, api_key_env: K } }\n\
                 models: { fast: { provider: c, model: m } }\n";
    for (model, fields) in [
        ("claude-opus-4-5", json!({ "provider": "c", "model": "claude-opus-4-5" })),
        ("gpt-5", json!({ "provider": "o", "model": "gpt-5" })),
        ("fast", json!({ "model": "fast" })),
        ("inherit", json!({ "tier": "middle" })),
    ] {
        let mapped = mapped_for(&[("agents/a.md", &format!("---\nname: a\nmodel: {model}\ntools: []\n---\n"))], known);
        let mut chosen = mapped.agents[0].value();
        for key in ["tools", "agents", "hosts"] {
            chosen.as_object_mut().expect("an object").remove(key);
        }
        assert_eq!(chosen, fields, "{model}");
    }
}

#[test]
fn tools_are_translated_and_never_widened() {
    for (tools, becomes) in [
        ("Read, Write, Edit", json!(["Read", "Write", "Edit"])),
        ("Read Grep Glob", json!(["Read", "Grep", "Glob"])),
        ("[Read, \"Grep\"]", json!(["Read", "Grep"])),
        ("\n  - Read\n  - MultiEdit\n  - NotebookEdit", json!(["Read", "Edit"])),
        ("LS, NotebookRead", json!(["Glob", "Read"])),
        ("Task, WebSearch, TodoWrite, ExitPlanMode", json!(["Agent"])),
        ("Task(a, b), Read", json!(["Agent", "Read"])),
        ("Bash(git:*), Bash(npm run test:*), Read", json!(["Read"])),
        ("Bash(*), read, bash", json!(["Bash", "Read"])),
        ("WebFetch(domain:example.com)", json!(["WebFetch"])),
        ("mcp__nowhere__x, mcp__*, Frobnicate", json!([])),
        ("[]", json!([])),
        ("'*'", json!(["Bash", "Edit", "Glob", "Grep", "Read", "WebFetch", "Write"])),
    ] {
        let (value, _) = agent(&format!("name: a\ntools: {tools}"));
        assert_eq!(value["tools"], becomes, "{tools}");
    }
    let (value, notes) = agent("name: a");
    assert_eq!(value["tools"], json!(["Bash", "Edit", "Glob", "Grep", "Read", "WebFetch", "Write"]));
    assert!(notes.iter().any(|note| note.field == "tools" && note.value.as_deref() == Some("(absent)")), "{notes:?}");
    let (value, _) = agent("name: a\ndisallowedTools: Write, Bash(rm:*)");
    assert_eq!(value["tools"], json!(["Edit", "Glob", "Grep", "Read", "WebFetch"]));
}

#[test]
fn gates_are_proposed_and_stay_closed() {
    let mapped = mapped(&[(
        "agents/a.md",
        "---\nname: a\ntools: Task(b, c), WebFetch(domain:x.com), Bash(git:*), Skill\n---\nx",
    )]);
    let value = mapped.agents[0].value();
    assert_eq!((&value["agents"], &value["hosts"]), (&json!([]), &json!([])));
    assert!(value.get("skills").is_none() && value.get("volumes").is_none());
    let lines: Vec<&str> = mapped.proposals.iter().map(|proposal| proposal.line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "agents: [\"b\",\"c\"]",
            "hosts: [\"x.com\"]",
            "skills: [\"*\"]",
            "tools: [\"Agent\",\"WebFetch\",\"Skill\",\"Bash\"]",
            "http: { hosts: [\"*\"] }"
        ]
    );
}

#[test]
fn every_field_is_in_the_report() {
    let fields = "name: a\ndescription: d\ncolor: red\npermissionMode: plan\nmaxTurns: 5\nhooks: {}\nmemory: user\nbackground: true\n\
                  isolation: worktree\neffort: max\ntemperature: 0.2\ntop_p: 7\nversion: 1\nwhatever: x\nskills: [none]\nmodel: {a: b}\n\
                  mcpServers: [ghost]\ndisallowedTools: []\ntools: [Read]\nbody: b\nfile: f\nfrontmatter: g\nmcp-servers:";
    let (value, notes) = agent(fields);
    let said: BTreeSet<&str> = notes.iter().map(|note| note.field.as_str()).collect();
    for line in fields.lines() {
        let key = line.split(':').next().expect("a key");
        assert!(said.contains(key), "{key} is not reported: {notes:?}");
    }
    assert!(notes.iter().all(|note| note.outcome == Outcome::Mapped || note.reason.is_some()), "{notes:?}");
    assert_eq!(value["max_iterations"], json!(5));
    assert_eq!(value["effort"], json!("high"));
    assert_eq!(value["sampling"], json!({ "temperature": 0.2 }));
    assert_eq!(reasons(&notes, "top_p"), ["dropped: -"]);
}

#[test]
fn a_folder_of_agents_alone_is_read_too() {
    let home =
        folder(&[("README.md", "# x"), ("core/a.md", "---\nname: a\n---\nx"), ("core/b.md", "---\nname: b\n---\nx")]);
    let mapped = map(&Tree::read(home.path()), &target(PLAIN), &|_| None);
    assert_eq!(mapped.agents.len(), 2);
    let plain = folder(&[("README.md", "# x"), ("docs/a.md", "text")]);
    assert!(map(&Tree::read(plain.path()), &target(PLAIN), &|_| None).items.is_empty());
}

#[test]
fn of_the_plugins_of_a_user_only_installed_ones_are_read() {
    let agent = |name: &str| format!("---\nname: {name}\n---\nx");
    let home = folder(&[
        (".claude/plugins/marketplaces/m/plugins/a/agents/a.md", &agent("a")),
        (".claude/plugins/marketplaces/m/plugins/b/agents/b.md", &agent("b")),
        (".claude/plugins/cache/m/a/1.0/agents/a.md", &agent("a")),
    ]);
    let place = home.path().join(".claude/plugins/cache/m/a/1.0");
    let installed = json!({ "version": 2, "plugins": { "a@m": [{ "installPath": place }], "gone@m": [{ "installPath": "/nowhere" }] } });
    fs::write(home.path().join(".claude/plugins/installed_plugins.json"), installed.to_string()).expect("a file");
    let tree = Tree::read(&home.path().join(".claude"));
    let names: Vec<&str> = tree.agents.iter().map(|entry| entry.shown.as_str()).collect();
    assert_eq!(names, ["plugins/cache/m/a/1.0/agents/a.md"]);
    assert_eq!(tree.agents[0].plugin.as_deref(), Some("a"));
    assert_eq!(tree.left.len(), 1, "{:?}", tree.left);
}

#[test]
fn skills_are_carried_through_by_either_name() {
    let mapped = mapped(&[
        ("skills/code-review/SKILL.md", "---\nname: Code Review\ndescription: How.\nallowed-tools: Read\n---\nx"),
        ("agents/a.md", "---\nname: a\ntools: Read\nskills: code-review, missing\n---\nx"),
        ("agents/b.md", "---\nname: b\ntools: Read\nskills: [Code Review, 'team:code-review']\n---\nx"),
    ]);
    assert_eq!(mapped.skills[0].name, "Code-Review");
    for agent in &mapped.agents {
        assert_eq!(agent.get("tools"), Some(&json!(["Read", "Skill"])), "{}", agent.name);
        assert_eq!(agent.get("skills").map(Value::to_string).as_deref(), Some("[\"Code-Review\"]"), "{}", agent.name);
        assert_eq!(agent.get("skills"), agent.get("bundled_skills"));
    }
}

#[test]
fn names_are_made_valid_and_unique() {
    let text = |name: &str| format!("---\nname: {name}\n---\nx");
    let mapped = mapped(&[
        ("agents/one.md", &text("reviewer")),
        ("agents/back/two.md", &text("Reviewer")),
        ("agents/front/three.md", &text("reviewer")),
        ("agents/four.md", &text("\"Größe & Co: x\"")),
        ("agents/five six.md", "---\ndescription: d\n---\nx"),
        ("agents/seven.md", &text("\"日本\"")),
        ("plugins/team/.claude-plugin/plugin.json", "{\"name\": \"team\"}"),
        ("plugins/team/agents/reviewer.md", &text("reviewer")),
    ]);
    let names: Vec<&str> = mapped.agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(
        names,
        ["five-six", "Gr-e-Co-x", "reviewer", "seven", "back/Reviewer", "front/reviewer", "team/reviewer"]
    );
    for agent in &mapped.agents {
        assert!(agent.name.parse::<drawloom_contract::ids::AgentName>().is_ok(), "{}", agent.name);
    }
}

#[test]
fn servers_keep_the_names_of_variables_and_no_values() {
    let servers = json!({ "mcpServers": {
        "git hub": { "command": "npx", "args": ["-y", "server", "--port", 8080, "${SET}"],
            "env": { "TOKEN": "${GH_TOKEN}", "MODE": "secret-value", "OPT": "${X:-y}" } },
        "web": { "type": "http", "url": "https://h/mcp", "headers": { "Authorization": "Bearer ${T}", "X-Key": "sk-very-secret" } },
        "old": { "type": "sse", "url": "https://h/sse" },
        "unset": { "command": "x", "args": ["${NOT_SET}"] },
        "default": { "command": "x", "args": ["${NOT_SET:-fallback}"] },
        "token": { "command": "x", "args": [format!("--key=sk-ant-{}", "a1".repeat(20))] },
        "both": { "command": "x", "url": "https://h" },
        "none": {},
        "text": "x",
        "off": { "command": "x", "disabled": true },
        "...": { "command": "x" },
        "__edge__": { "command": "x", "timeout": 30, "autoApprove": ["a"], "novel": 1 }
    } });
    let mapped = mapped(&[(".mcp.json", &servers.to_string())]);
    let all: Value = mapped
        .servers
        .iter()
        .map(|server| (server.name.clone(), server.value()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    assert_eq!(
        all,
        json!({
            "git_hub": { "command": ["npx", "-y", "server", "--port", "8080", "${SET}"],
                "env": { "TOKEN": "GH_TOKEN", "MODE": "MODE", "OPT": "X" } },
            "web": { "url": "https://h/mcp", "bearer_env": "T", "headers_env": { "X-Key": "WEB_X_KEY" } },
            "default": { "command": ["x", "fallback"] },
            "edge": { "command": ["x"], "timeout_ms": 30_000 }
        })
    );
    let report = serde_json::to_string(&mapped.items).expect("JSON");
    for secret in ["secret-value", "sk-very-secret", "a1a1a1"] {
        assert!(!report.contains(secret), "{secret} is in the report");
    }
    let dropped = mapped.items.iter().filter(|item| item.action == Action::Dropped).count();
    assert_eq!(dropped, 8);
}

#[test]
fn agents_name_servers_as_they_are_called_here() {
    let mapped = mapped(&[
        (".mcp.json", "{\"mcpServers\": {\"git hub\": {\"command\": \"x\"}, \"db\": {\"command\": \"y\"}}}"),
        (
            "agents/a.md",
            "---\nname: a\ntools: mcp__git_hub__get_*, mcp__db, mcp__db__*, mcp__other__x, mcp__db__*_all\n---\nx",
        ),
        ("agents/b.md", "---\nname: b\ntools: mcp__*\nmcpServers:\n  own:\n    command: z\n---\nx"),
    ]);
    assert_eq!(mapped.agents[0].get("tools"), Some(&json!(["mcp__git_hub__get_*", "mcp__db__*"])));
    assert_eq!(mapped.agents[1].get("tools"), Some(&json!(["mcp__db__*", "mcp__git_hub__*", "mcp__own__*"])));
}

#[test]
fn commands_become_prompts_with_their_arguments() {
    let mapped = mapped(&[
        (
            "commands/fix.md",
            "---\ndescription: Fix it\nargument-hint: [issue]\nallowed-tools: Bash(git:*)\nmodel: haiku\n---\nFix $ARGUMENTS\n!`git status`",
        ),
        ("commands/front/test.md", "Run the tests for $1."),
        ("commands/empty.md", "---\ndescription: nothing\n---\n"),
    ]);
    let all: Vec<(&str, Value)> = mapped.prompts.iter().map(|prompt| (prompt.name.as_str(), prompt.value())).collect();
    assert_eq!(
        all,
        [
            (
                "fix",
                json!({ "argument_hint": "[issue]", "description": "Fix it", "text": "Fix $ARGUMENTS\n!`git status`" })
            ),
            ("front:test", json!({ "text": "Run the tests for $1." }))
        ]
    );
}

#[test]
fn settings_hooks_and_memory_are_reported() {
    let mapped = mapped(&[
        (
            ".claude/settings.json",
            "{ // local\n\"permissions\": {\"allow\": [\"Bash(git:*)\"], \"deny\": [\"Read(.env)\"]}, \"hooks\": {\"PreToolUse\": [{\"matcher\": \"Bash\", \
             \"hooks\": [{\"type\": \"command\", \"command\": \"x\"}]}]}, \"env\": {\"K\": \"v\"}, \"disabledMcpjsonServers\": [\"db\"],}",
        ),
        (".mcp.json", "{\"mcpServers\": {\"db\": {\"command\": \"y\"}}}"),
        ("CLAUDE.md", "Rules."),
        (".claude/output-styles/x.md", "x"),
    ]);
    let said: Vec<String> =
        mapped.items.iter().map(|item| format!("{} {} {}", item.kind.word(), item.name, item.action.word())).collect();
    assert_eq!(
        said,
        [
            "mcp server db dropped",
            "hook PreToolUse Bash dropped",
            "permission allow Bash(git:*) dropped",
            "permission deny Read(.env) dropped",
            "setting disabledMcpjsonServers dropped",
            "setting env dropped",
            "file CLAUDE.md dropped",
            "file output-styles dropped"
        ]
    );
    assert!(mapped.servers.is_empty());
}

#[test]
fn plugins_and_marketplaces_are_read_in_every_layout() {
    let agent = |name: &str| format!("---\nname: {name}\n---\nx");
    let home = folder(&[
        (
            ".claude-plugin/marketplace.json",
            "{\"plugins\": [{\"name\": \"one\", \"source\": \"./packs/one\"}, {\"name\": \"far\", \"source\": {\"source\": \"github\"}}, {\"name\": \"bad\", \"source\": \"../../etc\"}]}",
        ),
        (
            "packs/one/.claude-plugin/plugin.json",
            "{\"name\": \"one\", \"agents\": [\"./more/x.md\"], \"mcpServers\": {\"s\": {\"command\": \"${CLAUDE_PLUGIN_ROOT}/run\"}}}",
        ),
        ("packs/one/agents/a.md", &agent("a")),
        ("packs/one/more/x.md", &agent("x")),
        ("plugins/two/agents/b.md", &agent("b")),
        ("plugins/two/skills/s/SKILL.md", "---\nname: s\n---\nx"),
        ("plugins/deep/er/three/.claude-plugin/plugin.json", "not json"),
        ("plugins/deep/er/three/commands/c.md", "text"),
    ]);
    let tree = Tree::read(home.path());
    let names = |entries: &[tree::Entry]| entries.iter().map(|entry| entry.shown.clone()).collect::<Vec<_>>();
    assert_eq!(names(&tree.agents), ["packs/one/agents/a.md", "packs/one/more/x.md", "plugins/two/agents/b.md"]);
    assert_eq!(names(&tree.skills), ["plugins/two/skills/s"]);
    assert_eq!(names(&tree.commands), ["plugins/deep/er/three/commands/c.md"]);
    assert_eq!(tree.left.len(), 3, "{:?}", tree.left);
    let mapped = map(&tree, &target(PLAIN), &|_| None);
    let command = mapped.servers[0].value()["command"][0].as_str().expect("a program").to_owned();
    assert!(Path::new(&command).is_absolute() && command.ends_with("packs/one/run"), "{command}");
    assert_eq!(mapped.prompts[0].name, "three:c");
}

#[test]
fn broken_files_are_left_out_with_a_reason_and_never_stop_the_rest() {
    let home = folder(&[
        ("agents/empty.md", ""),
        ("agents/blank.md", "  \n"),
        ("agents/none.md", "# Only text"),
        ("agents/open.md", "---\nname: open\n\ntext"),
        ("agents/notes.txt", "x"),
        ("agents/good.md", "---\nname: good\n---\nx"),
        ("agents/list.md", "---\n- a\n- b\n---\nx"),
        (".mcp.json", "{ broken"),
    ]);
    fs::write(home.path().join("agents/raw.md"), b"---\nname: raw\ndescription: caf\xe9\n---\nx\xff").expect("a file");
    fs::write(home.path().join("agents/large.md"), vec![b'x'; FILE_LIMIT as usize + 1]).expect("a file");
    let wide: Vec<u8> =
        [0xff, 0xfe].into_iter().chain("---\nname: wide\n---\nx".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    fs::write(home.path().join("agents/wide.md"), wide).expect("a file");
    std::os::unix::fs::symlink("../agents", home.path().join("agents/loop")).expect("a link");
    std::os::unix::fs::symlink("/nowhere", home.path().join("agents/gone.md")).expect("a link");
    rustix::fs::mkfifoat(rustix::fs::CWD, home.path().join("agents/pipe.md"), rustix::fs::Mode::from_raw_mode(0o600))
        .expect("a pipe");
    let mapped = map(&Tree::read(home.path()), &target(PLAIN), &|_| None);
    let names: Vec<&str> = mapped.agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["good", "list", "raw", "wide"]);
    let dropped: Vec<&str> =
        mapped.items.iter().filter(|item| item.action == Action::Dropped).map(|item| item.source.as_str()).collect();
    for file in ["empty", "blank", "none", "open", "large", "gone", "pipe"] {
        assert!(dropped.contains(&&*format!("agents/{file}.md")), "{file}: {dropped:?}");
    }
    assert!(dropped.contains(&".mcp.json") && dropped.contains(&"agents/notes.txt"), "{dropped:?}");
}
