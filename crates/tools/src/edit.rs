//! `Edit`: replaces a piece of a text file inside a volume.

mod nearest;

use std::{io::Read as _, ops::Range, sync::Arc, sync::atomic::AtomicBool};

use async_trait::async_trait;
use drawloom_contract::{
    gate::WRITABLE_VOLUMES,
    ids::Digest,
    redact::Redactor,
    tool::{Check, Gates, Repeat, Step, Tool, ToolCard, ToolContext, ToolError, Verdict},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    builtin::BuiltIn,
    files::{self, Opened, Stoppable, failed, open_to_write},
    guard::check_write_path,
    read::open_regular,
    replace::{self, Change, MOST_BYTES, Notes, OnOthersChange, other_names, real_path},
};

/// Lines shown before and after the change.
const AROUND: usize = 3;

/// Most lines of the new text that are shown.
const MOST_SHOWN: usize = 30;

/// Most bytes of a line that are shown.
const LONGEST_LINE: usize = 300;

pub(crate) const BUILT_IN: BuiltIn =
    BuiltIn::always("Edit", |shared| Arc::new(Edit { notes: shared.notes.clone() })).gated(WRITABLE_VOLUMES);

pub(crate) struct Edit {
    pub(crate) notes: Notes,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Path inside a volume, absolute or relative.
    path: String,
    /// The volume of a relative path; defaults to the default volume.
    volume: Option<String>,
    /// The text to replace, exactly as in the file, without line numbers. It must occur once, unless
    /// `replace_all` is set.
    old_string: String,
    /// The replacement text.
    new_string: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
}

#[async_trait]
impl Tool for Edit {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            "Edit",
            "Replace text in a file of at most 1 MiB. Include enough surrounding lines to make old_string unique. \
             The change is atomic.",
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
        let redactor = context.redactor.clone();
        replace::change(context, opened, move |opened, stop| plan(opened, &input, &redactor, stop))
            .await
            .map(Step::done)
    }
}

#[async_trait]
impl Check for Edit {
    async fn evidence(&self, context: &ToolContext, input: &Value) -> Result<Option<Value>, ToolError> {
        let (opened, input) = prepare(context, input.clone())?;
        let redactor = context.redactor.clone();
        let plan = move |opened: &Opened, stop: &AtomicBool| plan(opened, &input, &redactor, stop);
        replace::stage(context, opened, self.notes.clone(), plan).await
    }

    async fn verdict(&self, context: &ToolContext, input: &Value, evidence: &Value) -> Verdict {
        let opened = prepare(context, input.clone()).map(|(opened, _)| opened);
        replace::verdict(context, opened, evidence, OnOthersChange::Replan).await
    }

    async fn discard(&self, context: &ToolContext) {
        replace::discard(context, self.notes.clone()).await;
    }
}

fn prepare(context: &ToolContext, input: Value) -> Result<(Opened, Input), ToolError> {
    let input: Input = serde_json::from_value(input)?;
    if input.old_string.is_empty() {
        return Err(ToolError::Invalid("old_string is empty; to create a file, use Write".into()));
    }
    if input.old_string == input.new_string {
        return Err(ToolError::Invalid("old_string and new_string are identical".into()));
    }
    Ok((open_to_write(context, input.volume.as_deref(), &input.path)?, input))
}

fn plan(opened: &Opened, input: &Input, redactor: &Redactor, stop: &AtomicBool) -> Result<Change, ToolError> {
    let path = real_path(opened)?;
    check_write_path(opened, &path)?;
    let shown = opened.place.path.display();
    let (file, size) = open_regular(opened)?;
    let too_large = |size: u64| {
        ToolError::Failed(format!("{shown}: the file has {size} bytes; the limit for Edit is {MOST_BYTES}"))
    };
    if size > MOST_BYTES as u64 {
        return Err(too_large(size));
    }
    let mut bytes = Vec::new();
    let mut file = Stoppable { file: file.take(MOST_BYTES as u64 + 1), stop };
    file.read_to_end(&mut bytes).map_err(|error| failed(&opened.place.path, &error))?;
    let before = Digest::of(&bytes);
    let text = String::from_utf8(bytes).map_err(|_| ToolError::Failed(format!("{shown}: not UTF-8 text")))?;
    let old = as_the_file_has_it(&text, &input.old_string);
    let places: Vec<usize> = text.match_indices(&old).map(|(at, _)| at).collect();
    let (first, note) = match places.as_slice() {
        [] => {
            let nearest = nearest::describe(&text, &old, redactor).map(|line| format!("; {line}")).unwrap_or_default();
            return Err(ToolError::Failed(format!("{shown}: old_string not found{nearest}")));
        }
        [one] => (*one, "replaced 1 occurrence".to_owned()),
        [first, ..] if input.replace_all => (*first, format!("replaced {} occurrences", places.len())),
        [..] => {
            let lines: Vec<String> = places.iter().take(10).map(|at| line_of(&text, *at).to_string()).collect();
            return Err(ToolError::Failed(format!(
                "{shown}: old_string occurs {} times (lines {}{}); include more surrounding text, or set replace_all",
                places.len(),
                lines.join(", "),
                if places.len() > 10 { ", …" } else { "" }
            )));
        }
    };
    let length = text.len() - places.len() * old.len() + places.len() * input.new_string.len();
    if length > MOST_BYTES {
        return Err(too_large(length as u64));
    }
    let (mut content, mut from, mut changed) = (String::with_capacity(length), 0, first..first);
    for at in places {
        let new = as_the_place_has_it(&text, at..at + old.len(), input);
        content.push_str(&text[from..at]);
        content.push_str(&new);
        from = at + old.len();
        changed.end = if at == first { first + new.len() } else { changed.end };
    }
    content.push_str(&text[from..]);
    if content.len() > MOST_BYTES {
        return Err(too_large(content.len() as u64));
    }
    let window = window(&content, changed, redactor);
    let names = other_names(opened, &path);
    let said = format!("{note} in {}; it now reads\n{window}{names}", input.path);
    Ok(Change { path, before: Some(before), content: content.into_bytes(), said })
}

/// The text to find, with the file's line ends: `Read` does not show a `\r`, so a model cannot know of it.
fn as_the_file_has_it(text: &str, old: &str) -> String {
    match old.contains('\r') || text.contains(old) {
        true => old.to_owned(),
        false => old.replace('\n', "\r\n"),
    }
}

/// The text to put there, with the line ends of the place: of what is replaced, or else of the line that it is in.
fn as_the_place_has_it(text: &str, place: Range<usize>, input: &Input) -> String {
    let (old, new) = (&text[place.clone()], &input.new_string);
    let ends_with_both = |text: &str| text.find('\n').map(|at| text[..at].ends_with('\r'));
    let before = || text[..place.start].rfind('\n').map(|at| text[..at].ends_with('\r'));
    let both = ends_with_both(old).or_else(|| ends_with_both(&text[place.end..])).or_else(before).unwrap_or(false);
    match both && !input.old_string.contains('\r') {
        true => new.replace("\r\n", "\n").replace('\n', "\r\n"),
        false => new.clone(),
    }
}

/// The number of the line that holds this byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The changed lines and a few around them, with their numbers.
fn window(text: &str, changed: Range<usize>, redactor: &Redactor) -> String {
    let (first, last) = (line_of(text, changed.start), line_of(text, changed.end));
    let from = first.saturating_sub(AROUND + 1);
    let lines: Vec<String> = text
        .lines()
        .enumerate()
        .skip(from)
        .take((last + AROUND - from).min(MOST_SHOWN))
        .map(|(index, line)| format!("{:>6}\t{}", index + 1, shorten(line, redactor)))
        .collect();
    let rest = (last + AROUND).min(text.lines().count()).saturating_sub(from + lines.len());
    let notice = if rest > 0 { format!("\n[truncated: {rest} more lines]") } else { String::new() };
    format!("{}{notice}", lines.join("\n"))
}

/// The line, cut and marked when it is long.
fn shorten(line: &str, redactor: &Redactor) -> String {
    match line.len() > LONGEST_LINE {
        true => {
            let begin = redactor.mask_part(line, 0..line.floor_char_boundary(LONGEST_LINE));
            format!("{begin}… [line truncated: {} bytes]", line.len())
        }
        false => line.to_owned(),
    }
}
