//! Folders that were moved, copied and replaced: whose data a command uses, and what it says before it makes new data.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::{
    projects::{PROJECT, Person},
    terminal::Terminal,
};

/// A person who moved the project `one`, which has a run, to `moved`, and the data directory that it had.
fn moved() -> (Person, PathBuf) {
    let person = Person::new();
    person.run("one", &["run", "writer", "go"]).exits(0);
    person.run("one", &["stop"]).exits(0);
    let data = person.data("one");
    std::fs::rename(person.folder("one"), person.folder("moved")).expect("it moves");
    person.run("moved", &["trust", "--yes"]).exits(0);
    (person, data)
}

/// Commands that make data in a project that has none.
const MAKERS: [&[&str]; 6] = [
    &["run", "writer", "go"],
    &["run", "writer", "go", "--embedded"],
    &["batch", "--agent", "writer", "go"],
    &["channels", "publish", "news", "hello"],
    &["restart"],
    &["serve"],
];

#[test]
fn a_moved_folder_makes_no_new_data_until_its_user_has_chosen() {
    let (person, data) = moved();
    // Commands that only read make no store, and say where the runs are.
    assert_eq!(person.runs("moved"), 0);
    person.run("moved", &["agents", "list"]).exits(0);
    assert_eq!(person.status("moved")["has_data"], false);
    assert_eq!(person.status("moved")["left_behind"][0]["config"], json!("<home>/one/drawloom.yaml"));
    let proposal =
        format!("`drawloom adopt {}`", data.display()).replace(&*person.0.path().to_string_lossy(), "<home>");
    for arguments in [["status"].as_slice(), &["runs", "list"]] {
        let said = person.run("moved", arguments).exits(0).stderr;
        assert!(said.contains("one/drawloom.yaml, which is gone") && said.contains(&proposal), "{said}");
    }
    for arguments in MAKERS {
        let refused = person.run("moved", arguments).exits(3).stderr;
        assert!(refused.contains("was moved from <home>/one/drawloom.yaml"), "{arguments:?}: {refused}");
        assert!(refused.contains(&proposal) && refused.contains("`drawloom adopt --none`"), "{refused}");
    }
    let refused = person.run("moved", &["run", "writer", "go", "--json"]).exits(3).json();
    assert_eq!(refused["error"]["code"], "project_moved");
    let mut host = crate::mcp_proxy::Host::start(person.command(&person.folder("moved"), &["mcp"]));
    host.call(1, "spawn_run", json!({ "agent": "writer", "prompt": "go" }));
    let told = host.next().to_string();
    assert!(told.contains("drawloom adopt") && told.contains("was moved from"), "{told}");
    assert_eq!(person.status("moved")["has_data"], false);
    // Other projects are not told.
    person.make("new", "new");
    assert_eq!(person.run("new", &["status"]).exits(0).stderr, "");
    assert_eq!(person.run("new", &["run", "writer", "go", "-q"]).exits(0).stderr, "");
    person.run("new", &["stop"]).exits(0);
    assert!(person.run("moved", &["status", "--all"]).exits(0).stdout.contains("(gone)"));
}

#[test]
fn adopted_data_is_complete_and_the_place_that_it_had_is_forgotten() {
    let (person, data) = moved();
    let home = person.0.path().to_string_lossy().into_owned();
    let old = person.folder("one").join("drawloom.yaml");
    let entry = json!({ "mcpServers": { "drawloom": { "command": "drawloom", "args": ["mcp", "--config", old] } } });
    std::fs::write(person.0.path().join(".claude.json"), entry.to_string()).expect("a file");
    let directory = data.to_str().expect("text");
    let adopted = person.run("moved", &["adopt", directory]).exits(0);
    assert!(adopted.stderr.contains(".claude.json still starts the old config"), "{adopted:#?}");
    assert!(adopted.stderr.contains("`drawloom mcp install --client claude --write`"), "{adopted:#?}");
    assert!(adopted.stdout.contains("moved now has the data of"), "{adopted:#?}");
    assert!(!data.exists(), "its token and its log are gone, too");
    assert_eq!(person.runs("moved"), 1);
    person.run("moved", &["run", "writer", "go"]).exits(0);
    assert_eq!(person.runs("moved"), 2);
    assert_eq!(person.status("moved")["left_behind"], json!([]));
    let listed = person.run("moved", &["projects", "list"]).exits(0);
    assert_eq!(person.run("moved", &["projects"]).exits(0).stdout, listed.stdout);
    assert!(!listed.stdout.contains("(gone)"), "the old folder is not listed as a project after adopt: {listed:#?}");
    // Twice is refused, and so is the data of a project that is there.
    let again = person.run("moved", &["adopt", directory, "--json"]).exits(2);
    assert_eq!(again.json()["error"]["code"], "no_data");
    person.run("two", &["run", "writer", "go"]).exits(0);
    let others = person.status("moved")["data_dir"].as_str().expect("a path").replace("<home>", &home);
    let refused = person.run("two", &["adopt", &others, "--json"]).exits(2);
    assert_eq!(refused.json()["error"]["code"], "data_in_use");
}

#[test]
fn goals_of_a_moved_folder_keep_their_checkouts_and_can_be_removed() {
    let person = Person::new();
    for arguments in [&["init", "-q", "-b", "main"][..], &["add", "."], &["commit", "-qm", "first"]] {
        person.git("one", arguments);
    }
    let goal = ["goal", "run", "Write it", "--criteria", "It is there.", "--backend", "mock", "--cleanup", "never"];
    person.run("one", &[&goal[..], &["--config", "drawloom.yaml", "--cwd", "."]].concat()).exits(0);
    person.run("one", &["stop"]).exits(0);
    let checkouts = || {
        let all = std::fs::read_dir(person.0.path().join(".local/share/drawloom/checkouts")).expect("checkouts");
        all.map(|entry| entry.expect("an entry").file_name()).collect::<Vec<_>>()
    };
    let before = checkouts();
    std::fs::rename(person.folder("one"), person.folder("moved")).expect("it moves");
    person.run("moved", &["trust", "--yes"]).exits(0);
    let data = person.real(&person.status("moved")["left_behind"][0]["data_dir"]);
    person.run("moved", &["adopt", data.to_str().expect("text")]).exits(0);
    let after = checkouts();
    assert!(before.len() == 1 && after.len() == 1 && before != after, "{before:?} {after:?}");
    let listed = person.run("moved", &["goal", "list", "--json"]).exits(0).json();
    let goal = listed["runs"][0]["run_id"].as_str().expect("an id");
    let removed = person.run("moved", &["goal", "rm", goal, "--yes"]).exits(0);
    assert!(removed.stderr.contains("may be left in the repository that was <home>/one"), "{removed:#?}");
}

#[test]
fn a_moved_folder_may_begin_with_new_data_and_adopt_until_it_has_used_it() {
    let (person, data) = moved();
    let directory = data.to_str().expect("text");
    person.run("moved", &["adopt"]).exits(2);
    person.run("moved", &["adopt", "--none", directory]).exits(2);
    let begun = person.run("moved", &["adopt", "--none"]).exits(0);
    assert!(begun.stdout.starts_with("moved has data of its own in "), "{begun:#?}");
    // `adopt` replaces an empty store, even while a server uses it.
    person.restart("moved");
    person.run("moved", &["adopt", directory]).exits(0);
    assert_eq!((person.runs("moved"), data.exists()), (1, false));

    let (person, data) = moved();
    let directory = data.to_str().expect("text");
    person.run("moved", &["adopt", "--none"]).exits(0);
    person.run("moved", &["run", "writer", "go"]).exits(0);
    person.run("moved", &["run", "writer", "go"]).exits(0);
    let refused = person.run("moved", &["adopt", directory]).exits(2);
    assert!(refused.stderr.contains("cannot be merged"), "{refused:#?}");
    // The commands that it names work.
    assert_eq!(
        person.run("moved", &["runs", "list", "-q", "--data-dir", directory]).exits(0).stdout.lines().count(),
        1
    );
    let own = person.data("moved");
    let own = own.to_str().expect("text");
    for command in [&["stop"][..], &["backup", "own.db"], &["projects", "rm", own, "--yes"], &["adopt", directory]] {
        let shown = command.iter().filter(|word| **word != "--yes").copied().collect::<Vec<_>>().join(" ");
        let shown = format!("drawloom {shown}").replace(&*person.0.path().to_string_lossy(), "<home>");
        assert!(refused.stderr.contains(&shown), "{shown}: {refused:#?}");
        person.run("moved", command).exits(0);
    }
    assert_eq!(person.runs("moved"), 1);
}

#[test]
fn an_adopt_that_is_killed_at_any_change_of_a_file_can_be_run_again() {
    let (person, data) = moved();
    person.run("moved", &["adopt", data.to_str().expect("text")]).exits(0);
    let (mut place, mut kills) = ("moved".to_owned(), 0);
    for call in ["rename", "unlink"] {
        for nth in 1.. {
            let data = person.data(&place);
            let next = format!("{call}{nth}");
            std::fs::rename(person.folder(&place), person.folder(&next)).expect("it moves");
            place = next;
            person.run(&place, &["trust", "--yes"]).exits(0);
            if nth % 2 == 0 {
                person.run(&place, &["adopt", "--none"]).exits(0);
            }
            let adopt = person.command(&person.folder(&place), &["adopt", data.to_str().expect("text")]);
            let traced = killed_at(adopt, call, nth);
            person.run(&place, &["runs", "list"]).exits(0);
            if traced {
                kills += 1;
                // It had nothing more to do when it was killed at the end.
                person.run(&place, &["adopt", data.to_str().expect("text")]);
            }
            assert_eq!(person.runs(&place), 1, "killed at {call} {nth}");
            let left: Vec<_> =
                std::fs::read_dir(&data).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            assert_eq!(left, [""; 0].map(PathBuf::from), "killed at {call} {nth}");
            assert_eq!(person.status(&place)["left_behind"], json!([]), "killed at {call} {nth}");
            if !traced {
                break;
            }
        }
    }
    assert!(kills > 5, "{kills}");
    person.run(&place, &["run", "writer", "go"]).exits(0);
    assert_eq!(person.runs(&place), 2);
}

/// Runs a command that dies at the `nth` system call of this name; says whether it came so far.
fn killed_at(command: std::process::Command, call: &str, nth: u32) -> bool {
    let mut strace = std::process::Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    strace.args(["-e", &format!("inject={call}:signal=SIGKILL:when={nth}")]);
    strace.arg(command.get_program()).args(command.get_args()).env_clear();
    strace.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    strace.current_dir(command.get_current_dir().expect("a folder"));
    let done = strace.output().expect("strace is there; ./test installs it");
    !done.status.success()
}

#[test]
fn links_hide_no_move_and_lead_to_no_other_store() {
    let (person, data) = moved();
    std::os::unix::fs::symlink(person.folder("moved"), person.folder("one")).expect("a link");
    let refused = person.run("moved", &["run", "writer", "go"]).exits(3).stderr;
    assert!(refused.contains("was moved from <home>/one/drawloom.yaml"), "{refused}");
    let linked = person.folder("moved").join("data");
    std::fs::create_dir(&linked).expect("a folder");
    std::os::unix::fs::symlink(data.join("drawloom.db"), linked.join("drawloom.db")).expect("a link");
    let refused = person.run("moved", &["adopt", "data"]).exits(2).stderr;
    assert!(refused.contains("is not a regular file"), "{refused}");
    person.run("moved", &["adopt", data.to_str().expect("text")]).exits(0);
    assert_eq!(person.runs("moved"), 1);
}

#[test]
fn a_project_that_takes_the_place_of_another_is_told_whose_runs_it_has() {
    let (person, data) = moved();
    person.make("one", "one");
    let config = person.folder("one").join("drawloom.yaml");
    let text = std::fs::read_to_string(&config).expect("a config");
    std::fs::write(&config, format!("{text}# another one\n")).expect("a config");
    let told =
        format!("`drawloom projects rm {}`", data.display()).replace(&*person.0.path().to_string_lossy(), "<home>");
    for is_told in [true, false] {
        let said = person.run("one", &["run", "writer", "go"]).exits(0).stderr;
        assert_eq!(said.contains("another folder with another config was here before"), is_told, "{said}");
        assert_eq!(said.contains(&told), is_told, "{said}");
    }
    assert_eq!(person.runs("one"), 3);
}

#[test]
fn a_terminal_asks_whether_the_runs_of_a_moved_folder_come_along() {
    let (person, data) = moved();
    let terminal = Terminal::open(&person.0, "160");
    terminal.type_line("unset DRAWLOOM_DATA_DIR; cd moved");
    for (answer, said, is_there) in [("", "drawloom adopt --none", true), ("y", "I am one", false)] {
        terminal.type_line("clear; drawloom run writer go; echo \"exit $?\"");
        let asked = |screen: &str| screen.ends_with("Move them into this project? [y/N]");
        let question = terminal.wait_until("the question", asked);
        assert!(question.contains("was moved from"), "{question}");
        terminal.type_line(answer);
        let ended = terminal.wait_until("the end", |screen| screen.contains("\nexit "));
        assert!(ended.contains(said), "{ended}");
        assert_eq!(data.exists(), is_there, "{ended}");
    }
    assert_eq!(person.runs("moved"), 2);
}

#[test]
fn a_folder_that_only_resembles_one_that_is_gone_is_told_and_not_stopped() {
    let person = Person::new();
    person.run("one", &["run", "writer", "go"]).exits(0);
    person.run("one", &["stop"]).exits(0);
    let copy = |from: &Path, to: &str| {
        std::fs::create_dir_all(person.folder(to).join("files")).expect("a directory");
        std::fs::copy(from, person.folder(to).join("drawloom.yaml")).expect("a copy");
        person.run(to, &["trust", "--yes"]).exits(0);
    };
    copy(&person.folder("one/drawloom.yaml"), "moved");
    assert_eq!(person.status("moved")["left_behind"], json!([]), "the first one is still there");
    std::fs::remove_dir_all(person.folder("one")).expect("it was there");
    assert_eq!(person.status("moved")["left_behind"][0]["config"], json!("<home>/one/drawloom.yaml"));
    let ran = person.run("moved", &["run", "writer", "go"]).exits(0);
    assert!(ran.stderr.contains("this project seems to be that of <home>/one/drawloom.yaml"), "{ran:#?}");
    // Another config in a folder whose first config was removed is another project.
    person.run("two", &["run", "writer", "go"]).exits(0);
    person.run("two", &["stop"]).exits(0);
    std::fs::remove_file(person.folder("two/drawloom.yaml")).expect("it was there");
    person.0.write("two/other.yaml", &PROJECT.replace("NAME", "other"));
    person.run("two", &["run", "writer", "go", "--config", "other.yaml"]).exits(0);
    // A moved folder whose config was edited is the same, and one without data has nothing to lose.
    person.make("linking", "linking");
    std::fs::rename(person.folder("linking"), person.folder("edited")).expect("it moves");
    person.0.write("edited/drawloom.yaml", &PROJECT.replace("NAME", "edited"));
    assert_eq!(person.status("edited")["left_behind"], json!([]), "it had no data");
    person.run("edited", &["trust", "--yes"]).exits(0);
    person.run("edited", &["run", "writer", "go"]).exits(0);
    person.run("edited", &["stop"]).exits(0);
    std::fs::rename(person.folder("edited"), person.folder("linking")).expect("it moves");
    person.0.write("linking/drawloom.yaml", &PROJECT.replace("NAME", "edited again"));
    person.run("linking", &["trust", "--yes"]).exits(0);
    person.run("linking", &["run", "writer", "go"]).exits(3);
}
