//! Commands of the README and of pages with complete examples, as they are printed there. Only `cargo` is replaced, by the binary that cargo built for this test.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use crate::{docs::workspace, support::Home};

/// A block of commands and the paragraph above it.
struct Block {
    about: String,
    lines: Vec<String>,
}

fn page(name: &str) -> String {
    fs::read_to_string(workspace().join(name)).expect("a page")
}

/// The blocks of commands of a page.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut about = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "```sh" {
            let commands = lines.by_ref().take_while(|line| *line != "```").map(str::to_owned).collect();
            blocks.push(Block { about: std::mem::take(&mut about), lines: commands });
        } else if !line.is_empty() {
            about = line.to_owned();
        }
    }
    blocks
}

/// Runs a line of the README in a folder, with this test's binary as `drawloom`.
fn run(home: &Home, folder: &Path, line: &str) -> (i32, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_drawloom")).parent().expect("a folder");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").expect("a PATH"));
    let mut command = home.command(&[]);
    let variables: Vec<_> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    command = Command::new("sh");
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // As a user has it: data where it is by default.
    command.env_remove("DRAWLOOM_DATA_DIR");
    let output = command.args(["-c", line]).current_dir(folder).env("PATH", path).output().expect("a shell");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

/// The same, with `cargo run --` and `cargo install` replaced.
fn run_block(home: &Home, folder: &Path, block: &Block) -> Vec<(String, i32, String)> {
    let commands = block.lines.iter().map(|line| match line.split_once(" -- ") {
        Some(("cargo run", arguments)) => format!("drawloom {arguments}"),
        _ => line.clone(),
    });
    let mut told = Vec::new();
    for line in commands {
        if let Some(arguments) = line.strip_prefix("cargo install ") {
            let path = arguments.split_whitespace().skip_while(|word| *word != "--path").nth(1).expect("a path");
            let manifest = fs::read_to_string(workspace().join(path).join("Cargo.toml")).expect("a crate to install");
            assert!(manifest.contains("name = \"drawloom\""), "{line}");
            continue;
        }
        let (code, text) = run(home, folder, &line);
        told.push((line, code, text));
    }
    told
}

#[test]
fn the_readmes_commands_run_as_printed() {
    let home = Home::new();
    fs::remove_file(home.path().join("drawloom.yaml")).expect("a config of tests");
    let folder = home.path().join("folder");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("main.py"), "print('hello')\n").expect("a file to review");
    let repository = home.path().join("repository");
    repository_with_a_failing_test(&home, &repository);

    let blocks = blocks(&page("README.md"));
    assert_eq!(blocks.len(), 4, "a block without a place to run: add it here");
    for block in &blocks {
        let is_goal = block.about.starts_with("**A goal.**");
        for (line, code, text) in run_block(&home, if is_goal { &repository } else { &folder }, block) {
            // The branch of the repository is checked out, so `land` prints the command that moves it.
            let wanted = if line.starts_with("drawloom goal land") { 1 } else { 0 };
            assert_eq!(code, wanted, "{line}\n{text}");
            assert!(!text.is_empty(), "{line} printed nothing");
        }
    }
    let (code, merged) = run(&home, &repository, "$(drawloom goal land) && npm test");
    assert_eq!(code, 0, "the printed command takes the work, and its tests pass: {merged}");
    let (_, shown) = run(&home, &folder, "drawloom mcp install");
    assert!(shown.contains("claude"), "{shown}");
    for folder in [&folder, &repository] {
        run(&home, folder, "drawloom stop");
    }
}

/// A page's section, from its title to the next one.
fn section(page: &str, title: &str) -> String {
    let rest = page.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no section {title}")).1;
    rest.split("\n## ").next().expect("a section").to_owned()
}

/// Saves the section's config in an empty folder, runs its commands and returns what they printed.
fn follow(home: &Home, section: &str) -> String {
    let config = section.split_once("```yaml\n").and_then(|(_, rest)| rest.split_once("```")).expect("a config").0;
    home.write("drawloom.yaml", config);
    let mut printed = String::new();
    for block in blocks(section) {
        for (line, code, text) in run_block(home, home.path(), &block) {
            assert_eq!(code, 0, "{line}\n{text}");
            printed.push_str(&text);
        }
    }
    run(home, home.path(), "drawloom stop");
    printed
}

#[test]
fn the_smallest_loop_runs_as_printed() {
    let printed = follow(&Home::new(), &section(&page("docs/loops.md"), "The smallest loop"));
    assert!(printed.contains("writer  completed") && printed.contains("critic"), "{printed}");
    assert!(printed.contains("\nWarp before weft.\n"), "{printed}");
}

#[test]
fn the_team_of_the_first_page_runs_as_printed() {
    let printed = follow(&Home::new(), &section(&page("docs/getting-started.md"), "A team, line by line"));
    assert!(printed.contains("Two chapters are read. One is missing"), "{printed}");
    assert!(printed.contains("there is no chapter lost.md (model_refused)"), "{printed}");
}

/// A repository whose test fails, and a coding CLI that mends it.
fn repository_with_a_failing_test(home: &Home, repository: &Path) {
    fs::create_dir_all(repository.join("test")).expect("a folder");
    fs::write(repository.join("package.json"), "{\"scripts\": {\"test\": \"node test/sum.js\"}}\n").expect("a file");
    fs::write(repository.join("test/sum.js"), "if (require('../sum.js')(2, 2) !== 4) process.exit(1);\n")
        .expect("a test");
    fs::write(repository.join("sum.js"), "module.exports = (a, b) => a - b;\n").expect("a file");
    let cli = home.path().join("cli");
    fs::write(&cli, CLI).expect("a program");
    fs::set_permissions(&cli, fs::Permissions::from_mode(0o755)).expect("a program");
    let config = format!("goals: {{ backend: mender }}\nclis:\n  mender: {{ command: ['{}'] }}\n", cli.display());
    fs::write(repository.join("drawloom.yaml"), config).expect("a config");
    let commands = "git init -q -b main && git add -A && git -c user.name=a -c user.email=a@localhost commit -q -m begin && drawloom trust --yes";
    let (code, text) = run(home, repository, commands);
    assert_eq!(code, 0, "{text}");
}

const CLI: &str = r#"#!/bin/sh
prompt=$(cat)
has() { case "$prompt" in *"$1"*) return 0 ;; esac; return 1; }
if has 'You are the planner'; then
    echo '[{"id": "sum", "description": "Make sum.js add.", "files": ["sum.js"]}]'
elif has 'You are one worker'; then
    echo 'module.exports = (a, b) => a + b;' > sum.js
    echo 'sum.js adds now.'
elif has 'You are the reviewer'; then
    echo '{"quality_ok": true, "consistency_ok": true, "goal_aligned": true, "goal_complete": true, "issues": []}'
elif has 'JSON array of strings'; then
    echo '[]'
else
    echo 'The tests pass.'
fi
"#;
