//! Large events, encoded once for all who follow a run.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bytes::Bytes;
use drawloom_contract::{ids::RunKey, record::Seq};
use drawloom_wire::events::Event;

/// Entries over this number are looked through for events that are not being sent any more.
const LOOKED_THROUGH: usize = 64;

/// Which event: of which run, after which record, and how long.
type Key = (RunKey, Option<Seq>, usize);

/// The large events that are being sent.
#[derive(Default)]
pub(crate) struct LargeEvents(Mutex<HashMap<Key, Weak<Vec<u8>>>>);

struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl LargeEvents {
    /// The event of a record as a frame; the same bytes for all followers that are sent it at the same time. What such an event
    /// says depends on the journal alone. Not for events without an id.
    pub(super) fn share(&self, run: &RunKey, event: &Event) -> Bytes {
        let key = (run.clone(), event.id, event.data.len());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = known.get(&key).and_then(Weak::upgrade) {
            return Bytes::from_owner(Shared(shared));
        }
        let mut frame = Vec::with_capacity(event.data.len() + 128);
        event.encode(&mut frame);
        let shared = Arc::new(frame);
        if known.len() >= LOOKED_THROUGH {
            known.retain(|_, event| event.strong_count() > 0);
        }
        known.insert(key, Arc::downgrade(&shared));
        Bytes::from_owner(Shared(shared))
    }
}

#[cfg(test)]
mod tests {
    use drawloom_contract::ids::{RunId, Tenant};

    use super::*;

    #[test]
    fn an_event_is_encoded_once_while_it_is_being_sent() {
        let events = LargeEvents::default();
        let run = RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([1; 16]) };
        let event = Event { name: "message".into(), id: Some(3), data: "{}".into() };
        let (one, two) = (events.share(&run, &event), events.share(&run, &event));
        assert_eq!(one.as_ptr(), two.as_ptr());
        let other = events.share(&run, &Event { id: Some(4), ..event.clone() });
        assert_ne!(one.as_ptr(), other.as_ptr());
        drop((one, two, other));
        for id in 0..200 {
            events.share(&run, &Event { id: Some(id), ..event.clone() });
        }
        assert!(events.0.lock().expect("nobody has it").len() <= LOOKED_THROUGH);
    }
}
