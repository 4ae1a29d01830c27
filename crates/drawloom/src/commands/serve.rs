//! `drawloom serve`: the agents of the config over HTTP, until somebody stops it.

use clap::Args;
use serde_json::json;

use crate::{
    cli::Look,
    commands::Session,
    config, connect,
    exit::{CommandError, Exit},
    output::{Format, Style},
    parts::{Parts, Surface},
    start::{Running, start},
};

/// Serve the agents of the config over HTTP until stopped
#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen; port 0 takes a free one [default: `listen` of the config, 127.0.0.1:8787]
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<String>,
    /// For whom the output is.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Serve {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let loaded = config::load_files(&config::find(&session.globals.config)?)?;
        let lock = connect::data_dir(&session.globals)?.lock("serve")?;
        let listen = self.listen.unwrap_or_else(|| loaded.config.listen.clone());
        let running = start(Parts::from_config(loaded, lock, Surface::Serve { listen }, &[])?).await?;
        announce(session, &running);
        stop_signal().await;
        tracing::info!("stopping: steps in flight come to their next record");
        let report = running.stop().await;
        tracing::info!(abandoned = report.abandoned, "stopped");
        Ok(Exit::Done)
    }
}

/// Says where the server is.
pub(crate) fn announce(session: &Session, running: &Running) {
    let url = running.url.as_deref().unwrap_or_default();
    let output = &session.output;
    match output.format() {
        Format::Json => output.json_line(&json!({ "url": url, "pid": std::process::id() })),
        Format::Human => output.line(format!("drawloom serves at {}", output.styled(Style::Bold, url))),
    }
    if let Some(resumed) = &running.resumed {
        tracing::info!(%url, resumed = resumed.resumed, parked = resumed.parked, "serving");
    }
}

/// Returns when somebody wants the server to stop: Ctrl-C, or `kill`.
pub(crate) async fn stop_signal() {
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(error) => {
                tracing::warn!(error = %error, "SIGTERM cannot be caught; only Ctrl-C stops in order");
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = terminated => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
