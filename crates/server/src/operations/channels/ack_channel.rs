//! `ack_channel`: acknowledges messages, by cursor or by lease.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
};
use drawloom_substrate::channels::{Settle, rules::read_cursor};
use drawloom_wire::channels::{self, Settled};

use crate::{
    channels::{Meant, answer, by, leases, meant_by},
    memory::failure,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct AckChannel;

impl Operation for AckChannel {
    type Input = channels::AckChannel;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Acknowledge messages of a channel.", Scope::ChannelRead)
            .toolset("channels")
            .advice("Give cursor after peek_channel or await_channels; give group and leases after subscribe_channel with a group.")
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<Settled>, Failure> {
        let Meant { channel, place, caller, warnings } = meant_by(call, &input.channel, &input)?;
        let (by, channels) = (by(call, &caller, &input, &input.idempotency_key), &call.app.channels);
        let settled = match (&input.cursor, &input.group, &input.leases) {
            (Some(cursor), None, None) => {
                let cursor = read_cursor(cursor).map_err(failure)?;
                channels.ack(&channel, &place, input.consumer.as_deref(), cursor, &by).await
            }
            (None, Some(group), Some(texts)) if input.consumer.is_none() => {
                channels.settle(&channel, &place, group, &leases(texts)?, Settle::Ack, &by).await
            }
            _ => {
                let message = "ack_channel takes cursor (and consumer), or group and leases";
                return Err(Failure::new(FailureKind::Invalid, "wrong_fields", message));
            }
        };
        answer(settled.map_err(failure)?, warnings, None)
    }
}
