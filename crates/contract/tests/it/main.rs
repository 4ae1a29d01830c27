//! Tests of what `contract` does itself. They are not in `src`: a change there builds every crate again.

mod caller;
mod ids;
mod money;
mod suggest;
mod wait;
