//! The launcher of this crate's tests.

use std::process::ExitCode;

use drawloom_process::launcher;

fn main() -> ExitCode {
    launcher::main(std::env::args_os().skip(1))
}
