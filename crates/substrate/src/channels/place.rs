//! Which messages a channel name means: a channel, and who shares it. A model names no owner: it comes from the run. A caller names a
//! user or an agent, and the server checks that the caller may.

use drawloom_contract::{
    channel::ChannelScope,
    ids::{AgentName, Tenant, UserId},
    log::LogKey,
    tool::ToolContext,
    values::{Range, Space, ValueKey, Within},
};

use super::error::ChannelError;
use crate::names;

/// Logs of messages, cursors and consumer groups.
pub(super) const CHANNELS: Space = Space::of("channels");

/// Messages that wait for their time.
pub(super) const DEFERRED: Space = Space::of("channels_deferred");

/// Maximum characters of a channel's name.
pub(super) const MOST_NAME: usize = 128;

/// Maximum characters of a consumer or group name.
pub(super) const MOST_CONSUMER: usize = 64;

/// Names that begin with this are reserved for the server.
pub const RESERVED: &str = "_system/";

/// Whose messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelOwner {
    Agent(AgentName),
    User(UserId),
    Tenant,
}

/// The messages of one owner in one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    tenant: Tenant,
    channel: String,
    owner: ChannelOwner,
}

impl Place {
    pub fn new(tenant: Tenant, channel: &str, owner: ChannelOwner) -> Self {
        Self { tenant, channel: channel.to_owned(), owner }
    }

    /// The place that has this name.
    pub(super) fn named(tenant: Tenant, name: &str) -> Option<Self> {
        let (channel, owner) = name.split_once(':')?;
        let owner = match owner.split_once('/') {
            None => ChannelOwner::Tenant,
            Some(("agent", agent)) => ChannelOwner::Agent(agent.parse().ok()?),
            Some(("user", user)) => ChannelOwner::User(user.parse().ok()?),
            Some(_) => return None,
        };
        Some(Self::new(tenant, channel, owner))
    }

    /// What a channel of this scope means for a call.
    pub(super) fn of_call(context: &ToolContext, channel: &str, scope: ChannelScope) -> Self {
        let owner = match scope {
            ChannelScope::Agent => ChannelOwner::Agent(context.definition.name.clone()),
            ChannelScope::User => ChannelOwner::User(context.user.clone()),
            ChannelScope::Tenant | ChannelScope::Global => ChannelOwner::Tenant,
        };
        Self::new(context.run.tenant.clone(), channel, owner)
    }

    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    pub fn channel(&self) -> &str {
        &self.channel
    }

    pub fn owner(&self) -> &ChannelOwner {
        &self.owner
    }

    /// The scope of a channel whose messages these are.
    pub(super) fn scope(&self) -> ChannelScope {
        match self.owner {
            ChannelOwner::Agent(_) => ChannelScope::Agent,
            ChannelOwner::User(_) => ChannelScope::User,
            ChannelOwner::Tenant => ChannelScope::Tenant,
        }
    }

    /// The same owner in another channel.
    pub(super) fn beside(&self, channel: &str) -> Self {
        Self { channel: channel.to_owned(), ..self.clone() }
    }

    /// The name of the log, and the owner of its values. No channel name has a colon, so no two places have one name.
    pub(super) fn name(&self) -> String {
        let channel = &self.channel;
        match &self.owner {
            ChannelOwner::Agent(agent) => format!("{channel}:agent/{agent}"),
            ChannelOwner::User(user) => format!("{channel}:user/{user}"),
            ChannelOwner::Tenant => format!("{channel}:tenant"),
        }
    }

    pub fn log(&self) -> LogKey {
        LogKey { tenant: self.tenant.clone(), space: CHANNELS, name: self.name() }
    }

    fn value(&self, space: Space, key: String) -> ValueKey {
        ValueKey { tenant: self.tenant.clone(), space, owner: self.name(), key }
    }

    /// The cursor of all readers together, or of one consumer.
    pub(super) fn cursor(&self, consumer: Option<&str>) -> ValueKey {
        let key = consumer.map_or_else(|| "cursor".to_owned(), |consumer| format!("cursor/{consumer}"));
        self.value(CHANNELS, key)
    }

    pub(super) fn group(&self, group: &str) -> ValueKey {
        self.value(CHANNELS, format!("{GROUP}{group}"))
    }

    pub(super) fn deferred(&self, key: String) -> ValueKey {
        self.value(DEFERRED, key)
    }
}

/// What the keys of groups begin with.
pub(super) const GROUP: &str = "group/";

/// What the logs and owners of a channel begin with, of every owner.
pub(super) fn prefix_of(channel: &str) -> String {
    format!("{channel}:")
}

/// All values of one place in a space.
pub(super) fn range_of(tenant: &Tenant, space: Space, name: &str) -> Range {
    Range { space, within: Within::Owner { tenant: tenant.clone(), owner: name.to_owned(), prefix: String::new() } }
}

/// Checks the name of a channel.
pub(crate) fn check_name(name: &str) -> Result<(), ChannelError> {
    let refuse =
        |problem| Err(ChannelError::BadName { what: "channel", name: name.chars().take(MOST_NAME).collect(), problem });
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '/' | '-');
    if name.is_empty() || name.len() > MOST_NAME || !name.chars().all(is_allowed) {
        return refuse("use 1 to 128 letters, digits and _ . / -");
    }
    if name.starts_with(RESERVED) {
        return refuse("the prefix _system/ is reserved");
    }
    if names::is_reserved(name) {
        return refuse(names::RESERVED);
    }
    Ok(())
}

/// Checks the name of a consumer or a group.
pub(super) fn check_consumer(what: &'static str, name: &str) -> Result<(), ChannelError> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-');
    if name.is_empty() || name.len() > MOST_CONSUMER || !name.chars().all(is_allowed) {
        let problem = "use 1 to 64 letters, digits and _ . -";
        return Err(ChannelError::BadName { what, name: name.chars().take(MOST_CONSUMER).collect(), problem });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_places_have_one_name() {
        let place = |channel, owner| {
            let place = Place::new(Tenant::default_tenant(), channel, owner);
            assert_eq!(Place::named(Tenant::default_tenant(), &place.name()), Some(place.clone()));
            place.name()
        };
        let agent = |name: &str| ChannelOwner::Agent(name.parse().expect("a name"));
        let user = |name: &str| ChannelOwner::User(name.parse().expect("a user"));
        let names = [
            place("a", ChannelOwner::Tenant),
            place("a", user("tenant")),
            place("a", agent("tenant")),
            place("a/user", ChannelOwner::Tenant),
            place("a", agent("user/tenant")),
            place("a.dead", ChannelOwner::Tenant),
        ];
        for (number, name) in names.iter().enumerate() {
            assert!(!names[..number].contains(name), "{name}");
        }
    }

    #[test]
    fn names_are_checked() {
        for name in ["a", "exp3-ch1", "a/b.c_d", &"x".repeat(128)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "a b", "a:b", "ä", "_system/x", "drawloom/x", "Drawloom/x", &"x".repeat(129)] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert!(check_consumer("group", "workers-1").is_ok());
        assert!(check_consumer("group", "a/b").is_err());
        assert!(check_consumer("group", &"x".repeat(65)).is_err());
    }
}
