//! The kinds of runs that this process can drive.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use drawloom_contract::{
    executor::{Executor, MODEL},
    failure::{Failure, FailureKind},
    tool::Tool,
};

use crate::model_executor::ModelExecutor;

/// An executor with the tools that only it may call.
pub(crate) struct Known {
    pub(crate) executor: Arc<dyn Executor>,
    tools: HashMap<String, Arc<dyn Tool>>,
}

impl Known {
    fn new(executor: Arc<dyn Executor>) -> Arc<Self> {
        let tools = executor.tools().into_iter().map(|tool| (tool.card().name, tool)).collect();
        Arc::new(Self { executor, tools })
    }

    /// One of its own tools.
    pub(crate) fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools.get(name).cloned()
    }
}

/// Executors by name.
pub(crate) struct Executors(BTreeMap<String, Arc<Known>>);

impl Executors {
    pub(crate) fn new(others: &BTreeMap<String, Arc<dyn Executor>>) -> Self {
        let others = others.iter().map(|(name, executor)| (name.clone(), Known::new(executor.clone())));
        Self(others.chain([(MODEL.to_owned(), Known::new(Arc::new(ModelExecutor)))]).collect())
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Known>> {
        self.0.get(name)
    }

    /// Refuses a name that is not known.
    pub(crate) fn check(&self, name: &str) -> Result<(), Failure> {
        if self.0.contains_key(name) {
            return Ok(());
        }
        let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
        Err(Failure::new(FailureKind::Invalid, "unknown_executor", format!("unknown executor \"{name}\""))
            .with_hint(format!("available: {}", known.join(", "))))
    }
}
