//! The seam to models.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    choice::{Effort, Sampling},
    ids::{AgentName, RunKey},
    message::{Message, Thought, ToolUse},
    money::{Cost, Price},
    record::StopReason,
    time::Timestamp,
    tool::ToolCard,
    usage::Usage,
};

/// One turn, asked for.
#[derive(Debug, Clone)]
pub struct TurnRequest {
    /// The run that asks.
    pub run: RunKey,
    /// Its agent.
    pub agent: AgentName,
    /// The model's name at the provider.
    pub model: String,
    /// The turn, from 1.
    pub turn: u32,
    /// The try of that turn, from 1.
    pub attempt: u32,
    /// The system prompt.
    pub system: Arc<str>,
    /// The conversation so far. A thought in it was made by this very provider and model: those of others were left out.
    pub messages: Vec<Arc<Message>>,
    /// The tools on offer, in a stable order.
    pub tools: Arc<[ToolCard]>,
    /// Most output tokens.
    pub max_tokens: u32,
    /// How hard to think; the model's own way, when absent.
    pub effort: Option<Effort>,
    /// How to pick words.
    pub sampling: Arc<Sampling>,
}

/// One turn, whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// Its text.
    pub text: String,
    /// Its reasoning, in order.
    pub thoughts: Vec<Thought>,
    /// The calls it asks for.
    pub calls: Vec<ToolUse>,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// Its tokens.
    pub usage: Usage,
    /// What it cost, when the provider says so itself.
    pub cost: Option<Cost>,
    /// How much more the provider says it would bear.
    pub headroom: Headroom,
}

/// What a provider says of its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Headroom {
    /// When calls or tokens are used up: when there are more.
    pub closed_until: Option<Timestamp>,
}

/// Which text a delta belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeltaKind {
    /// The answer.
    Text,
    /// The reasoning.
    Thinking,
}

/// Takes the pieces of a turn as they come. They are for the eye: what counts is the turn that is returned.
pub trait Deltas: Send + Sync {
    /// One piece, in order.
    fn push(&self, kind: DeltaKind, text: &str);
}

/// Why a turn came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The provider says "slow down" (429); the limiter waits, the run does not fail.
    #[error("the provider is throttling: {message}")]
    Throttled {
        /// What it said.
        message: String,
        /// How long it wants to be left alone, when it says so.
        retry_after: Option<Duration>,
    },
    /// The provider says that it has too much to do (529); the limiter waits, the run does not fail.
    #[error("the provider is overloaded: {message}")]
    Overloaded {
        /// What it said.
        message: String,
        /// How long it wants to be left alone, when it says so.
        retry_after: Option<Duration>,
    },
    /// The provider cannot be reached, is silent, or failed inside.
    #[error("the provider is unavailable: {message}")]
    Unavailable {
        /// What it said, or what happened.
        message: String,
    },
    /// The stream ended before the turn did.
    #[error("the model's stream broke off: {message}")]
    Cut {
        /// How.
        message: String,
    },
    /// The model declined.
    #[error("the model refused: {message}")]
    Refused {
        /// What it said.
        message: String,
    },
    /// The provider does not understand the request.
    #[error("the provider rejected the request: {message}")]
    BadRequest {
        /// What it said.
        message: String,
    },
    /// The credential is wrong.
    #[error("the provider rejected the credential: {message}")]
    Auth {
        /// What it said.
        message: String,
    },
    /// The conversation does not fit.
    #[error("the conversation is too long for the model: {message}")]
    ContextTooLong {
        /// What it said.
        message: String,
    },
}

impl TurnError {
    /// A stable word for programs.
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
        }
    }

    /// What the reader could try next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Auth { .. } => {
                Some("check the variable that `api_key_env` names; `drawloom doctor --keys` asks the provider")
            }
            Self::ContextTooLong { .. } => Some("ask for less, or use a model with a larger context"),
            Self::Unavailable { .. } => {
                Some("`drawloom doctor --keys` asks the provider; `user_tiers` can name others to fall back on")
            }
            Self::BadRequest { .. } => Some("check the model's name and the agent's settings"),
            Self::Throttled { .. } | Self::Overloaded { .. } | Self::Cut { .. } | Self::Refused { .. } => None,
        }
    }
}

/// What is known of a model before it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCard {
    /// Tokens that fit in one conversation, when that is known.
    pub context_tokens: Option<u64>,
    /// Output tokens of a turn, unless the agent says otherwise.
    pub max_tokens: u32,
    /// Whether it can think before it answers.
    pub thinks: bool,
    /// Whether the tools on offer count as tokens that it reads.
    pub counts_tools: bool,
    /// Whether it sees images.
    pub vision: bool,
    /// Whether the provider keeps a cache of what it has read.
    pub native_cache: bool,
    /// Set when it rejects a history whose turns lack its own reasoning: the model to ask then.
    pub plain_sibling: Option<String>,
    /// What it costs, unless the operator says otherwise.
    pub price: Option<Price>,
}

/// A model that a provider says it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    /// Its name there.
    pub id: String,
    /// What it is called, when it is called otherwise.
    pub title: Option<String>,
}

/// A model API. It returns typed failures, and never sleeps to please a provider nor tries again by itself.
#[async_trait]
pub trait Model: Send + Sync {
    /// What is known of `model` without asking.
    fn card(&self, model: &str) -> ModelCard;

    /// What of these wishes `model` does not take, by name: it is left out of the request.
    fn ignored(&self, model: &str, sampling: &Sampling, effort: Option<Effort>) -> Vec<&'static str>;

    /// Asks for one turn. Dropping the future abandons the call.
    async fn turn(&self, request: TurnRequest, deltas: &dyn Deltas) -> Result<Turn, TurnError>;

    /// The models that the provider has: one cheap call, which also says whether the credential is good.
    async fn list(&self) -> Result<Vec<ListedModel>, TurnError>;
}
