//! `Read`: returns lines of a text file inside a volume, with their numbers.

pub(crate) mod lines;

use std::{
    io::{Read as _, Seek, SeekFrom},
    ops::Range,
    path::Path,
    sync::Arc,
    sync::atomic::AtomicBool,
};

use async_trait::async_trait;
use cap_std::fs::{File, OpenOptions, OpenOptionsExt};
use drawloom_contract::{
    gate::VOLUMES,
    redact::Redactor,
    tool::{Gates, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use rustix::{fs::OFlags, io::Errno};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    builtin::BuiltIn,
    files::{self, Opened, Stoppable, failed, open, until_dropped},
    guard::check_read,
};

/// Most bytes that one call returns.
pub(crate) const MOST_BYTES: usize = 256 * 1024;

/// Most bytes of a character.
const LONGEST_CHARACTER: u64 = 4;

/// Most lines that one call returns when it does not say.
pub(crate) const USUAL_LINES: u64 = 2000;

pub(crate) const BUILT_IN: BuiltIn = BuiltIn::always("Read", |_| Arc::new(Read)).gated(VOLUMES);

pub(crate) struct Read;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Path inside a volume, absolute or relative.
    path: String,
    /// The volume of a relative path; defaults to the default volume.
    volume: Option<String>,
    /// The first line to return; default 1.
    offset: Option<u64>,
    /// Maximum lines to return; default 2000.
    limit: Option<u64>,
    /// Return exact text without line numbers; `offset` (from 0) and `limit` then count bytes. For very long lines.
    #[serde(default)]
    bytes: bool,
}

#[async_trait]
impl Tool for Read {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            "Read",
            "Read lines of a text file. Each line is prefixed with its number and a tab, which are not part of the \
             file. At most 256 KiB per call; a truncated result ends with a notice on how to continue.",
        )
    }

    fn card_for(&self, card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
        files::card_for(card, gates, &VOLUMES)
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let input: Input = serde_json::from_value(input)?;
        let opened = open(context, input.volume.as_deref(), &input.path)?;
        let redactor = context.redactor.clone();
        until_dropped(move |stop| read(&opened, &input, &redactor, &stop)).await.map(Step::done)
    }
}

fn read(opened: &Opened, input: &Input, redactor: &Redactor, stop: &AtomicBool) -> Result<String, ToolError> {
    let path = &opened.place.path;
    let (file, size) = open_regular(opened)?;
    if size == 0 && input.offset.unwrap_or(0) <= 1 {
        return Ok("[the file is empty]".into());
    }
    if input.bytes {
        return exact(opened, file, size, input, redactor);
    }
    let first = input.offset.unwrap_or(1).max(1);
    let file = Stoppable { file, stop };
    let limit = input.limit.unwrap_or(USUAL_LINES).max(1);
    lines::numbered(file, first, limit, MOST_BYTES, redactor).map_err(|error| match error {
        lines::Error::Io(error) => failed(path, &error),
        lines::Error::NotText(reason) => ToolError::Failed(format!("{}: {reason}", path.display())),
    })
}

/// Opens a regular file. Whatever else has that name is not waited for: a pipe without a writer would block for ever.
pub(crate) fn open_regular(opened: &Opened) -> Result<(File, u64), ToolError> {
    let path = &opened.place.path;
    let found = find_regular(opened, path)?;
    found.ok_or_else(|| failed(path, &std::io::ErrorKind::NotFound.into()))
}

/// The same for another path in the volume, if anything is there.
pub(crate) fn find_regular(Opened { dir, place }: &Opened, path: &Path) -> Result<Option<(File, u64)>, ToolError> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = match dir.open_with(path, &options) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // What a device or a socket says to being opened like this.
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => return Err(not_regular(path)),
        Err(error) => return Err(failed(path, &error)),
    };
    check_read(&place.guarded, path, &file)?;
    let metadata = file.metadata().map_err(|error| failed(path, &error))?;
    match metadata.is_file() {
        true => Ok(Some((file, metadata.len()))),
        false => Err(not_regular(path)),
    }
}

fn not_regular(path: &Path) -> ToolError {
    ToolError::Failed(format!("{}: not a regular file", path.display()))
}

/// Bytes of the file. What is read around them shows whether they begin or end inside a secret.
fn exact(opened: &Opened, mut file: File, size: u64, input: &Input, redactor: &Redactor) -> Result<String, ToolError> {
    let path = &opened.place.path;
    let from = input.offset.unwrap_or(0);
    // A character has at most four bytes; fewer than that may show nothing, and a reader that goes on from there never ends.
    let limit = input.limit.unwrap_or(MOST_BYTES as u64).clamp(LONGEST_CHARACTER, MOST_BYTES as u64);
    let reach = redactor.reach() as u64;
    let before = from.min(reach);
    file.seek(SeekFrom::Start(from - before)).map_err(|error| failed(path, &error))?;
    let mut around = Vec::new();
    file.take(before + limit + reach).read_to_end(&mut around).map_err(|error| failed(path, &error))?;
    let start = usize::try_from(before).unwrap_or(usize::MAX).min(around.len());
    let bytes = &around[start..around.len().min(start + usize::try_from(limit).unwrap_or(MOST_BYTES))];
    let Some(text) = whole_characters(bytes) else {
        return Err(ToolError::Failed(format!("{}: not UTF-8 text from byte {from} on", path.display())));
    };
    if text.is_empty() && !bytes.is_empty() {
        return Err(ToolError::Failed(format!(
            "{}: the file ends in the middle of a character, at byte {from}",
            path.display()
        )));
    }
    let end = from + text.len() as u64;
    let text = masked(redactor, &around, start..start + text.len());
    Ok(match end < size {
        true => format!("{text}\n[truncated: bytes {from} to {end} of {size}; continue with offset={end}]"),
        false => text,
    })
}

/// The part of the bytes that is shown, which is text, with its secrets masked. What is around it may be cut anywhere.
fn masked(redactor: &Redactor, around: &[u8], part: Range<usize>) -> String {
    let is_inside = |at: usize| around.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let first = (0..part.start).find(|at| !is_inside(*at)).unwrap_or(part.start);
    let text = |range: Range<usize>| match std::str::from_utf8(&around[range.clone()]) {
        Ok(text) => text.to_owned(),
        // Bytes that are not text hold no known secret, and keep their length like this.
        Err(_) => around[range].iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect(),
    };
    let [before, shown, after] = [first..part.start, part.clone(), part.end..around.len()].map(text);
    let begin = before.len();
    redactor.mask_part(&format!("{before}{shown}{after}"), begin..begin + shown.len())
}

/// The text without a character that the limit cut in two; nothing when it is not text.
fn whole_characters(bytes: &[u8]) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok(),
        Err(_) => None,
    }
}
