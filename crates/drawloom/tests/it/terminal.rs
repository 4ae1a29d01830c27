//! A terminal session, driven in tmux: what somebody sees who sits in front of it.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{looks::normal, support::Home};

/// Longer than anything here takes; only a hang meets it.
const DEADLINE: Duration = Duration::from_secs(60);

/// A tmux server of its own, with one window.
pub(crate) struct Terminal {
    socket: String,
}

impl Terminal {
    pub(crate) fn open(home: &Home, columns: &str) -> Self {
        let socket = home.path().join("tmux").to_str().expect("a name").to_owned();
        let terminal = Self { socket };
        let binary = env!("CARGO_BIN_EXE_drawloom");
        let folder = std::path::Path::new(binary).parent().expect("a folder").display().to_string();
        let shell = format!(
            "env -i PATH={folder}:/usr/bin:/bin HOME={home} DRAWLOOM_DATA_DIR={data} LC_ALL=C.UTF-8 TERM=screen-256color PS1='$ ' sh",
            home = home.path().display(),
            data = home.data().display()
        );
        let folder = home.path().to_str().expect("a name");
        terminal.tmux(&["-f", "/dev/null", "-u", "new-session", "-d", "-x", columns, "-y", "30", "-c", folder, &shell]);
        terminal.tmux(&["set-option", "-g", "status", "off"]);
        terminal.wait_until("a prompt", |screen| screen.starts_with('$'));
        terminal
    }

    pub(crate) fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-S", &self.socket])
            .args(arguments)
            .stdin(Stdio::null())
            .env_remove("TMUX")
            .output()
            .expect("tmux is there; ./test installs it");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Types a line.
    pub(crate) fn type_line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
    }

    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
            .lines()
            .map(str::trim_end)
            .collect::<Vec<_>>()
            .join("\n")
            .trim_end()
            .to_owned()
    }

    /// The screen once it is as `wanted` says.
    pub(crate) fn wait_until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            assert!(began.elapsed() < DEADLINE, "{what} did not come:\n{screen}");
            std::thread::yield_now();
        }
    }

    /// Types a command on a clear screen and returns what it left there, when it has ended.
    fn command(&self, line: &str) -> String {
        self.type_line("clear");
        self.wait_until("a clear screen", |screen| screen == "$");
        self.type_line(&format!("{line}; echo \"exit $?\""));
        let ended = |screen: &str| screen.lines().rev().nth(1).is_some_and(|line| line.starts_with("exit "));
        let screen = self.wait_until(line, |screen| ended(screen) && screen.ends_with('$'));
        // How wide a time is depends on the machine.
        regex::Regex::new(" {2,}").expect("a pattern").replace_all(&normal(&screen), "  ").into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn somebody_at_a_terminal_sees_runs_at_work() {
    let home = Home::new();
    let terminal = Terminal::open(&home, "100");
    let session = [
        "drawloom run echo 'read it'",
        "drawloom run echo 'Hello there'",
        "drawloom runs list --limit 3",
        "drawloom batch --agent echo one two 'read it'",
        "drawloom agents list",
    ]
    .map(|line| terminal.command(line));
    insta::assert_snapshot!("terminal", session.join("\n\n────────\n\n"));
    let coloured = terminal.tmux(&["capture-pane", "-p", "-e"]);
    assert!(coloured.contains('\u{1b}'), "a terminal has colours: {coloured:?}");
}

#[test]
fn ctrl_c_cancels_the_run_and_says_so() {
    let home = Home::new();
    let terminal = Terminal::open(&home, "100");
    terminal.type_line("drawloom run echo 'so slow'; echo \"exit $?\"");
    terminal.wait_until("a run at work", |screen| screen.contains("asking the model"));
    terminal.tmux(&["send-keys", "C-c"]);
    let screen = terminal.wait_until("an end", |screen| screen.contains("exit 1"));
    assert!(screen.contains("cancelling") && screen.contains("✗ cancelled"), "{screen}");
    let runs = home.run(&["runs", "list", "--json"]).exits(0).json();
    assert_eq!(runs["runs"][0]["status"], "cancelled");
}

#[test]
fn init_asks_at_a_terminal_before_it_replaces_something() {
    let home = Home::new();
    let terminal = Terminal::open(&home, "100");
    terminal.type_line("drawloom init; echo \"exit $?\"");
    terminal.wait_until("a question", |screen| screen.contains("drawloom.yaml exists. Replace it? [y/N]"));
    terminal.type_line("y");
    let screen = terminal.wait_until("an end", |screen| screen.contains("exit 0"));
    assert!(screen.contains("✓ wrote drawloom.yaml"), "{screen}");
}

#[test]
fn somebody_at_a_terminal_is_asked_once_whether_a_config_is_trusted() {
    let home = Home::new();
    let config = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    home.write("drawloom.yaml", &config.replace("mode: ro", "mode: rw"));
    let terminal = Terminal::open(&home, "120");
    terminal.type_line("drawloom run echo hello; echo \"exit $?\"");
    let screen = terminal.wait_until("a question", |screen| screen.contains("Trust it? [y/N]"));
    assert!(screen.contains("drawloom.yaml is not trusted yet. It:"), "{screen}");
    assert!(screen.replace('\n', "").contains("notes (volumes.notes)"), "{screen}");
    terminal.type_line("n");
    let screen = terminal.wait_until("an end", |screen| screen.contains("exit 3"));
    assert!(screen.contains("nothing of it was started"), "{screen}");
    // A question is ended by Ctrl-C, as any other command is.
    for (word, command) in [("one", "run echo hello"), ("two", "batch --agent echo hello")] {
        terminal.type_line(&format!("clear; echo {word}; drawloom {command}; echo \"exit $?\""));
        let is_asked = |screen: &str| screen.starts_with(word) && screen.contains("Trust it? [y/N]");
        terminal.wait_until("a question", is_asked);
        terminal.tmux(&["send-keys", "C-c"]);
        terminal.wait_until("an end", |screen| screen.contains("exit 130") || screen.ends_with('$'));
    }
    terminal.type_line("clear; echo three; drawloom run echo hello; echo \"exit $?\"");
    terminal.wait_until("a question", |screen| screen.starts_with("three") && screen.contains("Trust it? [y/N]"));
    terminal.type_line("y");
    terminal.wait_until("an end", |screen| screen.contains("exit 0"));
    let screen = terminal.command("drawloom run echo hello");
    assert!(screen.contains("exit 0") && !screen.contains("Trust it?"), "{screen}");
}

#[test]
fn a_batch_has_a_line_for_each_run_that_fits_the_terminal() {
    let mut shown = String::new();
    for columns in ["40", "80", "120"] {
        let home = Home::new();
        let terminal = Terminal::open(&home, columns);
        terminal.type_line("drawloom batch --agent echo 'slow, and long enough to be cut off somewhere' 'slow 織機'");
        let screen = terminal.wait_until("two runs at work", |screen| screen.matches("running").count() == 2);
        let lines: Vec<&str> = screen.lines().filter(|line| line.contains("running")).collect();
        for line in &lines {
            let spinner = line.chars().next().expect("a spinner");
            shown.push_str(&line.replacen(spinner, "⠋", 1));
            shown.push('\n');
        }
        shown.push_str(&format!("── {columns} columns\n"));
        terminal.tmux(&["send-keys", "C-c"]);
        terminal.wait_until("a table", |screen| screen.contains("0 of 2 completed"));
    }
    insta::assert_snapshot!("batch_progress", shown);
}
