//! The seam to models.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    ids::{AgentName, RunKey},
    message::{Message, ToolUse},
    record::StopReason,
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
    /// The conversation so far.
    pub messages: Vec<Arc<Message>>,
    /// The tools on offer, in a stable order.
    pub tools: Arc<[ToolCard]>,
    /// Most output tokens.
    pub max_tokens: u32,
}

/// One turn, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Its text.
    pub text: String,
    /// Its reasoning.
    pub thinking: String,
    /// The calls it asks for.
    pub calls: Vec<ToolUse>,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// What it cost.
    pub usage: Usage,
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
    /// The provider says "slow down"; the limiter waits, the run does not fail.
    #[error("the provider is throttling: {message}")]
    Throttled {
        /// What it said.
        message: String,
        /// How long it wants to be left alone, when it says so.
        retry_after: Option<Duration>,
    },
    /// The provider is overloaded or down.
    #[error("the provider is overloaded: {message}")]
    Overloaded {
        /// What it said.
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
            Self::Cut { .. } => "model_stream_cut",
            Self::Refused { .. } => "model_refused",
            Self::BadRequest { .. } => "model_bad_request",
            Self::Auth { .. } => "model_auth",
            Self::ContextTooLong { .. } => "context_too_long",
        }
    }
}

/// A model API. It returns typed failures, and never sleeps to please a provider nor tries again by itself.
#[async_trait]
pub trait Model: Send + Sync {
    /// Asks for one turn. Dropping the future abandons the call.
    async fn turn(&self, request: TurnRequest, deltas: &dyn Deltas) -> Result<Turn, TurnError>;
}
