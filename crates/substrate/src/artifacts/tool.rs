//! `Artifact`: writes, reads, searches and lists artifacts of the run's own tree.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{
    ids::RunKey,
    time::Clock,
    tool::{Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Artifact, Artifacts, Draft, IfExists, failed};
use crate::{
    excerpt::{PatternError, Place, Shape, cut, search, show},
    store_tools::StoreTool,
};

const NAME: &str = "Artifact";

pub const TOOL: StoreTool = StoreTool {
    name: NAME,
    gate: None,
    make: |parts| Arc::new(ArtifactTool { artifacts: parts.artifacts.clone(), clock: parts.clock.clone() }),
};

/// Bytes that one read gives when the model does not say.
const DEFAULT_READ: u64 = 16 * 1024;
/// Most bytes that one read gives: a model reads all of it.
const MAX_READ: u64 = 64 * 1024;
/// How long a search may take.
const SEARCH_TIME: Duration = Duration::from_secs(2);
const DEFAULT_MATCHES: u32 = 50;
const MAX_MATCHES: u32 = 1_000;
const MAX_CONTEXT: u32 = 20;
/// Artifacts that one list shows.
const LISTED: u32 = 100;

pub(super) struct ArtifactTool {
    pub(super) artifacts: Artifacts,
    pub(super) clock: Arc<dyn Clock>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// `write` saves a text under a name; `read` returns part of a text; `grep` returns matching lines; `list` returns names and sizes.
    op: Op,
    /// `write`, `read`, `grep`: the name: ASCII letters, digits and . _ - with / between parts, such as review/store.md.
    name: Option<String>,
    /// `write`: the text, at most 524,288 bytes.
    text: Option<String>,
    /// `write`: such as text/markdown; by default chosen from the name's extension.
    media_type: Option<String>,
    /// `write`: replace an existing artifact of this name; by default this is an error.
    replace: Option<bool>,
    /// `read`: the first line, from 1. Use this or `offset`.
    #[schemars(range(min = 1))]
    from_line: Option<u64>,
    /// `read`: maximum lines.
    #[schemars(range(min = 1))]
    lines: Option<u64>,
    /// `read`: the first byte, from 0: `next_offset` of the previous part.
    offset: Option<u64>,
    /// `read`, `grep`: maximum bytes; default 16,384, at most 65,536.
    #[schemars(range(min = 1, max = MAX_READ))]
    max_bytes: Option<u64>,
    /// `grep`: a regular expression.
    pattern: Option<String>,
    /// `grep`: context lines around each match, at most 20.
    #[schemars(range(max = MAX_CONTEXT))]
    context: Option<u32>,
    /// `grep`: maximum matches; default 50.
    #[schemars(range(min = 1, max = MAX_MATCHES))]
    max_matches: Option<u32>,
    /// `list`: only names that begin with this.
    prefix: Option<String>,
    /// `list`: only names after this one: the last name of the previous page.
    after: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Op {
    Write,
    Read,
    Grep,
    List,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Grep => "grep",
            Self::List => "list",
        }
    }

    /// The fields that belong to it.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Write => &["name", "text", "media_type", "replace"],
            Self::Read => &["name", "from_line", "lines", "offset", "max_bytes"],
            Self::Grep => &["name", "pattern", "context", "max_matches", "max_bytes"],
            Self::List => &["prefix", "after"],
        }
    }
}

#[async_trait]
impl Tool for ArtifactTool {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            NAME,
            "Save a named text for your caller and the other agents of this run's tree, and read texts that they \
             saved. Use it for results that are too long for your answer, and give the name in your answer. \
             Texts are read in parts: by line, by byte, or with grep.",
        )
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Keyed
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let given: Vec<String> = input.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
        let input: Input = serde_json::from_value(input)?;
        let (op, fields) = (input.op, input.op.fields());
        if let Some(other) = given.iter().find(|key| *key != "op" && !fields.contains(&key.as_str())) {
            let fields = fields.join(", ");
            return Err(ToolError::Invalid(format!("op={} does not take `{other}`; it takes {fields}", op.name())));
        }
        let tree = RunKey { tenant: context.run.tenant.clone(), run: context.root };
        let answer = match op {
            Op::Write => self.write(context, input).await?,
            Op::Read => read(&self.load(&tree, &input).await?, &input)?,
            Op::Grep => self.grep(self.load(&tree, &input).await?, input).await?,
            Op::List => self.list(&tree, &input).await?,
        };
        Ok(Step::done(answer.to_string()))
    }
}

impl ArtifactTool {
    async fn write(&self, context: &ToolContext, input: Input) -> Result<Value, ToolError> {
        let (Some(name), Some(text)) = (input.name, input.text) else {
            return Err(ToolError::Invalid("op=write requires `name` and `text`".into()));
        };
        let if_exists = if input.replace == Some(true) { IfExists::Replace } else { IfExists::Refuse };
        self.artifacts.write(context, Draft { name, text, media_type: input.media_type, if_exists }).await
    }

    async fn load(&self, tree: &RunKey, input: &Input) -> Result<Artifact, ToolError> {
        let Some(name) = &input.name else {
            return Err(ToolError::Invalid(format!("op={} requires `name`", input.op.name())));
        };
        let found = self.artifacts.find(tree, name).await.map_err(failed)?;
        found.ok_or_else(|| {
            ToolError::Failed(format!("unknown artifact {name:?} in this tree; use op=list to see the artifacts"))
        })
    }

    async fn grep(&self, artifact: Artifact, input: Input) -> Result<Value, ToolError> {
        let Some(pattern) = input.pattern else {
            return Err(ToolError::Invalid("op=grep requires `pattern`".into()));
        };
        let max_bytes = usize::try_from(most(input.max_bytes)).unwrap_or(usize::MAX);
        let shape = Shape {
            context: input.context.unwrap_or(0).min(MAX_CONTEXT) as usize,
            max_matches: input.max_matches.unwrap_or(DEFAULT_MATCHES).min(MAX_MATCHES) as usize,
            max_bytes,
        };
        let (clock, until) = (self.clock.clone(), self.clock.now().after(SEARCH_TIME));
        let searched = tokio::task::spawn_blocking(move || {
            let hits = search(&pattern, &artifact.text, || clock.now() > until)?;
            let shown = show(&artifact.text, &hits, shape);
            let name = artifact.about.name;
            Ok(json!({ "name": name, "text": shown.text, "matches": hits.lines.len(), "truncated": shown.truncated }))
        });
        match searched.await {
            Ok(answer) => {
                answer.map_err(|error: PatternError| ToolError::Invalid(format!("{error}; {}", error.hint())))
            }
            Err(error) => Err(ToolError::Failed(format!("search task failed: {error}"))),
        }
    }

    async fn list(&self, tree: &RunKey, input: &Input) -> Result<Value, ToolError> {
        let prefix = input.prefix.as_deref().unwrap_or_default();
        let mut found = self.artifacts.list(tree, prefix, input.after.as_deref(), LISTED + 1).await.map_err(failed)?;
        let more = found.len() > LISTED as usize;
        found.truncate(LISTED as usize);
        let shown: Vec<Value> = found
            .iter()
            .map(|about| {
                json!({
                    "name": about.name,
                    "media_type": about.media_type,
                    "bytes": about.bytes,
                    "lines": about.lines,
                    "agent": about.agent,
                    "at": about.at.to_rfc3339(),
                })
            })
            .collect();
        let after = found.last().filter(|_| more).map(|about| &about.name);
        Ok(json!({ "artifacts": shown, "more_after": after }))
    }
}

fn read(artifact: &Artifact, input: &Input) -> Result<Value, ToolError> {
    let place = Place {
        from_line: input.from_line,
        offset: input.offset,
        lines: input.lines,
        max_bytes: most(input.max_bytes),
    };
    let part = cut(&artifact.text, place).map_err(|error| ToolError::Invalid(error.to_string()))?;
    let about = &artifact.about;
    Ok(json!({
        "name": about.name,
        "bytes": about.bytes,
        "lines": about.lines,
        "text": part.text,
        "from_line": part.from_line,
        "next_offset": part.next_offset,
    }))
}

fn most(max_bytes: Option<u64>) -> u64 {
    max_bytes.unwrap_or(DEFAULT_READ).clamp(1, MAX_READ)
}
