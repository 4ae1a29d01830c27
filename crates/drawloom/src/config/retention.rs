//! The config section `retention`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long finished runs are kept. The server deletes old runs once an hour; `drawloom prune` deletes them at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Delete top-level runs and their child runs this many days after they ended; 0 keeps them. Unfinished runs are always
    /// kept.
    #[schemars(range(max = 36_500))]
    #[schemars(extend("x-harmless" = "deletes only finished runs of this project"))]
    pub max_age_days: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self { max_age_days: 90 }
    }
}

impl Retention {
    /// How old what has ended may become; nothing when it is kept for ever.
    pub(crate) fn max_age(&self) -> Option<Duration> {
        (self.max_age_days > 0).then(|| Duration::from_secs(u64::from(self.max_age_days) * 86_400))
    }
}
