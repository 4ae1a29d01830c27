//! The forms in which a known secret may appear: as it is, line by line, and in the encodings that tools commonly apply.
//! Nothing cleverer: a secret that is reversed, split, compressed or encoded twice is not recognised.

use std::fmt::Write as _;

/// Shorter values are not masked: they would mask ordinary words.
pub(crate) const SHORTEST: usize = 8;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FOR_URLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Every text that gives the secret away, each once: the secret, its lines, and each of them in JSON, base64, hex and URLs.
pub fn forms(secret: &str) -> Vec<String> {
    let secret = secret.trim();
    let mut forms = Vec::new();
    // The first and last lines of keys are the same in all keys.
    let lines = secret.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
    for value in std::iter::once(secret).chain(lines).filter(|value| value.len() >= SHORTEST) {
        forms.push(value.to_owned());
        forms.extend(in_json(value));
        forms.extend(in_base64(value.as_bytes()));
        forms.extend(in_hex(value.as_bytes()));
        forms.extend(in_urls(value));
    }
    forms.sort();
    forms.dedup();
    forms
}

/// A text as it stands between the quotes of JSON, when that is not the same.
fn in_json(text: &str) -> Option<String> {
    let quoted = serde_json::Value::from(text).to_string();
    let escaped = quoted.strip_prefix('"')?.strip_suffix('"')?;
    (escaped != text).then(|| escaped.to_owned())
}

/// The digits that depend on the value alone, for each place that it can have in a longer text, in both alphabets.
fn in_base64(bytes: &[u8]) -> impl Iterator<Item = String> {
    [STANDARD, FOR_URLS].into_iter().flat_map(move |alphabet| {
        (0..3).map(move |before: usize| {
            let (first, end) = ((before * 8).div_ceil(6), (before + bytes.len()) * 8 / 6);
            (first..end).map(|digit| char::from(alphabet[sextet(bytes, digit * 6 - before * 8)])).collect()
        })
    })
}

/// The six bits from `bit` on.
fn sextet(bytes: &[u8], bit: usize) -> usize {
    let byte = |at: usize| usize::from(bytes.get(at).copied().unwrap_or(0));
    let both = byte(bit / 8) << 8 | byte(bit / 8 + 1);
    both >> (10 - bit % 8) & 0x3f
}

fn in_hex(bytes: &[u8]) -> [String; 2] {
    let lower = bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a text takes everything");
        hex
    });
    let upper = lower.to_ascii_uppercase();
    [lower, upper]
}

/// Percent-encoded with either case of hex: strictly, as browsers encode a component, and as forms are sent.
fn in_urls(text: &str) -> impl Iterator<Item = String> {
    let kept = [b"-._~".as_slice(), b"-._~!*'()", b"-._*"];
    let ways = kept.into_iter().zip(["%20", "%20", "+"]);
    let encoded = ways.flat_map(move |(kept, space)| {
        [false, true].map(|lower| {
            let mut out = String::new();
            for byte in text.bytes() {
                match byte {
                    b' ' => out.push_str(space),
                    _ if byte.is_ascii_alphanumeric() || kept.contains(&byte) => out.push(char::from(byte)),
                    _ if lower => write!(out, "%{byte:02x}").expect("a text takes everything"),
                    _ => write!(out, "%{byte:02X}").expect("a text takes everything"),
                }
            }
            out
        })
    });
    encoded.filter(move |encoded| encoded != text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_are_those_that_other_programs_write() {
        let forms = forms("pass word/+?1");
        for form in [
            "pass word/+?1",
            "cGFzcyB3b3JkLys/M", // printf 'pass word/+?1' | base64
            "Bhc3Mgd29yZC8rPz",  // printf 'apass word/+?1b' | base64
            "wYXNzIHdvcmQvKz8x", // printf 'abpass word/+?1' | base64
            "cGFzcyB3b3JkLys_M", // for URLs
            "7061737320776f72642f2b3f31",
            "7061737320776F72642F2B3F31",
            "pass%20word%2F%2B%3F1",
            "pass%20word%2f%2b%3f1",
            "pass+word%2F%2B%3F1",
        ] {
            assert!(forms.iter().any(|known| known == form), "{form} is not in {forms:?}");
        }
    }

    #[test]
    fn lines_are_forms_of_their_own_and_frames_of_keys_are_not() {
        let forms = forms("-----BEGIN KEY-----\n first line of it \nshort\nsecond line of it\n-----END KEY-----");
        for (form, known) in
            [("first line of it", true), ("second line of it", true), ("short", false), ("-----BEGIN KEY-----", false)]
        {
            assert_eq!(forms.iter().any(|found| found == form), known, "{form}");
        }
    }
}
