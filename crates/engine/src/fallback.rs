//! Asking another model when one fails, with a conversation that the other one accepts.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use drawloom_contract::{
    choice::ModelName,
    failure::RunError,
    message::Block,
    model::{ModelCard, TurnError},
    record::{Body, Notice, Switched},
    time::Timestamp,
};

use crate::{Engine, driver::Driver};

/// Providers that refused lately, and until when they are left alone.
#[derive(Default)]
pub(crate) struct Cooldowns {
    until: Mutex<HashMap<String, Timestamp>>,
}

impl Cooldowns {
    pub(crate) fn cool(&self, provider: &str, until: Timestamp) {
        let mut cooling = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cooling.entry(provider.to_owned()).or_insert(until);
        *known = (*known).max(until);
    }

    pub(crate) fn is_cool(&self, provider: &str, now: Timestamp) -> bool {
        let cooling = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        cooling.get(provider).is_none_or(|until| *until <= now)
    }
}

/// Where a run goes after a failure.
pub(crate) enum Way {
    /// The same model is asked again, or nobody.
    Stay,
    /// There is another model, but it cannot take this conversation.
    Suppressed(String),
    /// Another model is asked.
    Switch {
        /// Which change of model this is.
        attempt: u32,
        /// Who.
        wanted: ModelName,
        /// What is known of it.
        card: Box<ModelCard>,
    },
}

impl Engine {
    /// What is known of a model, if its provider is there.
    pub(crate) fn card(&self, name: &ModelName) -> Option<ModelCard> {
        self.parts.providers.get(&name.provider).map(|provider| provider.model.card(&name.model))
    }
}

impl Driver {
    /// Whether another model is asked after `error`, and which.
    pub(crate) fn fallback(&self, error: &TurnError) -> Way {
        let Some(fallback) = self.accepted().models.fallback else { return Way::Stay };
        let now = self.now();
        let left_alone = match error {
            TurnError::Throttled { retry_after: Some(wait), .. }
            | TurnError::Overloaded { retry_after: Some(wait), .. } => *wait,
            TurnError::Throttled { .. }
            | TurnError::Overloaded { .. }
            | TurnError::Unavailable { .. }
            | TurnError::Cut { .. } => Duration::from_millis(fallback.cooldown_ms),
            TurnError::Refused { .. }
            | TurnError::BadRequest { .. }
            | TurnError::Auth { .. }
            | TurnError::ContextTooLong { .. } => return Way::Stay,
        };
        let from = &self.run.model;
        self.engine.cooldowns.cool(&from.provider, now.after(left_alone));
        let attempt = self.run.switched.map_or(0, |(attempt, _)| attempt) + 1;
        if attempt > fallback.max_attempts {
            return Way::Stay;
        }
        match self.next_candidate(from, now) {
            None => Way::Stay,
            Some((wanted, card)) if self.has_images() && !card.vision => {
                Way::Suppressed(format!("{wanted} was not asked: the conversation has images and it does not see any"))
            }
            Some((wanted, card)) => Way::Switch { attempt, wanted, card: Box::new(card) },
        }
    }

    /// The first candidate that is another one, is not left alone and can be paid.
    fn next_candidate(&self, from: &ModelName, now: Timestamp) -> Option<(ModelName, ModelCard)> {
        let accepted = self.accepted();
        accepted.models.candidates.iter().find_map(|candidate| {
            let card = self.engine.card(candidate)?;
            let is_same = candidate == from
                || (candidate.provider == from.provider && card.plain_sibling.as_ref() == Some(&from.model));
            let payable = accepted.budget_cost.is_none() || self.engine.price(candidate).is_some();
            (!is_same && payable && self.engine.cooldowns.is_cool(&candidate.provider, now))
                .then(|| (candidate.clone(), card))
        })
    }

    fn has_images(&self) -> bool {
        let mut blocks = self.accepted().segments.iter().flat_map(|segment| &segment.content);
        blocks.any(|block| matches!(block, Block::Image { .. }))
    }

    /// Journals that `wanted` is asked from now on, and what that changes in the conversation.
    pub(crate) fn switch(&mut self, turn: u32, attempt: u32, wanted: ModelName, card: &ModelCard, error: RunError) {
        let from = self.run.model.clone();
        let foreign = self.run.turns_without_thoughts_of(&wanted);
        let (to, effort) = match &card.plain_sibling {
            Some(sibling) if foreign > 0 => (ModelName::new(&wanted.provider, sibling), None),
            _ => (wanted.clone(), self.pinned.definition.effort),
        };
        tracing::warn!(run = %self.key.run, %from, %to, code = %error.code, "another model is asked");
        self.engine.meters.fell_back();
        let caches = self.engine.card(&from).is_some_and(|card| card.native_cache);
        let lost = self.run.thoughts_not_of(&to);
        self.push(Body::Switched(Box::new(Switched {
            turn,
            attempt,
            from: from.clone(),
            to: to.clone(),
            effort,
            error,
        })));
        let mut notices = Vec::new();
        if caches {
            let text = format!("what {} keeps of the conversation in its cache is of no use to {to}", from.provider);
            notices.push((Notice::CacheInvalidated, text));
        }
        if lost > 0 {
            let text = format!("the reasoning of {lost} turns was made by another model and is not replayed to {to}");
            notices.push((Notice::ReasoningInvalidated, text));
        }
        if to != wanted {
            let text = format!(
                "{to} is asked in place of {wanted}, which rejects a history of {foreign} turns without its own reasoning"
            );
            notices.push((Notice::ModelDowngraded, text));
        }
        for (notice, text) in notices {
            self.push(Body::Notice { notice, text });
        }
    }
}
