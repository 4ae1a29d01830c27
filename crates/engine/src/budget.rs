//! Budgets: one account for each tree, from which every call sets tokens and money aside before it is made.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use drawloom_contract::{
    ids::{RunId, RunKey},
    money::{Cost, Price, Spent},
    record::Seq,
};

use crate::{Engine, price::most_cost};

/// A turn that has less room than this for its answer is not worth asking for.
const SMALLEST_ANSWER: u64 = 16;

/// What a tree may spend; without a limit when absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) tokens: Option<u64>,
    pub(crate) cost: Option<Cost>,
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

impl Ask {
    /// The most that the turn takes with an answer of `output` tokens.
    pub(crate) fn most(&self, output: u64) -> Spent {
        let cost = self.price.map(|price| most_cost(&price, self.input, output));
        Spent { tokens: self.input.saturating_add(output), cost: cost.unwrap_or_default() }
    }
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

/// Whether a call may be made that costs money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CostGrant {
    Granted,
    /// Others have reserved what it needs; when one of them is done, the run is woken.
    Later,
    Exhausted {
        left: Cost,
    },
}

#[derive(Debug, Default)]
struct Account {
    limits: Limits,
    spent: Spent,
    reserved: Spent,
    waiting: VecDeque<RunKey>,
    /// What calls have reserved, which is part of `reserved`. A call that waits keeps it while its run is parked.
    held: HashMap<(RunId, Seq), Cost>,
}

/// What a turn has reserved in the accounts that it counts against; given back when it is dropped unsettled.
pub(crate) struct Reservation {
    engine: Arc<Engine>,
    owners: Arc<[RunId]>,
    reserved: Spent,
}

impl Reservation {
    pub(crate) fn new(engine: &Arc<Engine>, owners: &Arc<[RunId]>, reserved: Spent) -> Self {
        Self { engine: engine.clone(), owners: owners.clone(), reserved }
    }

    /// Books what was spent.
    pub(crate) fn settle(mut self, spent: Spent) {
        self.end(spent);
    }

    fn end(&mut self, spent: Spent) {
        let reserved = std::mem::take(&mut self.reserved);
        for next in self.engine.budgets.settle(&self.owners, reserved, spent) {
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

/// The accounts of the trees that have runs in this process, by the run at the top: one for each tree, and one for each part of
/// a tree with a narrower budget. A run counts against all that it is under.
#[derive(Default)]
pub(crate) struct Budgets {
    accounts: Mutex<HashMap<RunId, Account>>,
}

impl Budgets {
    pub(crate) fn is_open(&self, owner: RunId) -> bool {
        self.lock().contains_key(&owner)
    }

    /// Opens an account; one that is open stays as it is.
    pub(crate) fn open(&self, owner: RunId, limits: Limits, spent: Spent) {
        self.lock().entry(owner).or_insert(Account { limits, spent, ..Account::default() });
    }

    pub(crate) fn close(&self, owner: RunId) {
        self.lock().remove(&owner);
    }

    /// Reserves what a turn of `run` may take, in all accounts or none. Also gives other runs that wait, when there may be room for
    /// them too.
    pub(crate) fn reserve(&self, owners: &[RunId], run: &RunKey, ask: Ask) -> (Grant, Vec<RunKey>) {
        let mut accounts = self.lock();
        let mut verdict = Verdict::Granted(u64::MAX);
        for owner in owners {
            let account = accounts.entry(*owner).or_default();
            account.waiting.retain(|waiting| waiting != run);
            let found = account.grant(ask);
            if matches!(found, Verdict::Later) && !matches!(verdict, Verdict::Later) {
                account.waiting.push_back(run.clone());
            }
            verdict = verdict.stricter(found);
        }
        let grant = match verdict {
            Verdict::Later => return (Grant::Later, Vec::new()),
            Verdict::LastTurnOnly => Grant::LastTurnOnly,
            Verdict::Exhausted => Grant::Exhausted,
            Verdict::Granted(output) => {
                // Money too where no budget limits it: it is what the turn is assumed to cost when the provider never says.
                let reserved = ask.most(output);
                take(&mut accounts, owners, reserved);
                Grant::Granted { reserved, max_tokens: u32::try_from(output).unwrap_or(u32::MAX) }
            }
        };
        // One that waits here because of another account would wait in vain.
        for owner in owners {
            if let Some(account) = accounts.get_mut(owner) {
                account.waiting.retain(|waiting| waiting != run);
            }
        }
        (grant, next(&mut accounts, owners))
    }

    /// Reserves money for a call of `run`, in all accounts or none.
    pub(crate) fn reserve_cost(&self, owners: &[RunId], run: &RunKey, call: Seq, cost: Cost) -> CostGrant {
        self.forget(owners, run);
        let mut accounts = self.lock();
        let mut full = None;
        for owner in owners {
            let account = accounts.entry(*owner).or_default();
            let Some(limit) = account.limits.cost else { continue };
            let left = limit.0.saturating_sub(account.spent.cost.0);
            if left < cost.0 {
                return CostGrant::Exhausted { left: Cost(left.saturating_sub(account.reserved.cost.0)) };
            }
            if left.saturating_sub(account.reserved.cost.0) < cost.0 {
                full = Some(*owner);
            }
        }
        match full.and_then(|owner| accounts.get_mut(&owner)) {
            Some(account) => {
                account.waiting.push_back(run.clone());
                CostGrant::Later
            }
            None => {
                hold(&mut accounts, owners, (run.run, call), cost);
                CostGrant::Granted
            }
        }
    }

    /// Ends a reservation and books what was spent. Gives runs that wait, which may find room now.
    pub(crate) fn settle(&self, owners: &[RunId], reserved: Spent, spent: Spent) -> Vec<RunKey> {
        let mut accounts = self.lock();
        for owner in owners {
            let Some(account) = accounts.get_mut(owner) else { continue };
            account.reserved.tokens = account.reserved.tokens.saturating_sub(reserved.tokens);
            account.reserved.cost = Cost(account.reserved.cost.0.saturating_sub(reserved.cost.0));
            account.spent = account.spent + spent;
        }
        next(&mut accounts, owners)
    }

    /// Whether a run waits here.
    #[cfg(test)]
    pub(crate) fn holds(&self, owner: RunId, run: &RunKey) -> bool {
        self.lock().get(&owner).is_some_and(|account| account.waiting.contains(run))
    }

    /// A run that was woken cannot go on for another reason: gives the next ones that wait.
    pub(crate) fn pass_on(&self, owners: &[RunId], run: &RunKey) -> Vec<RunKey> {
        self.forget(owners, run);
        next(&mut self.lock(), owners)
    }

    /// Books what was spent and never reserved in this process.
    pub(crate) fn book(&self, owners: &[RunId], spent: Spent) {
        let mut accounts = self.lock();
        for owner in owners {
            if let Some(account) = accounts.get_mut(owner) {
                account.spent = account.spent + spent;
            }
        }
    }

    /// Reserves what a call had reserved when it began; one that still has it keeps it.
    pub(crate) fn hold(&self, owners: &[RunId], run: &RunKey, call: Seq, cost: Cost) {
        hold(&mut self.lock(), owners, (run.run, call), cost);
    }

    /// Ends what a call has reserved, if anything, and books what it cost. Gives runs that wait, which may find room now.
    pub(crate) fn settle_call(&self, owners: &[RunId], run: &RunKey, call: Seq, cost: Cost) -> Vec<RunKey> {
        let mut accounts = self.lock();
        let mut had_reserved = false;
        for owner in owners {
            let Some(account) = accounts.get_mut(owner) else { continue };
            if let Some(held) = account.held.remove(&(run.run, call)) {
                account.reserved.cost = Cost(account.reserved.cost.0.saturating_sub(held.0));
                had_reserved = true;
            }
            account.spent = account.spent + Spent { tokens: 0, cost };
        }
        if had_reserved { next(&mut accounts, owners) } else { Vec::new() }
    }

    /// A run will not come.
    pub(crate) fn forget(&self, owners: &[RunId], run: &RunKey) {
        let mut accounts = self.lock();
        for owner in owners {
            if let Some(account) = accounts.get_mut(owner) {
                account.waiting.retain(|waiting| waiting != run);
            }
        }
    }

    /// The run has ended: what its calls still had reserved is free, and its own account is closed.
    fn end(&self, owners: &[RunId], run: &RunKey) -> Vec<RunKey> {
        self.forget(owners, run);
        let mut accounts = self.lock();
        accounts.remove(&run.run);
        let mut freed = false;
        for owner in owners {
            let Some(account) = accounts.get_mut(owner) else { continue };
            let held = account.held.extract_if(|(holder, _), _| *holder == run.run);
            let cost = held.fold(0u64, |sum, (_, cost)| sum.saturating_add(cost.0));
            account.reserved.cost = Cost(account.reserved.cost.0.saturating_sub(cost));
            freed |= cost > 0;
        }
        if freed { next(&mut accounts, owners) } else { Vec::new() }
    }

    /// A run will not come, and its accounts are not known.
    pub(crate) fn forget_everywhere(&self, run: &RunKey) {
        for account in self.lock().values_mut() {
            account.waiting.retain(|waiting| waiting != run);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take(accounts: &mut HashMap<RunId, Account>, owners: &[RunId], reserved: Spent) {
    for owner in owners {
        let account = accounts.entry(*owner).or_default();
        account.reserved = account.reserved + reserved;
    }
}

fn hold(accounts: &mut HashMap<RunId, Account>, owners: &[RunId], call: (RunId, Seq), cost: Cost) {
    for owner in owners {
        let account = accounts.entry(*owner).or_default();
        if account.held.insert(call, cost).is_none() {
            account.reserved = account.reserved + Spent { tokens: 0, cost };
        }
    }
}

/// The first that waits in each account.
fn next(accounts: &mut HashMap<RunId, Account>, owners: &[RunId]) -> Vec<RunKey> {
    owners.iter().filter_map(|owner| accounts.get_mut(owner)?.waiting.pop_front()).collect()
}

impl Engine {
    /// The run has ended: nothing of it counts any more but what it spent.
    pub(crate) fn end_account(self: &Arc<Self>, owners: &[RunId], run: &RunKey) {
        for next in self.budgets.end(owners, run) {
            self.wake(next);
        }
    }
}

/// What one account says to a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The answer may have this many tokens.
    Granted(u64),
    Later,
    LastTurnOnly,
    Exhausted,
}

impl Verdict {
    fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Granted(one), Self::Granted(other)) => Self::Granted(one.min(other)),
            (Self::Exhausted, _) | (_, Self::Exhausted) => Self::Exhausted,
            (Self::LastTurnOnly, _) | (_, Self::LastTurnOnly) => Self::LastTurnOnly,
            (Self::Later, _) | (_, Self::Later) => Self::Later,
        }
    }
}

impl Account {
    fn grant(&self, ask: Ask) -> Verdict {
        let wanted = u64::from(ask.max_tokens);
        // Beside a turn that is not the last, one more must be payable.
        let aside = if ask.last_turn { 0 } else { ask.input.saturating_add(SMALLEST_ANSWER) };
        let room = self.room(ask, 0);
        if self.room(ask, aside) >= wanted {
            return Verdict::Granted(wanted);
        }
        if self.reserved != Spent::default() {
            return Verdict::Later;
        }
        if room < SMALLEST_ANSWER {
            return Verdict::Exhausted;
        }
        let room = if ask.last_turn { room } else { self.room(ask, ask.input) / 2 };
        match room < SMALLEST_ANSWER {
            true => Verdict::LastTurnOnly,
            false => Verdict::Granted(room.min(wanted)),
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
            let fixed = most_cost(&price, ask.input.saturating_add(aside), 0);
            let left = u128::from(left.saturating_sub(fixed.0));
            match (left, price.output.0) {
                (0, _) => 0,
                (_, 0) => u64::MAX,
                (left, output) => u64::try_from(left * 1_000_000 / u128::from(output)).unwrap_or(u64::MAX),
            }
        });
        by_tokens.unwrap_or(u64::MAX).min(by_cost.unwrap_or(u64::MAX))
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
            while let (Grant::Granted { reserved, .. }, _) =
                budgets.reserve(&[root()], &run(number), ask(50, 200, false))
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
            assert_eq!(budgets.settle(&[root()], reservations[0], little), [run(number)]);
            let (grant, _) = budgets.reserve(&[root()], &run(number), ask(50, 200, false));
            assert!(matches!(grant, Grant::Granted { max_tokens: 200, .. }), "{grant:?}");
        }
    }

    #[test]
    fn alone_a_turn_gets_what_is_left_and_a_last_one_can_be_paid() {
        let budgets = Budgets::default();
        budgets.open(root(), Limits { tokens: Some(1_000), cost: None }, Spent::default());
        let mut spent = 0;
        let last = loop {
            match budgets.reserve(&[root()], &run(1), ask(50, 400, false)).0 {
                Grant::Granted { reserved, .. } => {
                    spent += reserved.tokens;
                    budgets.settle(&[root()], reserved, reserved);
                }
                other => break other,
            }
        };
        assert_eq!(last, Grant::LastTurnOnly);
        let (Grant::Granted { reserved, .. }, _) = budgets.reserve(&[root()], &run(1), ask(50, 400, true)) else {
            panic!("a last turn")
        };
        assert!(spent + reserved.tokens <= 1_000, "{spent} and {reserved:?}");
        budgets.settle(&[root()], reserved, reserved);
        assert_eq!(budgets.reserve(&[root()], &run(1), ask(50, 400, true)).0, Grant::Exhausted);
    }

    #[test]
    fn a_part_of_a_tree_spends_no_more_than_its_own_budget_and_no_more_than_the_trees() {
        let part = RunId::from_bytes([2; 16]);
        for (tree_limit, part_limit) in [(10_000, 1_000), (1_000, 10_000)] {
            let budgets = Budgets::default();
            budgets.open(root(), Limits { tokens: Some(tree_limit), cost: None }, Spent::default());
            budgets.open(part, Limits { tokens: Some(part_limit), cost: None }, Spent::default());
            let owners = [root(), part];
            let mut spent = 0;
            while let (Grant::Granted { reserved, .. }, _) = budgets.reserve(&owners, &run(3), ask(50, 400, true)) {
                spent += reserved.tokens;
                budgets.settle(&owners, reserved, reserved);
            }
            assert!((900..=1_000).contains(&spent), "{spent}");
            let (beside, _) = budgets.reserve(&[root()], &run(4), ask(50, 400, true));
            assert_eq!(matches!(beside, Grant::Granted { .. }), tree_limit > part_limit, "{beside:?}");
        }
    }

    #[test]
    fn money_for_calls_is_reserved_once_and_what_others_hold_is_waited_for() {
        let budgets = Budgets::default();
        budgets.open(root(), Limits { tokens: None, cost: Some(Cost(100)) }, Spent::default());
        let reserve = |number, cost| budgets.reserve_cost(&[root()], &run(number), 7, Cost(cost));
        let settle = |number, cost| budgets.settle_call(&[root()], &run(number), 7, Cost(cost));
        assert_eq!(reserve(1, 60), CostGrant::Granted);
        assert_eq!(reserve(2, 60), CostGrant::Later);
        assert_eq!(reserve(3, 101), CostGrant::Exhausted { left: Cost(40) });
        assert_eq!(settle(1, 10), [run(2)]);
        assert_eq!(reserve(2, 60), CostGrant::Granted);
        // A call that waited while its run was parked still has it.
        budgets.hold(&[root()], &run(2), 7, Cost(60));
        assert_eq!(reserve(3, 31), CostGrant::Later);
        assert_eq!(settle(2, 60), [run(3)]);
        assert_eq!(reserve(1, 31), CostGrant::Exhausted { left: Cost(30) });
    }

    #[test]
    fn without_a_price_no_money_can_be_promised() {
        let budgets = Budgets::default();
        budgets.open(root(), Limits { tokens: None, cost: Some(Cost(1_000_000_000)) }, Spent::default());
        let unpriced = Ask { price: None, ..ask(1, 16, false) };
        assert_eq!(budgets.reserve(&[root()], &run(1), unpriced).0, Grant::Exhausted);
    }
}
