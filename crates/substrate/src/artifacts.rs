//! Artifacts: named texts that the agents of a run tree write for each other and for the caller.
//!
//! They are values of the space [`ARTIFACTS`] whose owner is the tree (`run/ROOT`), two for each: `about/NAME` for lists and
//! `text/NAME` with the text. So a write happens once however often it is repeated, quotas are checked before the commit, and
//! everything goes when the tree is pruned.

use std::sync::Arc;

use drawloom_contract::{
    ids::{AgentName, Digest, RunId, RunKey},
    journal::StoreError,
    limits::{
        Amount::{Bytes, Count},
        Limit,
    },
    record::Seq,
    redact::Redactor,
    time::{Clock, Timestamp},
    tool::{ToolContext, ToolError},
    values::{ARTIFACTS, ChangeError, Expect, KeyValue, NewValue, Quota, Range, ValueChange, ValueKey, Within},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

mod name;
mod tool;

pub use name::{LONGEST_NAME, NameError, RESERVED, check_name};
pub use tool::TOOL;

/// Most bytes of one artifact.
pub const MOST_BYTES: usize = 512 * 1024;
/// Most artifacts of one tree.
pub const MOST_IN_TREE: u64 = 256;
/// Most bytes of all artifacts of one tree, with their names and descriptions.
pub const MOST_BYTES_IN_TREE: u64 = 32 * 1024 * 1024;

/// The limits of artifacts.
pub const LIMITS: &[Limit] = &[
    Limit::new(
        "artifact_bytes",
        Bytes(MOST_BYTES as u64),
        "tool_error",
        "Size of one artifact. A larger one is rejected.",
    ),
    Limit::new(
        "artifact_name_bytes",
        Bytes(LONGEST_NAME as u64),
        "tool_error",
        "Length of an artifact's name in bytes. A longer one is rejected.",
    ),
    Limit::new(
        "artifacts_per_tree",
        Count(MOST_IN_TREE),
        "over_quota",
        "Artifacts per run tree. Further ones are rejected; replacing an artifact does not count.",
    ),
    Limit::new(
        "artifact_bytes_per_tree",
        Bytes(MOST_BYTES_IN_TREE),
        "over_quota",
        "Total size of all artifacts of a run tree, including about 1 KiB of metadata for each. Further ones are \
         rejected.",
    ),
];

/// A text is kept as JSON, which has to fit into one value.
const TOO_MANY_ESCAPES: &str = "the text has too many quotes, line breaks or control characters for its length: \
    split it and write the parts under several names";

/// How often a replacement is tried again when another run replaced the same artifact in between.
const REPLACEMENTS: u32 = 8;

/// What an artifact is, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub name: String,
    pub media_type: String,
    pub bytes: u64,
    pub lines: u64,
    pub sha256: Digest,
    /// Who wrote it: the run, its agent and the call.
    pub run_id: RunId,
    pub agent: AgentName,
    pub call: Seq,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
}

/// What a write replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    pub sha256: Digest,
    pub run_id: RunId,
    pub revision: u64,
}

/// An artifact as it is kept under `text/NAME`: one read gives a text with the description that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    pub about: About,
    pub text: String,
}

/// What an agent wants to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub name: String,
    pub text: String,
    /// By the name's ending, when absent.
    pub media_type: Option<String>,
    pub if_exists: IfExists,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    Refuse,
    Replace,
}

/// Writes and reads artifacts.
#[derive(Clone)]
pub struct Artifacts {
    values: Arc<dyn KeyValue>,
    clock: Arc<dyn Clock>,
}

impl Artifacts {
    pub fn new(values: Arc<dyn KeyValue>, clock: Arc<dyn Clock>) -> Self {
        Self { values, clock }
    }

    /// Writes an artifact of the call's tree, once for the call. Gives what is told about it.
    pub async fn write(&self, context: &ToolContext, draft: Draft) -> Result<Value, ToolError> {
        let Draft { name, text, media_type, if_exists } = draft;
        check_new_name(&context.redactor, &name)?;
        let media_type = media_type.unwrap_or_else(|| name::media_type_of(&name).to_owned());
        name::check_media_type(&media_type).map_err(ToolError::Invalid)?;
        let text = String::clone(&context.redactor.clean(text));
        if text.len() > MOST_BYTES {
            let message = format!("the text has {} bytes; the limit for an artifact is {MOST_BYTES}", text.len());
            return Err(ToolError::Invalid(format!("{message}: split it and write the parts under several names")));
        }
        let tree = RunKey { tenant: context.run.tenant.clone(), run: context.root };
        let mut about = About {
            name,
            media_type,
            bytes: text.len() as u64,
            lines: text.lines().count() as u64,
            sha256: Digest::of(text.as_bytes()),
            run_id: context.run.run,
            agent: context.definition.name.clone(),
            call: context.call,
            at: self.clock.wall(),
            replaced: None,
        };
        for _ in 0..REPLACEMENTS {
            // With the key of the call a repeat is answered before anything is compared, so what this call wrote itself is
            // never in its way.
            let before = match if_exists {
                IfExists::Refuse => None,
                IfExists::Replace => self.find_about(&tree, &about.name).await.map_err(failed)?,
            };
            let expect = before.as_ref().map_or(Expect::Absent, |(_, revision)| Expect::Revision(*revision));
            about.replaced =
                before.map(|(about, revision)| Replaced { sha256: about.sha256, run_id: about.run_id, revision });
            let changes = changes(context, &tree, &about, &text, expect);
            match self.values.change(changes, Some(context.once(0, told(&about)))).await {
                Ok(applied) => return Ok(applied.answer),
                Err(ChangeError::Stale { .. }) if if_exists == IfExists::Replace => {}
                Err(ChangeError::Stale { .. }) => return Err(self.exists(&tree, &about.name).await),
                Err(ChangeError::TooLarge { .. }) => return Err(ToolError::Invalid(TOO_MANY_ESCAPES.into())),
                Err(error) => return Err(error.into()),
            }
        }
        let name = &about.name;
        Err(ToolError::Failed(format!("{name} is being replaced by other runs; read it and try again")))
    }

    async fn exists(&self, tree: &RunKey, name: &str) -> ToolError {
        let by = match self.find_about(tree, name).await {
            Ok(Some((about, _))) => format!(" (written by {}, run {})", about.agent, about.run_id),
            Ok(None) | Err(_) => String::new(),
        };
        ToolError::Failed(format!("artifact {name} already exists{by}; choose another name, or set replace: true"))
    }

    /// An artifact's description and revision.
    pub async fn find_about(&self, tree: &RunKey, name: &str) -> Result<Option<(About, u64)>, StoreError> {
        let found = self.values.find_value(&key(tree, "about", name), self.clock.wall()).await?;
        found.map(|kept| Ok((decode(kept.value)?, kept.revision))).transpose()
    }

    /// An artifact with its text.
    pub async fn find(&self, tree: &RunKey, name: &str) -> Result<Option<Artifact>, StoreError> {
        let found = self.values.find_value(&key(tree, "text", name), self.clock.wall()).await?;
        found.map(|kept| decode(kept.value)).transpose()
    }

    /// Artifacts by name, after a name, at most `limit`.
    pub async fn list(
        &self,
        tree: &RunKey,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<About>, StoreError> {
        let within =
            Within::Owner { tenant: tree.tenant.clone(), owner: owner(tree.run), prefix: format!("about/{prefix}") };
        let range = Range { space: ARTIFACTS, within };
        let after = after.map(|name| key(tree, "about", name));
        let found = self.values.list_values(&range, after.as_ref(), limit, self.clock.wall()).await?;
        found.into_iter().map(|(_, kept)| decode(kept.value)).collect()
    }
}

/// What a writer is told, and what a repeat is answered.
fn told(about: &About) -> Value {
    json!({
        "name": about.name,
        "media_type": about.media_type,
        "bytes": about.bytes,
        "lines": about.lines,
        "sha256": about.sha256,
        "replaced": about.replaced.as_ref().map(|replaced| &replaced.sha256),
    })
}

fn changes(context: &ToolContext, tree: &RunKey, about: &About, text: &str, expect: Expect) -> Vec<ValueChange> {
    // Both values of each artifact count.
    let quota = Quota { keys: 2 * MOST_IN_TREE, bytes: MOST_BYTES_IN_TREE };
    let put = |kind: &str, value: Value, expect: Expect| {
        let value = context.redactor.clean(value);
        let to = Some(NewValue { value, expires_at: None, quota: Some(quota), searched: None });
        ValueChange { key: key(tree, kind, &about.name), expect, to, at: about.at }
    };
    let whole = json!({ "about": about, "text": text });
    vec![put("about", json!(about), expect), put("text", whole, Expect::Anything)]
}

fn check_new_name(redactor: &Redactor, name: &str) -> Result<(), ToolError> {
    check_name(name).map_err(|error| ToolError::Invalid(error.to_string()))?;
    match redactor.clean(name.to_owned()).is_masked() {
        true => Err(ToolError::Invalid("the name contains a secret; choose another".into())),
        false => Ok(()),
    }
}

fn key(tree: &RunKey, kind: &str, name: &str) -> ValueKey {
    ValueKey { tenant: tree.tenant.clone(), space: ARTIFACTS, owner: owner(tree.run), key: format!("{kind}/{name}") }
}

fn owner(root: RunId) -> String {
    format!("run/{root}")
}

fn decode<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, StoreError> {
    serde_json::from_value(value)
        .map_err(|error| StoreError::Corrupt { store: "artifacts".into(), detail: error.to_string() })
}

fn failed(error: StoreError) -> ToolError {
    ToolError::Failed(error.to_string())
}

#[cfg(test)]
mod tests;
