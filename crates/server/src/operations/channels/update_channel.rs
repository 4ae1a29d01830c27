//! `update_channel`: changes a channel made at runtime.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::{channels::ChannelConfig, definitions::By};
use drawloom_wire::channels::{self, ChannelDescriptor};
use serde_json::Value;

use crate::{
    channels::answer,
    definitions::by,
    memory::failure,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct UpdateChannel;

impl Operation for UpdateChannel {
    type Input = channels::UpdateChannel;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Change the settings of a channel.", Scope::DefinitionsWrite)
            .toolset("channels")
            .advice("Channels of the config file cannot be changed.")
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ChannelDescriptor>, Failure> {
        let by = by(call, &input);
        answer(update(call, &input, &by).await?, Vec::new(), None)
    }
}

pub(super) async fn update(call: &Call<'_>, input: &channels::UpdateChannel, by: &By<'_>) -> Result<Value, Failure> {
    let change = |config: &mut ChannelConfig| {
        let input = input.clone();
        *config = ChannelConfig {
            description: input.description.unwrap_or_else(|| config.description.clone()),
            scope: config.scope,
            semantic: input.semantic.unwrap_or(config.semantic),
            default_ttl: input.default_ttl.unwrap_or(config.default_ttl),
            max_messages: input.max_messages.unwrap_or(config.max_messages),
            lease_ms: input.lease_ms.unwrap_or(config.lease_ms),
            max_attempts: input.max_attempts.unwrap_or(config.max_attempts),
            dead_letter: input.dead_letter.unwrap_or_else(|| config.dead_letter.clone()),
        };
    };
    call.app.runtime.update_channel(&input.name, change, by).await.map_err(failure)
}
