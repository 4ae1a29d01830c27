//! The budgets that a run counts against: its tree's, and those of the parts of the tree that it is in.

use std::sync::Arc;

use drawloom_contract::{
    ids::{RunId, RunKey},
    money::{Cost, Spent},
    record::{Accepted, Body, Seq},
    run::OpenCall,
    usage::Usage,
};

use crate::{budget::Limits, run_task::RunTask};

impl RunTask {
    /// Opens the accounts of the budgets that the run counts against.
    pub(crate) async fn open_accounts(&mut self) {
        for owner in self.owners.clone().iter() {
            if self.engine.budgets.is_open(*owner) {
                continue;
            }
            let spent = match self.run.view.seq <= 2 && *owner == self.key.run {
                true => Spent::default(),
                false => {
                    let key = RunKey { tenant: self.key.tenant.clone(), run: *owner };
                    let all = Spent { tokens: u64::MAX, cost: Cost(u64::MAX) };
                    let total = self.engine.read(|| self.engine.parts.reader.tree_total(&key)).await;
                    total.map_or(all, |total| total.spent)
                }
            };
            self.engine.budgets.open(*owner, limits_of(self.accepted(), *owner), spent);
        }
    }

    /// Reserves what the open calls had reserved when they began: another process may have begun them.
    pub(crate) async fn hold_calls(&mut self) {
        if self.run.open_calls.iter().any(|open| open.started.reserved_cost.is_some()) {
            self.open_accounts().await;
        }
        for open in &self.run.open_calls {
            if let Some(cost) = open.started.reserved_cost {
                self.engine.budgets.hold(&self.owners, &self.key, open.call, cost);
            }
        }
    }

    /// Ends what a call has reserved and books what it cost.
    pub(crate) fn settle_call(&self, call: Seq, cost: Option<Cost>) {
        for next in self.engine.budgets.settle_call(&self.owners, &self.key, call, cost.unwrap_or_default()) {
            self.engine.wake(next);
        }
    }

    /// Takes what is reserved for calls as spent: they were begun, and nothing says what they cost.
    pub(crate) fn assume_calls_paid(&mut self) {
        let reserved = |open: &OpenCall| Some((open.call, open.started.turn, open.started.reserved_cost?));
        let open: Vec<(Seq, u32, Cost)> = self.run.open_calls.iter().filter_map(reserved).collect();
        for (call, turn, cost) in open {
            self.settle_call(call, Some(cost));
            self.push(Body::Usage { turn, usage: Usage::default(), cost: Some(cost), assumed: true });
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

/// Whether money counts for a run.
pub(crate) fn has_money(accepted: &Accepted) -> bool {
    accepted.budget_cost.is_some() || accepted.part_budgets.iter().any(|part| part.cost.is_some())
}

fn limits_of(accepted: &Accepted, owner: RunId) -> Limits {
    match accepted.part_budgets.iter().find(|budget| budget.run == owner) {
        Some(part) => Limits { tokens: part.tokens, cost: part.cost },
        None => Limits { tokens: accepted.budget_tokens, cost: accepted.budget_cost },
    }
}
