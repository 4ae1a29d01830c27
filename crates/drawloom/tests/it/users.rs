//! Two users on one machine: neither's commands use the other's config, data or server.

use std::{
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Ran, end_servers};

/// Users that no machine has: their numbers are enough.
const ANN: u32 = 61_001;
const BOB: u32 = 61_002;

const CONFIG: &str = "\
providers: { script: { driver: script } }
defaults: { provider: script, model: test }
agents:
  echo: { tools: [Write], agents: [], hosts: [], volumes: [files] }
volumes:
  files: { path: files, mode: rw }
";

/// A machine with two users, their homes, and a folder of Ann's that everybody may read.
struct Machine {
    root: TempDir,
}

impl Machine {
    /// Nothing when this test may not become another user.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "CI runs as root");
            return None;
        }
        let machine = Self { root: tempfile::tempdir().expect("a directory") };
        let open = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("our own");
        open(machine.root.path());
        std::fs::copy(env!("CARGO_BIN_EXE_drawloom"), machine.program()).expect("a copy that all users reach");
        for (user, name) in [(ANN, "ann"), (BOB, "bob")] {
            let home = machine.home(name);
            std::fs::create_dir(&home).expect("a home");
            std::fs::set_permissions(&home, PermissionsExt::from_mode(0o700)).expect("our own");
            chown(&home, Some(user), Some(user)).expect("root may");
        }
        for folder in [machine.project(), machine.project().join("files")] {
            std::fs::create_dir(&folder).expect("a folder");
            open(&folder);
            chown(&folder, Some(ANN), Some(ANN)).expect("root may");
        }
        let config = machine.project().join("drawloom.yaml");
        std::fs::write(&config, CONFIG).expect("a file");
        chown(&config, Some(ANN), Some(ANN)).expect("root may");
        Some(machine)
    }

    fn program(&self) -> PathBuf {
        self.root.path().join("drawloom")
    }

    fn home(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// Runs a command as a user in Ann's folder.
    fn run(&self, user: u32, words: &[&str]) -> Ran {
        let home = self.home(if user == ANN { "ann" } else { "bob" });
        let output = Command::new("setpriv")
            .args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"])
            .arg(self.program())
            .args(words)
            .current_dir(self.project())
            .env_clear()
            .env("HOME", home)
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .output()
            .expect("setpriv is part of util-linux");
        Ran::of(output, self.root.path())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        ["ann", "bob"].iter().for_each(|name| end_servers(&self.home(name)));
    }
}

#[test]
fn another_users_config_data_and_server_are_out_of_reach() {
    let Some(machine) = Machine::new() else { return };
    machine.run(ANN, &["trust", "--yes"]).exits(0);
    let run = machine.run(ANN, &["run", "echo", "a secret of Ann's", "--json"]).exits(0).json();
    let status = machine.run(ANN, &["status", "--json"]).exits(0).json();
    let url = status["server"]["url"].as_str().expect("a server");
    let data =
        status["data_dir"].as_str().expect("a directory").replace("<home>", &machine.root.path().to_string_lossy());

    // The config is Ann's: Bob's command does not use it, and starts nothing.
    let refused = machine.run(BOB, &["run", "echo", "hello"]).exits(2);
    assert!(refused.stderr.contains(&format!("belongs to user {ANN}")), "{refused:?}");
    assert_eq!(machine.run(BOB, &["status", "--json"]).exits(0).json()["server"], Value::Null);

    // The server wants Ann's token, and Bob cannot read it.
    let called = machine.run(BOB, &["runs", "list", "--url", url]).exits(2);
    assert!(called.stderr.contains("a token is required"), "{called:?}");
    let read = machine.run(BOB, &["runs", "list", "--data-dir", &data]);
    assert!(read.code != 0 && !read.stdout.contains("secret"), "{read:?}");

    // On purpose Bob may use the config; the runs are then his, on a server of his.
    let config = machine.project().join("drawloom.yaml");
    let config = config.to_str().expect("a name");
    machine.run(BOB, &["run", "echo", "a secret of Bob's", "--config", config]).exits(0);
    let theirs = machine.run(BOB, &["status", "--json", "--config", config]).exits(0).json();
    assert_ne!(theirs["server"]["pid"], status["server"]["pid"]);
    let list = machine.run(BOB, &["runs", "list", "--json", "--config", config]).exits(0);
    assert!(!list.stdout.contains(run["run_id"].as_str().expect("a run")), "{list:?}");
    let list = machine.run(ANN, &["runs", "list", "--json"]).exits(0).json();
    assert_eq!(list["runs"].as_array().map(Vec::len), Some(1));
}
