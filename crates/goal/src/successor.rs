//! The goal that goes on from an ended one. There is one at most: the first caller stores the request that starts it, and every other
//! caller repeats that request, which makes the same run.

use drawloom_contract::{
    failure::Failure,
    ids::{Digest, RunId, RunKey, UserId},
    values::{ChangeError, Expect, NewValue, ValueChange, ValueKey},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::questions::Questions;

/// What is stored of the goal that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Successor {
    /// Absent until its run is known to be accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Absent in stores of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<SuccessorRequest>,
}

/// The request that starts it: whose it is, its idempotency key, and the digest of its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuccessorRequest {
    pub subject: UserId,
    pub key: String,
    pub body: Digest,
}

impl Questions {
    fn successor_key(run: &RunKey) -> ValueKey {
        ValueKey { key: "successor".into(), ..Self::key(run) }
    }

    async fn stored_successor(&self, run: &RunKey) -> Result<Option<(Successor, u64)>, Failure> {
        let found = self.values.find_value(&Self::successor_key(run), self.clock.steady()).await;
        let found = found.map_err(|error| Failure::of(&error))?;
        Ok(found.and_then(|kept| Some((serde_json::from_value(kept.value).ok()?, kept.revision))))
    }

    /// The goal that goes on from this one, once its run is accepted.
    pub async fn successor(&self, run: &RunKey) -> Result<Option<RunId>, Failure> {
        Ok(self.stored_successor(run).await?.and_then(|(successor, _)| successor.run))
    }

    /// The request that starts the goal that goes on from this one: `request`, unless another one was stored first. `gone` is a successor
    /// that was deleted, which is replaced.
    pub async fn claim_successor(
        &self,
        run: &RunKey,
        request: SuccessorRequest,
        gone: Option<RunId>,
    ) -> Result<Successor, Failure> {
        let claim = Successor { run: None, request: Some(request) };
        loop {
            let expect = match self.stored_successor(run).await? {
                None => Expect::Absent,
                Some((stored, revision)) if stored.run.is_some() && stored.run == gone => Expect::Revision(revision),
                Some((stored, _)) => return Ok(stored),
            };
            match self.put_successor(run, &claim, expect).await {
                Ok(()) => return Ok(claim),
                Err(ChangeError::Stale { .. }) => {}
                Err(error) => return Err(Failure::of(&error)),
            }
        }
    }

    /// Remembers the run that the stored request made.
    pub async fn set_successor(&self, run: &RunKey, successor: &Successor) -> Result<(), Failure> {
        let stored = self.put_successor(run, successor, Expect::Anything).await;
        stored.map_err(|error| Failure::of(&error))
    }

    /// Forgets a successor that was removed, so that the goal can go on again.
    pub async fn forget_successor(&self, run: &RunKey, removed: RunId) -> Result<(), Failure> {
        let Some((stored, revision)) = self.stored_successor(run).await? else { return Ok(()) };
        if stored.run != Some(removed) {
            return Ok(());
        }
        let (key, at) = (Self::successor_key(run), self.clock.steady());
        let change = ValueChange { key, expect: Expect::Revision(revision), to: None, at };
        match self.values.change(vec![change], None).await {
            Ok(_) | Err(ChangeError::Stale { .. }) => Ok(()),
            Err(error) => Err(Failure::of(&error)),
        }
    }

    async fn put_successor(&self, run: &RunKey, successor: &Successor, expect: Expect) -> Result<(), ChangeError> {
        let value = self.redactor.clean(json!(successor));
        let to = Some(NewValue { value, expires_at: None, quota: None, searched: None });
        let change = ValueChange { key: Self::successor_key(run), expect, to, at: self.clock.steady() };
        self.values.change(vec![change], None).await.map(|_| ())
    }
}
