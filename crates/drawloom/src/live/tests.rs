//! The board of a team, from made-up events: how it looks at several sizes.

use std::fmt::Write as _;

use drawloom_contract::{ids::RunId, time::Timestamp};
use drawloom_wire::events::Event;
use serde_json::{Value, json};

use super::{
    board::{Size, lines},
    team::{Change, Team},
};

/// When the first event came, by the clock of this machine. The server's clock is an hour behind.
const BEGAN: i64 = 1_794_940_000_000;

fn id(number: u8) -> RunId {
    RunId::from_bytes([number; 16])
}

/// A team, with the seconds since its lead was accepted.
#[derive(Default)]
struct Story {
    team: Team,
    seconds: i64,
}

impl Story {
    fn event(&mut self, run: u8, name: &'static str, mut data: Value) -> Option<Change> {
        data["run_id"] = id(run).to_string().into();
        let now = Timestamp::from_millis(BEGAN + self.seconds * 1_000);
        data["at"] = Timestamp::from_millis(now.as_millis() - 3_600_000).to_rfc3339().into();
        let event = Event { name: name.into(), id: Some(1), data: data.to_string() };
        self.team.apply(&event, &data, now)
    }

    fn starts(&mut self, run: u8, parent: Option<u8>, agent: &str) {
        let parent = parent.map(|parent| id(parent).to_string());
        let prompt = format!("part {run} of the work");
        let change = self.event(run, "agent", json!({ "agent": agent, "parent_run_id": parent, "prompt": prompt }));
        assert_eq!(change, Some(Change::Started(id(run))));
    }

    fn is_admitted(&mut self, run: u8) {
        self.event(run, "started", json!({}));
    }

    fn uses(&mut self, run: u8, tokens: u64, cost: f64, assumed: bool) {
        self.event(run, "usage", json!({ "usage": { "input_tokens": tokens, "cost": cost, "assumed": assumed } }));
    }

    fn calls(&mut self, run: u8, tool: &str, input: Value) {
        self.event(run, "tool_call", json!({ "call": 7, "tool_use": { "name": tool, "input": input } }));
    }

    fn completes(&mut self, run: u8, tokens: u64) {
        let data = json!({ "status": "completed", "usage": { "input_tokens": tokens }, "cost": 0.0125 });
        assert_eq!(self.event(run, "done", data), Some(Change::Ended(id(run))));
    }

    fn fails(&mut self, run: u8, status: &str) {
        let error = json!({ "code": "model_refused", "message": "the model refused: it went boom" });
        self.event(run, "error", json!({ "status": status, "error": error, "usage": {} }));
    }

    fn board(&self, columns: usize, rows: usize) -> String {
        let now = Timestamp::from_millis(BEGAN + self.seconds * 1_000);
        let mut text = String::new();
        for line in lines(&self.team, Size { columns, rows }, now, "USD") {
            assert!(line.width() < columns, "{} of {columns} columns", line.width());
            let plain: String = line.0.iter().map(|(piece, _)| piece.as_str()).collect();
            writeln!(text, "{}", plain.trim_end()).expect("a String takes everything");
        }
        text
    }
}

/// A lead with five children, of which one failed, one is done, and one has a child of its own.
fn busy() -> Story {
    let mut story = Story::default();
    story.starts(1, None, "lead");
    story.is_admitted(1);
    story.uses(1, 1_204, 0.0125, false);
    story.seconds = 2;
    for (run, agent) in [(2, "reader"), (3, "checker"), (4, "team/translator-织机"), (5, "reader"), (6, "writer")] {
        story.starts(run, Some(1), agent);
    }
    for run in 2..=5 {
        story.is_admitted(run);
    }
    story.seconds = 5;
    story.uses(2, 310, 0.000_31, true);
    story.calls(2, "Read", json!({ "path": "notes/a/very/long/path/that/does/not/fit/into/a/narrow/terminal.md" }));
    story.starts(7, Some(4), "helper");
    story.is_admitted(7);
    story.event(7, "retry", json!({ "retry": { "turn": 1, "attempt": 2, "wait_ms": 500 } }));
    story.fails(3, "failed");
    story.completes(5, 25_000);
    story.seconds = 67;
    story
}

#[test]
fn a_worker_on_a_coding_cli_shows_its_last_tool_tokens_and_cost() {
    let mut story = Story::default();
    story.starts(1, None, "lead");
    story.starts(2, Some(1), "alpha");
    story.is_admitted(2);
    story.calls(2, "cli_run", json!({ "prompt": "Weave it" }));
    let doing = |tool: &str, tokens: u64, cost: Value| json!({ "call": 7, "tool": tool, "detail": "src/lib.rs", "tokens": tokens, "cost": cost });
    story.event(2, "activity", doing("Read", 9_000, Value::Null));
    story.event(2, "activity", doing("Edit", 12_400, json!(0.08)));
    story.seconds = 3;
    let board = story.board(80, 30);
    let line = board.lines().last().expect("a line of the worker");
    assert_eq!(
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "),
        "alpha Edit src/lib.rs 12,400 tok $0.080 3 s"
    );
    // Its end says what it used in all.
    story.completes(2, 12_500);
    assert!(story.board(80, 30).contains("12,500 tok  $0.013"), "{}", story.board(80, 30));
}

#[test]
fn no_number_of_tokens_is_too_large_to_be_added() {
    let mut story = Story::default();
    story.starts(1, None, "lead");
    for run in [2, 3] {
        story.starts(run, Some(1), "worker");
        story.is_admitted(run);
        for _ in 0..2 {
            story.event(run, "usage", json!({ "usage": { "input_tokens": u64::MAX, "output_tokens": u64::MAX } }));
        }
        let member = story.team.find(id(run)).expect("a run that was started");
        assert_eq!(member.tokens, u64::MAX);
        let end = json!({ "status": "completed", "usage": { "input_tokens": u64::MAX, "output_tokens": 1 } });
        assert_eq!(story.event(run, "done", end), Some(Change::Ended(id(run))));
    }
    assert!(story.board(140, 30).contains("2 completed"));
}

#[test]
fn the_board_has_a_line_for_each_run_at_work_and_folds_the_others() {
    let story = busy();
    let at = |columns| format!("── {columns} columns\n{}", story.board(columns, 30));
    insta::assert_snapshot!("board", [at(40), at(80), at(140)].join("\n"));
}

#[test]
fn a_run_without_children_has_one_line() {
    let mut story = Story::default();
    story.starts(1, None, "echo");
    insta::assert_snapshot!(story.board(60, 30), @"· echo  queued                                          0 s");
    story.is_admitted(1);
    story.seconds = 3_725;
    insta::assert_snapshot!(story.board(60, 30), @"⠋ echo  asking the model                           1 h 02 m");
}

#[test]
fn a_board_that_is_too_tall_says_how_many_more_there_are_and_hides_queued_runs_first() {
    let mut story = Story::default();
    story.starts(1, None, "lead");
    story.is_admitted(1);
    for run in 2..=40 {
        story.starts(run, Some(1), "worker");
        if run % 3 == 0 {
            story.is_admitted(run);
        }
    }
    story.completes(3, 10);
    let board = story.board(80, 14);
    // The lead, nine of the twelve that work, the rest, and one that has ended.
    assert_eq!(board.lines().count(), 12, "{board}");
    assert_eq!(board.matches("asking the model").count(), 9, "{board}");
    assert!(!board.contains("queued") && board.contains("+ 29 more\n") && board.contains("1 completed"), "{board}");
    // A terminal of three rows shows something all the same.
    assert!(story.board(80, 1).lines().count() <= 3);
}

#[test]
fn no_line_is_wider_than_the_terminal_however_narrow_it_is() {
    let story = busy();
    for columns in 2..200 {
        story.board(columns, 30);
    }
}

#[test]
fn texts_of_others_cannot_move_the_cursor() {
    let mut story = Story::default();
    story.starts(1, None, "lead");
    story.is_admitted(1);
    story.calls(1, "Bash\u{1b}[2J", json!({ "command": "echo \u{1b}[31mred\n\u{7}" }));
    let board = story.board(80, 30);
    assert!(!board.contains('\u{1b}') && !board.contains('\u{7}') && board.lines().count() == 1, "{board:?}");
}

#[test]
fn a_run_says_what_it_waits_for() {
    let mut story = Story::default();
    story.starts(1, None, "lead");
    story.is_admitted(1);
    let mut doing = |name, data| {
        story.event(1, name, data);
        story.team.doing(story.team.lead().expect("a lead"))
    };
    assert_eq!(doing("text", json!({ "text": "hm" })), "writing");
    assert_eq!(doing("thinking", json!({ "text": "hm" })), "thinking");
    assert_eq!(doing("waiting", json!({ "on": "budget" })), "waiting for the tree's budget");
    assert_eq!(doing("waiting", json!({})), "waiting");
    assert_eq!(doing("tool_call", json!({ "call": 3, "tool_use": { "name": "Read" } })), "Read");
    assert_eq!(doing("tool_result", json!({ "call": 3 })), "asking the model");
    assert_eq!(
        doing("turn_reset", json!({ "attempt": 1, "error": { "message": "cut" } })),
        "model call failed (attempt 1): cut"
    );
    assert_eq!(doing("error", json!({ "status": "timed_out", "error": {} })), "timed out");
}
