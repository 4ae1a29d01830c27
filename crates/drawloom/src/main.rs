//! The shipped binary: everything is in the library.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == drawloom::LAUNCHER) {
        return drawloom_process::launcher::main(arguments);
    }
    drawloom::commands::main()
}
