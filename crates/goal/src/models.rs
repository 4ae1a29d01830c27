//! The seam to the models of the config: agents that are made for one question, for the backend `model`.

use drawloom_contract::{definition::Definition, ids::AgentName};

use crate::workspace::CheckedOut;

/// Makes agents of models.
pub trait Models: Send + Sync {
    /// An agent with our own tools in the checkout and nothing else. Its system prompt says where it works. An error says what is
    /// wrong with the model's name and what to write.
    fn agent(&self, wanted: &Wanted<'_>) -> Result<Definition, String>;
}

/// What an agent is made for.
#[derive(Debug, Clone)]
pub struct Wanted<'w> {
    pub agent: AgentName,
    /// The model as a caller or a planner names it; the default one when absent.
    pub model: Option<&'w str>,
    /// Where it works; without, it only answers.
    pub place: Option<&'w CheckedOut>,
    pub access: Access,
}

/// What it may do there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}
