//! Ctrl-C once and twice, pressed in a real terminal. The journal must say what the screen said, and nothing that was
//! cancelled may happen later: each case ends with a server whose model is quick, and counts the files that were written.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStderr, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    support::{Home, Server},
    terminal::Terminal,
};

/// How long the model of a config takes for what it streams, and a command for its work.
#[derive(Clone, Copy)]
enum Pace {
    /// Longer than any test.
    Never,
    AtOnce,
}

fn config(pace: Pace) -> String {
    let (millis, work) = match pace {
        Pace::Never => (600_000, "touch started; sleep 600"),
        Pace::AtOnce => (0, "true"),
    };
    format!(
        r#"
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - when: {{ agent: lead, turn: 1 }}
          calls:
            - tool: Agent
              input:
                op: parallel_spawn
                spawns: [{{ name: worker, prompt: "stream a" }}, {{ name: worker, prompt: "stream b" }}]
        - when: {{ agent: lead }}
          text: both are done
        - when: {{ turn: 1, matches: "stream (\\S+)" }}
          text: "words and more"
          chunks: 2
          chunk_delay_ms: {millis}
          calls: [{{ tool: Write, input: {{ path: "effect-{{{{1}}}}", content: "x" }} }}]
        - when: {{ turn: 1, matches: "write (\\S+)" }}
          calls: [{{ tool: Write, input: {{ path: "effect-{{{{1}}}}", content: "x" }} }}]
        - when: {{ turn: 1, contains: command }}
          calls: [{{ tool: Bash, input: {{ command: "{work}", timeout_seconds: 300 }} }}]
        - when: {{ turn: 2, matches: "command (\\S+)" }}
          calls: [{{ tool: Write, input: {{ path: "effect-{{{{1}}}}", content: "x" }} }}]
        - text: all is done
defaults: {{ provider: script, model: test }}
tools: {{ bash: {{ enabled: true }} }}
agents:
  lead: {{ tools: [Agent], agents: [worker], volumes: [] }}
  worker: {{ tools: [Bash, Write], agents: [] }}
volumes:
  notes: {{ path: notes, mode: rw, default: true }}
"#
    )
}

/// What a case waits for before Ctrl-C is pressed.
enum Moment {
    /// The command has the terminal.
    AtOnce,
    /// The screen shows this.
    Shows(&'static str),
    /// A command of the agent runs.
    CommandRuns,
    /// The command has ended.
    Ended,
    /// The server does not answer: it was frozen before the command was typed.
    Unanswered,
    /// The screen shows this, then the server is frozen: it cannot answer the cancel.
    Frozen(&'static str),
    /// The screen shows this, then Ctrl-C is pressed while every sync takes long: the command cannot journal the cancel.
    SlowDisk(&'static str),
}

#[derive(Clone, Copy, PartialEq)]
enum Press {
    Once,
    /// Both keys in one write.
    Twice,
}

const BOTH: [Press; 2] = [Press::Once, Press::Twice];

fn home() -> Home {
    let home = Home::new();
    home.write("drawloom.yaml", &config(Pace::Never));
    home.run(&["trust", "--yes"]).exits(0);
    home
}

fn signal(server: &Server, signal: Signal) {
    kill_process(Pid::from_child(&server.child), signal).expect("it runs");
}

/// Types the command, presses Ctrl-C at the moment, and returns the screen when the command has ended.
fn interrupt(home: &Home, server: Option<&Server>, command: &str, moment: &Moment, press: Press) -> String {
    let terminal = Terminal::open(home, "160");
    let frozen = server.filter(|_| matches!(moment, Moment::Unanswered));
    if let Some(server) = frozen {
        signal(server, Signal::STOP);
    }
    // A process that is killed by Ctrl-C ends the whole line for the shell.
    let has_ended = |screen: &str| screen.ends_with("\n$");
    terminal.type_line(&format!("{command}; echo \"exit $?\""));
    match moment {
        Moment::AtOnce | Moment::Unanswered => {
            // In the foreground: before that, the key is the shell's.
            let has_terminal = || terminal.tmux(&["display-message", "-p", "#{pane_current_command}"]);
            terminal.wait_until("the command", |screen| has_terminal().trim() == "drawloom" || has_ended(screen));
        }
        Moment::Shows(text) | Moment::Frozen(text) | Moment::SlowDisk(text) => {
            // The first words are shown only if they came after the command had begun to follow the run.
            terminal.wait_until("the moment", |screen| {
                screen.contains(text) || (*text == ASKING && screen.contains("words"))
            });
        }
        Moment::CommandRuns => {
            let started = home.path().join("notes/started");
            terminal.wait_until("the command", |_| started.exists());
        }
        Moment::Ended => {
            terminal.wait_until("an end", has_ended);
        }
    }
    let slow = matches!(moment, Moment::SlowDisk(_)).then(|| slow_down(&terminal));
    if slow.is_some() {
        terminal.tmux(&["send-keys", "C-c"]);
        terminal.wait_until("a cancel", |screen| screen.contains("cancelling"));
    }
    let frozen = frozen.or_else(|| server.filter(|_| matches!(moment, Moment::Frozen(_))));
    match frozen {
        None if press == Press::Twice => drop(terminal.tmux(&["send-keys", "C-c", "C-c"])),
        None => drop(terminal.tmux(&["send-keys", "C-c"])),
        Some(server) => {
            if matches!(moment, Moment::Frozen(_)) {
                signal(server, Signal::STOP);
            }
            let pressed = || terminal.tmux(&["send-keys", "C-c"]);
            if matches!(moment, Moment::Unanswered) {
                terminal.wait_until("a request", |_| has_client(server));
            }
            pressed();
            terminal.wait_until("a cancel", |screen| screen.contains("cancelling") || has_ended(screen));
            match press {
                Press::Once => signal(server, Signal::CONT),
                Press::Twice => drop(pressed()),
            }
        }
    }
    if let Some(slow) = slow {
        // A traced process may not end before its tracer does.
        terminal.wait_until("a last word", |screen| screen.contains("its cancel is not confirmed"));
        drop(slow);
    }
    let screen = terminal.wait_until("an end", has_ended);
    if let Some(server) = frozen {
        signal(server, Signal::CONT);
    }
    screen
}

/// Delays every sync of the command in the terminal by ten seconds, until the tracer is killed.
fn slow_down(terminal: &Terminal) -> Traced {
    let shell = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.trim())).expect("it runs");
    let slow = "inject=fsync,fdatasync:delay_enter=10000000";
    let mut strace = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", slow, "-p", children.trim()])
        .stderr(Stdio::piped())
        .spawn()
        .expect("strace is there; ./test installs it");
    let mut line = String::new();
    let mut said = BufReader::new(strace.stderr.take().expect("a pipe"));
    said.read_line(&mut line).expect("it says when it is attached");
    assert!(line.contains("attached"), "{line}");
    Traced { strace, _said: said }
}

/// A tracer, which ends with the test.
struct Traced {
    strace: Child,
    _said: BufReader<ChildStderr>,
}

impl Drop for Traced {
    fn drop(&mut self) {
        // It ends with the process that it traces.
        drop(self.strace.kill());
        drop(self.strace.wait());
    }
}

/// Whether somebody is connected to a server, which may be frozen.
fn has_client(server: &Server) -> bool {
    let port = server.url.rsplit_once(':').expect("a port").1.parse::<u16>().expect("a port");
    let connections = std::fs::read_to_string("/proc/net/tcp").expect("a list of connections");
    // Columns: number, local address, remote address, state (01 is established).
    let remote = format!("0100007F:{port:04X} 01");
    connections.contains(&remote)
}

fn runs(home: &Home) -> Vec<Value> {
    let list = home.run(&["runs", "list", "--limit", "200", "--json"]).exits(0).json();
    list["runs"].as_array().expect("runs").clone()
}

fn is_unfinished(run: &Value) -> bool {
    matches!(run["status"].as_str(), Some("queued" | "running" | "waiting"))
}

/// Compares the journal with the screen; then lets a server with a quick model take up what is unfinished.
fn check(home: &Home, case: &str, screen: &str) {
    let found = runs(home);
    let context = format!("{case}\n{screen}\n{found:#?}");
    let unfinished: Vec<&Value> = found.iter().filter(|run| is_unfinished(run)).collect();
    for run in &found {
        let (id, status) = (run["run_id"].as_str().expect("an id"), run["status"].as_str().expect("a status"));
        assert_eq!(run["interrupted"].as_bool().unwrap_or_default(), is_unfinished(run), "{context}");
        if screen.contains(&format!("run {id} is interrupted")) {
            assert!(is_unfinished(run), "{context}");
        } else if screen.contains(&format!("run {id} is ")) {
            assert!(screen.contains(&format!("run {id} is {status}")), "{context}");
        } else if !screen.contains("its cancel is not confirmed") && !screen.contains("may have accepted") {
            // Children of an interrupted run are not named.
            assert!(!is_unfinished(run) || screen.contains("is interrupted"), "{context}");
        }
    }
    if screen.contains("✗ cancelled") || screen.contains("before anything was started") {
        assert!(unfinished.is_empty(), "{context}");
        assert!(found.iter().all(|run| run["status"] == "cancelled"), "{context}");
    }
    let of_workers = |run: &&Value| run["agent"] == "worker";
    let completed = found.iter().filter(of_workers).filter(|run| run["status"] == "completed").count();
    let expected = completed + unfinished.iter().filter(|run| of_workers(run)).count();
    // A server that comes later.
    home.write("drawloom.yaml", &config(Pace::AtOnce));
    let server = home.serve();
    for run in &unfinished {
        home.run(&["runs", "show", run["run_id"].as_str().expect("an id"), "--wait", "--json"]).exits(0);
    }
    assert_eq!(server.stop(), Some(0), "{context}");
    let after = runs(home);
    assert_eq!(after.len(), found.len(), "nothing new was started: {context}");
    for (before, after) in found.iter().zip(&after) {
        let wanted = if is_unfinished(before) { "completed" } else { before["status"].as_str().expect("a status") };
        assert_eq!(after["status"], wanted, "{context}");
    }
    let effects = std::fs::read_dir(home.path().join("notes")).expect("a directory").flatten();
    let effects = effects.filter(|file| file.file_name().to_string_lossy().starts_with("effect-")).count();
    assert_eq!(effects, expected, "files that were written: {context}");
}

/// A case inside the command.
fn embedded(command: &str, moment: &Moment, press: Press, shows: &[&str]) {
    let home = home();
    let command = &format!("{command} --embedded");
    let screen = interrupt(&home, None, command, moment, press);
    assert!(shows.is_empty() || shows.iter().any(|text| screen.contains(text)), "{command}\n{screen}");
    check(&home, command, &screen);
}

/// A case with a server that the command starts.
fn started(command: &str, moment: &Moment, press: Press, shows: &[&str]) {
    let home = home();
    let screen = interrupt(&home, None, command, moment, press);
    assert!(shows.is_empty() || shows.iter().any(|text| screen.contains(text)), "{command}\n{screen}");
    home.run(&["stop"]).exits(0);
    check(&home, command, &screen);
}

/// A case with a server.
fn served(command: &str, moment: &Moment, press: Press, shows: &[&str]) {
    let home = home();
    let server = home.serve();
    let screen = interrupt(&home, Some(&server), command, moment, press);
    assert!(shows.is_empty() || shows.iter().any(|text| screen.contains(text)), "{command}\n{screen}");
    if screen.contains("may continue") {
        let named = format!("may continue on the server at {} (process {})", server.url, server.child.id());
        assert!(screen.contains(&named), "{screen}");
    }
    assert_eq!(server.stop(), Some(0));
    check(&home, command, &screen);
}

/// The model is asked, and its first words may be there.
const ASKING: &str = "asking the model";
const ENDS: &[&str] = &["✗ cancelled", "is interrupted", "is cancelled"];
const LEAVES: &[&str] = &["✗ cancelled", "may continue"];

#[test]
fn a_run_inside_the_command_is_what_the_screen_says() {
    for press in BOTH {
        embedded("drawloom run worker 'stream a'", &Moment::AtOnce, press, &[]);
        embedded("drawloom run worker 'stream a'", &Moment::Shows(ASKING), press, ENDS);
        embedded("drawloom run worker 'command a'", &Moment::CommandRuns, press, ENDS);
        embedded("drawloom run lead 'go'", &Moment::Shows("waiting for 2 runs"), press, ENDS);
    }
}

#[test]
fn a_run_on_a_server_that_the_command_started_is_what_the_screen_says() {
    for press in BOTH {
        started("drawloom run worker 'stream a'", &Moment::Shows(ASKING), press, LEAVES);
        started("drawloom run lead 'go'", &Moment::Shows("waiting for 2 runs"), press, LEAVES);
    }
    let commands = "drawloom batch --agent worker 'command a' 'stream b'";
    started(commands, &Moment::CommandRuns, Press::Once, &["0 of 2 completed"]);
}

#[test]
fn a_cancel_that_is_not_journaled_is_not_claimed() {
    let unconfirmed = &["may be interrupted: its cancel is not confirmed"];
    let moment = Moment::SlowDisk(ASKING);
    embedded("drawloom run worker 'stream a'", &moment, Press::Once, unconfirmed);
    let moment = Moment::SlowDisk("running");
    embedded("drawloom batch --agent worker 'stream a' 'stream b'", &moment, Press::Once, unconfirmed);
}

#[test]
fn a_run_on_a_server_is_what_the_screen_says() {
    served("drawloom run worker 'stream a'", &Moment::Unanswered, Press::Once, &["✗ cancelled"]);
    served("drawloom run worker 'stream a'", &Moment::Unanswered, Press::Twice, &["it may have accepted the request"]);
    served("drawloom run worker 'stream a'", &Moment::Frozen(ASKING), Press::Once, &["✗ cancelled"]);
    served("drawloom run worker 'stream a'", &Moment::Frozen(ASKING), Press::Twice, &["may continue on"]);
    for press in BOTH {
        served("drawloom run worker 'stream a'", &Moment::Shows(ASKING), press, LEAVES);
        served("drawloom run worker 'command a'", &Moment::CommandRuns, press, LEAVES);
        served("drawloom run lead 'go'", &Moment::Shows("waiting for 2 runs"), press, LEAVES);
        served("drawloom run worker 'write a'", &Moment::Ended, press, &["✓ completed"]);
    }
}

#[test]
fn a_batch_is_what_the_screen_says() {
    let streams = "drawloom batch --agent worker 'stream a' 'stream b' 'stream c' 'stream d'";
    let commands = "drawloom batch --agent worker 'command a' 'stream b'";
    let none = &["0 of 4 completed", "is interrupted", "is cancelled"];
    served(streams, &Moment::Unanswered, Press::Once, &["0 of 4 completed"]);
    served(streams, &Moment::Unanswered, Press::Twice, &["it may have accepted the request"]);
    served(streams, &Moment::Frozen("running"), Press::Once, &["0 of 4 completed"]);
    served(streams, &Moment::Frozen("running"), Press::Twice, &["may continue on"]);
    for press in BOTH {
        embedded(streams, &Moment::AtOnce, press, &[]);
        embedded(streams, &Moment::Shows("running"), press, none);
        embedded(commands, &Moment::CommandRuns, press, &["0 of 2 completed", "is interrupted", "is cancelled"]);
        served(streams, &Moment::Shows("running"), press, &["0 of 4 completed", "may continue on"]);
    }
}

#[test]
fn the_demo_ends_and_leaves_nothing() {
    for press in BOTH {
        for moment in [
            Moment::AtOnce,
            Moment::Shows("A lead agent gives"),
            Moment::Shows("readers ["),
            Moment::Shows("reader completed"),
            Moment::Ended,
        ] {
            let home = home();
            let temporary = home.path().join("temporary");
            std::fs::create_dir(&temporary).expect("a directory");
            let command = format!("TMPDIR={} drawloom demo", temporary.display());
            let screen = interrupt(&home, None, &command, &moment, press);
            let ended = screen.contains("✓ completed");
            assert!(
                ended || screen.contains("the demo was interrupted") || matches!(moment, Moment::AtOnce),
                "{screen}"
            );
            if matches!(moment, Moment::Shows(_)) {
                assert_eq!(std::fs::read_dir(&temporary).expect("a directory").count(), 0, "{screen}");
            }
            assert!(!home.data().exists(), "{screen}");
        }
    }
}

#[test]
fn watching_a_run_stops_and_the_run_goes_on() {
    let home = home();
    let server = home.serve();
    let run = home.run(&["run", "worker", "stream a", "--detach", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run");
    let screen =
        interrupt(&home, Some(&server), &format!("drawloom runs tail {run}"), &Moment::Shows("▶ started"), Press::Once);
    assert!(screen.contains("stopped watching") && screen.contains("exit 0"), "{screen}");
    assert_eq!(home.run(&["runs", "show", run, "--json"]).exits(0).json()["status"], "running");
    server.kill();
    // Without a process it is shown as interrupted.
    let shown = home.run(&["runs", "show", run]).exits(0).stdout;
    let how = format!("`drawloom restart` resumes it; `drawloom runs cancel {run}` cancels it");
    assert!(shown.contains("status    interrupted\n") && shown.contains(&how), "{shown}");
    let json = home.run(&["runs", "show", run, "--json"]).exits(0).json();
    assert_eq!((&json["status"], &json["interrupted"]), (&"running".into(), &true.into()));
    let list = home.run(&["runs", "list"]).exits(0);
    assert!(list.stdout.contains("interrupted") && list.stderr.contains(&how), "{list:?}");
    let tail = home.run(&["runs", "tail", run]).exits(1);
    assert!(tail.stdout.contains("▶ started"), "{tail:?}");
    assert!(
        tail.stderr.contains(&format!("run {run} is interrupted: no process executes it\nhint: {how}")),
        "{tail:?}"
    );
    home.run(&["runs", "cancel", run]).exits(0);
    assert_eq!(home.run(&["runs", "show", run, "--json"]).exits(0).json()["status"], "cancelled");
}
