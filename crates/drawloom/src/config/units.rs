//! A number with a unit, such as `30s` or `2GB`, where the key says the unit: what to write in its place.

/// Units as people write them, each with how much of the key's own unit it is.
type Units = &'static [(&'static str, f64)];

/// How much of a key's unit one of a written unit is. Ends of keys, units of that kind, and the word for people.
const KINDS: &[(&str, &str, Units)] = &[
    ("_ms", "milliseconds", &[("ms", 1.0), ("s", 1e3), ("m", 60e3), ("min", 60e3), ("h", 3_600e3), ("d", 86_400e3)]),
    ("_seconds", "seconds", &[("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("min", 60.0), ("h", 3_600.0), ("d", 86_400.0)]),
    ("_days", "days", &[("h", 1.0 / 24.0), ("d", 1.0), ("w", 7.0), ("y", 365.0)]),
    (
        "_bytes",
        "bytes",
        &[
            ("b", 1.0),
            ("k", 1_024.0),
            ("kb", 1e3),
            ("kib", 1_024.0),
            ("m", 1_048_576.0),
            ("mb", 1e6),
            ("mib", 1_048_576.0),
            ("g", 1_073_741_824.0),
            ("gb", 1e9),
            ("gib", 1_073_741_824.0),
        ],
    ),
    ("tokens", "tokens", &[("k", 1e3), ("m", 1e6)]),
];

/// What to write in place of `text` under `key`.
pub(super) fn hint(key: &str, text: &str) -> Option<String> {
    let (_, word, units) = KINDS.iter().find(|(end, ..)| key.ends_with(end))?;
    let split = text.find(|sign: char| !sign.is_ascii_digit() && !matches!(sign, '.' | '_' | ','))?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.replace(['_', ','], "").parse().ok()?;
    let unit = unit.trim().to_ascii_lowercase();
    let plain =
        unit.trim_end_matches("econds").trim_end_matches("inutes").trim_end_matches("ours").trim_end_matches("ays");
    let (_, factor) = units.iter().find(|(name, _)| *name == plain)?;
    let value = number * factor;
    let is_whole = value.fract() == 0.0 && value < 9e15;
    is_whole.then(|| format!("write the number of {word}: {value:.0}"))
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn a_number_with_a_unit_becomes_one_in_the_unit_of_its_key() {
        for (key, text, expected) in [
            ("run_timeout_seconds", "30s", "write the number of seconds: 30"),
            ("run_timeout_seconds", "2 hours", "write the number of seconds: 7200"),
            ("drain_timeout_ms", "1.5s", "write the number of milliseconds: 1500"),
            ("max_age_days", "2w", "write the number of days: 14"),
            ("max_memory_bytes", "2GiB", "write the number of bytes: 2147483648"),
            ("tokens", "500k", "write the number of tokens: 500000"),
        ] {
            assert_eq!(hint(key, text).as_deref(), Some(expected), "{key} {text}");
        }
        for (key, text) in [("max_age_days", "soon"), ("max_iterations", "3x"), ("max_age_days", "3 parsecs")] {
            assert_eq!(hint(key, text), None, "{key} {text}");
        }
    }
}
