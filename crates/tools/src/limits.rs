//! The limits of the built-in tools, with their defaults.

use drawloom_contract::limits::{
    Amount::{self, Bytes, Count, Off, Percent},
    Limit,
};
use drawloom_net::guarded::LONGEST_ADDRESS;
use drawloom_process::LONGEST_ORDER;

use crate::{
    bash, config, fetch, glob,
    grep::{self, collect, show},
    http, page,
    read::{self, lines},
    replace,
    walk::{self, ignored},
    web_fetch,
};

/// The result of a call that failed.
const ERROR: &str = "tool_error";

/// A result that says what is missing.
const CUT: &str = "truncated";

/// Every limit of the built-in tools.
pub const LIMITS: &[Limit] = &[
    Limit::new(
        "bash_time",
        Amount::Millis(config::MAX_TIMEOUT_SECONDS as u64 * 1_000),
        ERROR,
        "Longest timeout_seconds of a Bash call. A call that requests more fails; a command that exceeds its timeout \
         is killed.",
    )
    .key("tools.bash.max_timeout_seconds"),
    Limit::new(
        "bash_memory",
        Percent(bash::MEMORY_PERCENT, "the machine's memory"),
        ERROR,
        "Memory of a command, including all its processes. A command that uses more is killed.",
    )
    .key("tools.bash.max_memory_bytes"),
    Limit::new(
        "bash_file_bytes",
        Off,
        ERROR,
        "Size of one file that a command writes. A process that writes more gets SIGXFSZ.",
    )
    .key("tools.bash.max_file_bytes"),
    Limit::new(
        "bash_disk_bytes",
        Bytes(config::MAX_DISK_BYTES),
        ERROR,
        "Data that a command writes to disk, including all its processes. A command that writes more is killed.",
    )
    .key("tools.bash.max_disk_bytes"),
    Limit::new(
        "bash_processes",
        Count(config::MAX_PROCESSES),
        ERROR,
        "Concurrent processes and threads of a command. A command that starts more is killed, or fails to start them \
         on machines with cgroups.",
    )
    .key("tools.bash.max_processes"),
    Limit::new(
        "bash_output_bytes",
        Bytes(bash::MOST_OUTPUT as u64),
        CUT,
        "Size of a command's output. Longer output is truncated in the middle.",
    ),
    Limit::new(
        "bash_command_bytes",
        Bytes(LONGEST_ORDER as u64),
        ERROR,
        "Size of a command with its settings. A longer one is not started.",
    ),
    Limit::new(
        "bash_resume_time",
        Amount::time(bash::OVER_WITHIN),
        "in_doubt",
        "Time that a resumed run waits for a command started before a restart. Then the model is told that the \
         command may still be running.",
    ),
    Limit::new(
        "read_bytes",
        Bytes(read::MOST_BYTES as u64),
        CUT,
        "Size of one Read result. A notice says how to continue.",
    ),
    Limit::new(
        "read_lines",
        Count(read::USUAL_LINES),
        CUT,
        "Lines per Read, unless the call sets `limit`. A notice says how to continue.",
    ),
    Limit::new(
        "read_line_bytes",
        Bytes(lines::LONGEST_LINE as u64),
        CUT,
        "Length of one line that Read returns. A notice says how to read the whole line.",
    ),
    Limit::new(
        "read_line_search_bytes",
        Bytes(lines::MOST_LOOKED_THROUGH),
        CUT,
        "Bytes that Read scans for the end of a line. Lines after a longer one are not found, and a notice says so.",
    ),
    Limit::new(
        "write_bytes",
        Bytes(replace::MOST_BYTES as u64),
        ERROR,
        "Size of a file that Write creates or Edit changes. A call on a larger one fails and changes nothing.",
    ),
    Limit::new(
        "replaced_bytes",
        Bytes(replace::MOST_REPLACED),
        ERROR,
        "Size of an existing file that Write replaces. A call on a larger one fails and changes nothing.",
    ),
    Limit::new(
        "glob_files",
        Count(glob::MOST_FILES as u64),
        CUT,
        "Files per Glob result, newest first. A notice gives the total.",
    ),
    Limit::new(
        "search_depth",
        Count(walk::MOST_DEPTH as u64),
        CUT,
        "Directory depth that Glob and Grep search. A notice counts deeper directories.",
    ),
    Limit::new(
        "ignore_file_bytes",
        Bytes(ignored::MOST_BYTES),
        "ignored",
        "Size of a .gitignore or .ignore file that Glob and Grep read. Rules beyond it do not apply.",
    ),
    Limit::new(
        "grep_results",
        Count(grep::MOST_RESULTS as u64),
        ERROR,
        "Largest `head_limit` of a Grep. A call that requests more fails.",
    ),
    Limit::new(
        "grep_offset",
        Count(grep::MOST_OFFSET as u64),
        ERROR,
        "Largest `offset` of a Grep. A call that requests more fails.",
    ),
    Limit::new(
        "grep_context",
        Count(grep::MOST_CONTEXT as u64),
        ERROR,
        "Context lines before or after a match of a Grep. A call that requests more fails.",
    ),
    Limit::new(
        "grep_pattern_bytes",
        Bytes(grep::LARGEST_PATTERN as u64),
        ERROR,
        "Size of a compiled Grep pattern. A call with a larger one fails.",
    ),
    Limit::new(
        "grep_bytes",
        Bytes(show::MOST_BYTES as u64),
        CUT,
        "Size of one Grep result. A notice says how to continue.",
    ),
    Limit::new(
        "grep_line_bytes",
        Bytes(collect::LONGEST_LINE as u64),
        CUT,
        "Length of one line that Grep returns. A longer one ends with an ellipsis.",
    ),
    Limit::new(
        "grep_memory",
        Bytes(grep::MOST_MEMORY as u64),
        CUT,
        "Memory to search one file, for very long lines or multiline patterns. A notice counts the files that need \
         more.",
    ),
    Limit::new(
        "url_bytes",
        Bytes(LONGEST_ADDRESS as u64),
        ERROR,
        "Length of a URL for HTTP and WebFetch, including redirects. A call with a longer one fails.",
    ),
    Limit::new(
        "fetch_time",
        Amount::time(fetch::TIME_LIMIT),
        ERROR,
        "Duration of one HTTP or WebFetch call, including redirects. A longer one fails.",
    ),
    Limit::new(
        "fetch_redirects",
        Count(fetch::MOST_REDIRECTS as u64),
        ERROR,
        "Redirects per HTTP or WebFetch call. A call with more fails.",
    ),
    Limit::new(
        "http_request_bytes",
        Bytes(http::MOST_BYTES as u64),
        ERROR,
        "Size of the body that one HTTP call sends. A call with a larger one fails and sends nothing.",
    ),
    Limit::new(
        "http_request_headers",
        Count(http::MOST_HEADERS as u64),
        ERROR,
        "Headers per HTTP call. A call with more fails and sends nothing.",
    ),
    Limit::new(
        "http_response_bytes",
        Bytes(http::MOST_BYTES as u64),
        CUT,
        "Size of the response body that one HTTP call returns.",
    ),
    Limit::new(
        "http_response_header_bytes",
        Bytes(http::LONGEST_HEADER as u64),
        CUT,
        "Size of one response header that an HTTP call returns.",
    ),
    Limit::new(
        "web_fetch_bytes",
        Bytes(web_fetch::MOST_TEXT as u64),
        CUT,
        "Size of text that one WebFetch returns. A notice says how to continue.",
    ),
    Limit::new(
        "web_fetch_page_bytes",
        Bytes(web_fetch::MOST_BYTES as u64),
        CUT,
        "Size of a page that WebFetch downloads. A notice says if the rest is missing.",
    ),
    Limit::new(
        "web_fetch_text_bytes",
        Bytes(page::MOST_TEXT as u64),
        CUT,
        "Size of the text that WebFetch extracts from one page. A notice says if the rest is missing.",
    ),
];
