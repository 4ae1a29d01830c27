//! The binary as people and programs use it: real processes, real files, real sockets.

mod attach;
mod call;
mod config;
mod demo;
mod doctor;
mod help;
mod house;
mod run;
mod runs;
mod support;
