//! What everything else is made of: ids, times, money, limits as data, what a call does now, the nearest known name, and streams that go
//! on. The others use them as `contract::ids` and so on.

pub mod activity;
pub mod ids;
pub mod limits;
pub mod money;
pub mod streams;
pub mod suggest;
pub mod time;
