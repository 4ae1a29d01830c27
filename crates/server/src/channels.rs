//! What operations about channels share: whose messages a request means, waiting, and answers.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    caller::Caller,
    channel::ChannelScope,
    failure::{Failure, FailureKind},
    once::RequestKey,
    time::Timestamp,
};
use drawloom_substrate::channels::{
    By, Channel, ChannelOwner, Lease, Listener, Place, Publish, Subscribe, USUAL_PAGE,
    rules::{self, EffectiveWait, LONG_POLL_MS, read_cursor},
};
use drawloom_wire::{
    channels::{Named, Placed},
    request::Request,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    auth::on_behalf,
    dispatch,
    memory::{failure, known_agent},
    operation::{Answer, Call},
};

/// Maximum bytes of the messages of an answer, where the surface has no bound of its own.
const PAGE_BYTES: u64 = 4 * 1024 * 1024;

/// The messages that a request means.
pub(crate) struct Meant {
    pub(crate) channel: Arc<Channel>,
    pub(crate) place: Place,
    /// The caller, as the user that the request names where it may name one.
    pub(crate) caller: Caller,
    pub(crate) warnings: Vec<String>,
}

/// The messages that a request means in a channel: those of the tenant, of the caller's user, or of the named user or agent. Fields that
/// mean nothing for the channel's scope are refused.
pub(crate) fn meant(call: &Call<'_>, name: &str, named: Named<'_>) -> Result<Meant, Failure> {
    let tenant = &call.caller.tenant;
    let channel = call.app.channels.load_channel(tenant, name).map_err(failure)?;
    let Named { scope, agent, user_id } = named;
    let has = channel.config.scope.plain();
    let refuse = |message: String| Failure::new(FailureKind::Invalid, "channel_scope_invalid", message);
    if let Some(asked) = scope.map(ChannelScope::plain)
        && asked != has
    {
        let message = format!("channel {name:?} has the scope {}, not {}", has.as_str(), asked.as_str());
        return Err(refuse(message).with_hint("remove scope, or name another channel"));
    }
    let useless = match has {
        ChannelScope::Agent => user_id.map(|_| "user_id"),
        ChannelScope::User => agent.map(|_| "agent"),
        ChannelScope::Tenant | ChannelScope::Global => agent.map(|_| "agent").or(user_id.map(|_| "user_id")),
    };
    if let Some(field) = useless {
        let message = format!("{field} cannot be used: channel {name:?} has the scope {}", has.as_str());
        return Err(refuse(message).with_hint("remove it"));
    }
    let (caller, warnings) = on_behalf(call.caller, user_id, None);
    let owner = match has {
        ChannelScope::Tenant | ChannelScope::Global => ChannelOwner::Tenant,
        ChannelScope::User => ChannelOwner::User(caller.subject.clone()),
        ChannelScope::Agent => {
            let missing = || refuse(format!("agent is missing: channel {name:?} has the scope agent"));
            ChannelOwner::Agent(agent.ok_or_else(missing)?.clone())
        }
    };
    let place = Place::new(tenant.clone(), name, owner);
    Ok(Meant { channel, place, caller, warnings })
}

/// The messages that a request means in several channels. A field must mean something for one of them.
pub(crate) fn meant_in_all<R: Placed>(call: &Call<'_>, names: &[String], request: &R) -> Result<Vec<Meant>, Failure> {
    let Named { scope, agent, user_id } = request.named();
    let load = |name: &String| call.app.channels.load_channel(&call.caller.tenant, name).map_err(failure);
    let scopes: Vec<ChannelScope> =
        names.iter().map(|name| Ok(load(name)?.config.scope.plain())).collect::<Result<_, Failure>>()?;
    // What no channel uses is refused by the first one.
    let fits = |has: ChannelScope, wanted: ChannelScope| has == wanted || !scopes.contains(&wanted);
    let meant = names.iter().zip(&scopes).map(|(name, has)| {
        let agent = agent.filter(|_| fits(*has, ChannelScope::Agent));
        let user_id = user_id.filter(|_| fits(*has, ChannelScope::User));
        meant(call, name, Named { scope, agent, user_id })
    });
    meant.collect()
}

/// Who does something, with the request's idempotency key.
pub(crate) fn by<'a, R: Request>(call: &Call<'_>, caller: &'a Caller, request: &R, key: &Option<String>) -> By<'a> {
    let key: Option<RequestKey> = key.as_ref().and_then(|_| dispatch::request_key(call.caller, request));
    By::Request { caller, operation: R::NAME, key }
}

/// One that reads.
pub(crate) fn reader<'a, R: Request>(caller: &'a Caller) -> By<'a> {
    By::Request { caller, operation: R::NAME, key: None }
}

/// What to read.
pub(crate) fn subscribe(
    call: &Call<'_>,
    from: Option<&String>,
    max_messages: Option<u32>,
) -> Result<Subscribe, Failure> {
    Ok(Subscribe {
        from: from.map(|cursor| read_cursor(cursor)).transpose().map_err(failure)?,
        max_messages: max_messages.unwrap_or(USUAL_PAGE),
        bytes: call.result_bytes.unwrap_or(PAGE_BYTES),
        ..Subscribe::default()
    })
}

pub(crate) fn publish(
    value: Value,
    ttl: Option<u64>,
    deliver_at: Option<&String>,
    deliver_after_ms: Option<u64>,
) -> Result<Publish, Failure> {
    let time =
        |text: &String| Timestamp::from_rfc3339(text).ok_or_else(|| failure(rules::Refusal::BadTime(text.clone())));
    Ok(Publish { value, ttl, deliver_at: deliver_at.map(time).transpose()?, deliver_after_ms })
}

pub(crate) fn leases(texts: &[String]) -> Result<Vec<Lease>, Failure> {
    texts.iter().map(|text| Lease::read(text)).collect::<Result<_, _>>().map_err(failure)
}

/// A wait of a request: at most so long, and it ends when the server stops.
pub(crate) struct Waiting {
    pub(crate) effective: EffectiveWait,
    until: drawloom_contract::time::Instant,
}

impl Waiting {
    pub(crate) fn begin(call: &Call<'_>, asked: Option<u64>) -> Self {
        let effective = rules::clip(asked, LONG_POLL_MS);
        let until = call.app.clock.now().after(Duration::from_millis(effective.ms));
        Self { effective, until }
    }

    /// Waits until something may have changed, or `look_again` has passed. Says false when the wait is over.
    pub(crate) async fn next(&self, call: &Call<'_>, listener: &mut Listener, look_again: Option<Duration>) -> bool {
        let clock = &call.app.clock;
        if clock.now() >= self.until {
            return false;
        }
        let again = look_again.map_or(self.until, |wait| clock.now().after(wait).min(self.until));
        tokio::select! {
            () = listener.changed() => true,
            // One more look at the very end: what came just now is still delivered.
            () = clock.sleep_until(again) => true,
            () = call.app.stopping.cancelled() => false,
        }
    }
}

/// Adds warnings to an answer of the substrate, and how long it could have waited.
pub(crate) fn answer<T: DeserializeOwned>(
    mut value: Value,
    mut warnings: Vec<String>,
    wait: Option<&EffectiveWait>,
) -> Result<Answer<T>, Failure> {
    if let Some(wait) = wait {
        value["effective_wait_ms"] = wait.ms.into();
        warnings.extend(wait.warning.clone());
    }
    crate::memory::answer(value, warnings)
}

/// Refuses messages for an agent that does not exist.
pub(crate) fn for_known_agent(call: &Call<'_>, place: &Place) -> Result<(), Failure> {
    match place.owner() {
        ChannelOwner::Agent(agent) => known_agent(call, agent),
        ChannelOwner::User(_) | ChannelOwner::Tenant => Ok(()),
    }
}

/// The messages of one owner that a request names.
pub(crate) fn meant_by<R: Placed>(call: &Call<'_>, name: &str, request: &R) -> Result<Meant, Failure> {
    meant(call, name, request.named())
}
