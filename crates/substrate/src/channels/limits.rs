//! The limits of channels, with their defaults.

use drawloom_contract::limits::{
    Amount::{Bytes, Count, Millis, Off},
    Limit,
};

use super::{
    MAX_DEFERRED_BYTES, MOST_CHANNELS, MOST_CONSUMERS, MOST_DEFERRED, MOST_DEFINED, MOST_PAGE, MOST_VALUE_BYTES,
    config::{MOST_MESSAGES, USUAL_ATTEMPTS, USUAL_LEASE_MS, USUAL_MESSAGES},
    group::MOST_IN_FLIGHT,
    place::{MOST_CONSUMER, MOST_NAME},
    rules::{LONG_POLL_MS, MOST_DEFERRED_MS, MOST_WAIT_MS},
    tool::TOOL_BYTES,
};

/// Every limit of channels.
pub const LIMITS: &[Limit] = &[
    Limit::new("channel_name", Count(MOST_NAME as u64), "channel_name_invalid", "Characters of a channel's name."),
    Limit::new(
        "channel_consumer_name",
        Count(MOST_CONSUMER as u64),
        "channel_name_invalid",
        "Characters of a consumer's or group's name.",
    ),
    Limit::new(
        "channel_value_bytes",
        Bytes(MOST_VALUE_BYTES as u64),
        "value_too_large",
        "Size of one message as JSON.",
    ),
    Limit::new(
        "channel_messages",
        Count(USUAL_MESSAGES),
        "dropped_oldest",
        "Messages that a channel keeps for each owner, unless its `max_messages` says otherwise. The oldest are dropped beyond it, and the publisher is told how many.",
    ),
    Limit::new(
        "channel_messages_most",
        Count(MOST_MESSAGES),
        "channel_setting_invalid",
        "Highest max_messages of a channel.",
    ),
    Limit::new(
        "channel_ttl",
        Off,
        "bad_ttl",
        "Time to live of a message, in seconds: its own, or `default_ttl` of the channel.",
    ),
    Limit::new("channel_page", Count(MOST_PAGE as u64), "more", "Messages that one read returns."),
    Limit::new(
        "channel_tool_bytes",
        Bytes(TOOL_BYTES),
        "more",
        "Size of the messages that one call of the tool Channel returns. The first message comes whatever its size.",
    ),
    Limit::new("channel_names", Count(MOST_CHANNELS as u64), "too_long", "Channels of one await or broadcast."),
    Limit::new("channel_defined", Count(MOST_DEFINED), "over_quota", "Channels of a tenant made at runtime."),
    Limit::new(
        "channel_deferred",
        Count(MOST_DEFERRED),
        "over_quota",
        "Messages of one channel and owner that wait for their time.",
    ),
    Limit::new(
        "channel_deferred_bytes",
        Bytes(MAX_DEFERRED_BYTES),
        "over_quota",
        "Total stored size of the messages of one channel and owner that wait for their time.",
    ),
    Limit::new("channel_deferral", Millis(MOST_DEFERRED_MS), "bad_time", "Longest time that a message is deferred."),
    Limit::new(
        "channel_wait",
        Millis(MOST_WAIT_MS),
        "effective_wait_ms",
        "Longest wait of one call of a run. The run holds no slot meanwhile.",
    ),
    Limit::new(
        "channel_long_poll",
        Millis(LONG_POLL_MS),
        "effective_wait_ms",
        "Longest wait of one request over REST, MCP or the command line.",
    ),
    Limit::new(
        "channel_consumers",
        Count(MOST_CONSUMERS),
        "over_quota",
        "Cursors and groups of one channel and owner.",
    ),
    Limit::new(
        "channel_in_flight",
        Count(MOST_IN_FLIGHT as u64),
        "warnings",
        "Messages that a group has without an acknowledgement.",
    ),
    Limit::new(
        "channel_lease",
        Millis(USUAL_LEASE_MS),
        "channel_lease_lost",
        "Time that a member of a group has a message before another gets it, unless `lease_ms` says otherwise.",
    ),
    Limit::new(
        "channel_attempts",
        Count(USUAL_ATTEMPTS as u64),
        "dead_letter",
        "Deliveries of a message to a group, unless the channel's `max_attempts` says otherwise. Then it goes to the dead-letter channel.",
    ),
];
