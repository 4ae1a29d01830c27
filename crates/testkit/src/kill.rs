//! Points at which the process is killed, with SIGKILL and by itself: nothing of it gets to say goodbye.

mod store;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use drawloom_contract::{
    journal::{CommitError, Committed, Entry, Journal},
    money::Cost,
    tool::{Gates, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use serde_json::Value;

use crate::{Names, marks::mark};

pub use store::{KillLog, KillValues};

/// Passes points, and kills the process at one of them.
pub struct Killer {
    /// Where to die; nowhere, when absent. With `*` at its end, at the first point that begins so. `@7` is the seventh point that
    /// is passed, whatever its name: the points of runs that work at the same time come in any order.
    pub point: Option<String>,
    /// Where to write down every point that is passed.
    pub log: Option<PathBuf>,
    /// The names of runs.
    pub names: Arc<Names>,
    /// How many points were passed.
    pub passed: AtomicUsize,
}

impl Killer {
    /// Passes a point, or dies there.
    pub fn pass(&self, point: &str) {
        let number = self.passed.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(log) = &self.log {
            mark(log, point);
        }
        let here = self.point.as_deref().is_some_and(|wanted| match wanted.strip_suffix('*') {
            Some(beginning) => point.starts_with(beginning),
            None => point == wanted || wanted.strip_prefix('@') == Some(number.to_string().as_str()),
        });
        if here {
            die();
        }
    }
}

/// Kills the process.
pub(crate) fn die() -> ! {
    let me = rustix::process::getpid();
    rustix::process::kill_process(me, rustix::process::Signal::KILL).expect("a process may kill itself");
    // The signal is on its way; nothing may happen until it is here.
    loop {
        std::thread::park();
    }
}

/// A journal with a point before and after each commit, named by the entry's first and last records.
pub struct KillJournal {
    /// The journal.
    pub inner: Arc<dyn Journal>,
    /// Who ends the process.
    pub killer: Arc<Killer>,
}

#[async_trait]
impl Journal for KillJournal {
    async fn commit(&self, entry: Entry) -> Result<Committed, CommitError> {
        // Names are kept for ever, so that a long load that kills nowhere must do without them.
        if self.killer.point.is_none() && self.killer.log.is_none() {
            return self.inner.commit(entry).await;
        }
        let names = &self.killer.names;
        names.learn(&entry);
        let records: Vec<String> = entry
            .runs
            .iter()
            .flat_map(|append| append.records.iter().map(|record| names.record(append.key.run, record)))
            .collect();
        let name = records.join(",");
        self.killer.pass(&format!("before {name}"));
        let committed = self.inner.commit(entry).await?;
        self.killer.pass(&format!("after {name}"));
        Ok(committed)
    }
}

/// A tool with a point after its effect, before anybody knows of it. A call that waited and is made again has a second one.
pub struct KillTool {
    /// The tool.
    pub inner: Arc<dyn Tool>,
    /// Who ends the process.
    pub killer: Arc<Killer>,
}

#[async_trait]
impl Tool for KillTool {
    fn card(&self) -> ToolCard {
        self.inner.card()
    }

    fn card_for(&self, card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
        self.inner.card_for(card, gates)
    }

    fn repeat(&self) -> Repeat<'_> {
        self.inner.repeat()
    }

    fn most_cost(&self, context: &ToolContext, input: &Value) -> Option<Cost> {
        self.inner.most_cost(context, input)
    }

    fn conditions(&self, context: &ToolContext) -> Option<String> {
        self.inner.conditions(context)
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let result = self.inner.call(context, input).await;
        let name = self.killer.names.of(context.run.run);
        let again = if context.woken.is_some() { " again" } else { "" };
        self.killer.pass(&format!("effect {name}#{}:{}{again}", context.call, self.card().name));
        result
    }
}
