//! Large texts out of journal bodies and back.
//!
//! A body of up to 16 KiB stays whole. In a larger one, each string of more than 8 KiB is replaced by
//! `{"$blob":"<sha256>","bytes":n}` and kept once per tenant under that digest. A body that mentions `"$blob"` itself
//! becomes one blob as it is, so that what a caller wrote can never be taken for a reference of ours.

use std::{fmt::Write as _, ops::Range};

use drawloom_contract::ids::Digest;

/// Bodies up to this size stay whole.
pub(crate) const WHOLE_BODY: usize = 16 * 1024;

/// Texts of more bytes than this become blobs, in large bodies and in a run's row.
pub(crate) const LARGE_TEXT: usize = 8 * 1024;

const MARK: &str = "\"$blob\"";
const OPENING: &str = "{\"$blob\":\"";
const MIDDLE: &str = "\",\"bytes\":";

/// How a body is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As it is.
    Inline,
    /// With references to blobs.
    References,
    /// As the digest of a blob that is the body.
    Blob,
}

impl Form {
    /// Its number in the journal.
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Inline => 0,
            Self::References => 1,
            Self::Blob => 2,
        }
    }

    /// The form with this number.
    pub(crate) fn of(number: i64) -> Option<Self> {
        [Self::Inline, Self::References, Self::Blob].into_iter().find(|form| form.number() == number)
    }
}

/// A text under its digest.
#[derive(Debug)]
pub(crate) struct Blob {
    pub(crate) digest: Digest,
    pub(crate) text: String,
}

impl Blob {
    pub(crate) fn new(text: String) -> Self {
        Self { digest: Digest::of(text.as_bytes()), text }
    }
}

/// Takes the large texts out of a large body: JSON as `serde_json` writes it, in `body` from byte `start` on.
pub(crate) fn take_out(body: &mut String, start: usize, blobs: &mut Vec<Blob>) -> Form {
    let whole = body.split_off(start);
    if whole.contains(MARK) {
        let blob = Blob::new(whole);
        write!(body, "{}", blob.digest).expect("a String takes everything");
        blobs.push(blob);
        return Form::Blob;
    }
    let mut copied = 0;
    for place in large_strings(&whole) {
        let text: String = serde_json::from_str(&whole[place.clone()]).expect("a string that serde_json wrote");
        let blob = Blob::new(text);
        body.push_str(&whole[copied..place.start]);
        write!(body, "{OPENING}{}{MIDDLE}{}}}", blob.digest, blob.text.len()).expect("a String takes everything");
        copied = place.end;
        blobs.push(blob);
    }
    body.push_str(&whole[copied..]);
    if copied == 0 { Form::Inline } else { Form::References }
}

/// Puts the texts that `take_out` took out back in. `load` finds a blob's text; its error is passed on, and a reference
/// that is not one of ours is `malformed`.
pub(crate) fn put_back<E>(
    body: &str,
    form: Form,
    mut load: impl FnMut(Digest) -> Result<String, E>,
    malformed: impl Fn() -> E,
) -> Result<String, E> {
    match form {
        Form::Inline => Ok(body.to_owned()),
        Form::Blob => load(body.parse().map_err(|_| malformed())?),
        Form::References => {
            let mut whole = String::with_capacity(body.len() * 2);
            let mut rest = body;
            while let Some((before, reference)) = rest.split_once(OPENING) {
                let (digest, after) = reference.split_once(MIDDLE).ok_or_else(&malformed)?;
                let (_, after) = after.split_once('}').ok_or_else(&malformed)?;
                let text = load(digest.parse().map_err(|_| malformed())?)?;
                whole.push_str(before);
                whole.push_str(&serde_json::to_string(&text).expect("a string is always JSON"));
                rest = after;
            }
            whole.push_str(rest);
            Ok(whole)
        }
    }
}

/// The bytes of all texts that a body with references refers to, as the references say.
pub(crate) fn referenced_bytes(body: &str) -> usize {
    let lengths = body.split(OPENING).skip(1).filter_map(|reference| {
        let (_, after) = reference.split_once(MIDDLE)?;
        let (length, _) = after.split_once('}')?;
        length.parse::<usize>().ok()
    });
    lengths.fold(0, usize::saturating_add)
}

/// The string values in `json` of more than [`LARGE_TEXT`] bytes, with their quotes. Keys are left out.
fn large_strings(json: &str) -> Vec<Range<usize>> {
    let bytes = json.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'"' {
            at += 1;
            continue;
        }
        let start = at;
        at += 1;
        while bytes[at] != b'"' {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        at += 1;
        if at - start - 2 > LARGE_TEXT && bytes.get(at) != Some(&b':') {
            found.push(start..at);
        }
    }
    found
}
