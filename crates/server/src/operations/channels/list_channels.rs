//! `list_channels`: the channels of the tenant.

use std::cmp::Reverse;

use drawloom_contract::{
    caller::{Scope, Visible},
    failure::Failure,
};
use drawloom_substrate::channels::{ChannelOwner, ChannelReader, Counted, Source, Who};
use drawloom_wire::channels::{self, ChannelDescriptor, ChannelList};

use crate::{
    memory::failure,
    operation::{Answer, Call, Card, Operation},
};

/// How many channels a page has, unless the request says otherwise.
const USUAL: u32 = 100;

/// How many readers of a channel are listed.
const MAX_READERS: usize = 20;

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
            let Counted { messages, unread, .. } = channels.count(tenant, &channel.name).await.map_err(failure)?;
            // A dead-letter channel that nothing was moved to is not worth a line.
            if channel.source == Source::Implicit && messages == 0 {
                continue;
            }
            if listed.len() == limit {
                next = listed.last().map(|channel| channel.name.clone());
                break;
            }
            let shown: ChannelDescriptor = serde_json::from_value(channel.shown()).expect("a descriptor");
            let readers = readers(unread.readers, &call.caller.visible());
            listed.push(ChannelDescriptor {
                message_count: messages,
                unread_count: Some(unread.messages),
                readers,
                ..shown
            });
        }
        Ok(Answer::Value(ChannelList { channels: listed, next }))
    }
}

/// The readers that the caller may see, those with the most unread messages first.
fn readers(mut readers: Vec<(ChannelReader, u64)>, visible: &Visible) -> Vec<channels::ChannelReader> {
    readers.retain(|(reader, _)| reader.is_visible_to(visible));
    readers.sort_by_key(|(_, unread)| Reverse(*unread));
    let shown = readers.into_iter().take(MAX_READERS).map(|(reader, unread)| {
        let (user_id, agent) = match reader.owner {
            ChannelOwner::User(user) => (Some(user), None),
            ChannelOwner::Agent(agent) => (None, Some(agent)),
            ChannelOwner::Tenant => (None, None),
        };
        let reader = match reader.who {
            Who::All => "all".to_owned(),
            Who::Consumer(name) => name,
            Who::Group(name) => format!("group/{name}"),
        };
        channels::ChannelReader { reader, user_id, agent, unread }
    });
    shown.collect()
}
