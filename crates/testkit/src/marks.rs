//! Effects that survive the process: lines in files, each written with one append.

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use drawloom_contract::{
    choice::{Effort, Sampling},
    model::{Deltas, ListedModel, Model, ModelCard, Turn, TurnError, TurnRequest},
    tool::{Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use serde_json::{Value, json};

use crate::{Killer, kill::die};

/// Adds a line to a file, in one write.
pub(crate) fn mark(file: &Path, line: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(file).expect("the fixture's file can be written");
    file.write_all(format!("{line}\n").as_bytes()).expect("the fixture's file can be written");
}

/// The tool `Ledger`: appends a line; nobody may do that twice. Class `Never`.
pub struct Ledger {
    /// The file.
    pub file: PathBuf,
}

#[async_trait]
impl Tool for Ledger {
    fn card(&self) -> ToolCard {
        let input_schema = json!({
            "type": "object", "required": ["line"], "properties": { "line": { "type": "string" } },
            "additionalProperties": false
        });
        ToolCard {
            name: "Ledger".into(),
            description: "Append a line to a ledger.".into(),
            input_schema: input_schema.into(),
        }
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Never
    }

    async fn call(&self, _: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let line = input["line"].as_str().ok_or_else(|| ToolError::Invalid("line is missing".into()))?;
        mark(&self.file, line);
        Ok(Step::done(format!("booked {line}")))
    }
}

/// A model that leaves a line for each call before it answers, and may be the last thing that its process does.
pub struct MarkedModel {
    /// The model.
    pub inner: Arc<dyn Model>,
    /// The file.
    pub file: PathBuf,
    /// Who ends the process.
    pub killer: Arc<Killer>,
    /// An agent whose turns kill the process before they are asked for.
    pub poison: Option<String>,
}

#[async_trait]
impl Model for MarkedModel {
    fn card(&self, model: &str) -> ModelCard {
        self.inner.card(model)
    }

    async fn look_up(&self, model: &str) {
        self.inner.look_up(model).await;
    }

    fn ignored(&self, model: &str, sampling: &Sampling, effort: Option<Effort>) -> Vec<&'static str> {
        self.inner.ignored(model, sampling, effort)
    }

    async fn list(&self) -> Result<Vec<ListedModel>, TurnError> {
        self.inner.list().await
    }

    async fn turn(&self, request: TurnRequest, deltas: &dyn Deltas) -> Result<Turn, TurnError> {
        let (run, turn, attempt) = (request.run.run, request.turn, request.attempt);
        mark(&self.file, &format!("{run} {turn} {attempt}"));
        if self.poison.as_deref() == Some(request.agent.as_str()) {
            die();
        }
        let result = self.inner.turn(request, deltas).await;
        self.killer.pass(&format!("effect {}#turn{turn}.{attempt}", self.killer.names.of(run)));
        result
    }
}
