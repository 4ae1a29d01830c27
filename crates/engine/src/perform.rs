//! Performing effects: model turns and tool calls, and what their outcomes become in the journal.

use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use drawloom_contract::{
    executor::{AskedBy, CallPlan},
    failure::RunError,
    message::{Thought, ToolUse},
    model::{Model, Turn, TurnError, TurnRequest},
    money::{Cost, Spent},
    record::{Body, CallDone, CallStarted, Notice, RepeatClass, Seq, TurnDone, TurnFailed},
    time::Timestamp,
    tool::{Answer, Gates, Repeat, Step, Tool, ToolContext, ToolError},
    usage::Usage,
    wait::WaitChange,
};
use futures::{
    FutureExt,
    future::{BoxFuture, Either, select},
};
use serde_json::Value;

use crate::{
    budget::{CostGrant, Reservation},
    deltas::TurnDeltas,
    driver::Driver,
    fallback::FallbackDecision,
    permit::Permit,
};

/// Most bytes of a tool's result that the model is shown.
pub(crate) const MOST_RESULT_BYTES: usize = 1024 * 1024;

/// Most tool calls and thoughts of one answer together; each is one part of the conversation from then on.
pub(crate) const MOST_PARTS: usize = 16_384;

/// How long a tool may take to look at what its call will change.
const EVIDENCE_TIME: Duration = Duration::from_secs(30);

/// An effect whose intent is journaled.
pub(crate) enum Task {
    Turn { request: TurnRequest, permit: Permit },
    Call { call: Seq, tool: Arc<dyn Tool>, context: ToolContext, input: Value },
}

/// Whether a call was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    Yes,
    /// Others of the tree have reserved the money that it needs; when one of them is done, the run is woken.
    Later,
}

/// What an effect came to.
pub(crate) enum Done {
    Turn {
        turn: u32,
        attempt: u32,
        result: Result<Turn, TurnError>,
    },
    /// The turn was not asked for: the provider's credential was closed before.
    Postponed {
        turn: u32,
        attempt: u32,
    },
    Call {
        call: Seq,
        result: Result<Step, ToolError>,
    },
}

impl Task {
    /// Does it. A panic inside becomes a failure of this effect.
    pub(crate) fn perform(self, driver: &Driver) -> BoxFuture<'static, Done> {
        match self {
            Self::Turn { request, mut permit } => {
                let (turn, attempt) = (request.turn, request.attempt);
                let model = driver.model();
                let name = driver.run.model.clone();
                let engine = driver.engine.clone();
                async move {
                    let key = request.run.clone();
                    if !permit.call().await {
                        return Done::Postponed { turn, attempt };
                    }
                    let began = engine.parts.clock.now();
                    let work = async {
                        let deltas = TurnDeltas::new(&engine.feed, &engine.parts.redactor, &key, turn, attempt);
                        let limit = Duration::from_millis(engine.parts.config.model_turn_timeout_ms);
                        let late = engine.parts.clock.sleep_awake_until(engine.parts.clock.awake().after(limit));
                        let result = match &model {
                            // A stream that drips is never idle, so the whole turn has a limit too.
                            Some(model) => match select(model.turn(request, &deltas), late).await {
                                Either::Left((result, _)) => result.and_then(bounded),
                                Either::Right(_) => Err(TurnError::Cut {
                                    message: format!("the turn took longer than {} s", limit.as_secs_f64()),
                                }),
                            },
                            None => {
                                Err(TurnError::BadRequest { message: "the provider is no longer configured".into() })
                            }
                        };
                        if result.is_ok() {
                            deltas.flush();
                        }
                        result
                    };
                    let result = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
                        Err(TurnError::BadRequest {
                            message: "the model's driver failed unexpectedly; this is a bug".into(),
                        })
                    });
                    permit.end(&result);
                    let outcome = result.as_ref().map_or_else(TurnError::code, |_| "ok");
                    engine.meters.called(&name, outcome, engine.parts.clock.now().since(began));
                    Done::Turn { turn, attempt, result }
                }
                .boxed()
            }
            Self::Call { call, tool, context, input } => {
                let engine = driver.engine.clone();
                let root = driver.accepted().root;
                let narrowed = driver.accepted().narrowed_tools.clone();
                async move {
                    let work = AssertUnwindSafe(tool.call(&context, input)).catch_unwind().await;
                    let result = work.unwrap_or_else(|_| {
                        Err(ToolError::Failed("the tool failed unexpectedly (it panicked); the run goes on".into()))
                    });
                    if let Ok(Step::Spawn { starts, .. }) = &result {
                        let agents = starts.iter().map(|start| (&start.agent, narrowed.as_deref()));
                        engine.ask_for_tools(&context.run.tenant, agents).await;
                        engine.open_tree(&context.run.tenant, root).await;
                    }
                    Done::Call { call, result }
                }
                .boxed()
            }
        }
    }
}

impl Driver {
    fn model(&self) -> Option<Arc<dyn Model>> {
        self.engine.parts.providers.get(&self.run.model.provider).map(|provider| provider.model.clone())
    }

    /// Makes an outcome a record.
    pub(crate) fn take_in(&mut self, done: Done) {
        match done {
            Done::Turn { turn, result: Ok(result), .. } => self.end_turn(turn, result),
            Done::Turn { turn, attempt, result: Err(error) } => self.fail_turn(turn, attempt, &error),
            Done::Postponed { turn, attempt } => {
                self.settle(Spent::default());
                let error =
                    RunError::new("throttled", "the provider takes no calls now, so that this one was not made");
                let retry_at = Some(self.wall());
                self.push(Body::TurnFailed(TurnFailed {
                    turn,
                    attempt,
                    error,
                    retry_at,
                    counted: false,
                    maybe_paid: false,
                }));
            }
            Done::Call { call, result } => {
                if self.asked_again.remove(&call) {
                    self.waits.push(WaitChange::End { run: self.key.clone(), call });
                }
                match result {
                    Ok(Step::Done(Answer { text, cost })) => self.end_call(call, text, false, cost),
                    Ok(Step::Wait(wait)) => self.begin_wait(call, wait),
                    Ok(Step::Spawn { starts, collect }) => self.spawn_children(call, starts, collect),
                    Err(error) => self.end_call(call, error.to_string(), true, None),
                }
            }
        }
    }

    fn end_turn(&mut self, turn: u32, mut result: Turn) {
        let assumed = result.usage.total() == 0 && self.run.reserved.tokens > 0;
        if assumed {
            result.usage = self.reserved_usage();
        }
        let cost = result.cost.or_else(|| Some(self.engine.price(&self.run.model)?.of(&result.usage)));
        self.settle(Spent { tokens: result.usage.total(), cost: cost.unwrap_or_default() });
        self.engine.meters.spent(&self.run.model, result.usage, cost);
        // Providers that count anew in each turn, or leave the id out, would mix the calls of a conversation up.
        for (index, call) in result.calls.iter_mut().enumerate() {
            if call.id.is_empty() || !self.call_ids.insert(call.id.clone()) {
                call.id = format!("call_{turn}_{index}");
                self.call_ids.insert(call.id.clone());
            }
        }
        let masked = |(_, call): &(u32, &ToolUse)| self.engine.parts.redactor.clean(call.input.clone()).is_masked();
        let unmasked: HashMap<u32, Value> =
            (0..).zip(&result.calls).filter(masked).map(|(index, call)| (index, call.input.clone())).collect();
        let mut masked: Vec<u32> = unmasked.keys().copied().collect();
        masked.sort_unstable();
        self.unmasked = unmasked;
        let masked_thoughts = self.mask_thoughts(&mut result.thoughts);
        self.push(Body::TurnDone(TurnDone {
            turn,
            text: result.text,
            thinking: String::new(),
            thoughts: result.thoughts,
            calls: result.calls,
            masked,
            stop_reason: result.stop_reason,
        }));
        self.push(Body::Usage { turn, usage: result.usage, cost, assumed });
        if assumed {
            let text = format!("{} did not say what turn {turn} cost", self.run.model);
            self.push(Body::Notice { notice: Notice::UsageAssumed, text });
        }
        if masked_thoughts > 0 {
            let text = format!("{masked_thoughts} thoughts held a secret; they are kept without text and not replayed");
            self.push(Body::Notice { notice: Notice::ReasoningMasked, text });
        }
    }

    /// Takes the text out of signed thoughts that the redactor would change: their signature would be wrong. Says how many.
    fn mask_thoughts(&self, thoughts: &mut Vec<Thought>) -> usize {
        let redactor = &self.engine.parts.redactor;
        let before = thoughts.len();
        thoughts.retain(|thought| {
            let signed = thought.signature.is_some() || thought.sealed.is_some();
            !(signed && redactor.clean(thought.clone()).is_masked())
        });
        before - thoughts.len()
    }

    fn fail_turn(&mut self, turn: u32, attempt: u32, error: &TurnError) {
        let reserved = self.run.reserved;
        let maybe_paid = matches!(error, TurnError::Cut { .. });
        self.settle(if maybe_paid { reserved } else { Spent::default() });
        let (mut retry_at, counted) = self.retry(error);
        // Those who say "slow down" are left alone; others get their tries first.
        let way = match error {
            TurnError::Throttled { .. } | TurnError::Overloaded { .. } => self.fallback(error),
            _ if retry_at.is_none() => self.fallback(error),
            _ => FallbackDecision::Stay,
        };
        if matches!(way, FallbackDecision::Switch { .. }) {
            retry_at = Some(self.wall());
        }
        if retry_at.is_some() {
            self.engine.meters.retried();
        }
        let mut said = RunError::new(error.code(), error.to_string());
        said.hint = error.hint().map(str::to_owned);
        self.push(Body::TurnFailed(TurnFailed { turn, attempt, error: said.clone(), retry_at, counted, maybe_paid }));
        if maybe_paid {
            self.assume_paid(turn, reserved);
        }
        match way {
            FallbackDecision::Stay => {}
            FallbackDecision::Suppressed(text) => {
                self.push(Body::Notice { notice: Notice::FallbackSuppressed, text });
            }
            FallbackDecision::Switch { attempt, target } => self.switch(turn, attempt, *target, said),
        }
    }

    /// Takes what was set aside for a turn as spent: it was begun, and nobody says what it cost.
    pub(crate) fn assume_paid(&mut self, turn: u32, reserved: Spent) {
        if reserved.tokens == 0 {
            return;
        }
        let usage = Usage { input_tokens: reserved.tokens, ..Usage::default() };
        let cost = Some(reserved.cost).filter(|cost| *cost > Cost(0));
        self.push(Body::Usage { turn, usage, cost, assumed: true });
        let text = format!("turn {turn} broke off, and {} did not say what it cost", self.run.model);
        self.push(Body::Notice { notice: Notice::UsageAssumed, text });
    }

    /// What is set aside for the turn in flight, as tokens read and written.
    fn reserved_usage(&self) -> Usage {
        let output = u64::from(self.granted).min(self.run.reserved.tokens);
        let input_tokens = self.run.reserved.tokens - output;
        Usage { input_tokens, output_tokens: output, ..Usage::default() }
    }

    /// When a failed turn is tried again, and whether that counts.
    fn retry(&self, error: &TurnError) -> (Option<Timestamp>, bool) {
        let tries = self.run.counted_failures;
        let attempts = self.accepted().models.retry_attempts.unwrap_or(self.pinned.definition.retry_attempts);
        let left = tries < attempts;
        let backoff = |base: u64, tries: u32| {
            let millis = base.saturating_mul(1 << tries.min(6));
            self.wall().after(Duration::from_millis(millis + self.engine.chance(millis / 2 + 1)))
        };
        match error {
            TurnError::Throttled { retry_after: Some(wait), .. }
            | TurnError::Overloaded { retry_after: Some(wait), .. } => {
                (Some(self.wall().after(*wait + Duration::from_millis(self.engine.chance(100)))), false)
            }
            // The limiter says when there is room again.
            TurnError::Throttled { .. } | TurnError::Overloaded { .. } if self.is_limited() => {
                (Some(self.wall()), false)
            }
            TurnError::Throttled { .. } | TurnError::Overloaded { .. } => {
                (Some(backoff(1_000, self.run.turn_in_flight.map_or(0, |(_, attempt)| attempt - 1))), false)
            }
            TurnError::Unavailable { .. } => (left.then(|| backoff(500, tries)), true),
            TurnError::Cut { .. } if tries == 0 => (left.then(|| self.wall()), true),
            TurnError::Cut { .. } => (left.then(|| backoff(250, tries)), true),
            TurnError::Refused { .. }
            | TurnError::BadRequest { .. }
            | TurnError::Auth { .. }
            | TurnError::ContextTooLong { .. } => (None, false),
        }
    }

    fn is_limited(&self) -> bool {
        let provider = self.engine.parts.providers.get(&self.run.model.provider);
        provider.is_some_and(|provider| provider.credential.is_some())
    }

    /// Ends the reservation of the turn in flight and books what it cost.
    pub(crate) fn settle(&mut self, spent: Spent) {
        if let Some(reservation) = self.reserved.take() {
            reservation.settle(spent);
        }
    }

    pub(crate) fn end_call(&mut self, call: Seq, mut text: String, is_error: bool, cost: Option<Cost>) {
        match self.reserved_calls.remove(&call) {
            Some(reservation) => reservation.settle(Spent { tokens: 0, cost: cost.unwrap_or_default() }),
            None => self.book_cost(cost),
        }
        // Before it is cut: a part of a secret would not be recognised.
        self.engine.parts.redactor.mask(&mut text);
        if let Some(open) = self.run.open_calls.iter().find(|open| open.call == call) {
            let started = &open.started;
            let name = started.tool_use.name.as_str();
            // Models invent names; only those that there are count by name.
            let is_known = started.by_executor || self.engine.toolbox.find(name).is_some();
            let name = if is_known { name } else { "unknown" };
            self.engine.meters.tool(name, is_error);
        }
        self.push(Body::CallDone(CallDone {
            call,
            text: shortened(text, MOST_RESULT_BYTES),
            is_error,
            in_doubt: false,
            cost,
        }));
    }

    /// Journals the intent of a call. One that is refused gets its result at once; one that has to wait for money is not begun.
    pub(crate) async fn begin_call(&mut self, plan: CallPlan) -> Begun {
        let CallPlan { turn, index, tool_use, masked, asked_by } = plan;
        let written = self.unmasked.remove(&index);
        let most = self.engine.parts.config.max_calls_per_turn;
        let tool = self.tool_for(asked_by, &tool_use.name).filter(|_| index < most);
        let mut context = self.context(self.run.seq + 1);
        let input = written.clone().unwrap_or_else(|| tool_use.input.clone());
        let withheld = tool.as_ref().and_then(|_| self.engine.toolbox.withheld(&tool_use.name, self.gates()));
        let mut refusal = match (&tool, masked && written.is_none()) {
            (Some(_), _) if withheld.is_some() => withheld,
            (None, _) if index >= most => Some(format!(
                "too_many_calls: not executed. A turn may make {most} tool calls, and this is call {} of the turn. Make the \
                 rest in your next turns.",
                index + 1
            )),
            (None, _) => Some(self.unknown_tool(&tool_use.name)),
            (Some(_), true) => {
                Some("its input held a secret, which was masked; after a restart it cannot be executed".into())
            }
            (Some(_), false) => None,
        };
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
                    refusal = Some("the tool failed unexpectedly (it panicked) and was not called".into());
                }
                Either::Right(_) => {
                    refusal = Some("what is there now could not be looked at in time, so that nothing was done".into());
                }
            }
        }
        let mut reserved_cost = None;
        if let (Some(tool), None) = (&tool, &refusal)
            && let Some(most) = tool.most_cost(&context, &input).filter(|_| !self.owners.is_empty())
        {
            self.open_accounts().await;
            match self.engine.budgets.reserve_cost(&self.owners, &self.key, most) {
                CostGrant::Granted => reserved_cost = Some(most),
                CostGrant::Exhausted { left } => {
                    refusal = Some(format!(
                        "budget_exhausted: this call may cost {}, and {} is left of the budget",
                        most.units(),
                        left.units()
                    ));
                }
                CostGrant::Later => {
                    if let Some(written) = written {
                        self.unmasked.insert(index, written);
                    }
                    return Begun::Later;
                }
            }
        }
        let conditions = tool.as_ref().filter(|_| refusal.is_none()).and_then(|tool| tool.conditions(&context));
        context.evidence = evidence.clone();
        let by_executor = asked_by == AskedBy::Executor;
        let started =
            CallStarted { turn, index, tool_use, repeat, evidence, conditions, masked, by_executor, reserved_cost };
        let call = self.push(Body::CallStarted(started));
        match (tool, refusal) {
            (Some(tool), None) => {
                if let Some(cost) = reserved_cost {
                    let reserved = Spent { tokens: 0, cost };
                    self.reserved_calls.insert(call, Reservation::new(&self.engine, &self.owners, reserved));
                }
                self.tasks.push(Task::Call { call, tool, context, input });
            }
            (_, refusal) => self.end_call(call, refusal.unwrap_or_default(), true, None),
        }
        Begun::Yes
    }

    /// Reserves what a call of an earlier process had reserved, which is made again.
    pub(crate) fn reserve_again(&mut self, call: Seq, cost: Cost) {
        let reserved = Spent { tokens: 0, cost };
        self.engine.budgets.take_over(&self.owners, reserved);
        self.reserved_calls.insert(call, Reservation::new(&self.engine, &self.owners, reserved));
    }

    /// Takes what is reserved for calls as spent: they were begun, and nothing says what they cost.
    pub(crate) fn assume_calls_paid(&mut self) {
        let open: Vec<(u32, Option<Cost>)> =
            self.run.open_calls.iter().map(|open| (open.started.turn, open.started.reserved_cost)).collect();
        for (_, reservation) in self.reserved_calls.drain() {
            reservation.assume();
        }
        for (turn, cost) in open.into_iter().filter(|(_, cost)| cost.is_some()) {
            self.push(Body::Usage { turn, usage: Usage::default(), cost, assumed: true });
        }
    }

    fn book_cost(&self, cost: Option<Cost>) {
        if let Some(cost) = cost {
            self.engine.budgets.book(&self.owners, Spent { tokens: 0, cost });
        }
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
            true => format!("there is no tool `{name}`; this agent has no tools"),
            false => {
                let names: Vec<&str> = self.cards.iter().map(|card| card.name.as_str()).collect();
                format!("there is no tool `{name}` for this agent; it has {}", names.join(", "))
            }
        }
    }

    pub(crate) fn context(&self, call: Seq) -> ToolContext {
        ToolContext {
            run: self.key.clone(),
            call,
            depth: self.accepted().depth,
            definition: self.definition.clone(),
            hosts: self.hosts.clone(),
            volumes: self.engine.parts.volumes.clone(),
            redactor: self.engine.parts.redactor.clone(),
            evidence: None,
            woken: None,
        }
    }
}

/// The turn, unless it has more parts than a conversation can carry.
fn bounded(turn: Turn) -> Result<Turn, TurnError> {
    match turn.calls.len() + turn.thoughts.len() {
        parts if parts > MOST_PARTS => Err(TurnError::Cut {
            message: format!("the answer has {parts} tool calls and thoughts; {MOST_PARTS} are allowed"),
        }),
        _ => Ok(turn),
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
    format!("{}\n[cut: {} bytes are left out here]\n{}", &text[..head], tail - head, &text[tail..])
}
