//! Budgets: one account for each tree, from which every call sets tokens and money aside before it is made.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use drawloom_contract::{
    ids::{RunId, RunKey},
    money::{Cost, Price, Spent},
};

use crate::Engine;

/// A turn that has less room than this for its answer is not worth asking for.
const SMALLEST_ANSWER: u64 = 16;

/// What a tree may spend; without a limit when absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) tokens: Option<u64>,
    pub(crate) cost: Option<Cost>,
}

impl Limits {
    /// Whether there is any.
    pub(crate) fn is_any(&self) -> bool {
        self.tokens.is_some() || self.cost.is_some()
    }
}

/// What a turn would take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// Tokens to read, rather too many.
    pub(crate) input: u64,
    /// Most tokens to write.
    pub(crate) max_tokens: u32,
    /// What they cost.
    pub(crate) price: Option<Price>,
    /// Whether it is the run's last turn.
    pub(crate) last_turn: bool,
}

/// What a turn may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant {
    /// This much was set aside; the answer may have `max_tokens`.
    Granted {
        /// Set aside.
        reserved: Spent,
        /// For the answer.
        max_tokens: u32,
    },
    /// Others have set aside what this turn needs; when one of them is done, the run is woken.
    Later,
    /// Not enough for another turn with a last one after it.
    LastTurnOnly,
    /// Not enough for anything.
    Exhausted,
}

#[derive(Debug, Default)]
struct Account {
    limits: Limits,
    spent: Spent,
    reserved: Spent,
    waiting: VecDeque<RunKey>,
}

/// What a turn has set aside; given back when it is dropped without having been settled.
pub(crate) struct Reservation {
    engine: Arc<Engine>,
    root: RunId,
    reserved: Spent,
}

impl Reservation {
    pub(crate) fn new(engine: &Arc<Engine>, root: RunId, reserved: Spent) -> Self {
        Self { engine: engine.clone(), root, reserved }
    }

    /// Books what the turn cost.
    pub(crate) fn settle(mut self, spent: Spent) {
        self.end(spent);
    }

    fn end(&mut self, spent: Spent) {
        let reserved = std::mem::take(&mut self.reserved);
        if let Some(next) = self.engine.budgets.settle(self.root, reserved, spent) {
            self.engine.wake(next);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.reserved != Spent::default() {
            self.end(Spent::default());
        }
    }
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
    pub(crate) fn open(&self, root: RunId, limits: Limits, spent: Spent) {
        self.lock().entry(root).or_insert(Account { limits, spent, ..Account::default() });
    }

    pub(crate) fn close(&self, root: RunId) {
        self.lock().remove(&root);
    }

    /// Sets aside what a turn of `run` may take. Also gives another run that waits, when there may be room for it too.
    pub(crate) fn reserve(&self, root: RunId, run: &RunKey, ask: Ask) -> (Grant, Option<RunKey>) {
        let mut accounts = self.lock();
        let account = accounts.entry(root).or_default();
        account.waiting.retain(|waiting| waiting != run);
        let grant = account.grant(ask);
        match grant {
            Grant::Granted { reserved, .. } => {
                account.reserved = account.reserved + reserved;
                (grant, account.waiting.pop_front())
            }
            Grant::Later => {
                account.waiting.push_back(run.clone());
                (grant, None)
            }
            Grant::LastTurnOnly | Grant::Exhausted => (grant, account.waiting.pop_front()),
        }
    }

    /// Ends a turn's reservation and books what it cost. Gives a run that waits, which may find room now.
    pub(crate) fn settle(&self, root: RunId, reserved: Spent, spent: Spent) -> Option<RunKey> {
        let mut accounts = self.lock();
        let account = accounts.get_mut(&root)?;
        account.reserved.tokens = account.reserved.tokens.saturating_sub(reserved.tokens);
        account.reserved.cost = Cost(account.reserved.cost.0.saturating_sub(reserved.cost.0));
        account.spent = account.spent + spent;
        account.waiting.pop_front()
    }

    /// Whether a run waits here.
    #[cfg(test)]
    pub(crate) fn holds(&self, root: RunId, run: &RunKey) -> bool {
        self.lock().get(&root).is_some_and(|account| account.waiting.contains(run))
    }

    /// A run that was woken cannot go on for another reason: gives the next one that waits.
    pub(crate) fn pass_on(&self, root: RunId, run: &RunKey) -> Option<RunKey> {
        let mut accounts = self.lock();
        let account = accounts.get_mut(&root)?;
        account.waiting.retain(|waiting| waiting != run);
        account.waiting.pop_front()
    }

    /// Books what was spent and never set aside in this process.
    pub(crate) fn book(&self, root: RunId, spent: Spent) {
        if let Some(account) = self.lock().get_mut(&root) {
            account.spent = account.spent + spent;
        }
    }

    /// A run will not come.
    pub(crate) fn forget(&self, root: RunId, run: &RunKey) {
        if let Some(account) = self.lock().get_mut(&root) {
            account.waiting.retain(|waiting| waiting != run);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    fn grant(&self, ask: Ask) -> Grant {
        let wanted = u64::from(ask.max_tokens);
        // Beside a turn that is not the last, one more must be payable.
        let aside = if ask.last_turn { 0 } else { ask.input + SMALLEST_ANSWER };
        let room = self.room(ask, 0);
        if self.room(ask, aside) >= wanted {
            return self.granted(ask, wanted);
        }
        if self.reserved != Spent::default() {
            return Grant::Later;
        }
        if room < SMALLEST_ANSWER {
            return Grant::Exhausted;
        }
        let room = if ask.last_turn { room } else { self.room(ask, ask.input) / 2 };
        match room < SMALLEST_ANSWER {
            true => Grant::LastTurnOnly,
            false => self.granted(ask, room.min(wanted)),
        }
    }

    /// Tokens that an answer could have, with the input paid and `aside` tokens more kept.
    fn room(&self, ask: Ask, aside: u64) -> u64 {
        let by_tokens = self.limits.tokens.map(|limit| {
            let left = limit.saturating_sub(self.spent.tokens).saturating_sub(self.reserved.tokens);
            left.saturating_sub(ask.input).saturating_sub(aside)
        });
        let by_cost = self.limits.cost.map(|limit| {
            // Without a price nobody can say what is left.
            let Some(price) = ask.price else { return 0 };
            let left = limit.0.saturating_sub(self.spent.cost.0).saturating_sub(self.reserved.cost.0);
            let fixed = price.at_most(ask.input.saturating_add(aside), 0);
            let left = u128::from(left.saturating_sub(fixed.0));
            match (left, price.output.0) {
                (0, _) => 0,
                (_, 0) => u64::MAX,
                (left, output) => u64::try_from(left * 1_000_000 / u128::from(output)).unwrap_or(u64::MAX),
            }
        });
        by_tokens.unwrap_or(u64::MAX).min(by_cost.unwrap_or(u64::MAX))
    }

    fn granted(&self, ask: Ask, output: u64) -> Grant {
        let cost = self.limits.cost.and(ask.price).map(|price| price.at_most(ask.input, output)).unwrap_or_default();
        let reserved = Spent { tokens: ask.input + output, cost };
        Grant::Granted { reserved, max_tokens: u32::try_from(output).unwrap_or(u32::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use drawloom_contract::ids::Tenant;

    use super::*;

    fn root() -> RunId {
        RunId::from_bytes([1; 16])
    }

    fn run(number: u8) -> RunKey {
        RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([number; 16]) }
    }

    fn ask(input: u64, max_tokens: u32, last_turn: bool) -> Ask {
        let price = Price {
            input: Cost(3_000_000_000),
            output: Cost(15_000_000_000),
            cache_write: Cost(3_750_000_000),
            cache_read: Cost(300_000_000),
        };
        Ask { input, max_tokens, price: Some(price), last_turn }
    }

    #[test]
    fn what_is_set_aside_never_exceeds_the_limit_and_the_rest_waits() {
        for limits in [
            Limits { tokens: Some(1_000), cost: None },
            Limits { tokens: None, cost: Some(Cost(15_000_000)) },
            Limits { tokens: Some(1_000), cost: Some(Cost(15_000_000)) },
        ] {
            let budgets = Budgets::default();
            budgets.open(root(), limits, Spent::default());
            let mut reservations = Vec::new();
            let mut number = 1;
            while let (Grant::Granted { reserved, .. }, _) = budgets.reserve(root(), &run(number), ask(50, 200, false))
            {
                reservations.push(reserved);
                number += 1;
            }
            assert!(reservations.len() > 1);
            let total = reservations.iter().fold(Spent::default(), |sum, more| sum + *more);
            assert!(total.tokens <= 1_000 && total.cost <= Cost(15_000_000), "{total:?}");
            assert!(budgets.holds(root(), &run(number)));
            // Whoever is done makes room for the first who waits.
            let little = Spent { tokens: 10, cost: Cost(10_000) };
            assert_eq!(budgets.settle(root(), reservations[0], little), Some(run(number)));
            let (grant, _) = budgets.reserve(root(), &run(number), ask(50, 200, false));
            assert!(matches!(grant, Grant::Granted { max_tokens: 200, .. }), "{grant:?}");
        }
    }

    #[test]
    fn alone_a_turn_gets_what_is_left_and_a_last_one_can_be_paid() {
        let budgets = Budgets::default();
        budgets.open(root(), Limits { tokens: Some(1_000), cost: None }, Spent::default());
        let mut spent = 0;
        let last = loop {
            match budgets.reserve(root(), &run(1), ask(50, 400, false)).0 {
                Grant::Granted { reserved, .. } => {
                    spent += reserved.tokens;
                    budgets.settle(root(), reserved, reserved);
                }
                other => break other,
            }
        };
        assert_eq!(last, Grant::LastTurnOnly);
        let (Grant::Granted { reserved, .. }, _) = budgets.reserve(root(), &run(1), ask(50, 400, true)) else {
            panic!("a last turn")
        };
        assert!(spent + reserved.tokens <= 1_000, "{spent} and {reserved:?}");
        budgets.settle(root(), reserved, reserved);
        assert_eq!(budgets.reserve(root(), &run(1), ask(50, 400, true)).0, Grant::Exhausted);
    }

    #[test]
    fn without_a_price_no_money_can_be_promised() {
        let budgets = Budgets::default();
        budgets.open(root(), Limits { tokens: None, cost: Some(Cost(1_000_000_000)) }, Spent::default());
        let unpriced = Ask { price: None, ..ask(1, 16, false) };
        assert_eq!(budgets.reserve(root(), &run(1), unpriced).0, Grant::Exhausted);
    }
}
