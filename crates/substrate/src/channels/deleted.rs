//! Which channels were deleted. Only messages of a deleted channel are ever removed with its name: a name without a channel can also be one
//! that the config file does not have today, or a dead-letter channel that no active version uses.
//!
//! A deletion is recorded in the change that removes the definition. It stays until the name is used again, or for a while after the
//! messages were removed.

use std::time::Duration;

use drawloom_contract::{
    ids::Tenant,
    time::Timestamp,
    values::{ChangeError, Expect, Kept, NewValue, Range, Space, ValueChange, ValueKey, Within},
};
use serde_json::json;

use super::{ChannelError, Channels};

const DELETED: Space = Space::of("channels_deleted");

const OWNER: &str = "channels";

/// How long a deletion is remembered after the messages were removed: a publish that began before it can end after it.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Deletions that are read at once.
const PAGE: u32 = 256;

fn key_of(tenant: &Tenant, name: &str) -> ValueKey {
    ValueKey { tenant: tenant.clone(), space: DELETED, owner: OWNER.into(), key: name.to_owned() }
}

/// A recorded deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deletion {
    pub(crate) tenant: Tenant,
    pub(crate) name: String,
    /// The dead-letter channels that were deleted with it.
    pub(crate) dead_letters: Vec<String>,
    revision: u64,
}

impl Deletion {
    fn read(key: ValueKey, kept: &Kept) -> Self {
        let names = kept.value["dead_letters"].as_array().into_iter().flatten();
        Self {
            tenant: key.tenant,
            name: key.key,
            dead_letters: names.filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            revision: kept.revision,
        }
    }
}

impl Channels {
    /// The changes that record a deletion.
    pub(crate) fn record_deletion(
        &self,
        tenant: &Tenant,
        name: &str,
        dead_letters: &[String],
        now: Timestamp,
    ) -> Vec<ValueChange> {
        let put = |name: &str, dead_letters: &[String]| {
            let value = self.parts.redactor.clean(json!({ "dead_letters": dead_letters }));
            ValueChange::put(key_of(tenant, name), value, now, None)
        };
        let with_it = dead_letters.iter().map(|dead| put(dead, &[]));
        [put(name, dead_letters)].into_iter().chain(with_it).collect()
    }

    pub(crate) async fn find_deletion(&self, tenant: &Tenant, name: &str) -> Result<Option<Deletion>, ChannelError> {
        let key = key_of(tenant, name);
        let kept = self.parts.values.find_value(&key, self.parts.clock.steady()).await?;
        Ok(kept.map(|kept| Deletion::read(key, &kept)))
    }

    /// All deletions that are remembered.
    pub(crate) async fn list_deletions(&self) -> Result<Vec<Deletion>, ChannelError> {
        let range = Range { space: DELETED, within: Within::Space };
        let (mut found, mut after) = (Vec::new(), None::<ValueKey>);
        loop {
            let page = self.parts.values.list_values(&range, after.as_ref(), PAGE, self.parts.clock.steady()).await?;
            let Some((last, _)) = page.last() else { return Ok(found) };
            after = Some(last.clone());
            found.extend(page.into_iter().map(|(key, kept)| Deletion::read(key, &kept)));
        }
    }

    /// Removes the messages of a deleted channel.
    pub(crate) async fn finish_deletion(&self, deletion: &Deletion) -> Result<(), ChannelError> {
        let now = self.parts.clock.steady();
        self.remove_contents(&deletion.tenant, &deletion.name, now).await?;
        let value = self.parts.redactor.clean(json!({ "dead_letters": deletion.dead_letters }));
        let expires_at = Some(now.after(REMEMBERED));
        self.change_deletion(deletion, Some(NewValue { value, expires_at, quota: None, searched: None }), now).await
    }

    /// Forgets a deletion: the name is used again.
    pub(crate) async fn forget_deletion(&self, deletion: &Deletion) -> Result<(), ChannelError> {
        self.change_deletion(deletion, None, self.parts.clock.steady()).await
    }

    async fn change_deletion(
        &self,
        deletion: &Deletion,
        to: Option<NewValue>,
        now: Timestamp,
    ) -> Result<(), ChannelError> {
        let key = key_of(&deletion.tenant, &deletion.name);
        let change = ValueChange { key, expect: Expect::Revision(deletion.revision), to, at: now };
        match self.parts.values.change(vec![change], None).await {
            // The name was used again meanwhile, or deleted again.
            Ok(_) | Err(ChangeError::Stale { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
