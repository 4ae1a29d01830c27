//! `list_channels`: the channels of the tenant.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::channels::{Counted, Source};
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
        all.extend(channels.list_implicit(tenant));
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all.retain(|channel| {
            channel.name.starts_with(&prefix) && input.after.as_ref().is_none_or(|after| channel.name > *after)
        });
        let limit = input.limit.unwrap_or(USUAL) as usize;
        let (mut listed, mut next) = (Vec::<ChannelDescriptor>::new(), None);
        for channel in &all {
            let Counted { messages, .. } = channels.count(tenant, &channel.name).await.map_err(failure)?;
            // A dead-letter channel that nothing was moved to is not worth a line.
            if channel.source == Source::Implicit && messages == 0 {
                continue;
            }
            if listed.len() == limit {
                next = listed.last().map(|channel| channel.name.clone());
                break;
            }
            let shown: ChannelDescriptor = serde_json::from_value(channel.shown()).expect("a descriptor");
            listed.push(ChannelDescriptor { message_count: messages, ..shown });
        }
        Ok(Answer::Value(ChannelList { channels: listed, next }))
    }
}
