//! The limits of memory, with their defaults.

use drawloom_contract::limits::{
    Amount::{Bytes, Count, Off},
    Limit,
};

use super::{MOST_IMPORTED, MOST_KEY_BYTES, MOST_LISTED, config::USUAL, rules::MOST_LIST_ENTRIES, tool::MOST_HITS};

/// Every limit of memory.
pub const LIMITS: &[Limit] = &[
    Limit::new("memory_key_bytes", Bytes(MOST_KEY_BYTES as u64), "bad_key", "Length of a key in bytes."),
    Limit::new("memory_value_bytes", Bytes(USUAL.max_value_bytes), "value_too_large", "Size of one value as JSON.")
        .key("memory.max_value_bytes"),
    Limit::new("memory_keys", Count(USUAL.max_keys), "over_quota", "Keys per agent, user, run tree or tenant.")
        .key("memory.max_keys"),
    Limit::new(
        "memory_bytes",
        Bytes(USUAL.max_bytes),
        "over_quota",
        "Total stored size of keys and values per agent, user, run tree or tenant.",
    )
    .key("memory.max_bytes"),
    Limit::new("memory_ttl", Off, "bad_ttl", "Longest time to live of a value, in seconds.")
        .key("memory.max_ttl_seconds"),
    Limit::new("memory_list_entries", Count(MOST_LIST_ENTRIES as u64), "bad_limit", "Entries in a bounded list."),
    Limit::new(
        "memory_listed",
        Count(MOST_LISTED as u64),
        "truncated",
        "Entries per list page; the next page has the rest.",
    ),
    Limit::new("memory_hits", Count(MOST_HITS as u64), "truncated", "Results per search."),
    Limit::new(
        "memory_search_bytes",
        Bytes(USUAL.search_bytes),
        "omitted_bytes",
        "Total size of the values in one search result, or in one list result of the tool. A value that does not fit \
         is omitted and its size reported.",
    )
    .key("memory.search_bytes"),
    Limit::new("memory_imported", Count(MOST_IMPORTED as u64), "too_long", "Entries per import."),
];
