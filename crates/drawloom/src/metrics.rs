//! What `/metrics` says, in Prometheus' text format.

use std::fmt::Write as _;

use drawloom_contract::runs::Load;
use drawloom_store::Stats;

/// Commits of the store: one group of entries each.
const COMMITS: &str = "drawloom_store_commits_total";
/// Commits that waited for a real sync.
const SYNCS: &str = "drawloom_store_syncs_total";
/// Entries that were written.
const ENTRIES: &str = "drawloom_store_entries_total";
/// Journal records that were written.
const RECORDS: &str = "drawloom_store_records_total";
/// Most entries in one group.
const LARGEST_GROUP: &str = "drawloom_store_largest_group";
/// Runs with a slot.
const ACTIVE: &str = "drawloom_runs_active";
/// Runs that wait for a slot.
const QUEUED: &str = "drawloom_runs_queued";
/// The most runs with a slot at once.
const CAP: &str = "drawloom_runs_max_concurrent";
/// Runs with a slot, by provider.
const PROVIDER_ACTIVE: &str = "drawloom_provider_runs_active";
/// Runs that wait for a slot, by provider.
const PROVIDER_QUEUED: &str = "drawloom_provider_runs_queued";

/// All metrics.
pub(crate) fn render(stats: &Stats, load: &Load) -> String {
    let mut text = String::new();
    let mut single = |name: &str, kind: &str, help: &str, value: u64| {
        head(&mut text, name, kind, help);
        line(&mut text, format_args!("{name} {value}"));
    };
    single(COMMITS, "counter", "Groups of entries that the store committed.", stats.commits);
    single(SYNCS, "counter", "Commits that waited for a real sync.", stats.syncs);
    single(ENTRIES, "counter", "Entries that the store wrote.", stats.entries);
    single(RECORDS, "counter", "Journal records that the store wrote.", stats.records);
    single(LARGEST_GROUP, "gauge", "Most entries in one commit.", stats.largest_group);
    single(ACTIVE, "gauge", "Runs with a slot.", load.active);
    single(QUEUED, "gauge", "Runs that wait for a slot.", load.queued);
    single(CAP, "gauge", "The most runs with a slot at once.", load.max_concurrent_runs);
    head(&mut text, PROVIDER_ACTIVE, "gauge", "Runs with a slot, by provider.");
    for (provider, load) in &load.providers {
        line(&mut text, format_args!("{PROVIDER_ACTIVE}{{provider=\"{}\"}} {}", escape(provider), load.active));
    }
    head(&mut text, PROVIDER_QUEUED, "gauge", "Runs that wait for a slot, by provider.");
    for (provider, load) in &load.providers {
        line(&mut text, format_args!("{PROVIDER_QUEUED}{{provider=\"{}\"}} {}", escape(provider), load.queued));
    }
    text
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    line(text, format_args!("# HELP {name} {help}"));
    line(text, format_args!("# TYPE {name} {kind}"));
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    writeln!(text, "{content}").expect("text takes text");
}

/// A label's value, as the format wants it.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use drawloom_contract::runs::ProviderLoad;

    use super::*;

    #[test]
    fn metrics_have_a_head_each_and_escaped_labels() {
        let load = Load {
            active: 2,
            queued: 1,
            max_concurrent_runs: 8,
            providers: [("a\"b".to_owned(), ProviderLoad { active: 2, queued: 1, ..ProviderLoad::default() })].into(),
        };
        let text = render(&Stats { commits: 3, records: 12, ..Stats::default() }, &load);
        assert!(
            text.contains("# TYPE drawloom_store_commits_total counter\ndrawloom_store_commits_total 3\n"),
            "{text}"
        );
        assert!(text.contains("drawloom_store_records_total 12\n"), "{text}");
        assert!(text.contains("drawloom_provider_runs_active{provider=\"a\\\"b\"} 2\n"), "{text}");
    }
}
