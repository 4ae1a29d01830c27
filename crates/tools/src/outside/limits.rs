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
        "Duration of one tool call to the server. A longer call fails.",
    )
    .key("mcp_servers.*.timeout_ms"),
    Limit::new(
        "outside_start_time",
        Millis(START_TIMEOUT_MS),
        WARNINGS,
        "Time until the server has listed its tools. Then the run starts without them.",
    )
    .key("mcp_servers.*.start_timeout_ms"),
    Limit::new(
        "outside_result_bytes",
        Bytes(MAX_OUTPUT_BYTES as u64),
        "truncated",
        "Size of one result sent to the model. A longer one is truncated in the middle.",
    )
    .key("mcp_servers.*.max_output_bytes"),
    Limit::new(
        "outside_server_name_bytes",
        Bytes(config::LONGEST_NAME as u64),
        "bad_config",
        "Length of a server's name in the config. A config with a longer one is rejected.",
    ),
    Limit::new(
        "outside_message_bytes",
        Bytes(LONGEST_MESSAGE as u64),
        ERROR,
        "Size of one message from a server. With a larger one the connection is closed and the call fails.",
    ),
    Limit::new(
        "outside_stream_bytes",
        Bytes(LONGEST_STREAM as u64),
        ERROR,
        "Size of one response event stream over HTTP. A larger one is closed and the call fails.",
    ),
    Limit::new(
        "outside_unasked_bytes",
        Bytes(MOST_NOISE as u64),
        "closed",
        "Unsolicited bytes that a server sends between two responses. With more the connection is closed.",
    ),
    Limit::new(
        "outside_open_requests",
        Count(stdio::MOST_UNANSWERED as u64),
        "closed",
        "Requests of a stdio server whose responses it has not read. With more the connection is closed.",
    ),
    Limit::new(
        "outside_open_requests_per_stream",
        Count(events::MOST_UNANSWERED as u64),
        ERROR,
        "The same per event stream over HTTP. With more the stream is closed and the call fails.",
    ),
    Limit::new(
        "outside_tools",
        Count(MOST_TOOLS as u64),
        WARNINGS,
        "Tools per server that runs can use. Further ones are omitted.",
    ),
    Limit::new(
        "outside_list_pages",
        Count(MOST_PAGES as u64),
        WARNINGS,
        "Pages read of a server's tool list. The rest is omitted.",
    ),
    Limit::new(
        "outside_listed_tools",
        Count(MOST_LISTED as u64),
        WARNINGS,
        "Tools read of a server's tool list before the filter `tools` applies. The rest is omitted.",
    ),
    Limit::new(
        "outside_list_bytes",
        Bytes(MOST_KEPT as u64),
        WARNINGS,
        "Total size of names, descriptions and schemas in a server's tool list. The rest is omitted.",
    ),
    Limit::new(
        "outside_tool_name_bytes",
        Bytes(offer::LONGEST_NAME as u64),
        WARNINGS,
        "Length of a tool's name with its prefix `mcp__NAME__`. A tool with a longer one is omitted.",
    ),
    Limit::new(
        "outside_description_bytes",
        Bytes(LONGEST_DESCRIPTION as u64),
        "truncated",
        "Size of a tool's description sent to the model.",
    ),
    Limit::new(
        "outside_schema_bytes",
        Bytes(schema::LONGEST as u64),
        WARNINGS,
        "Size of a tool's input schema. A tool with a larger one is omitted.",
    ),
    Limit::new(
        "outside_schema_depth",
        Count(schema::DEEPEST as u64),
        WARNINGS,
        "Nesting depth of a tool's input schema. A tool with a deeper one is omitted.",
    ),
    Limit::new(
        "outside_property_name_bytes",
        Bytes(LONGEST_PROPERTY as u64),
        WARNINGS,
        "Length of a property name in a tool's input schema. A tool with a longer one is omitted.",
    ),
];
