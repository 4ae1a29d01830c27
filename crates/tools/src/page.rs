//! From what a server sent to text: character sets, and web pages as people would write them down.

mod writer;

use std::sync::atomic::{AtomicBool, Ordering};

use drawloom_net::guarded::Address;
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use html5gum::{DefaultEmitter, State, Token, Tokenizer};

pub(crate) use writer::MOST_TEXT;
use writer::Writer;

/// How far into a page its own word about its character set is looked for.
const CHARSET_WITHIN: usize = 2048;

/// A page to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) title: Option<String>,
    pub(crate) text: String,
    /// Whether the text was longer than can be kept.
    pub(crate) cut: bool,
}

/// Whether a type of content is text.
pub(crate) fn is_text(kind: &str) -> bool {
    let known =
        ["application/json", "application/javascript", "application/xml", "application/yaml", "application/toml"];
    kind.starts_with("text/")
        || is_html(kind)
        || known.contains(&kind)
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
}

/// Whether a type of content is a web page.
pub(crate) fn is_html(kind: &str) -> bool {
    matches!(kind, "text/html" | "application/xhtml+xml")
}

/// The bytes as text, in the character set that they, their type or the page itself name; nothing when they are not text.
pub(crate) fn decode(bytes: &[u8], kind: &str) -> Option<String> {
    let named = |text: &str| {
        let label = text.split("charset=").nth(1)?;
        let label = label.trim_start_matches(['"', '\'']).split(['"', '\'', ';', ' ', '>', '/']).next()?;
        Encoding::for_label(label.as_bytes())
    };
    let (encoding, bytes) = match Encoding::for_bom(bytes) {
        Some((encoding, length)) => (encoding, &bytes[length..]),
        None => {
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(CHARSET_WITHIN)]).to_ascii_lowercase();
            let own = || named(&start).filter(|_| kind.to_ascii_lowercase().contains("html"));
            let guess = || if whole_utf8(bytes) { UTF_8 } else { WINDOWS_1252 };
            (named(&kind.to_ascii_lowercase()).or_else(own).unwrap_or_else(guess), bytes)
        }
    };
    let (text, _) = encoding.decode_without_bom_handling(bytes);
    // No text holds a zero; what looked like an old character set was none.
    (!text.contains('\0')).then(|| text.into_owned())
}

/// Whether it is UTF-8, apart from a last character that a limit cut in two.
fn whole_utf8(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true)
}

/// A web page as text: headings, lists, code and links kept, everything that is not for reading left out. One pass, no
/// tree: no page can be too deep. It ends early when its caller stops waiting.
pub(crate) fn readable(html: &str, base: &Address, stop: &AtomicBool) -> Page {
    let mut writer = Writer::new(base);
    let mut emitter = DefaultEmitter::<()>::default();
    // What is in a script is no markup: `a<b` begins no tag there.
    emitter.naively_switch_states(true);
    let mut tokens = Tokenizer::new_with_emitter(html, emitter);
    while let Some(Ok(token)) = tokens.next() {
        if writer.is_full() || stop.load(Ordering::Relaxed) {
            break;
        }
        match token {
            Token::StartTag(tag) => {
                let name = String::from_utf8_lossy(&tag.name);
                if tag.self_closing && writer.is_foreign(&name) {
                    // It has no content, whatever an element of that name has elsewhere.
                    tokens.set_state(State::Data);
                    continue;
                }
                let attribute = |name: &str| {
                    let value = tag.attributes.iter().find(|(key, _)| key.as_slice() == name.as_bytes());
                    value.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
                };
                writer.start(&name, &attribute);
            }
            Token::EndTag(tag) => writer.end(&String::from_utf8_lossy(&tag.name)),
            Token::String(text) => writer.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    writer.finish()
}

#[cfg(test)]
mod tests;
