//! States and reasons that the store and the wire know by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::named::named;

named! {
    /// Where a run stands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum Status {
        /// Accepted; waits for a slot.
        Queued = "queued",
        /// Has a slot.
        Running = "running",
        /// Parked on a wait, without a slot.
        Waiting = "waiting",
        /// Done.
        Completed = "completed",
        /// Ended by an error.
        Failed = "failed",
        /// Ended by a caller.
        Cancelled = "cancelled",
        /// Ended by a deadline.
        TimedOut = "timed_out",
    }
}

impl Status {
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Waiting)
    }
}

named! {
    /// Why a model stopped, or why we stopped it.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum StopReason {
        /// It was done.
        #[default]
        EndTurn = "end_turn",
        /// It wants tools.
        ToolUse = "tool_use",
        /// It ran into its output limit.
        MaxTokens = "max_tokens",
        /// It wrote a stop sequence.
        StopSequence = "stop_sequence",
        /// It used up its turns and wrote its last one.
        MaxIterations = "max_iterations",
        /// It used up its budget and wrote its last turn.
        Budget = "budget",
    }
}
