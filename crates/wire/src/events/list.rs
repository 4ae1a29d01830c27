//! Every event, for whoever reads a stream: the reference page is made from this list, and a test holds it against the
//! events that are made.

use crate::events::TREE_DONE;

/// What an event is.
#[derive(Debug, Clone, Copy)]
pub struct EventCard {
    /// Its name.
    pub name: &'static str,
    /// Whether it has an id: the sequence of the record that it shows.
    pub has_id: bool,
    /// When it comes, in a sentence.
    pub when: &'static str,
    /// The fields of its data, beside `type`.
    pub fields: &'static [Field],
}

/// A field of an event's data.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
}

const fn field(name: &'static str, says: &'static str) -> Field {
    Field { name, says }
}

/// What every event with an id has.
const AT: Field = field("at", "when it was recorded (RFC 3339, UTC)");
const TURN: Field = field("turn", "the turn, from 1");
const NOTICE: &[Field] = &[field("text", "what happened, for people"), AT];
const PIECE: &[Field] = &[
    field("text", "the piece"),
    TURN,
    field("offset", "bytes of that turn's text of that kind before it; a piece at an offset that is known replaces"),
];
const END: &[Field] = &[
    field("run_id", "the run"),
    field("status", "completed, failed, cancelled or timed_out"),
    field("stop_reason", "why the model stopped"),
    field("usage", "tokens of the whole run"),
    field("cost", "what they cost, as far as the models have a price"),
    field("assumed_cost", "how much of that is assumed, when not all usage is known"),
    field("error", "code, message and hint of what went wrong"),
    field("final_text", "the text of the last turn"),
    field("warnings", "what was narrowed, overridden, defaulted or cut short"),
    AT,
];

/// All events, in the order in which a run meets them.
pub static EVENTS: &[EventCard] = &[
    EventCard {
        name: "session",
        has_id: false,
        when: "First in a stream that starts with its run.",
        fields: &[field("text", "the session's id")],
    },
    EventCard {
        name: "agent",
        has_id: true,
        when: "The run is accepted: it survives a crash from here on.",
        fields: &[
            field("agent_id", "the caller's handle of the run"),
            field("run_id", "the run"),
            field("session_id", "its session"),
            field("agent", "the agent"),
            field("parent_agent_id", "the handle of the run that spawned it"),
            field("parent_run_id", "the run that spawned it"),
            field("parent_context", "the caller's lineage, as given"),
            field("batch_id", "the batch that it is part of"),
            field("index", "its place there"),
            field("warnings", "what was narrowed, overridden or defaulted"),
            field("prompt", "in a stream of a tree: the first 200 bytes of what it was asked"),
            AT,
        ],
    },
    EventCard { name: "started", has_id: true, when: "The run has its first slot.", fields: &[AT] },
    EventCard { name: "text", has_id: false, when: "A piece of the turn's text, as it is said.", fields: PIECE },
    EventCard { name: "thinking", has_id: false, when: "A piece of the turn's reasoning.", fields: PIECE },
    EventCard {
        name: "message",
        has_id: true,
        when: "A turn is done; it replaces the pieces that came before it.",
        fields: &[
            TURN,
            field("text", "the whole text"),
            field("thinking", "the whole reasoning"),
            field("tool_uses", "the calls that it asks for: id, name and input"),
            field("stop_reason", "why the model stopped"),
            AT,
        ],
    },
    EventCard {
        name: "usage",
        has_id: true,
        when: "What a turn took.",
        fields: &[
            TURN,
            field(
                "usage",
                "tokens by kind, model, provider, cost when the model has a price, and whether they are assumed",
            ),
            AT,
        ],
    },
    EventCard {
        name: "tool_call",
        has_id: true,
        when: "A call is about to be made.",
        fields: &[
            field("tool_use", "id, name and input"),
            field("call", "the call's number, which its result repeats"),
            field(
                "conditions",
                "how the call is confined, where that matters: the layers of the sandbox and the network",
            ),
            AT,
        ],
    },
    EventCard {
        name: "tool_result",
        has_id: true,
        when: "A call is done.",
        fields: &[
            field("text", "what the model is told"),
            field("is_error", "whether it failed"),
            field("in_doubt", "whether nobody knows if it happened, after a crash"),
            field("tool_use", "id and name of the call"),
            field("call", "the call's number"),
            field("took_ms", "milliseconds since the call was recorded"),
            AT,
        ],
    },
    EventCard {
        name: "waiting",
        has_id: true,
        when: "The run waits and holds no slot: for children, a time, a rate limit or the tree's budget.",
        fields: &[field("until", "when it goes on, if that is known"), field("on", "rate_limit or budget"), AT],
    },
    EventCard {
        name: "turn_reset",
        has_id: true,
        when: "A turn came to nothing: take back its pieces.",
        fields: &[
            TURN,
            field("attempt", "the try of it"),
            field("error", "code, message and hint"),
            field("will_retry", "whether it is tried again"),
            field("maybe_paid", "whether the provider may charge for it all the same"),
            AT,
        ],
    },
    EventCard {
        name: "retry",
        has_id: true,
        when: "A turn is tried again.",
        fields: &[field("retry", "provider, turn, attempt, and wait_ms, reason and code of what failed"), AT],
    },
    EventCard {
        name: "provider_fallback",
        has_id: true,
        when: "Another model is asked from here on.",
        fields: &[
            TURN,
            field("fallback", "failed_provider, failed_model, new_provider, new_model, attempt, reason, cause_error"),
            AT,
        ],
    },
    EventCard {
        name: "cache_invalidated",
        has_id: true,
        when: "The provider's cache of the conversation is of no use any more.",
        fields: NOTICE,
    },
    EventCard {
        name: "reasoning_invalidated",
        has_id: true,
        when: "Reasoning of another maker is not replayed.",
        fields: NOTICE,
    },
    EventCard {
        name: "model_downgraded",
        has_id: true,
        when: "A model that does not think is asked in place of one that does.",
        fields: NOTICE,
    },
    EventCard {
        name: "fallback_suppressed",
        has_id: true,
        when: "No other model was asked, although one is configured.",
        fields: NOTICE,
    },
    EventCard {
        name: "usage_assumed",
        has_id: true,
        when: "The provider did not say what a turn cost: what was set aside for it is taken as spent.",
        fields: NOTICE,
    },
    EventCard {
        name: "reasoning_masked",
        has_id: true,
        when: "A thought held a secret: it was journaled without its text and is not replayed.",
        fields: NOTICE,
    },
    EventCard {
        name: "tools_missing",
        has_id: true,
        when: "Tools that the run was accepted with are not there any more, such as those of an MCP server that is down.",
        fields: NOTICE,
    },
    EventCard { name: "done", has_id: true, when: "Last, when the run completed.", fields: END },
    EventCard { name: "error", has_id: true, when: "Last, when it did not.", fields: END },
    EventCard {
        name: TREE_DONE,
        has_id: false,
        when: "Last in a stream with `tree=true`: the run and all runs below it have ended.",
        fields: &[field("run_id", "the run")],
    },
];
