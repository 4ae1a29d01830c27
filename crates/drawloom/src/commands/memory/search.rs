//! `drawloom memory search`.

use clap::Args;
use drawloom_wire::memory::SearchMemory;

use crate::{
    cli::Look,
    commands::{
        Session,
        memory::{Fields, Whose, line_of},
    },
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text, bytes, first_line},
};

/// Find entries by words, best match first
///
/// "Words in quotes" match a phrase, `word*` matches a prefix. Shows entries with all words; if there are none, entries with some.
#[derive(Debug, Args)]
pub struct Search {
    /// Words to find
    #[arg(value_name = "QUERY")]
    query: String,
    #[command(flatten)]
    whose: Whose,
    /// Show only keys that start with this
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
    /// Show at most this many
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=50))]
    limit: u32,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Search {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let hits = connect::with(session, "memory search", Need::Journal, async |it| {
            let Fields { scope, agent, run_id, user_id } = self.whose.fields(it).await?;
            let (query, prefix, limit) = (self.query.clone(), self.prefix.clone(), Some(self.limit));
            let ask = SearchMemory { scope, agent, run_id, user_id, query, prefix, limit, max_bytes: None };
            it.backend.call(&ask).await
        })
        .await?;
        let output = &session.output;
        super::warn(session, &hits.warnings);
        match output.format() {
            Format::Json => output.json(&hits),
            Format::Human if hits.entries.is_empty() => output.line("nothing found"),
            Format::Human => {
                output.table(
                    [
                        Column::new("score").right().optional(1),
                        Column::new("key").shrinks_to(12),
                        Column::new("value").shrinks_to(16),
                    ],
                    hits.entries.iter().map(|hit| {
                        let value = match (&hit.entry.value, hit.omitted_bytes) {
                            (None, Some(size)) => Text::new(format!("{}, not shown", bytes(size))).style(Style::Dim),
                            (value, _) => Text::new(first_line(&value.as_ref().map(line_of).unwrap_or_default(), 200)),
                        };
                        [
                            Text::new(format!("{:.2}", hit.score)).style(Style::Dim),
                            Text::new(&hit.entry.key).style(Style::Bold),
                            value,
                        ]
                    }),
                );
                if !hits.all_words {
                    output.note("no entry has all words; showing entries with some of them");
                }
                if hits.truncated {
                    output.note("there are more; raise --limit");
                }
            }
        }
        Ok(if hits.entries.is_empty() { Exit::Failed } else { Exit::Done })
    }
}
