//! Whose messages a caller or agent may remove, by whatever change: a purge, other settings, another version, a retirement, a deletion.
//!
//! Messages of a channel with the scope `user` belong to users. Who sees only what is its own removes only its own.

use drawloom_contract::{
    caller::Visible,
    channel::{ChannelScope, Semantic},
    ids::{Tenant, UserId},
    values::{Range, ValueKey, Within},
};

use super::{
    ChannelConfig, ChannelError, ChannelOwner, Channels, LogsAsked, Place,
    place::{CHANNELS, DEFERRED, prefix_of},
};

/// Pages in which stored things are listed.
const PAGE: u32 = 256;

/// Whose messages of a channel may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removable<'a> {
    Everyones,
    OnlyOf(&'a UserId),
}

impl<'a> Removable<'a> {
    /// What may be removed from a channel with this scope by a caller or agent that sees this.
    pub fn of(visible: &'a Visible, scope: ChannelScope) -> Self {
        match (scope.plain(), visible.owner()) {
            (ChannelScope::User, Some(own)) => Self::OnlyOf(own),
            (ChannelScope::User, None) | (ChannelScope::Agent | ChannelScope::Tenant | ChannelScope::Global, _) => {
                Self::Everyones
            }
        }
    }
}

impl ChannelConfig {
    /// The first setting that takes messages from a channel which had the settings `before`, or leads them to other readers.
    pub(crate) fn takes_away(&self, before: &Self) -> Option<&'static str> {
        let Self { description: _, scope: _, semantic, default_ttl, max_messages, lease_ms, max_attempts, dead_letter } =
            self;
        let is_queue = |semantic: Semantic| matches!(semantic.plain(), Semantic::Queue);
        let ttl = |ttl: Option<u64>| ttl.unwrap_or(u64::MAX);
        let taking = [
            ("max_messages", *max_messages < before.max_messages),
            ("default_ttl", ttl(*default_ttl) < ttl(before.default_ttl)),
            // Messages go to the dead-letter channel earlier, or to another one.
            ("max_attempts", *max_attempts < before.max_attempts),
            ("lease_ms", *lease_ms < before.lease_ms),
            ("dead_letter", *dead_letter != before.dead_letter),
            // A message that one reader takes is gone for the others.
            ("semantic", is_queue(*semantic) && !is_queue(before.semantic)),
        ];
        taking.into_iter().find(|(_, is_taking)| *is_taking).map(|(setting, _)| setting)
    }
}

impl Channels {
    /// Refuses what would remove messages of users whose messages may not be removed: those that the names have, delivered or deferred.
    pub(crate) async fn may_remove_others(
        &self,
        tenant: &Tenant,
        names: &[&str],
        visible: &Visible,
        what: &str,
    ) -> Result<(), ChannelError> {
        let Some(own) = visible.owner() else { return Ok(()) };
        for name in names {
            if self.has_messages_of_others(tenant, name, own).await? {
                let (name, what, own) = ((*name).to_owned(), what.to_owned(), own.clone());
                return Err(ChannelError::OthersMessages { name, what, own });
            }
        }
        Ok(())
    }

    async fn has_messages_of_others(&self, tenant: &Tenant, name: &str, own: &UserId) -> Result<bool, ChannelError> {
        let is_others = |owner: &str| {
            let place = Place::named(tenant.clone(), owner);
            place.is_some_and(|place| matches!(place.owner(), ChannelOwner::User(user) if user != own))
        };
        let (prefix, mut after) = (prefix_of(name), None);
        loop {
            let within = Some((tenant.clone(), prefix.clone()));
            let asked = LogsAsked { space: CHANNELS, within, after: after.take(), limit: PAGE };
            let page = self.parts.backlog.list_logs(&asked).await?;
            if page.iter().any(|state| state.kept > 0 && is_others(&state.log.name)) {
                return Ok(true);
            }
            match page.last() {
                Some(last) if page.len() as u32 == PAGE => after = Some((tenant.clone(), last.log.name.clone())),
                _ => break,
            }
        }
        let now = self.parts.clock.steady();
        let range = Range { space: DEFERRED, within: Within::Tenant(tenant.clone()) };
        let start = |owner: String| ValueKey { tenant: tenant.clone(), space: DEFERRED, owner, key: String::new() };
        let mut after = start(prefix.clone());
        while let Some((key, _)) = self.parts.values.list_values(&range, Some(&after), 1, now).await?.pop() {
            if !key.owner.starts_with(&prefix) {
                break;
            }
            if is_others(&key.owner) {
                return Ok(true);
            }
            // The next owner.
            after = start(format!("{}\0", key.owner));
        }
        Ok(false)
    }
}
