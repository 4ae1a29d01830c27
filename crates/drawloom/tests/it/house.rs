//! Rules of the house: which crate may use which, how long a file may be, no test forgotten.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Which of our crates each crate may use. The table of the design; an edge that is not here is a mistake.
const EDGES: &[(&str, &[&str])] = &[
    ("redact", &[]),
    ("units", &[]),
    ("contract", &["redact", "units"]),
    ("store", &["contract"]),
    ("bus", &["contract"]),
    ("net", &["contract"]),
    ("models", &["contract", "net"]),
    ("process", &["contract"]),
    ("tools", &["contract", "net", "process"]),
    ("clis", &["contract", "process"]),
    ("substrate", &["contract"]),
    ("engine", &["contract"]),
    ("fleet", &["contract", "net", "process"]),
    ("checkout", &["contract", "process"]),
    ("goal", &["contract"]),
    ("wire", &["contract", "net"]),
    ("server", &["contract", "wire", "engine", "substrate", "fleet", "goal"]),
    ("testkit", &["contract"]),
];

/// What only one crate may use.
const HOMES: &[(&str, &str)] = &[("rusqlite", "store"), ("reqwest", "net"), ("axum", "server"), ("clap", "drawloom")];

/// The files that may name the process's own streams, each with the reason. Everything else prints through `output.rs`, which lets
/// nothing through that a terminal would obey.
const EXITS: &[(&str, &str)] = &[
    ("drawloom/src/output/sink.rs", "the exit"),
    ("drawloom/src/output.rs", "which stream is a terminal, and how large"),
    ("drawloom/src/output/progress.rs", "bars, whose texts are made safe"),
    ("drawloom/src/logging.rs", "lines of the log, which are made safe"),
    ("drawloom/src/commands/mcp.rs", "JSON-RPC for a host"),
    ("process/src/report.rs", "a pipe to drawloom"),
    ("process/src/launcher/serve.rs", "a pipe to drawloom"),
    ("process/src/launcher/probe.rs", "a pipe to drawloom"),
    ("process/src/launcher/confined.rs", "a pipe to drawloom"),
    ("process/src/landlock.rs", "the names of devices"),
    ("process/src/detached.rs", "an error of the system, for a log"),
];

/// The most lines of `contract`: a change of it builds every crate again.
const LARGEST_CONTRACT: usize = 4000;

/// The longest file that we write, in lines.
const LONGEST_FILE: usize = 600;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// Our crates, each with the names of what it depends on, tests apart.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo answers JSON");
    let name = |value: &Value| value.as_str().expect("a name").trim_start_matches("drawloom-").to_owned();
    metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|package| {
            let used = package["dependencies"].as_array().expect("dependencies").iter();
            let used =
                used.filter(|dependency| dependency["kind"] != "dev").map(|dependency| name(&dependency["name"]));
            (name(&package["name"]), used.collect())
        })
        .collect()
}

#[test]
fn crates_use_only_the_crates_that_the_design_allows() {
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let all = dependencies();
    assert!(all.len() >= 10, "{all:?}");
    for (package, used) in &all {
        if package == "drawloom" {
            assert!(!used.iter().any(|name| name == "testkit"), "the shipped binary must hold no fixtures");
            continue;
        }
        let Some(may_use) = allowed.get(package.as_str()) else {
            assert_eq!(package, "bench", "crate {package} is not in the table of the design");
            continue;
        };
        for name in used.iter().filter(|name| all.contains_key(*name)) {
            assert!(may_use.contains(&name.as_str()), "{package} may not use {name}");
        }
    }
}

#[test]
fn what_has_a_home_is_used_only_there() {
    for (package, used) in dependencies() {
        for (dependency, home) in HOMES {
            assert!(
                package == *home || package == "bench" || !used.iter().any(|name| name == dependency),
                "{dependency} is used by {package}; only {home} may"
            );
        }
    }
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_file_is_longer_than_six_hundred_lines() {
    let mut files = Vec::new();
    rust_files(&workspace().join("crates"), &mut files);
    assert!(files.len() > 100, "the search found only {} files", files.len());
    for file in files {
        let lines = fs::read_to_string(&file).expect("text").lines().count();
        assert!(lines <= LONGEST_FILE, "{} has {lines} lines", file.display());
    }
}

#[test]
fn only_the_exits_write_to_the_streams_of_the_process() {
    let crates = workspace().join("crates");
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).expect("crates") {
        rust_files(&entry.expect("an entry").path().join("src"), &mut files);
    }
    let stream = regex::Regex::new(
        r#"(?m)(^|[^.\w])(stdout|stderr)\(\)|Stdio::inherit|/dev/(tty|stdout|stderr|fd/)|\bprintln!"#,
    );
    let stream = stream.expect("a pattern");
    let mut found = std::collections::BTreeSet::new();
    for file in files {
        let name = file.strip_prefix(&crates).expect("a crate").to_str().expect("text").to_owned();
        let is_test = name.contains("tests") || ["testkit/", "bench/"].iter().any(|kit| name.starts_with(kit));
        let text = fs::read_to_string(&file).expect("text");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        if !is_test && stream.is_match(code) {
            found.insert(name);
        }
    }
    let allowed = EXITS.iter().map(|(file, _)| (*file).to_owned()).collect();
    assert_eq!(found, allowed, "what prints must do it through output.rs");
}

#[test]
fn contract_has_fewer_than_four_thousand_lines() {
    let mut files = Vec::new();
    rust_files(&workspace().join("crates/contract/src"), &mut files);
    assert!(files.len() > 10, "the search found only {} files", files.len());
    let lines: usize = files.iter().map(|file| fs::read_to_string(file).expect("text").lines().count()).sum();
    assert!(lines < LARGEST_CONTRACT, "contract has {lines} lines; what only one other crate uses belongs there");
}

#[test]
fn no_integration_test_is_forgotten() {
    let mut checked = 0;
    let crates = fs::read_dir(workspace().join("crates")).expect("crates").map(|entry| entry.expect("an entry").path());
    for tests in crates.filter_map(|directory| fs::read_dir(directory.join("tests")).ok()) {
        for directory in tests.map(|entry| entry.expect("an entry").path()) {
            let Ok(main) = fs::read_to_string(directory.join("main.rs")) else { continue };
            for file in fs::read_dir(&directory).expect("tests").map(|file| file.expect("an entry").path()) {
                let stem = file.file_stem().expect("a name").to_string_lossy().into_owned();
                let is_module = file.extension().is_some_and(|extension| extension == "rs");
                if is_module && stem != "main" {
                    assert!(main.contains(&format!("mod {stem};")), "{} is in no test", file.display());
                    checked += 1;
                }
            }
        }
    }
    assert!(checked >= 9, "the check found only {checked} files");
}

/// Files whose texts name commands although callers of the API may see them: they are about a shell, or only people read them.
const NAME_COMMANDS: &[&str] =
    &["checkout/src/error.rs", "goal/src/walk/iteration.rs", "substrate/src/definitions/power.rs"];

#[test]
fn hints_of_the_server_name_operations_and_the_terminal_makes_commands_of_them() {
    let commands =
        ["runs", "goal", "worktree", "memory", "channels", "artifacts", "defs", "evaluations", "agents", "call"];
    for name in ["contract", "engine", "server", "substrate", "store", "goal", "checkout", "tools"] {
        let mut files = Vec::new();
        rust_files(&workspace().join("crates").join(name).join("src"), &mut files);
        for file in files.iter().filter(|file| !NAME_COMMANDS.iter().any(|known| file.ends_with(known))) {
            let (text, file) = (fs::read_to_string(file).expect("source"), file.display());
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in lines {
                let found = commands.iter().find(|command| line.contains(&format!("`drawloom {command} ")));
                assert!(found.is_none(), "{file}: name the operation instead: {line}");
            }
        }
    }
}
