//! The seam to models.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    choice::{Effort, Sampling},
    ids::{AgentName, RunId, RunKey},
    message::{Message, Thought, ToolUse},
    money::{Cost, Price},
    record::StopReason,
    time::Timestamp,
    tool::ToolCard,
    usage::Usage,
};

#[derive(Debug, Clone)]
pub struct TurnRequest {
    pub run: RunKey,
    /// The root of the run's tree.
    pub root: RunId,
    pub agent: AgentName,
    pub model: String,
    pub turn: u32,
    pub attempt: u32,
    pub system: Arc<str>,
    /// The conversation so far. A thought in it was made by this very provider and model: those of others were left out.
    pub messages: Vec<Arc<Message>>,
    pub tools: Arc<[ToolCard]>,
    pub max_tokens: u32,
    /// How hard to think; the model's own way, when absent.
    pub effort: Option<Effort>,
    pub sampling: Arc<Sampling>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    pub text: String,
    pub thoughts: Vec<Thought>,
    pub calls: Vec<ToolUse>,
    pub stop_reason: StopReason,
    pub usage: Usage,
    /// What it cost, when the provider says so itself.
    pub cost: Option<Cost>,
    /// When the provider takes calls again, if it says that calls or tokens are used up.
    pub closed_until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeltaKind {
    Text,
    Thinking,
}

/// Takes the pieces of a turn as they come. They are for the eye: what counts is the turn that is returned.
pub trait Deltas: Send + Sync {
    /// One piece, in order.
    fn push(&self, kind: DeltaKind, text: &str);
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The provider says "slow down" (429); the limiter waits, the run does not fail.
    #[error("rate limited by the provider: {message}")]
    Throttled { message: String, retry_after: Option<Duration> },
    /// The provider says that it has too much to do (529); the limiter waits, the run does not fail.
    #[error("the provider is overloaded: {message}")]
    Overloaded { message: String, retry_after: Option<Duration> },
    /// The provider cannot be reached, is silent, or failed inside.
    #[error("the provider is unavailable: {message}")]
    Unavailable { message: String },
    #[error("the model's response stream was interrupted: {message}")]
    Cut { message: String },
    #[error("the model refused: {message}")]
    Refused { message: String },
    #[error("the provider rejected the request: {message}")]
    BadRequest { message: String },
    #[error("the provider rejected the API key: {message}")]
    Auth { message: String },
    #[error("the conversation is too long for the model: {message}")]
    ContextTooLong { message: String },
    #[error("the model cannot call tools, and the agent has some: {message}")]
    NoTools { message: String },
}

impl TurnError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Throttled { .. } => "throttled",
            Self::Overloaded { .. } => "model_overloaded",
            Self::Unavailable { .. } => "model_unavailable",
            Self::Cut { .. } => "model_stream_cut",
            Self::Refused { .. } => "model_refused",
            Self::BadRequest { .. } => "model_bad_request",
            Self::Auth { .. } => "model_auth",
            Self::ContextTooLong { .. } => "context_too_long",
            Self::NoTools { .. } => "model_without_tools",
        }
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Auth { .. } => Some("check the variable named in `api_key_env` with `drawloom doctor --keys`"),
            Self::ContextTooLong { .. } => Some("shorten the task, or use a model with a larger context"),
            Self::Unavailable { .. } => Some("test it with `drawloom doctor --keys`, or add a fallback (`user_tiers`)"),
            Self::BadRequest { .. } => Some("check the model's name and the agent's settings"),
            Self::NoTools { .. } => Some(
                "choose another model (`drawloom models list --remote PROVIDER` shows which ones take tools), or remove the \
                 agent's tools; if the model takes them after all, set `options.capabilities.supports_tools: true`",
            ),
            Self::Throttled { .. } | Self::Overloaded { .. } | Self::Cut { .. } | Self::Refused { .. } => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCard {
    /// Tokens that fit in one conversation, when that is known.
    pub context_tokens: Option<u64>,
    /// Output tokens of a turn, unless the agent says otherwise.
    pub max_tokens: u32,
    pub thinks: bool,
    /// Whether it thinks also while tools are on offer.
    pub thinks_with_tools: bool,
    /// Whether it can call tools, when that is known.
    pub takes_tools: Option<bool>,
    /// Whether the tools on offer count as tokens that it reads.
    pub counts_tools: bool,
    pub vision: bool,
    /// Whether the provider keeps a cache of what it has read.
    pub native_cache: bool,
    /// Set when it rejects a history whose turns lack its own reasoning: the model to ask then.
    pub plain_sibling: Option<String>,
    /// What it costs, unless the operator says otherwise.
    pub price: Option<Price>,
}

/// A model, as its provider lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedModel {
    pub id: String,
    pub title: Option<String>,
    /// Tokens that fit in one conversation as the provider serves it now, when it says so.
    pub context_tokens: Option<u64>,
    /// Whether it can call tools, when the provider says so.
    pub takes_tools: Option<bool>,
    pub price: Option<Price>,
}

/// A model API. It returns typed failures, and never sleeps to please a provider nor tries again by itself.
#[async_trait]
pub trait Model: Send + Sync {
    /// What is known of `model` without asking.
    fn card(&self, model: &str) -> ModelCard;

    /// Asks the provider about `model`, if it may say more than is known: `card` has the answer then. It returns soon, also when the
    /// provider does not answer; an answer is kept for a while.
    async fn look_up(&self, model: &str);

    /// What of these wishes `model` does not take, by name: it is left out of the request.
    fn ignored(&self, model: &str, sampling: &Sampling, effort: Option<Effort>) -> Vec<&'static str>;

    /// Asks for one turn. Dropping the future abandons the call.
    async fn turn(&self, request: TurnRequest, deltas: &dyn Deltas) -> Result<Turn, TurnError>;

    /// The models that the provider has: one cheap call, which also says whether the credential is good.
    async fn list(&self) -> Result<Vec<ListedModel>, TurnError>;
}
