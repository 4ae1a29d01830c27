//! What a session of the older protocol asked for once and for all: which resources it hears of, and from which level on it
//! gets log messages. It is kept, so that it holds after a restart of the server as the session does.

#![expect(deprecated, reason = "older clients still set a level for log messages")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use drawloom_contract::failure::Failure;
use rmcp::{
    ErrorData,
    model::{ErrorCode, LoggingLevel, ResourceUpdatedNotificationParam},
};
use serde::{Deserialize, Serialize};
use tokio::sync::MutexGuard;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    mcp::{
        calls::Entered,
        endpoint::{SessionCall, Shared},
        handler::unreadable,
        sessions::Sessions,
        table::Ask,
    },
    room::Reserved,
};

/// How long to wait after a look at a resource failed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What a subscription holds beside its URI: a task, and the listeners of what it follows.
pub(super) const SUBSCRIPTION_BYTES: usize = 8 * 1024;

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
    /// The level of `wishes`, for those who cannot wait.
    level: Mutex<Option<LoggingLevel>>,
    /// Held while it is written down, so that what is kept is the last word.
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is kept; nothing, as long as nobody has looked whether an earlier process kept something.
    wishes: Option<Wishes>,
    /// Whoever waits for a change of each resource, with a number of their own.
    watchers: HashMap<String, (u64, AbortOnDropHandle<()>)>,
    count: u64,
}

impl Standing {
    pub(super) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { shared, level: Mutex::default(), state: tokio::sync::Mutex::default() })
    }

    pub(super) fn level(&self) -> Option<LoggingLevel> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn set_level(&self, ask: &Ask, level: LoggingLevel) -> Result<(), ErrorData> {
        let Some((session, mut state)) = self.state(ask).await? else { return Ok(()) };
        self.change(&session, &mut state, |wishes| wishes.level = Some(level)).await;
        Ok(())
    }

    /// Refuses a resource that does not exist for this caller: another user's is answered like an unknown one.
    async fn find(&self, ask: &Ask, uri: &str) -> Result<(), ErrorData> {
        for table in &self.shared.tables {
            if let Some(found) = table.find_resource(ask, uri).await {
                return found;
            }
        }
        Err(ErrorData::resource_not_found(format!("there is no resource {uri}"), None))
    }

    /// Tells the session once when the resource changes.
    pub(super) async fn subscribe(self: &Arc<Self>, ask: Ask, uri: String) -> Result<(), ErrorData> {
        self.find(&ask, &uri).await?;
        let Some((session, mut state)) = self.state(&ask).await? else { return Ok(()) };
        let wishes = state.wishes.get_or_insert_default();
        let most = self.shared.app.limits.mcp_subscriptions;
        if wishes.uris.len() >= most && !wishes.uris.contains(&uri) {
            let message = format!("a session can have {most} subscriptions; unsubscribe from some first");
            return Err(ErrorData::invalid_request(message, None));
        }
        let room = reserve(&ask, &uri).map_err(unreadable)?;
        self.watch(&mut state, ask, &session, &uri, Some(room));
        self.change(&session, &mut state, |wishes| {
            wishes.uris.retain(|known| *known != uri);
            wishes.uris.push(uri);
        })
        .await;
        Ok(())
    }

    pub(super) async fn unsubscribe(&self, ask: &Ask, uri: &str) -> Result<(), ErrorData> {
        let Some((session, mut state)) = self.state(ask).await? else { return Ok(()) };
        state.watchers.remove(uri);
        self.change(&session, &mut state, |wishes| wishes.uris.retain(|known| known != uri)).await;
        Ok(())
    }

    /// Goes on with what the session had asked for, in a server that was started since. `asker` asks for each.
    pub(super) async fn take_up(self: &Arc<Self>, asker: impl Fn() -> Option<Ask>) {
        let Some(ask) = asker() else { return };
        let (session, mut state) = loop {
            match self.state(&ask).await {
                Ok(Some(found)) => break found,
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the subscriptions of a session; retrying");
                    self.shared.app.clock.sleep_until(self.shared.app.clock.now().after(LOOK_AGAIN)).await;
                }
            }
        };
        for uri in state.wishes.clone().unwrap_or_default().uris {
            if !state.watchers.contains_key(&uri)
                && let Some(ask) = asker()
            {
                self.watch(&mut state, ask, &session, &uri, None);
            }
        }
    }

    /// The state, with what an earlier process kept, and the session that it is of.
    async fn state(&self, ask: &Ask) -> Result<Option<(String, MutexGuard<'_, State>)>, ErrorData> {
        let Some(session) = ask.session().map(str::to_owned) else { return Ok(None) };
        let mut state = self.state.lock().await;
        if state.wishes.is_none() {
            let kept = Sessions::new(self.shared.app.clone()).wishes(&session).await;
            let kept = kept.map_err(|failure| ErrorData::internal_error(failure.message, None))?.unwrap_or_default();
            *self.level.lock().unwrap_or_else(PoisonError::into_inner) = kept.level;
            state.wishes = Some(kept);
        }
        Ok(Some((session, state)))
    }

    async fn change(&self, session: &str, state: &mut State, how: impl FnOnce(&mut Wishes)) {
        let wishes = state.wishes.get_or_insert_default();
        let before = wishes.clone();
        how(wishes);
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = wishes.level;
        if *wishes != before {
            Sessions::new(self.shared.app.clone()).keep_wishes(session, wishes).await;
        }
    }

    /// Follows a resource. A subscription of an earlier process has reserved nothing yet, and waits until it can.
    fn watch(self: &Arc<Self>, state: &mut State, mut ask: Ask, session: &str, uri: &str, mut room: Option<Reserved>) {
        // The request itself is over long before.
        ask.context.extensions.remove::<Arc<Entered<SessionCall>>>();
        state.count += 1;
        let (number, session, uri) = (state.count, session.to_owned(), uri.to_owned());
        // Whoever waits does not keep a session alive that is over.
        let (standing, shared, name) = (Arc::downgrade(self), self.shared.clone(), uri.clone());
        let watcher = tokio::spawn(async move {
            while room.is_none() {
                match reserve(&ask, &uri) {
                    Ok(reserved) => room = Some(reserved),
                    Err(error) => {
                        tracing::warn!(%error, "no memory is left for a subscription of an earlier process; retrying");
                        shared.app.clock.sleep_until(shared.app.clock.now().after(LOOK_AGAIN)).await;
                    }
                }
            }
            while !is_settled(heard(&shared, &ask, &uri).await, &ask, &session, &uri, &shared).await {
                shared.app.clock.sleep_until(shared.app.clock.now().after(LOOK_AGAIN)).await;
            }
            let Some(standing) = Weak::upgrade(&standing) else { return };
            let mut state = standing.state.lock().await;
            if state.watchers.get(&uri).is_some_and(|(known, _)| *known == number) {
                standing.change(&session, &mut state, |wishes| wishes.uris.retain(|known| *known != uri)).await;
                // The last thing: it ends this task.
                state.watchers.remove(&uri);
            }
        });
        state.watchers.insert(name, (number, AbortOnDropHandle::new(watcher)));
    }
}

/// Reserves what a subscription holds, against its caller.
fn reserve(ask: &Ask, uri: &str) -> Result<Reserved, Failure> {
    ask.app.room.reserve(&ask.view.caller, SUBSCRIPTION_BYTES + uri.len())
}

/// Tells the session what was heard, as soon as somebody listens; says whether that was all.
async fn is_settled(heard: Result<(), ErrorData>, ask: &Ask, session: &str, uri: &str, shared: &Shared) -> bool {
    match heard {
        Ok(()) => {
            shared.listeners.somebody(session).await;
            let notice = ResourceUpdatedNotificationParam::new(uri);
            if let Err(error) = ask.context.peer.notify_resource_updated(notice).await {
                tracing::debug!(%error, "a subscriber could not be notified");
            }
            true
        }
        // There is no such thing, or not for this caller.
        Err(error) if error.code != ErrorCode::INTERNAL_ERROR => true,
        Err(error) => {
            tracing::warn!(%error, "cannot read a subscribed resource; retrying");
            false
        }
    }
}

/// Returns when something was heard of a resource, or nothing ever will be.
pub(super) async fn heard(shared: &Shared, ask: &Ask, uri: &str) -> Result<(), ErrorData> {
    for table in shared.tables.iter() {
        if let Some(changed) = table.resource_changed(ask, uri).await {
            return changed;
        }
    }
    Err(ErrorData::resource_not_found("there is no such resource", None))
}
