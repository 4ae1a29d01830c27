//! The protocol's requests, answered from the tables. One handler serves one session of the older protocol, or one request
//! of the newer one.

#![expect(deprecated, reason = "older clients still subscribe so, and set a level for log messages")]

use std::sync::Arc;

use axum::http::request::Parts;
use drawloom_contract::{VERSION, caller::Scope, failure::Failure};
use futures::{StreamExt as _, stream::FuturesUnordered};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
        CustomRequest, CustomResult, ErrorCode, Extensions, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
        GetTaskResult, Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, RequestId,
        ResultType, ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
        SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
    transport::streamable_http_server::session::SessionRestoreMarker,
};
use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;

use crate::{
    mcp::{
        CALL_KEY,
        calls::Entered,
        clients,
        endpoint::{CallName, SessionCall, Shared},
        notes::{self, Notes},
        standing::{SUBSCRIPTION_BYTES, Standing, heard},
        table::{Ask, Change, Outcome, Pending, Table, Terms, View},
        wait,
    },
    room::STREAM_BYTES,
};

/// The longest id, progress token or key of a call.
pub(super) const LONGEST_ID: usize = 256;

/// Methods with params that both eras have: a message that names one and does not fit is not of another method.
const METHODS: [&str; 7] =
    ["tools/call", "resources/read", "prompts/get", "completion/complete", "tasks/get", "tasks/update", "tasks/cancel"];

const INSTRUCTIONS: &str = "\
Drawloom runs agents beside you. They have their own models, tools and files; only their answers come back. list_agents \
names them, spawn_run hands one task over, spawn_runs several at once. Started work continues whatever happens to a call: \
when an answer says that it is unfinished, wait with get_run or get_batch and wait_ms, and do not start it again. Long \
answers come as an outline; read_artifact reads what you need of them. orchestrate drives a goal to done in a git repository. A \
tool that is named here and not listed belongs to another toolset than those of this connection.";

/// Answers one session or one request.
pub(super) struct Handler {
    shared: Arc<Shared>,
    standing: Arc<Standing>,
}

impl Handler {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let standing = Standing::new(shared.clone());
        Self { shared, standing }
    }

    /// The same, from somebody who holds a scope.
    fn ask_as(&self, context: RequestContext<RoleServer>, scope: Scope) -> Result<Ask, ErrorData> {
        let ask = self.ask(context)?;
        match ask.view.caller.may(scope) {
            true => Ok(ask),
            false => {
                let message =
                    format!("insufficient_scope: this needs the scope {scope}, which this token does not have");
                Err(ErrorData::invalid_request(message, None))
            }
        }
    }

    /// The request with who makes it, as the endpoint found out.
    fn ask(&self, context: RequestContext<RoleServer>) -> Result<Ask, ErrorData> {
        let view = view_of(&context.extensions)?;
        let level = context.meta.log_level().or_else(|| self.standing.level());
        Ok(Ask { app: self.shared.app.clone(), view, level, changes: self.shared.changes.clone(), context })
    }

    /// An error that may quote what the host sent, without its secrets.
    fn masked(&self, mut error: ErrorData) -> ErrorData {
        let redactor = &self.shared.app.redactor;
        error.message = redactor.clean(error.message.into_owned()).into_inner().into();
        error.data = error.data.map(|data| redactor.clean(data).into_inner());
        error
    }

    fn tables(&self) -> impl Iterator<Item = &Arc<dyn Table>> {
        self.shared.tables.iter()
    }

    async fn task(&self, ask: &Ask, id: &str) -> Result<Box<dyn Pending>, ErrorData> {
        let note = Notes::new(ask.app.clone()).find(&notes::of_task(id)).await.map_err(unreadable)?;
        let result_bytes = note.and_then(|note| note.terms.result_bytes);
        let terms = Terms { belongs_to_call: true, result_bytes, ..Terms::default() };
        for table in self.tables() {
            let terms = terms.clone();
            if let Some(found) = table.find_task(&ask.app, &ask.view, id, terms).await {
                return found.map_err(|error| self.masked(error));
            }
        }
        Err(self.masked(ErrorData::invalid_params(format!("unknown task {id:?}"), None)))
    }
}

/// What a host is told when the store cannot be read: not that there is nothing.
pub(super) fn unreadable(failure: Failure) -> ErrorData {
    let hint = failure.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    ErrorData::internal_error(format!("{} ({}){hint}", failure.message, failure.code), None)
}

/// Lists come whole, so there is no other page than the first.
fn first_page(page: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match page.and_then(|page| page.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("invalid cursor: lists have one page", None)),
    }
}

/// Names that a call may not have: they are kept with it, and go into headers.
fn check_names(ask: &Ask) -> Result<(), ErrorData> {
    let too_long = |what: &str, length: usize| match length > LONGEST_ID {
        true => Err(ErrorData::invalid_request(format!("{what} is longer than {LONGEST_ID} bytes"), None)),
        false => Ok(()),
    };
    let length = |value: Value| value.as_str().map_or(0, str::len);
    too_long("the id of the request", length(serde_json::to_value(&ask.context.id).unwrap_or_default()))?;
    let token = ask.context.meta.get_progress_token();
    too_long("the progressToken", length(serde_json::to_value(token).unwrap_or_default()))?;
    too_long("the key of the call", ask.context.meta.get(CALL_KEY).and_then(Value::as_str).map_or(0, str::len))
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
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        first_page(page)?;
        let ask = self.ask(context)?;
        Ok(ListToolsResult::with_all_items(self.tables().flat_map(|table| table.tools(&ask.view)).collect()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let ask = self.ask(context)?;
        // The client's patience counts from here, however long it takes to begin.
        let began = ask.app.clock.now();
        check_names(&ask)?;
        let _busy = ask.session().map(|session| self.shared.open.busy(session));
        let entered = ask.context.extensions.get::<Arc<Entered<SessionCall>>>();
        let cancel = entered.map_or_else(Arc::default, |entered| entered.cancel().clone());
        let name = ask.context.meta.get(CALL_KEY).and_then(|key| key.as_str()).map(|key| CallName {
            tenant: ask.view.caller.tenant.clone(),
            subject: ask.view.caller.subject.clone(),
            key: key.to_owned(),
        });
        let _by_key = name.map(|name| self.shared.calls.enter(name, &cancel));
        for table in self.tables() {
            let Some(outcome) = table.call(&ask, &params).await else { continue };
            let mut response = match outcome.map_err(|error| self.masked(error))? {
                Outcome::Done(result) => result.into(),
                Outcome::Input(question) => question.into(),
                Outcome::Pending(pending) => {
                    wait::answer(&ask, pending, &cancel, began).await.map_err(|error| self.masked(error))?
                }
            };
            if let CallToolResponse::Complete(result) = &mut response {
                result.result_type.get_or_insert(ResultType::COMPLETE);
                clients::lead_with_text(ask.client().as_deref(), result);
            }
            return Ok(response);
        }
        let message = format!("unknown tool {:?}; see tools/list", params.name);
        Err(self.masked(ErrorData::invalid_params(message, None)))
    }

    async fn get_task(
        &self,
        params: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let ask = self.ask_as(context, Scope::RunsRead)?;
        Ok(GetTaskResult::new(self.task(&ask, &params.task_id).await?.task().await?))
    }

    async fn update_task(
        &self,
        params: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let ask = self.ask_as(context, Scope::RunsCreate)?;
        self.task(&ask, &params.task_id).await?.answer(params.input_responses).await
    }

    async fn cancel_task(
        &self,
        params: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let ask = self.ask_as(context, Scope::RunsCreate)?;
        self.task(&ask, &params.task_id).await?.cancel(Some("the task was cancelled over MCP".into())).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        first_page(page)?;
        let ask = self.ask(context)?;
        let mut resources = Vec::new();
        if !ask.view.caller.may(Scope::RunsRead) {
            return Ok(ListResourcesResult::with_all_items(resources));
        }
        for table in self.tables() {
            resources.extend(table.resources(&ask).await?);
        }
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        first_page(page)?;
        let templates = self.tables().flat_map(|table| table.resource_templates()).collect();
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let ask = self.ask_as(context, Scope::RunsRead)?;
        for table in self.tables() {
            if let Some(read) = table.read_resource(&ask, &params).await {
                return read.map_err(|error| self.masked(error));
            }
        }
        let data = serde_json::json!({ "uri": params.uri });
        Err(self.masked(ErrorData::resource_not_found(format!("there is no resource {}", params.uri), Some(data))))
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let ask = self.ask_as(context, Scope::RunsRead)?;
        self.standing.subscribe(ask, params.uri).await.map_err(|error| self.masked(error))
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.standing.unsubscribe(&self.ask(context)?, &params.uri).await.map_err(|error| self.masked(error))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // A session of an earlier process is greeted anew: what it had asked for still holds.
        if context.extensions.get::<SessionRestoreMarker>().is_none() {
            return;
        }
        let ask = || {
            let mut request = RequestContext::new(RequestId::Number(0), context.peer.clone());
            request.extensions = context.extensions.clone();
            self.ask_as(request, Scope::RunsRead).ok()
        };
        self.standing.take_up(ask).await;
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.truncate(self.shared.app.limits.mcp_subscriptions);
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.shared.changes.subscribe();
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        let ask = match uris.is_empty() {
            true => None,
            false => Some(self.ask_as(context.request_context().clone(), Scope::RunsRead)?),
        };
        let asked: usize = uris.iter().map(|uri| SUBSCRIPTION_BYTES + uri.len()).sum();
        let caller = self.ask(context.request_context().clone())?.view.caller;
        let _room = self.shared.app.room.reserve(&caller, STREAM_BYTES + asked).map_err(unreadable)?;
        let hear = async |uri: String| match &ask {
            Some(ask) if heard(&self.shared, ask, &uri).await.is_ok() => Some(uri),
            _ => None,
        };
        let mut updates: FuturesUnordered<_> = uris.into_iter().map(hear).collect();
        loop {
            let sent = tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.shared.app.stopping.cancelled() => return Ok(()),
                Some(uri) = updates.next(), if !updates.is_empty() => match uri {
                    Some(uri) => context.sink().notify_resource_updated(uri).await,
                    None => continue,
                },
                change = changes.recv() => match change {
                    Ok(Change::Tools) => context.sink().notify_tool_list_changed().await,
                    Ok(Change::Prompts) => context.sink().notify_prompt_list_changed().await,
                    Err(RecvError::Lagged(_)) => continue,
                    Err(RecvError::Closed) => return Ok(()),
                },
            };
            if let Err(error) = sent {
                tracing::debug!(%error, "a listener could not be notified");
            }
        }
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        first_page(page)?;
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
                return prompt.map_err(|error| self.masked(error));
            }
        }
        let message = format!("unknown prompt {:?}; see prompts/list", params.name);
        Err(self.masked(ErrorData::invalid_params(message, None)))
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let ask = self.ask_as(context, Scope::RunsRead)?;
        for table in self.tables() {
            if let Some(found) = table.complete(&ask, &params).await {
                return found.map(CompleteResult::new).map_err(|error| self.masked(error));
            }
        }
        Ok(CompleteResult::default())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if METHODS.contains(&method.as_str()) {
            return Err(ErrorData::invalid_params(format!("invalid params of {method}"), None));
        }
        Err(self.masked(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)))
    }

    async fn set_level(
        &self,
        params: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.standing.set_level(&self.ask(context)?, params.level).await
    }
}
