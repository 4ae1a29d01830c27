//! The steps of the loop in the repository: one tool for each, all of which can be repeated.

use std::{future::Future, pin::Pin, sync::Arc};

use async_trait::async_trait;
use drawloom_contract::tool::{Repeat, Step, Tool, ToolCard, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    bounds::Bounded,
    tools::{CHECKOUT, CHECKPOINT, CLEAN, DIFF, MERGE, PREPARE, VERIFY},
    workspace::Workspace,
};

/// Any input: the loop makes it, no model does.
#[derive(JsonSchema)]
struct Input {}

type Performing<'a> = Pin<Box<dyn Future<Output = Result<String, ToolError>> + Send + 'a>>;

/// A step, and how it is performed for a goal.
struct RepositoryTool {
    name: &'static str,
    summary: &'static str,
    workspace: Arc<dyn Workspace>,
    perform: for<'a> fn(&'a dyn Workspace, &'a str, Value) -> Performing<'a>,
}

#[async_trait]
impl Tool for RepositoryTool {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(self.name, self.summary)
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Safe
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let goal = context.run.run.to_string();
        (self.perform)(&*self.workspace, &goal, input).await.map(Step::done)
    }
}

/// The part of the input that a step is about.
fn part<T: DeserializeOwned>(mut input: Value, name: &str) -> Result<T, ToolError> {
    Ok(serde_json::from_value(input[name].take())?)
}

fn told<T: Serialize + Bounded>(result: Result<T, String>) -> Result<String, ToolError> {
    Ok(serde_json::to_string(&result.map_err(ToolError::Failed)?.bounded())?)
}

pub(super) fn tools(workspace: &Arc<dyn Workspace>) -> Vec<Arc<dyn Tool>> {
    let tool = |name, summary, perform| -> Arc<dyn Tool> {
        Arc::new(RepositoryTool { name, summary, workspace: workspace.clone(), perform })
    };
    vec![
        tool(PREPARE, "Find the base of a goal.", |workspace, goal, input| {
            Box::pin(async move { told(workspace.prepare(goal, &part(input, "workspace")?).await) })
        }),
        tool(CHECKOUT, "Make a checkout.", |workspace, goal, input| {
            Box::pin(async move { told(workspace.checkout(goal, &part(input, "checkout")?).await) })
        }),
        tool(CHECKPOINT, "Commit what a worker left.", |workspace, goal, input| {
            Box::pin(async move { told(workspace.checkpoint(goal, &part(input, "checkpoint")?).await) })
        }),
        tool(MERGE, "Merge a worker's commit.", |workspace, goal, input| {
            Box::pin(async move { told(workspace.merge(goal, &part(input, "merge")?).await) })
        }),
        tool(VERIFY, "Run the verify commands.", |workspace, goal, input| {
            Box::pin(async move { told(workspace.verify(goal, &part(input, "verify")?).await) })
        }),
        tool(DIFF, "Compare two commits.", |workspace, goal, input| {
            Box::pin(async move { told(workspace.diff(goal, &part(input, "diff")?).await) })
        }),
        tool(CLEAN, "Remove a goal's checkouts.", |workspace, goal, input| {
            Box::pin(async move { told(workspace.clean(goal, &part(input, "clean")?).await) })
        }),
    ]
}
