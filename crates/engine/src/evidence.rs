//! Evidence that tools put aside before their calls is removed when the calls' results are journaled, and not before.

use std::sync::Arc;

use drawloom_contract::{
    record::{Body, RepeatClass},
    tool::{Repeat, Tool, ToolContext},
};

use crate::run_task::RunTask;

/// The evidence of a call that has ended.
pub(crate) struct OldEvidence {
    tool: Arc<dyn Tool>,
    context: ToolContext,
}

impl RunTask {
    /// Notes the evidence of the calls that this record ends.
    pub(crate) fn note_evidence(&mut self, body: &Body) {
        let ended = match body {
            Body::CallDone(done) => Some(done.call),
            Body::Finished(_) => None,
            _ => return,
        };
        for open in self.run.open_calls.iter().filter(|open| ended.is_none_or(|call| call == open.call)) {
            let started = &open.started;
            if started.repeat != RepeatClass::Check || started.evidence.is_none() {
                continue;
            }
            if let Some(tool) = self.tool_of(started) {
                let context = ToolContext { evidence: started.evidence.clone(), ..self.context(open.call) };
                self.evidence.push(OldEvidence { tool, context });
            }
        }
    }

    /// Lets tools remove the evidence that nothing will ask for any more, beside the run.
    pub(crate) fn discard_evidence(&mut self) {
        for OldEvidence { tool, context } in std::mem::take(&mut self.evidence) {
            drop(tokio::spawn(async move {
                if let Repeat::Check(check) = tool.repeat() {
                    check.discard(&context).await;
                }
            }));
        }
    }
}
