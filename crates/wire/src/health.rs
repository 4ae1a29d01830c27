//! Whether a server can take runs, as `GET /healthz` and `GET /readyz` answer it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The health of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// Whether it can take runs and its store works.
    pub ok: bool,
    /// The server's version.
    pub version: String,
    /// Seconds since it started.
    pub uptime_seconds: u64,
}
