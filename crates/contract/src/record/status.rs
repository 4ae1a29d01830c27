//! Words of a run's life that the store and the wire know by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An enum whose names are given once: for serde, for `as_str` and for the list that names are read back with.
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $name:ident { $($(#[$each:meta])* $variant:ident = $text:literal,)+ }
    ) => {
        $(#[$about])*
        pub enum $name { $($(#[$each])* #[serde(rename = $text)] $variant,)+ }

        impl $name {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name on the wire and in the store.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

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
    /// Whether nothing follows.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled | Self::TimedOut => true,
            Self::Queued | Self::Running | Self::Waiting => false,
        }
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
