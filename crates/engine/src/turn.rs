//! Beginning a turn: room at the provider, room in the budget, and the request.

use std::{collections::BTreeSet, sync::Arc};

use drawloom_contract::{
    executor::TurnPlan,
    ids::{RunId, RunKey},
    message::{Message, Part},
    model::TurnRequest,
    money::{Cost, Spent},
    record::{Accepted, Body, Limit, TurnStarted},
    tool::ToolCard,
    wait::Cause,
};

use crate::{
    budget::{Ask, Grant, Limits, Reservation},
    driver::Driver,
    perform::Task,
};

/// Most output tokens of a turn, when nobody says anything else.
const USUAL_MAX_TOKENS: u32 = 8_192;

/// What an image counts for at most.
const MOST_IMAGE_TOKENS: usize = 25_000;

/// What a provider adds by itself when tools are offered.
const TOOL_PREAMBLE_TOKENS: usize = 512;

impl Driver {
    /// Journals the intent of a turn, or that the run waits for room; says no when a record tells that the budget does
    /// not allow the turn: then something else comes next.
    pub(crate) async fn begin_turn(&mut self, plan: TurnPlan) -> bool {
        let Some(permit) = self.permit() else {
            // If it was woken because there is room in the budget, that is for somebody else now.
            for next in self.engine.budgets.pass_on(&self.owners, &self.key) {
                self.engine.wake(next);
            }
            self.park_for(Cause::RateLimit);
            return true;
        };
        let model = self.run.model.clone();
        let usual = || self.engine.card(&model).map_or(USUAL_MAX_TOKENS, |card| card.max_tokens);
        let mut max_tokens = match (self.pinned.definition.max_tokens, self.run.switched) {
            (Some(asked), None) => asked,
            // What was meant for another model may be more than this one takes.
            (Some(asked), Some(_)) => asked.min(usual()),
            (None, _) => usual(),
        };
        let mut reserved = Spent::default();
        if !self.owners.is_empty() {
            match self.reserve(&plan, max_tokens).await {
                Grant::Granted { reserved: taken, max_tokens: granted } => {
                    reserved = taken;
                    self.reserved = Some(Reservation::new(&self.engine, &self.owners, taken));
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
        self.push(Body::TurnStarted(TurnStarted {
            turn: plan.turn,
            attempt: plan.attempt,
            tools: plan.tools,
            reserved: reserved.tokens,
            reserved_cost: Some(reserved.cost).filter(|cost| *cost > Cost(0)),
        }));
        self.granted = max_tokens;
        let effort = self.run.switched.map_or(self.pinned.definition.effort, |(_, effort)| effort);
        let request = TurnRequest {
            run: self.key.clone(),
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
    async fn reserve(&mut self, plan: &TurnPlan, max_tokens: u32) -> Grant {
        self.open_accounts().await;
        let counts_tools = self.engine.card(&self.run.model).is_none_or(|card| card.counts_tools);
        let ask = Ask {
            input: estimate(plan, if counts_tools { &self.cards } else { &[] }),
            max_tokens,
            price: self.engine.price(&self.run.model),
            last_turn: !plan.tools,
        };
        let (grant, next) = self.engine.budgets.reserve(&self.owners, &self.key, ask);
        for next in next {
            self.engine.wake(next);
        }
        grant
    }

    /// Opens the accounts of the budgets that the run counts against.
    pub(crate) async fn open_accounts(&mut self) {
        for owner in self.owners.clone().iter() {
            if self.engine.budgets.is_open(*owner) {
                continue;
            }
            let spent = match self.run.seq <= 2 && *owner == self.key.run {
                true => Spent::default(),
                false => {
                    let key = RunKey { tenant: self.key.tenant.clone(), run: *owner };
                    let all = Spent { tokens: u64::MAX, cost: Cost(u64::MAX) };
                    self.engine.read(|| self.engine.parts.reader.tree_spent(&key)).await.unwrap_or(all)
                }
            };
            self.engine.budgets.open(*owner, limits_of(self.accepted(), *owner), spent);
        }
    }
}

/// The runs at the top of the budgets that a run counts against.
pub(crate) fn owners(accepted: &Accepted) -> Arc<[RunId]> {
    let tree = (accepted.budget_tokens.is_some() || accepted.budget_cost.is_some()).then_some(accepted.root);
    let parts = accepted.part_budgets.iter().map(|budget| budget.run);
    match (tree, parts.len()) {
        (None, 0) => Arc::default(),
        _ => tree.into_iter().chain(parts).collect(),
    }
}

fn limits_of(accepted: &Accepted, owner: RunId) -> Limits {
    match accepted.part_budgets.iter().find(|budget| budget.run == owner) {
        Some(part) => Limits { tokens: part.tokens, cost: part.cost },
        None => Limits { tokens: accepted.budget_tokens, cost: accepted.budget_cost },
    }
}

/// The hosts of `allowed` that the request leaves: what both lists name.
pub(crate) fn hosts(allowed: &[String], asked: Option<&[String]>) -> Arc<[String]> {
    let Some(asked) = asked else { return allowed.into() };
    let within = |host: &str, pattern: &str| match pattern.strip_prefix('*') {
        Some(suffix) => host == pattern || host.ends_with(suffix),
        None => host == pattern,
    };
    let narrower = |left: &String, right: &String| {
        (within(left, right)).then(|| left.clone()).or_else(|| within(right, left).then(|| right.clone()))
    };
    let both = allowed.iter().flat_map(|left| asked.iter().filter_map(move |right| narrower(left, right)));
    let both: BTreeSet<String> = both.collect();
    both.into_iter().collect()
}

/// Tokens that a conversation may take to read: rather too many, because what is set aside must be enough. Plain words
/// have about one for four bytes, dense ones one for two; digits, signs and other scripts up to one a byte.
fn estimate(plan: &TurnPlan, cards: &[ToolCard]) -> u64 {
    let text = |text: &str| {
        let light = text.bytes().filter(|byte| byte.is_ascii_alphabetic() || *byte == b' ').count();
        light.div_ceil(2) + text.len() - light
    };
    let message = |message: &Message| match message {
        Message::User(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text(said) => text(said),
                Part::Image { .. } => MOST_IMAGE_TOKENS,
            })
            .sum::<usize>(),
        Message::Assistant { text: said, thoughts, calls } => {
            text(said)
                + thoughts.iter().map(|thought| text(&thought.text)).sum::<usize>()
                + calls.iter().map(|call| text(&call.name) + text(&call.input.to_string())).sum::<usize>()
        }
        Message::Results(results) => results.iter().map(|result| text(&result.text)).sum(),
    };
    let said: usize = plan.messages.iter().map(|said| message(said) + 16).sum();
    let offered: usize = cards
        .iter()
        .map(|card| text(&card.name) + text(&card.description) + text(&card.input_schema.to_string()) + 16)
        .sum();
    let preamble = if cards.is_empty() { 0 } else { TOOL_PREAMBLE_TOKENS };
    (text(&plan.system) + said + offered + preamble) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_leaves_only_hosts_that_both_lists_name() {
        let left = |allowed: &[&str], asked: &[&str]| {
            let own = |list: &[&str]| list.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
            hosts(&own(allowed), Some(&own(asked))).join(" ")
        };
        assert_eq!(left(&["*"], &["a.example", "*.b.example"]), "*.b.example a.example");
        assert_eq!(left(&["*.example", "c.test"], &["a.example", "c.test", "evil.test"]), "a.example c.test");
        assert_eq!(left(&["a.example"], &["*"]), "a.example");
        assert_eq!(left(&["*"], &[]), "");
        assert_eq!(left(&[], &["*"]), "");
        assert_eq!(left(&["*.example"], &["notexample", "example.evil"]), "");
    }

    #[test]
    fn an_estimate_is_rather_too_large() {
        let plan = |text: &str| TurnPlan {
            turn: 1,
            attempt: 1,
            tools: true,
            system: "".into(),
            messages: vec![Arc::new(Message::user(text))],
        };
        assert_eq!(estimate(&plan("plain words"), &[]), 6 + 16);
        assert_eq!(estimate(&plan("\u{6f22}\u{5b57}"), &[]), 6 + 16);
        let card = ToolCard { name: "T".into(), description: "Does.".into(), input_schema: serde_json::json!({}) };
        assert!(estimate(&plan(""), &[card]) > TOOL_PREAMBLE_TOKENS as u64);
    }
}
