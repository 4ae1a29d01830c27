//! The limits of memory, with their defaults.

use drawloom_contract::limits::{
    Amount::{Bytes, Count, Off},
    Limit,
};

use super::{MOST_IMPORTED, MOST_KEY_BYTES, MOST_LISTED, config::USUAL, rules::MOST_LIST_ENTRIES, tool::MOST_HITS};

/// Every limit of memory.
pub const LIMITS: &[Limit] = &[
    Limit::new("memory_key_bytes", Bytes(MOST_KEY_BYTES as u64), "bad_key", "Bytes of a key."),
    Limit::new("memory_value_bytes", Bytes(USUAL.max_value_bytes), "value_too_large", "Bytes of one value, as JSON.")
        .key("memory.max_value_bytes"),
    Limit::new("memory_keys", Count(USUAL.max_keys), "over_quota", "Keys of one agent, user, tree of runs or tenant.")
        .key("memory.max_keys"),
    Limit::new(
        "memory_bytes",
        Bytes(USUAL.max_bytes),
        "over_quota",
        "Bytes of all keys and values, as they are kept, of one agent, user, tree of runs or tenant.",
    )
    .key("memory.max_bytes"),
    Limit::new("memory_ttl", Off, "bad_ttl", "Seconds that a value may be kept.").key("memory.max_ttl_seconds"),
    Limit::new(
        "memory_list_entries",
        Count(MOST_LIST_ENTRIES as u64),
        "bad_limit",
        "Entries that a bounded list keeps.",
    ),
    Limit::new("memory_listed", Count(MOST_LISTED as u64), "truncated", "Entries of one list; the rest is in the next."),
    Limit::new("memory_hits", Count(MOST_HITS as u64), "truncated", "Hits of one search."),
    Limit::new(
        "memory_search_bytes",
        Bytes(USUAL.search_bytes),
        "omitted_bytes",
        "Bytes of the values in one search, or in one list of the tool. A value that does not fit is left out, and its size told.",
    )
    .key("memory.search_bytes"),
    Limit::new("memory_imported", Count(MOST_IMPORTED as u64), "too_long", "Entries of one import."),
];
