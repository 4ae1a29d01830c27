//! What a session of the older protocol asked for once and for all: which resources it hears of, and from which level on it
//! gets log messages. It is kept, so that it holds after a restart of the server as the session does.

#![expect(deprecated, reason = "older clients still set a level for log messages")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use rmcp::{
    ErrorData,
    model::{LoggingLevel, ResourceUpdatedNotificationParam},
};
use serde::{Deserialize, Serialize};
use tokio_util::task::AbortOnDropHandle;

use crate::mcp::{
    calls::Entered,
    endpoint::{SessionCall, Shared},
    sessions::Sessions,
    table::Ask,
};

/// How many resources a session can hear of.
pub(super) const SUBSCRIPTIONS: usize = 256;

/// As it is kept.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Wishes {
    #[serde(default)]
    uris: Vec<String>,
    #[serde(default)]
    level: Option<LoggingLevel>,
}

/// What one session asked for.
pub(super) struct Standing {
    shared: Arc<Shared>,
    level: Mutex<Option<LoggingLevel>>,
    /// Whoever waits for a change of each resource. Held while it is written down, so that the last word is what is kept.
    watchers: tokio::sync::Mutex<HashMap<String, AbortOnDropHandle<()>>>,
}

impl Standing {
    pub(super) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { shared, level: Mutex::default(), watchers: tokio::sync::Mutex::default() })
    }

    pub(super) fn level(&self) -> Option<LoggingLevel> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn set_level(&self, ask: &Ask, level: LoggingLevel) {
        let watchers = self.watchers.lock().await;
        self.have_level(Some(level));
        self.keep(ask.session(), watchers.keys()).await;
    }

    fn have_level(&self, level: Option<LoggingLevel>) {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = level;
    }

    /// Tells the session once when the resource changes.
    pub(super) async fn subscribe(self: &Arc<Self>, ask: Ask, uri: String) -> Result<(), ErrorData> {
        let mut watchers = self.watchers.lock().await;
        if watchers.len() >= SUBSCRIPTIONS && !watchers.contains_key(&uri) {
            let message = format!("a session can have {SUBSCRIPTIONS} subscriptions; unsubscribe from some first");
            return Err(ErrorData::invalid_request(message, None));
        }
        let session = ask.session().map(str::to_owned);
        watchers.insert(uri.clone(), self.watch(ask, uri));
        self.keep(session.as_deref(), watchers.keys()).await;
        Ok(())
    }

    pub(super) async fn unsubscribe(&self, ask: &Ask, uri: &str) {
        let mut watchers = self.watchers.lock().await;
        if watchers.remove(uri).is_some() {
            self.keep(ask.session(), watchers.keys()).await;
        }
    }

    /// Takes up what the session had asked for, in a server that was started since. `ask` makes the asker for each.
    pub(super) async fn take_up(self: &Arc<Self>, session: &str, ask: impl Fn() -> Option<Ask>) {
        let Some(wishes) = Sessions::new(self.shared.app.clone()).wishes(session).await else { return };
        let mut watchers = self.watchers.lock().await;
        self.have_level(wishes.level);
        for uri in wishes.uris {
            let Some(ask) = ask() else { return };
            watchers.insert(uri.clone(), self.watch(ask, uri));
        }
    }

    fn watch(self: &Arc<Self>, mut ask: Ask, uri: String) -> AbortOnDropHandle<()> {
        // The request itself is over long before.
        ask.context.extensions.remove::<Arc<Entered<SessionCall>>>();
        // Whoever waits does not keep a session alive that is over.
        let (standing, shared) = (Arc::downgrade(self), self.shared.clone());
        AbortOnDropHandle::new(tokio::spawn(async move {
            if heard(&shared, &ask, &uri).await {
                let notice = ResourceUpdatedNotificationParam::new(uri.clone());
                if let Err(error) = ask.context.peer.notify_resource_updated(notice).await {
                    tracing::debug!(%error, "a subscriber could not be told");
                }
            }
            if let Some(standing) = Weak::upgrade(&standing) {
                let mut watchers = standing.watchers.lock().await;
                standing.keep(ask.session(), watchers.keys().filter(|known| **known != uri)).await;
                // The last thing: it ends this task.
                watchers.remove(&uri);
            }
        }))
    }

    async fn keep(&self, session: Option<&str>, uris: impl Iterator<Item = &String>) {
        let wishes = Wishes { uris: uris.cloned().collect(), level: self.level() };
        if let Some(session) = session {
            Sessions::new(self.shared.app.clone()).keep_wishes(session, &wishes).await;
        }
    }
}

/// Whether something was heard of a resource.
pub(super) async fn heard(shared: &Shared, ask: &Ask, uri: &str) -> bool {
    for table in shared.tables.iter() {
        if let Some(changed) = table.resource_changed(ask, uri).await {
            return changed.is_ok();
        }
    }
    false
}
