//! `purge_channel`: removes the messages of a channel.

use drawloom_contract::{
    caller::Scope,
    channel::ChannelScope,
    failure::{Failure, FailureKind},
    ids::UserId,
};
use drawloom_substrate::channels::{Channel, ChannelOwner, Place, Removable};
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
            .advice("It works for channels of the config file too. Without user_id or agent the messages of all are removed; a token that sees only its own user removes only those of that user.")
            .destructive()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ChannelPurged>, Failure> {
        let (purged, warnings) = purge(call, &input).await?;
        answer(purged, warnings, None)
    }
}

/// Removes the messages; what was removed, and what the caller should know.
pub(super) async fn purge(call: &Call<'_>, input: &channels::PurgeChannel) -> Result<(Value, Vec<String>), Failure> {
    let channels = &call.app.channels;
    let channel = channels.load_channel(&call.caller.tenant, &input.name).map_err(failure)?;
    let by = reader::<channels::PurgeChannel>(call.caller);
    let (place, warnings) = place(call, &channel, input)?;
    Ok((channels.purge(&channel, place.as_ref(), &by).await.map_err(failure)?, warnings))
}

/// Whose messages are removed; those of all, if absent. A principal that sees only what is its own removes no messages of other users.
fn place(
    call: &Call<'_>,
    channel: &Channel,
    input: &channels::PurgeChannel,
) -> Result<(Option<Place>, Vec<String>), Failure> {
    let (agent, user_id) = (input.agent.as_ref(), input.user_id.as_ref());
    let visible = call.caller.visible();
    let own = match Removable::of(&visible, channel.config.scope) {
        Removable::Everyones => None,
        Removable::OnlyOf(own) => Some(own),
    };
    let is_users = channel.config.scope.plain() == ChannelScope::User;
    let of = |user: &UserId| Place::new(call.caller.tenant.clone(), &channel.name, ChannelOwner::User(user.clone()));
    match (agent, user_id, own) {
        (None, Some(user), Some(own)) if is_users && user != own => {
            let message = format!("the token belongs to {own}, so it cannot purge messages of {user}");
            let hint = format!("remove user_id to purge those of {own}, or use a token with the scope runs:read:all");
            Err(Failure::new(FailureKind::Denied, "user_denied", message).with_hint(hint))
        }
        (None, Some(user), _) if is_users => Ok((Some(of(user)), Vec::new())),
        (None, None, Some(own)) if is_users => {
            let warning = format!("only messages of {own} were removed: the token belongs to {own}");
            Ok((Some(of(own)), vec![warning]))
        }
        (None, None, _) => Ok((None, Vec::new())),
        (agent, user_id, _) => {
            let Meant { place, warnings, .. } = meant(call, &channel.name, Named { scope: None, agent, user_id })?;
            Ok((Some(place), warnings))
        }
    }
}
