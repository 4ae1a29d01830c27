//! Logs go to stderr; `--log` or `DRAWLOOM_LOG` says which.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{EnvFilter, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::{environment, exit::CommandError};

/// Starts logging what `filter` lets through.
pub(crate) fn start(filter: &str) -> Result<(), CommandError> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        CommandError::usage("bad_log_filter", format!("{filter:?} is not a log filter: {error}"))
            .with_hint("write a level such as `info`, or `drawloom_engine=debug,warn`")
    })?;
    let colour = io::stderr().is_terminal() && !environment::no_colour();
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false).with_ansi(colour);
    // A test process may have logs of its own; they stay.
    drop(tracing_subscriber::registry().with(filter).with(lines).try_init());
    Ok(())
}
