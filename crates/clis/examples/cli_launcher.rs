//! A launcher for this crate's tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    drawloom_process::launcher::main(std::env::args_os().skip(2))
}
