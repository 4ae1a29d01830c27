//! The binary as a library: config, wiring, commands.
