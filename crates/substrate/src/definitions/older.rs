//! Channels that earlier versions of the program stored in a place of their own, without their history. A server moves them to the
//! definitions when it starts; a process that only reads finds them where they are.

use drawloom_contract::{
    definition::DefinitionKind,
    ids::Tenant,
    values::{ChangeError, Expect, Kept, NewValue, Range, Space, ValueChange, ValueKey, Within},
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    DefinitionError, RuntimeDefinitions,
    layer::Known,
    version::{Maker, NameRecord, Summary, Version, name_key, version_key},
};
use crate::channels::ChannelConfig;

const SPACE: Space = Space::of("channels_defined");

const OWNER: &str = "channels";

/// Values that are read at once.
const PAGE: u32 = 256;

#[derive(Deserialize)]
struct Stored {
    version: u64,
    channel: ChannelConfig,
}

/// A channel of the older place, as a definition with its last version alone.
pub(super) struct Older {
    pub(super) revision: u64,
    pub(super) record: NameRecord,
    pub(super) version: Version,
}

impl Older {
    fn read(name: &str, kept: &Kept) -> Result<Self, serde_json::Error> {
        let Stored { version, channel } = serde_json::from_value(kept.value.clone())?;
        let version = u32::try_from(version).unwrap_or(u32::MAX).max(1);
        let (source, digest, created_at) = (channel.source(), channel.digest(), kept.at);
        let summary = Summary { version, digest, parent: None, created_at, retired: false, authority: None };
        let record = NameRecord { active: Some(version), owner: None, versions: vec![summary] };
        let version = Version {
            name: name.to_owned(),
            version,
            digest,
            parent: None,
            maker: Maker::default(),
            under: None,
            created_at,
            description: String::new(),
            source,
        };
        Ok(Self { revision: kept.revision, record, version })
    }
}

impl RuntimeDefinitions {
    /// Moves the channels of the older place. Called once, before [`Self::load`], by the process that owns the store.
    pub async fn adopt_older(&self) -> Result<(), DefinitionError> {
        let kind = DefinitionKind::Channel;
        for (key, kept) in self.list_older().await? {
            let older = match Older::read(&key.key, &kept) {
                Ok(older) => older,
                Err(error) => {
                    tracing::warn!(channel = key.key, %error, "cannot read the channel's definition; it is not used");
                    continue;
                }
            };
            let now = self.parts.clock.wall();
            let put = |key: ValueKey, value: Value| {
                let value = self.parts.redactor.clean(value);
                // It is not new: no quota refuses it.
                let to = Some(NewValue { value, expires_at: None, quota: None, searched: None });
                ValueChange { key, expect: Expect::Absent, to, at: now }
            };
            let record = serde_json::to_value(&older.record).expect("a record has only text keys");
            let version = serde_json::to_value(&older.version).expect("a version has only text keys");
            let number = older.version.version;
            let changes = vec![
                put(name_key(&key.tenant, kind, &key.key), record),
                put(version_key(&key.tenant, kind, &key.key, number), version),
                ValueChange::remove(key.clone(), now),
            ];
            match self.parts.values.change(changes, None).await {
                Ok(_) => tracing::info!(channel = key.key, version = number, "the channel has versions from now on"),
                // An older version of the program was used in between and made it again.
                Err(ChangeError::Stale { .. }) => {
                    tracing::warn!(
                        channel = key.key,
                        settings = %older.version.source,
                        "an older version of the program made a channel that exists; its settings are dropped"
                    );
                    self.parts.values.change(vec![ValueChange::remove(key, now)], None).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The channels of the older place that can be read.
    pub(super) async fn load_older(&self) -> Result<Vec<(Tenant, String, Known)>, DefinitionError> {
        let found = self.list_older().await?.into_iter().filter_map(|(key, kept)| {
            let Older { revision, record, version } = Older::read(&key.key, &kept).ok()?;
            let known = Known { revision, record: record.into(), version: Some(version.into()) };
            Some((key.tenant, key.key, known))
        });
        Ok(found.collect())
    }

    pub(super) async fn find_older(
        &self,
        tenant: &Tenant,
        kind: DefinitionKind,
        name: &str,
    ) -> Result<Option<Older>, DefinitionError> {
        if kind != DefinitionKind::Channel {
            return Ok(None);
        }
        let key = ValueKey { tenant: tenant.clone(), space: SPACE, owner: OWNER.into(), key: name.to_owned() };
        let kept = self.parts.values.find_value(&key, self.parts.clock.wall()).await?;
        Ok(kept.and_then(|kept| Older::read(name, &kept).ok()))
    }

    async fn list_older(&self) -> Result<Vec<(ValueKey, Kept)>, DefinitionError> {
        let range = Range { space: SPACE, within: Within::Space };
        let mut found: Vec<(ValueKey, Kept)> = Vec::new();
        loop {
            let after = found.last().map(|(key, _)| key.clone());
            let page = self.parts.values.list_values(&range, after.as_ref(), PAGE, self.parts.clock.wall()).await?;
            if page.is_empty() {
                return Ok(found);
            }
            found.extend(page);
        }
    }
}
