//! The engine on a real store, with the scripted model and real tools.

mod bounds;
mod budgets;
mod callers;
mod children;
mod clocks;
mod conformance;
mod dialects;
mod evidence;
mod executors;
mod falling_back;
mod following;
mod following_trees;
mod house;
mod limiting;
mod limits;
mod providers;
mod resuming;
mod retrying;
mod simple;
mod stopping;
mod thinking;
mod trials;
mod unreadable;
mod waiting;
mod waking;
mod woken;
