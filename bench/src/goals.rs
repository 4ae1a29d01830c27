//! The goal loop with the mock team, two iterations and ten calls: a process from its start to the result, one journaled step, and
//! a hundred goals at once.

use std::{
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use crate::{
    http,
    load::{self, Expect, Load, Until},
    report,
    server::Bench,
    targets::Figures,
};

/// How often a process is started.
const TIMES: usize = 20;
/// Goals one after the other.
const GOALS: usize = 50;
/// Goals at the same time.
const AT_ONCE: usize = 100;
/// Calls of roles in each goal; each is a step in the journal with a child run.
const STEPS: f64 = 10.0;

/// Measures and prints.
pub(crate) async fn measure(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let (mut demo, mut bare) = (Vec::new(), Vec::new());
    let home = bench.directory()?;
    for _ in 0..TIMES {
        demo.push(command(bench, home.path(), &["goal", "demo", "--json"])?);
        bare.push(command(bench, home.path(), &["--version"])?);
    }
    report::heading("A goal of the mock team: two iterations, ten calls")?;
    let demo = report::spread("process start to result", demo)?;
    let bare = report::spread("a process that does nothing", bare)?;
    report::line(&format!("the loop adds {:.1} ms", (demo - bare).as_secs_f64() * 1e3))?;
    figures.goal = Some(demo);

    let data = bench.directory()?;
    let server = bench.start(data.path())?;
    let body = r#"{"goal":"a briefing","success_criteria":"It is complete.","backend":"mock","detach":false}"#;
    let request = http::post("/v1/goals", "application/json", body);
    let load = |clients| {
        Arc::new(Load { address: server.address, request: request.clone(), expect: Expect::Completed(1), clients })
    };
    let one = load::run(&load(1), Until::Requests(GOALS)).await?;
    let step = one.percentile(0.5).div_f64(STEPS);
    report::line(&format!(
        "in a server: {:.1} ms a goal, {:.2} ms a step with its child run",
        one.percentile(0.5).as_secs_f64() * 1e3,
        step.as_secs_f64() * 1e3
    ))?;
    figures.goal_step = Some(step);
    let many = load::run(&load(AT_ONCE), Until::Requests(AT_ONCE)).await?;
    report::line(&format!("{AT_ONCE} goals at once: {:.0} ms until the last", many.elapsed.as_secs_f64() * 1e3))?;
    figures.goals_at_once = Some(many.elapsed);
    server.stop()
}

/// Runs a command of the binary to its end.
fn command(bench: &Bench, home: &std::path::Path, words: &[&str]) -> Result<Duration> {
    let began = Instant::now();
    let ended = Command::new(bench.drawloom())
        .args(words)
        .env("HOME", home)
        .env_remove("XDG_DATA_HOME")
        .env_remove("DRAWLOOM_DATA_DIR")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(ended.success(), "drawloom {} failed", words.join(" "));
    Ok(began.elapsed())
}
