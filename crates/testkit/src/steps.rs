//! The executor `steps`: follows a script of notes, calls and waits, and asks no model. Its tools change values and logs of the
//! store, so a test can count their effects.

mod store;
mod tools;

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    definition::Definition,
    executor::{AskedBy, CallPlan, Drive, Effect, Executor},
    message::{Block, ToolUse},
    record::{Accepted, Body, Outcome, Record, Status},
    run::Run,
    time::Timestamp,
    tool::Tool,
};
use serde::Deserialize;
use serde_json::{Value, json};

pub use store::{LateStore, SPACE, StoreHandles};
pub use tools::step_tools;

/// Runs the script in a run's input, or in its prompt when it has no input. The result is the texts of all calls.
pub struct Steps {
    /// The tools that a script may name.
    pub tools: Vec<Arc<dyn Tool>>,
}

/// One step of a script.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Step {
    Note(Value),
    Call { tool: String, input: Value },
    WaitMs(u64),
}

impl Executor for Steps {
    fn open(&self, _: Arc<Definition>) -> Box<dyn Drive> {
        Box::new(State::default())
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.tools.clone()
    }
}

/// How far a script has come.
#[derive(Default)]
struct State {
    script: Vec<Step>,
    /// Steps that are done.
    done: usize,
    is_call_open: bool,
    results: Vec<String>,
    last: Option<Timestamp>,
}

impl Drive for State {
    fn apply(&mut self, _: &Run, record: &Record) {
        match &record.body {
            Body::Accepted(accepted) => self.script = script(accepted),
            Body::Note { .. } => self.done += 1,
            Body::CallStarted(_) => self.is_call_open = true,
            Body::CallDone(done) => {
                self.results.push(result(&done.text));
                self.is_call_open = false;
                self.done += 1;
            }
            // The wait of a call has no time here.
            Body::Parked { wait } if wait.until.is_some() => self.done += 1,
            _ => return,
        }
        self.last = Some(record.at);
    }

    fn decide(&self, run: &Run, now: Timestamp) -> Vec<Effect> {
        if run.view.status.is_terminal() || self.is_call_open {
            return Vec::new();
        }
        let next = match self.script.get(self.done) {
            Some(Step::Note(value)) => Effect::Note { version: 1, value: json!({ "note": value, "step": self.done }) },
            Some(Step::Call { tool, input }) => {
                let tool_use = ToolUse { id: format!("step_{}", self.done), name: tool.clone(), input: input.clone() };
                let turn = u32::try_from(self.results.len()).unwrap_or(u32::MAX);
                Effect::Call(CallPlan { turn, index: 0, tool_use, masked: false, asked_by: AskedBy::Executor })
            }
            Some(Step::WaitMs(ms)) => {
                Effect::Wait { until: self.last.unwrap_or(now).after(Duration::from_millis(*ms)) }
            }
            None => Effect::Finish(Box::new(Outcome {
                status: Status::Completed,
                stop_reason: None,
                error: None,
                final_text: Some(self.results.join("; ")),
                usage: run.view.usage,
                cost: run.view.cost,
                warnings: run.warnings(),
            })),
        };
        vec![next]
    }
}

/// The script of a run; one that cannot be read has no steps.
fn script(accepted: &Accepted) -> Vec<Step> {
    let prompt = accepted.segments.iter().flat_map(|segment| &segment.content).find_map(|block| match block {
        Block::TrustedText { text } => serde_json::from_str(text).ok(),
        _ => None,
    });
    let script = accepted.input.clone().or(prompt).unwrap_or_default();
    serde_json::from_value(script).unwrap_or_default()
}

/// What a call came to; of one that started children, what they came to without their ids, which are new in each run.
fn result(text: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    match value["results"].as_array() {
        Some(children) => {
            let outputs = children.iter().map(|child| format!("{}: ({})", child["agent"], child["output"]));
            outputs.collect::<Vec<_>>().join(" and ")
        }
        None => text.to_owned(),
    }
}
