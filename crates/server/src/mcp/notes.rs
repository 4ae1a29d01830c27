//! Notes of calls that wait: which handle a call waits for and on which terms, so that the call itself outlives its
//! connection and a restart of the server.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    caller::Caller,
    failure::{Explain, Failure},
    ids::{Digest, Tenant},
    time::Timestamp,
    values::{Space, ValueChange, ValueKey},
};
use rmcp::model::{ProgressToken, RequestId};
use serde::{Deserialize, Serialize};

use crate::{app::App, mcp::table::Terms};

/// How long a note is kept while its call waits: longer than any client does.
const KEPT: Duration = Duration::from_secs(25 * 60 * 60);
/// How long it is kept after the answer was sent, for a client who did not get it.
const KEPT_ANSWERED: Duration = Duration::from_secs(10 * 60);
const SPACE: Space = Space::of("mcp_call");

/// A call that waits.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Note {
    /// What for.
    pub(super) handle: String,
    /// How.
    pub(super) terms: Terms,
    /// Since when.
    pub(super) began: Timestamp,
    /// Under which token its caller hears of progress.
    pub(super) token: Option<ProgressToken>,
    /// What its caller calls itself.
    pub(super) client: Option<String>,
    /// Which call of its session it is: the process that took it, and its number there.
    #[serde(default)]
    pub(super) serial: Option<(String, u64)>,
    /// Whether it is over: an answer was sent, or nobody wants one.
    #[serde(default)]
    pub(super) answered: bool,
}

/// The name of a call of a session.
pub(super) fn of_session(session: &str, call: &RequestId) -> String {
    format!("session {session} {}", serde_json::to_string(call).unwrap_or_default())
}

/// The name of a task, whose terms are kept until it is forgotten.
pub(super) fn of_task(handle: &str) -> String {
    format!("task {handle}")
}

/// The name of a call that its caller gave a key.
pub(super) fn of_key(caller: &Caller, key: &str) -> String {
    format!("key {} {} {}", caller.tenant, caller.subject, Digest::of(key.as_bytes()))
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
    pub(super) async fn keep(&self, name: &str, note: &Note) {
        self.put(name, note, KEPT).await;
    }

    /// The call was answered: the note goes soon.
    pub(super) async fn answered(&self, name: &str, note: &Note) {
        self.put(name, &Note { answered: true, ..note.clone() }, KEPT_ANSWERED).await;
    }

    async fn put(&self, name: &str, note: &Note, kept: Duration) {
        let at = self.app.clock.steady();
        let value = serde_json::to_value(note).expect("notes have only text keys");
        let value = self.app.redactor.clean(value);
        let change = ValueChange::put(key(name), value, at, Some(at.after(kept)));
        if let Err(error) = self.app.values.change(vec![change], None).await {
            tracing::warn!(%error, "a waiting call could not be recorded; after a restart its client must retry");
        }
    }

    /// The note of a call, if there is one.
    pub(super) async fn find(&self, name: &str) -> Result<Option<Note>, Failure> {
        let found = self.app.values.find_value(&key(name), self.app.clock.steady()).await;
        let value = found.map_err(|error| Failure::of(&error as &dyn Explain))?;
        // A note of another version says nothing.
        Ok(value.and_then(|kept| serde_json::from_value(kept.value).ok()))
    }
}

fn key(name: &str) -> ValueKey {
    ValueKey { tenant: Tenant::default_tenant(), space: SPACE, owner: String::new(), key: name.to_owned() }
}
