//! `Write`: writes a whole text file inside a volume.

use std::io::{self, Read as _, Write as _};

use async_trait::async_trait;
use cap_std::fs::OpenOptions;
use drawloom_contract::{
    ids::Digest,
    tool::{Check, Mode, Repeat, Step, Tool, ToolCard, ToolContext, ToolError, Verdict},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::files::{Opened, failed, off_thread, open};

/// Most bytes that one call writes.
const MOST_BYTES: usize = 1024 * 1024;

pub(crate) struct Write;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Path inside a volume, absolute or relative; its directory must exist.
    path: String,
    /// The volume that a relative path is in; the default one when absent.
    volume: Option<String>,
    /// The whole new content, at most 1 MiB.
    content: String,
}

/// What the file was before, and what it will be: after a crash the file itself says which.
#[derive(Serialize, Deserialize)]
struct Evidence {
    before: Option<Digest>,
    after: Digest,
}

#[async_trait]
impl Tool for Write {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            "Write",
            "Write a whole text file, replacing what was there. The file changes in one step or not at all.",
        )
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Check(self)
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let input: Input = serde_json::from_value(input)?;
        let opened = open_for_writing(context, &input)?;
        let temporary = format!(".drawloom-{}-{}.tmp", context.run.run, context.call);
        off_thread(move || write(&opened, &input, &temporary)).await.map(Step::Done)
    }
}

#[async_trait]
impl Check for Write {
    async fn evidence(&self, context: &ToolContext, input: &Value) -> Result<Value, ToolError> {
        let input: Input = serde_json::from_value(input.clone())?;
        let opened = open_for_writing(context, &input)?;
        let after = Digest::of(input.content.as_bytes());
        let before = off_thread(move || digest(&opened)).await?;
        Ok(serde_json::to_value(Evidence { before, after })?)
    }

    async fn verdict(&self, context: &ToolContext, input: &Value, evidence: &Value) -> Verdict {
        let parsed = serde_json::from_value::<Input>(input.clone())
            .and_then(|input| Ok((input, serde_json::from_value::<Evidence>(evidence.clone())?)));
        let Ok((input, evidence)) = parsed else { return Verdict::InDoubt };
        let Ok(opened) = open_for_writing(context, &input) else { return Verdict::InDoubt };
        match off_thread(move || digest(&opened)).await {
            Ok(now) if now == Some(evidence.after) => Verdict::Happened(said(&input)),
            Ok(now) if now == evidence.before => Verdict::DidNot,
            Ok(_) | Err(_) => Verdict::InDoubt,
        }
    }
}

fn open_for_writing(context: &ToolContext, input: &Input) -> Result<Opened, ToolError> {
    if input.content.len() > MOST_BYTES {
        return Err(ToolError::Invalid(format!(
            "content has {} bytes; at most {MOST_BYTES} can be written at once",
            input.content.len()
        )));
    }
    let opened = open(context, input.volume.as_deref(), &input.path)?;
    match opened.place.mode {
        Mode::ReadWrite => Ok(opened),
        Mode::ReadOnly => {
            Err(ToolError::Denied(format!("{}: the volume `{}` is read-only", input.path, opened.place.volume)))
        }
    }
}

/// The digest of the file's content; nothing when there is no file.
fn digest(Opened { dir, place }: &Opened) -> Result<Option<Digest>, ToolError> {
    match dir.open(&place.path) {
        Ok(mut file) => {
            Digest::of_parts(|buffer| file.read(buffer)).map(Some).map_err(|error| failed(&place.path, &error))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&place.path, &error)),
    }
}

/// Writes beside the file, then renames: whoever reads sees the old content or the new one.
fn write(Opened { dir, place }: &Opened, input: &Input, temporary: &str) -> Result<String, ToolError> {
    let path = &place.path;
    let beside = path.with_file_name(temporary);
    let put = || -> io::Result<()> {
        let mut file = dir.open_with(&beside, OpenOptions::new().write(true).create(true).truncate(true))?;
        file.write_all(input.content.as_bytes())?;
        file.sync_all()?;
        dir.rename(&beside, dir, path)
    };
    match put() {
        Ok(()) => Ok(said(input)),
        Err(error) => {
            // What is left of the attempt is of no use to anybody; when it cannot be removed either, the first error tells.
            let _ = dir.remove_file(&beside);
            Err(failed(path, &error))
        }
    }
}

fn said(input: &Input) -> String {
    format!("wrote {} bytes to {}", input.content.len(), input.path)
}
