//! What operations about memory share: whose memory a request means, and entries as callers see them.

use drawloom_contract::{
    definition::MemoryScope,
    failure::{Explain, Failure, FailureKind},
    ids::AgentName,
    once::RequestKey,
    values::ChangeError,
};
use drawloom_substrate::memory::{By, Entry, Owner, Place};
use drawloom_wire::{
    memory::{MemoryEntry, Named, Placed, Provenance, Replaced},
    request::Request,
};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    auth::on_behalf,
    dispatch,
    operation::{Answer, Call},
};

/// The memory that a request means, and what the caller should know about that.
pub(crate) struct Meant {
    pub(crate) place: Place,
    pub(crate) warnings: Vec<String>,
}

/// What a request does with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// A tree that has ended keeps what it has, as it does for tools.
    Write,
    /// The same, where nothing is added.
    Remove,
}

/// The memory that a request means: the caller's own, or that of an agent, a run that the caller may see, or the tenant. Fields
/// that mean nothing for the scope are refused, so that no request changes other memory than it says.
pub(crate) async fn meant<R: Placed + Request>(call: &Call<'_>, request: &R, access: Access) -> Result<Meant, Failure> {
    let Named { scope, agent, run_id, user_id } = request.named();
    let given = [("agent", agent.is_some()), ("run_id", run_id.is_some()), ("user_id", user_id.is_some())];
    let wanted = match scope {
        MemoryScope::Agent => Some("agent"),
        MemoryScope::Run => Some("run_id"),
        MemoryScope::User => Some("user_id"),
        MemoryScope::Tenant | MemoryScope::Global => None,
    };
    if let Some((field, _)) = given.into_iter().find(|(field, is_given)| *is_given && Some(*field) != wanted) {
        let message = format!("{field} cannot be used with the scope {}", scope.as_str());
        return Err(Failure::new(FailureKind::Invalid, "unexpected_field", message).with_hint("remove it"));
    }
    let mut warnings = Vec::new();
    let owner = match scope {
        MemoryScope::Agent => {
            let agent = agent.ok_or_else(|| missing("agent", scope))?;
            if access == Access::Write {
                known_agent(call, &agent)?;
            }
            Owner::Agent(agent)
        }
        MemoryScope::Tenant | MemoryScope::Global => Owner::Tenant,
        MemoryScope::Run => {
            let run = run_id.ok_or_else(|| missing("run_id", scope))?;
            let found = call.app.runs.load(call.caller, run).await?;
            let root = found.root;
            let status = match root == run {
                true => found.status,
                false => call.app.runs.load(call.caller, root).await?.status,
            };
            if access != Access::Read && status.is_terminal() && !was_answered(call, request).await? {
                return Err(failure(ChangeError::RunEnded(root)));
            }
            Owner::Run(root)
        }
        MemoryScope::User => {
            let (caller, overridden) = on_behalf(call.caller, user_id.as_ref(), None);
            warnings.extend(overridden);
            Owner::User(caller.subject)
        }
    };
    Ok(Meant { place: Place::new(call.caller.tenant.clone(), owner), warnings })
}

/// Refuses to keep something for an agent that does not exist: such owners would have no end.
pub(crate) fn known_agent(call: &Call<'_>, agent: &AgentName) -> Result<(), Failure> {
    let (definitions, tenant) = (&call.app.definitions, &call.caller.tenant);
    if definitions.find(tenant, agent).is_some() || definitions.unusable(tenant, agent).is_some() {
        return Ok(());
    }
    let message = format!("unknown agent {agent}: no run would use this");
    Err(Failure::new(FailureKind::NotFound, "unknown_agent", message)
        .with_hint("list_agents shows the agents; define it first, or correct the name"))
}

/// Whether the request was carried out before under its key: then it gets its first answer.
async fn was_answered<R: Request>(call: &Call<'_>, request: &R) -> Result<bool, Failure> {
    let Some(key) = dispatch::request_key(call.caller, request) else { return Ok(false) };
    Ok(call.app.answers.find_answer(&key).await.map_err(failure)?.is_some())
}

fn missing(field: &str, scope: MemoryScope) -> Failure {
    let message = format!("{field} is missing: the scope {} requires it", scope.as_str());
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
pub(crate) fn answer<T: DeserializeOwned>(mut value: Value, mut warnings: Vec<String>) -> Result<Answer<T>, Failure> {
    if !warnings.is_empty() {
        let known = value["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
        warnings.extend(known.map(str::to_owned));
        value["warnings"] = warnings.into();
    }
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
