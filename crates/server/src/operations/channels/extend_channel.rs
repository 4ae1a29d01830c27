//! `extend_channel`: keeps messages of a group longer.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::channels::Settle;
use drawloom_wire::channels::{self, Settled};

use crate::{
    channels::{Meant, answer, by, leases, meant_by},
    memory::failure,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct ExtendChannel;

impl Operation for ExtendChannel {
    type Input = channels::ExtendChannel;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Keep messages of a group longer.", Scope::ChannelRead).toolset("channels").stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Settled>, Failure> {
        let Meant { channel, place, caller, warnings } = meant_by(call, &input.channel, &input)?;
        let by = by(call, &caller, &input, &input.idempotency_key);
        let lease_ms = input.lease_ms.unwrap_or(channel.config.lease_ms);
        let leases = leases(&input.leases)?;
        let settled =
            call.app.channels.settle(&channel, &place, &input.group, &leases, Settle::Extend { lease_ms }, &by);
        answer(settled.await.map_err(failure)?, warnings, None)
    }
}
