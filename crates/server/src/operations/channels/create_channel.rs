//! `create_channel`: makes a channel.

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

pub(crate) struct CreateChannel;

impl Operation for CreateChannel {
    type Input = channels::CreateChannel;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Make a channel.", Scope::DefinitionsWrite)
            .toolset("channels")
            .advice("Agents can use it at once, if their gate `channels` names it. Its versions are definitions of the kind channel.")
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ChannelDescriptor>, Failure> {
        let by = by(call, &input);
        answer(create(call, input, &by).await?, Vec::new(), None)
    }
}

pub(super) async fn create(call: &Call<'_>, input: channels::CreateChannel, by: &By<'_>) -> Result<Value, Failure> {
    let usual = ChannelConfig::default();
    let config = ChannelConfig {
        description: input.description.unwrap_or_default(),
        scope: input.scope.unwrap_or(usual.scope),
        semantic: input.semantic.unwrap_or(usual.semantic),
        default_ttl: input.default_ttl,
        max_messages: input.max_messages.unwrap_or(usual.max_messages),
        lease_ms: input.lease_ms.unwrap_or(usual.lease_ms),
        max_attempts: input.max_attempts.unwrap_or(usual.max_attempts),
        dead_letter: input.dead_letter,
    };
    call.app.runtime.create_channel(&input.name, config, by).await.map_err(failure)
}
