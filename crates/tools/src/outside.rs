//! Outside MCP servers as tools of our agents, under names such as `mcp__server__tool`.
//!
//! A server is a program that is started here and talked to over pipes, or an address. It is not trusted: what it offers is
//! checked before a model sees it (`offer`), what it answers is cut (`answer`), and whatever it does becomes the result of
//! one call (`server`). This is the only home of rmcp's client.

mod answer;
mod config;
mod connection;
mod events;
mod filter;
mod http;
mod limits;
mod message;
mod offer;
mod page;
mod probe;
mod schema;
mod server;
mod stdio;
mod tool;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use drawloom_contract::{
    redact::Redactor,
    time::Clock,
    tool::{Offer, ToolSource},
};
use drawloom_process::{Launcher, cut};

pub use config::{McpServerConfig, prefix, problems, variables};
pub use limits::LIMITS;

use server::Server;

/// What outside servers are reached with.
#[derive(Clone)]
pub struct OutsideParts {
    /// The program that stands between drawloom and a server that is started here.
    pub launcher: Launcher,
    /// The values of the environment variables that [`variables`] names, as far as they are set.
    pub environment: BTreeMap<String, String>,
    /// What knows their secrets.
    pub redactor: Arc<Redactor>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// A text of a server's, at most `most` bytes of it. It is masked before it is cut, because a part of a secret is not recognised.
fn quote(redactor: &Redactor, text: &str, most: usize) -> String {
    let mut text = text.to_owned();
    redactor.mask(&mut text);
    cut(&text, most)
}

/// The servers of the config section `mcp_servers`, as sources of tools. None is started before it is asked.
pub fn outside(servers: &BTreeMap<String, McpServerConfig>, parts: &OutsideParts) -> Vec<Arc<dyn ToolSource>> {
    let source = |(name, config): (&String, &McpServerConfig)| -> Arc<dyn ToolSource> {
        Arc::new(Outside(Arc::new(Server::new(name, config.clone(), parts.clone()))))
    };
    servers.iter().map(source).collect()
}

/// One outside server.
struct Outside(Arc<Server>);

#[async_trait]
impl ToolSource for Outside {
    fn prefix(&self) -> &str {
        self.0.prefix()
    }

    async fn offer(&self) -> Arc<Offer> {
        self.0.offer().await
    }

    async fn leave(&self) {
        self.0.leave().await;
    }
}

#[cfg(test)]
mod tests;
