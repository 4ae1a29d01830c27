//! Whether a goal was removed: its run stays until the run is deleted, so that its cost is not lost.

use drawloom_contract::{
    failure::Failure,
    ids::RunKey,
    values::{Expect, NewValue, ValueChange, ValueKey},
};
use serde_json::json;

use crate::questions::Questions;

impl Questions {
    fn removed_key(run: &RunKey) -> ValueKey {
        ValueKey { key: "removed".into(), ..Self::key(run) }
    }

    /// Whether the goal's branch, refs, checkouts and folder were removed.
    pub async fn is_removed(&self, run: &RunKey) -> Result<bool, Failure> {
        let found = self.values.find_value(&Self::removed_key(run), self.clock.steady()).await;
        found.map(|found| found.is_some()).map_err(|error| Failure::of(&error))
    }

    /// Remembers that they were.
    pub async fn set_removed(&self, run: &RunKey) -> Result<(), Failure> {
        let value = self.redactor.clean(json!(true));
        let to = Some(NewValue { value, expires_at: None, quota: None, searched: None });
        let change = ValueChange { key: Self::removed_key(run), expect: Expect::Anything, to, at: self.clock.steady() };
        self.values.change(vec![change], None).await.map(|_| ()).map_err(|error| Failure::of(&error))
    }
}
