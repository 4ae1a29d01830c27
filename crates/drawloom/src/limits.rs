//! Every limit with its default: the lists of all crates, joined. `docs/reference/limits.md` is generated from it.

use drawloom_contract::limits::Limit;

/// The lists, by the title of their section of the reference page.
pub static LIMITS: &[(&str, &[Limit])] =
    &[("Runs", drawloom_engine::LIMITS), ("Connections and requests", drawloom_server::LIMITS)];
