//! What goes over a socket: request and response types, the error body, events, the typed client.

pub mod agents;
pub mod body;
pub mod client;
pub mod error;
pub mod events;
pub mod house;
pub mod models;
pub mod operations;
pub mod retention;
pub mod runs;
pub mod validate;
