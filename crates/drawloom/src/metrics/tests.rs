use std::{collections::BTreeMap, time::Duration};

use drawloom_contract::{choice::ModelName, money::Cost, runs::ProviderLoad, usage::Usage};
use drawloom_engine::ModelCalls;

use super::*;

/// Everything that can be counted, once.
fn facts() -> Facts<'static> {
    let mut took = Durations { count: 3, sum: Duration::from_millis(700_030), ..Durations::default() };
    took.buckets[0] = 1;
    took.buckets[2] = 1;
    let calls = ModelCalls {
        outcomes: BTreeMap::from([("ok", 2), ("throttled", 1)]),
        usage: Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() },
        cost: Cost(1_500_000),
        took: took.clone(),
    };
    let counts = Counts {
        accepted: 4,
        ended: BTreeMap::from([("completed", 3), ("failed", 1)]),
        run_took: took.clone(),
        queued: took,
        models: BTreeMap::from([(ModelName::new("a\"b\\c\n", "m"), calls)]),
        retries: 1,
        fallbacks: 2,
        parked: BTreeMap::from([("children", 1)]),
        tools: (0..300).map(|number| ((format!("tool{number:03}"), number % 2 == 0), 1)).collect(),
    };
    let provider = ProviderLoad { active: 2, queued: 1, call_limit: Some(5), ..ProviderLoad::default() };
    Facts {
        counts,
        load: Load { active: 2, queued: 1, max_concurrent_runs: 8, providers: [("p".to_owned(), provider)].into() },
        store: Stats { commits: 3, records: 12, ..Stats::default() },
        files: StoreFiles { bytes: 4096, log: 0 },
        sweeps: SweepCounts { done: 1, failed: 0 },
        process: ProcessFacts { memory: Some(1), open_files: Some(2), max_files: Some(3) },
        currency: "USD",
        started: Timestamp::from_millis(1_700_000_000_500),
    }
}

/// A sample: its name, its labels, its value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Reads the text as the format's description says; what it does not say is a mistake.
fn parse(text: &str) -> (BTreeMap<String, String>, Vec<Sample>) {
    assert!(text.ends_with('\n'), "the last line ends too");
    let mut types = BTreeMap::new();
    let mut samples = Vec::new();
    let mut helped = Vec::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a name and a text");
            assert!(!help.is_empty() && !helped.contains(&name), "{line}");
            helped.push(name);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a name and a kind");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} comes twice");
        } else {
            samples.push(sample(line));
        }
    }
    assert_eq!(helped.len(), types.len());
    (types, samples)
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).expect("a name ends");
    let (name, mut rest) = line.split_at(end);
    assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'), "{name}");
    let mut labels = BTreeMap::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            let (name, after) = inside.split_once("=\"").expect("a label has a value");
            let mut value = String::new();
            let mut characters = after.char_indices();
            let end = loop {
                match characters.next().expect("a value ends") {
                    (_, '\\') => match characters.next().expect("something is escaped").1 {
                        'n' => value.push('\n'),
                        escaped => {
                            assert!(['\\', '"'].contains(&escaped), "{line}");
                            value.push(escaped);
                        }
                    },
                    (at, '"') => break at,
                    (_, character) => value.push(character),
                }
            };
            assert!(labels.insert(name.to_owned(), value).is_none(), "{line}");
            match after[end + 1..].strip_prefix(',') {
                Some(more) => inside = more,
                None => {
                    rest = after[end + 1..].strip_prefix('}').expect("labels end");
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ').expect("a space before the value").parse().expect("a number");
    (name.to_owned(), labels, value)
}

#[test]
fn the_text_is_what_prometheus_reads_and_every_metric_of_the_list_is_in_it() {
    let (types, samples) = parse(&render(&facts()));
    for metric in METRICS {
        assert_eq!(types.get(metric.name).map(String::as_str), Some(metric.kind.as_str()), "{}", metric.name);
        let own = samples.iter().filter(|(name, _, _)| match metric.kind {
            Kind::Histogram => ["_bucket", "_sum", "_count"].iter().any(|end| *name == format!("{}{end}", metric.name)),
            Kind::Counter | Kind::Gauge => name == metric.name,
        });
        let mut seen = 0;
        for (name, labels, _) in own {
            let wanted = metric.labels.iter().copied().chain(name.ends_with("_bucket").then_some("le"));
            let wanted: std::collections::BTreeSet<&str> = wanted.collect();
            assert_eq!(labels.keys().map(String::as_str).collect::<std::collections::BTreeSet<_>>(), wanted, "{name}");
            seen += 1;
        }
        assert!(seen > 0, "{} has no sample", metric.name);
    }
    assert_eq!(types.len(), METRICS.len(), "what is shown is in the list");
}

#[test]
fn names_follow_the_conventions() {
    for Metric { name, kind, help, .. } in METRICS {
        assert!(name.starts_with("drawloom_"), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
        assert!(*kind != Kind::Histogram || name.ends_with("_seconds"), "{name}");
        assert!(help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
    }
}

#[test]
fn buckets_add_up_and_labels_come_back_as_they_were() {
    let (_, samples) = parse(&render(&facts()));
    let buckets: Vec<(&str, f64)> = samples
        .iter()
        .filter(|(name, _, _)| name == "drawloom_run_duration_seconds_bucket")
        .map(|(_, labels, value)| (labels["le"].as_str(), *value))
        .collect();
    assert_eq!(buckets[..4], [("0.005", 1.0), ("0.02", 1.0), ("0.05", 2.0), ("0.1", 2.0)]);
    assert_eq!(buckets.last(), Some(&("+Inf", 3.0)));
    let sum = samples.iter().find(|(name, _, _)| name == "drawloom_run_duration_seconds_sum").expect("a sum");
    assert_eq!(sum.2, 700.03);
    let call = samples.iter().find(|(name, _, _)| name == "drawloom_model_calls_total").expect("a call");
    assert_eq!(call.1["provider"], "a\"b\\c\n");
}

#[test]
fn however_many_tools_models_invent_there_are_so_many_series() {
    let (_, samples) = parse(&render(&facts()));
    let tools: Vec<&Sample> = samples.iter().filter(|(name, _, _)| name == "drawloom_tool_calls_total").collect();
    assert!(tools.len() <= MOST_SETS + 2, "{}", tools.len());
    assert_eq!(tools.iter().map(|(_, _, value)| value).sum::<f64>(), 300.0, "and none is forgotten");
}
