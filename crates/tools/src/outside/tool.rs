//! A tool of an outside server.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use drawloom_contract::tool::{Repeat, Step, Tool, ToolCard, ToolContext, ToolError};
use serde_json::Value;
use tracing::Instrument as _;

use super::{offer::Safe, server::Server};

/// A tool of an outside server. It stays the same over restarts of the server.
pub(super) struct OutsideTool {
    /// Weak, because the server keeps what it offers.
    server: Weak<Server>,
    safe: Safe,
}

impl OutsideTool {
    pub(super) fn shared(server: Weak<Server>, safe: Safe) -> Arc<dyn Tool> {
        Arc::new(Self { server, safe })
    }
}

#[async_trait]
impl Tool for OutsideTool {
    fn card(&self) -> ToolCard {
        self.safe.card.clone()
    }

    fn repeat(&self) -> Repeat<'_> {
        match self.safe.repeatable {
            true => Repeat::Safe,
            false => Repeat::Never,
        }
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let arguments = match input {
            Value::Object(arguments) => arguments,
            Value::Null => serde_json::Map::new(),
            _ => return Err(ToolError::Invalid("the input must be a JSON object".into())),
        };
        match self.server.upgrade() {
            Some(server) => {
                let span = tracing::debug_span!(
                    "mcp_call",
                    run = %context.run.run,
                    call = context.call,
                    server = server.name(),
                    tool = self.safe.own_name,
                );
                let called = server.call(&self.safe.own_name, arguments).instrument(span.clone()).await;
                tracing::debug!(parent: &span, failed = called.is_err(), "mcp call ended");
                called
            }
            None => Err(ToolError::Failed("drawloom and its MCP servers are shutting down".into())),
        }
    }
}
