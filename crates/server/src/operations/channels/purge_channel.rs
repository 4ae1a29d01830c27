//! `purge_channel`: removes the messages of a channel.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::channels::{self, ChannelPurged, Named};
use serde_json::Value;

use crate::{
    channels::{Meant, answer, meant, reader},
    memory::failure,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct PurgeChannel;

impl Operation for PurgeChannel {
    type Input = channels::PurgeChannel;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Remove the messages of a channel.", Scope::DefinitionsWrite)
            .toolset("channels")
            .advice("It works for channels of the config file too. Without user_id or agent the messages of all are removed.")
            .destructive()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ChannelPurged>, Failure> {
        let (purged, warnings) = purge(call, &input).await?;
        answer(purged, warnings, None)
    }
}

/// Removes the messages; what was removed, and what the caller should know.
pub(super) async fn purge(call: &Call<'_>, input: &channels::PurgeChannel) -> Result<(Value, Vec<String>), Failure> {
    let named = Named { scope: None, agent: input.agent.as_ref(), user_id: input.user_id.as_ref() };
    let channels = &call.app.channels;
    let channel = channels.load_channel(&call.caller.tenant, &input.name).map_err(failure)?;
    let by = reader::<channels::PurgeChannel>(call.caller);
    let is_named = named.agent.is_some() || named.user_id.is_some();
    let (place, warnings) = match is_named {
        true => {
            let Meant { place, warnings, .. } = meant(call, &input.name, named)?;
            (Some(place), warnings)
        }
        false => (None, Vec::new()),
    };
    Ok((channels.purge(&channel, place.as_ref(), &by).await.map_err(failure)?, warnings))
}
