//! The operations list and the protocols that reach it.
