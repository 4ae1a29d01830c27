//! Model APIs over real sockets, against servers on loopback that are as strict as the real ones.

mod conversations;
mod failures;
mod fixture;
mod limits;
mod mutations;
mod requests;
mod responses;
mod servers;
mod spans;
mod streams;
