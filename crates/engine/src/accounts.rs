//! The budgets that a run counts against: its tree's, and those of the parts of the tree that it is in.

use std::sync::Arc;

use drawloom_contract::{
    ids::{RunId, RunKey},
    money::{Cost, Spent},
    record::{Accepted, Body, Seq},
    usage::Usage,
};

use crate::{
    budget::{Limits, Reservation},
    run_task::RunTask,
};

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
                    self.engine.read(|| self.engine.parts.reader.tree_spent(&key)).await.unwrap_or(all)
                }
            };
            self.engine.budgets.open(*owner, limits_of(self.accepted(), *owner), spent);
        }
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

    /// Books what a call cost that had nothing reserved.
    pub(crate) fn book_cost(&self, cost: Option<Cost>) {
        if let Some(cost) = cost {
            self.engine.budgets.book(&self.owners, Spent { tokens: 0, cost });
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
