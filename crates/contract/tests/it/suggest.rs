//! Did-you-mean.

use drawloom_contract::suggest::closest;

#[test]
fn a_typo_finds_its_word_and_another_word_does_not() {
    let words = ["agent", "agent_id", "prompt", "tools"];
    for (typed, meant) in [
        ("agnet", Some("agent")),
        ("agentid", Some("agent_id")),
        ("agent-id", Some("agent_id")),
        ("promt", Some("prompt")),
        ("Tools", Some("tools")),
        ("colour", None),
        ("", None),
    ] {
        assert_eq!(closest(typed, words), meant, "{typed}");
    }
    for (typed, other) in [("b", "a"), ("Zsh", "Bash")] {
        assert_eq!(closest(typed, [other]), None, "{typed}");
    }
    assert_eq!(closest(&"x".repeat(10_000), words), None);
}
