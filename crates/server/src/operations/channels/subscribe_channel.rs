//! `subscribe_channel`: takes the next messages of a channel.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::channels::{Subscribe, Taken};
use drawloom_wire::channels::{self, ChannelMessages};

use crate::{
    channels::{Meant, Waiting, answer, by, meant_by, subscribe},
    memory::failure,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct SubscribeChannel;

impl Operation for SubscribeChannel {
    type Input = channels::SubscribeChannel;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Take the next messages of a channel.", Scope::ChannelRead)
            .toolset("channels")
            .advice(
                "Give wait_ms to wait for a message. With group, messages come under a lease: acknowledge each with \
                 ack_channel, or it comes back.",
            )
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ChannelMessages>, Failure> {
        let Meant { place, caller, warnings, .. } = meant_by(call, &input.channel, &input)?;
        let by = by(call, &caller, &input, &input.idempotency_key);
        let ask = Subscribe {
            consumer: input.consumer,
            group: input.group,
            lease_ms: input.lease_ms,
            ..subscribe(call, input.from_cursor.as_ref(), input.max_messages)?
        };
        let channels = &call.app.channels;
        let waiting = Waiting::begin(call, input.wait_ms);
        // Registered before the first look, so that no message falls between the two.
        let mut listener = (waiting.effective.ms > 0).then(|| channels.listen([&place]));
        loop {
            // It may have been deleted during the wait.
            let channel = channels.load_again(&place).map_err(failure)?;
            let nothing = match channels.subscribe(&channel, &place, &ask, &by).await.map_err(failure)? {
                Taken::Messages(messages) => return answer(messages, warnings, Some(&waiting.effective)),
                Taken::Nothing(nothing) => nothing,
            };
            let goes_on = match &mut listener {
                Some(listener) => waiting.next(call, listener, nothing.look_again).await,
                None => false,
            };
            if !goes_on {
                return answer(nothing.shown(&channel, &ask), warnings, Some(&waiting.effective));
            }
        }
    }
}
