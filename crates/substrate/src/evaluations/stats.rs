//! Sums over evaluations.

use std::collections::BTreeMap;

use serde::Serialize;

use super::record::Evaluation;

/// Scores that a version shows, the newest of them.
const RECENT: usize = 32;

/// Statistics of some scores.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Stats {
    pub(super) count: u64,
    pub(super) mean: f64,
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) latest: f64,
    /// The newest scores, oldest first.
    pub(super) recent: Vec<f64>,
}

impl Stats {
    /// Of scores from the newest to the oldest; nothing when there are none.
    pub(super) fn of(scores: &[f64]) -> Option<Self> {
        let mut sorted = scores.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max, latest) = (*sorted.first()?, *sorted.last()?, *scores.first()?);
        let half = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted[half - 1] + sorted[half]) / 2.0,
            _ => sorted[half],
        };
        let recent = scores.iter().take(RECENT).rev().copied().collect();
        let mean = round(scores.iter().sum::<f64>() / scores.len() as f64);
        Some(Self { count: scores.len() as u64, mean, median: round(median), min, max, latest, recent })
    }
}

/// A millionth is precise enough; what is beyond it is noise of binary fractions.
fn round(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// The statistics of evaluations, from the newest to the oldest.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Sums {
    pub(super) count: u64,
    pub(super) score: Option<Stats>,
    pub(super) dimensions: BTreeMap<String, Stats>,
    pub(super) by_emitter_role: BTreeMap<&'static str, Stats>,
}

impl Sums {
    pub(super) fn of(newest_first: &[Evaluation]) -> Self {
        let all: Vec<f64> = newest_first.iter().map(|evaluation| evaluation.score).collect();
        let mut dimensions: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut roles: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
        for evaluation in newest_first {
            roles.entry(evaluation.emitter_role.as_str()).or_default().push(evaluation.score);
            for (name, score) in &evaluation.dimensions {
                dimensions.entry(name).or_default().push(*score);
            }
        }
        Self {
            count: all.len() as u64,
            score: Stats::of(&all),
            dimensions: dimensions
                .into_iter()
                .filter_map(|(name, scores)| Some((name.into(), Stats::of(&scores)?)))
                .collect(),
            by_emitter_role: roles.into_iter().filter_map(|(role, scores)| Some((role, Stats::of(&scores)?))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_exact_for_odd_and_even_counts() {
        let odd = Stats::of(&[0.9, 0.1, 0.2]).expect("scores");
        assert_eq!((odd.count, odd.mean, odd.median, odd.min, odd.max, odd.latest), (3, 0.4, 0.2, 0.1, 0.9, 0.9));
        assert_eq!(odd.recent, [0.2, 0.1, 0.9]);
        let even = Stats::of(&[0.4, 0.2, 0.8, 0.6]).expect("scores");
        assert_eq!((even.mean, even.median, even.latest), (0.5, 0.5, 0.4));
        assert_eq!(Stats::of(&[]), None);
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(Stats::of(&many).expect("scores").recent.len(), RECENT);
    }
}
