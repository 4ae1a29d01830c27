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
        "Time that a Bash call may ask for. A call that asks for more fails; a command that runs longer than its call asked for is killed.",
    )
    .key("tools.bash.max_timeout_seconds"),
    Limit::new(
        "bash_memory",
        Percent(bash::MEMORY_PERCENT, "the machine's memory"),
        ERROR,
        "Memory of a command with all its processes. A command that uses more is killed.",
    )
    .key("tools.bash.max_memory_bytes"),
    Limit::new(
        "bash_file_bytes",
        Off,
        ERROR,
        "Bytes of one file that a command writes. The process that writes more gets SIGXFSZ.",
    )
    .key("tools.bash.max_file_bytes"),
    Limit::new(
        "bash_disk_bytes",
        Bytes(config::MAX_DISK_BYTES),
        ERROR,
        "Bytes that a command with all its processes writes to disks. A command that writes more is killed.",
    )
    .key("tools.bash.max_disk_bytes"),
    Limit::new(
        "bash_processes",
        Count(config::MAX_PROCESSES),
        ERROR,
        "Processes and threads of a command at once. A command that starts more is killed, or cannot start them where the machine has cgroups.",
    )
    .key("tools.bash.max_processes"),
    Limit::new(
        "bash_output_bytes",
        Bytes(bash::MOST_OUTPUT as u64),
        CUT,
        "Bytes of a command's output. Of longer output the beginning and the end are returned.",
    ),
    Limit::new(
        "bash_command_bytes",
        Bytes(LONGEST_ORDER as u64),
        ERROR,
        "Bytes of a command together with its settings. A longer one is not started.",
    ),
    Limit::new(
        "bash_resume_time",
        Amount::time(bash::OVER_WITHIN),
        "in_doubt",
        "Time that a resumed run waits for a command of an earlier process to end. After it the model is told that the command may still run.",
    ),
    Limit::new(
        "read_bytes",
        Bytes(read::MOST_BYTES as u64),
        CUT,
        "Bytes that one Read returns. A notice says how to read on.",
    ),
    Limit::new(
        "read_lines",
        Count(read::USUAL_LINES),
        CUT,
        "Lines that one Read returns, unless the call gives `limit`. A notice says how to read on.",
    ),
    Limit::new(
        "read_line_bytes",
        Bytes(lines::LONGEST_LINE as u64),
        CUT,
        "Bytes of one line that Read shows. A notice says how to read the whole line.",
    ),
    Limit::new(
        "read_line_search_bytes",
        Bytes(lines::MOST_LOOKED_THROUGH),
        CUT,
        "Bytes that Read searches for the end of a line. Lines after a longer one are not found, and a notice says so.",
    ),
    Limit::new(
        "write_bytes",
        Bytes(replace::MOST_BYTES as u64),
        ERROR,
        "Bytes of a file that Write writes or Edit changes. A call on a larger one fails and changes nothing.",
    ),
    Limit::new(
        "replaced_bytes",
        Bytes(replace::MOST_REPLACED),
        ERROR,
        "Bytes of an existing file that Write replaces. A call on a larger one fails and changes nothing.",
    ),
    Limit::new(
        "glob_files",
        Count(glob::MOST_FILES as u64),
        CUT,
        "Files that one Glob names: the newest ones. A notice says how many there are.",
    ),
    Limit::new(
        "search_depth",
        Count(walk::MOST_DEPTH as u64),
        CUT,
        "Depth of the directories that Glob and Grep search, from where the search starts. A notice counts those that are deeper.",
    ),
    Limit::new(
        "ignore_file_bytes",
        Bytes(ignored::MOST_BYTES),
        "ignored",
        "Bytes of a .gitignore or .ignore file that Glob and Grep read. Rules after them do not apply.",
    ),
    Limit::new(
        "grep_results",
        Count(grep::MOST_RESULTS as u64),
        ERROR,
        "Results that one Grep may ask for with `head_limit`. A call that asks for more fails.",
    ),
    Limit::new(
        "grep_offset",
        Count(grep::MOST_OFFSET as u64),
        ERROR,
        "Results that one Grep may skip with `offset`. A call that asks for more fails.",
    ),
    Limit::new(
        "grep_context",
        Count(grep::MOST_CONTEXT as u64),
        ERROR,
        "Lines before or after a match that one Grep may ask for. A call that asks for more fails.",
    ),
    Limit::new(
        "grep_pattern_bytes",
        Bytes(grep::LARGEST_PATTERN as u64),
        ERROR,
        "Bytes of a compiled pattern of Grep. A call with a larger one fails.",
    ),
    Limit::new(
        "grep_bytes",
        Bytes(show::MOST_BYTES as u64),
        CUT,
        "Bytes that one Grep returns. A notice says how to go on.",
    ),
    Limit::new(
        "grep_line_bytes",
        Bytes(collect::LONGEST_LINE as u64),
        CUT,
        "Bytes of one line that Grep shows. A longer one ends with an ellipsis.",
    ),
    Limit::new(
        "grep_memory",
        Bytes(grep::MOST_MEMORY as u64),
        CUT,
        "Memory for the search of one file, which a very long line or a search across lines may need. A notice counts the files that need more.",
    ),
    Limit::new(
        "url_bytes",
        Bytes(LONGEST_ADDRESS as u64),
        ERROR,
        "Bytes of an address for HTTP and WebFetch, redirects included. A call with a longer one fails.",
    ),
    Limit::new(
        "fetch_time",
        Amount::time(fetch::TIME_LIMIT),
        ERROR,
        "Time of one HTTP or WebFetch call, redirects included. A longer one fails.",
    ),
    Limit::new(
        "fetch_redirects",
        Count(fetch::MOST_REDIRECTS as u64),
        ERROR,
        "Redirects that one HTTP or WebFetch call follows. At one more the call fails.",
    ),
    Limit::new(
        "http_request_bytes",
        Bytes(http::MOST_BYTES as u64),
        ERROR,
        "Bytes of the body that one HTTP call sends. A call with a longer one fails and sends nothing.",
    ),
    Limit::new(
        "http_request_headers",
        Count(http::MOST_HEADERS as u64),
        ERROR,
        "Headers that one HTTP call sends. A call with more fails and sends nothing.",
    ),
    Limit::new(
        "http_response_bytes",
        Bytes(http::MOST_BYTES as u64),
        CUT,
        "Bytes of a response's body that one HTTP call returns.",
    ),
    Limit::new(
        "http_response_header_bytes",
        Bytes(http::LONGEST_HEADER as u64),
        CUT,
        "Bytes of one header of a response that an HTTP call returns.",
    ),
    Limit::new(
        "web_fetch_bytes",
        Bytes(web_fetch::MOST_TEXT as u64),
        CUT,
        "Bytes of text that one WebFetch returns. A notice says how to go on.",
    ),
    Limit::new(
        "web_fetch_page_bytes",
        Bytes(web_fetch::MOST_BYTES as u64),
        CUT,
        "Bytes of a page that WebFetch downloads. A notice says that the rest is missing.",
    ),
    Limit::new(
        "web_fetch_text_bytes",
        Bytes(page::MOST_TEXT as u64),
        CUT,
        "Bytes of text that WebFetch makes of one page. A notice says that the rest is missing.",
    ),
];
