//! Model turns: room at the provider and in the budget, the request, the answer or the failure, and the next try.

use std::{
    collections::{HashMap, HashSet},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use drawloom_contract::{
    executor::TurnPlan,
    failure::RunError,
    message::{Thought, ToolUse},
    model::{Model, Turn, TurnError, TurnRequest},
    money::{Cost, Spent},
    record::{Body, Limit, Notice, TurnDone, TurnFailed, TurnStarted},
    time::Timestamp,
    tool::ToolCard,
    usage::Usage,
    wait::Cause,
};
use futures::{
    FutureExt,
    future::{BoxFuture, Either, select},
};
use serde_json::Value;
use tracing::Instrument as _;

use crate::{
    budget::{Ask, Grant, Reservation},
    deltas::TurnDeltas,
    estimate,
    fallback::FallbackDecision,
    permit::Permit,
    price,
    run_task::{Done, RunTask, Task},
};

/// Most output tokens of a turn, when nobody says anything else.
const USUAL_MAX_TOKENS: u32 = 8_192;

/// Most tool calls and thoughts of one answer together; each is one part of the conversation from then on.
pub(crate) const MOST_PARTS: usize = 16_384;

/// What a run that asks a model keeps of its turns, beside its fold.
#[derive(Default)]
pub(crate) struct Turns {
    /// What is reserved for the turn in flight.
    reserved: Option<Reservation>,
    /// Tokens that the turn in flight reads, at most.
    input: u64,
    /// Inputs of the newest turn's calls that the redactor changed, as the model wrote them.
    pub(crate) unmasked: HashMap<u32, Value>,
    /// The ids of all calls so far.
    call_ids: HashSet<String>,
}

/// What a turn came to.
pub(crate) struct TurnEnd {
    turn: u32,
    attempt: u32,
    /// `None` when the model was not asked: the provider's credential was closed before.
    result: Option<Result<Turn, TurnError>>,
}

impl Turns {
    /// Takes in a record of the run.
    pub(crate) fn apply(&mut self, body: &Body) {
        if let Body::TurnDone(done) = body {
            self.call_ids.extend(done.calls.iter().map(|call| call.id.clone()));
        }
    }
}

impl RunTask {
    /// Journals the intent of a turn, or that the run waits for room; says no when a record tells that the budget does
    /// not allow the turn, or that another model is asked: then something else comes next.
    pub(crate) async fn begin_turn(&mut self, plan: TurnPlan) -> bool {
        if let Some((attempt, target)) = self.leave_refusing_provider() {
            // If it waited for its turn there, that is for somebody else now.
            self.engine.forget_waiting(&self.key);
            self.switch(plan.turn, attempt, target, not_made());
            return false;
        }
        self.engine.look_up(&self.run.model).await;
        let Some(permit) = self.permit() else {
            // If it was woken because there is room in the budget, that is for somebody else now.
            for next in self.engine.budgets.pass_on(&self.owners, &self.key) {
                self.engine.wake(next);
            }
            self.park_for(Cause::RateLimit);
            return true;
        };
        let model = self.run.model.clone();
        let card = self.engine.card(&model);
        let usual = || card.as_ref().map_or(USUAL_MAX_TOKENS, |card| card.max_tokens);
        let mut max_tokens = match (self.pinned.definition.max_tokens, self.run.switched) {
            (Some(asked), None) => asked,
            // What was meant for another model may be more than this one takes.
            (Some(asked), Some(_)) => asked.min(usual()),
            (None, _) => usual(),
        };
        let counted: &[ToolCard] = if card.as_ref().is_none_or(|card| card.counts_tools) { &self.cards } else { &[] };
        let input = estimate::input_tokens(&plan, counted);
        self.turns.input = input;
        if let Some(context) = card.as_ref().and_then(|card| card.context_tokens) {
            max_tokens = max_tokens.min(estimate::room(context, input));
        }
        let ask = Ask { input, max_tokens, price: self.engine.price(&model), last_turn: !plan.tools };
        let mut reserved = Spent::default();
        if !self.owners.is_empty() {
            match self.reserve(ask).await {
                Grant::Granted { reserved: taken, max_tokens: granted } => {
                    reserved = taken;
                    self.turns.reserved = Some(Reservation::new(&self.engine, &self.owners, taken));
                    max_tokens = granted;
                }
                Grant::Later => {
                    self.park_for(Cause::Budget);
                    return true;
                }
                refused @ (Grant::LastTurnOnly | Grant::Exhausted) => {
                    self.push(Body::LimitReached { limit: Limit::Budget, last_turn: refused == Grant::LastTurnOnly });
                    return false;
                }
            }
        }
        // Without a budget nothing is set aside; the estimate is what the turn is assumed to cost when the provider never says.
        if self.owners.is_empty() && ask.price.is_some() {
            reserved = ask.most(u64::from(max_tokens));
        }
        self.push(Body::TurnStarted(TurnStarted {
            turn: plan.turn,
            attempt: plan.attempt,
            tools: plan.tools,
            reserved: reserved.tokens,
            reserved_cost: Some(reserved.cost).filter(|cost| *cost > Cost(0)),
        }));
        let effort = self.run.switched.map_or(self.pinned.definition.effort, |(_, effort)| effort);
        let request = TurnRequest {
            run: self.key.clone(),
            root: self.accepted().root,
            agent: self.accepted().agent.clone(),
            model: model.model,
            turn: plan.turn,
            attempt: plan.attempt,
            system: plan.system,
            messages: plan.messages,
            tools: if plan.tools { self.cards.clone() } else { Arc::new([]) },
            max_tokens,
            effort,
            sampling: Arc::new(self.accepted().models.sampling.clone()),
        };
        self.tasks.push(Task::Turn { request, permit });
        true
    }

    /// Sets aside what a turn may take from the tree's budget.
    async fn reserve(&mut self, ask: Ask) -> Grant {
        self.open_accounts().await;
        let (grant, next) = self.engine.budgets.reserve(&self.owners, &self.key, ask);
        for next in next {
            self.engine.wake(next);
        }
        grant
    }

    /// Asks the model for a turn whose intent is journaled.
    pub(crate) fn ask_model(&self, request: TurnRequest, mut permit: Permit) -> BoxFuture<'static, Done> {
        let (turn, attempt) = (request.turn, request.attempt);
        let model = self.model();
        let name = self.run.model.clone();
        let span = tracing::debug_span!("turn", turn, attempt, model = %name);
        let engine = self.engine.clone();
        let asking = async move {
            let key = request.run.clone();
            if !permit.call().await {
                return Done::Turn(TurnEnd { turn, attempt, result: None });
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
                        Either::Right(_) => {
                            Err(TurnError::Cut { message: format!("timed out after {} s", limit.as_secs_f64()) })
                        }
                    },
                    None => Err(TurnError::BadRequest { message: "the provider is no longer configured".into() }),
                };
                if result.is_ok() {
                    deltas.flush();
                }
                result
            };
            let result = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
                Err(TurnError::BadRequest { message: "internal error: the model driver panicked".into() })
            });
            permit.end(&result);
            let outcome = result.as_ref().map_or_else(TurnError::code, |_| "ok");
            engine.meters.called(&name, outcome, engine.parts.clock.now().since(began));
            Done::Turn(TurnEnd { turn, attempt, result: Some(result) })
        };
        asking.instrument(span).boxed()
    }

    fn model(&self) -> Option<Arc<dyn Model>> {
        self.engine.parts.providers.get(&self.run.model.provider).map(|provider| provider.model.clone())
    }

    /// Journals what a turn came to.
    pub(crate) fn take_in_turn(&mut self, end: TurnEnd) {
        let TurnEnd { turn, attempt, result } = end;
        match result {
            Some(Ok(result)) => self.end_turn(turn, result),
            Some(Err(error)) => self.fail_turn(turn, attempt, &error),
            None => self.postpone_turn(turn, attempt),
        }
    }

    /// The turn was not asked for: the provider's credential was closed before.
    fn postpone_turn(&mut self, turn: u32, attempt: u32) {
        self.settle(Spent::default());
        let (error, retry_at) = (not_made(), Some(self.wall()));
        self.push(Body::TurnFailed(TurnFailed { turn, attempt, error, retry_at, counted: false, maybe_paid: false }));
    }

    fn end_turn(&mut self, turn: u32, mut result: Turn) {
        let assumed = result.usage.total() == 0;
        if assumed {
            result.usage = estimate::usage(self.turns.input, &result);
        }
        let cost = result.cost.or_else(|| Some(price::cost(&self.engine.price(&self.run.model)?, &result.usage)));
        self.settle(Spent { tokens: result.usage.total(), cost: cost.unwrap_or_default() });
        self.engine.meters.spent(&self.run.model, result.usage, cost);
        // Providers that count anew in each turn, or leave the id out, would mix the calls of a conversation up.
        for (index, call) in result.calls.iter_mut().enumerate() {
            if call.id.is_empty() || !self.turns.call_ids.insert(call.id.clone()) {
                call.id = format!("call_{turn}_{index}");
                self.turns.call_ids.insert(call.id.clone());
            }
        }
        let masked = |(_, call): &(u32, &ToolUse)| self.engine.parts.redactor.clean(call.input.clone()).is_masked();
        let unmasked: HashMap<u32, Value> =
            (0..).zip(&result.calls).filter(masked).map(|(index, call)| (index, call.input.clone())).collect();
        let mut masked: Vec<u32> = unmasked.keys().copied().collect();
        masked.sort_unstable();
        self.turns.unmasked = unmasked;
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
        let is_first = self.run.view.assumed.is_none();
        self.push(Body::Usage { turn, usage: result.usage, cost, assumed });
        if assumed && is_first {
            let text = format!(
                "{} reported no usage for turn {turn}; the tokens of this and later such turns are estimated",
                self.run.model
            );
            self.push(Body::Notice { notice: Notice::UsageAssumed, text });
        }
        if masked_thoughts > 0 {
            let text = format!(
                "{masked_thoughts} reasoning blocks contained a secret; their text was removed and is \
                not sent again"
            );
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
        // A provider that says "slow down" is left alone at once; others get their retries first. Without other models to fall
        // back on the decision is `Stay`, and only the time of the next try counts.
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
        let text = format!(
            "turn {turn} was interrupted and {} reported no usage; the reserved amount is assumed",
            self.run.model
        );
        self.push(Body::Notice { notice: Notice::UsageAssumed, text });
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
            | TurnError::NoTools { .. }
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
        if let Some(reservation) = self.turns.reserved.take() {
            reservation.settle(spent);
        }
    }
}

/// Why a turn was not asked for at a provider that accepts no calls.
fn not_made() -> RunError {
    RunError::new("throttled", "the provider is rate limited; call not sent")
}

/// The turn, unless it has more parts than a conversation can carry.
fn bounded(turn: Turn) -> Result<Turn, TurnError> {
    match turn.calls.len() + turn.thoughts.len() {
        parts if parts > MOST_PARTS => Err(TurnError::Cut {
            message: format!("the response has {parts} tool calls and reasoning blocks; the limit is {MOST_PARTS}"),
        }),
        _ => Ok(turn),
    }
}
