//! `drawloom channels`: messages between agents, users and programs.

mod ack;
mod agree;
mod broadcast;
mod create;
mod extend;
mod list;
mod nak;
mod publish;
mod purge;
mod read;
mod remove;
mod tail;
mod update;
mod wait_for;

use clap::{Args, Subcommand};
use drawloom_contract::ids::{AgentName, UserId};
use drawloom_wire::channels::ChannelMessage;

use crate::{
    cli::Look,
    commands::{Session, memory::line_of},
    exit::{CommandError, Exit},
    output::{LocalTime, Output, Style, first_line},
};

/// Shown below the help.
pub(crate) const HELP: &str = "\
Examples:
  drawloom channels list                             list channels with their settings
  drawloom channels create jobs                      make a channel
  drawloom channels publish jobs '{\"file\": \"a.rs\"}'   publish a message
  drawloom channels read jobs --wait 30s             take the next messages
  drawloom channels tail jobs                        show messages as they are published
  drawloom channels purge jobs                       remove all messages";

/// Publish and read messages of channels
#[derive(Debug, Subcommand)]
pub enum Channels {
    /// List channels with their settings
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Make a channel
    Create(create::Create),
    /// Change settings of a channel made at runtime
    Update(update::Update),
    /// Publish a message to a channel
    Publish(publish::Publish),
    /// Take the next messages of a channel
    #[command(visible_alias = "subscribe")]
    Read(read::Read),
    /// Acknowledge messages by cursor, or by their leases
    Ack(ack::Ack),
    /// Give messages of a consumer group back
    Nak(nak::Nak),
    /// Keep messages of a consumer group longer
    Extend(extend::Extend),
    /// Wait for messages of several channels, without taking them
    Await(wait_for::Await),
    /// Publish one message to several channels
    Broadcast(broadcast::Broadcast),
    /// Show messages as they are published, without taking them
    Tail(tail::Tail),
    /// Remove the messages of a channel
    Purge(purge::Purge),
    /// Delete a channel with its messages
    #[command(name = "rm", visible_alias = "delete")]
    Remove(remove::Remove),
}

impl Channels {
    pub(crate) fn look(&self) -> Look {
        match self {
            Self::List(list) => list.look,
            Self::Create(create) => create.look,
            Self::Update(update) => update.look,
            Self::Publish(publish) => publish.look,
            Self::Read(read) => read.look,
            Self::Ack(ack) => ack.look,
            Self::Nak(nak) => nak.look,
            Self::Extend(extend) => extend.look,
            Self::Await(wait) => wait.look,
            Self::Broadcast(broadcast) => broadcast.look,
            Self::Tail(tail) => tail.look,
            Self::Purge(purge) => purge.look,
            Self::Remove(remove) => remove.look,
        }
    }

    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        match self {
            Self::List(list) => list.perform(session).await,
            Self::Create(create) => create.perform(session).await,
            Self::Update(update) => update.perform(session).await,
            Self::Publish(publish) => publish.perform(session).await,
            Self::Read(read) => read.perform(session).await,
            Self::Ack(ack) => ack.perform(session).await,
            Self::Nak(nak) => nak.perform(session).await,
            Self::Extend(extend) => extend.perform(session).await,
            Self::Await(wait) => wait.perform(session).await,
            Self::Broadcast(broadcast) => broadcast.perform(session).await,
            Self::Tail(tail) => tail.perform(session).await,
            Self::Purge(purge) => purge.perform(session).await,
            Self::Remove(remove) => remove.perform(session).await,
        }
    }
}

/// Whose messages; those of the tenant or your own, by the channel's scope, when nothing is said.
#[derive(Debug, Clone, Args)]
#[group(id = "whose_messages", multiple = false)]
pub(crate) struct Whose {
    /// Use the messages of this user, for a channel of the scope user
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
    /// Use the messages of this agent, for a channel of the scope agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentName>,
}

/// One message on one line.
pub(crate) fn line(output: &Output, message: &ChannelMessage, local: &LocalTime) -> String {
    let cursor = output.styled(Style::Dim, &format!("{:>10}", message.cursor));
    let time = output.styled(Style::Dim, &local.brief_of(&message.published_at));
    let lease = message.lease.as_ref().map(|lease| {
        let attempt = message.attempt.unwrap_or(1);
        output.styled(Style::Dim, &format!("  {lease} attempt {attempt}"))
    });
    format!("{cursor}  {time}  {}{}", first_line(&line_of(&message.value), 400), lease.unwrap_or_default())
}
