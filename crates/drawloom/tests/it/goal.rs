//! Goals through the real binary: a repository, workers that are a script in place of a coding CLI, verification, landing.

mod activity;
mod belongs;
mod cancel;
mod cheats;
mod closed;
mod ends;
mod in_place;
mod kills;
mod many;
mod model;
mod promises;
mod repository;
mod resumed;
mod surfaces;
mod untrusted;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::support::{Home, Ran, end_servers};

/// A home with a repository and a CLI that is a script.
pub(crate) struct Project {
    pub(crate) home: Home,
}

/// Ends servers that commands started, whatever became of the test.
impl Drop for Project {
    fn drop(&mut self) {
        end_servers(self.home.path());
    }
}

/// Two workers, a file each.
pub(crate) const TWO: &str = "\
Write both files.
PLAN: [{\"id\":\"alpha\",\"description\":\"write alpha.txt\"},{\"id\":\"beta\",\"description\":\"write beta.txt\"}]
WORK alpha: echo alpha > alpha.txt
WORK beta: echo beta > beta.txt
";

impl Project {
    pub(crate) fn new() -> Self {
        let home = Home::new();
        let script = home.path().join("cli.sh");
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/goal/cli.sh"), &script).expect("a copy");
        let config = format!(
            "listen: 127.0.0.1:0\nclis:\n  script: {{ command: [\"{0}\"], readable_paths: [\"{0}\"], time_limit_seconds: 60 }}\n",
            script.display()
        );
        home.write("drawloom.yaml", &config);
        let project = Self { home };
        fs::create_dir(project.repository()).expect("a directory");
        project.git(&["init", "-q", "-b", "main"]);
        fs::write(project.repository().join("readme.txt"), "a project\n").expect("a file");
        project.commit("first");
        project
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.home.path().join("repository")
    }

    /// What git says in the repository.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=ann", "-c", "user.email=ann@example.com"])
            .args(arguments)
            .current_dir(self.repository())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .expect("git starts");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    /// A command in the repository, with the config of this project.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let config = self.home.path().join("drawloom.yaml");
        let mut command = self.home.command(&["--config", config.to_str().expect("text")]);
        command.args(arguments).current_dir(self.repository());
        command
    }

    /// The same, run to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.home.finish(&mut self.command(arguments))
    }

    /// `drawloom goal run` of this goal in the repository, with more arguments.
    pub(crate) fn goal(&self, goal: &str, more: &[&str]) -> Ran {
        self.run(&[&["goal", "run", goal, "--backend", "script"], more].concat())
    }

    /// The result of a goal, with its criteria given.
    pub(crate) fn result(&self, goal: &str, more: &[&str]) -> Value {
        let all: Vec<&str> = ["--criteria", "It is done.", "--json"].iter().chain(more).copied().collect();
        self.goal(goal, &all).json()
    }

    /// The folder of a goal.
    pub(crate) fn folder(&self, result: &Value) -> PathBuf {
        let shown = result["run_dir"].as_str().expect("a folder");
        self.home.path().join(shown.strip_prefix("<home>/").expect("below the home"))
    }

    /// The events of a goal.
    pub(crate) fn events(&self, run: &str) -> Vec<Value> {
        let tailed = self.run(&["goal", "tail", run, "--no-follow", "--json"]).exits(0);
        tailed.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Changes the config.
    pub(crate) fn configure(&self, change: impl FnOnce(String) -> String) {
        let config = fs::read_to_string(self.home.path().join("drawloom.yaml")).expect("a config");
        self.home.write("drawloom.yaml", &change(config));
    }

    /// Adds a CLI of this name that is a script. In its text, `STATE` is a directory that it can write to, which is returned, and
    /// `CLI` the usual script.
    pub(crate) fn add_cli(&self, name: &str, text: &str) -> PathBuf {
        let (file, state) = (self.home.path().join(format!("{name}.sh")), self.home.path().join(name));
        let usual = self.home.path().join("cli.sh");
        fs::create_dir(&state).expect("a directory");
        let text = text.replace("STATE", &state.display().to_string()).replace("CLI", &usual.display().to_string());
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a file of ours");
        let (file, state_path, usual) = (file.display(), state.display(), usual.display());
        self.configure(|config| {
            format!(
                "{config}  {name}: {{ command: [\"{file}\"], readable_paths: [\"{file}\", \"{usual}\"], writable_paths: [\"{state_path}\"] }}\n"
            )
        });
        state
    }

    /// All that a goal must not change: files of the checkout, and of `.git` everything but objects and the goal's refs.
    pub(crate) fn fingerprint(&self) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        collect(&self.repository(), &self.repository(), &mut found);
        found.sort();
        found
    }
}

fn collect(root: &Path, directory: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).expect("below it").to_string_lossy().into_owned();
        let is_ours = [".git/objects", ".git/refs/drawloom", ".git/refs/heads/drawloom"]
            .iter()
            .any(|ours| name.starts_with(ours));
        match path.is_dir() {
            _ if is_ours => {}
            true => collect(root, &path, found),
            false => found.push((name, fs::read(&path).unwrap_or_default())),
        }
    }
}
