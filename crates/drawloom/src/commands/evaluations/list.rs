//! `drawloom evaluations list`.

use clap::Args;
use drawloom_wire::evaluations::{Evaluation, ListEvaluations};

use super::{dimensions, emitter, score, warn};
use crate::{
    cli::{Look, Quiet},
    commands::{Session, runs::Handle},
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, LocalTime, Style, Text, first_line},
};

/// List the evaluations of a run or a definition, newest first
#[derive(Debug, Args)]
pub struct List {
    /// Run: an id, the start of one, `last`, or a handle
    #[arg(value_name = "RUN", required_unless_present = "definition")]
    run: Option<Handle>,
    /// List those of a definition instead: its digest, NAME@VERSION, or the name of an agent
    #[arg(long = "def", value_name = "DEFINITION", conflicts_with = "run")]
    definition: Option<String>,
    /// List only this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// List only the newest of each tag
    #[arg(long, conflicts_with = "definition")]
    latest: bool,
    /// List at most this many
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
    /// Continue after this place, which the page before shows
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,
    #[command(flatten)]
    ids: Quiet,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl List {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let page = connect::with(session, "evaluations list", Need::Journal, async |it| {
            let run_id = match &self.run {
                Some(run) => Some(run.resolve(it).await?),
                None => None,
            };
            let ask = ListEvaluations {
                run_id,
                def_id: self.definition.clone(),
                tag: self.tag.clone(),
                latest_per_tag: self.latest,
                after: self.after.clone(),
                limit: Some(self.limit),
            };
            it.backend.call(&ask).await
        })
        .await?;
        let output = &session.output;
        warn(session, &page.warnings);
        match output.format() {
            Format::Json => output.json(&page),
            Format::Human if self.ids.quiet => output.ids(page.evaluations.iter().map(|it| &it.eval_id)),
            Format::Human if page.evaluations.is_empty() => output.line("no evaluations"),
            Format::Human => {
                let local = session.local_time();
                let at = format!("submitted {}", local.zone());
                let columns = [
                    Column::new("tag").shrinks_to(8),
                    Column::new("score").right(),
                    Column::new("dimensions").shrinks_to(16),
                    Column::new("by").shrinks_to(10),
                    Column::new(&at),
                    Column::new("run").optional(2),
                    Column::new("rationale").shrinks_to(16).optional(1),
                ];
                let shows_run = self.run.is_none();
                output.table(columns, page.evaluations.iter().map(|it| row(it, &local, shows_run)));
                if let Some(next) = page.next {
                    output.note(format!("more evaluations: --after {next}"));
                }
            }
        }
        Ok(Exit::Done)
    }
}

fn row(it: &Evaluation, local: &LocalTime, shows_run: bool) -> [Text; 7] {
    [
        Text::new(it.tag.as_deref().unwrap_or_default()).style(Style::Bold),
        Text::new(score(it.score)),
        Text::new(dimensions(it)),
        Text::new(emitter(&it.emitter, it.emitter_role)),
        Text::new(local.brief_of(&it.created_at)),
        // The column is left out when it is empty.
        Text::new(if shows_run { it.run_id.to_string() } else { String::new() }).style(Style::Dim),
        Text::new(first_line(it.rationale.as_deref().unwrap_or_default(), 200)),
    ]
}
