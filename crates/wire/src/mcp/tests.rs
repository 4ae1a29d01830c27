//! What the tests of the proxy share.

use std::sync::atomic::{AtomicU8, Ordering};

use drawloom_contract::time::{Entropy, NoEntropy};

/// Bytes that count up, so that keys differ and are known.
#[derive(Default)]
pub(super) struct Counting(AtomicU8);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        bytes.fill(self.0.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }
}
