//! Every metric: the reference page and the exposition are made from this list.

/// What a metric counts or shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from 0 at every start.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How many took how long.
    Histogram,
}

impl Kind {
    /// Its name in the exposition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it says, in a sentence.
    pub help: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
}

macro_rules! metrics {
    ($($constant:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(super) const $constant: Metric =
            Metric { name: $name, kind: Kind::$kind, help: $help, labels: &[$($label),*] };)*

        /// All of them, in the order in which they are shown.
        pub static METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    BUILD: Gauge "drawloom_build_info" ["version"] "Always 1; the label has the version.";
    START_TIME: Gauge "drawloom_process_start_time_seconds" [] "When the process started, in seconds since 1970.";
    MEMORY: Gauge "drawloom_process_resident_memory_bytes" [] "Resident memory of the process.";
    OPEN_FILES: Gauge "drawloom_process_open_fds" [] "Open files and sockets of the process.";
    MAX_FILES: Gauge "drawloom_process_max_fds" [] "Limit of open files and sockets.";

    ACCEPTED: Counter "drawloom_runs_accepted_total" [] "Runs that were accepted.";
    ENDED: Counter "drawloom_runs_ended_total" ["status"] "Runs that ended, by status.";
    RUN_DURATION: Histogram "drawloom_run_duration_seconds" [] "Duration of runs, from accept to end.";
    QUEUE_DURATION: Histogram "drawloom_run_queue_duration_seconds" [] "Time that runs waited in the queue.";
    ACTIVE: Gauge "drawloom_runs_active" [] "Active runs.";
    QUEUED: Gauge "drawloom_runs_queued" [] "Queued runs.";
    MAX_ACTIVE: Gauge "drawloom_runs_max_concurrent" [] "Limit of active runs.";
    PARKED: Counter "drawloom_runs_parked_total" ["on"]
        "Times that a run gave up its slot to wait, by cause: children, log, value, time, rate_limit or budget.";
    PRUNED: Counter "drawloom_runs_pruned_total" [] "Runs that retention or prune deleted.";

    PROVIDER_ACTIVE: Gauge "drawloom_provider_runs_active" ["provider"] "Active runs, by provider.";
    PROVIDER_QUEUED: Gauge "drawloom_provider_runs_queued" ["provider"] "Queued runs, by provider.";
    PROVIDER_CALLS: Gauge "drawloom_provider_calls_in_flight" ["provider"]
        "Model calls in flight, by provider.";
    PROVIDER_LIMIT: Gauge "drawloom_provider_call_limit" ["provider"]
        "Concurrency limit learned from rate limiting; absent before the first rate-limited call.";
    PROVIDER_THROTTLED: Gauge "drawloom_provider_runs_throttled" ["provider"]
        "Runs that wait because of rate limiting.";

    CALLS: Counter "drawloom_model_calls_total" ["provider", "model", "outcome"]
        "Model calls, by outcome: ok, or an error code.";
    CALL_DURATION: Histogram "drawloom_model_call_duration_seconds" ["provider", "model"] "Duration of model calls.";
    TOKENS: Counter "drawloom_model_tokens_total" ["provider", "model", "kind"]
        "Tokens, by kind: input, output, cache_write or cache_read.";
    COST: Counter "drawloom_model_cost_total" ["provider", "model", "currency"]
        "Cost of model calls, in units of the currency, for models with a known price.";
    RETRIES: Counter "drawloom_model_retries_total" [] "Retries of model calls.";
    FALLBACKS: Counter "drawloom_model_fallbacks_total" [] "Fallbacks to another model.";
    TOOL_CALLS: Counter "drawloom_tool_calls_total" ["tool", "outcome"] "Tool calls, by outcome: ok or error.";

    COMMITS: Counter "drawloom_store_commits_total" [] "Groups of entries that the store committed.";
    SYNCS: Counter "drawloom_store_syncs_total" [] "Commits that waited for a sync to disk.";
    ENTRIES: Counter "drawloom_store_entries_total" [] "Entries that the store wrote.";
    RECORDS: Counter "drawloom_store_records_total" [] "Journal records that the store wrote.";
    LARGEST_GROUP: Gauge "drawloom_store_largest_group" [] "Most entries in one commit.";
    STORE_BYTES: Gauge "drawloom_store_bytes" [] "Size of the store's file.";
    LOG_BYTES: Gauge "drawloom_store_log_bytes" [] "Size of its write-ahead log.";
    SWEEPS: Counter "drawloom_retention_passes_total" ["outcome"]
        "Hourly retention passes, by outcome: ok or error.";
}
