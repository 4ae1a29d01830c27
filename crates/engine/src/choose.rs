//! Which model a run asks: by its definition, the caller's tier, and who is to be left alone now.

use drawloom_contract::{
    choice::{Choice, Effort, ModelName, ModelPlan, Sampling},
    definition::{DEFAULT_USER_TIER, Definition},
    failure::{Failure, FailureKind},
    model::ModelCard,
    money::Cost,
};

use crate::Engine;

impl Engine {
    /// The model that a run of `definition` asks first, and what it may ask later.
    pub(crate) fn choose(
        &self,
        definition: &Definition,
        user_tier: Option<&str>,
        sampling: Sampling,
        budget_cost: Option<Cost>,
        warnings: &mut Vec<String>,
    ) -> Result<(ModelName, ModelPlan), Failure> {
        let mut plan = ModelPlan { sampling: merge(sampling, &definition.sampling), ..ModelPlan::default() };
        let only = ModelName::new(&definition.provider, &definition.model);
        let first = match self.choice(definition, user_tier)? {
            None => only,
            Some((tier, choice)) => {
                plan.user_tier = Some(tier);
                plan.retry_attempts = choice.retry_attempts;
                plan.fallback = choice.fallback;
                plan.candidates.clone_from(&choice.candidates);
                self.first_of(choice, budget_cost).unwrap_or(only)
            }
        };
        let Some(provider) = self.parts.providers.get(&first.provider) else {
            let message = format!(
                "agent \"{}\" uses provider \"{}\", which is not configured or has no API key",
                definition.name, first.provider
            );
            return Err(Failure::new(FailureKind::Invalid, "unknown_provider", message)
                .with_hint("run `drawloom doctor` to see which API keys are missing"));
        };
        if budget_cost.is_some() && self.price(&first).is_none() {
            let message = format!("budget.cost is set but model {first} has no price");
            return Err(Failure::new(FailureKind::Invalid, "unpriced_model", message)
                .with_hint(format!("add \"{first}\" under `pricing.models`, or use budget.tokens")));
        }
        let ignored = match plan.sampling.is_empty() {
            true => Vec::new(),
            false => provider.model.ignored(&first.model, &plan.sampling, definition.effort),
        };
        warnings.extend(without_reasoning(&first, &provider.model.card(&first.model), definition));
        for name in ignored {
            warnings.push(format!("sampling.{name}: not supported by model {first}; ignored"));
        }
        Ok((first, plan))
    }

    fn choice<'a>(
        &self,
        definition: &'a Definition,
        user_tier: Option<&str>,
    ) -> Result<Option<(String, &'a Choice)>, Failure> {
        let tier = user_tier.unwrap_or(DEFAULT_USER_TIER);
        match definition.choices.get(tier) {
            Some(choice) => Ok(Some((tier.to_owned(), choice))),
            None if definition.choices.is_empty() && tier == DEFAULT_USER_TIER => Ok(None),
            None => {
                let known: Vec<&str> = definition.choices.keys().map(String::as_str).collect();
                let failure =
                    Failure::new(FailureKind::Invalid, "unknown_user_tier", format!("unknown user tier \"{tier}\""));
                Err(match known.is_empty() {
                    true => failure.with_hint("the config has no `user_tiers`; omit user_tier"),
                    false => failure.with_hint(format!("available: {}", known.join(", "))),
                })
            }
        }
    }

    /// The first candidate; one that is not left alone, when the run may change anyway.
    fn first_of(&self, choice: &Choice, budget_cost: Option<Cost>) -> Option<ModelName> {
        let now = self.parts.clock.now();
        let payable = |name: &ModelName| budget_cost.is_none() || self.price(name).is_some();
        let rested = |name: &&ModelName| self.cooldowns.is_cool(name, now) && payable(name);
        let rested = choice.fallback.and_then(|_| choice.candidates.iter().find(rested));
        rested.or_else(|| choice.candidates.first()).cloned()
    }
}

/// The warning about a model that will not reason for an agent that expects it.
pub(crate) fn without_reasoning(model: &ModelName, card: &ModelCard, definition: &Definition) -> Option<String> {
    match definition.effort {
        _ if card.thinks && !card.thinks_with_tools && !definition.tools.is_empty() => {
            Some(format!("model {model} does not reason while tools are on offer"))
        }
        Some(effort @ (Effort::Medium | Effort::High)) if !card.thinks => {
            Some(format!("effort: model {model} does not support reasoning; `{}` is ignored", effort.as_str()))
        }
        _ => None,
    }
}

/// What a request wants, and where it wants nothing, what the definition says.
fn merge(wanted: Sampling, definition: &Sampling) -> Sampling {
    Sampling {
        temperature: wanted.temperature.or_else(|| definition.temperature.clone()),
        top_p: wanted.top_p.or_else(|| definition.top_p.clone()),
        top_k: wanted.top_k.or(definition.top_k),
        frequency_penalty: wanted.frequency_penalty.or_else(|| definition.frequency_penalty.clone()),
        presence_penalty: wanted.presence_penalty.or_else(|| definition.presence_penalty.clone()),
        seed: wanted.seed.or(definition.seed),
        stop: wanted.stop.or_else(|| definition.stop.clone()),
    }
}
