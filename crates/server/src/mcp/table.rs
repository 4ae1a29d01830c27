//! What a server offers over MCP: tools, resources, prompts, and things to wait for.

#![expect(deprecated, reason = "older clients still set a level for log messages")]

use std::sync::Arc;

use async_trait::async_trait;
use axum::http::request::Parts;
use drawloom_contract::{
    caller::Caller,
    time::{Instant, Timestamp},
};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResult, CompleteRequestParams, CompletionInfo, DetailedTask,
        GetPromptRequestParams, GetPromptResponse, InputRequiredResult, InputResponses, LoggingLevel,
        LoggingMessageNotificationParam, Prompt, ReadResourceRequestParams, ReadResourceResponse, Resource,
        ResourceTemplate, Tool,
    },
    service::RequestContext,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::broadcast;

use crate::{
    app::App,
    mcp::{CALL_KEY, endpoint::SESSION_ID, manager::Mark, notes},
    rest::Asked,
};

/// Who looks, and at what.
#[derive(Debug, Clone)]
pub struct View {
    /// Who.
    pub caller: Caller,
    /// The toolsets that they asked for; `None` for the small one that everybody gets.
    pub toolsets: Option<Arc<[String]>>,
}

/// One request.
pub struct Ask {
    /// What operations can reach.
    pub app: Arc<App>,
    /// Who asks.
    pub view: View,
    /// The least level of log messages that the client wants to hear, when it said so.
    pub(super) level: Option<LoggingLevel>,
    /// Where changes of the tables are announced.
    pub(super) changes: broadcast::Sender<Change>,
    /// The protocol's side of it: its metadata, and the way back to the client.
    pub context: RequestContext<RoleServer>,
}

impl Ask {
    /// Tells whoever listens that a list has changed.
    pub fn announce(&self, change: Change) {
        // Nobody may be listening.
        _ = self.changes.send(change);
    }

    /// The id of the HTTP request that it came with.
    pub(super) fn request_id(&self) -> Arc<str> {
        let asked = self.context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Asked>());
        asked.map_or_else(|| self.app.request_id().into(), |asked| asked.id.clone())
    }

    /// The session that it is part of, in the older protocol.
    pub(super) fn session(&self) -> Option<&str> {
        let parts = self.context.extensions.get::<Parts>()?;
        parts.headers.get(SESSION_ID)?.to_str().ok().filter(|_| self.context.meta.protocol_version().is_none())
    }

    /// What the client calls itself.
    pub(super) fn client(&self) -> Option<String> {
        self.context.client_info().map(|client| client.name)
    }

    /// The names under which the call can be found again when its connection is gone.
    pub(super) fn names(&self) -> Vec<String> {
        let of_session = self.session().filter(|_| self.context.extensions.get::<Mark>().is_some());
        let of_session = of_session.map(|session| notes::of_session(session, &self.context.id));
        let key = self.context.meta.get(CALL_KEY).and_then(Value::as_str);
        let of_key = key.map(|key| notes::of_key(&self.view.caller, key));
        of_session.into_iter().chain(of_key).collect()
    }

    /// Whether the client takes tasks in place of an answer.
    pub fn takes_tasks(&self) -> bool {
        self.context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
    }

    /// Tells the client something, if it wants to hear messages of that level: in the newer protocol only a request that
    /// says so, in the older one everybody who did not ask for less.
    pub async fn log(&self, level: LoggingLevel, data: Value) {
        let is_new = self.context.meta.protocol_version().is_some();
        let wanted = self.level.map_or(!is_new, |least| level as u8 >= least as u8);
        if wanted {
            let message = LoggingMessageNotificationParam::new(level, data).with_logger("drawloom");
            if let Err(error) = self.context.peer.notify_logging_message(message).await {
                tracing::debug!(%error, "a message could not be sent");
            }
        }
    }
}

/// A list that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The tools.
    Tools,
    /// The prompts.
    Prompts,
}

/// What a call came to.
pub enum Outcome {
    /// It is done.
    Done(CallToolResult),
    /// It takes time: something durable to wait for.
    Pending(Box<dyn Pending>),
    /// It goes on when the client has answered (2026-07-28 only).
    Input(InputRequiredResult),
}

/// How a call waits for something.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Whether the explicit cancel of the call cancels this too: not, when the call only looks.
    pub belongs_to_call: bool,
    /// Whether it is cancelled when the caller is gone.
    pub cancel_when_gone: bool,
    /// When the caller's own wait is over.
    pub until: Option<Timestamp>,
    /// The most bytes of texts in the answer.
    pub result_bytes: Option<u64>,
}

/// How far something is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Parts that are done. Without a total and without any part, the time counts.
    pub done: u32,
    /// Parts in all, when that is known.
    pub total: Option<u32>,
    /// In words.
    pub message: String,
}

/// Something durable that a call made or asked for: it can be awaited, looked at and cancelled, here or in any later
/// request that names its id.
#[async_trait]
pub trait Pending: Send {
    /// Its id: what `find_task` knows it by, here and after a restart.
    fn id(&self) -> String;

    /// How the call waits for it.
    fn terms(&self) -> Terms;

    /// The end, if it comes until then.
    async fn wait(&mut self, until: Instant) -> Option<Result<CallToolResult, ErrorData>>;

    /// How far it is.
    async fn progress(&mut self) -> Progress;

    /// What a caller is told who cannot wait any longer: how it stands, and how to go on.
    async fn so_far(&mut self) -> CallToolResult;

    /// How it stands, as a task.
    async fn task(&mut self) -> Result<DetailedTask, ErrorData>;

    /// Stops it. What has ended is left as it is.
    async fn cancel(&mut self, reason: Option<String>) -> Result<(), ErrorData>;

    /// Takes answers to questions that it asked.
    async fn answer(&mut self, responses: InputResponses) -> Result<(), ErrorData>;
}

/// A list of things that there are. What it does not know, it answers with `None`, and the next table is asked.
#[async_trait]
pub trait Table: Send + Sync {
    /// The tools that a caller may use, always in the same order.
    fn tools(&self, view: &View) -> Vec<Tool>;

    /// A tool by its name, whoever asks.
    fn find_tool(&self, name: &str) -> Option<Tool>;

    /// Calls a tool.
    async fn call(&self, ask: &Ask, params: &CallToolRequestParams) -> Option<Result<Outcome, ErrorData>>;

    /// What a task's id stands for.
    async fn find_task(
        &self,
        app: &Arc<App>,
        view: &View,
        id: &str,
        terms: Terms,
    ) -> Option<Result<Box<dyn Pending>, ErrorData>>;

    /// The resources that there are now.
    async fn resources(&self, ask: &Ask) -> Result<Vec<Resource>, ErrorData>;

    /// Shapes of resources.
    fn resource_templates(&self) -> Vec<ResourceTemplate>;

    /// Reads a resource.
    async fn read_resource(
        &self,
        ask: &Ask,
        params: &ReadResourceRequestParams,
    ) -> Option<Result<ReadResourceResponse, ErrorData>>;

    /// Whether the caller can read a resource, now or later; an error when it does not exist for this caller. Nothing,
    /// when it belongs to no resource of this table.
    async fn find_resource(&self, ask: &Ask, uri: &str) -> Option<Result<(), ErrorData>>;

    /// Returns when the resource has changed; at once with an error, when nothing can be heard of it.
    async fn resource_changed(&self, ask: &Ask, uri: &str) -> Option<Result<(), ErrorData>>;

    /// The prompts that there are.
    fn prompts(&self) -> Vec<Prompt>;

    /// A prompt, filled in.
    async fn get_prompt(
        &self,
        ask: &Ask,
        params: &GetPromptRequestParams,
    ) -> Option<Result<GetPromptResponse, ErrorData>>;

    /// What an argument could be.
    async fn complete(&self, ask: &Ask, params: &CompleteRequestParams) -> Option<Result<CompletionInfo, ErrorData>>;
}
