//! Imports into a config that others imported into, edited, or were killed in.

use std::{fs, fs::File, os::unix::fs::symlink};

use super::{config, import, put, said};
use crate::support::Home;

/// The reasons of a report for things of this name.
fn reasons(report: &serde_json::Value, name: &str) -> Vec<String> {
    let items = report["items"].as_array().expect("items").iter().filter(|item| item["name"] == name);
    items.map(|item| item["reason"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn two_imports_into_one_config_do_not_run_at_the_same_time() {
    let home = Home::new();
    put(&home, ".claude/agents/a.md", "---\nname: a\n---\nA.\n");
    let other = File::open(home.path()).expect("the folder");
    other.lock().expect("a lock");
    let before = config(&home);
    let refused = import(&home, &["--write"]).exits(1);
    assert!(refused.stderr.contains("another import into drawloom.yaml is running"), "{refused:?}");
    assert_eq!(config(&home), before);
    import(&home, &[]).exits(0);
    // A process that another test starts at this moment may have a copy of the descriptor.
    other.unlock().expect("it is locked");
    import(&home, &["--write"]).exits(0);
}

#[test]
fn what_a_killed_import_left_is_no_skill_and_is_put_right_by_the_next() {
    let home = Home::new();
    put(&home, ".claude/skills/weave/SKILL.md", "---\nname: weave\ndescription: d\n---\nOne.\n");
    put(&home, ".claude/skills/knot/SKILL.md", "---\nname: knot\ndescription: d\n---\nKnot.\n");
    home.write("drawloom.yaml", &format!("{}skills: {{ directories: [skills, lib] }}\n", config(&home)));
    fs::create_dir_all(home.path().join("lib")).expect("a folder");
    import(&home, &["--write"]).exits(0);
    // Killed between two renames: the old skill is out of its place, the new one is not in it.
    let left = home.path().join(".drawloom-import-abc123");
    fs::create_dir_all(left.join("old")).expect("a folder");
    fs::create_dir_all(left.join("new/weave")).expect("a folder");
    fs::write(left.join("destination"), home.path().join("skills").display().to_string()).expect("a file");
    fs::rename(home.path().join("skills/weave"), left.join("old/weave")).expect("renamed");
    fs::write(left.join("new/weave/SKILL.md"), "---\nname: weave\ndescription: d\n---\nTwo.\n").expect("a file");
    home.write(".drawloom-import-Xy12", "half a config");
    put(&home, "lib/.drawloom-import-x/old/stray/SKILL.md", "---\nname: stray\ndescription: d\n---\nStray.\n");
    let listed = home.run(&["skills", "ls", "--json"]).exits(0).stdout;
    assert!(listed.contains("knot") && !listed.contains("stray"), "hidden folders hold no skills: {listed}");
    put(&home, ".claude/skills/knot/SKILL.md", "---\nname: knot\ndescription: d\n---\nAnother knot.\n");
    let report = import(&home, &["--write", "--json"]).exits(0).json();
    assert!(said(&report).contains(&"skill knot update".to_owned()), "{report:#}");
    assert!(!left.exists() && !home.path().join(".drawloom-import-Xy12").exists());
    let weave = fs::read_to_string(home.path().join("skills/weave/SKILL.md")).expect("the skill is there");
    assert!(weave.contains("One."), "{weave}");
    let again = import(&home, &["--write", "--json"]).exits(0).json();
    assert!(said(&again).iter().all(|line| line.ends_with("unchanged")), "{again:#}");
}

#[test]
fn a_skill_named_like_a_copy_of_another_is_updated_too() {
    let home = Home::new();
    let skill = |name: &str, text: &str| {
        let body = format!("---\nname: {name}\ndescription: d\n---\n{text}\n");
        put(&home, &format!(".claude/skills/{name}/SKILL.md"), &body);
    };
    for text in ["One.", "Two."] {
        skill("weave", text);
        skill("weave.old", text);
        import(&home, &["--write"]).exits(0);
    }
    for name in ["weave", "weave.old"] {
        let text = fs::read_to_string(home.path().join(format!("skills/{name}/SKILL.md"))).expect("the skill");
        assert!(text.contains("Two."), "{name}: {text}");
    }
}

#[test]
fn files_of_a_skill_that_are_left_out_and_keys_that_stand_twice_are_reported() {
    let home = Home::new();
    put(&home, ".claude/skills/weave/SKILL.md", "---\nname: weave\ndescription: d\ndescription: e\n---\nOne.\n");
    put(&home, ".claude/skills/weave/.env.local", "TOKEN=1\n");
    put(&home, ".claude/skills/weave/.git/HEAD", "ref\n");
    symlink("/etc/hostname", home.path().join(".claude/skills/weave/notes.md")).expect("a link");
    put(&home, ".claude/agents/a.md", "---\nname: a\ntools: Read\ntools: Write\n---\nA.\n");
    let report = import(&home, &["--write", "--json"]).exits(0).json().to_string();
    for part in [
        "a file of secrets is not copied",
        "a repository is not copied",
        "a link is not copied",
        "notes.md",
        "duplicate key \\\"tools\\\"",
        "duplicate key \\\"description\\\"",
    ] {
        assert!(report.contains(part), "{part:?} is not in {report}");
    }
    assert!(
        !home.path().join("skills/weave/.env.local").exists() && !home.path().join("skills/weave/notes.md").exists()
    );
}

#[test]
fn a_new_file_does_not_take_over_the_name_of_an_agent_that_was_imported_before() {
    let home = Home::new();
    put(&home, ".claude/agents/team/reviewer.md", "---\nname: reviewer\n---\nThe first.\n");
    import(&home, &["--write"]).exits(0);
    put(&home, ".claude/agents/reviewer.md", "---\nname: reviewer\n---\nThe second.\n");
    let report = import(&home, &["--write", "--json"]).exits(0).json();
    assert!(config(&home).contains("The first.") && !config(&home).contains("The second."), "{}", config(&home));
    let said = said(&report);
    assert!(said.contains(&"agent reviewer unchanged".to_owned()), "{said:?}");
    assert!(said.contains(&"agent reviewer dropped".to_owned()), "{said:?}");
    let why = reasons(&report, "reviewer");
    assert!(why.iter().any(|why| why.contains("belongs to agents/team/reviewer.md")), "{why:?}");
    // The first one is still updated, and a file that is gone has no claim.
    put(&home, ".claude/agents/team/reviewer.md", "---\nname: reviewer\n---\nThe first, changed.\n");
    import(&home, &["--write"]).exits(0);
    assert!(config(&home).contains("The first, changed."));
    fs::remove_file(home.path().join(".claude/agents/team/reviewer.md")).expect("removed");
    import(&home, &["--write"]).exits(0);
    assert!(config(&home).contains("The second."), "{}", config(&home));
}

#[test]
fn an_imported_entry_with_an_anchor_is_kept_because_its_aliases_would_change() {
    let home = Home::new();
    put(&home, ".claude/agents/a.md", "---\nname: a\ntools: Read\n---\nA.\n");
    import(&home, &["--write"]).exits(0);
    let text = config(&home);
    let anchored =
        text.replace("tools: [Read]", "tools: &mine [Read]").replace("tools:\n      - Read", "tools: &mine [Read]");
    assert_ne!(anchored, text, "{text}");
    let anchored = anchored.replace("volumes:\n", "  other: { tools: *mine, agents: [], hosts: [] }\nvolumes:\n");
    home.write("drawloom.yaml", &anchored);
    home.run(&["validate"]).exits(0);
    put(&home, ".claude/agents/a.md", "---\nname: a\ntools: Read, Bash\n---\nB.\n");
    for force in [&[][..], &["--force"]] {
        let arguments: Vec<&str> = ["--write", "--json"].iter().chain(force).copied().collect();
        let report = import(&home, &arguments).exits(0).json();
        assert!(said(&report).contains(&"agent a kept".to_owned()), "{report:#}");
        assert!(reasons(&report, "a")[0].contains("an edit would change what its aliases mean"), "{report:#}");
        assert_eq!(config(&home), anchored);
    }
}

#[test]
fn links_to_folders_above_are_reported_and_not_followed() {
    let home = Home::new();
    put(&home, ".claude/agents/a.md", "---\nname: a\n---\nA.\n");
    put(&home, ".claude/skills/weave/SKILL.md", "---\nname: weave\ndescription: d\n---\nOne.\n");
    fs::create_dir_all(home.path().join(".claude/plugins")).expect("a folder");
    for folder in ["agents", "skills", "plugins"] {
        symlink("/", home.path().join(".claude").join(folder).join("root")).expect("a link");
    }
    symlink("/", home.path().join(".claude/commands")).expect("a link");
    let report = import(&home, &["--json"]).exits(0).json();
    let said = said(&report);
    let left = said.iter().filter(|line| *line == "file root dropped").count();
    assert_eq!(left, 3, "{said:?}");
    assert!(said.contains(&"file commands dropped".to_owned()), "{said:?}");
    assert_eq!(said.len(), 6, "nothing of the machine is read: {said:?}");
    assert!(reasons(&report, "root").iter().all(|why| why.contains("link")), "{report:#}");
}
