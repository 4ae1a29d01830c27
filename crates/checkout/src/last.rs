//! The last checkpoints of a goal that was cut off: what its workers left becomes refs, once.

use crate::{
    add::Kind,
    checkouts::Checkouts,
    checkpoint::{Checkpoint, Step},
    clean::states,
    error::Error,
    places::check_real,
};

/// The key of a last checkpoint. A checkout has one, so that a repeated call answers the same.
const KEY: &str = "last";

impl Checkouts {
    /// Commits what lies in the writable checkouts of a goal that ended without its own last step: it was cancelled, or ran out of
    /// time. Answers the checkouts that had something, each with its checkpoint; a repeated call answers the same. Call it when no
    /// process of a worker runs any more. `at` is the time of the commits, in seconds since 1970.
    pub async fn last_checkpoints(&self, goal: &str, at: i64) -> Result<Vec<(String, Checkpoint)>, Error> {
        let Some(found) = self.find_goal(goal).await? else { return Ok(Vec::new()) };
        let mut kept = Vec::new();
        for (name, state) in states(&found).await? {
            let is_kept = state.checkpoints.iter().any(|(key, _)| key == KEY);
            let is_there = check_real(&found.work(&name, state.kind)).is_ok();
            if state.kind != Kind::Writer || !(is_kept || is_there) {
                continue;
            }
            let message = format!("left in the checkout {name} when the goal ended");
            let made = self.checkpoint(goal, &name, &Step { message: &message, at, key: KEY }).await?;
            if made.commit.is_some() {
                kept.push((name, made));
            }
        }
        self.release(&found).await?;
        self.release_ports(goal);
        Ok(kept)
    }
}
