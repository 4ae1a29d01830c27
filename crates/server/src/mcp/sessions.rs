//! Sessions of the older protocol: kept in the store, so that a client goes on after a restart of the server, and bound to
//! whoever opened them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{
    caller::Caller,
    failure::{Explain, Failure},
    ids::{Tenant, UserId},
    time::Timestamp,
    values::{Space, ValueChange, ValueKey},
};
use rmcp::{
    model::InitializeRequestParams,
    transport::streamable_http_server::session::{SessionState, SessionStore, SessionStoreError},
};
use serde::{Deserialize, Serialize};

use crate::{app::App, mcp::standing::Wishes};

/// How long a session is kept after it was last opened or taken up.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How old it may be when it is taken up, before it counts anew.
const RENEWED: Duration = Duration::from_secs(24 * 60 * 60);
/// The space of sessions in the key-value store. Their ids are random and long, so they are kept under one tenant.
const SPACE: Space = Space::of("mcp_session");

/// A session as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    tenant: String,
    subject: String,
    /// Since when, for sessions that are used for long.
    #[serde(default)]
    at: Option<Timestamp>,
    initialize: InitializeRequestParams,
}

/// The sessions that there are.
pub(super) struct Sessions {
    app: Arc<App>,
}

impl Sessions {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self { app }
    }

    /// Keeps a session that `caller` opened; durable when this returns.
    pub(super) async fn keep(
        &self,
        id: &str,
        caller: &Caller,
        initialize: InitializeRequestParams,
    ) -> Result<(), Failure> {
        let (tenant, subject) = (caller.tenant.to_string(), caller.subject.to_string());
        self.put(id, Kept { tenant, subject, at: None, initialize }).await
    }

    async fn put(&self, id: &str, mut kept: Kept) -> Result<(), Failure> {
        let at = self.app.clock.steady();
        kept.at = Some(at);
        let value = serde_json::to_value(&kept).expect("sessions have only text keys");
        let value = self.app.redactor.clean(value);
        let change = ValueChange::put(key(id), value, at, Some(at.after(KEPT)));
        self.change(change).await
    }

    /// Keeps what a session asked for once and for all. It holds in this process also when it cannot be kept.
    pub(super) async fn keep_wishes(&self, id: &str, wishes: &Wishes) {
        let at = self.app.clock.steady();
        let key = key_of_wishes(id);
        let change = match *wishes == Wishes::default() {
            true => ValueChange::remove(key, at),
            false => {
                let value = serde_json::to_value(wishes).expect("wishes have only text keys");
                let value = self.app.redactor.clean(value);
                ValueChange::put(key, value, at, Some(at.after(KEPT)))
            }
        };
        if let Err(error) = self.app.values.change(vec![change], None).await {
            tracing::warn!(%error, "what a session subscribed to could not be kept; after a restart it is not told");
        }
    }

    /// What a session asked for once and for all, if anything.
    pub(super) async fn wishes(&self, id: &str) -> Result<Option<Wishes>, Failure> {
        let found = self.app.values.find_value(&key_of_wishes(id), self.app.clock.steady()).await;
        let value = found.map_err(|error| Failure::of(&error as &dyn Explain))?;
        Ok(value.and_then(|kept| serde_json::from_value(kept.value).ok()))
    }

    /// Forgets a session; durable when this returns. Says whether there was one.
    pub(super) async fn forget(&self, id: &str) -> Result<bool, Failure> {
        let known = self.find(id).await?.is_some();
        self.remove(key(id)).await?;
        Ok(known)
    }

    /// Forgets what a session asked for.
    pub(super) async fn forget_wishes(&self, id: &str) -> Result<(), Failure> {
        self.remove(key_of_wishes(id)).await
    }

    async fn remove(&self, key: ValueKey) -> Result<(), Failure> {
        self.change(ValueChange::remove(key, self.app.clock.steady())).await
    }

    async fn change(&self, change: ValueChange) -> Result<(), Failure> {
        let changed = self.app.values.change(vec![change], None).await;
        changed.map(drop).map_err(|error| Failure::of(&error as &dyn Explain))
    }

    /// Whether `caller` opened the session; `None`, when there is no such session.
    pub(super) async fn is_of(&self, id: &str, caller: &Caller) -> Result<Option<bool>, Failure> {
        let kept = self.find(id).await?;
        Ok(kept.map(|kept| kept.tenant == caller.tenant.as_str() && kept.subject == caller.subject.as_str()))
    }

    /// Who opened a session.
    pub(super) async fn owner(&self, id: &str) -> Result<Option<(Tenant, UserId)>, Failure> {
        let kept = self.find(id).await?;
        Ok(kept.and_then(|kept| Some((kept.tenant.parse().ok()?, kept.subject.parse().ok()?))))
    }

    async fn find(&self, id: &str) -> Result<Option<Kept>, Failure> {
        let found = self.app.values.find_value(&key(id), self.app.clock.steady()).await;
        let value = found.map_err(|error| Failure::of(&error as &dyn Explain))?;
        Ok(value.and_then(|kept| serde_json::from_value(kept.value).ok()))
    }
}

fn key_of_wishes(id: &str) -> ValueKey {
    key(&format!("{id} wishes"))
}

fn key(id: &str) -> ValueKey {
    ValueKey { tenant: Tenant::default_tenant(), space: SPACE, owner: String::new(), key: id.to_owned() }
}

#[async_trait]
impl SessionStore for Sessions {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let Some(kept) = self.find(id).await? else { return Ok(None) };
        let initialize = kept.initialize.clone();
        let now = self.app.clock.steady();
        if kept.at.is_none_or(|at| now.since(at) > RENEWED) {
            self.put(id, kept).await?;
            if let Some(wishes) = self.wishes(id).await? {
                self.keep_wishes(id, &wishes).await;
            }
        }
        Ok(Some(SessionState::new(initialize)))
    }

    /// The endpoint keeps a session itself, with its owner, before its id leaves the server.
    async fn store(&self, _: &str, _: &SessionState) -> Result<(), SessionStoreError> {
        Ok(())
    }

    async fn delete(&self, id: &str) -> Result<(), SessionStoreError> {
        let removal = ValueChange::remove(key(id), self.app.clock.steady());
        self.app.values.change(vec![removal], None).await?;
        Ok(())
    }
}
