//! The refine loop of `examples/refine-loop`, by its own script: the same table and the same winner whichever way the team is made.

use std::{path::Path, process::Command};

use crate::support::Home;

/// The table of the five rounds, as the text that asked for the loop has it.
const TABLE: &str = "\
| Hop | Laconic | Metaphor | Faithfulness | Overall |
|---|---|---|---|---|
| 1 | 0.90 | 0.95 | 0.90 | 0.92 |
| 2 | 0.95 | 0.93 | 0.92 | 0.93 |
| 3 | 0.97 | 0.98 | 0.95 | 0.97 |
| 4 | 0.96 | 0.97 | 0.96 | 0.96 |
| 5 | 0.98 | 0.99 | 0.97 | 0.98 ← winner |
";

/// What the aggregator says after it has seen all evaluations.
const WINNER: &str = "Winner: hop5 with 0.98\n\
    A mirror facing a mirror — each reflection a smaller twin of the last, until there's nothing left to reflect.\n";

fn example(way: &str) {
    let home = Home::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/refine-loop/run");
    let mut command = Command::new("python3");
    command.arg("-B").arg(script).args(["--way", way, "--work"]).arg(home.path());
    command.env("DRAWLOOM", env!("CARGO_BIN_EXE_drawloom")).env("HOME", home.path());
    let ran = command.output().expect("python3");
    let (said, beside) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{way}: {said}\n{beside}");
    assert!(said.starts_with(TABLE), "{way}: {said}\n{beside}");
    assert!(said.contains(&TABLE.replace(" ← winner", "")), "the aggregator saw all five: {said}");
    assert!(said.ends_with(WINNER), "{way}: {said}\n{beside}");
    assert!(beside.contains("0 memory keys left"), "{way}: {beside}");
    // What was made at runtime knows what was made before it.
    assert!(!beside.contains("no such channel"), "{way}: {beside}");
}

#[test]
fn the_refine_loop_ends_with_the_fifth_answer_with_everything_in_yaml() {
    example("yaml");
}

#[test]
fn the_refine_loop_ends_with_the_fifth_answer_with_everything_made_at_runtime_over_rest() {
    example("rest");
}

#[test]
fn the_refine_loop_ends_with_the_fifth_answer_with_everything_made_at_runtime_over_mcp_alone() {
    example("mcp");
}

/// A cut of `./prove loop`.
#[test]
fn the_refine_loop_comes_to_the_same_end_when_its_server_is_killed() {
    let home = Home::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/loop/prove.py");
    let mut command = Command::new("python3");
    command.arg("-B").arg(script).args(["--drawloom", env!("CARGO_BIN_EXE_drawloom"), "--work"]).arg(home.path());
    command.env("HOME", home.path()).env("PROVE_KILLS", "6").env("PROVE_SEED", "16");
    let ran = command.output().expect("python3");
    let (said, beside) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && said.contains("the same table, winner"), "{said}\n{beside}");
}
