//! `Glob`: finds files inside a volume by their names.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
};

use async_trait::async_trait;
use drawloom_contract::{
    gate::VOLUMES,
    tool::{Gates, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    builtin::BuiltIn,
    files::{self, Opened, shown, until_dropped},
    search::{begin, elsewhere, walk},
    walk::{LeftOut, Scope},
};

/// Most files that one call names.
pub(crate) const MOST_FILES: usize = 100;

pub(crate) const BUILT_IN: BuiltIn = BuiltIn::always("Glob", |_| Arc::new(Glob)).gated(VOLUMES);

pub(crate) struct Glob;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Glob pattern relative to `path`: `**` for any directories, `*`, `?`, `[a-z]`, `{rs,toml}`. It can
    /// be absolute.
    pattern: String,
    /// The directory to search, absolute or relative; defaults to the whole volume.
    path: Option<String>,
    /// The volume of a relative path; defaults to the default volume.
    volume: Option<String>,
    /// Include files and directories that begin with a dot.
    #[serde(default)]
    hidden: bool,
    /// Include files excluded by ignore files.
    #[serde(default)]
    ignored: bool,
}

#[async_trait]
impl Tool for Glob {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            "Glob",
            "Find files by a glob pattern such as src/**/*.rs. Returns at most 100 paths relative to the volume's \
             root, newest first; hidden and ignored files are skipped unless requested.",
        )
    }

    fn card_for(&self, card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
        files::card_for(card, gates, &VOLUMES)
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let mut input: Input = serde_json::from_value(input)?;
        if let Some((directory, rest)) = split_absolute(&input.pattern) {
            if input.path.is_some() {
                return Err(ToolError::Invalid("pattern is absolute: omit `path`".into()));
            }
            (input.path, input.pattern) = (Some(directory), rest);
        }
        let matcher = compile(&input.pattern)?;
        let opened = begin(context, input.volume.as_deref(), input.path.as_deref())?;
        let elsewhere = elsewhere(context, input.volume.as_deref(), &opened);
        let scope = Scope { hidden: input.hidden, ignored: input.ignored };
        let mut said = until_dropped(move |stop| find(&opened, scope, &matcher, stop)).await?;
        said.extend(elsewhere);
        Ok(Step::done(said.join("\n")))
    }
}

/// The directory that an absolute pattern begins with, up to the first part with a special character, and the rest.
fn split_absolute(pattern: &str) -> Option<(String, String)> {
    let parts: Vec<&str> = pattern.strip_prefix('/')?.split('/').collect();
    let plain =
        parts.iter().take(parts.len() - 1).take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])).count();
    Some((format!("/{}", parts[..plain].join("/")), parts[plain..].join("/")))
}

/// The pattern as a matcher in which `*` stays within one directory.
pub(crate) fn compile(pattern: &str) -> Result<GlobMatcher, ToolError> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    if pattern.is_empty() || pattern.split('/').any(|part| part == "..") {
        return Err(ToolError::Invalid(format!("invalid pattern {pattern:?}: it must not be empty or contain \"..\"")));
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| ToolError::Invalid(format!("pattern: {error}")))
}

/// The newest files so far.
#[derive(Default)]
struct Newest {
    heap: BinaryHeap<Reverse<Entry>>,
    total: u64,
}

/// A file by its age; of the same age, the first by name counts as newer.
type Entry = ((i64, i64), Reverse<PathBuf>);

impl Newest {
    fn add(&mut self, modified: (i64, i64), path: &Path) {
        self.total += 1;
        self.heap.push(Reverse((modified, Reverse(path.to_owned()))));
        if self.heap.len() > MOST_FILES {
            self.heap.pop();
        }
    }
}

fn find(opened: &Opened, scope: Scope, matcher: &GlobMatcher, stop: Arc<AtomicBool>) -> Result<Vec<String>, ToolError> {
    let walk = walk(opened, scope, stop)?;
    let (start, newest, left_out) = (walk.path.clone(), Mutex::new(Newest::default()), LeftOut::default());
    walk.run(&left_out, || {
        |found| {
            let below = found.path.strip_prefix(&start).unwrap_or(found.path);
            if !matcher.is_match(below) {
                return;
            }
            match found.modified() {
                Ok(modified) => newest.lock().unwrap_or_else(PoisonError::into_inner).add(modified, found.path),
                Err(why) => left_out.skip(why),
            }
        }
    });
    let Newest { heap, total } = newest.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Sorted by the reverse, the newest comes first.
    let mut said: Vec<String> =
        heap.into_sorted_vec().into_iter().map(|Reverse((_, Reverse(path)))| shown(&path)).collect();
    if said.is_empty() {
        said.push("[no files match]".into());
    }
    if total > said.len() as u64 {
        said.push(format!("[truncated: the newest {} of {total} files; use a narrower pattern or path]", said.len()));
    }
    said.extend(left_out.notices());
    Ok(said)
}
