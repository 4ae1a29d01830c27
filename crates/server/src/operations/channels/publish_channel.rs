//! `publish_channel`: appends a message to a channel.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::channels::{self, Published};

use crate::{
    channels::{Meant, answer, by, for_known_agent, meant_by, publish},
    memory::failure,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct PublishChannel;

impl Operation for PublishChannel {
    type Input = channels::PublishChannel;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Publish a message to a channel.", Scope::ChannelPublish)
            .toolset("channels")
            .advice("In a channel with the scope user, user_id is the user who gets the message; it defaults to you.")
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Published>, Failure> {
        let Meant { channel, place, caller, warnings } = meant_by(call, &input.channel, &input)?;
        for_known_agent(call, &place)?;
        let by = by(call, &caller, &input, &input.idempotency_key);
        let message = publish(input.value, input.ttl, input.deliver_at.as_ref(), input.deliver_after_ms)?;
        let published = call.app.channels.publish(&channel, &place, &message, &by, 0).await.map_err(failure)?;
        answer(published, warnings, None)
    }
}
