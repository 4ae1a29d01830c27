//! `drawloom memory list`.

use clap::Args;
use drawloom_wire::memory::{ListMemory, MemoryEntry};

use crate::{
    cli::{Look, Quiet},
    commands::{
        Session,
        memory::{Fields, Whose, line_of},
    },
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, LocalTime, Style, Text, first_line},
};

/// List keys
#[derive(Debug, Args)]
pub struct List {
    /// Show only keys that start with this
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,
    #[command(flatten)]
    whose: Whose,
    /// Show only keys after this one
    #[arg(long, value_name = "KEY")]
    after: Option<String>,
    /// Show at most this many
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    ids: Quiet,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl List {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let page = connect::with(session, "memory list", Need::Journal, async |it| {
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
            Format::Human if self.ids.quiet => output.ids(page.entries.iter().map(|entry| &entry.key)),
            Format::Human if page.entries.is_empty() => output.line("no keys"),
            Format::Human => {
                let local = session.local_time();
                let expires = format!("expires {}", local.zone());
                let columns = [
                    Column::new("key").shrinks_to(12),
                    Column::new("revision").right().optional(1),
                    Column::new("written by").shrinks_to(8),
                    Column::new(&expires),
                    Column::new("value").shrinks_to(16),
                ];
                output.table(columns, page.entries.iter().map(|entry| row(entry, &local)));
                if let Some(next) = page.next {
                    output.note(format!("more keys: --after {next:?}"));
                }
            }
        }
        Ok(Exit::Done)
    }
}

fn row(entry: &MemoryEntry, local: &LocalTime) -> [Text; 5] {
    let writer = entry.provenance.as_ref().map(|provenance| match (&provenance.agent, &provenance.user_id) {
        (Some(agent), _) => agent.to_string(),
        (None, Some(user)) => user.to_string(),
        (None, None) => String::new(),
    });
    [
        Text::new(&entry.key).style(Style::Bold),
        Text::new(entry.revision.to_string()).style(Style::Dim),
        Text::new(writer.unwrap_or_default()),
        Text::new(entry.expires_at.as_deref().map(|time| local.brief_of(time)).unwrap_or_default()),
        Text::new(first_line(&entry.value.as_ref().map(line_of).unwrap_or_default(), 200)),
    ]
}
