//! What operations about definitions share.

use drawloom_contract::failure::{Failure, FailureKind};
use drawloom_substrate::definitions::{By, DefinitionError, rules};
use drawloom_wire::request::Request;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    dispatch,
    operation::{Answer, Call},
};

/// Who changes something, with the request's idempotency key.
pub(crate) fn by<'a, R: Request>(call: &Call<'a>, request: &R) -> By<'a> {
    By::Request { caller: call.caller, key: dispatch::request_key(call.caller, request) }
}

/// Who only reads.
pub(crate) fn reader<'a>(call: &Call<'a>) -> By<'a> {
    By::Request { caller: call.caller, key: None }
}

pub(crate) fn promote(is_asked: bool) -> rules::Promote {
    if is_asked { rules::Promote::Yes } else { rules::Promote::No }
}

/// The answer, which the substrate gives as JSON because it is stored under the request's key.
pub(crate) fn answer<T: DeserializeOwned>(value: Result<Value, DefinitionError>) -> Result<Answer<T>, Failure> {
    let value = value.map_err(|error| Failure::of(&error))?;
    decode(value).map(Answer::Value)
}

pub(crate) fn decode<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| Failure::new(FailureKind::Bug, "bug", error.to_string()))
}
