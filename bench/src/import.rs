//! `drawloom import claude-code --write` of 200 agents with 180 skills, beside a bare read of the agents.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use crate::{grep::median, report};

/// How many agents the folder has, and how often it is imported.
const AGENTS: usize = 200;
const SKILLS: usize = 180;
const TIMES: usize = 15;

/// A config that the agents are written into.
const CONFIG: &str = "providers: { script: { driver: script } }\ndefaults: { provider: script, model: demo }\n";

/// Measures and prints; returns how long an import takes, from the start of the process to its end.
pub(crate) fn measure(drawloom: &Path) -> Result<Duration> {
    report::heading(&format!("Import of {AGENTS} agents and {SKILLS} skills: medians of {TIMES}"))?;
    let scratch = tempfile::tempdir()?;
    let agents = scratch.path().join(".claude/agents");
    fs::create_dir_all(&agents)?;
    let body =
        "You review one part of a code base. Read every file of it, and say what is wrong with file and line.\n\n"
            .repeat(40);
    for index in 0..AGENTS {
        let model = ["opus", "sonnet", "haiku"][index % 3];
        let head = format!(
            "name: agent-{index}\ndescription: Reviews part {index}: all of it\ntools: Read, Grep, Glob, Bash(git:*)"
        );
        fs::write(agents.join(format!("agent-{index}.md")), format!("---\n{head}\nmodel: {model}\n---\n{body}"))?;
    }
    for index in 0..SKILLS {
        let skill = scratch.path().join(format!(".claude/skills/skill-{index}"));
        fs::create_dir_all(skill.join("references"))?;
        let head = format!("name: skill-{index}\ndescription: How part {index} is reviewed");
        fs::write(skill.join("SKILL.md"), format!("---\n{head}\n---\n{body}"))?;
        fs::write(skill.join("references/more.md"), &body)?;
        fs::write(skill.join("check.py"), "print(1)\n".repeat(50))?;
    }
    let (mut floor, mut first, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let began = Instant::now();
        let mut bytes = 0;
        for entry in fs::read_dir(&agents)? {
            bytes += fs::read(entry?.path())?.len();
        }
        floor.push(began.elapsed());
        ensure!(bytes > AGENTS * body.len(), "the files are there");
        fs::write(scratch.path().join("drawloom.yaml"), CONFIG)?;
        // Without it the first import has no skills to copy.
        match fs::remove_dir_all(scratch.path().join("skills")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        first.push(import(drawloom, scratch.path())?);
        again.push(import(drawloom, scratch.path())?);
    }
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let (floor, first, again) = (median(floor), median(first), median(again));
    report::line(&format!(
        "reading the files {:.1} ms; import {:.1} ms; a second import, which changes nothing, {:.1} ms",
        milliseconds(floor),
        milliseconds(first),
        milliseconds(again)
    ))?;
    Ok(first)
}

fn import(drawloom: &Path, folder: &Path) -> Result<Duration> {
    let mut command = Command::new(drawloom);
    command.args(["import", "claude-code", "--write", "--json"]).current_dir(folder).env("HOME", folder);
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let took = began.elapsed();
    ensure!(status.success(), "the import failed with {status}");
    Ok(took)
}
