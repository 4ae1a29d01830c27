//! The list of operations as a table of tools.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    ids::{BatchId, RunId},
    runs::{Interest, Started},
};
use drawloom_wire::{runs::How, validate::Problem};
use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResult, CompleteRequestParams, CompletionInfo, ContentBlock,
        GetPromptRequestParams, GetPromptResponse, Prompt, ReadResourceRequestParams, ReadResourceResponse, Resource,
        ResourceTemplate, Tool, ToolAnnotations,
    },
};
use serde_json::{Map, Value};

use crate::{
    app::App,
    dispatch::{Dispatch, Operations, Refused, Served, unasked_events},
    handle::Handle,
    lean::{self, Lean},
    mcp::{
        CALL_KEY,
        pending::Waited,
        prompts, resources, schema,
        table::{Ask, Outcome, Pending, Table, Terms, View},
    },
    operation::{Answer, Card, KEY_FIELD},
};

/// The toolset that everybody gets who asks for none.
const CORE: &str = "core";
/// The name of all toolsets together.
const ALL: &str = "all";
/// The most bytes of texts in one answer, when the caller does not say: what fits a model's attention.
pub(super) const RESULT_BYTES: u64 = 24 * 1024;

/// The operations as tools.
pub(crate) struct Offered {
    tools: Vec<OfferedTool>,
}

struct OfferedTool {
    served: Arc<Served>,
    /// Made when a client asks for it: a server that no MCP client uses needs none of the schemas.
    tool: OnceLock<Tool>,
}

impl Offered {
    /// Every operation, in the order of the list.
    pub(crate) fn new(operations: &Operations) -> Self {
        Self { tools: operations.iter().map(OfferedTool::new).collect() }
    }

    /// The names of all toolsets.
    pub(super) fn toolsets(operations: &Operations) -> Vec<&'static str> {
        let mut names = vec![ALL];
        for served in operations.iter() {
            let toolset = served.card().toolset;
            if !names.contains(&toolset) {
                names.push(toolset);
            }
        }
        names
    }

    fn find(&self, name: &str) -> Option<&OfferedTool> {
        self.tools.iter().find(|tool| tool.card().name() == name)
    }
}

impl OfferedTool {
    fn new(served: &Arc<Served>) -> Self {
        Self { served: served.clone(), tool: OnceLock::new() }
    }

    fn tool(&self) -> Tool {
        self.tool.get_or_init(|| self.make_tool()).clone()
    }

    fn make_tool(&self) -> Tool {
        let entry = self.served.entry();
        let card = &entry.card;
        let mut input = schema::self_contained(entry.input);
        schema::for_model(&mut input, card.parameters);
        let words =
            if card.advice.is_empty() { card.summary.to_owned() } else { format!("{} {}", card.summary, card.advice) };
        let annotations = ToolAnnotations::new()
            .read_only(card.is_read_only())
            .destructive(card.destructive)
            .idempotent(card.is_idempotent())
            .open_world(card.scope == Some(Scope::RunsCreate) && !card.destructive);
        let mut tool = Tool::new(card.name(), words, Arc::new(input));
        tool.title = Some(title(card.name()));
        tool.annotations = Some(annotations);
        tool
    }

    fn card(&self) -> &Card {
        self.served.card()
    }

    fn is_for(&self, view: &View) -> bool {
        self.is_asked_for(view) && self.served.check_scope(&view.caller).is_ok()
    }

    fn is_asked_for(&self, view: &View) -> bool {
        let own = self.card().toolset;
        match &view.toolsets {
            None => own == CORE,
            Some(toolsets) => toolsets.iter().any(|toolset| toolset == own || toolset == ALL),
        }
    }

    async fn call(&self, ask: &Ask, arguments: Option<Map<String, Value>>) -> Result<Outcome, Refused> {
        let (app, caller, card) = (&ask.app, &ask.view.caller, self.card());
        // A caller who may not call it is told that first.
        self.served.check_scope(caller)?;
        if !self.is_asked_for(&ask.view) {
            let message = format!("{} is in the toolset {}, which was not asked for", card.name(), card.toolset);
            let hint = format!("connect with --toolsets {CORE},{0}, or to /mcp?toolsets={CORE},{0}", card.toolset);
            return Err(Failure::new(FailureKind::NotFound, "toolset_not_asked", message).with_hint(hint).into());
        }
        let mut arguments = arguments.unwrap_or_default();
        if card.takes_key()
            && arguments.get(KEY_FIELD).is_none_or(Value::is_null)
            && let Some(key) = ask.context.meta.get(CALL_KEY).and_then(Value::as_str)
        {
            arguments.insert(KEY_FIELD.into(), key.into());
        }
        if let Some(field) = card.client_field
            && arguments.get(field).is_none_or(Value::is_null)
            && let Some(client) = ask.client()
        {
            arguments.insert(field.into(), client.into());
        }
        let request = Dispatch {
            app,
            caller,
            request_id: &ask.request_id(),
            input: Value::Object(arguments),
            interest: Interest::Outcome,
            result_bytes: Some(RESULT_BYTES),
        };
        Ok(match self.served.dispatch(request).await? {
            Answer::Value(value) => Outcome::Done(structured(lean::answer(app, caller, card.told, value).await)),
            Answer::Handle(handle) => Waited::outcome(app, handle, !card.is_read_only()).await,
            Answer::Events(_) => return Err(unasked_events().into()),
        })
    }
}

/// A name as people write it.
fn title(name: &str) -> String {
    let words = name.replace('_', " ");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// An answer in words, and as a value for programs.
pub(super) fn structured(answer: Lean) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(answer.text)]);
    result.structured_content = Some(answer.value);
    result
}

/// A failure that the model reads: what happened, where, and what to do next.
pub(super) fn refused(app: &App, failure: &Failure, problems: &[Problem]) -> CallToolResult {
    let mut text = match failure.kind {
        FailureKind::Bug => {
            let id = app.request_id();
            tracing::error!(request = %id, code = failure.code, error = %failure, "a call met a bug");
            format!("{}: something went wrong on our side (request {id}; the server's log says more)", failure.code)
        }
        _ => format!("{}: {failure}", failure.code),
    };
    if let Some(hint) = failure.hint.as_ref().filter(|_| failure.kind != FailureKind::Bug) {
        text.push_str(&format!("\nhint: {hint}"));
    }
    for problem in problems.iter().filter(|_| problems.len() > 1) {
        text.push_str(&format!("\n- {}: {}", problem.path(), problem.message));
    }
    if failure.kind.is_retryable() {
        text.push_str("\nThe same call may work later.");
    }
    app.redactor.mask(&mut text);
    CallToolResult::error(vec![ContentBlock::text(text)])
}

#[async_trait]
impl Table for Offered {
    fn tools(&self, view: &View) -> Vec<Tool> {
        self.tools.iter().filter(|tool| tool.is_for(view)).map(OfferedTool::tool).collect()
    }

    fn find_tool(&self, name: &str) -> Option<Tool> {
        self.find(name).map(OfferedTool::tool)
    }

    async fn call(&self, ask: &Ask, params: &CallToolRequestParams) -> Option<Result<Outcome, ErrorData>> {
        let tool = self.find(&params.name)?;
        let called = tool.call(ask, params.arguments.clone()).await;
        Some(Ok(called.unwrap_or_else(|why| Outcome::Done(refused(&ask.app, &why.failure, &why.problems)))))
    }

    async fn find_task(
        &self,
        app: &Arc<App>,
        view: &View,
        id: &str,
        mut terms: Terms,
    ) -> Option<Result<Box<dyn Pending>, ErrorData>> {
        let caller = &view.caller;
        terms.result_bytes.get_or_insert(RESULT_BYTES);
        let followed = |view| Started { view: Arc::new(view), live: None };
        let found = if let Ok(run) = id.parse::<RunId>() {
            let found = app.runs.load(caller, run).await;
            found.map(|view| match view.provider == drawloom_goal::GOAL {
                true => Handle::of_goal(caller.clone(), followed(view), How::default()),
                false => Handle::run(caller.clone(), followed(view), How::default()),
            })
        } else if let Ok(batch) = id.parse::<BatchId>() {
            let found = app.runs.load_batch(caller, batch).await;
            found.map(|views| {
                let runs = views.into_iter().map(followed).collect();
                Handle::batch(caller.clone(), batch, runs, How::default())
            })
        } else {
            return None;
        };
        match found {
            Ok(handle) => Some(Ok(Box::new(Waited::new(app, handle, terms)))),
            Err(failure) if failure.kind == FailureKind::NotFound => None,
            Err(failure) => Some(Err(ErrorData::internal_error(failure.message, None))),
        }
    }

    async fn resources(&self, ask: &Ask) -> Result<Vec<Resource>, ErrorData> {
        resources::list(ask).await
    }

    fn resource_templates(&self) -> Vec<ResourceTemplate> {
        resources::templates()
    }

    async fn read_resource(
        &self,
        ask: &Ask,
        params: &ReadResourceRequestParams,
    ) -> Option<Result<ReadResourceResponse, ErrorData>> {
        resources::read(ask, &params.uri).await
    }

    async fn find_resource(&self, ask: &Ask, uri: &str) -> Option<Result<(), ErrorData>> {
        resources::find(ask, uri).await
    }

    async fn resource_changed(&self, ask: &Ask, uri: &str) -> Option<Result<(), ErrorData>> {
        resources::changed(ask, uri).await
    }

    fn prompts(&self) -> Vec<Prompt> {
        prompts::list()
    }

    async fn get_prompt(
        &self,
        ask: &Ask,
        params: &GetPromptRequestParams,
    ) -> Option<Result<GetPromptResponse, ErrorData>> {
        prompts::get(ask, params)
    }

    async fn complete(&self, ask: &Ask, params: &CompleteRequestParams) -> Option<Result<CompletionInfo, ErrorData>> {
        prompts::complete(ask, params).await
    }
}
