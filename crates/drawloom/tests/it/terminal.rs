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
            "env -i PATH={folder}:/usr/bin:/bin HOME={home} DRAWLOOM_DATA_DIR={data} TZ=UTC LC_ALL=C.UTF-8 TERM=screen-256color PS1='$ ' sh",
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
    pub(crate) fn command(&self, line: &str) -> String {
        // A screen that is clear already says nothing of whether `clear` is done.
        self.type_line("echo something");
        self.wait_until("something", |screen| screen.contains("\nsomething"));
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

/// A team of which one child fails. The children wait until the test has seen them, for a file that it writes.
const TEAM: &str = "\
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - when: { agent: lead, turn: 1 }
          text: I ask three colleagues.
          calls: [{ tool: Agent, input: { op: parallel_spawn, spawns: [{ name: reader, prompt: read one }, { name: checker, prompt: boom }, { name: writer, prompt: write it }] } }]
        - when: { agent: lead }
          text: Two of three are back.
        - when: { contains: boom }
          fail: { kind: refused, message: it went boom over a text that is too long for one line of a terminal }
        - when: { turn: 1 }
          calls: [{ tool: Bash, input: { command: 'until test -e go; do sleep 0.05; done', timeout_seconds: 300 } }]
        - text: \"did {{prompt}}\"
defaults: { provider: script, model: test }
pricing: { models: { script/test: { input: 3, output: 15 } } }
tools: { bash: { enabled: true } }
agents:
  lead: { description: Hands work out., tools: [Agent], agents: [reader, checker, writer], volumes: [] }
  reader: { description: Reads., tools: [Bash], agents: [] }
  checker: { description: Checks., tools: [], agents: [] }
  writer: { description: Writes., tools: [Bash], agents: [] }
volumes:
  notes: { path: notes, mode: rw, default: true }
";

/// What differs from run to run on the board and in the summary of a run.
fn calm(screen: &str) -> String {
    let mut text = normal(screen);
    // What a command says of itself has its duration, so that even tokens differ.
    for (pattern, with) in [
        ("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠋"),
        (r" +\d+ s$", " N s"),
        (r"N ms|N\.N s", "N s"),
        (r"\d+ B\b", "N B"),
        (r"children: \d+ tokens, \$[0-9.]+", "children: N tokens, $$N"),
    ] {
        let pattern = regex::Regex::new(&format!("(?m){pattern}")).expect("a pattern");
        text = pattern.replace_all(&text, with).into_owned();
    }
    text
}

#[test]
fn a_team_at_work_is_seen_on_a_terminal_of_80_and_of_140_columns() {
    let mut shown = String::new();
    for columns in ["80", "140"] {
        let home = Home::new();
        home.write("drawloom.yaml", TEAM);
        home.run(&["trust", "--yes"]).exits(0);
        let terminal = Terminal::open(&home, columns);
        terminal.type_line("clear; drawloom run lead 'Have it done.'; echo \"exit $?\"");
        let at_work = |screen: &str| screen.contains("✗ checker failed") && screen.matches("Bash until").count() == 2;
        let screen = terminal.wait_until("a team at work", at_work);
        shown.push_str(&format!("── {columns} columns, at work\n{}\n\n", calm(&screen)));
        let coloured = terminal.tmux(&["capture-pane", "-p", "-e"]);
        let failure = coloured.lines().find(|line| line.contains("✗ checker failed")).expect("a failure");
        assert!(failure.contains("\u{1b}[31m"), "a failure is red: {failure:?}");
        home.write("notes/go", "");
        let screen = terminal.wait_until("an end", |screen| screen.contains("\nexit 0"));
        assert_eq!(screen.matches("waiting for").count(), 0, "the board is gone: {screen}");
        shown.push_str(&format!("── {columns} columns, ended\n{}\n\n", calm(&screen)));
    }
    insta::assert_snapshot!("team", shown);
}

#[test]
fn a_board_follows_the_size_of_its_terminal() {
    let home = Home::new();
    home.write("drawloom.yaml", TEAM);
    home.run(&["trust", "--yes"]).exits(0);
    let terminal = Terminal::open(&home, "80");
    terminal.type_line("clear; NO_COLOR=1 drawloom run lead 'Have it done.'; echo \"exit $?\"");
    for columns in [80, 50, 120] {
        terminal.tmux(&["resize-window", "-x", &columns.to_string()]);
        // Each run has one line, which ends one column before the terminal does.
        terminal.wait_until("a board of that size", |screen| {
            let lines: Vec<usize> =
                screen.lines().filter(|line| line.contains("Bash until")).map(|line| line.chars().count()).collect();
            lines == [columns - 1; 2] && screen.matches("waiting for 2 runs").count() <= 1
        });
    }
    let coloured = terminal.tmux(&["capture-pane", "-p", "-e"]);
    assert!(!coloured.contains('\u{1b}'), "NO_COLOR: {coloured:?}");
    home.write("notes/go", "");
    let screen = terminal.wait_until("an end", |screen| screen.contains("\nexit 0"));
    assert!(!screen.contains("Bash until") && screen.contains("Two of three are back."), "{screen}");
}

#[test]
fn a_team_beside_a_pipe_is_told_in_plain_lines() {
    let home = Home::new();
    home.write("drawloom.yaml", TEAM);
    home.write("notes/go", "");
    home.run(&["trust", "--yes"]).exits(0);
    let ran = home.run(&["run", "lead", "Have it done."]).exits(0);
    assert_eq!(ran.stdout, "Two of three are back.\n");
    assert!(!ran.stderr.contains(['\u{1b}', '\r']), "{ran:?}");
    let count = |text: &str| ran.stderr.lines().filter(|line| line.contains(text)).count();
    assert_eq!(
        (count("▶ "), count(" started as r_"), count("✓ reader completed"), count("✓ writer completed")),
        (3, 3, 1, 1)
    );
    assert_eq!(count("✗ checker failed: the model refused: it went boom"), 2, "when it fails, and at the end: {ran:?}");
    assert!(ran.stderr.contains("\n! completed, but 1 of 3 child runs failed  "), "{ran:?}");
    assert!(ran.stderr.contains(" · total incl. 3 children: "), "{ran:?}");
    let json = home.run(&["run", "lead", "Have it done.", "--json"]).exits(0).json();
    assert_eq!((&json["tree"]["children"], &json["tree"]["failed_children"]), (&3.into(), &1.into()));
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
    assert!(screen.replace('\n', "").contains("notes (volumes.notes.path)"), "{screen}");
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
