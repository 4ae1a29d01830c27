//! `Write`: writes a whole text file inside a volume.

use std::{path::Path, sync::Arc, sync::atomic::AtomicBool};

use async_trait::async_trait;
use drawloom_contract::{
    gate::WRITABLE_VOLUMES,
    tool::{Check, Gates, Repeat, Step, Tool, ToolCard, ToolContext, ToolError, Verdict},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    builtin::BuiltIn,
    files::{self, Opened, open_to_write},
    guard::check_write_path,
    replace::{self, Change, MOST_BYTES, Notes, OnOthersChange, digest, other_names, real_path},
};

pub(crate) const BUILT_IN: BuiltIn =
    BuiltIn::always("Write", |shared| Arc::new(Write { notes: shared.notes.clone() })).gated(WRITABLE_VOLUMES);

pub(crate) struct Write {
    pub(crate) notes: Notes,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Path inside a volume, absolute or relative; missing directories are created.
    path: String,
    /// The volume of a relative path; defaults to the default volume.
    volume: Option<String>,
    /// The whole new content, at most 1 MiB.
    content: String,
}

#[async_trait]
impl Tool for Write {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            "Write",
            "Write a text file, replacing its content if it exists. The change is atomic. To change part of a file, \
             use Edit.",
        )
    }

    fn card_for(&self, card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
        files::card_for(card, gates, &WRITABLE_VOLUMES)
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Check(self)
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let (opened, input) = prepare(context, input)?;
        replace::change(context, opened, move |opened, stop| plan(opened, input, stop)).await.map(Step::done)
    }
}

#[async_trait]
impl Check for Write {
    async fn evidence(&self, context: &ToolContext, input: &Value) -> Result<Option<Value>, ToolError> {
        let (opened, input) = prepare(context, input.clone())?;
        let plan = move |opened: &Opened, stop: &AtomicBool| plan(opened, input, stop);
        replace::stage(context, opened, self.notes.clone(), plan).await
    }

    async fn verdict(&self, context: &ToolContext, input: &Value, evidence: &Value) -> Verdict {
        let opened = prepare(context, input.clone()).map(|(opened, _)| opened);
        replace::verdict(context, opened, evidence, OnOthersChange::Fail).await
    }

    async fn discard(&self, context: &ToolContext) {
        replace::discard(context, self.notes.clone()).await;
    }
}

fn prepare(context: &ToolContext, input: Value) -> Result<(Opened, Input), ToolError> {
    let input: Input = serde_json::from_value(input)?;
    if input.content.len() > MOST_BYTES {
        return Err(ToolError::Invalid(format!(
            "content has {} bytes; the limit is {MOST_BYTES}",
            input.content.len()
        )));
    }
    Ok((open_to_write(context, input.volume.as_deref(), &input.path)?, input))
}

fn plan(opened: &Opened, input: Input, stop: &AtomicBool) -> Result<Change, ToolError> {
    let path = real_path(opened)?;
    check_write_path(opened, &path)?;
    let before = digest(opened, &path, stop)?;
    let made = missing_parent(opened, &path).map(|parent| format!(" (created the directory {})", parent.display()));
    let names = other_names(opened, &path);
    let said = format!("wrote {} bytes to {}{}{names}", input.content.len(), input.path, made.unwrap_or_default());
    Ok(Change { path, before, content: input.content.into_bytes(), said })
}

/// The directory of a file, when it is not there yet.
fn missing_parent<'a>(Opened { dir, .. }: &Opened, path: &'a Path) -> Option<&'a Path> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty())?;
    (!dir.exists(parent)).then_some(parent)
}
