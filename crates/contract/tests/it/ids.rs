//! The forms of ids and names.

use std::sync::atomic::{AtomicU8, Ordering};

use drawloom_contract::{
    ids::{AgentName, RunId, UserId},
    time::{Entropy, NoEntropy, Timestamp},
};

struct Counter(AtomicU8);

impl Entropy for Counter {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        bytes.fill(self.0.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }
}

#[test]
fn an_id_reads_back_as_it_was_written_and_sorts_by_time() {
    let entropy = Counter(9.into());
    let early = RunId::mint(Timestamp::from_millis(1_000), &entropy).expect("entropy");
    let late = RunId::mint(Timestamp::from_millis(1_001), &entropy).expect("entropy");
    assert!(early < late && early.to_string() < late.to_string());
    assert_eq!(late.to_string().parse::<RunId>(), Ok(late));
    assert_eq!(serde_json::from_str::<RunId>(&serde_json::to_string(&late).expect("ids encode")).ok(), Some(late));
}

#[test]
fn what_is_not_an_id_is_refused_with_its_form() {
    for bad in ["", "r_", "r_12", "s_00000000000000000000000000000000", "r_0000000000000000000000000000000G", "r_é"] {
        let error = bad.parse::<RunId>().expect_err(bad);
        assert!(error.to_string().contains("r_ followed by 32 hex digits"), "{error}");
    }
    for bad in ["", "a b", "ä", "a/b", &"x".repeat(129)] {
        assert!(bad.parse::<UserId>().is_err(), "{bad:?}");
    }
    for bad in ["", "/", "a//b", "a/", "a b"] {
        assert!(bad.parse::<AgentName>().is_err(), "{bad:?}");
    }
    assert!("group/name-1.2".parse::<AgentName>().is_ok());
}
