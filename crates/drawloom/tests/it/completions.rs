//! Completion of names in real shells: agents of the config, runs and goals of the store, operations. No server is started for it.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::{support::Home, terminal::Terminal};

/// A shell with the binary in its path, in a home.
fn shell(home: &Home, program: &str, script: &str) -> Vec<String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_drawloom")).parent().expect("a folder");
    let mut command = Command::new(program);
    command.args(["-c", script]).current_dir(home.path()).env_clear().stdin(Stdio::null());
    command.env("PATH", format!("{}:/usr/bin:/bin", binary.display())).env("HOME", home.path()).env("TERM", "dumb");
    let ran = home.finish(command.env("DRAWLOOM_DATA_DIR", home.data()));
    assert_eq!(ran.code, 0, "{program} -c {script}: {ran:#?}");
    ran.stdout.lines().map(str::to_owned).collect()
}

/// What bash proposes for the last of these words.
fn bash(home: &Home, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    shell(
        home,
        "bash",
        &format!(
            "source <(drawloom completions bash); COMP_WORDS=({}); COMP_CWORD={}; \
             COMP_LINE='{}'; COMP_POINT=${{#COMP_LINE}}; $(complete -p drawloom | sed 's/.*-F \\([^ ]*\\).*/\\1/') drawloom '{}' '{}'; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            quoted.join(" "),
            words.len() - 1,
            words.join(" "),
            words[words.len() - 1],
            words[words.len() - 2],
        ),
    )
}

/// What fish proposes for a line, without descriptions.
fn fish(home: &Home, line: &str) -> Vec<String> {
    let script = format!("drawloom completions fish | source; complete -C '{line}'");
    shell(home, "fish", &script).iter().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn bash_and_fish_complete_names_without_a_server() {
    let home = Home::new();
    let run = home.run(&["run", "echo", "hi", "--embedded", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("an id");
    let cases: [(&[&str], &str); 6] = [
        (&["drawloom", "run", ""], "echo"),
        (&["drawloom", "runs", "list", "--agent", "ec"], "echo"),
        (&["drawloom", "runs", "show", "r_"], run),
        (&["drawloom", "runs", "tail", "la"], "last"),
        (&["drawloom", "call", "cancel_"], "cancel_run"),
        (&["drawloom", "--config", "drawloom.yaml", "run", "e"], "echo"),
    ];
    for (words, wanted) in cases {
        for (shell, found) in [("bash", bash(&home, words)), ("fish", fish(&home, &words.join(" ")))] {
            assert!(found.iter().any(|name| name == wanted), "{shell} {words:?}: {found:?}");
            assert!(found.iter().all(|name| !name.contains('\t')), "{shell} {words:?}: {found:?}");
        }
    }
    // Commands and options come from the script.
    for found in [bash(&home, &["drawloom", "runs", "li"]), fish(&home, "drawloom runs li")] {
        assert!(found.contains(&"list".to_owned()), "{found:?}");
    }
    assert!(bash(&home, &["drawloom", "run", "--emb"]).contains(&"--embedded".to_owned()));
    // A folder without a config and a store has no names, and no error.
    let empty = tempfile::tempdir().expect("a directory");
    let mut command = home.command(&["complete", "--", "run", ""]);
    let ran = home.finish(command.current_dir(empty.path()).env("DRAWLOOM_DATA_DIR", empty.path().join("data")));
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
    assert!(!empty.path().join("data").exists(), "it makes nothing");
    assert_eq!(home.run(&["status", "--json"]).exits(0).json()["server"], serde_json::Value::Null);
}

#[test]
fn completion_reads_no_values_of_a_folder() {
    let home = Home::new();
    let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    home.write("drawloom.yaml", &format!("env: [SECRET]\n{}", config.replace("Says it again.", "'${SECRET}'")));
    home.write(".env", "SECRET=from-the-file\n");
    let ran = home.run(&["complete", "--", "run", ""]).exits(0);
    assert!(ran.stdout.starts_with("echo\t") && !ran.stdout.contains("from-the-file"), "{ran:#?}");
}

#[test]
fn zsh_completes_names() {
    let home = Home::new();
    let terminal = Terminal::open(&home, "100");
    terminal.type_line("PS1='z> ' zsh -f");
    terminal.wait_until("a prompt of zsh", |screen| screen.ends_with("z>"));
    terminal.type_line("autoload -U compinit && compinit -u -D && source <(drawloom completions zsh) && echo loaded");
    terminal.wait_until("the script", |screen| screen.lines().any(|line| line == "loaded"));
    for (typed, wanted) in
        [("drawloom run e", "drawloom run echo"), ("drawloom call cancel_r", "drawloom call cancel_run")]
    {
        terminal.tmux(&["send-keys", "-l", typed]);
        terminal.tmux(&["send-keys", "Tab"]);
        terminal.wait_until(wanted, |screen| screen.contains(wanted));
        terminal.tmux(&["send-keys", "C-u"]);
    }
}
