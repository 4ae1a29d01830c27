//! What `/metrics` says, in Prometheus' text format.

mod list;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use drawloom_contract::{VERSION, runs::Load, time::Timestamp};
use drawloom_engine::{BUCKETS_MS, Counts, Durations};
use drawloom_store::Stats;
use rustix::process::{Resource, getrlimit};

pub use list::{Kind, METRICS, Metric};

use crate::retention::SweepCounts;

/// Sets of labels that one metric shows at most; what is beyond them is added up under `other`.
const MOST_SETS: usize = 200;
/// The label's value for what is beyond.
const OTHER: &str = "other";

/// All that is known.
pub(crate) struct Facts<'a> {
    pub(crate) counts: Counts,
    pub(crate) load: Load,
    pub(crate) store: Stats,
    pub(crate) files: StoreFiles,
    pub(crate) sweeps: SweepCounts,
    pub(crate) process: ProcessFacts,
    pub(crate) currency: &'a str,
    pub(crate) started: Timestamp,
}

/// Sizes of the store's files.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StoreFiles {
    bytes: u64,
    log: u64,
}

impl StoreFiles {
    /// As they are now.
    pub(crate) fn of(file: &Path) -> Self {
        let size = |path: &Path| path.metadata().map_or(0, |found| found.len());
        let mut log = file.as_os_str().to_owned();
        log.push("-wal");
        Self { bytes: size(file), log: size(Path::new(&log)) }
    }
}

/// What the operating system says of this process; nothing where it does not say.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessFacts {
    memory: Option<u64>,
    open_files: Option<u64>,
    max_files: Option<u64>,
}

impl ProcessFacts {
    /// As it is now.
    pub(crate) fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = resident.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        let files = std::fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64);
        Self {
            memory: kibibytes.map(|kibibytes| kibibytes * 1024),
            // Looking opens one too.
            open_files: files.map(|files| files.saturating_sub(1)),
            max_files: getrlimit(Resource::Nofile).current,
        }
    }
}

/// All metrics.
pub(crate) fn render(facts: &Facts<'_>) -> String {
    let mut page = Page::default();
    process(&mut page, facts);
    runs(&mut page, &facts.counts, &facts.load, &facts.store);
    providers(&mut page, &facts.load);
    models(&mut page, &facts.counts, facts.currency);
    store(&mut page, facts);
    page.text
}

fn process(page: &mut Page, facts: &Facts<'_>) {
    page.head(&list::BUILD).line(&list::BUILD, &[VERSION], 1);
    let started = facts.started.as_millis() as f64 / 1_000.0;
    page.head(&list::START_TIME).line(&list::START_TIME, &[], started);
    let ProcessFacts { memory, open_files, max_files } = facts.process;
    for (metric, value) in [(list::MEMORY, memory), (list::OPEN_FILES, open_files), (list::MAX_FILES, max_files)] {
        if let Some(value) = value {
            page.head(&metric).line(&metric, &[], value);
        }
    }
}

fn runs(page: &mut Page, counts: &Counts, load: &Load, store: &Stats) {
    page.single(&list::ACCEPTED, counts.accepted);
    page.head(&list::ENDED);
    for (status, number) in &counts.ended {
        page.line(&list::ENDED, &[status], number);
    }
    page.head(&list::RUN_DURATION).histogram(&list::RUN_DURATION, &[], &counts.run_took);
    page.head(&list::QUEUE_DURATION).histogram(&list::QUEUE_DURATION, &[], &counts.queued);
    page.single(&list::ACTIVE, load.active);
    page.single(&list::QUEUED, load.queued);
    page.single(&list::MAX_ACTIVE, load.max_concurrent_runs);
    page.head(&list::PARKED);
    for (on, number) in &counts.parked {
        page.line(&list::PARKED, &[on], number);
    }
    page.single(&list::PRUNED, store.pruned_runs);
}

fn providers(page: &mut Page, load: &Load) {
    for (metric, value) in [
        (
            list::PROVIDER_ACTIVE,
            (|load| Some(load.active)) as fn(&drawloom_contract::runs::ProviderLoad) -> Option<u64>,
        ),
        (list::PROVIDER_QUEUED, |load| Some(load.queued)),
        (list::PROVIDER_CALLS, |load| Some(load.calls_in_flight)),
        (list::PROVIDER_LIMIT, |load| load.call_limit),
        (list::PROVIDER_THROTTLED, |load| Some(load.throttled)),
    ] {
        page.head(&metric);
        for (provider, load) in load.providers.iter().take(MOST_SETS) {
            if let Some(value) = value(load) {
                page.line(&metric, &[provider], value);
            }
        }
    }
}

fn models(page: &mut Page, counts: &Counts, currency: &str) {
    // Models are named by the operator, so there are few.
    let models = || counts.models.iter().take(MOST_SETS);
    page.head(&list::CALLS);
    for (name, calls) in models() {
        for (outcome, number) in &calls.outcomes {
            page.line(&list::CALLS, &[&name.provider, &name.model, outcome], number);
        }
    }
    page.head(&list::CALL_DURATION);
    for (name, calls) in models() {
        page.histogram(&list::CALL_DURATION, &[&name.provider, &name.model], &calls.took);
    }
    page.head(&list::TOKENS);
    for (name, calls) in models() {
        for (kind, tokens) in [
            ("input", calls.usage.input_tokens),
            ("output", calls.usage.output_tokens),
            ("cache_write", calls.usage.cache_creation_input_tokens),
            ("cache_read", calls.usage.cache_read_input_tokens),
        ] {
            page.line(&list::TOKENS, &[&name.provider, &name.model, kind], tokens);
        }
    }
    page.head(&list::COST);
    for (name, calls) in models() {
        page.line(&list::COST, &[&name.provider, &name.model, currency], calls.cost.units());
    }
    page.single(&list::RETRIES, counts.retries);
    page.single(&list::FALLBACKS, counts.fallbacks);
    page.head(&list::TOOL_CALLS);
    for ((tool, failed), number) in bounded_tools(&counts.tools) {
        page.line(&list::TOOL_CALLS, &[tool, if failed { "error" } else { "ok" }], number);
    }
}

/// Models ask for tools by name, also for some that do not exist: beyond a bound they are one.
fn bounded_tools(tools: &BTreeMap<(String, bool), u64>) -> BTreeMap<(&str, bool), u64> {
    let mut bounded = BTreeMap::new();
    for (place, ((tool, failed), number)) in tools.iter().enumerate() {
        let tool = if place < MOST_SETS { tool.as_str() } else { OTHER };
        *bounded.entry((tool, *failed)).or_default() += number;
    }
    bounded
}

fn store(page: &mut Page, facts: &Facts<'_>) {
    let Stats { commits, syncs, entries, records, largest_group, .. } = facts.store;
    page.single(&list::COMMITS, commits);
    page.single(&list::SYNCS, syncs);
    page.single(&list::ENTRIES, entries);
    page.single(&list::RECORDS, records);
    page.single(&list::LARGEST_GROUP, largest_group);
    page.single(&list::STORE_BYTES, facts.files.bytes);
    page.single(&list::LOG_BYTES, facts.files.log);
    page.head(&list::SWEEPS);
    page.line(&list::SWEEPS, &["ok"], facts.sweeps.done).line(&list::SWEEPS, &["error"], facts.sweeps.failed);
}

/// The text as it grows.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn head(&mut self, metric: &Metric) -> &mut Self {
        let Metric { name, kind, help, .. } = metric;
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {}\n", kind.as_str()));
        self
    }

    fn single(&mut self, metric: &Metric, value: u64) {
        self.head(metric).line(metric, &[], value);
    }

    fn line(&mut self, metric: &Metric, values: &[&str], value: impl std::fmt::Display) -> &mut Self {
        let labels = labels(metric, values, None);
        self.put(format_args!("{}{labels} {value}\n", metric.name));
        self
    }

    fn histogram(&mut self, metric: &Metric, values: &[&str], durations: &Durations) {
        let name = metric.name;
        let mut so_far = 0;
        for (bound, count) in BUCKETS_MS.iter().zip(durations.buckets) {
            so_far += count;
            let labels = labels(metric, values, Some(&(*bound as f64 / 1_000.0).to_string()));
            self.put(format_args!("{name}_bucket{labels} {so_far}\n"));
        }
        let all = labels(metric, values, Some("+Inf"));
        let plain = labels(metric, values, None);
        let (sum, count) = (durations.sum.as_secs_f64(), durations.count);
        self.put(format_args!("{name}_bucket{all} {count}\n{name}_sum{plain} {sum}\n{name}_count{plain} {count}\n"));
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("text takes text");
    }
}

fn labels(metric: &Metric, values: &[&str], bucket: Option<&str>) -> String {
    debug_assert_eq!(metric.labels.len(), values.len(), "{}", metric.name);
    let own = metric.labels.iter().copied().zip(values.iter().copied());
    let pairs: Vec<String> = own
        .chain(bucket.map(|bucket| ("le", bucket)))
        .map(|(name, value)| format!("{name}=\"{}\"", escape(value)))
        .collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

/// A label's value, as the format wants it.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
