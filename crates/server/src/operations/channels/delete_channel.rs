//! `delete_channel`: deletes a channel made at runtime.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::channels::{self, ChannelDeleted};

use crate::{
    channels::answer,
    definitions::by,
    memory::failure,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct DeleteChannel;

impl Operation for DeleteChannel {
    type Input = channels::DeleteChannel;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Delete a channel with its messages.", Scope::DefinitionsWrite)
            .toolset("channels")
            .advice("Channels of the config file cannot be deleted; purge_channel removes their messages.")
            .destructive()
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ChannelDeleted>, Failure> {
        let by = by(call, &input);
        answer(call.app.runtime.delete_channel(&input.name, &by).await.map_err(failure)?, Vec::new(), None)
    }
}
