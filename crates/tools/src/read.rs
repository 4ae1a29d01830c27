//! `Read`: returns part of a text file inside a volume.

use std::io::{Read as _, Seek, SeekFrom};

use async_trait::async_trait;
use drawloom_contract::tool::{Repeat, Step, Tool, ToolCard, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::files::{Opened, failed, off_thread, open};

/// Most bytes that one call returns.
const MOST_BYTES: u64 = 256 * 1024;

pub(crate) struct Read;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Path inside a volume, absolute or relative.
    path: String,
    /// The volume that a relative path is in; the default one when absent.
    volume: Option<String>,
    /// Byte to start at; 0 when absent. The notice at the end of a cut result says where to go on.
    #[serde(default)]
    offset: u64,
    /// Most bytes to return; 262144 when absent, and never more.
    limit: Option<u64>,
}

#[async_trait]
impl Tool for Read {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            "Read",
            "Read part of a text file. At most 256 KiB at once; a cut result ends with a notice that says how to read on.",
        )
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let input: Input = serde_json::from_value(input)?;
        let opened = open(context, input.volume.as_deref(), &input.path)?;
        off_thread(move || read(&opened, &input)).await.map(Step::Done)
    }
}

fn read(Opened { dir, place }: &Opened, input: &Input) -> Result<String, ToolError> {
    let path = &place.path;
    let mut file = dir.open(path).map_err(|error| failed(path, &error))?;
    let metadata = file.metadata().map_err(|error| failed(path, &error))?;
    if !metadata.is_file() {
        return Err(ToolError::Failed(format!("{}: this is not a regular file", path.display())));
    }
    let limit = input.limit.unwrap_or(MOST_BYTES).min(MOST_BYTES);
    file.seek(SeekFrom::Start(input.offset)).map_err(|error| failed(path, &error))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(|error| failed(path, &error))?;
    let end = input.offset + bytes.len() as u64;
    let text = match whole_characters(&bytes) {
        Some(text) => text,
        None => return Err(ToolError::Failed(format!("{}: this is not UTF-8 text", path.display()))),
    };
    let end = end - (bytes.len() - text.len()) as u64;
    let size = metadata.len();
    Ok(match end < size {
        true => format!("{text}\n[cut: bytes {} to {end} of {size}; go on with offset={end}]", input.offset),
        false => text.to_owned(),
    })
}

/// The text without a character that the limit cut in two; nothing when it is not text.
fn whole_characters(bytes: &[u8]) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok(),
        Err(_) => None,
    }
}
