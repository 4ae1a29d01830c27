//! Limits as data: each crate lists its own, the binary joins the lists, and `docs/reference/limits.md` is generated from
//! them. A test crosses every limit on the list.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub name: &'static str,
    /// The config key that changes it; a limit without one is fixed.
    pub key: Option<&'static str>,
    pub default: Amount,
    /// The error code, notice or status that says that the limit was crossed.
    pub code: &'static str,
    /// What is limited and what happens beyond the limit, in one or two sentences.
    pub what: &'static str,
}

impl Limit {
    pub const fn new(name: &'static str, default: Amount, code: &'static str, what: &'static str) -> Self {
        Self { name, key: None, default, code, what }
    }

    pub const fn key(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    Count(u64),
    Bytes(u64),
    Millis(u64),
    /// Part of what the machine has, in percent.
    Percent(u64, &'static str),
    /// No limit unless the config sets one.
    Off,
}

impl Amount {
    pub const fn time(time: Duration) -> Self {
        Self::Millis(time.as_secs() * 1_000 + time.subsec_millis() as u64)
    }
}
