//! The limits of outside MCP servers, with their defaults.

use drawloom_contract::limits::{
    Amount::{Bytes, Count, Millis},
    Limit,
};

use super::{
    config::{self, MAX_OUTPUT_BYTES, START_TIMEOUT_MS, TIMEOUT_MS},
    connection::list::{MOST_KEPT, MOST_LISTED, MOST_PAGES},
    events,
    filter::MOST_NOISE,
    http::LONGEST_STREAM,
    offer::{self, LONGEST_DESCRIPTION, MOST_TOOLS},
    schema::{self, LONGEST_PROPERTY},
    stdio::{self, LONGEST_MESSAGE},
};

/// The result of a call that failed.
const ERROR: &str = "tool_error";

/// Warnings of a run, and what `drawloom doctor` says.
const WARNINGS: &str = "warnings";

/// Every limit of outside MCP servers.
pub const LIMITS: &[Limit] = &[
    Limit::new(
        "outside_call_time",
        Millis(TIMEOUT_MS),
        ERROR,
        "Time of one call of a server's tool. A longer call fails.",
    )
    .key("mcp_servers.*.timeout_ms"),
    Limit::new(
        "outside_start_time",
        Millis(START_TIMEOUT_MS),
        WARNINGS,
        "Time until a server has listed its tools. After it the run starts without them.",
    )
    .key("mcp_servers.*.start_timeout_ms"),
    Limit::new(
        "outside_result_bytes",
        Bytes(MAX_OUTPUT_BYTES as u64),
        "truncated",
        "Bytes of one result that the model gets. Of a longer one it gets the beginning and the end.",
    )
    .key("mcp_servers.*.max_output_bytes"),
    Limit::new(
        "outside_server_name_bytes",
        Bytes(config::LONGEST_NAME as u64),
        "bad_config",
        "Bytes of a server's name in the config. A config with a longer one is refused.",
    ),
    Limit::new(
        "outside_message_bytes",
        Bytes(LONGEST_MESSAGE as u64),
        ERROR,
        "Bytes of one message from a server. At a longer one the connection is closed and the call fails.",
    ),
    Limit::new(
        "outside_stream_bytes",
        Bytes(LONGEST_STREAM as u64),
        ERROR,
        "Bytes of one event stream that answers a request over HTTP. A longer one is closed and the call fails.",
    ),
    Limit::new(
        "outside_unasked_bytes",
        Bytes(MOST_NOISE as u64),
        "closed",
        "Bytes that a server sends between two answers and that answer nothing. At more the connection is closed.",
    ),
    Limit::new(
        "outside_open_requests",
        Count(stdio::MOST_UNANSWERED as u64),
        "closed",
        "Requests of a server over pipes whose answers it has not read. At more the connection is closed.",
    ),
    Limit::new(
        "outside_open_requests_per_stream",
        Count(events::MOST_UNANSWERED as u64),
        ERROR,
        "The same for one event stream over HTTP. At more the stream is closed and the call fails.",
    ),
    Limit::new(
        "outside_tools",
        Count(MOST_TOOLS as u64),
        WARNINGS,
        "Tools of one server that runs can use. Further ones are left out.",
    ),
    Limit::new(
        "outside_list_pages",
        Count(MOST_PAGES as u64),
        WARNINGS,
        "Pages of a server's list of tools that are read. The rest is left out.",
    ),
    Limit::new(
        "outside_listed_tools",
        Count(MOST_LISTED as u64),
        WARNINGS,
        "Tools of a server's list that are read before the filter `tools` applies. The rest is left out.",
    ),
    Limit::new(
        "outside_list_bytes",
        Bytes(MOST_KEPT as u64),
        WARNINGS,
        "Bytes of all names, descriptions and schemas of a server's list. The rest is left out.",
    ),
    Limit::new(
        "outside_tool_name_bytes",
        Bytes(offer::LONGEST_NAME as u64),
        WARNINGS,
        "Bytes of a tool's name with its prefix `mcp__NAME__`. A tool with a longer one is left out.",
    ),
    Limit::new(
        "outside_description_bytes",
        Bytes(LONGEST_DESCRIPTION as u64),
        "truncated",
        "Bytes of a tool's description that the model gets.",
    ),
    Limit::new(
        "outside_schema_bytes",
        Bytes(schema::LONGEST as u64),
        WARNINGS,
        "Bytes of a tool's input schema. A tool with a longer one is left out.",
    ),
    Limit::new(
        "outside_schema_depth",
        Count(schema::DEEPEST as u64),
        WARNINGS,
        "Nesting of a tool's input schema. A tool with a deeper one is left out.",
    ),
    Limit::new(
        "outside_property_name_bytes",
        Bytes(LONGEST_PROPERTY as u64),
        WARNINGS,
        "Bytes of a property's name in a tool's input schema. A tool with a longer one is left out.",
    ),
];
