//! The executor `model`: our agent loop, as a fold and a decision.

use std::{collections::HashMap, mem, sync::Arc};

use drawloom_contract::{
    choice::ModelName,
    definition::Definition,
    executor::{AskedBy, CallPlan, Drive, Effect, Executor, TurnPlan},
    failure::RunError,
    message::{Message, ToolResult, ToolUse},
    record::{Body, Limit, Outcome, Record, Seq, Status, StopReason, TurnDone, TurnFailed},
    run::Run,
    time::Timestamp,
    tool::Tool,
};

use crate::conversation;

/// Calls that one decision names.
const CALLS_AT_ONCE: usize = 8;

/// Runs agents on a model.
pub(crate) struct ModelExecutor;

impl Executor for ModelExecutor {
    fn open(&self, definition: Arc<Definition>) -> Box<dyn Drive> {
        Box::new(Loop {
            definition,
            system: "".into(),
            messages: Vec::new(),
            makers: Vec::new(),
            moved: None,
            turns: 0,
            tries: 0,
            offered_tools: true,
            failed: None,
            waited: false,
            calls: Vec::new(),
            unstarted: 0,
            unanswered: 0,
            places: HashMap::new(),
            ended: None,
            limit: None,
        })
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }
}

/// Where the conversation stands.
struct Loop {
    definition: Arc<Definition>,
    system: Arc<str>,
    messages: Vec<Arc<Message>>,
    /// Who made those messages that carry reasoning, by their place.
    makers: Vec<(usize, ModelName)>,
    /// When the model was changed and the run has not been admitted for the other one yet.
    moved: Option<Timestamp>,
    /// Turns that are done.
    turns: u32,
    /// Tries of the turn that comes next.
    tries: u32,
    /// Whether the newest turn was offered tools.
    offered_tools: bool,
    /// The newest try, when it came to nothing.
    failed: Option<TurnFailed>,
    /// Whether the run was parked since then: the one that woke it knows that the time has come, whatever the wall clock says.
    waited: bool,
    /// Calls of the newest turn, in its order, until all have a result.
    calls: Vec<Pending>,
    /// Where those begin that were not started, which is in their order.
    unstarted: usize,
    /// How many have no result.
    unanswered: usize,
    /// The place of each call that was started.
    places: HashMap<Seq, usize>,
    /// Why the newest turn stopped, when it asks for nothing more.
    ended: Option<StopReason>,
    limit: Option<(Limit, bool)>,
}

/// A call of the newest turn.
struct Pending {
    tool_use: ToolUse,
    masked: bool,
    result: Option<ToolResult>,
}

impl Drive for Loop {
    fn apply(&mut self, run: &Run, record: &Record) {
        match &record.body {
            Body::Accepted(accepted) => {
                self.system = conversation::system(&self.definition, accepted);
                self.messages.push(Arc::new(Message::User(conversation::prompt(accepted))));
            }
            Body::TurnStarted(started) => {
                self.tries = started.attempt;
                self.offered_tools = started.tools;
                self.failed = None;
            }
            Body::Switched(_) => self.moved = Some(record.at),
            Body::Parked { .. } => {
                self.moved = None;
                self.waited = true;
            }
            Body::TurnFailed(failed) => {
                self.failed = Some(failed.clone());
                self.waited = false;
            }
            Body::TurnDone(done) => self.end_turn(done, &run.model),
            Body::CallStarted(started) => {
                let place = started.index as usize;
                self.unstarted = self.unstarted.max(place + 1);
                self.places.insert(record.seq, place);
            }
            Body::CallDone(done) => {
                let place = self.places.remove(&done.call);
                if let Some(pending) = place.and_then(|place| self.calls.get_mut(place)) {
                    let id = pending.tool_use.id.clone();
                    let result = ToolResult { id, text: done.text.as_str().into(), is_error: done.is_error };
                    self.unanswered -= usize::from(pending.result.replace(result).is_none());
                }
                if self.unanswered == 0 {
                    let results = mem::take(&mut self.calls).into_iter().filter_map(|pending| pending.result).collect();
                    self.messages.push(Arc::new(Message::Results(results)));
                }
            }
            Body::LimitReached { limit, last_turn } => self.limit = Some((*limit, *last_turn)),
            Body::Admitted { .. }
            | Body::Usage { .. }
            | Body::CallWaiting { .. }
            | Body::Notice { .. }
            | Body::Resumed(_)
            | Body::StopRequested(_)
            | Body::Note { .. }
            | Body::Finished(_) => {}
        }
    }

    fn decide(&self, run: &Run, now: Timestamp) -> Vec<Effect> {
        if run.view.status.is_terminal() || run.turn_in_flight.is_some() {
            return Vec::new();
        }
        if !self.calls.is_empty() {
            return self.unstarted_calls();
        }
        if let Some(since) = self.moved {
            // The other provider has caps of its own: its slot comes by admission.
            return vec![Effect::Wait { until: since }];
        }
        if let Some(failed) = &self.failed {
            match failed.retry_at {
                None => return vec![self.finish_badly(run, failed.error.clone())],
                Some(time) if now < time && !self.waited => return vec![Effect::Wait { until: time }],
                Some(_) => {}
            }
        } else if let Some(reason) = self.ended {
            return vec![self.finish(run, reason)];
        }
        vec![match self.limit {
            Some((Limit::Budget, false)) => {
                let error = RunError::new("budget_exhausted", "the budget was exhausted before the run finished")
                    .with_hint("raise budget.tokens or budget.cost, or reduce the task");
                self.finish_badly(run, error)
            }
            Some((Limit::Budget, true)) => self.turn(run, false),
            None => self.turn(run, self.turns < run.accepted.max_iterations),
        }]
    }
}

impl Loop {
    fn end_turn(&mut self, done: &TurnDone, maker: &ModelName) {
        self.turns = done.turn;
        self.tries = 0;
        // A last turn was offered no tools: whatever it calls, nobody answers.
        let calls = if self.offered_tools { done.calls.clone() } else { Vec::new() };
        self.ended = calls.is_empty().then_some(done.stop_reason);
        if !done.thoughts.is_empty() {
            self.makers.push((self.messages.len(), maker.clone()));
        }
        self.messages.push(Arc::new(Message::Assistant {
            text: done.text.clone(),
            thoughts: done.thoughts.clone(),
            calls: calls.clone(),
        }));
        let pending = (0..).zip(calls).map(|(index, tool_use)| {
            let masked = done.masked.binary_search(&index).is_ok();
            Pending { tool_use, masked, result: None }
        });
        self.calls = pending.collect();
        (self.unstarted, self.unanswered) = (0, self.calls.len());
        self.places.clear();
    }

    /// The next calls to start. Not all of them, because this is asked again after each start: with all of them, the cost
    /// of a turn would grow with the square of its calls.
    fn unstarted_calls(&self) -> Vec<Effect> {
        let unstarted = self.calls.iter().enumerate().skip(self.unstarted).take(CALLS_AT_ONCE);
        unstarted
            .map(|(index, pending)| {
                let (tool_use, masked) = (pending.tool_use.clone(), pending.masked);
                Effect::Call(CallPlan {
                    turn: self.turns,
                    index: index as u32,
                    tool_use,
                    masked,
                    asked_by: AskedBy::Model,
                })
            })
            .collect()
    }

    /// The conversation for `model`: others' reasoning is left out.
    fn conversation(&self, model: &ModelName) -> Vec<Arc<Message>> {
        let mut messages = self.messages.clone();
        for (place, _) in self.makers.iter().filter(|(_, maker)| maker != model) {
            if let Some(message) = messages.get_mut(*place)
                && let Message::Assistant { thoughts, .. } = Arc::make_mut(message)
            {
                thoughts.clear();
            }
        }
        messages
    }

    fn turn(&self, run: &Run, tools: bool) -> Effect {
        Effect::Turn(TurnPlan {
            turn: self.turns + 1,
            attempt: self.tries + 1,
            tools,
            system: self.system.clone(),
            messages: self.conversation(&run.model),
        })
    }

    fn finish(&self, run: &Run, reason: StopReason) -> Effect {
        let mut warnings = run.warnings();
        let stop_reason = match (self.offered_tools, self.limit) {
            (true, _) => reason,
            (false, Some((Limit::Budget, _))) => {
                warnings.push("budget exhausted: the model wrote a final turn without tools".into());
                StopReason::Budget
            }
            (false, None) => {
                warnings.push(format!(
                    "max_iterations ({}) reached: the model wrote a final turn without tools",
                    run.accepted.max_iterations
                ));
                StopReason::MaxIterations
            }
        };
        Effect::Finish(Box::new(Outcome {
            status: Status::Completed,
            stop_reason: Some(stop_reason),
            error: None,
            final_text: None,
            usage: run.view.usage,
            cost: run.view.cost,
            warnings,
        }))
    }

    fn finish_badly(&self, run: &Run, error: RunError) -> Effect {
        Effect::Finish(Box::new(Outcome {
            status: Status::Failed,
            stop_reason: None,
            error: Some(error),
            final_text: None,
            usage: run.view.usage,
            cost: run.view.cost,
            warnings: run.warnings(),
        }))
    }
}

#[cfg(test)]
mod tests;
