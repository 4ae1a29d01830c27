//! `list_channels`: the channels of the tenant.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::channels::Counted;
use drawloom_wire::channels::{self, ChannelDescriptor, ChannelList};

use crate::{
    memory::failure,
    operation::{Answer, Call, Card, Operation},
};

/// How many channels a page has, unless the request says otherwise.
const USUAL: u32 = 100;

pub(crate) struct ListChannels;

impl Operation for ListChannels {
    type Input = channels::ListChannels;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("List channels with their settings.", Scope::ChannelRead).toolset("channels")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ChannelList>, Failure> {
        let (tenant, channels) = (&call.caller.tenant, &call.app.channels);
        let prefix = input.prefix.unwrap_or_default();
        let mut all = channels.list(tenant);
        all.retain(|channel| {
            channel.name.starts_with(&prefix) && input.after.as_ref().is_none_or(|after| channel.name > *after)
        });
        let limit = input.limit.unwrap_or(USUAL) as usize;
        let more = all.len() > limit;
        all.truncate(limit);
        let mut listed = Vec::with_capacity(all.len());
        for channel in &all {
            let Counted { messages, .. } = channels.count(tenant, &channel.name).await.map_err(failure)?;
            let shown: ChannelDescriptor = serde_json::from_value(channel.shown()).expect("a descriptor");
            listed.push(ChannelDescriptor { message_count: messages, ..shown });
        }
        let next = listed.last().filter(|_| more).map(|channel| channel.name.clone());
        Ok(Answer::Value(ChannelList { channels: listed, next }))
    }
}
