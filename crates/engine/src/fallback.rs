//! Asking another model when one fails, with a conversation that the other one accepts.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use drawloom_contract::{
    choice::{Fallback, ModelName},
    failure::RunError,
    message::Block,
    model::{ModelCard, TurnError},
    record::{Body, Notice, Switched},
    run::Run,
    time::Instant,
};

use crate::{Engine, accounts, choose::without_reasoning, run_task::RunTask};

/// Providers and models that failed lately, and until when they are not asked.
#[derive(Default)]
pub(crate) struct Cooldowns {
    until: Mutex<HashMap<String, Instant>>,
}

impl Cooldowns {
    /// Starts the cooldown of a provider, or of one `provider/model`.
    pub(crate) fn cool(&self, name: String, until: Instant) {
        let mut cooling = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cooling.entry(name).or_insert(until);
        *known = (*known).max(until);
    }

    pub(crate) fn is_cool(&self, name: &ModelName, now: Instant) -> bool {
        let cooling = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let is_cool = |key: &str| cooling.get(key).is_none_or(|until| *until <= now);
        is_cool(&name.provider) && is_cool(&name.to_string())
    }
}

/// Which model is asked after a failure.
pub(crate) enum FallbackDecision {
    /// The same model is asked again, or none.
    Stay,
    /// There is another model, but it cannot take this conversation.
    Suppressed(String),
    /// Another model is asked.
    Switch {
        /// How many times the run has switched, this one included.
        attempt: u32,
        target: Box<Target>,
    },
}

/// A model to switch to.
pub(crate) struct Target {
    /// The candidate.
    wanted: ModelName,
    /// The model that is asked: the candidate, or its sibling that accepts this history.
    to: ModelName,
    card: ModelCard,
    /// Turns of the history without the candidate's own reasoning.
    foreign: u32,
}

impl Engine {
    /// Has the provider of a model say what it knows of it, so that its card is true. It returns soon.
    pub(crate) async fn look_up(&self, name: &ModelName) {
        if let Some(provider) = self.parts.providers.get(&name.provider) {
            provider.model.look_up(&name.model).await;
        }
    }

    /// The card of a model, if its provider is configured.
    pub(crate) fn card(&self, name: &ModelName) -> Option<ModelCard> {
        self.parts.providers.get(&name.provider).map(|provider| provider.model.card(&name.model))
    }
}

impl RunTask {
    /// Whether another model is asked after `error`, and which.
    pub(crate) fn fallback(&self, error: &TurnError) -> FallbackDecision {
        let Some(fallback) = self.accepted().models.fallback else { return FallbackDecision::Stay };
        let now = self.engine.parts.clock.now();
        let cooldown = match error {
            TurnError::Throttled { retry_after: Some(wait), .. }
            | TurnError::Overloaded { retry_after: Some(wait), .. } => *wait,
            TurnError::Throttled { .. }
            | TurnError::Overloaded { .. }
            | TurnError::Unavailable { .. }
            | TurnError::NoTools { .. }
            | TurnError::Auth { .. }
            | TurnError::Cut { .. } => Duration::from_millis(fallback.cooldown_ms),
            TurnError::Refused { .. } | TurnError::BadRequest { .. } | TurnError::ContextTooLong { .. } => {
                return FallbackDecision::Stay;
            }
        };
        let from = &self.run.model;
        // Limits and keys belong to the provider; other failures may be those of one model.
        let failed = match error {
            TurnError::Throttled { .. } | TurnError::Auth { .. } => from.provider.clone(),
            _ => from.to_string(),
        };
        self.engine.cooldowns.cool(failed, now.after(cooldown));
        self.decide_fallback(fallback, now)
    }

    /// Another model with another credential, when the provider accepts no calls now. Other runs were told so: this one would only
    /// wait for its turn to be told too.
    pub(crate) fn leave_refusing_provider(&self) -> Option<(u32, Target)> {
        let fallback = self.accepted().models.fallback?;
        let now = self.engine.parts.clock.now();
        let credential = |name: &ModelName| self.engine.parts.providers.get(&name.provider)?.credential.clone();
        let mine = credential(&self.run.model)?;
        if self.engine.cooldowns.is_cool(&self.run.model, now) || !self.engine.limiter.is_refusing(&mine, now) {
            return None;
        }
        match self.decide_fallback(fallback, now) {
            FallbackDecision::Switch { attempt, target } if credential(&target.to) != Some(mine) => {
                Some((attempt, *target))
            }
            FallbackDecision::Switch { .. } | FallbackDecision::Suppressed(_) | FallbackDecision::Stay => None,
        }
    }

    fn decide_fallback(&self, fallback: Fallback, now: Instant) -> FallbackDecision {
        let from = &self.run.model;
        let attempt = self.run.switched.map_or(0, |(attempt, _)| attempt) + 1;
        if attempt > fallback.max_attempts {
            return FallbackDecision::Stay;
        }
        let mut others = self.other_candidates(from, now).peekable();
        let Some(first) = others.peek().map(|target| target.wanted.clone()) else { return FallbackDecision::Stay };
        let images = self.has_images();
        match others.find(|target| target.card.vision || !images) {
            Some(target) => FallbackDecision::Switch { attempt, target: Box::new(target) },
            None => FallbackDecision::Suppressed(format!(
                "no fallback to {first}: the conversation has images, which it does not support"
            )),
        }
    }

    /// The other candidates that are not in cooldown and have a price if one is needed, in order.
    fn other_candidates<'a>(&'a self, from: &'a ModelName, now: Instant) -> impl Iterator<Item = Target> + 'a {
        let accepted = self.accepted();
        accepted.models.candidates.iter().filter_map(move |candidate| {
            let card = self.engine.card(candidate)?;
            let is_same = candidate == from
                || (candidate.provider == from.provider && card.plain_sibling.as_ref() == Some(&from.model));
            let foreign = turns_without_thoughts_of(&self.run, candidate);
            let to = match &card.plain_sibling {
                Some(sibling) if foreign > 0 => ModelName::new(&candidate.provider, sibling),
                _ => candidate.clone(),
            };
            let payable = !accounts::has_money(accepted) || self.engine.price(&to).is_some();
            (!is_same && payable && self.engine.cooldowns.is_cool(candidate, now)).then(|| Target {
                wanted: candidate.clone(),
                to,
                card,
                foreign,
            })
        })
    }

    fn has_images(&self) -> bool {
        let mut blocks = self.accepted().segments.iter().flat_map(|segment| &segment.content);
        blocks.any(|block| matches!(block, Block::Image { .. }))
    }

    /// Journals which model is asked from now on, and what that changes in the conversation.
    pub(crate) fn switch(&mut self, turn: u32, attempt: u32, target: Target, error: RunError) {
        let Target { wanted, to, foreign, .. } = target;
        let from = self.run.model.clone();
        let effort = self.pinned.definition.effort.filter(|_| to == wanted);
        tracing::warn!(run = %self.key.run, %from, %to, code = %error.code, "falling back to another model");
        self.engine.meters.fell_back();
        let caches = self.engine.card(&from).is_some_and(|card| card.native_cache);
        let lost = thoughts_not_of(&self.run, &to);
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
            let text = format!("the prompt cache of {} does not apply to {to}", from.provider);
            notices.push((Notice::CacheInvalidated, text));
        }
        if lost > 0 {
            let text = format!("the reasoning of {lost} turns came from another model and is not sent to {to}");
            notices.push((Notice::ReasoningInvalidated, text));
        }
        if to != wanted {
            let text = format!(
                "using {to} instead of {wanted}: {wanted} rejects a conversation with {foreign} turns that lack its \
                    own reasoning"
            );
            notices.push((Notice::ModelDowngraded, text));
        }
        let unavailable = self.engine.card(&to).and_then(|card| without_reasoning(&to, &card, &self.pinned.definition));
        if let Some(text) = unavailable.filter(|text| !self.run.warnings().contains(text)) {
            notices.push((Notice::ReasoningUnavailable, text));
        }
        for (notice, text) in notices {
            self.push(Body::Notice { notice, text });
        }
    }
}

/// Turns of the conversation that carry no reasoning of `model`'s own.
fn turns_without_thoughts_of(run: &Run, model: &ModelName) -> u32 {
    run.made.iter().map(|made| made.turns - if made.by == *model { made.with_thoughts } else { 0 }).sum()
}

/// Turns of the conversation that carry another model's reasoning.
fn thoughts_not_of(run: &Run, model: &ModelName) -> u32 {
    run.made.iter().filter(|made| made.by != *model).map(|made| made.with_thoughts).sum()
}
