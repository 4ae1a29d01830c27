//! Which sessions are open in this process, whose they are, and which one goes when there are too many.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use drawloom_contract::{
    caller::Caller,
    failure::{Failure, FailureKind},
    ids::{Tenant, UserId},
};

use crate::Limits;

/// An open session.
struct Session {
    tenant: Tenant,
    subject: UserId,
    /// When it was last used, as a number that only grows.
    used: u64,
    /// Calls of it in flight.
    busy: usize,
}

impl Session {
    fn is_of(&self, caller: &Caller) -> bool {
        self.tenant == caller.tenant && self.subject == caller.subject
    }
}

#[derive(Default)]
struct All {
    sessions: HashMap<String, Session>,
    uses: u64,
}

/// The open sessions.
pub(super) struct Open {
    most: usize,
    most_of_caller: usize,
    all: Mutex<All>,
}

impl Open {
    pub(super) fn new(limits: &Limits) -> Self {
        let Limits { mcp_sessions, mcp_sessions_per_caller, .. } = *limits;
        Self { most: mcp_sessions, most_of_caller: mcp_sessions_per_caller, all: Mutex::default() }
    }

    fn all(&self) -> std::sync::MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an open session is the caller's; it counts as used then.
    pub(super) fn is_own(&self, id: &str, caller: &Caller) -> Option<bool> {
        let mut all = self.all();
        all.uses += 1;
        let used = all.uses;
        let session = all.sessions.get_mut(id)?;
        let is_own = session.is_of(caller);
        if is_own {
            session.used = used;
        }
        Some(is_own)
    }

    /// Notes a session as open. Returns the one that must be put away for it: the caller's own that was not used for the
    /// longest time when they have too many, else anybody's. A session with a call in flight is never put away.
    pub(super) fn add(&self, id: &str, caller: &Caller) -> Result<Option<String>, Failure> {
        let mut all = self.all();
        all.uses += 1;
        let used = all.uses;
        let own = all.sessions.values().filter(|session| session.is_of(caller)).count();
        let idle = |all: &All, own_only: bool| {
            let idle =
                all.sessions.iter().filter(|(_, session)| session.busy == 0 && (!own_only || session.is_of(caller)));
            idle.min_by_key(|(_, session)| session.used).map(|(id, _)| id.clone())
        };
        let goes = if own >= self.most_of_caller {
            Some(idle(&all, true))
        } else if all.sessions.len() >= self.most {
            Some(idle(&all, true).or_else(|| idle(&all, false)))
        } else {
            None
        };
        let goes = match goes {
            None => None,
            Some(Some(goes)) => Some(goes),
            Some(None) => {
                let message = format!("{own} sessions are open and each has a call in flight");
                return Err(Failure::new(FailureKind::Throttled, "too_many_sessions", message)
                    .with_hint("end sessions with DELETE, or wait for their calls"));
            }
        };
        if let Some(goes) = &goes {
            all.sessions.remove(goes);
        }
        let session = Session { tenant: caller.tenant.clone(), subject: caller.subject.clone(), used, busy: 0 };
        all.sessions.insert(id.to_owned(), session);
        Ok(goes)
    }

    /// A session is not open any more.
    pub(super) fn remove(&self, id: &str) {
        self.all().sessions.remove(id);
    }

    /// A call of a session is in flight until the guard goes.
    pub(super) fn busy(self: &Arc<Self>, id: &str) -> Busy {
        if let Some(session) = self.all().sessions.get_mut(id) {
            session.busy += 1;
        }
        Busy { open: self.clone(), id: id.to_owned() }
    }
}

/// A call in flight.
pub(super) struct Busy {
    open: Arc<Open>,
    id: String,
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(session) = self.open.all().sessions.get_mut(&self.id) {
            session.busy = session.busy.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use drawloom_contract::caller::Proof;

    use super::*;

    fn caller(name: &str) -> Caller {
        let mut caller = Caller::open(Proof::Principal);
        caller.subject = name.parse().expect("a name");
        caller
    }

    #[test]
    fn whoever_opens_too_many_loses_their_own_idle_ones_and_nobody_elses() {
        let open = Arc::new(Open::new(&Limits::DEFAULT));
        let (quiet, busy) = (caller("quiet"), caller("busy"));
        assert_eq!(open.add("theirs", &quiet), Ok(None));
        assert_eq!(open.add("first", &busy), Ok(None));
        let in_flight = open.busy("first");
        for number in 1..Limits::DEFAULT.mcp_sessions_per_caller {
            assert_eq!(open.add(&format!("s{number}"), &busy), Ok(None));
        }
        // The first is the oldest, and it has a call.
        assert_eq!(open.add("one more", &busy), Ok(Some("s1".into())));
        assert_eq!(open.is_own("theirs", &quiet), Some(true));
        assert_eq!(open.is_own("theirs", &busy), Some(false));
        drop(in_flight);
        assert_eq!(open.add("another", &busy), Ok(Some("first".into())));
    }

    #[test]
    fn when_every_session_has_a_call_a_new_one_is_refused() {
        let open = Arc::new(Open::new(&Limits::DEFAULT));
        let busy = caller("busy");
        let guards: Vec<Busy> = (0..Limits::DEFAULT.mcp_sessions_per_caller)
            .map(|number| {
                open.add(&format!("s{number}"), &busy).expect("room");
                open.busy(&format!("s{number}"))
            })
            .collect();
        assert_eq!(open.add("one more", &busy).map_err(|failure| failure.code), Err("too_many_sessions"));
        drop(guards);
    }
}
