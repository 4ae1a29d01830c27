//! Skills are offered by name, loaded on demand, and never reach outside their folder.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, sync::Arc};

use drawloom_contract::{
    definition::Definition,
    ids::{RunId, RunKey, Tenant},
    redact::Redactor,
    tool::{Gates, Step, Tool, ToolContext, ToolError},
};
use serde_json::json;

use super::*;
use crate::volumes::VolumeTable;

fn skill(folder: &Path, name: &str, text: &str) -> Skill {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(SKILL_FILE), text).expect("a file");
    Skill::open(name.into(), format!("How to {name}."), &folder).expect("a skill")
}

fn agent(skills: &[&str], tools: &[&str]) -> Definition {
    Definition {
        skills: skills.iter().map(|name| ((*name).to_owned(), format!("How to {name}."))).collect(),
        tools: tools.iter().map(|name| (*name).to_owned()).collect(),
        ..drawloom_testkit::definition("a", "p", "m")
    }
}

async fn call(tool: &SkillTool, definition: &Definition, input: serde_json::Value) -> Result<String, ToolError> {
    let context = ToolContext {
        run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([1; 16]) },
        root: RunId::from_bytes([1; 16]),
        user: "ada".parse().expect("a user"),
        call: 1,
        depth: 0,
        definition: Arc::new(definition.clone()),
        hosts: Arc::from([]),
        volumes: Arc::new(VolumeTable::default()),
        redactor: Arc::new(Redactor::new([""; 0])),
        evidence: None,
        woken: None,
        progress: Arc::new(()),
        began: drawloom_contract::time::Timestamp::from_millis(0),
    };
    match tool.call(&context, input).await? {
        Step::Done(result) => Ok(result.text),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_skill_is_loaded_with_the_names_of_its_files_and_each_file_can_be_read() {
    let home = tempfile::tempdir().expect("a directory");
    let skill = skill(home.path(), "weave", "---\nname: weave\ndescription: x\n---\n\n# Weave\nOver, under.\n");
    fs::create_dir(skill.folder.join("scripts")).expect("a folder");
    fs::write(skill.folder.join("scripts/count.sh"), "wc -l\n").expect("a file");
    let mut table = SkillTable::default();
    table.add(skill).expect("the first");
    let tool = SkillTool::with_commands(Arc::new(table));
    let plain = agent(&["weave"], &["Skill"]);
    let text = call(&tool, &plain, json!({ "name": "weave" })).await.expect("the skill");
    assert_eq!(text, "# Weave\nOver, under.\n\n[files of this skill, read with `file`: scripts/count.sh]");
    let file = call(&tool, &plain, json!({ "name": "weave", "file": "scripts/count.sh" })).await;
    assert_eq!(file.expect("the file"), "wc -l\n");
    let with_bash = call(&tool, &agent(&["weave"], &["Bash"]), json!({ "name": "weave" })).await.expect("the skill");
    assert!(with_bash.contains("[Bash can read and run these files"), "{with_bash}");
}

#[tokio::test]
async fn nothing_outside_the_folder_and_no_other_skill_is_read() {
    let home = tempfile::tempdir().expect("a directory");
    fs::write(home.path().join("secret"), "hidden").expect("a file");
    let weave = skill(home.path(), "weave", "text");
    symlink("../secret", weave.folder.join("link")).expect("a link");
    symlink(SKILL_FILE, weave.folder.join("inside")).expect("a link");
    rustix::fs::mkfifoat(rustix::fs::CWD, weave.folder.join("pipe"), Mode::from_raw_mode(0o600)).expect("a pipe");
    fs::write(weave.folder.join(".env"), "KEY=1").expect("a file");
    fs::write(weave.folder.join("raw"), [0xff, 0xfe]).expect("a file");
    fs::write(weave.folder.join("large"), vec![b'x'; SKILL_FILE_LIMIT as usize + 1]).expect("a file");
    let mut table = SkillTable::default();
    table.add(weave).expect("the first");
    table.add(skill(home.path(), "dye", "other")).expect("another");
    let tool = SkillTool::new(Arc::new(table));
    let definition = agent(&["weave"], &["Skill"]);
    for file in [
        "link",
        "../secret",
        "/etc/passwd",
        "../dye/SKILL.md",
        "none",
        "pipe",
        ".",
        "raw",
        "large",
        "a\0b",
        ".env",
        "inside",
    ] {
        let refused = call(&tool, &definition, json!({ "name": "weave", "file": file })).await;
        assert!(refused.is_err(), "{file}: {refused:?}");
    }
    let denied = call(&tool, &definition, json!({ "name": "dye" })).await.expect_err("not allowed");
    assert!(matches!(&denied, ToolError::Denied(said) if said.contains("weave")), "{denied}");
}

#[test]
fn the_card_lists_the_allowed_skills_and_is_withheld_without_any() {
    let tool = SkillTool::new(Arc::default());
    let card = tool.card();
    let offered = |definition: &Definition| tool.card_for(&card, Gates { definition, hosts: &[] });
    let one = offered(&agent(&["weave"], &["Skill"])).expect("a card");
    assert!(one.description.ends_with("\nSkills:\n- weave: How to weave."), "{}", one.description);
    assert_eq!(one.input_schema["properties"]["name"]["enum"], json!(["weave"]));
    assert_eq!(offered(&agent(&[], &["Skill"])), Err(EMPTY.into()));
}

const EMPTY: &str =
    "the tool Skill is not available to agent a: `skills` is empty (to allow it, write `skills: [NAME]`)";

#[test]
fn patterns_choose_skills_and_the_first_of_a_name_counts() {
    let home = tempfile::tempdir().expect("a directory");
    let mut table = SkillTable::default();
    for name in ["dye", "weave", "weave-fast"] {
        table.add(skill(home.path(), name, "text")).expect("a new one");
    }
    assert!(table.add(skill(home.path(), "dye", "text")).is_err());
    let allowed = |patterns: &[&str]| {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        table.allowed(&patterns).into_keys().collect::<Vec<_>>()
    };
    assert_eq!(allowed(&["weave*"]), ["weave", "weave-fast"]);
    assert_eq!(allowed(&["*"]).len(), 3);
    assert_eq!(allowed(&[]), Vec::<String>::new());
    let _: BTreeMap<String, String> = table.allowed(&["dye".into()]);
}

#[test]
fn frontmatter_is_found_in_every_spelling_and_nothing_else_is_taken_for_it() {
    for (text, head, body) in [
        ("---\na: 1\n---\nbody\n", Some("a: 1\n"), "body\n"),
        ("\u{feff}---\r\na: 1\r\n---\r\nbody", Some("a: 1\r\n"), "body"),
        ("\n\n---  \na: 1\n...\nbody", Some("a: 1\n"), "body"),
        ("---\n---\n", Some(""), ""),
        ("---\na: 1\n---", Some("a: 1\n"), ""),
        ("no head\n---\n", None, "no head\n---\n"),
        ("---\nnever closed\n", None, "---\nnever closed\n"),
        ("----\na\n----\n", None, "----\na\n----\n"),
        ("", None, ""),
        ("---", None, "---"),
    ] {
        assert_eq!(frontmatter(text), (head, body), "{text:?}");
    }
}
