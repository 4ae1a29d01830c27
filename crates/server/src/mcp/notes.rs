//! Notes of calls that wait: which handle a call of a session waits for, so that the call itself outlives a restart.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    ids::Tenant,
    values::{ValueChange, ValueKey},
};
use rmcp::model::{ProgressToken, RequestId};
use serde::{Deserialize, Serialize};

use crate::app::App;

/// How long a note is kept: longer than any client waits.
const KEPT: Duration = Duration::from_secs(2 * 24 * 60 * 60);
const SPACE: &str = "mcp_call";

/// A call that waits.
#[derive(Serialize, Deserialize)]
pub(super) struct Note {
    /// What for.
    pub(super) handle: String,
    /// Under which token its caller hears of progress.
    pub(super) token: Option<ProgressToken>,
    /// What its caller calls itself.
    pub(super) client: Option<String>,
}

/// The notes that there are.
pub(super) struct Notes {
    app: Arc<App>,
}

impl Notes {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self { app }
    }

    /// Notes a call. One that cannot be noted waits all the same.
    pub(super) async fn keep(&self, session: &str, id: &RequestId, note: &Note) {
        let at = self.app.clock.now();
        let value = serde_json::to_value(note).expect("notes have only text keys");
        let value = self.app.redactor.clean(value);
        let change = ValueChange::Put { key: key(session, id), value, at, expires_at: at.after(KEPT) };
        if let Err(error) = self.app.values.change(change).await {
            tracing::warn!(%error, "a waiting call could not be noted; after a restart its client must ask anew");
        }
    }

    /// The note of a call, if there is one.
    pub(super) async fn find(&self, session: &str, id: &RequestId) -> Option<Note> {
        match self.app.values.find_value(&key(session, id), self.app.clock.now()).await {
            Ok(value) => value.and_then(|value| serde_json::from_value(value).ok()),
            Err(error) => {
                tracing::warn!(%error, "notes of waiting calls cannot be read");
                None
            }
        }
    }
}

fn key(session: &str, id: &RequestId) -> ValueKey {
    let id = serde_json::to_string(id).expect("ids are numbers or texts");
    ValueKey { tenant: Tenant::default_tenant(), space: SPACE, key: format!("{session} {id}") }
}
