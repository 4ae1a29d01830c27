//! The proxy between a host and a server that misbehaves: real sockets on loopback.

mod calls;
mod host;
mod instances;
mod limits;
mod moving;
mod outages;
mod sessions;
mod upstream;
mod withdrawals;
