//! `drawloom evaluations stats`: scores by version, with a line for each dimension.

use clap::Args;
use drawloom_contract::ids::AgentName;
use drawloom_wire::evaluations::{AggregateEvaluations, ScoreStats, VersionStats};

use super::{score, warn};
use crate::{
    cli::Look,
    commands::Session,
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, LocalTime, Style, Text},
};

/// Characters of a digest that a table shows.
const DIGEST: usize = 12;

/// Show statistics of an agent by version
///
/// One line for the overall score and one for each dimension. The trend runs from the oldest to the newest of the last 32
/// scores, drawn between the lowest and the highest of them.
#[derive(Debug, Args)]
pub struct Stats {
    /// Agent whose versions to compare
    #[arg(value_name = "AGENT", required_unless_present = "definition")]
    agent: Option<AgentName>,
    /// Show one definition instead: its digest, NAME@VERSION, or the name of an agent
    #[arg(long = "def", value_name = "DEFINITION", conflicts_with = "agent")]
    definition: Option<String>,
    /// Include the definitions that it was made from
    #[arg(long, requires = "definition")]
    lineage: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Stats {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let stats = connect::with(session, "evaluations stats", Need::Journal, async |it| {
            let ask = AggregateEvaluations {
                def_id: self.definition.clone(),
                agent: self.agent.clone(),
                include_lineage: self.lineage,
            };
            it.backend.call(&ask).await
        })
        .await?;
        let output = &session.output;
        warn(session, &stats.warnings);
        match output.format() {
            Format::Json => output.json(&stats),
            Format::Human if stats.count == 0 => output.line("no evaluations"),
            Format::Human => {
                let local = session.local_time();
                let newest = format!("newest {}", local.zone());
                let columns = [
                    Column::new("version"),
                    Column::new("dimension").shrinks_to(8),
                    Column::new("count").right(),
                    Column::new("mean").right(),
                    Column::new("median").right().optional(3),
                    Column::new("min").right(),
                    Column::new("max").right(),
                    Column::new("latest").right(),
                    Column::new("trend"),
                    Column::new(&newest).optional(2),
                ];
                output.table(columns, stats.versions.iter().flat_map(|version| rows(version, &local)));
            }
        }
        Ok(Exit::Done)
    }
}

/// The lines of a version: its overall score, then its dimensions.
fn rows(version: &VersionStats, local: &LocalTime) -> Vec<[Text; 10]> {
    let name = version.version.clone().unwrap_or_else(|| version.def_id.chars().take(DIGEST).collect());
    let at = version.latest_at.as_deref().map(|time| local.brief_of(time)).unwrap_or_default();
    let overall = version.score.iter().map(|stats| row(&name, "score", stats, &at));
    overall.chain(version.dimensions.iter().map(|(dimension, stats)| row("", dimension, stats, ""))).collect()
}

fn row(name: &str, dimension: &str, stats: &ScoreStats, at: &str) -> [Text; 10] {
    let number = |value: f64| Text::new(score(value));
    let label = Text::new(dimension);
    [
        Text::new(name).style(Style::Bold),
        if name.is_empty() { label.style(Style::Dim) } else { label },
        Text::new(stats.count.to_string()),
        number(stats.mean),
        number(stats.median),
        number(stats.min),
        number(stats.max),
        number(stats.latest),
        Text::new(sparkline(&stats.recent)).style(Style::Good),
        Text::new(at),
    ]
}

/// Scores as bars, from the lowest of them to the highest; in the middle when they are all the same.
fn sparkline(scores: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (low, high) = scores.iter().fold((f64::MAX, f64::MIN), |(low, high), it| (low.min(*it), high.max(*it)));
    let bar = |score: &f64| match high > low {
        true => BARS[((score - low) / (high - low) * 7.0).round() as usize],
        false => BARS[3],
    };
    scores.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_runs_from_the_lowest_to_the_highest_score() {
        assert_eq!(sparkline(&[0.92, 0.93, 0.97, 0.96, 0.98]), "▁▂▇▆█");
        assert_eq!(sparkline(&[0.5, 0.5]), "▄▄");
        assert_eq!(sparkline(&[]), "");
    }
}
