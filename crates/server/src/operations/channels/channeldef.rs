//! `channeldef`: create_channel, update_channel, delete_channel and purge_channel under one name.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
};
use drawloom_wire::{
    channels::{self, ChannelDefOp, ChannelDefined},
    request::Request,
};
use serde_json::Value;

use super::{
    create_channel::CreateChannel, delete_channel::DeleteChannel, purge_channel::PurgeChannel,
    update_channel::UpdateChannel,
};
use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct ChannelDef;

impl Operation for ChannelDef {
    type Input = channels::ChannelDef;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Create, update, delete or purge a channel.", Scope::DefinitionsWrite)
            .toolset("channels")
            .advice("op=purge works for channels of the config file too.")
            .destructive()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ChannelDefined>, Failure> {
        match input.op {
            ChannelDefOp::Create => pass_on(&CreateChannel, call, &input).await,
            ChannelDefOp::Update => pass_on(&UpdateChannel, call, &input).await,
            ChannelDefOp::Delete => pass_on(&DeleteChannel, call, &input).await,
            ChannelDefOp::Purge => pass_on(&PurgeChannel, call, &input).await,
        }
    }
}

/// Does what another operation does, with the fields that it knows. Others are refused.
async fn pass_on<O: Operation>(
    operation: &O,
    call: &Call<'_>,
    input: &channels::ChannelDef,
) -> Result<Answer<ChannelDefined>, Failure> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(input) else { return Err(misfit::<O>("not an object")) };
    fields.remove("op");
    let input = serde_json::from_value::<O::Input>(Value::Object(fields)).map_err(misfit::<O>)?;
    let Answer::Value(answer) = operation.call(call, input).await? else { return Err(misfit::<O>("no answer")) };
    let shown = serde_json::to_value(answer).and_then(serde_json::from_value).map_err(misfit::<O>)?;
    Ok(Answer::Value(shown))
}

fn misfit<O: Operation>(problem: impl ToString) -> Failure {
    let message = format!("{}: {}", <O::Input as Request>::NAME, problem.to_string());
    Failure::new(FailureKind::Invalid, "invalid_request", message)
}
