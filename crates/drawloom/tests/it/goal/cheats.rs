//! Workers that cheat or are broken, through a whole goal: none is accepted, none harms the repository, each is reported.

use std::fs;

use serde_json::{Value, json};

use super::{
    Project,
    kills::{number, say, server},
};

/// A goal of one worker with this work.
fn work(text: &str) -> String {
    format!("Mend it.\nPLAN: [{{\"id\":\"one\",\"description\":\"mend it\"}}]\nWORK one: {text}\n")
}

/// Runs the work, and checks that the repository is as it was.
fn harmless(project: &Project, text: &str, more: &[&str]) -> Value {
    let before = project.fingerprint();
    let all: Vec<&str> = ["--max-iterations", "1", "--retries", "0"].iter().chain(more).copied().collect();
    let result = project.result(&work(text), &all);
    assert_eq!(project.fingerprint(), before, "{text}: {result:#}");
    result
}

fn project_with_test() -> Project {
    let project = Project::new();
    fs::create_dir(project.repository().join("tests")).expect("a directory");
    fs::write(project.repository().join("tests/check.sh"), "grep -q fixed state.txt\n").expect("a file");
    fs::write(project.repository().join("state.txt"), "broken\n").expect("a file");
    project.commit("a failing test");
    project
}

const CHECK: [&str; 4] = ["--verify", "sh tests/check.sh", "--protect", "tests/**"];

#[test]
fn a_worker_that_edits_the_tests_is_not_accepted_and_one_that_mends_the_code_is() {
    let project = project_with_test();
    let cheated = harmless(&project, "echo true > tests/check.sh", &CHECK);
    assert_eq!(
        (&cheated["status"], &cheated["history"][0]["verification"][0]["ok"]),
        (&json!("stopped"), &json!(false))
    );
    let told = cheated.to_string();
    assert!(told.contains("tests/check.sh"), "the change of a protected file is told: {cheated:#}");
    let mended = harmless(&project, "echo fixed > state.txt", &CHECK);
    assert_eq!(mended["status"], "completed", "{mended:#}");
}

#[test]
fn programs_in_the_checkout_do_not_replace_those_of_the_verifier() {
    let project = project_with_test();
    let shims = "mkdir -p bin node_modules/.bin; for name in sh grep; do printf '#!/bin/sh\\nexit 0\\n' > $name; cp $name bin/$name; cp $name node_modules/.bin/$name; chmod +x $name bin/$name node_modules/.bin/$name; done";
    let result = harmless(&project, shims, &CHECK);
    assert_eq!(result["status"], "stopped", "{result:#}");
}

#[test]
fn hooks_and_config_that_a_worker_plants_are_never_used() {
    let project = Project::new();
    let marker = project.home.path().join("repository/planted");
    let plant = format!(
        "git config core.fsmonitor 'touch {0}'; git config core.hooksPath hooks; mkdir -p hooks .git/hooks; for hook in hooks/pre-commit .git/hooks/pre-commit .git/hooks/post-checkout; do printf '#!/bin/sh\\ntouch {0}\\n' > $hook; chmod +x $hook; done; echo '*.txt filter=evil' > .gitattributes; git config filter.evil.clean 'touch {0}'; echo x > new.txt; git add -A; git commit -qm planted; true",
        marker.display()
    );
    let result = harmless(&project, &plant, &["--verify", "test -f new.txt"]);
    assert_eq!(result["status"], "completed", "its files count, its git does not: {result:#}");
    assert!(!marker.exists());
    project.git(&["status"]);
    assert!(!marker.exists(), "the user's next git status runs nothing of the worker");
}

#[test]
fn secrets_large_files_links_and_repositories_are_left_out_and_listed() {
    let project = Project::new();
    let text = "echo SECRET=1 > .env; echo key > id_rsa; head -c 6000000 /dev/zero > big.bin; truncate -s 2G huge.bin; ln -s /etc/passwd link; mkdir inner && git -C inner init -q && echo x > inner/file; mkfifo pipe; echo good > good.txt";
    let result = harmless(&project, text, &["--verify", "test -f good.txt"]);
    assert_eq!(result["worktree"]["changed_files"], json!(["good.txt"]), "{result:#}");
    let run = result["run_id"].as_str().expect("an id");
    let events = project.home.run(&["goal", "tail", run, "--json"]).exits(0).stdout;
    for name in [".env", "id_rsa", "big.bin", "huge.bin", "link", "inner", "pipe"] {
        assert!(events.contains(&format!("\"path\":\"{name}")), "{name} is listed: {events}");
    }
}

#[test]
fn a_worker_that_destroys_its_checkout_or_points_it_elsewhere_is_harmless() {
    let project = Project::new();
    let repository = project.repository().display().to_string();
    for text in [
        "rm -rf .git; echo x > new.txt".to_owned(),
        format!(
            "rm -rf .git; echo 'gitdir: {repository}/.git' > .git; git add -A; git commit -qm mine; echo x > new.txt"
        ),
        format!(
            "echo {repository}/.git/objects > .git/objects/info/alternates; git update-ref refs/heads/main HEAD~0; echo x > new.txt"
        ),
        format!("cd {repository} && echo x > hacked.txt && git commit -qam hacked"),
        format!("rm -rf {repository}"),
    ] {
        let result = harmless(&project, &text, &["--verify", "true"]);
        assert_ne!(result["status"], Value::Null, "{text}");
    }
}

#[test]
fn a_worker_cannot_read_credentials_or_write_outside() {
    let project = Project::new();
    let ssh = project.home.path().join(".ssh");
    fs::create_dir(&ssh).expect("a directory");
    fs::write(ssh.join("id_ed25519"), "very secret key material").expect("a file");
    let text =
        "cat $HOME/.ssh/id_ed25519 > stolen.txt 2> error.txt; echo x > $HOME/outside.txt; ls -a $HOME > seen.txt; true";
    let result = harmless(&project, text, &["--verify", "! test -s stolen.txt"]);
    assert_eq!(result["status"], "completed", "{result:#}");
    assert!(!project.home.path().join("outside.txt").exists());
    let branch = result["worktree"]["branch"].as_str().expect("a branch");
    assert!(!project.git(&["show", &format!("{branch}:seen.txt")]).contains(".ssh"), "it is not even seen");
}

#[test]
fn a_worker_that_leaves_a_writer_behind_changes_nothing_after_its_end() {
    let project = Project::new();
    let text = "echo early > file.txt; (setsid sh -c 'trap \"\" TERM HUP; while true; do echo late > file.txt; done' > /dev/null 2>&1 &) ; true";
    let result = harmless(&project, text, &["--verify", "test -f file.txt"]);
    assert_eq!(result["status"], "completed", "{result:#}");
    let late = std::process::Command::new("pgrep").args(["-f", "echo late > file.txt"]).output().expect("pgrep starts");
    let mine = String::from_utf8_lossy(&late.stdout)
        .lines()
        .filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|path| path.starts_with(project.home.path())))
        .count();
    assert_eq!(mine, 0, "it was ended with its worker");
}

/// `./prove goal` has it print a gigabyte.
#[test]
fn a_worker_that_prints_a_gigabyte_fills_neither_the_disk_nor_the_memory() {
    let project = Project::new();
    let bytes = number("PROVE_BYTES", 200_000_000);
    let text =
        format!("yes 'a line that says nothing and is printed again and again' | head -c {bytes}; echo x > new.txt");
    let result = harmless(&project, &text, &["--verify", "test -f new.txt"]);
    assert_eq!(result["status"], "completed", "{result:#}");
    let folder =
        result["run_dir"].as_str().expect("a folder").replace("<home>", &project.home.path().display().to_string());
    let files = fs::read_dir(format!("{folder}/workers")).expect("a folder").flatten();
    let kept: u64 = files.map(|file| file.metadata().expect("a file").len()).sum();
    assert!((1_000_000..10_000_000).contains(&kept), "{kept} bytes were kept");
    let stored = fs::metadata(project.home.data().join("drawloom.db")).map_or(0, |file| file.len());
    assert!(stored < 50_000_000, "the store has {stored} bytes");
    let server = server(&project).expect("a server");
    let status = fs::read_to_string(format!("/proc/{server}/status")).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(peak < 200_000, "the server had {peak} KiB");
    say(&format!(
        "a worker that prints {bytes} bytes: {kept} bytes are kept, the server had at most {peak} KiB of memory"
    ));
}

#[test]
fn a_worker_that_prints_without_end_asks_for_a_password_or_fails_is_reported() {
    let project = Project::new();
    let result = harmless(
        &project,
        "head -c 30000000 /dev/zero | tr '\\0' x; echo x > new.txt",
        &["--verify", "test -f new.txt"],
    );
    assert_eq!(result["status"], "completed", "{result:#}");
    let folder =
        result["run_dir"].as_str().expect("a folder").replace("<home>", &project.home.path().display().to_string());
    let kept = fs::metadata(format!("{folder}/workers/i01-a1-001-one.out")).expect("the output is kept").len();
    assert!(kept < 10_000_000, "{kept} bytes were kept");
    let result = harmless(&project, "read -r password < /dev/tty && echo $password", &[]);
    assert_ne!(result["status"], "completed", "{result:#}");
    let result = harmless(&project, "echo trouble >&2; exit 7", &[]);
    assert!(result["history"][0]["results"][0]["error"].as_str().is_some_and(|text| text.contains('7')), "{result:#}");
}

#[test]
fn a_worker_that_refuses_to_die_is_ended_at_its_time_limit() {
    let project = Project::new();
    let result = harmless(&project, "trap '' TERM INT HUP; while true; do sleep 1; done", &["--timeout", "8"]);
    assert_eq!(result["history"][0]["results"][0]["ok"], false, "{result:#}");
    let told = result.to_string();
    assert!(told.contains("timed_out") || told.contains("time limit"), "{result:#}");
}
