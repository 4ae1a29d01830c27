//! Which server is meant: who found an address in a data directory says whose it was.

use axum::http::HeaderMap;
use drawloom_contract::failure::{Failure, FailureKind};
use drawloom_wire::upstream::INSTANCE;

/// Refuses a request that is meant for another server, which had this address before. One that does not say whom it means
/// means any.
pub(crate) fn check_instance(own: &str, headers: &HeaderMap) -> Result<(), Failure> {
    match headers.get(INSTANCE) {
        Some(meant) if meant.as_bytes() != own.as_bytes() => {
            let what = "the request is meant for another server that used this address before";
            Err(Failure::new(FailureKind::Conflict, "wrong_instance", what)
                .with_hint("read the server's current address from `server.json` in its data directory"))
        }
        Some(_) | None => Ok(()),
    }
}
