//! Plain values that everything else is made of: ids, times, money, what a call does now, and the nearest known name. The others use them as
//! `contract::ids` and so on.

pub mod activity;
pub mod ids;
pub mod money;
pub mod suggest;
pub mod time;
