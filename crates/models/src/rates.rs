//! What headers say of rate limits: how long to stay away, and whether anything is left.

use std::time::Duration;

use drawloom_contract::time::Timestamp;

/// Nobody is sent away for longer than a day.
pub(crate) const MOST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The pairs of headers that say how much is left and when there is more.
const LIMITS: &[(&str, &str)] = &[
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
];

/// Reads one header.
pub(crate) type Header<'a> = &'a dyn Fn(&str) -> Option<String>;

/// How long a provider that refused wants to be left alone: what it asks for itself, else until the limit that is used up
/// is open again.
pub(crate) fn retry_after(header: Header<'_>, now: Timestamp) -> Option<Duration> {
    let asked = header("retry-after-ms")
        .and_then(|text| number(&text, 0.001))
        .or_else(|| header("retry-after").and_then(|text| number(&text, 1.0).or_else(|| until_date(&text, now))));
    asked.or_else(|| closed_for(header, now)).map(|wait| wait.min(MOST_WAIT))
}

/// When a provider that answered takes calls again, if a limit is used up.
pub(crate) fn closed_until(header: Header<'_>, now: Timestamp) -> Option<Timestamp> {
    closed_for(header, now).map(|wait| now.after(wait.min(MOST_WAIT)))
}

/// The longest of the waits of all limits that are used up.
fn closed_for(header: Header<'_>, now: Timestamp) -> Option<Duration> {
    LIMITS
        .iter()
        .filter(|(remaining, _)| header(remaining).is_some_and(|left| left.trim() == "0"))
        .filter_map(|(_, reset)| header(reset).and_then(|text| until(&text, now)))
        .max()
}

/// A moment in time, or a span such as `1m30s`.
fn until(text: &str, now: Timestamp) -> Option<Duration> {
    span(text.trim()).or_else(|| {
        let moment: jiff::Timestamp = text.trim().parse().ok()?;
        Some(Timestamp::from_millis(moment.as_millisecond()).since(now))
    })
}

/// A date as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn until_date(text: &str, now: Timestamp) -> Option<Duration> {
    let moment = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text.trim()).ok()?;
    Some(Timestamp::from_millis(moment.as_millisecond()).since(now))
}

fn number(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok()?;
    // More than a day is a day; less than nothing is nothing.
    (!number.is_nan()).then(|| Duration::from_secs_f64((number * unit).clamp(0.0, MOST_WAIT.as_secs_f64())))
}

/// A span: numbers with units, such as `6m0s`, `20ms` or `1.5s`.
fn span(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut whole = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
        let (count, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let seconds = match unit {
            "d" => 86_400.0,
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            "us" | "µs" => 0.000_001,
            "ns" => 0.000_000_001,
            _ => return None,
        };
        whole += count.parse::<f64>().ok()? * seconds;
        rest = tail;
    }
    (!text.is_empty()).then(|| Duration::from_secs_f64(whole.clamp(0.0, MOST_WAIT.as_secs_f64())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-16T09:30:00Z.
    const NOW: Timestamp = Timestamp::from_millis(1_794_821_400_000);

    fn waits(headers: &[(&str, &str)]) -> Option<Duration> {
        let find = |name: &str| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        retry_after(&find, NOW)
    }

    #[test]
    fn retry_after_is_read_in_each_of_its_spellings() {
        let seconds = |seconds: f64| Some(Duration::from_secs_f64(seconds));
        assert_eq!(waits(&[]), None);
        assert_eq!(waits(&[("retry-after", "7")]), seconds(7.0));
        assert_eq!(waits(&[("retry-after", " 0.25 ")]), seconds(0.25));
        assert_eq!(waits(&[("retry-after", "-3")]), seconds(0.0));
        assert_eq!(waits(&[("retry-after", "1e300")]), Some(MOST_WAIT));
        assert_eq!(waits(&[("retry-after", "NaN")]), None);
        assert_eq!(waits(&[("retry-after", "soon")]), None);
        assert_eq!(waits(&[("retry-after", "9"), ("retry-after-ms", "1500")]), seconds(1.5));
        assert_eq!(waits(&[("retry-after", "Mon, 16 Nov 2026 09:30:20 GMT")]), seconds(20.0));
        assert_eq!(waits(&[("retry-after", "Mon, 16 Nov 2026 09:29:00 GMT")]), seconds(0.0));
        assert_eq!(waits(&[("retry-after", "Mon, 16 Nov 2099 09:29:00 GMT")]), Some(MOST_WAIT));
    }

    #[test]
    fn without_it_the_limit_that_is_used_up_says_how_long() {
        let anthropic = [
            ("anthropic-ratelimit-requests-remaining", "12"),
            ("anthropic-ratelimit-requests-reset", "2026-11-16T10:30:00Z"),
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "2026-11-16T09:30:42Z"),
        ];
        assert_eq!(waits(&anthropic), Some(Duration::from_secs(42)));
        assert_eq!(waits(&anthropic[..2]), None);
        let openai = |reset| [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", reset)];
        for (text, millis) in
            [("1m30s", 90_000), ("20ms", 20), ("6.0s", 6_000), ("1h0m0.5s", 3_600_500), ("2d", 86_400_000)]
        {
            assert_eq!(waits(&openai(text)), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "1", "5x", "1m-3s", "..s"] {
            assert_eq!(waits(&openai(text)), None, "{text}");
        }
    }
}
