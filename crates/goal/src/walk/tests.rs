//! The loop against answers from a script: no engine, no store, no clock. Every decision is also made by a fresh fold of the same records.

mod loops;
mod repository;
mod simulation;
