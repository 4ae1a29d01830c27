//! Tool calls: their intent, the call, and its result in the journal.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use drawloom_contract::{
    executor::{AskedBy, CallPlan},
    money::{Cost, Spent},
    record::{Body, CallDone, CallStarted, RepeatClass, Seq},
    time::Timestamp,
    tool::{CallResult, Gates, MAX_RESULT_BYTES, Repeat, Step, Tool, ToolContext, ToolError},
    usage::Usage,
    wait::WaitChange,
};
use futures::{
    FutureExt,
    future::{BoxFuture, Either, select},
};
use serde_json::Value;
use tracing::Instrument as _;

use crate::{
    activities::CallProgress,
    budget::CostGrant,
    run_task::{Done, RunTask, Task},
};

/// How long a tool may take to look at what its call will change.
const EVIDENCE_TIME: Duration = Duration::from_secs(30);

/// Whether a call was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    Yes,
    /// Others of the tree have reserved the money that it needs; when one of them is done, the run is woken.
    Later,
}

impl RunTask {
    /// Makes a call whose intent is journaled.
    pub(crate) fn call_tool(
        &self,
        call: Seq,
        tool: Arc<dyn Tool>,
        context: ToolContext,
        input: Value,
    ) -> BoxFuture<'static, Done> {
        let span = tracing::debug_span!("call", call, again = context.woken.is_some());
        let engine = self.engine.clone();
        let root = self.accepted().root;
        let narrowed = self.accepted().narrowed_tools.clone();
        let work = async move {
            let work = AssertUnwindSafe(tool.call(&context, input)).catch_unwind().await;
            let result = work.unwrap_or_else(|_| {
                Err(ToolError::Failed("internal error: the tool panicked; the run continues".into()))
            });
            if let Ok(Step::Spawn { starts, .. }) = &result {
                let agents = starts.iter().map(|start| (&start.agent, narrowed.as_deref()));
                engine.ask_for_tools(&context.run.tenant, agents).await;
                engine.open_tree(&context.run.tenant, root).await;
            }
            Done::Call { call, result }
        };
        work.instrument(span).boxed()
    }

    /// Journals what a call came to.
    pub(crate) fn take_in_call(&mut self, call: Seq, result: Result<Step, ToolError>) {
        if self.asked_again.remove(&call) {
            self.waits.push(WaitChange::End { run: self.key.clone(), call });
        }
        match result {
            Ok(Step::Done(CallResult { text, cost, usage })) => self.end_call_with(call, text, false, (cost, usage)),
            Ok(Step::Wait(wait)) => self.begin_wait(call, wait),
            Ok(Step::Spawn { starts, collect }) => self.spawn_children(call, starts, collect),
            Err(error) => self.end_call(call, error.to_string(), true, None),
        }
    }

    pub(crate) fn end_call(&mut self, call: Seq, text: String, is_error: bool, cost: Option<Cost>) {
        self.end_call_with(call, text, is_error, (cost, Usage::default()));
    }

    fn end_call_with(&mut self, call: Seq, mut text: String, mut is_error: bool, spent: (Option<Cost>, Usage)) {
        let (cost, usage) = spent;
        if !self.owners.is_empty() {
            self.settle_call(call, cost);
            self.engine.budgets.book(&self.owners, Spent { tokens: usage.total(), cost: Cost::default() });
        }
        // Before it is cut: a part of a secret would not be recognised.
        self.engine.parts.redactor.mask(&mut text);
        if let Some(open) = self.run.open_calls.iter().find(|open| open.call == call) {
            let started = &open.started;
            let name = started.tool_use.name.as_str();
            // Models invent names; only those that there are count by name.
            let is_known = started.by_executor || self.engine.toolbox.find(name).is_some();
            let name = if is_known { name } else { "unknown" };
            // An executor reads its results as data: a part of one would be another result.
            if is_known && started.by_executor && !is_error && text.len() > MAX_RESULT_BYTES {
                is_error = true;
                text = format!(
                    "result_too_large: the result of {name} has {} bytes, and the limit is {MAX_RESULT_BYTES}",
                    text.len()
                );
            }
            self.engine.meters.tool(name, is_error);
        }
        self.push(Body::CallDone(CallDone {
            call,
            text: shortened(text, MAX_RESULT_BYTES),
            is_error,
            in_doubt: false,
            cost,
            usage,
        }));
    }

    /// Journals the intent of a call. One that is refused gets its result at once; one that has to wait for money is not begun.
    pub(crate) async fn begin_call(&mut self, plan: CallPlan) -> Begun {
        let CallPlan { turn, index, tool_use, masked, asked_by } = plan;
        let written = self.turns.unmasked.remove(&index);
        let most = self.engine.parts.config.max_calls_per_turn;
        let tool = self.tool_for(asked_by, &tool_use.name).filter(|_| index < most);
        let mut context = self.context(self.run.view.seq + 1);
        let input = written.clone().unwrap_or_else(|| tool_use.input.clone());
        let withheld = tool.as_ref().and_then(|_| self.engine.toolbox.withheld(&tool_use.name, self.gates()));
        let mut refusal = match (&tool, masked && written.is_none()) {
            (Some(_), _) if withheld.is_some() => withheld,
            (None, _) if index >= most => Some(format!(
                "too_many_calls: not executed. The limit is {most} tool calls per turn, and this is call {}. Make the \
                    remaining calls in later turns.",
                index + 1
            )),
            (None, _) => Some(self.unknown_tool(&tool_use.name)),
            (Some(_), true) => Some(
                "the input contained a secret, which was masked; the call cannot be repeated after a restart".into(),
            ),
            (Some(_), false) => None,
        };
        let mut reserved_cost = None;
        if let (Some(tool), None) = (&tool, &refusal)
            && let Some(most) = tool.most_cost(&context, &input).filter(|_| !self.owners.is_empty())
        {
            self.open_accounts().await;
            match self.engine.budgets.reserve_cost(&self.owners, &self.key, context.call, most) {
                CostGrant::Granted => reserved_cost = Some(most),
                CostGrant::Exhausted { left } => {
                    refusal = Some(format!(
                        "budget_exhausted: this call may cost up to {}, but only {} of the budget is left",
                        most.units(),
                        left.units()
                    ));
                }
                CostGrant::Later => {
                    if let Some(written) = written {
                        self.turns.unmasked.insert(index, written);
                    }
                    return Begun::Later;
                }
            }
        }
        let mut evidence = None;
        let mut repeat = tool.as_ref().map_or(RepeatClass::Safe, |tool| tool.repeat().class());
        if let (Some(tool), None) = (&tool, &refusal)
            && let Repeat::Check(check) = tool.repeat()
        {
            let clock = self.engine.parts.clock.clone();
            let late = clock.sleep_awake_until(clock.awake().after(EVIDENCE_TIME));
            let taken = AssertUnwindSafe(check.evidence(&context, &input)).catch_unwind();
            match select(Box::pin(taken), late).await {
                Either::Left((Ok(Ok(Some(value))), _)) => evidence = Some(value),
                // Nothing will say whether this call happened.
                Either::Left((Ok(Ok(None)), _)) => repeat = RepeatClass::Never,
                Either::Left((Ok(Err(error)), _)) => refusal = Some(error.to_string()),
                Either::Left((Err(_), _)) => {
                    refusal = Some("internal error: the tool panicked before the call; nothing was done".into());
                }
                Either::Right(_) => {
                    refusal = Some("timed out reading the current state; nothing was changed".into());
                }
            }
        }
        let conditions = tool.as_ref().filter(|_| refusal.is_none()).and_then(|tool| tool.conditions(&context));
        context.evidence = evidence.clone();
        let by_executor = asked_by == AskedBy::Executor;
        let started =
            CallStarted { turn, index, tool_use, repeat, evidence, conditions, masked, by_executor, reserved_cost };
        let call = self.push(Body::CallStarted(started));
        context.began = self.began(call).unwrap_or(context.began);
        match (tool, refusal) {
            (Some(tool), None) => {
                self.tasks.push(Task::Call { call, tool, context, input });
            }
            (_, refusal) => self.end_call(call, refusal.unwrap_or_default(), true, None),
        }
        Begun::Yes
    }

    /// The tool of a call that is journaled, if it exists today.
    pub(crate) fn tool_of(&self, started: &CallStarted) -> Option<Arc<dyn Tool>> {
        let asked_by = if started.by_executor { AskedBy::Executor } else { AskedBy::Model };
        self.tool_for(asked_by, &started.tool_use.name)
    }

    /// The tool, if whoever asks may use it and it exists today.
    fn tool_for(&self, asked_by: AskedBy, name: &str) -> Option<Arc<dyn Tool>> {
        match asked_by {
            AskedBy::Executor => self.kind.tool(name),
            AskedBy::Model => {
                let allowed = self.accepted().tools.iter().any(|tool| tool == name);
                self.engine.toolbox.find(name).filter(|_| allowed)
            }
        }
    }

    pub(crate) fn gates(&self) -> Gates<'_> {
        Gates { definition: &self.definition, hosts: &self.hosts }
    }

    fn unknown_tool(&self, name: &str) -> String {
        match self.cards.is_empty() {
            true => format!("unknown tool \"{name}\"; this agent has no tools"),
            false => {
                let names: Vec<&str> = self.cards.iter().map(|card| card.name.as_str()).collect();
                format!("unknown tool \"{name}\"; this agent's tools: {}", names.join(", "))
            }
        }
    }

    /// When a call that is open was journaled.
    fn began(&self, call: Seq) -> Option<Timestamp> {
        self.run.open_calls.iter().find(|open| open.call == call).map(|open| open.began)
    }

    pub(crate) fn context(&self, call: Seq) -> ToolContext {
        ToolContext {
            run: self.key.clone(),
            call,
            began: self.began(call).unwrap_or_else(|| self.wall()),
            root: self.accepted().root,
            user: self.accepted().user.clone(),
            depth: self.accepted().depth,
            definition: self.definition.clone(),
            hosts: self.hosts.clone(),
            volumes: self.engine.parts.volumes.clone(),
            redactor: self.engine.parts.redactor.clone(),
            evidence: None,
            woken: None,
            progress: Arc::new(CallProgress::new(
                &self.engine.activities,
                &self.engine.parts.redactor,
                self.accepted(),
                call,
            )),
        }
    }
}

/// `text`, cut to about `most` bytes when it is longer: its beginning and its end, with a notice between them.
pub(crate) fn shortened(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let (mut head, mut tail) = (most / 2, text.len() - most / 2);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n[truncated: {} bytes omitted]\n{}", &text[..head], tail - head, &text[tail..])
}
