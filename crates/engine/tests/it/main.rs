//! The engine on a real store, with the scripted model and real tools.

mod budgets;
mod children;
mod following;
mod house;
mod limits;
mod resuming;
mod simple;
mod stopping;
