//! `channeldef`: create_channel, update_channel, delete_channel and purge_channel under one name.

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
};
use drawloom_wire::{
    channels::{self, ChannelDefOp, ChannelDefined},
    request::Request,
};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::{create_channel::create, purge_channel::purge, update_channel::update};
use crate::{
    channels::answer,
    definitions::by,
    dispatch,
    memory::failure,
    operation::{Answer, Call, Card, KEY_FIELD, Operation},
};

pub(crate) struct ChannelDef;

impl Operation for ChannelDef {
    type Input = channels::ChannelDef;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Create, update, delete or purge a channel.", Scope::DefinitionsWrite)
            .toolset("channels")
            .advice("op=purge works for channels of the config file too. Without user_id or agent it removes the messages of all; with a token that sees only its own user, those of that user.")
            .destructive()
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ChannelDefined>, Failure> {
        let by = by(call, &input);
        let done = match input.op {
            ChannelDefOp::Create => create(call, as_request(&input)?, &by).await?,
            ChannelDefOp::Update => update(call, &as_request(&input)?, &by).await?,
            ChannelDefOp::Delete => {
                let input: channels::DeleteChannel = as_request(&input)?;
                call.app.runtime.delete_channel(&input.name, &by).await.map_err(failure)?
            }
            ChannelDefOp::Purge => {
                let purging = purged(call, as_request(&input)?);
                match dispatch::request_key(call.caller, &input) {
                    Some(key) => dispatch::once(call.app, key, purging).await?,
                    None => purging.await?,
                }
            }
        };
        answer(done, Vec::new(), None)
    }
}

async fn purged(call: &Call<'_>, input: channels::PurgeChannel) -> Result<Value, Failure> {
    let (mut purged, warnings) = purge(call, &input).await?;
    if !warnings.is_empty() {
        purged["warnings"] = json!(warnings);
    }
    Ok(purged)
}

/// The request of the operation that does it, with the fields that it knows. Others are refused, all at once.
fn as_request<R: Request>(input: &channels::ChannelDef) -> Result<R, Failure> {
    let mut fields = serde_json::to_value(input).expect("requests have only text keys");
    if let Some(fields) = fields.as_object_mut() {
        // The key is that of this operation.
        fields.retain(|name, _| name != "op" && name != KEY_FIELD);
        // Null is not given, except where it changes something.
        fields.retain(|_, value| !value.is_null() || input.op == ChannelDefOp::Update);
        refuse_others::<R>(input.op, fields)?;
    }
    serde_json::from_value(fields).map_err(|error| {
        let message = format!("{}: {error}", R::NAME);
        Failure::new(FailureKind::Invalid, "invalid_request", message)
    })
}

/// Refuses fields of `channeldef` that this `op` does not take.
fn refuse_others<R: Request>(op: ChannelDefOp, fields: &Map<String, Value>) -> Result<(), Failure> {
    let schema = SchemaGenerator::default().into_root_schema_for::<R>().to_value();
    let Some(known) = schema["properties"].as_object() else { return Ok(()) };
    let others: Vec<&str> = fields.keys().map(String::as_str).filter(|name| !known.contains_key(*name)).collect();
    if others.is_empty() {
        return Ok(());
    }
    let taken: Vec<&str> = known.keys().map(String::as_str).collect();
    let op = serde_json::to_value(op).expect("an op is text");
    let op = op.as_str().unwrap_or_default();
    let message = format!("op={op} does not take {}", others.join(", "));
    let hint = format!("remove it; op={op} takes {}", taken.join(", "));
    Err(Failure::new(FailureKind::Invalid, "unexpected_field", message).with_hint(hint))
}
