//! Models that behave like providers: they bear so much at once, think, and insist on their own reasoning.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom_contract::{
    choice::{Effort, Sampling},
    message::{Message, Thought, ToolUse},
    model::{Deltas, ListedModel, Model, ModelCard, Turn, TurnError, TurnRequest},
    money::{Cost, Price},
    record::StopReason,
    usage::Usage,
};

/// Three units for a million tokens read, fifteen for a million written.
pub(crate) fn price() -> Price {
    Price {
        input: Cost(3_000_000_000),
        output: Cost(15_000_000_000),
        cache_write: Cost(3_750_000_000),
        cache_read: Cost(300_000_000),
    }
}

/// What a call came to at the provider.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) refused: bool,
    pub(crate) in_flight: u32,
}

/// Bears `most` calls at once, each for `takes`, and refuses the rest at once.
pub(crate) struct Bearing {
    pub(crate) most: u32,
    pub(crate) takes: Duration,
    pub(crate) refuse: fn() -> TurnError,
    pub(crate) in_flight: AtomicU32,
    pub(crate) log: Mutex<Vec<Call>>,
}

impl Bearing {
    pub(crate) fn new(most: u32, refuse: fn() -> TurnError) -> Arc<Self> {
        let takes = Duration::from_millis(20);
        Arc::new(Self { most, takes, refuse, in_flight: AtomicU32::new(0), log: Mutex::default() })
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.log.lock().expect("no panic while held").clone()
    }
}

pub(crate) fn card() -> ModelCard {
    ModelCard {
        context_tokens: Some(200_000),
        max_tokens: 1_000,
        thinks: true,
        thinks_with_tools: true,
        takes_tools: None,
        counts_tools: true,
        vision: true,
        native_cache: true,
        plain_sibling: None,
        price: Some(price()),
    }
}

fn answer(text: &str, output_tokens: u64) -> Turn {
    let usage = Usage { input_tokens: 10, output_tokens, ..Usage::default() };
    Turn { text: text.into(), usage, ..Turn::default() }
}

#[async_trait]
impl Model for Bearing {
    fn card(&self, _: &str) -> ModelCard {
        card()
    }

    async fn turn(&self, request: TurnRequest, _: &dyn Deltas) -> Result<Turn, TurnError> {
        struct Leave<'a>(&'a AtomicU32);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst);
        let _leave = Leave(&self.in_flight);
        let refused = in_flight >= self.most;
        self.log.lock().expect("no panic while held").push(Call { refused, in_flight });
        if refused {
            return Err((self.refuse)());
        }
        tokio::time::sleep(self.takes).await;
        Ok(answer("borne", u64::from(request.max_tokens.min(900))))
    }

    async fn look_up(&self, _: &str) {}

    fn ignored(&self, _: &str, sampling: &Sampling, _: Option<Effort>) -> Vec<&'static str> {
        if sampling.top_k.is_some() { vec!["top_k"] } else { vec![] }
    }

    async fn list(&self) -> Result<Vec<ListedModel>, TurnError> {
        Ok(Vec::new())
    }
}

/// Thinks with signatures of its own, counts its calls anew in each turn, calls `Probe` in every turn but its last, and fails in the turns it is told to.
pub(crate) struct Thinker {
    pub(crate) name: &'static str,
    /// Turns in which it says "slow down", as long as it has refusals left.
    pub(crate) refuses: Mutex<Vec<u32>>,
    pub(crate) last_turn: u32,
    pub(crate) card: ModelCard,
    pub(crate) seen: Mutex<Vec<String>>,
}

impl Thinker {
    fn sign(&self, model: &str, turn: u32) -> String {
        format!("{}/{model}/{turn}", self.name)
    }

    /// What is wrong with a conversation, for a strict provider.
    fn complain(&self, request: &TurnRequest) -> Option<String> {
        let mut own = 0;
        let mut ids = std::collections::HashSet::new();
        for message in &request.messages {
            let Message::Assistant { thoughts, calls, .. } = &**message else { continue };
            if !calls.iter().all(|call| ids.insert(call.id.clone())) {
                return Some("tool_use ids must be unique".into());
            }
            own += u32::from(!thoughts.is_empty());
            let prefix = format!("{}/{}/", self.name, request.model);
            let foreign = thoughts.iter().filter_map(|thought| thought.signature.as_ref());
            if let Some(signature) = foreign.into_iter().find(|signature| !signature.starts_with(&prefix)) {
                return Some(format!("foreign reasoning {signature}"));
            }
        }
        let turns = request.messages.iter().filter(|message| matches!(***message, Message::Assistant { .. })).count();
        let demands = self.card.plain_sibling.is_some() && self.card.plain_sibling.as_deref() != Some(&*request.model);
        (demands && (own as usize) < turns).then(|| "missing reasoning".to_owned())
    }
}

#[async_trait]
impl Model for Thinker {
    fn card(&self, model: &str) -> ModelCard {
        match self.card.plain_sibling.as_deref() == Some(model) {
            true => ModelCard { plain_sibling: None, thinks: false, ..self.card.clone() },
            false => self.card.clone(),
        }
    }

    async fn turn(&self, request: TurnRequest, _: &dyn Deltas) -> Result<Turn, TurnError> {
        let turn = request.turn;
        {
            let mut refuses = self.refuses.lock().expect("no panic while held");
            if let Some(place) = refuses.iter().position(|refused| *refused == turn) {
                refuses.remove(place);
                let retry_after = Some(Duration::from_millis(300));
                return Err(TurnError::Throttled { message: format!("{} is busy", self.name), retry_after });
            }
        }
        if let Some(message) = self.complain(&request) {
            return Err(TurnError::BadRequest { message });
        }
        self.seen.lock().expect("no panic while held").push(format!("{turn} {}", request.model));
        let thinks = self.card(&request.model).thinks;
        let signature = thinks.then(|| self.sign(&request.model, turn));
        let thought = Thought { text: format!("thought {turn}"), signature, ..Thought::default() };
        let calls = match turn >= self.last_turn {
            true => vec![],
            false => vec![ToolUse { id: "call_0".into(), name: "Probe".into(), input: serde_json::json!({}) }],
        };
        let stop_reason = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let thoughts = if thinks { vec![thought] } else { vec![] };
        Ok(Turn { thoughts, calls, stop_reason, ..answer(&format!("{} {turn}", self.name), 50) })
    }

    async fn look_up(&self, _: &str) {}

    fn ignored(&self, _: &str, sampling: &Sampling, _: Option<Effort>) -> Vec<&'static str> {
        if sampling.top_k.is_some() { vec!["top_k"] } else { vec![] }
    }

    async fn list(&self) -> Result<Vec<ListedModel>, TurnError> {
        Ok(Vec::new())
    }
}
