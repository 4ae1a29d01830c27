//! Resume: 10,000 runs in a model call, `kill -9`, and the time until all of them are in their call again.

use anyhow::Result;

use crate::{
    memory::{RUNS, detach},
    report,
    server::Bench,
    targets::Figures,
};

/// Measures and prints.
pub(crate) async fn measure(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let data = bench.directory()?;
    let all = |active: u64, _: u64| active == RUNS as u64;
    let server = bench.start(data.path())?;
    detach(&server, "sleeper", RUNS).await?;
    server.wait_for_load(all).await?;
    // Dropping it sends SIGKILL.
    drop(server);
    let server = bench.start(data.path())?;
    let listening = server.spawned.elapsed();
    server.wait_for_load(all).await?;
    let took = server.spawned.elapsed();
    report::heading("Resume after kill -9")?;
    report::line(&format!(
        "10,000 runs active again {:.2} s after the process was made (it listened after {:.2} s)",
        took.as_secs_f64(),
        listening.as_secs_f64()
    ))?;
    figures.resume = Some(took);
    Ok(())
}
