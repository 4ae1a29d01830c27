//! `drawloom memory ls`.

use clap::Args;
use drawloom_wire::memory::{ListMemory, MemoryEntry};

use crate::{
    cli::Look,
    commands::{
        Session,
        memory::{Fields, Whose, line_of},
    },
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text, first_line},
};

/// List keys by prefix
#[derive(Debug, Args)]
pub struct List {
    /// What the keys begin with; all keys, when absent
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,
    #[command(flatten)]
    whose: Whose,
    /// Only keys after this one
    #[arg(long, value_name = "KEY")]
    after: Option<String>,
    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl List {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let page = connect::with(session, "memory ls", Need::Journal, async |it| {
            let Fields { scope, agent, run_id, user_id } = self.whose.fields(it).await?;
            let (prefix, after, limit) = (self.prefix.clone(), self.after.clone(), Some(self.limit));
            let ask = ListMemory {
                scope,
                agent,
                run_id,
                user_id,
                prefix,
                after,
                limit,
                keys_only: false,
                include_provenance: true,
            };
            it.backend.call(&ask).await
        })
        .await?;
        let output = &session.output;
        super::warn(session, &page.warnings);
        match output.format() {
            Format::Json => output.json(&page),
            Format::Human if page.entries.is_empty() => output.line("no keys"),
            Format::Human => {
                output.table(COLUMNS, page.entries.iter().map(row));
                if let Some(next) = page.next {
                    output.note(format!("there are more: --after {next:?}"));
                }
            }
        }
        Ok(Exit::Done)
    }
}

const COLUMNS: [Column; 5] = [
    Column::new("key").shrinks_to(12),
    Column::new("revision").right().optional(3),
    Column::new("written by").shrinks_to(8).optional(2),
    Column::new("expires").optional(1),
    Column::new("value").shrinks_to(16),
];

fn row(entry: &MemoryEntry) -> [Text; 5] {
    let writer = entry.provenance.as_ref().map(|provenance| match (&provenance.agent, &provenance.user_id) {
        (Some(agent), _) => agent.to_string(),
        (None, Some(user)) => user.to_string(),
        (None, None) => String::new(),
    });
    [
        Text::new(&entry.key).style(Style::Bold),
        Text::new(entry.revision.to_string()).style(Style::Dim),
        Text::new(writer.unwrap_or_default()),
        Text::new(entry.expires_at.as_deref().unwrap_or_default()),
        Text::new(first_line(&entry.value.as_ref().map(line_of).unwrap_or_default(), 200)),
    ]
}
