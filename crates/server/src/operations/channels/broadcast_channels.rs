//! `broadcast_channels`: publishes one message to several channels.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::channels::check_names;
use drawloom_wire::channels::{self, Broadcasted};

use crate::{
    channels::{answer, by, for_known_agent, meant_in_all, publish},
    memory::failure,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct BroadcastChannels;

impl Operation for BroadcastChannels {
    type Input = channels::BroadcastChannels;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Publish one message to several channels.", Scope::ChannelPublish)
            .toolset("channels")
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Broadcasted>, Failure> {
        check_names(&input.channels).map_err(failure)?;
        let meant = meant_in_all(call, &input.channels, &input)?;
        meant.iter().try_for_each(|meant| for_known_agent(call, &meant.place))?;
        let mut warnings: Vec<String> = meant.iter().flat_map(|meant| meant.warnings.clone()).collect();
        warnings.dedup();
        // The user that the request names, where one of the channels has users.
        let named = meant.iter().map(|meant| &meant.caller).find(|caller| *caller != call.caller);
        let caller = named.unwrap_or(call.caller).clone();
        let by = by(call, &caller, &input, &input.idempotency_key);
        let message = publish(input.value, input.ttl, input.deliver_at.as_ref(), input.deliver_after_ms)?;
        let to: Vec<_> = meant.into_iter().map(|meant| (meant.channel, meant.place)).collect();
        answer(call.app.channels.broadcast(&to, &message, &by).await.map_err(failure)?, warnings, None)
    }
}
