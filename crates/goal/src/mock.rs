//! The backend `mock`: answers of all roles from code, for the demo and for tests. It needs no model, no key and no program.

use std::sync::Arc;

use drawloom_contract::{
    definition::Definition,
    executor::{Drive, Effect, Executor},
    record::{Body, Outcome, Record, Status},
    run::Run,
    time::Timestamp,
    tool::Tool,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::roles::Role;

/// What a mock role is told beside its prompt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MockInput {
    pub(crate) role: Role,
    pub(crate) iteration: u32,
    pub(crate) label: String,
    /// The iteration from which on the reviewer accepts.
    pub(crate) accepts_at: u32,
    #[serde(default)]
    pub(crate) questions: Vec<String>,
}

/// The executor of mock roles.
pub struct MockExecutor;

impl Executor for MockExecutor {
    fn open(&self, _: Arc<Definition>) -> Box<dyn Drive> {
        Box::new(Mock(None))
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }
}

struct Mock(Option<MockInput>);

impl Drive for Mock {
    fn apply(&mut self, _: &Run, record: &Record) {
        if let Body::Accepted(accepted) = &record.body {
            self.0 = accepted.input.clone().and_then(|input| serde_json::from_value(input).ok());
        }
    }

    fn decide(&self, run: &Run, _: Timestamp) -> Vec<Effect> {
        if run.view.status.is_terminal() {
            return Vec::new();
        }
        let (status, text, error) = match &self.0 {
            Some(input) => (Status::Completed, Some(answer(input)), None),
            None => {
                let message = "the agent drawloom/mock is for roles of goals; its input names no role";
                (Status::Failed, None, Some(drawloom_contract::failure::RunError::new("invalid_input", message)))
            }
        };
        vec![Effect::Finish(Box::new(Outcome {
            status,
            stop_reason: None,
            error,
            final_text: text,
            usage: run.view.usage,
            cost: run.view.cost,
            warnings: run.warnings(),
        }))]
    }
}

fn answer(input: &MockInput) -> String {
    match input.role {
        Role::Criteria => "The deliverable covers every part of the goal and was reviewed.".into(),
        Role::Clarifier => json!(input.questions).to_string(),
        Role::Decomposer => json!([
            { "id": "s1", "description": "Outline the deliverable." },
            { "id": "s2", "description": "Produce its main part." },
            { "id": "s3", "description": "Check it against the criteria." },
        ])
        .to_string(),
        Role::Subagent => {
            let id = input.label.rsplit('-').next().unwrap_or_default();
            format!("Completed {id}: deliverable produced.")
        }
        Role::Reviewer => {
            let accepts = input.iteration >= input.accepts_at;
            let issues: &[&str] = if accepts { &[] } else { &["The deliverable needs another pass."] };
            json!({
                "quality_ok": accepts,
                "consistency_ok": accepts,
                "goal_aligned": accepts,
                "goal_complete": accepts,
                "issues": issues,
            })
            .to_string()
        }
    }
}
