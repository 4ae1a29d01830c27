//! Token budgets: one account for each tree, from which every call sets its tokens aside before it is made.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use drawloom_contract::ids::RunId;

/// A turn that has less room than this for its answer is not worth asking for.
const SMALLEST_ANSWER: u64 = 16;

#[derive(Debug, Clone, Copy, Default)]
struct Account {
    limit: u64,
    spent: u64,
    reserved: u64,
}

/// What a turn may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant {
    /// This many tokens were set aside; the answer may have `max_tokens` of them.
    Granted {
        /// Set aside.
        reserved: u64,
        /// For the answer.
        max_tokens: u32,
    },
    /// Not enough for another turn with a last one after it.
    LastTurnOnly,
    /// Not enough for anything.
    Exhausted,
}

/// The accounts of the trees that have runs in this process.
#[derive(Default)]
pub(crate) struct Budgets {
    accounts: Mutex<HashMap<RunId, Account>>,
}

impl Budgets {
    pub(crate) fn is_open(&self, root: RunId) -> bool {
        self.lock().contains_key(&root)
    }

    /// Opens a tree's account; one that is open stays as it is.
    pub(crate) fn open(&self, root: RunId, limit: u64, spent: u64) {
        self.lock().entry(root).or_insert(Account { limit, spent, reserved: 0 });
    }

    pub(crate) fn close(&self, root: RunId) {
        self.lock().remove(&root);
    }

    /// Sets tokens aside for a turn. A turn with tools takes at most half of what is left, so that a last one can be paid.
    pub(crate) fn reserve(&self, root: RunId, input: u64, max_tokens: u32, last_turn: bool) -> Grant {
        let mut accounts = self.lock();
        let account = accounts.entry(root).or_default();
        let left = account.limit.saturating_sub(account.spent).saturating_sub(account.reserved);
        let room = left.saturating_sub(input);
        if room < SMALLEST_ANSWER {
            return Grant::Exhausted;
        }
        let room = if last_turn { room } else { room.saturating_sub(input) / 2 };
        if room < SMALLEST_ANSWER {
            return Grant::LastTurnOnly;
        }
        let max_tokens = u32::try_from(room).unwrap_or(u32::MAX).min(max_tokens);
        let reserved = input + u64::from(max_tokens);
        account.reserved += reserved;
        Grant::Granted { reserved, max_tokens }
    }

    /// Ends a turn's reservation and books what it cost.
    pub(crate) fn settle(&self, root: RunId, reserved: u64, spent: u64) {
        if let Some(account) = self.lock().get_mut(&root) {
            account.reserved = account.reserved.saturating_sub(reserved);
            account.spent = account.spent.saturating_add(spent);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_aside_never_exceeds_the_limit_and_a_last_turn_can_be_paid() {
        let (budgets, root) = (Budgets::default(), RunId::from_bytes([1; 16]));
        budgets.open(root, 1_000, 0);
        let mut total = 0;
        while let Grant::Granted { reserved, .. } = budgets.reserve(root, 50, 400, false) {
            total += reserved;
        }
        assert_eq!(budgets.reserve(root, 50, 400, false), Grant::LastTurnOnly);
        let Grant::Granted { reserved, .. } = budgets.reserve(root, 50, 400, true) else { panic!("a last turn") };
        total += reserved;
        assert!(total <= 1_000, "{total}");
        assert_eq!(budgets.reserve(root, 50, 400, true), Grant::Exhausted);
        budgets.settle(root, total, 100);
        assert!(matches!(budgets.reserve(root, 50, 400, false), Grant::Granted { max_tokens: 400, .. }));
    }
}
