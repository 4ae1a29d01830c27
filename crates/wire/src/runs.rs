//! Runs and batches on the wire: what is asked, and what is answered.

mod artifact;
mod query;
mod result;
mod spawn;

pub use artifact::{
    Artifact, ArtifactName, ArtifactPart, DEFAULT_READ, Hits, MAX_READ, MAX_RESULT_BYTES, ReadArtifact, fit,
};
pub use drawloom_contract::money::Amount;
pub use query::{
    CancelBatch, CancelRun, Cancelled, CancelledBatch, FollowRun, GetBatch, GetRun, ListRuns, ReplayRun, RunPage,
};
pub use result::{BatchResult, BatchStatus, RunResult, Spawned, SpawnedBatch, Timings, TreeSpent};
pub use spawn::{Budget, How, LONGEST_CONTEXT, MAX_SPAWNS, MAX_WAIT_MS, Mode, Spawn, SpawnRun, SpawnRuns, digest};
