//! The shipped binary: everything is in the library.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == drawloom::LAUNCHER => drawloom_process::launcher::main(arguments),
        Some(first) if first == drawloom::LEAVE => drawloom_process::leave(arguments),
        _ => drawloom::commands::main(),
    }
}
