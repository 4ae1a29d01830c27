//! What `Bash` adds to a bare shell, for a benchmark: `bash DRAWLOOM DIRECTORY TIMES` prints two numbers for each time, the
//! microseconds of `sh -c true` and those of the same command as a tool call. DRAWLOOM is the program that launches commands.

#[path = "bench/one_tool.rs"]
mod one_tool;

use std::{
    error::Error,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use drawloom_contract::tool::{Mode, Step};
use drawloom_process::Launcher;
use drawloom_tools::Config;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [program, directory, times] = &args[..] else { return Err("usage: bash DRAWLOOM DIRECTORY TIMES".into()) };
    let directory = Path::new(directory);
    let mut config = Config::default();
    config.bash.enabled = true;
    for name in ["temporary", "volume"] {
        std::fs::create_dir_all(directory.join(name))?;
    }
    let bash = one_tool::tool("Bash", config, Launcher::new(program, &["__launch"]), directory)?;
    let mut context = one_tool::context(&directory.join("volume"), Mode::ReadWrite)?;
    for _ in 0..times.parse()? {
        let began = Instant::now();
        Command::new("/bin/sh").args(["-c", "true"]).stdin(Stdio::null()).output()?;
        let bare = began.elapsed();
        context.call += 1;
        let began = Instant::now();
        match bash.call(&context, serde_json::json!({ "command": "true" })).await? {
            Step::Done(_) => {}
            Step::Wait(_) | Step::Spawn { .. } => return Err("Bash does not wait".into()),
        }
        writeln!(std::io::stdout(), "{} {}", bare.as_micros(), began.elapsed().as_micros())?;
    }
    Ok(())
}
