//! The binary as people and programs use it: real processes, real files, real sockets.

mod attach;
mod backup;
mod call;
mod canary;
mod config;
mod demo;
mod docs;
mod doctor;
mod followers;
mod gone;
mod help;
mod house;
mod init;
mod limits;
mod looks;
mod mcp;
mod mcp_install;
mod mcp_proxy;
mod operate;
mod outside;
mod run;
mod runs;
mod sandbox;
mod support;
mod terminal;
