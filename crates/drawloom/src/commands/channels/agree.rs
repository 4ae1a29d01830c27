//! The question before messages are removed.

use drawloom_wire::channels::ListChannels;

use crate::{commands::Session, connect::Connection, exit::CommandError, output::count};

/// Whether the user wants messages of a channel removed: asked on a terminal, unless `--yes` said so. Scripts are not asked.
pub(super) async fn agreed(
    session: &Session,
    connection: &Connection,
    is_agreed: bool,
    (verb, channel): (&str, &str),
) -> Result<bool, CommandError> {
    let output = &session.output;
    if is_agreed || !output.can_ask() {
        return Ok(true);
    }
    let ask = ListChannels { prefix: Some(channel.to_owned()), limit: Some(1), ..ListChannels::default() };
    let listed = connection.backend.call(&ask).await?.channels;
    // An unknown channel is refused by what comes next.
    let Some(found) = listed.into_iter().find(|found| found.name == channel) else { return Ok(true) };
    let messages = messages(found.message_count);
    let agreed = output.confirm(&format!(
        "{verb} {channel} ({messages}, {} unread)? [y/N] ",
        count(found.unread_count.unwrap_or_default())
    ))?;
    if !agreed {
        output.note("nothing was removed");
    }
    Ok(agreed)
}

/// A number of messages, for a sentence.
pub(super) fn messages(number: u64) -> String {
    match number {
        1 => "1 message".to_owned(),
        more => format!("{} messages", count(more)),
    }
}
