//! The seam to tools.

use std::{ffi::OsString, fs::File, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    activity::Progress,
    definition::Definition,
    failure::Explain,
    ids::{RunId, RunKey, Tenant, UserId},
    money::Cost,
    once::{CallEffect, Once},
    record::{Collect, RepeatClass, Seq},
    redact::Redactor,
    runs::Start,
    suggest::meant,
    time::Timestamp,
    usage::Usage,
    values::ChangeError,
    wait::Wait,
};

/// Maximum bytes of a result in the journal. Text for a model is cut to that; a result for an executor is an error beyond it.
pub const MAX_RESULT_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone, PartialEq)]
pub struct ToolCard {
    pub name: String,
    pub description: String,
    /// Shared by the cards of all runs.
    pub input_schema: Arc<Value>,
}

impl ToolCard {
    /// A card whose schema comes from the input's type.
    pub fn new<I: JsonSchema>(name: &str, description: &str) -> Self {
        let mut schema = schemars::SchemaGenerator::default().into_root_schema_for::<I>().to_value();
        if let Some(map) = schema.as_object_mut() {
            map.remove("$schema");
            map.remove("title");
        }
        Self { name: name.into(), description: description.into(), input_schema: schema.into() }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Gates<'a> {
    pub definition: &'a Definition,
    pub hosts: &'a [String],
}

/// What a tool may know of the call it serves; it carries the caller's gates.
#[derive(Clone)]
pub struct ToolContext {
    pub run: RunKey,
    /// The call: with the run, the key of its effects.
    pub call: Seq,
    /// When the call was journaled: the same however often it is made again.
    pub began: Timestamp,
    pub root: RunId,
    pub user: UserId,
    pub depth: u32,
    pub definition: Arc<Definition>,
    /// The hosts that the definition and the root's request leave: exact names, `*.suffix`, or `*`. The operator's own
    /// list narrows them further.
    pub hosts: Arc<[String]>,
    pub volumes: Arc<dyn Volumes>,
    /// What masks secrets. The engine masks every result; a tool that cuts a text masks it before, because a part of a
    /// secret is not recognised.
    pub redactor: Arc<Redactor>,
    /// What [`Check::evidence`] gave for this call.
    pub evidence: Option<Value>,
    /// Why a call that waited is made again.
    pub woken: Option<Woken>,
    /// Where the call can report what it does now.
    pub progress: Arc<dyn Progress>,
}

impl ToolContext {
    /// Whose volumes the call may use.
    pub fn holder(&self) -> Holder<'_> {
        Holder { tenant: &self.run.tenant, root: self.root, definition: &self.definition }
    }

    /// The key of one effect of this call on our own store, with what a repeat is answered.
    pub fn once(&self, part: u32, answer: Value) -> Once {
        let answer = self.redactor.clean(answer);
        Once::Call(CallEffect { run: self.run.clone(), call: self.call, part, answer })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Done(CallResult),
    /// It waits for logs, values or a time, and is called again under the same key when one of them has come. Only a tool whose
    /// calls may be repeated can wait. A tool never blocks.
    Wait(Wait),
    /// It starts children in the commit that begins the wait for them; their ends become its result.
    Spawn {
        starts: Vec<Start>,
        collect: Collect,
    },
}

impl Step {
    pub fn done(text: impl Into<String>) -> Self {
        Self::Done(CallResult { text: text.into(), cost: None, usage: Usage::default() })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallResult {
    pub text: String,
    pub cost: Option<Cost>,
    /// Tokens that the call itself used, of a tool that asks a model.
    pub usage: Usage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// A log or a value that it named may have changed.
    ByCause,
    /// Its time has come. The wall clock may say otherwise: it may have been set.
    ByTime,
}

/// A call that failed. The model is told, so that it can do better; the run goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Denied(String),
    #[error("{0}")]
    Failed(String),
}

impl From<ChangeError> for ToolError {
    fn from(error: ChangeError) -> Self {
        Self::Failed(format!("{}: {error}", error.code()))
    }
}

impl From<serde_json::Error> for ToolError {
    fn from(error: serde_json::Error) -> Self {
        let message = error.to_string();
        let guess = meant(&message).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
        Self::Invalid(format!("invalid tool input: {message}{guess}"))
    }
}

/// What resume may do when a call's outcome is unknown, as [`RepeatClass`] says it.
pub enum Repeat<'a> {
    Safe,
    Keyed,
    Check(&'a dyn Check),
    Never,
    /// Like `Never`, once the call can have no effect any more: it may go on for a while after the process that made it.
    Outlives(&'a dyn Outlives),
}

impl Repeat<'_> {
    pub fn class(&self) -> RepeatClass {
        match self {
            Self::Safe => RepeatClass::Safe,
            Self::Keyed => RepeatClass::Keyed,
            Self::Check(_) => RepeatClass::Check,
            Self::Never | Self::Outlives(_) => RepeatClass::Never,
        }
    }
}

/// What the evidence says after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Happened(String),
    /// It did not; do it.
    DidNot,
    /// It did not and must not any more; this is the error to report.
    Failed(String),
    InDoubt,
}

/// Evidence for a call: taken before, asked after a crash.
#[async_trait]
pub trait Check: Send + Sync {
    /// What will say later whether the call happened; it goes into the intent, and into the context of the call. `None`
    /// when nothing could say it for this call: then its class is `Never`. A call whose evidence cannot be taken fails with
    /// that error and is not made.
    async fn evidence(&self, context: &ToolContext, input: &Value) -> Result<Option<Value>, ToolError>;

    /// Whether the call happened.
    async fn verdict(&self, context: &ToolContext, input: &Value, evidence: &Value) -> Verdict;

    /// Removes what was put aside as evidence. Called once the call's result is journaled, never before: until then its
    /// absence may be what says that the call happened. A process that ends in between does not call it. Whatever it must
    /// know is not asked from the journal, which may have masked it.
    async fn discard(&self, context: &ToolContext);
}

/// Whether a call of an earlier process can still have an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Yes,
    /// It may: it had not ended after this time.
    NotWithin(Duration),
}

/// Calls that may go on after the process that made them has ended.
#[async_trait]
pub trait Outlives: Send + Sync {
    /// Waits, for a bounded time, until the call can have no effect any more.
    async fn until_over(&self, context: &ToolContext) -> Over;
}

#[async_trait]
pub trait Tool: Send + Sync {
    /// What a model is told of it.
    fn card(&self) -> ToolCard;

    /// The card for the model of one agent, with what its gates allow: the agents that it may spawn and its volumes. An error
    /// names the gate that leaves nothing to do with the tool; then the model is not offered it.
    fn card_for(&self, card: &ToolCard, _: Gates<'_>) -> Result<ToolCard, String> {
        Ok(card.clone())
    }

    /// What resume may do when the outcome is unknown.
    fn repeat(&self) -> Repeat<'_>;

    /// The most money that the call itself may cost. It is reserved in the tree's budget before the call, which is refused when
    /// the budget has less.
    fn most_cost(&self, _: &ToolContext, _: &Value) -> Option<Cost> {
        None
    }

    /// Conditions of this call that its journal should show, such as how a command is confined. Nothing for most tools.
    fn conditions(&self, _: &ToolContext) -> Option<String> {
        None
    }

    /// Does it. A panic in here fails the call, not the process.
    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError>;
}

/// Tools that are known only after another server was asked, such as an outside MCP server.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// What the names of all its tools begin with; no other source has the same.
    fn prefix(&self) -> &str;

    /// What it offers now. A caller that asks before that is known waits for a bounded time; afterwards the
    /// answer comes at once, until something has changed or may have. It never fails: a source that cannot be reached offers
    /// nothing and says why.
    async fn offer(&self) -> Arc<Offer>;

    /// Ends its connection, when the process stops and its tools are not called any more. It takes a few
    /// seconds at most; a further call does nothing.
    async fn leave(&self);
}

/// What a source offers. The same offer is the same value behind the `Arc`.
#[derive(Clone, Default)]
pub struct Offer {
    /// The tools, each under a name of its own that begins with the source's prefix.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Why there is nothing, when the source cannot be reached.
    pub unavailable: Option<String>,
    /// What was left out or changed, and why.
    pub remarks: Vec<Remark>,
}

/// What became of a tool that a source has but that cannot be offered as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The tool's name, as far as it can be a name; the source's prefix when the remark is about many.
    pub tool: String,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    ReadOnly,
    ReadWrite,
}

/// What agents may do with a guarded file, in every volume and with every tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    /// Read it; never change, replace, rename or remove it. The server's config files.
    ReadOnly,
    /// As `ReadOnly`, and the file did not exist at the start. While it does not, write tools refuse to create it, but a command
    /// may: it counts only after a restart, and within what the operator granted.
    Absent,
    /// Nothing: not read it, not change it, and not create it while it does not exist. The `.env` beside a config file.
    Hidden,
}

/// A file that the server protects from agents. Compare identities (device and inode) when a call is made: another name,
/// a link or another volume may lead to the same file.
#[derive(Debug, Clone)]
pub struct Guarded {
    /// The directory that holds the file, open; it stays the same when a directory above it is renamed.
    pub directory: Arc<File>,
    /// The file's name in that directory. The file need not exist.
    pub name: OsString,
    /// The file's path relative to the volume's root; `None` when the volume does not contain it.
    pub path: Option<PathBuf>,
    pub rule: Guard,
}

/// A path inside a volume. File I/O goes through the handle; nothing is opened by its full path.
#[derive(Debug, Clone)]
pub struct Place {
    pub volume: String,
    pub root: Arc<File>,
    pub mode: Mode,
    /// Files that agents may not change or read, whatever `mode` says.
    pub guarded: Arc<[Guarded]>,
    /// What commands there get besides.
    pub beside: Arc<Beside>,
    /// Where in it, relative, without `..`; empty for the volume itself.
    pub path: PathBuf,
}

/// What commands in a volume get besides the volume itself. Nothing in most volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beside {
    pub environment: Vec<(String, String)>,
    pub readable: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
}

/// Whose volumes are meant.
#[derive(Debug, Clone, Copy)]
pub struct Holder<'a> {
    pub tenant: &'a Tenant,
    /// The root of the run's tree: volumes that belong to one tree are found by it.
    pub root: RunId,
    pub definition: &'a Definition,
}

/// Decides which volume a path is in, for one definition's gates.
pub trait Volumes: Send + Sync {
    /// The place that `path` names: absolute and inside an allowed volume, or relative to the named volume, or to the
    /// only or default one when `volume` is absent. The same place gives the same answer in each spelling; a path outside
    /// is an error that says so and names the volumes that there are.
    fn locate(&self, holder: Holder<'_>, volume: Option<&str>, path: &str) -> Result<Place, ToolError>;
}
