//! The limits of MCP hosts, with their defaults.

use drawloom_contract::limits::{
    Amount::{Bytes, Count},
    Limit,
};

use super::{endpoint::LONGEST_INITIALIZE, handler::LONGEST_ID, messages, offered::RESULT_BYTES, resources};
use crate::Limits;

/// The code of an error of JSON-RPC.
const INVALID_REQUEST: &str = "-32600";

/// Every limit of MCP hosts.
pub const LIMITS: &[Limit] = &[
    Limit::new(
        "mcp_sessions",
        Count(Limits::DEFAULT.mcp_sessions as u64),
        "too_many_sessions",
        "Sessions in memory. A new one replaces the idle one that was used least recently; a replaced session continues with its next request. If each has a call in flight, the new one gets 429.",
    ),
    Limit::new(
        "mcp_sessions_per_caller",
        Count(Limits::DEFAULT.mcp_sessions_per_caller as u64),
        "too_many_sessions",
        "The same for one caller.",
    ),
    Limit::new(
        "mcp_subscriptions",
        Count(Limits::DEFAULT.mcp_subscriptions as u64),
        INVALID_REQUEST,
        "Resources that one session subscribes to.",
    ),
    Limit::new(
        "mcp_batch_messages",
        Count(messages::MOST as u64),
        INVALID_REQUEST,
        "Messages of one request that is a list. A longer list is refused whole.",
    ),
    Limit::new(
        "mcp_initialize_bytes",
        Bytes(LONGEST_INITIALIZE as u64),
        "too_large",
        "Bytes of an initialize request. Other requests have the limit body_bytes.",
    ),
    Limit::new(
        "mcp_id_bytes",
        Bytes(LONGEST_ID as u64),
        INVALID_REQUEST,
        "Bytes of a request's id, progressToken or idempotency key.",
    ),
    Limit::new(
        "mcp_tool_result_bytes",
        Bytes(RESULT_BYTES),
        "artifact",
        "Bytes of final texts in one result, unless the call gives `result_bytes`. Longer ones come as an outline that read_artifact reads on.",
    ),
    Limit::new(
        "mcp_resource_bytes",
        Bytes(resources::MOST as u64),
        "truncated",
        "Bytes of one resource that resources/read returns. read_artifact gives the rest.",
    ),
];
