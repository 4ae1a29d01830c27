//! `peek_channel`: reads messages without taking them.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::channels::Subscribe;
use drawloom_wire::channels::{self, ChannelMessages};

use crate::{
    channels::{Meant, answer, meant_by, reader, subscribe},
    memory::failure,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct PeekChannel;

impl Operation for PeekChannel {
    type Input = channels::PeekChannel;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Read messages of a channel without taking them.", Scope::ChannelRead)
            .toolset("channels")
            .advice("Pass next_cursor to ack_channel to take what you read.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ChannelMessages>, Failure> {
        let Meant { channel, place, caller, warnings } = meant_by(call, &input.channel, &input)?;
        let consumer = input.consumer;
        let ask = Subscribe { consumer, ..subscribe(call, input.from_cursor.as_ref(), input.max_messages)? };
        let by = reader::<Self::Input>(&caller);
        answer(call.app.channels.peek(&channel, &place, &ask, &by).await.map_err(failure)?, warnings, None)
    }
}
