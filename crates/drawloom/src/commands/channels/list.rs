//! `drawloom channels list`.

use clap::Args;
use drawloom_wire::channels::{ChannelDescriptor, ChannelReader, ListChannels};

use crate::{
    cli::{Look, Quiet},
    commands::Session,
    connect::{self, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text, count, first_line},
};

/// List channels with their settings
#[derive(Debug, Args)]
pub struct List {
    /// Show only channels that start with this
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,
    /// Show only channels after this one
    #[arg(long, value_name = "NAME")]
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
        let ask = ListChannels { prefix: self.prefix, after: self.after, limit: Some(self.limit) };
        let page =
            connect::with(session, "channels list", Need::Journal, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&page),
            Format::Human if self.ids.quiet => output.ids(page.channels.iter().map(|channel| &channel.name)),
            Format::Human if page.channels.is_empty() => output.line("no channels"),
            Format::Human => {
                let columns = [
                    Column::new("channel").shrinks_to(12),
                    Column::new("scope"),
                    Column::new("semantic"),
                    Column::new("messages").right(),
                    Column::new("unread").right(),
                    Column::new("unread by").shrinks_to(12).optional(2),
                    Column::new("from"),
                    Column::new("description").shrinks_to(16),
                ];
                output.table(columns, page.channels.iter().map(row));
                if let Some(next) = page.next {
                    output.note(format!("more channels: --after {next:?}"));
                }
            }
        }
        Ok(Exit::Done)
    }
}

fn row(channel: &ChannelDescriptor) -> [Text; 8] {
    [
        Text::new(&channel.name).style(Style::Bold),
        Text::new(channel.scope.as_str()),
        Text::new(channel.semantic.as_str()),
        Text::new(format!("{}/{}", channel.message_count, channel.max_messages)),
        Text::new(channel.unread_count.map(count).unwrap_or_default()),
        Text::new(behind(&channel.readers)),
        Text::new(&channel.source),
        Text::new(first_line(&channel.description, 200)),
    ]
}

/// Who has not read how many messages: `group/ci 5, user/ann 2`.
fn behind(readers: &[ChannelReader]) -> String {
    let behind = readers.iter().filter(|reader| reader.unread > 0).map(|reader| {
        let owner = match (&reader.user_id, &reader.agent) {
            (Some(user), _) => format!("{user}: "),
            (None, Some(agent)) => format!("{agent}: "),
            (None, None) => String::new(),
        };
        format!("{owner}{} {}", reader.reader, count(reader.unread))
    });
    behind.collect::<Vec<_>>().join(", ")
}
