//! Two projects on one machine: neither's commands, runs and servers reach the other's files.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{mcp_proxy::Host, support::Home};

/// A person with folders, and no data directory named anywhere.
pub(crate) struct Person(pub(crate) Home);

/// An agent that writes `mark.txt` into the volume of its project.
pub(crate) const PROJECT: &str = "\
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - when: { contains: slow }
          text: never said
          delay_ms: 600000
        - when: { turn: 1 }
          calls: [{ tool: Write, input: { path: mark.txt, content: NAME } }]
        - text: \"I am NAME\"
defaults: { provider: script, model: test }
agents:
  writer: { description: Writes a mark., tools: [Write], agents: [], hosts: [], volumes: [here] }
volumes:
  here: { path: files, mode: rw, default: true }
";

impl Person {
    pub(crate) fn new() -> Self {
        let home = Home::new();
        std::fs::remove_file(home.path().join("drawloom.yaml")).expect("it was there");
        let person = Self(home);
        for name in ["one", "two"] {
            person.make(name, name);
        }
        person
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn make(&self, folder: &str, name: &str) {
        std::fs::create_dir_all(self.folder(folder).join("files/deep")).expect("a directory");
        self.0.write(&format!("{folder}/drawloom.yaml"), &PROJECT.replace("NAME", name));
        self.run(folder, &["trust", "--yes"]).exits(0);
    }

    pub(crate) fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = self.0.command(arguments);
        command.env_remove("DRAWLOOM_DATA_DIR").current_dir(folder);
        command
    }

    pub(crate) fn run(&self, folder: &str, arguments: &[&str]) -> crate::support::Ran {
        self.0.finish(&mut self.command(&self.folder(folder), arguments))
    }

    /// What git prints in a folder.
    pub(crate) fn git(&self, folder: &str, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.com"]).args(arguments);
        let ran = git.current_dir(self.folder(folder)).env("HOME", self.0.path()).output().expect("git starts");
        assert!(ran.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("text")
    }

    /// How many runs a project has.
    pub(crate) fn runs(&self, folder: &str) -> usize {
        self.run(folder, &["runs", "list", "--json"]).exits(0).json()["runs"].as_array().expect("runs").len()
    }

    fn mark(&self, folder: &str) -> Option<String> {
        std::fs::read_to_string(self.folder(folder).join("files/mark.txt")).ok()
    }

    /// The data directory of a project.
    pub(crate) fn data(&self, folder: &str) -> PathBuf {
        self.real(&self.status(folder)["data_dir"])
    }

    /// A path that a command printed.
    pub(crate) fn real(&self, printed: &Value) -> PathBuf {
        printed.as_str().expect("a path").replace("<home>", &self.0.path().to_string_lossy()).into()
    }

    pub(crate) fn status(&self, folder: &str) -> Value {
        self.run(folder, &["status", "--json"]).exits(0).json()
    }

    /// Starts the server of a project in the background; it ends with the project's folder, or when it is stopped.
    pub(crate) fn restart(&self, folder: &str) -> Value {
        self.run(folder, &["restart", "--json"]).exits(0).json()
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        for folder in ["one", "two", "moved", "linking"] {
            if self.folder(folder).exists() {
                let mut stop = self.command(&self.folder(folder), &["stop"]);
                drop(stop.stdout(Stdio::null()).stderr(Stdio::null()).status());
            }
        }
    }
}

#[test]
fn a_command_works_in_the_project_of_its_folder_whatever_servers_run() {
    let person = Person::new();
    person.restart("one");
    // In the folder, below it, and with a config that is named, relative and absolute.
    let deep = person.folder("two").join("files/deep");
    let absolute = person.folder("two").join("drawloom.yaml");
    let ways: [(&Path, Vec<&str>); 4] = [
        (&person.folder("two"), vec!["run", "writer", "go"]),
        (&deep, vec!["run", "writer", "go"]),
        (&person.folder("one"), vec!["run", "writer", "go", "--config", "../two/drawloom.yaml"]),
        (&person.folder("one"), vec!["run", "writer", "go", "--config", absolute.to_str().expect("text")]),
    ];
    for (count, (folder, arguments)) in (1..).zip(&ways) {
        drop(std::fs::remove_file(person.folder("two").join("files/mark.txt")));
        let ran = person.0.finish(&mut person.command(folder, arguments)).exits(0);
        assert!(ran.stdout.contains("I am two"), "{ran:#?}");
        assert_eq!(person.mark("two").as_deref(), Some("two"), "{folder:?} {arguments:?}");
        assert_eq!((person.runs("one"), person.runs("two")), (0, count), "{folder:?} {arguments:?}");
    }
    assert_eq!(person.mark("one"), None);
}

#[test]
fn a_host_works_in_the_project_of_its_folder_or_of_its_config() {
    let person = Person::new();
    person.restart("one");
    let config = person.folder("two").join("drawloom.yaml");
    let ways: [(&Path, Vec<&str>); 3] = [
        (&person.folder("two"), vec!["mcp"]),
        (&person.folder("two").join("files/deep"), vec!["mcp"]),
        (&person.folder("one"), vec!["mcp", "--config", config.to_str().expect("text")]),
    ];
    for (count, (folder, arguments)) in (1..).zip(&ways) {
        drop(std::fs::remove_file(person.folder("two").join("files/mark.txt")));
        let mut host = Host::start(person.command(folder, arguments));
        host.call(1, "spawn_run", json!({ "agent": "writer", "prompt": "go" }));
        assert_eq!(host.next()["result"]["structuredContent"]["final_text"], "I am two", "{folder:?} {arguments:?}");
        assert_eq!(person.mark("two").as_deref(), Some("two"));
        assert_eq!((person.runs("one"), person.runs("two")), (0, count), "{folder:?} {arguments:?}");
    }
    assert_eq!(person.mark("one"), None);
    // Without a server of its own running before, the host starts its own project's.
    assert_ne!(person.status("one")["server"]["pid"], person.status("two")["server"]["pid"]);
    let all = person.run("one", &["status", "--all", "--json"]).exits(0).json();
    let names: Vec<&Value> =
        all["projects"].as_array().expect("a list").iter().map(|known| &known["project"]).collect();
    assert_eq!(names, ["one", "two"], "{all}");
    let table = person.run("one", &["status", "--all"]).exits(0).stdout;
    assert!(table.starts_with("project  config ") && table.contains("\none      "), "{table}");
}

#[test]
fn a_config_that_is_a_link_is_a_project_of_its_own() {
    let person = Person::new();
    std::fs::create_dir_all(person.folder("linking/files")).expect("a directory");
    std::os::unix::fs::symlink("../one/drawloom.yaml", person.folder("linking/drawloom.yaml")).expect("a link");
    person.restart("one");
    // Paths in it mean the folder of the link, so it is trusted, served and stored apart.
    person.run("linking", &["run", "writer", "go"]).exits(3);
    person.run("linking", &["trust", "--yes"]).exits(0);
    person.run("linking", &["run", "writer", "go"]).exits(0);
    assert_eq!((person.mark("one"), person.mark("linking").as_deref()), (None, Some("one")));
    assert_eq!((person.runs("one"), person.runs("linking")), (0, 1));
}

#[test]
fn data_that_was_named_belongs_to_one_project() {
    let person = Person::new();
    let shared = person.folder("shared");
    let at = |folder: &str, arguments: &[&str]| {
        let mut command = person.command(&person.folder(folder), arguments);
        person.0.finish(command.env("DRAWLOOM_DATA_DIR", &shared))
    };
    at("one", &["run", "writer", "slow", "--detach"]).exits(0);
    let pid = at("one", &["status", "--json"]).exits(0).json()["server"]["pid"].clone();
    // Another project neither uses the server nor ends it.
    for arguments in [&["run", "writer", "go"][..], &["restart"], &["serve"], &["run", "writer", "go", "--embedded"]] {
        let refused = at("two", arguments).exits(2);
        assert!(refused.stderr.contains("one/drawloom.yaml") || arguments.contains(&"--embedded"), "{refused:#?}");
    }
    assert_eq!(at("one", &["status", "--json"]).exits(0).json()["server"]["pid"], pid);
    // Without a server it does not resume the other project's runs.
    at("one", &["stop"]).exits(0);
    for arguments in [&["run", "writer", "go"][..], &["restart"], &["serve"], &["run", "writer", "go", "--embedded"]] {
        let refused = at("two", arguments).exits(2);
        assert!(refused.stderr.contains("belongs to") && refused.stderr.contains("two/drawloom.yaml"), "{refused:#?}");
    }
    assert_eq!(person.mark("two"), None);
    at("one", &["run", "writer", "go"]).exits(0);
    at("one", &["stop"]).exits(0);
}

#[test]
fn a_server_without_the_overlays_that_a_command_names_is_not_used() {
    let person = Person::new();
    person.0.write("one/over.yaml", "agents: { extra: { tools: [], agents: [], hosts: [], volumes: [] } }\n");
    let with_overlay = ["--config", "drawloom.yaml", "--config", "over.yaml", "run", "extra", "go"];
    person.run("one", &["run", "writer", "go"]).exits(0);
    let refused = person.run("one", &with_overlay).exits(2);
    assert!(refused.stderr.contains("over.yaml") && refused.stderr.contains("drawloom restart"), "{refused:#?}");
    person.run("one", &["--config", "drawloom.yaml", "--config", "over.yaml", "restart"]).exits(0);
    person.run("one", &with_overlay).exits(0);
    person.run("one", &["run", "writer", "go"]).exits(0);
}

#[test]
fn a_linked_folder_is_the_same_project() {
    let person = Person::new();
    std::os::unix::fs::symlink(person.folder("one"), person.folder("link")).expect("a link");
    person.run("one", &["run", "writer", "go"]).exits(0);
    assert_eq!(person.runs("link"), 1);
    assert_eq!(person.status("link")["data_dir"], person.status("one")["data_dir"]);
}

#[test]
fn an_interrupted_run_is_taken_up_by_its_own_project_only() {
    let person = Person::new();
    let mut slow = person.command(&person.folder("one"), &["run", "writer", "slow"]);
    let mut slow = slow.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    // It is accepted when the command says its name.
    let mut said = String::new();
    BufReader::new(slow.stderr.take().expect("a pipe")).read_line(&mut said).expect("a line");
    assert!(said.contains("run r_"), "{said}");
    slow.kill().expect("it runs");
    slow.wait().expect("it ended");
    let server = person.restart("two");
    assert!(server["server"]["pid"].is_number(), "{server}");
    assert_eq!((person.runs("two"), person.runs("one")), (0, 1));
    let list = person.run("one", &["runs", "list", "--json"]).exits(0).json();
    assert_ne!(list["runs"][0]["status"], "completed");
    person.restart("one");
    let list = person.run("one", &["runs", "list", "--json"]).exits(0).json();
    assert_eq!(list["runs"][0]["status"], "running", "{list}");
}

#[test]
fn data_of_versions_with_one_place_for_all_is_named_and_adopted() {
    let person = Person::new();
    let old = person.0.path().join(".local/share/drawloom");
    let mut before = person.command(&person.folder("one"), &["run", "writer", "go"]);
    person.0.finish(before.env("DRAWLOOM_DATA_DIR", &old)).exits(0);
    assert_eq!(person.runs("one"), 0);
    assert_eq!(person.run("two", &["status"]).exits(0).stderr, "");
    let said = person.run("two", &["status", "--all"]).exits(0);
    assert!(said.stderr.contains("data of an earlier version is in"), "{said:#?}");
    person.run("one", &["adopt", old.to_str().expect("text")]).exits(0);
    assert_eq!(person.runs("one"), 1);
    assert!(!old.join("drawloom.db").exists());
    let after = person.run("two", &["status", "--all"]).exits(0);
    assert!(!after.stderr.contains("earlier version"), "{after:#?}");
}

#[test]
fn a_server_in_the_background_is_found_stopped_and_logged() {
    let person = Person::new();
    let none = person.run("one", &["stop"]).exits(0);
    assert!(none.stdout.contains("one has no running server"), "{none:#?}");
    assert_eq!(person.run("one", &["logs"]).exits(2).stdout, "");
    let first = person.restart("one")["server"]["pid"].clone();
    assert_eq!(person.status("one")["server"]["pid"], first);
    let second = person.restart("one");
    assert_eq!(second["stopped"]["pid"], first, "the one before was stopped");
    assert_ne!(second["server"]["pid"], first);
    let logs = person.run("one", &["logs", "-n", "5"]).exits(0);
    assert!(logs.stdout.contains("serving"), "{logs:#?}");
    let all = person.run("two", &["status", "--all", "--json"]).exits(0).json();
    assert_eq!(all["projects"][0]["server"]["pid"], second["server"]["pid"], "{all}");
    let stopped = person.run("one", &["stop", "--json"]).exits(0).json();
    assert_eq!(stopped["stopped"]["pid"], second["server"]["pid"]);
    assert_eq!(person.status("one")["server"], Value::Null);
}

#[test]
fn a_taken_port_names_the_project_that_has_it() {
    let person = Person::new();
    let url = person.restart("one")["server"]["url"].as_str().expect("a URL").to_owned();
    let address = url.trim_start_matches("http://");
    let refused = person.run("two", &["serve", "--listen", address]).exits(2);
    assert!(refused.stderr.contains("one/drawloom.yaml (process "), "{refused:#?}");
}

#[test]
fn without_a_config_there_is_no_project() {
    let person = Person::new();
    let nowhere = person.folder("nowhere");
    std::fs::create_dir(&nowhere).expect("a directory");
    for arguments in [vec!["runs", "list"], vec!["status"], vec!["run", "writer", "go"], vec!["stop"]] {
        let refused = person.0.finish(&mut person.command(&nowhere, &arguments)).exits(2);
        assert!(refused.stderr.contains("no drawloom.yaml found in this directory or its parents"), "{refused:#?}");
    }
}

#[test]
fn a_project_is_deleted_with_its_data_and_refs_after_a_question() {
    let person = Person::new();
    let git = |arguments: &[&str]| person.git("one", arguments);
    for arguments in [&["init", "-q", "-b", "main"][..], &["add", "."], &["commit", "-qm", "first"]] {
        git(arguments);
    }
    let goal = ["goal", "run", "Write it", "--criteria", "It is there.", "--backend", "mock", "--cleanup", "never"];
    person.run("one", &[&goal[..], &["--config", "drawloom.yaml", "--cwd", "."]].concat()).exits(0);
    person.run("two", &["run", "writer", "go"]).exits(0);
    assert!(git(&["for-each-ref"]).contains("refs/drawloom/"));
    let home = person.0.path().to_string_lossy().into_owned();
    let data = PathBuf::from(person.status("one")["data_dir"].as_str().expect("a path").replace("<home>", &home));
    let checkouts = std::fs::read_dir(person.0.path().join(".local/share/drawloom/checkouts")).expect("checkouts");
    assert_eq!(checkouts.count(), 1);
    let runs = person.run("two", &["projects", "rm", "one", "--yes", "--json"]).exits(2).json();
    assert_eq!(runs["error"]["code"], "data_in_use", "its server runs: {runs}");
    person.run("one", &["stop"]).exits(0);
    let unasked = person.run("two", &["projects", "rm", "one"]).exits(3);
    assert!(unasked.stderr.contains("checkouts and refs of 1 goal") && data.exists(), "{unasked:#?}");
    let unknown = person.run("two", &["projects", "rm", "onne"]).exits(2);
    assert!(unknown.stderr.contains("did you mean one?"), "{unknown:#?}");
    let removed = person.run("two", &["projects", "rm", "one", "--yes", "--json"]).exits(0).json();
    assert!(removed["refs"].as_u64() > Some(0) && removed["problems"] == json!([]), "{removed}");
    assert!(!git(&["for-each-ref"]).contains("refs/drawloom/"), "{removed}");
    let left = std::fs::read_dir(person.0.path().join(".local/share/drawloom/checkouts")).expect("checkouts");
    assert_eq!((data.exists(), left.count()), (false, 0));
    let listed = person.run("two", &["projects", "list", "--json"]).exits(0).json();
    assert_eq!(
        (listed["projects"].as_array().map(Vec::len), &listed["projects"][0]["project"]),
        (Some(1), &json!("two"))
    );
    assert!(person.folder("one/drawloom.yaml").exists(), "files of the user are not touched");
}
