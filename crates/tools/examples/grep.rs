//! `Grep` as a program, so that a benchmark can run it beside ripgrep: `grep DIRECTORY INPUT`, INPUT being the tool's JSON.

#[path = "bench/one_tool.rs"]
mod one_tool;

use std::{error::Error, io::Write, path::Path};

use drawloom_contract::tool::{Mode, Step};
use drawloom_process::Launcher;
use drawloom_tools::Config;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (directory, input) = args.next().zip(args.next()).ok_or("usage: grep DIRECTORY INPUT")?;
    let grep = one_tool::tool("Grep", Config::default(), Launcher::this_program(&[]), &std::env::temp_dir())?;
    let context = one_tool::context(Path::new(&directory), Mode::ReadOnly)?;
    match grep.call(&context, serde_json::from_str(&input)?).await? {
        Step::Done(answer) => writeln!(std::io::stdout(), "{}", answer.text)?,
        Step::Wait(_) | Step::Spawn { .. } => return Err("Grep does not wait".into()),
    }
    Ok(())
}
