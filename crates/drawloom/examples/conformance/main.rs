//! A server like the shipped one with a second table of tools over MCP: the fixtures that the official conformance suite
//! asks for. Its arguments are a config file and a data directory.

mod fixtures;
mod jobs;
mod rounds;
mod tools;

use std::{io::Write as _, path::PathBuf, sync::Arc};

use drawloom::{Extra, Parts, Surface, config, data_dir::DataDir, start};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(config), Some(directory)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: conformance CONFIG DATA_DIR");
    };
    let loaded = config::load_files(&[config])?;
    let lock = DataDir::new(directory).lock("conformance")?;
    let mut parts =
        Parts::from_config(loaded, lock, Surface::Serve { listen: "127.0.0.1:0".into() }, &Extra::default())?;
    parts.tables.push(Arc::new(fixtures::Fixtures::default()));
    let running = start(parts).await?;
    // Whoever started the process waits for this line.
    writeln!(std::io::stdout(), "{}", running.url.as_deref().unwrap_or_default())?;
    std::future::pending().await
}
