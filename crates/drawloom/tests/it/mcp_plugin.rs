//! `drawloom mcp install --plugin`: the plugin of Claude Code, on homes of its own. The real client loads it in `tests/hosts`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use regex::Regex;
use serde_json::{Value, json};

use crate::support::{Home, Ran};

const FILES: [&str; 7] = [
    ".claude-plugin/marketplace.json",
    ".claude-plugin/plugin.json",
    ".drawloom.json",
    ".mcp.json",
    "commands/fanout.md",
    "commands/review.md",
    "skills/delegate/SKILL.md",
];

/// `drawloom mcp install --client claude` in a directory of the home.
fn install(home: &Home, directory: &str, arguments: &[&str]) -> Ran {
    let mut command = home.command(&["mcp", "install", "--client", "claude"]);
    command.args(arguments).current_dir(home.path().join(directory));
    command.env("PATH", "/nowhere").env("DRAWLOOM_TOKEN", "hush-hush-hush").env_remove("DRAWLOOM_DATA_DIR");
    home.finish(&mut command)
}

/// The folder that was written, by what the command answers.
fn folder(home: &Home, ran: &Ran) -> PathBuf {
    let named = ran.json()["plugin"].as_str().expect("a folder").replace("<home>", &home.path().display().to_string());
    named.into()
}

fn written(home: &Home, arguments: &[&str]) -> PathBuf {
    folder(home, &install(home, ".", &[&["--json", "--plugin"], arguments].concat()).exits(0))
}

/// The files below a folder, with their texts.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            match entry.is_dir() {
                true => open.push(entry),
                false => {
                    let name = entry.strip_prefix(folder).expect("below it").display().to_string();
                    found.insert(name, fs::read_to_string(&entry).expect("a text"));
                }
            }
        }
    }
    found
}

fn actions(ran: &Ran) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let items = ran.json()["files"].as_array().expect("a list").clone();
    items.iter().map(|item| (text(&item["file"]), text(&item["action"]))).collect()
}

fn server(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join(".mcp.json")).expect("a file");
    serde_json::from_str::<Value>(&text).expect("JSON")["mcpServers"]["drawloom"].clone()
}

/// The fields of a text, and what stands below them.
fn frontmatter(text: &str) -> (Value, &str) {
    let (fields, body) = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n")).expect("frontmatter");
    (serde_saphyr::from_str(fields).expect("YAML"), body)
}

#[test]
fn a_plugin_is_written_whole_and_says_how_to_load_it() {
    let home = Home::new();
    let shown = install(&home, ".", &["--plugin", "the plugin"]).exits(0);
    insta::assert_snapshot!(shown.stdout, @"
    Wrote the plugin drawloom to <home>/the plugin:

      add        .claude-plugin/marketplace.json
      add        .claude-plugin/plugin.json
      add        .mcp.json
      add        commands/fanout.md
      add        commands/review.md
      add        skills/delegate/SKILL.md

    It has the tools of drawloom, the skill delegate, and the commands /drawloom:review and /drawloom:fanout.
    Next: claude --plugin-dir '<home>/the plugin'
    ");
    let all = files(&home.path().join("the plugin"));
    assert_eq!(all.keys().map(String::as_str).collect::<Vec<_>>(), FILES);
    let manifest: Value = serde_json::from_str(&all[".claude-plugin/plugin.json"]).expect("JSON");
    let market: Value = serde_json::from_str(&all[".claude-plugin/marketplace.json"]).expect("JSON");
    assert!(
        market["name"].as_str().is_some_and(|name| name.starts_with("drawloom-") && name != "drawloom-"),
        "{market}"
    );
    assert_eq!((&market["plugins"][0]["name"], &market["plugins"][0]["source"]), (&manifest["name"], &"./".into()));
    assert_eq!((&manifest["name"], &manifest["version"]), (&"drawloom".into(), &env!("CARGO_PKG_VERSION").into()));
    let config = home.path().join("drawloom.yaml");
    let expected = json!({
        "type": "stdio", "command": env!("CARGO_BIN_EXE_drawloom"), "args": ["mcp", "--config", config], "env": {},
        "timeout": 86_400_000,
    });
    assert_eq!(server(&home.path().join("the plugin")), expected);
    for (name, fields) in [("commands/fanout.md", 4), ("commands/review.md", 4), ("skills/delegate/SKILL.md", 2)] {
        let (head, body) = frontmatter(&all[name]);
        assert_eq!(head.as_object().map(serde_json::Map::len), Some(fields), "{name}: {head}");
        assert!(head["description"].as_str().is_some_and(|text| (20..1024).contains(&text.len())), "{name}");
        assert_eq!(body.contains("$ARGUMENTS"), name.starts_with("commands/"), "{name}");
    }
    assert_eq!(frontmatter(&all["skills/delegate/SKILL.md"]).0["name"], "delegate", "as its folder");
    assert!(!home.path().join(".claude.json").exists(), "the settings of the host are not touched");
    assert!(all.values().all(|text| !text.contains("hush")), "no token is written");
}

#[test]
fn a_second_call_changes_nothing() {
    let home = Home::new();
    let folder = written(&home, &[]);
    let inodes = || FILES.map(|file| fs::metadata(folder.join(file)).expect("a file").ino());
    let before = inodes();
    let again = install(&home, ".", &["--plugin", "--json"]).exits(0);
    assert_eq!((&again.json()["written"], inodes()), (&false.into(), before));
    assert!(actions(&again).values().all(|action| action == "unchanged"));
    let shown = install(&home, ".", &["--plugin"]).exits(0).stdout;
    assert!(shown.starts_with("Nothing was changed in ") && shown.contains("\nNext: claude --plugin-dir "), "{shown}");
    assert_eq!(inodes(), before);
}

#[test]
fn an_edited_file_stays_without_force_and_the_others_are_brought_up_to_date() {
    let home = Home::new();
    let folder = written(&home, &[]);
    fs::write(folder.join("commands/review.md"), "mine").expect("it is ours");
    fs::remove_file(folder.join("commands/fanout.md")).expect("it is ours");
    for _ in 0..2 {
        let ran = install(&home, ".", &["--plugin", "--patience", "77", "--json"]).exits(0);
        assert_eq!(actions(&ran)["commands/review.md"], "kept");
    }
    assert_eq!(files(&folder)["commands/review.md"], "mine");
    assert!(files(&folder)["commands/fanout.md"].contains("$ARGUMENTS"), "it was missing");
    let args = server(&folder)["args"].clone();
    assert!(args.as_array().is_some_and(|args| args.ends_with(&["--patience".into(), "77".into()])), "{args}");
    let shown = install(&home, ".", &["--plugin", "--patience", "77"]).exits(0).stdout;
    assert!(shown.contains("--force replaces it"), "{shown}");
    let forced = install(&home, ".", &["--plugin", "--force", "--json"]).exits(0);
    assert_eq!(actions(&forced)["commands/review.md"], "update");
    assert!(files(&folder)["commands/review.md"].contains("$ARGUMENTS"));
}

#[test]
fn two_projects_have_two_plugins_and_each_starts_its_own_server() {
    let home = Home::new();
    let config = fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    fs::remove_file(home.path().join("drawloom.yaml")).expect("it is ours");
    let mut folders = BTreeSet::new();
    for (project, from) in [("a/app", "a/app"), ("b/app", "b/app/deep/down")] {
        fs::create_dir_all(home.path().join(from)).expect("a directory");
        home.write(&format!("{project}/drawloom.yaml"), &config);
        let folder = folder(&home, &install(&home, from, &["--plugin", "--json"]).exits(0));
        assert!(folder.starts_with(home.path().join(".local/share/drawloom/plugins")), "{}", folder.display());
        let file = home.path().join(project).join("drawloom.yaml");
        assert_eq!(server(&folder)["args"], json!(["mcp", "--config", file]), "also from below the project");
        folders.insert(folder);
    }
    assert_eq!(folders.len(), 2);
    // One that is shared is for whoever starts the host in the project, wherever that is.
    let shared = folder(&home, &install(&home, "a/app", &["--plugin", "--scope", "project", "--json"]).exits(0));
    assert_eq!(shared, home.path().join("a/app/drawloom-plugin"));
    assert_eq!(server(&shared)["args"], json!(["mcp"]));
    let nowhere = install(&home, ".", &["--plugin"]).exits(2);
    assert!(nowhere.stderr.contains("drawloom init"), "{}", nowhere.stderr);
    let elsewhere =
        install(&home, ".", &["--plugin", "--upstream", "https://looms.example:8787/team", "--json"]).exits(0);
    let elsewhere = folder(&home, &elsewhere);
    assert!(elsewhere.display().to_string().contains("/plugins/looms.example-8787-"), "{}", elsewhere.display());
    assert_eq!(server(&elsewhere)["args"], json!(["mcp", "--upstream", "https://looms.example:8787/team"]));
}

#[test]
fn a_folder_of_the_users_skills_needs_no_option_to_be_loaded() {
    let home = Home::new();
    let ran = install(&home, ".", &["--plugin", ".claude/skills/drawloom", "--json"]).exits(0);
    assert_eq!(ran.json()["next"], "claude");
    let ran = install(&home, ".", &["--plugin", ".claude/other", "--json"]).exits(0);
    assert_eq!(ran.json()["next"], "claude --plugin-dir <home>/.claude/other");
}

#[test]
fn a_folder_of_others_and_other_clients_are_refused() {
    let home = Home::new();
    home.write(".mcp.json", "{\"mcpServers\": {}}");
    let before = files(home.path());
    let refused = install(&home, ".", &["--plugin", "."]).exits(2);
    assert!(refused.stderr.contains("did not write; nothing was changed"), "{}", refused.stderr);
    let refused = install(&home, ".", &["--plugin", "--header", "Authorization: hush"]).exits(2);
    assert!(refused.stderr.contains("plain text"), "{}", refused.stderr);
    let mut other = home.command(&["mcp", "install", "--client", "codex", "--plugin"]);
    let refused = home.finish(&mut other).exits(2);
    assert!(refused.stderr.contains("not for Codex"), "{}", refused.stderr);
    install(&home, ".", &["--plugin", "--write"]).exits(2);
    install(&home, ".", &["--force"]).exits(2);
    assert_eq!(files(home.path()), before);
    // What a first call left behind when it was interrupted is taken up.
    let part = home.path().join("part");
    fs::create_dir_all(part.join("commands")).expect("a directory");
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/plugin/commands/review.md"), part.join("commands/review.md"))
        .expect("a copy");
    let ran = install(&home, ".", &["--plugin", "part", "--json"]).exits(0);
    assert_eq!(actions(&ran)["commands/review.md"], "unchanged");
}

#[test]
fn the_texts_name_only_tools_and_fields_that_the_server_has() {
    let home = Home::new();
    let all = files(&written(&home, &[]));
    let builtin = drawloom_server::Operations::builtin();
    let operations: BTreeSet<&str> = builtin.iter().map(|served| served.card().name()).collect();
    let tools =
        Regex::new("(?:`|mcp__plugin_drawloom_drawloom__)((?:cancel|get|list|read|spawn)_[a-z_]+)").expect("a pattern");
    let listing = include_str!("mcp/snapshots/it__mcp__listing__mcp_tools.snap");
    let words = Regex::new("`([a-z]+(?:_[a-z]+)*)`").expect("a pattern");
    for name in ["commands/fanout.md", "commands/review.md", "skills/delegate/SKILL.md"] {
        let named: BTreeSet<&str> = tools.captures_iter(&all[name]).map(|found| found.extract::<1>().1[0]).collect();
        assert!(named.is_subset(&operations) && named.contains("spawn_runs"), "{name}: {named:?}");
        for word in words.captures_iter(&all[name]).map(|found| found.extract::<1>().1[0]) {
            assert!(listing.contains(&format!("\"{word}\"")), "{name}: {word} is not in the listing of tools");
        }
    }
}
