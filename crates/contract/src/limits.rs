//! Limits as data: each crate lists its own, the binary joins the lists, and `docs/reference/limits.md` is generated from
//! them. A test crosses every limit on the list.

use std::{fmt, time::Duration};

/// A bound on something that could otherwise grow without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// A unique name in snake case.
    pub name: &'static str,
    /// The config key that changes it; a limit without one is fixed.
    pub key: Option<&'static str>,
    /// What holds when the config says nothing.
    pub default: Amount,
    /// The error code, notice or status by which a caller or a model learns that the limit was crossed.
    pub code: &'static str,
    /// What is limited and what happens beyond the limit, in one or two sentences.
    pub what: &'static str,
}

impl Limit {
    /// A limit that no config key changes.
    pub const fn new(name: &'static str, default: Amount, code: &'static str, what: &'static str) -> Self {
        Self { name, key: None, default, code, what }
    }

    /// The same limit with the config key that changes it.
    pub const fn key(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }
}

/// How much a limit allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// A number of things.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// Milliseconds.
    Millis(u64),
    /// Part of what the machine has, in percent.
    Percent(u64, &'static str),
    /// No limit unless the config sets one.
    Off,
}

impl Amount {
    /// A time, in milliseconds.
    pub const fn time(time: Duration) -> Self {
        Self::Millis(time.as_secs() * 1_000 + time.subsec_millis() as u64)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest = |value: u64, units: &[(u64, &str)], smallest: &str, f: &mut fmt::Formatter<'_>| match units
            .iter()
            .find(|(size, _)| value >= *size && value.is_multiple_of(*size))
        {
            Some((size, unit)) => write!(f, "{} {unit}", value / size),
            None => write!(f, "{value} {smallest}"),
        };
        match *self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Bytes(bytes) => largest(bytes, &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")], "bytes", f),
            Self::Millis(millis) => {
                largest(millis, &[(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")], "ms", f)
            }
            Self::Percent(percent, whole) => write!(f, "{percent} % of {whole}"),
            Self::Off => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_in_their_largest_whole_unit() {
        let shown: Vec<String> = [
            Amount::Count(128),
            Amount::Bytes(1_048_576),
            Amount::Bytes(100_000),
            Amount::Millis(86_400_000),
            Amount::Millis(90_000),
            Amount::Millis(20),
            Amount::Percent(75, "the memory"),
            Amount::Off,
        ]
        .iter()
        .map(Amount::to_string)
        .collect();
        assert_eq!(shown, ["128", "1 MiB", "100000 bytes", "1 d", "90 s", "20 ms", "75 % of the memory", "none"]);
    }
}
