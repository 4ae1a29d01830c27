//! What `./prove` runs in full and `./test` in small: kills at every point (`kill.rs`), a storm of crashes, a soak, and
//! upgrades under load. The environment says how much: `PROVE_SEED`, `PROVE_POINTS`, `PROVE_KILLS`, `PROVE_FREEZES`,
//! `PROVE_SECONDS`, `PROVE_UPGRADES`, `PROVE_REQUESTS`, `PROVE_CHANGES`, `PROVE_MESSAGES`, and `PROVE_OLD_FIXTURE` names the fixture of an older version that
//! upgrades begin with.

mod channels;
mod definitions;
mod memory;
mod soak;
mod storm;
mod upgrade;

use std::time::Duration;

/// A setting from the environment, or what `./test` uses.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        Err(_) => default,
    }
}

/// A line of the result: `./prove` writes it down.
pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "prove: {text}").expect("stderr");
}

/// Lets time pass. Crashes at random times are what is tested, so there is no event to wait for.
pub(crate) fn pass(millis: u64) {
    let (_kept, never) = std::sync::mpsc::channel::<()>();
    let _ = never.recv_timeout(Duration::from_millis(millis));
}

/// Numbers by chance, the same for the same seed.
#[derive(Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from `low` to below `high`.
    pub(crate) fn roll(&mut self, low: u64, high: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        low + self.0 % (high - low)
    }
}
