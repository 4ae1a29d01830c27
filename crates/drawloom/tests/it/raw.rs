//! Nothing raw reaches a terminal: texts of models, files, names and arguments go through every command, and nothing that a
//! terminal obeys comes out.

use std::{collections::BTreeSet, fs, process::Command};

use regex::Regex;
use serde_json::{Value, json};

use crate::{
    support::{Home, Ran},
    terminal::Terminal,
};

/// A title, a cleared screen, a colour in one character, text that is read backwards, further line ends, text that cannot be seen.
const RAW: &str = "HOST\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{2028}\u{7f}\u{8}\u{e0041}\u{200b}\rILE";

/// What a terminal obeys, or what makes a text look like another one.
const OBEYED: &str = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u{61c}\u{180e}\u{200b}\u{200e}\u{200f}\u{2028}-\u{202e}\u{2060}-\u{206f}\u{feff}\u{fff9}-\u{fffb}\u{e0000}-\u{e007f}]";

/// Commands that get no text of others, each with the reason. All others are called with such texts.
const NOT_CALLED: &[(&str, &str)] = &[
    ("serve", "its answer is an address; what it logs is read from `serve.log` below"),
    ("mcp", "it speaks JSON-RPC with a host, which is no terminal"),
    ("restart", "its answer is an address"),
    ("goal demo", "a goal of its own"),
    ("demo", "a team of its own"),
];

fn check(what: &str, printed: &str) {
    let styles = Regex::new("\x1b\\[(0|1|2|31|32|33)m").expect("a pattern");
    let rest = styles.replace_all(printed, "");
    if let Some(found) = Regex::new(OBEYED).expect("a pattern").find(&rest) {
        panic!("{what} prints {:?}: {rest:?}", found.as_str());
    }
}

/// Runs a command line for people with colours, and says whether it showed the text at all.
fn call(home: &Home, words: &[&str]) -> (Ran, bool) {
    let ran = home.run(&[words, &["--color", "always", "--width", "400"]].concat());
    check(&format!("{words:?}"), &ran.stdout);
    check(&format!("{words:?}"), &ran.stderr);
    let shows = [&ran.stdout, &ran.stderr].iter().any(|text| text.contains("HOST") && text.contains("ILE"));
    (ran, shows)
}

/// The names of all commands that do something.
fn all_commands() -> BTreeSet<String> {
    fn walk(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
        let parts: Vec<_> = command.get_subcommands().filter(|part| part.get_name() != "help").collect();
        if !path.is_empty() && (parts.is_empty() || !command.is_subcommand_required_set()) {
            found.insert(path.to_owned());
        }
        for part in parts {
            walk(part, format!("{path} {}", part.get_name()).trim(), found);
        }
    }
    let mut found = BTreeSet::new();
    walk(&drawloom::cli::Cli::described(), "", &mut found);
    found
}

/// A project in which every text that somebody can choose is raw: of the model, of agents, skills, tools and channels.
fn home() -> Home {
    let home = Home::new();
    let config = json!({
        "listen": "127.0.0.1:0",
        "providers": { "script": { "driver": "script", "options": { "rules": [
            { "when": { "contains": "boom" }, "fail": { "kind": "refused", "message": RAW } },
            { "when": { "contains": "write", "turn": 1 }, "calls": [
                { "tool": "Artifact", "input": { "op": "write", "name": "note.txt", "text": RAW } },
                { "tool": "Read", "input": { "path": format!("{RAW}.txt") } },
                { "tool": "Read", "input": { "path": "note.txt" } },
            ] },
            { "thinking": RAW, "text": format!("{RAW}\n{RAW} {{{{prompt}}}}"), "chunks": 5 },
        ] } } },
        "defaults": { "provider": "script", "model": "test" },
        "definitions": { "grant": { "tools": ["Read"] } },
        "agents": { "echo": { "description": RAW, "system_prompt": RAW, "tools": ["Read", "Artifact", "Memory"] } },
        "channels": { "news": { "description": RAW } },
        "skills": { "directories": ["shelf"] },
        "volumes": { "notes": { "path": "notes", "mode": "ro", "default": true } },
    });
    home.write("drawloom.yaml", &escaped(&config));
    fs::create_dir_all(home.path().join("shelf/knots")).expect("a folder");
    let skill = format!("---\ndescription: {}\n---\n{RAW}\n", escaped(&json!(RAW)));
    home.write("shelf/knots/SKILL.md", &skill);
    home.write("notes/note.txt", RAW);
    home
}

#[test]
fn every_command_shows_arguments_of_others_without_what_a_terminal_obeys() {
    let home = home();
    let not_called: BTreeSet<&str> = NOT_CALLED.iter().map(|(name, _)| *name).collect();
    let all = all_commands();
    assert!(all.len() > 50, "{all:?}");
    for name in &not_called {
        assert!(all.contains(*name), "there is no command {name}");
    }
    let missing = format!("missing/{RAW}.yaml");
    let mut shown = 0;
    for command in all.iter().filter(|command| !not_called.contains(command.as_str())) {
        let words: Vec<&str> = command.split(' ').collect();
        let option = format!("--{RAW}");
        for with in [&[RAW][..], &[RAW, RAW], &[&option]] {
            shown += usize::from(call(&home, &[&words[..], with].concat()).1);
        }
        shown += usize::from(call(&home, &[&["--config", &missing], &words[..]].concat()).1);
    }
    assert!(shown > all.len() * 2, "only {shown} of {} commands showed what they were given", all.len());
}

#[test]
fn every_command_shows_stored_texts_of_others_without_what_a_terminal_obeys() {
    let home = home();
    git(&home, &["init", "-q", "-b", "main"]);
    let odd = format!("repo/{}.md", RAW.replace('\u{9b}', ""));
    home.write(&odd, RAW);
    git(&home, &["add", "."]);
    git(&home, &["commit", "-qm", RAW]);
    home.write("input.txt", &format!("{RAW}\nboom {RAW}\n"));
    home.write("agent.yaml", &format!("description: {}\ntools: [Read]\n", escaped(&json!(RAW))));
    let goal = [
        "goal",
        "run",
        RAW,
        "--criteria",
        RAW,
        "--backend",
        "mock",
        "--cwd",
        "repo",
        "--cleanup",
        "never",
        "--json",
        "--context",
        RAW,
    ];
    // These make what is read below, and say what they made.
    for words in [
        &["trust", "--yes"][..],
        &["run", "echo", RAW],
        &["run", "echo", &format!("write {RAW}")],
        &["run", "echo", &format!("boom {RAW}")],
        &["batch", "input.txt", "--agent", "echo"],
        &["memory", "set", "key", RAW],
        &["channels", "publish", "news", RAW],
        &["defs", "create", "weaver", "agent.yaml", "--description", RAW],
        &["defs", "fork", "weaver@1", "--set", &format!("description=other {RAW}")],
        &goal[..goal.len() - 2],
    ] {
        let (ran, _) = call(&home, words);
        assert!(ran.code < 2, "{words:?}: {ran:#?}");
    }
    let list = home.run(&["worktree", "list", "--json"]).exits(0).json();
    for checkout in list["worktrees"][0]["checkouts"].as_array().expect("checkouts") {
        let path = checkout["path"].as_str().expect("a path").replace("<home>", &home.path().to_string_lossy());
        if checkout.get("read_only").is_none() {
            fs::write(format!("{path}/{}.txt", RAW.replace('/', "")), RAW).expect("a checkout");
        }
    }
    let failed = home.run(&["runs", "list", "--status", "failed", "--json"]).exits(0).json();
    let failed = failed["runs"][0]["run_id"].as_str().expect("a failed run").to_owned();
    let written = home.run(&["run", "echo", &format!("write {RAW}"), "--json"]).exits(0).json();
    let written = written["run_id"].as_str().expect("an id").to_owned();
    call(&home, &["evaluations", "submit", &written, "0.5", "--rationale", RAW]);
    let read: &[&[&str]] = &[
        &["runs", "list"],
        &["runs", "show", &failed],
        &["runs", "show", &written],
        &["runs", "tail", &written],
        &["runs", "tail", &failed],
        &["replay", &written],
        &["artifacts", "list", &written],
        &["memory", "get", "key"],
        &["memory", "list"],
        &["memory", "search", "HOST"],
        &["memory", "export"],
        &["channels", "read", "news"],
        &["channels", "list"],
        &["evaluations", "list", &written],
        &["defs", "show", "weaver"],
        &["defs", "diff", "weaver@1", "weaver@2"],
        &["agents", "list"],
        &["agents", "show", "echo"],
        &["skills", "list"],
        &["skills", "show", "knots"],
        &["goal", "list"],
        &["goal", "status"],
        &["goal", "tail"],
        &["goal", "result"],
        &["worktree", "list"],
        &["config", "show"],
        &["call", "list_runs"],
        &["status"],
        &["doctor"],
        &["logs"],
    ];
    let mut silent = Vec::new();
    for words in read {
        let (ran, shows) = call(&home, words);
        if !shows {
            silent.push(format!("{words:?}: {ran:#?}"));
        }
        for format in ["json", "yaml"] {
            let ran = home.run(&[*words, &["-o", format][..]].concat());
            check(&format!("{words:?} as {format}"), &format!("{}{}", ran.stdout, ran.stderr));
        }
    }
    // These say where things are, and how they are.
    let expected = silent.iter().filter(|words| {
        !["[\"status\"", "[\"doctor\"", "[\"logs\"", "[\"goal\", \"result\"", "[\"artifacts\", \"list\""]
            .iter()
            .any(|start| words.starts_with(start))
    });
    assert_eq!(expected.collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!(home.run(&["memory", "get", "key", "--json"]).exits(0).json()["value"], json!(RAW));
    let log = fs::read_to_string(home.data().join("serve.log")).expect("a log");
    check("serve.log", &log);
}

#[test]
fn a_terminal_gets_nothing_that_others_wrote_raw() {
    let home = home();
    home.run(&["trust", "--yes"]).exits(0);
    let terminal = Terminal::open(&home, "120");
    let seen = home.path().join("seen");
    terminal.tmux(&["pipe-pane", "-o", &format!("cat > {}", seen.display())]);
    terminal.command("drawloom run echo hello; drawloom run echo boom; drawloom run echo write");
    terminal.command("drawloom artifacts get last note.txt; drawloom skills show knots; drawloom agents list; drawloom worktree diff last");
    terminal.command("echo the last line");
    terminal.wait_until("the last line in the file", |_| {
        fs::read_to_string(&seen).is_ok_and(|seen| seen.contains("\nthe last line"))
    });
    let seen = String::from_utf8_lossy(&fs::read(&seen).expect("what the terminal got")).into_owned();
    assert!(seen.matches("ILE").count() >= 6, "{seen:?}");
    for raw in ["\u{1b}]0;title", "\u{1b}[2JHOST", "\u{9b}", "\u{202e}", "\u{2028}", "\u{e0041}", "\u{200b}", "\u{7f}"]
    {
        assert!(!seen.contains(raw), "{raw:?} in {seen:?}");
    }
}

/// JSON in ASCII: YAML does not take control characters.
fn escaped(value: &Value) -> String {
    let escape = |character: char| match character {
        ' '..='~' => character.to_string(),
        other => other.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    value.to_string().chars().map(escape).collect()
}

fn git(home: &Home, arguments: &[&str]) {
    let repo = home.path().join("repo");
    fs::create_dir_all(&repo).expect("a folder");
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(arguments);
    let ran = command.current_dir(repo).env("HOME", home.path()).output().expect("git starts");
    assert!(ran.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
}
