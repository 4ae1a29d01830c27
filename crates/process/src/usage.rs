//! What a command used too much of.

use serde::{Deserialize, Serialize};

/// A limit that a command, with everything that it started, exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exceeded {
    /// Of what.
    pub resource: Resource,
    /// How much it used when that was noticed.
    pub used: u64,
    /// The limit.
    pub most: u64,
}

/// What is counted over all processes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Memory, in bytes.
    Memory,
    /// Processes and threads at once.
    Processes,
    /// Bytes written to disks.
    Disk,
    /// None: a guarded file was replaced outside while it ran, so that it could have reached the new one.
    Guard,
    /// What it uses could not be read, so that its limits could not be enforced.
    Unknown,
}
