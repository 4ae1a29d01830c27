//! `Grep`: finds text in files inside a volume, on ripgrep's own crates.

pub(crate) mod collect;
pub(crate) mod show;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use async_trait::async_trait;
use drawloom_contract::{
    gate::VOLUMES,
    redact::Redactor,
    tool::{Gates, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, SearcherBuilder};
use ignore::types::{Types, TypesBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    builtin::BuiltIn,
    files::{self, Opened, until_dropped},
    glob::compile,
    read::open_regular,
    search::{begin, elsewhere, walk},
    walk::{LeftOut, Scope},
};
use collect::{Collector, Reader, Wanted};

/// Results that one call shows when it does not say, and at most.
const USUAL_RESULTS: usize = 100;
pub(crate) const MOST_RESULTS: usize = 1000;

/// How many results can be skipped.
pub(crate) const MOST_OFFSET: usize = 10_000;

/// Most lines shown before or after a match.
pub(crate) const MOST_CONTEXT: usize = 50;

/// The most memory that one file's search may take: a file of one long line, or all of it when searched across lines.
pub(crate) const MOST_MEMORY: usize = 64 * 1024 * 1024;

/// The largest compiled pattern, in bytes.
pub(crate) const LARGEST_PATTERN: usize = 10 * 1024 * 1024;

pub(crate) const BUILT_IN: BuiltIn = BuiltIn::always("Grep", |_| Arc::new(Grep)).gated(VOLUMES);

pub(crate) struct Grep;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The regular expression (Rust syntax, similar to RE2).
    pattern: String,
    /// The file or directory to search, absolute or relative; defaults to the whole volume.
    path: Option<String>,
    /// The volume of a relative path; defaults to the default volume.
    volume: Option<String>,
    /// Only files whose path matches this glob, such as `*.rs` or `src/**/*.{ts,tsx}`; a leading `!` excludes them.
    glob: Option<String>,
    /// Only files of this type, such as `rust`, `py` or `js`.
    r#type: Option<String>,
    /// What to show.
    #[serde(default)]
    output_mode: OutputMode,
    /// Ignore case.
    #[serde(default, alias = "-i")]
    case_insensitive: bool,
    /// Let the pattern match across lines; `.` also matches line breaks.
    #[serde(default)]
    multiline: bool,
    /// `content`: lines to show before each match.
    #[serde(alias = "-B")]
    before: Option<usize>,
    /// `content`: lines to show after each match.
    #[serde(alias = "-A")]
    after: Option<usize>,
    /// `content`: lines to show before and after each match.
    #[serde(alias = "-C")]
    context: Option<usize>,
    /// Maximum results (matches for `content`, else files); default 100, at most 1000.
    head_limit: Option<usize>,
    /// Results to skip; the notice at the end of a truncated result says how to continue.
    #[serde(default)]
    offset: usize,
    /// Include files and directories that begin with a dot.
    #[serde(default)]
    hidden: bool,
    /// Include files excluded by ignore files.
    #[serde(default)]
    ignored: bool,
}

/// What is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    /// The paths of files with a match.
    #[default]
    FilesWithMatches,
    /// Matching lines with path and line number.
    Content,
    /// Number of matching lines per file.
    Count,
}

#[async_trait]
impl Tool for Grep {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            "Grep",
            "Search files with a regular expression. Paths are relative to the volume's root, sorted; hidden, \
             ignored and binary files are skipped. A truncated result ends with a notice on how to continue.",
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
        let plan = Plan::new(&input)?;
        let opened = begin(context, input.volume.as_deref(), input.path.as_deref())?;
        let elsewhere = elsewhere(context, input.volume.as_deref(), &opened);
        let redactor = context.redactor.clone();
        let mut said = until_dropped(move |stop| search(&opened, &plan, redactor, stop)).await?;
        said.extend(elsewhere.map(|notice| format!("\n{notice}")));
        Ok(Step::done(said))
    }
}

/// A search that has been checked.
struct Plan {
    matcher: RegexMatcher,
    searcher: SearcherBuilder,
    glob: Option<(GlobMatcher, Sense)>,
    types: Types,
    scope: Scope,
    wanted: Wanted,
}

/// Whether a pattern names what is wanted or what is not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sense {
    Only,
    Not,
}

impl Plan {
    fn new(input: &Input) -> Result<Self, ToolError> {
        let limit = input.head_limit.unwrap_or(USUAL_RESULTS);
        let context = [input.before, input.after, input.context].into_iter().flatten().max().unwrap_or(0);
        for (name, value, most) in [
            ("head_limit", limit, MOST_RESULTS),
            ("offset", input.offset, MOST_OFFSET),
            ("context", context, MOST_CONTEXT),
        ] {
            if value > most {
                return Err(ToolError::Invalid(format!("{name} must be at most {most}, not {value}")));
            }
        }
        let before = input.before.or(input.context).unwrap_or(0);
        let after = input.after.or(input.context).unwrap_or(0);
        let lines = input.output_mode == OutputMode::Content;
        let mut searcher = SearcherBuilder::new();
        searcher
            .line_number(lines)
            .before_context(if lines { before } else { 0 })
            .after_context(if lines { after } else { 0 })
            .multi_line(input.multiline)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MOST_MEMORY));
        Ok(Self {
            matcher: matcher(input)?,
            searcher,
            glob: input.glob.as_deref().map(filter).transpose()?,
            types: types(input.r#type.as_deref())?,
            scope: Scope { hidden: input.hidden, ignored: input.ignored },
            wanted: Wanted { mode: input.output_mode, offset: input.offset, limit: limit.max(1) },
        })
    }

    /// Whether a file's path passes the filters; `below` is seen from where the search began.
    fn fits(&self, below: &Path) -> bool {
        let by_glob = match &self.glob {
            Some((glob, sense)) => glob.is_match(below) == (*sense == Sense::Only),
            None => true,
        };
        by_glob && !self.types.matched(below, false).is_ignore()
    }
}

fn matcher(input: &Input) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(input.case_insensitive)
        .multi_line(true)
        .dot_matches_new_line(input.multiline)
        .size_limit(LARGEST_PATTERN)
        .dfa_size_limit(LARGEST_PATTERN);
    if !input.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&input.pattern).map_err(|error| {
        let hint = if input.pattern.contains('\n') || input.pattern.contains("\\n") {
            "; to match across lines, set multiline"
        } else {
            "; to search for literal text, escape special characters with \\"
        };
        ToolError::Invalid(format!("pattern: {error}{hint}"))
    })
}

/// A filter by path. Without a slash it is about names in any directory.
fn filter(glob: &str) -> Result<(GlobMatcher, Sense), ToolError> {
    let (sense, glob) = match glob.strip_prefix('!') {
        Some(rest) => (Sense::Not, rest),
        None => (Sense::Only, glob),
    };
    let glob = glob.strip_prefix('/').unwrap_or(glob);
    let glob = if glob.contains('/') { glob.to_owned() } else { format!("**/{glob}") };
    Ok((compile(&glob)?, sense))
}

fn types(name: Option<&str>) -> Result<Types, ToolError> {
    let mut builder = TypesBuilder::new();
    if let Some(name) = name {
        builder.add_defaults().select(name);
    }
    builder.build().map_err(|_| {
        let name = name.unwrap_or_default();
        ToolError::Invalid(format!("type: unknown file type {name:?}; use `glob`, such as *.{name}"))
    })
}

fn search(opened: &Opened, plan: &Plan, redactor: Arc<Redactor>, stop: Arc<AtomicBool>) -> Result<String, ToolError> {
    let collector = Collector::new(plan.wanted, redactor);
    let left_out = LeftOut::default();
    let path = &opened.place.path;
    if !path.as_os_str().is_empty() && opened.dir.metadata(path).is_ok_and(|metadata| !metadata.is_dir()) {
        let (file, _) = open_regular(opened)?;
        let mut searcher = plan.searcher.build();
        collector.search(&mut searcher, &plan.matcher, Reader { file: file.into_std(), stop: &stop }, path, &left_out);
    } else {
        let walk = walk(opened, plan.scope, stop.clone())?;
        let start: PathBuf = walk.path.clone();
        walk.run(&left_out, || {
            let (mut searcher, matcher) = (plan.searcher.build(), plan.matcher.clone());
            let (collector, left_out, stop, start) = (&collector, &left_out, &stop, &start);
            move |found| {
                if !plan.fits(found.path.strip_prefix(start).unwrap_or(found.path)) {
                    return;
                }
                match found.open() {
                    Ok(file) => {
                        collector.search(&mut searcher, &matcher, Reader { file, stop }, found.path, left_out);
                    }
                    Err(why) => left_out.skip(why),
                }
            }
        });
    }
    Ok(show::show(collector.finish(), plan.wanted, &left_out))
}
