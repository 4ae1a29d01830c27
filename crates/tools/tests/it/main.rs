//! The tools as a run calls them: real files, real processes, and sockets that never leave the machine.

mod agent;
mod bash;
mod edits;
mod guards;
mod limits;
mod list;
mod reads;
mod searches;
mod secrets;
mod staging;
mod support;
mod walls;
mod web;
