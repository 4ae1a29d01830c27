//! Integers that do not fit in 64 bits. The JSON parser makes floats of them, which are other numbers, so every place where JSON enters
//! refuses them. A caller that needs such a number sends it as text.

use drawloom_contract::failure::{Failure, FailureKind};

/// Characters of the longest integers that fit for sure.
const ALWAYS_FIT: usize = 18;
/// Characters of a number that an error shows.
const SHOWN: usize = 40;

/// The first integer of a JSON text that does not fit in 64 bits. What is not JSON has none, or any.
pub fn too_large(text: &[u8]) -> Option<&str> {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => at = end_of_text(text, at + 1),
            b'-' | b'0'..=b'9' => {
                let length = text[at..].iter().take_while(|byte| is_of_number(**byte)).count();
                let number = std::str::from_utf8(&text[at..at + length]).unwrap_or_default();
                if length > ALWAYS_FIT && is_too_large(number) {
                    return Some(number);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    None
}

/// Refuses such an integer. `what` is what was read, such as "the body".
pub fn check(text: &[u8], what: &str) -> Result<(), Failure> {
    match too_large(text) {
        None => Ok(()),
        Some(number) => {
            let message = format!("{what} has {}", described(number));
            Err(Failure::new(FailureKind::Invalid, "number_too_large", message).with_hint(HINT))
        }
    }
}

/// What to do about such an integer.
pub const HINT: &str = "write it as text, in quotes, or as a float such as 1e20";

/// A number that was refused, for an error.
fn described(number: &str) -> String {
    let shown: String = number.chars().take(SHOWN).collect();
    let more = if shown.len() < number.len() { "…" } else { "" };
    format!("the integer {shown}{more}, which does not fit in 64 bits")
}

/// Whether a plain integer, with a sign or without, does not fit.
pub fn is_too_large(number: &str) -> bool {
    let digits = number.strip_prefix(['-', '+']).unwrap_or(number);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err()
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E')
}

/// Behind the quote that ends a text.
fn end_of_text(text: &[u8], mut at: usize) -> usize {
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn integers_beyond_64_bits_are_found_and_nothing_else() {
        for (text, found) in [
            ("[18446744073709551615, -9223372036854775808]", None),
            ("{\"a\": [1, 18446744073709551616]}", Some("18446744073709551616")),
            ("-9223372036854775809", Some("-9223372036854775809")),
            ("{\"a\": \"18446744073709551616\", \"18446744073709551616\": 1}", None),
            ("\"\\\"18446744073709551616\"", None),
            ("18446744073709551616.0", None),
            ("184467440737095516160e2", None),
            ("\"", None),
            ("", None),
        ] {
            assert_eq!(too_large(text.as_bytes()), found, "{text}");
        }
        let failure = check(b"[123456789012345678901]", "the body").expect_err("too large");
        assert_eq!(failure.message, "the body has the integer 123456789012345678901, which does not fit in 64 bits");
    }

    proptest! {
        /// A text without such an integer keeps every number that it has.
        #[test]
        fn what_is_let_through_is_kept(numbers in prop::collection::vec("-?(0|[1-9][0-9]{0,24})", 0..6)) {
            let text = format!("[{}]", numbers.join(","));
            let value: Value = serde_json::from_str(&text).expect("JSON");
            let is_kept = |(number, value): (&String, &Value)| {
                let shown = value.to_string();
                *number == shown || number == "-0"
            };
            let kept = numbers.iter().zip(value.as_array().expect("a list")).all(is_kept);
            prop_assert_eq!(too_large(text.as_bytes()).is_none(), kept);
        }
    }
}
