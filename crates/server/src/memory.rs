//! What operations about memory share: whose memory a request means, and entries as callers see them.

use drawloom_contract::{
    caller::Proof,
    definition::MemoryScope,
    failure::{Explain, Failure, FailureKind},
    once::RequestKey,
};
use drawloom_substrate::memory::{By, Entry, Owner, Place};
use drawloom_wire::{
    memory::{MemoryEntry, Named, Placed, Provenance, Replaced},
    request::Request,
};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    dispatch,
    operation::{Answer, Call},
};

/// The memory that a request means: the caller's own, or that of an agent, a run that the caller may see, or the tenant. Fields
/// that mean nothing for the scope are refused, so that no request changes other memory than it says.
pub(crate) async fn place(call: &Call<'_>, request: &impl Placed) -> Result<Place, Failure> {
    let Named { scope, agent, run_id, user_id } = request.named();
    let given = [("agent", agent.is_some()), ("run_id", run_id.is_some()), ("user_id", user_id.is_some())];
    let wanted = match scope {
        MemoryScope::Agent => Some("agent"),
        MemoryScope::Run => Some("run_id"),
        MemoryScope::User => Some("user_id"),
        MemoryScope::Tenant | MemoryScope::Global => None,
    };
    if let Some((field, _)) = given.into_iter().find(|(field, is_given)| *is_given && Some(*field) != wanted) {
        let message = format!("{field} means nothing with the scope {}", scope.as_str());
        return Err(Failure::new(FailureKind::Invalid, "unexpected_field", message).with_hint("leave it out"));
    }
    let owner = match scope {
        MemoryScope::Agent => Owner::Agent(agent.ok_or_else(|| missing("agent", scope))?),
        MemoryScope::Tenant | MemoryScope::Global => Owner::Tenant,
        MemoryScope::Run => {
            let run = run_id.ok_or_else(|| missing("run_id", scope))?;
            Owner::Run(call.app.runs.load(call.caller, run).await?.root)
        }
        MemoryScope::User => match (user_id, call.caller.proof) {
            (Some(user), Proof::Principal) if user != call.caller.subject => {
                let message =
                    format!("the token belongs to {}, which cannot use the memory of {user}", call.caller.subject);
                return Err(Failure::new(FailureKind::Denied, "foreign_user", message).with_hint("leave user_id out"));
            }
            (Some(user), _) => Owner::User(user),
            (None, _) => Owner::User(call.caller.subject.clone()),
        },
    };
    Ok(Place::new(call.caller.tenant.clone(), owner))
}

fn missing(field: &str, scope: MemoryScope) -> Failure {
    let message = format!("{field} is missing: the scope {} needs it", scope.as_str());
    Failure::new(FailureKind::Invalid, "missing_key", message)
}

/// Who changes something, with the request's idempotency key.
pub(crate) fn by<'a, R: Request>(call: &Call<'a>, request: &R, key: &Option<String>) -> By<'a> {
    let key: Option<RequestKey> = key.as_ref().and_then(|_| dispatch::request_key(call.caller, request));
    By::Request { caller: call.caller, operation: R::NAME, key }
}

pub(crate) fn failure(error: impl Explain) -> Failure {
    Failure::of(&error)
}

pub(crate) fn provenance(entry: &Entry) -> Provenance {
    let writer = entry.writer.clone();
    Provenance {
        run_id: writer.run_id,
        agent: writer.agent,
        call: writer.call,
        user_id: writer.user_id,
        operation: writer.operation,
        at: entry.written_at.to_rfc3339(),
        replaced: entry
            .replaced
            .as_ref()
            .map(|replaced| Replaced { revision: replaced.revision, digest: replaced.digest.to_string() }),
    }
}

/// The answer of a change, which the substrate gives as JSON because it is stored under the request's key.
pub(crate) fn answer<T: DeserializeOwned>(value: Value) -> Result<Answer<T>, Failure> {
    let answer = serde_json::from_value(value);
    answer.map(Answer::Value).map_err(|error| Failure::new(FailureKind::Bug, "bug", error.to_string()))
}

/// An entry with all that is known of it.
pub(crate) fn shown(entry: Entry) -> MemoryEntry {
    MemoryEntry {
        provenance: Some(provenance(&entry)),
        revision: entry.revision,
        expires_at: entry.expires_at.map(|time| time.to_rfc3339()),
        key: entry.key,
        value: Some(entry.value),
    }
}
