//! `goal_ask`: asks a role by starting a run of its backend's agent.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use drawloom_contract::{
    ids::AgentName,
    record::Collect,
    runs::Start,
    tool::{Repeat, Step, Tool, ToolCard, ToolContext, ToolError, Woken},
    wait::Wait,
};
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::{
    executor::GoalParts,
    mock::MockInput,
    models::{Access, Models, Wanted},
    questions::Questions,
    tools::{ASK, AskInput, RoleMode},
    workspace::{CheckedOut, Workspace},
};

/// The folder of agents that are built in.
const BUILT_IN: &str = "drawloom";

/// How long one call of a model may take when the goal does not say, in seconds: as long as one of a coding CLI.
const CALL_SECONDS: u64 = 3_600;

/// Any input: the loop makes it, no model does.
#[derive(JsonSchema)]
struct Input {}

/// How a backend's agent is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendKind {
    /// Answers from a script of our own.
    Mock,
    /// A coding CLI in a directory.
    Cli,
    /// An agent of the config.
    Agent,
    /// A model of the config with our own tools, in a checkout.
    Model,
}

/// The backends that goals may use, by name.
#[derive(Debug, Clone, Default)]
pub struct Backends(pub BTreeMap<String, BackendKind>);

impl Backends {
    /// The kind of a backend, and the agent that its runs have.
    pub fn find(&self, name: &str) -> Option<(BackendKind, AgentName)> {
        if let Some(agent) = name.strip_prefix("agent:") {
            let agent = agent.parse().ok().filter(|agent: &AgentName| !agent.is_reserved())?;
            return Some((BackendKind::Agent, agent));
        }
        let kind = *self.0.get(name)?;
        Some((kind, format!("{BUILT_IN}/{name}").parse().ok()?))
    }
}

pub(super) struct Ask {
    backends: Backends,
    workspace: Arc<dyn Workspace>,
    models: Arc<dyn Models>,
    questions: Arc<Questions>,
}

impl Ask {
    pub(super) fn new(parts: &GoalParts) -> Self {
        Self {
            backends: parts.backends.clone(),
            workspace: parts.workspace.clone(),
            models: parts.models.clone(),
            questions: parts.questions.clone(),
        }
    }

    async fn start(&self, context: &ToolContext, input: AskInput) -> Result<Start, ToolError> {
        let Some((kind, agent)) = self.backends.find(&input.backend.name) else {
            let known: Vec<&str> = self.backends.0.keys().map(String::as_str).collect();
            let name = &input.backend.name;
            return Err(ToolError::Invalid(format!("unknown backend {name:?}; available: {}", known.join(", "))));
        };
        let start = |prompt: &str, own: Option<Value>| Start {
            input: own,
            timeout_ms: input.timeout_ms,
            parent_context: Some(json!({ "role": input.role, "worker": input.worker() })),
            ..Start::new(agent.clone(), prompt)
        };
        match kind {
            BackendKind::Mock => {
                let own = MockInput {
                    role: input.role,
                    iteration: input.iteration,
                    label: input.label.clone(),
                    accepts_at: input.mock_accepts_at,
                    questions: input.mock_questions.clone(),
                };
                Ok(start(&input.prompt, serde_json::to_value(own).ok()))
            }
            BackendKind::Model => {
                let wanted = Wanted {
                    agent: agent.clone(),
                    model: input.backend.model.as_deref(),
                    place: input.place.as_ref().filter(|place| !place.checkout.is_empty()),
                    access: match input.mode {
                        RoleMode::ReadOnly => Access::Read,
                        RoleMode::Edit | RoleMode::SkipPermissions => Access::Write,
                    },
                };
                let mut definition = self.models.agent(&wanted).map_err(ToolError::Invalid)?;
                definition.system_prompt = format!("{}\n\n{}", input.system.trim(), definition.system_prompt);
                let seconds = Some(input.call_seconds.unwrap_or(CALL_SECONDS)).filter(|seconds| *seconds > 0);
                Ok(Start {
                    definition: Some(Arc::new(definition)),
                    run_timeout_ms: seconds.map(|seconds| seconds.saturating_mul(1000)),
                    ..start(&input.prompt, None)
                })
            }
            BackendKind::Agent => Ok(start(&format!("{}\n\n{}", input.system.trim(), input.prompt), None)),
            BackendKind::Cli => {
                let goal = context.run.run.to_string();
                let output = self.workspace.output(&goal).await.map_err(ToolError::Failed)?;
                let place = match &input.place {
                    Some(place) => place.clone(),
                    None => {
                        let directory = self.workspace.scratch(&goal, &input.label).await.map_err(ToolError::Failed)?;
                        CheckedOut { directory, ..CheckedOut::default() }
                    }
                };
                let mut own = json!({
                    "directory": place.directory,
                    "mode": input.mode,
                    "system": input.system,
                    "output_dir": output,
                    "output_name": input.label,
                });
                let optional = [
                    ("model", json!(input.backend.model)),
                    ("time_limit_seconds", json!(input.call_seconds)),
                    ("continue_run", json!(input.continues)),
                    ("environment", json!(place.environment)),
                    ("readable", json!(place.readable)),
                    ("writable", json!(place.writable)),
                ];
                for (name, value) in optional {
                    if !value.is_null() && value != json!([]) {
                        own[name] = value;
                    }
                }
                Ok(start(&input.prompt, Some(own)))
            }
        }
    }
}

#[async_trait]
impl Tool for Ask {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(ASK, "Ask a role of the goal loop.")
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Keyed
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let mut input: AskInput = serde_json::from_value(input)?;
        if let (Some(until), None) = (input.not_before, context.woken)
            && until > context.began
        {
            return Ok(Step::Wait(Wait::until(until)));
        }
        let said = self.questions.said(&context.run).await;
        let said = said.map_err(|failure| ToolError::Failed(format!("cannot read what was said: {failure}")))?;
        input.prompt += &said.section(input.role);
        debug_assert!(context.woken.is_none_or(|woken| woken == Woken::ByTime), "it waits for a time only");
        Ok(Step::Spawn { starts: vec![self.start(context, input).await?], collect: Collect::Reports })
    }
}
