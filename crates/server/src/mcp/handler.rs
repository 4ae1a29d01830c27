//! The protocol's requests, answered from the tables. One handler serves one session of the older protocol, or one request
//! of the newer one.

#![expect(deprecated, reason = "older clients still subscribe so, and set a level for log messages")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use axum::http::request::Parts;
use drawloom_contract::VERSION;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam, CompleteRequestParams,
        CompleteResult, Extensions, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
        Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        LoggingLevel, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, RequestId,
        ResourceUpdatedNotificationParam, ResultType, ServerCapabilities, ServerConfig, SetLevelRequestParams,
        SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use tokio_util::task::AbortOnDropHandle;

use crate::mcp::{
    CALL_KEY,
    calls::{Calls, Cancel},
    endpoint::{CallName, Shared},
    table::{Ask, Change, Outcome, Pending, Table, View},
    wait,
};

/// How many subscriptions a session can have.
const SUBSCRIPTIONS: usize = 256;

const INSTRUCTIONS: &str = "\
Drawloom runs agents beside you: they have their own models, tools and files, and only their answers come back. Call \
list_agents to see whom there is, spawn_run to hand one task over, spawn_runs to hand several over at once and get the \
answers by index. Everything that was started is kept: when a call comes back before the end, go on with get_run or \
get_batch and wait_ms. Long answers come as an outline with an artifact; read_artifact gives what you need of them.";

/// Answers one session or one request.
pub(super) struct Handler {
    shared: Arc<Shared>,
    calls: Arc<Calls<RequestId>>,
    subscriptions: Mutex<HashMap<String, AbortOnDropHandle<()>>>,
    level: Mutex<Option<LoggingLevel>>,
}

impl Handler {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, calls: Arc::default(), subscriptions: Mutex::default(), level: Mutex::default() }
    }

    /// The request with who makes it, as the endpoint found out.
    fn ask(&self, context: RequestContext<RoleServer>) -> Result<Ask, ErrorData> {
        let view = view_of(&context.extensions)?;
        let level = *self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let level = context.meta.log_level().or(level);
        Ok(Ask { app: self.shared.app.clone(), view, level, changes: self.shared.changes.clone(), context })
    }

    fn tables(&self) -> impl Iterator<Item = &Arc<dyn Table>> {
        self.shared.tables.iter()
    }

    async fn task(&self, ask: &Ask, id: &str) -> Result<Box<dyn Pending>, ErrorData> {
        for table in self.tables() {
            if let Some(found) = table.find_task(ask, id).await {
                return found;
            }
        }
        Err(ErrorData::invalid_params(format!("there is no task {id:?}"), None))
    }
}

fn view_of(extensions: &Extensions) -> Result<View, ErrorData> {
    let parts = extensions.get::<Parts>();
    let view = parts.and_then(|parts| parts.extensions.get::<View>()).cloned();
    view.ok_or_else(|| ErrorData::internal_error("a request without a caller", None))
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("drawloom", VERSION).with_title("Drawloom"))
            .with_instructions(INSTRUCTIONS)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tables().find_map(|table| table.find_tool(name))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let ask = self.ask(context)?;
        Ok(ListToolsResult::with_all_items(self.tables().flat_map(|table| table.tools(&ask.view)).collect()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let ask = self.ask(context)?;
        let cancel = Arc::new(Cancel::default());
        let _in_session = self.calls.enter(ask.context.id.clone(), &cancel);
        let name = ask.context.meta.get(CALL_KEY).and_then(|key| key.as_str()).map(|key| CallName {
            tenant: ask.view.caller.tenant.clone(),
            subject: ask.view.caller.subject.clone(),
            key: key.to_owned(),
        });
        let _by_key = name.map(|name| self.shared.calls.enter(name, &cancel));
        for table in self.tables() {
            let Some(outcome) = table.call(&ask, &params).await else { continue };
            let mut response = match outcome? {
                Outcome::Done(result) => result.into(),
                Outcome::Input(question) => question.into(),
                Outcome::Pending(pending) => wait::answer(&ask, pending, &cancel).await?,
            };
            if let CallToolResponse::Complete(result) = &mut response {
                result.result_type.get_or_insert(ResultType::COMPLETE);
            }
            return Ok(response);
        }
        Err(ErrorData::invalid_params(format!("there is no tool {:?}; tools/list names them", params.name), None))
    }

    async fn on_cancelled(&self, params: CancelledNotificationParam, context: NotificationContext<RoleServer>) {
        if let Some(id) = &params.request_id {
            self.calls.cancel(id, params.reason.clone());
        }
        drop(context);
    }

    async fn get_task(
        &self,
        params: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let ask = self.ask(context)?;
        Ok(GetTaskResult::new(self.task(&ask, &params.task_id).await?.task().await?))
    }

    async fn update_task(
        &self,
        params: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let ask = self.ask(context)?;
        self.task(&ask, &params.task_id).await?.answer(params.input_responses).await
    }

    async fn cancel_task(
        &self,
        params: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let ask = self.ask(context)?;
        self.task(&ask, &params.task_id).await?.cancel(Some("the task was cancelled over MCP".into())).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let ask = self.ask(context)?;
        let mut resources = Vec::new();
        for table in self.tables() {
            resources.extend(table.resources(&ask).await?);
        }
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = self.tables().flat_map(|table| table.resource_templates()).collect();
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let ask = self.ask(context)?;
        for table in self.tables() {
            if let Some(read) = table.read_resource(&ask, &params).await {
                return read;
            }
        }
        let data = serde_json::json!({ "uri": params.uri });
        Err(ErrorData::resource_not_found(format!("there is no resource {}", params.uri), Some(data)))
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let ask = self.ask(context)?;
        let (shared, uri) = (self.shared.clone(), params.uri.clone());
        let mut subscriptions = self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        subscriptions.retain(|_, task| !task.is_finished());
        if subscriptions.len() >= SUBSCRIPTIONS && !subscriptions.contains_key(&uri) {
            let message = format!("a session can have {SUBSCRIPTIONS} subscriptions; unsubscribe from some first");
            return Err(ErrorData::invalid_request(message, None));
        }
        let task = tokio::spawn(async move {
            if heard(&shared, &ask, &uri).await {
                let notice = ResourceUpdatedNotificationParam::new(uri);
                if let Err(error) = ask.context.peer.notify_resource_updated(notice).await {
                    tracing::debug!(%error, "a subscriber could not be told");
                }
            }
        });
        subscriptions.insert(params.uri, AbortOnDropHandle::new(task));
        Ok(())
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner).remove(&params.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.shared.changes.subscribe();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.shared.app.stopping.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            let sent = match change {
                Ok(Change::Tools) => context.sink().notify_tool_list_changed().await,
                Ok(Change::Prompts) => context.sink().notify_prompt_list_changed().await,
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => continue,
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return Ok(()),
            };
            if let Err(error) = sent {
                tracing::debug!(%error, "a listener could not be told");
            }
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(self.tables().flat_map(|table| table.prompts()).collect()))
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let ask = self.ask(context)?;
        for table in self.tables() {
            if let Some(prompt) = table.get_prompt(&ask, &params).await {
                return prompt;
            }
        }
        Err(ErrorData::invalid_params(format!("there is no prompt {:?}; prompts/list names them", params.name), None))
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let ask = self.ask(context)?;
        for table in self.tables() {
            if let Some(found) = table.complete(&ask, &params).await {
                return Ok(CompleteResult::new(found));
            }
        }
        Ok(CompleteResult::default())
    }

    async fn set_level(&self, params: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(params.level);
        Ok(())
    }
}

/// Whether something was heard of a resource.
async fn heard(shared: &Shared, ask: &Ask, uri: &str) -> bool {
    for table in shared.tables.iter() {
        if let Some(changed) = table.resource_changed(ask, uri).await {
            return changed.is_ok();
        }
    }
    false
}
