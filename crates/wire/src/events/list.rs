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
    field(
        "offset",
        "position of the piece in the text of the turn, in bytes; a piece at a known position replaces what is there",
    ),
];
const END: &[Field] = &[
    field("run_id", "the run"),
    field("status", "completed, failed, cancelled or timed_out"),
    field("stop_reason", "why the model stopped"),
    field("usage", "tokens of the whole run"),
    field("cost", "their cost, for models with a known price"),
    field("assumed_cost", "the estimated part of the cost, if not all usage is known"),
    field("error", "code, message and hint of the failure"),
    field("final_text", "the text of the last turn"),
    field("warnings", "what was restricted, overridden, defaulted or cut"),
    AT,
];

/// All events, in the order in which a run meets them.
pub static EVENTS: &[EventCard] = &[
    EventCard {
        name: "session",
        has_id: false,
        when: "The first event of a stream that starts its run.",
        fields: &[field("text", "the session's id")],
    },
    EventCard {
        name: "agent",
        has_id: true,
        when: "The run is accepted and stored; it survives a crash.",
        fields: &[
            field("agent_id", "the caller's handle of the run"),
            field("run_id", "the run"),
            field("session_id", "its session"),
            field("agent", "the agent"),
            field("parent_agent_id", "the handle of the parent run"),
            field("parent_run_id", "the parent run"),
            field("parent_context", "the data that the caller passed"),
            field("batch_id", "its batch"),
            field("index", "its index in the batch"),
            field("retry_of", "the run that it retries"),
            field("warnings", "what was restricted, overridden or defaulted"),
            field("prompt", "in a stream of a tree: the first 200 bytes of the prompt"),
            AT,
        ],
    },
    EventCard { name: "started", has_id: true, when: "The run started.", fields: &[AT] },
    EventCard { name: "text", has_id: false, when: "A piece of the model's text, as it is streamed.", fields: PIECE },
    EventCard { name: "thinking", has_id: false, when: "A piece of the model's reasoning.", fields: PIECE },
    EventCard {
        name: "message",
        has_id: true,
        when: "A turn ended; this replaces its pieces.",
        fields: &[
            TURN,
            field("text", "the whole text"),
            field("thinking", "the whole reasoning"),
            field("tool_uses", "the tool calls that it requests: id, name and input"),
            field("stop_reason", "why the model stopped"),
            AT,
        ],
    },
    EventCard {
        name: "usage",
        has_id: true,
        when: "Tokens and cost of a turn.",
        fields: &[
            TURN,
            field(
                "usage",
                "tokens by kind, model, provider, cost if the price is known, and whether they are estimated",
            ),
            AT,
        ],
    },
    EventCard {
        name: "tool_call",
        has_id: true,
        when: "A tool call starts.",
        fields: &[
            field("tool_use", "id, name and input"),
            field("call", "the call's number, which its result repeats"),
            field("conditions", "the sandbox of the call, if it has one: its layers and the network"),
            AT,
        ],
    },
    EventCard {
        name: "activity",
        has_id: false,
        when: "What a call does now, such as the last tool that a coding CLI used. It is not stored, and comes at most four times a second.",
        fields: &[
            field("call", "the call's number"),
            field("tool", "the last tool"),
            field("detail", "what the tool is used on, such as a file or a command"),
            field("tokens", "tokens of the call so far, as far as they are known"),
            field("cost", "their cost, if it is known"),
        ],
    },
    EventCard {
        name: "tool_result",
        has_id: true,
        when: "A tool call ended.",
        fields: &[
            field("text", "the result that the model gets"),
            field("is_error", "whether it failed"),
            field("in_doubt", "whether the outcome is unknown because of a crash"),
            field("tool_use", "id and name of the call"),
            field("call", "the call's number"),
            field("took_ms", "duration in milliseconds"),
            AT,
        ],
    },
    EventCard {
        name: "waiting",
        has_id: true,
        when: "The run waits, and gives its slot to others: for child runs, a time, a rate limit or the budget.",
        fields: &[field("until", "when it continues, if known"), field("on", "rate_limit or budget"), AT],
    },
    EventCard {
        name: "turn_reset",
        has_id: true,
        when: "A model call failed: discard the pieces of its turn.",
        fields: &[
            TURN,
            field("attempt", "the attempt, from 1"),
            field("error", "code, message and hint"),
            field("will_retry", "whether it is retried"),
            field("maybe_paid", "whether the provider may charge for it"),
            AT,
        ],
    },
    EventCard {
        name: "retry",
        has_id: true,
        when: "A model call is retried.",
        fields: &[field("retry", "provider, turn, attempt, wait_ms, and reason and code of the failure"), AT],
    },
    EventCard {
        name: "provider_fallback",
        has_id: true,
        when: "The run continues with another model.",
        fields: &[
            TURN,
            field("fallback", "failed_provider, failed_model, new_provider, new_model, attempt, reason, cause_error"),
            AT,
        ],
    },
    EventCard {
        name: "cache_invalidated",
        has_id: true,
        when: "The prompt cache of the provider no longer applies.",
        fields: NOTICE,
    },
    EventCard {
        name: "reasoning_invalidated",
        has_id: true,
        when: "Reasoning of another provider's model is not sent to the new model.",
        fields: NOTICE,
    },
    EventCard {
        name: "model_downgraded",
        has_id: true,
        when: "A model without reasoning replaces one with reasoning.",
        fields: NOTICE,
    },
    EventCard {
        name: "reasoning_unavailable",
        has_id: true,
        when: "The new model does not reason in this run. The run also has a warning.",
        fields: NOTICE,
    },
    EventCard {
        name: "fallback_suppressed",
        has_id: true,
        when: "The run did not fall back to another model, although one is configured.",
        fields: NOTICE,
    },
    EventCard {
        name: "usage_assumed",
        has_id: true,
        when: "The provider did not report the usage of a call: its tokens are estimated, or, when the call was interrupted, the reserved amount counts as spent.",
        fields: NOTICE,
    },
    EventCard {
        name: "reasoning_masked",
        has_id: true,
        when: "Reasoning contained a secret: it is stored without its text and not sent to the model again.",
        fields: NOTICE,
    },
    EventCard {
        name: "tools_missing",
        has_id: true,
        when: "Tools of the run are no longer available, such as those of an MCP server that is down.",
        fields: NOTICE,
    },
    EventCard { name: "done", has_id: true, when: "The last event of a run that completed.", fields: END },
    EventCard {
        name: "error",
        has_id: true,
        when: "The last event of a run that failed, timed out or was cancelled.",
        fields: END,
    },
    EventCard {
        name: TREE_DONE,
        has_id: false,
        when: "The last event of a stream with `tree=true`: the run and all child runs have ended.",
        fields: &[field("run_id", "the run")],
    },
];
