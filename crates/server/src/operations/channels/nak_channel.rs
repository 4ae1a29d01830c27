//! `nak_channel`: gives messages of a group back.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::channels::Settle;
use drawloom_wire::channels::{self, Settled};

use crate::{
    channels::{Meant, answer, by, leases, meant_by},
    memory::failure,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct NakChannel;

impl Operation for NakChannel {
    type Input = channels::NakChannel;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Give messages of a group back, to be delivered again at once.", Scope::ChannelRead)
            .toolset("channels")
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Settled>, Failure> {
        let Meant { channel, place, caller, warnings } = meant_by(call, &input.channel, &input)?;
        let by = by(call, &caller, &input, &input.idempotency_key);
        let leases = leases(&input.leases)?;
        let settled = call.app.channels.settle(&channel, &place, &input.group, &leases, Settle::Nak, &by);
        answer(settled.await.map_err(failure)?, warnings, None)
    }
}
