//! `drawloom import claude-code`: nothing is lost without a word, nothing is half written, and a second time changes nothing.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::Value;

use crate::support::{Home, Ran};

mod repeated;
mod tree;

/// A folder with one of everything.
fn small(home: &Home) {
    put(
        home,
        ".claude/agents/reviewer.md",
        "---\nname: reviewer\ndescription: Reviews: code\ntools: Read, Grep, Bash(git:*), mcp__git hub__get\nmodel: opus\ncolor: red\n\
         skills: code-review\n---\n\nYou review ${HOME} code.\n\n- carefully\n",
    );
    put(home, ".claude/agents/helper.md", "---\nname: helper\n---\nYou help.\n");
    put(
        home,
        ".claude/skills/code-review/SKILL.md",
        "---\nname: code-review\ndescription: How to review.\n---\nLook twice.\n",
    );
    put(home, ".claude/skills/code-review/scripts/count.sh", "#!/bin/sh\nwc -l\n");
    let script = home.path().join(".claude/skills/code-review/scripts/count.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("rights");
    put(home, ".claude/commands/fix.md", "---\ndescription: Fix it\n---\nFix $ARGUMENTS, not ${HOME}.\n");
    put(
        home,
        ".mcp.json",
        "{\"mcpServers\": {\"git hub\": {\"command\": \"false\", \"args\": [\"-y\", \"server\"], \"env\": {\"TOKEN\": \"${GH_TOKEN}\"}}}}",
    );
    put(home, ".claude/settings.json", "{\"permissions\": {\"deny\": [\"Read(.env)\"]}}");
    put(home, "CLAUDE.md", "Be kind.\n");
}

fn put(home: &Home, name: &str, text: &str) {
    let path = home.path().join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

fn config(home: &Home) -> String {
    fs::read_to_string(home.path().join("drawloom.yaml")).expect("the config")
}

fn import(home: &Home, more: &[&str]) -> Ran {
    let arguments: Vec<&str> = ["import", "claude-code"].into_iter().chain(more.iter().copied()).collect();
    home.run(&arguments)
}

/// Items of a report as `kind name action`.
fn said(report: &Value) -> Vec<String> {
    let items = report["items"].as_array().expect("items").iter();
    let text = |item: &Value, key: &str| item[key].as_str().unwrap_or_default().to_owned();
    items.map(|item| format!("{} {} {}", text(item, "kind"), text(item, "name"), text(item, "action"))).collect()
}

/// All files below a folder with what they hold.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => open.push(path),
                path => found.push((path.display().to_string(), fs::read(&path).expect("a file"))),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_report_says_everything_at_eighty_columns_and_writes_nothing() {
    let home = Home::new();
    small(&home);
    let before = files(home.path());
    let report = import(&home, &["--width", "80"]).exits(0);
    assert_eq!(files(home.path()), before, "a report changes nothing");
    assert!(report.stdout.lines().all(|line| line.chars().count() <= 80), "{}", report.stdout);
    insta::assert_snapshot!("import_report", report.stdout);
}

#[test]
fn what_is_written_validates_runs_and_a_second_import_changes_nothing() {
    let home = Home::new();
    small(&home);
    let report = import(&home, &["--write", "--json"]).exits(0).json();
    assert_eq!(
        said(&report),
        [
            "agent helper add",
            "agent reviewer add",
            "skill code-review add",
            "prompt fix add",
            "mcp_server git_hub add",
            "permission deny Read(.env) dropped",
            "file CLAUDE.md dropped",
        ]
    );
    assert_eq!(report["next"], "drawloom trust", "a program that came from the folder is looked at first");
    insta::assert_snapshot!("import_written", config(&home));
    home.run(&["validate"]).exits(0);
    let script = home.path().join("skills/code-review/scripts/count.sh");
    assert_eq!(fs::metadata(script).expect("the script").permissions().mode() & 0o777, 0o755);
    for agent in ["reviewer", "helper"] {
        let ran = home.run(&["run", agent, "hello", "--embedded", "--json", "--config", "drawloom.yaml"]).exits(0);
        assert!(ran.stdout.contains("\"final_text\": \"hello\""), "{}", ran.stdout);
    }
    let shown = home.run(&["skills", "ls", "--json"]).exits(0).json();
    assert_eq!(shown["skills"][0]["agents"], serde_json::json!(["reviewer"]));
    assert_eq!(home.run(&["skills", "show", "code-review"]).exits(0).stdout, "Look twice.\n");
    let before = files(&home.path().join("skills"));
    let (text, time) = (config(&home), modified(&home));
    let report = import(&home, &["--write", "--json"]).exits(0).json();
    assert_eq!(report["written"], false);
    assert!(said(&report).iter().all(|line| line.ends_with("unchanged") || line.ends_with("dropped")), "{report:#}");
    assert_eq!((config(&home), modified(&home)), (text, time));
    assert_eq!(files(&home.path().join("skills")), before);
}

fn modified(home: &Home) -> std::time::SystemTime {
    fs::metadata(home.path().join("drawloom.yaml")).and_then(|file| file.modified()).expect("a time")
}

#[test]
fn comments_stay_and_edits_are_kept_unless_forced() {
    let home = Home::new();
    small(&home);
    let with_comments = format!("# mine\n{}  # here\n# the end\n", config(&home).trim_end());
    home.write("drawloom.yaml", &with_comments);
    import(&home, &["--write"]).exits(0);
    let text = config(&home);
    for line in with_comments.lines() {
        assert!(text.lines().any(|other| other == line), "{line:?} is gone from\n{text}");
    }
    // Of the two agents one is edited here, and the file of the other changes.
    let edited = text.replace("tools: [Read, Grep, mcp__git_hub__get, Skill]", "tools: [Read]  # enough");
    assert_ne!(edited, text);
    home.write(
        "drawloom.yaml",
        &edited.replace("    system_prompt: You help.", "    # my comment\n    system_prompt: You help."),
    );
    put(&home, ".claude/agents/helper.md", "---\nname: helper\n---\nYou help much.\n");
    put(&home, ".claude/agents/reviewer.md", "---\nname: reviewer\n---\nOther.\n");
    let report = import(&home, &["--write", "--json"]).exits(0).json();
    let said = said(&report);
    assert!(
        said.contains(&"agent reviewer kept".to_owned()) && said.contains(&"agent helper update".to_owned()),
        "{said:?}"
    );
    let text = config(&home);
    assert!(text.contains("tools: [Read]  # enough") && text.contains("carefully"), "{text}");
    assert!(text.contains("    # my comment\n    system_prompt: You help much.\n"), "{text}");
    let forced = import(&home, &["--write", "--force", "--json"]).exits(0).json();
    assert!(self::said(&forced).contains(&"agent reviewer update".to_owned()), "{forced:#}");
    assert!(!config(&home).contains("carefully"));
    home.run(&["validate"]).exits(0);
    let again = import(&home, &["--write", "--json"]).exits(0).json();
    assert_eq!(again["written"], false, "{again:#}");
}

#[test]
fn a_skill_that_was_edited_is_kept_and_one_whose_source_changed_is_copied_again() {
    let home = Home::new();
    small(&home);
    import(&home, &["--write"]).exits(0);
    put(&home, ".claude/skills/code-review/SKILL.md", "---\nname: code-review\ndescription: How.\n---\nLook thrice.\n");
    fs::remove_file(home.path().join(".claude/skills/code-review/scripts/count.sh")).expect("a file");
    let report = import(&home, &["--write", "--json"]).exits(0).json();
    assert!(said(&report).contains(&"skill code-review update".to_owned()), "{report:#}");
    assert!(!home.path().join("skills/code-review/scripts/count.sh").exists(), "the folder is replaced whole");
    put(&home, "skills/code-review/SKILL.md", "---\nname: code-review\n---\nMine.\n");
    put(&home, ".claude/skills/code-review/SKILL.md", "---\nname: code-review\n---\nTheirs.\n");
    let report = import(&home, &["--write", "--json"]).exits(0).json();
    assert!(said(&report).contains(&"skill code-review kept".to_owned()), "{report:#}");
    import(&home, &["--write", "--force"]).exits(0);
    let text = fs::read_to_string(home.path().join("skills/code-review/SKILL.md")).expect("the skill");
    assert!(text.contains("Theirs."), "{text}");
    let left: Vec<_> = fs::read_dir(home.path()).expect("the home").flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("import")), "{left:?}");
}

#[test]
fn a_copied_skill_with_secrets_or_links_of_its_own_is_not_replaced() {
    let home = Home::new();
    small(&home);
    import(&home, &["--write"]).exits(0);
    put(&home, "skills/code-review/scripts/.env", "KEY=value\n");
    put(&home, ".claude/skills/code-review/SKILL.md", "---\nname: code-review\n---\nTheirs.\n");
    let report = import(&home, &["--write", "--json"]).exits(0).json();
    assert!(said(&report).contains(&"skill code-review kept".to_owned()), "{report:#}");
    assert!(home.path().join("skills/code-review/scripts/.env").exists());
}

#[test]
fn a_skill_whose_file_is_a_link_is_dropped_and_stops_nothing() {
    let home = Home::new();
    small(&home);
    put(&home, "elsewhere.md", "---\nname: linked\ndescription: How.\n---\nLook.\n");
    fs::create_dir_all(home.path().join(".claude/skills/linked")).expect("a folder");
    std::os::unix::fs::symlink(home.path().join("elsewhere.md"), home.path().join(".claude/skills/linked/SKILL.md"))
        .expect("a link");
    put(&home, ".claude/agents/user.md", "---\nname: user\ndescription: d\nskills: linked\n---\nUse it.\n");
    let report = import(&home, &["--write", "--json"]).exits(0).json();
    assert!(said(&report).contains(&"skill linked dropped".to_owned()), "{report:#}");
    assert!(said(&report).contains(&"agent user add".to_owned()), "{report:#}");
}

#[test]
fn without_a_config_one_is_made_that_validates_and_runs() {
    let home = Home::new();
    fs::remove_file(home.path().join("drawloom.yaml")).expect("the config");
    small(&home);
    fs::remove_file(home.path().join(".mcp.json")).expect("the servers");
    // The data directory of these tests lies in the home itself, where a volume would contain it.
    let project = home.path().join("project");
    fs::create_dir(&project).expect("a folder");
    for name in [".claude", "CLAUDE.md"] {
        fs::rename(home.path().join(name), project.join(name)).expect("moved");
    }
    let run = |arguments: &[&str]| home.finish(home.command(arguments).current_dir(&project));
    let report = run(&["import", "claude-code", "--write", "--json"]).exits(0).json();
    assert_eq!(report["next"], "drawloom run helper 'Say what you can do'");
    run(&["validate"]).exits(0);
    run(&["run", "reviewer", "hello", "--embedded"]).exits(0);
    let text = fs::read_to_string(project.join("drawloom.yaml")).expect("the config");
    assert!(text.contains("here: { path: ., mode: ro, default: true }"), "{text}");
    let again = run(&["import", "claude-code", "--write", "--json"]).exits(0).json();
    assert_eq!(again["written"], false, "{again:#}");
}

#[test]
fn a_config_that_would_not_be_valid_is_not_written_and_no_skill_is_copied() {
    let home = Home::new();
    small(&home);
    // Two volumes cannot both be the default; the import does not touch them, but checks the whole.
    let text = format!("{}  other: {{ path: notes, default: true }}\n", config(&home));
    home.write("drawloom.yaml", &text);
    let before = files(home.path());
    let refused = import(&home, &["--write", "--json"]).exits(2).json();
    assert_eq!(refused["error"]["code"], "bad_config", "{refused:#}");
    assert_eq!(files(home.path()), before);
    home.write("drawloom.yaml", "agents: [broken");
    import(&home, &["--write"]).exits(2);
}

#[test]
fn a_folder_without_anything_and_one_that_does_not_exist_are_usage_errors() {
    let home = Home::new();
    let missing = import(&home, &[]).exits(2);
    assert!(missing.stderr.contains(".claude is not a directory"), "{}", missing.stderr);
    fs::create_dir(home.path().join("empty")).expect("a folder");
    let empty = import(&home, &["--from", "empty", "--write"]).exits(2);
    assert!(empty.stderr.contains("nothing to import in empty"), "{}", empty.stderr);
}

#[test]
fn flags_say_where_things_are() {
    let home = Home::new();
    small(&home);
    let more = ["--from", ".claude", "--into", "team.yaml", "--skills-dest", "shelf/own", "--write", "--json"];
    let report = import(&home, &more).exits(0).json();
    assert_eq!(report["into"], "team.yaml");
    assert!(home.path().join("shelf/own/code-review/SKILL.md").is_file());
    let text = fs::read_to_string(home.path().join("team.yaml")).expect("the config");
    assert!(text.contains("directories: [shelf/own]"), "{text}");
    home.run(&["validate", "team.yaml"]).exits(0);
}
