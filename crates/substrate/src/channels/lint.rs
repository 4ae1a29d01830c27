//! What lint finds about the channels of an agent, beside what the tool's gate says.

use std::collections::BTreeMap;

use drawloom_contract::{
    definition::{Definition, matches},
    suggest::closest,
};

use super::{ChannelConfig, PUBLISH_GATE, RESERVED, SUBSCRIBE_GATE, rules::MOST_WAIT_MS, tool::NAME};
use crate::lint::Weight;

/// Findings about the channels of an agent, in a config that has these channels.
pub(crate) fn findings(definition: &Definition, channels: &BTreeMap<String, ChannelConfig>) -> Vec<(Weight, String)> {
    let name = &definition.name;
    let gates = [PUBLISH_GATE, SUBSCRIBE_GATE].map(|gate| (gate, definition.gate(gate)));
    let is_listed = definition.tools.iter().any(|pattern| matches(pattern, NAME));
    let is_empty = gates.iter().all(|(_, names)| names.is_empty());
    let mut found = Vec::new();
    let dead = |channel: &str| channels.keys().any(|known| channel == format!("{known}.dead"));
    let named = |channel: &str| channels.values().any(|known| known.dead_letter.as_deref() == Some(channel));
    for (gate, pattern) in gates.iter().flat_map(|(gate, names)| names.iter().map(move |name| (gate, name))) {
        let is_known = channels.keys().any(|channel| matches(pattern, channel)) || dead(pattern) || named(pattern);
        if pattern.starts_with(RESERVED) {
            found.push((
                Weight::Warning,
                format!(
                    "`{gate}` of agent {name} names {pattern:?}, but no channel can have a name that begins with \
                     {RESERVED}: calls that use it fail (remove it, or name another channel)"
                ),
            ));
        } else if !is_known {
            let is_name = !pattern.ends_with('*');
            let similar = closest(pattern, channels.keys().map(String::as_str).filter(|_| is_name));
            let guess = similar.map(|similar| format!("did you mean {similar:?}? Or ")).unwrap_or_default();
            found.push((
                Weight::Warning,
                format!(
                    "`{gate}` of agent {name} names {pattern:?}, but no such channel is known: until it is created, \
                     calls that use it fail ({guess}add it under `channels`, or use create_channel)"
                ),
            ));
        }
    }
    if is_listed && !is_empty {
        found.extend(waits(definition));
    }
    found
}

/// Waits that a prompt asks for: too long ones are clipped, and short ones use up turns.
fn waits(definition: &Definition) -> Option<(Weight, String)> {
    let asked = wait_ms_in(&definition.system_prompt);
    let (longest, shortest) = (asked.iter().max().copied()?, asked.iter().min().copied()?);
    let (name, turns) = (&definition.name, definition.max_iterations);
    if longest > MOST_WAIT_MS {
        let message = format!(
            "the prompt of agent {name} asks for wait_ms {longest}, but a call of Channel waits at most {MOST_WAIT_MS} ms"
        );
        return Some((Weight::Warning, message));
    }
    (shortest > 0 && shortest < SHORT_WAIT_MS).then(|| {
        let message = format!(
            "the prompt of agent {name} asks for wait_ms {shortest}: each subscribe that times out uses one of its {turns} \
             turns (`max_iterations`); a waiting call costs nothing, so ask for a longer wait"
        );
        (Weight::Warning, message)
    })
}

/// Waits below this make an agent subscribe again and again.
const SHORT_WAIT_MS: u64 = 60_000;

/// The numbers that follow `wait_ms` in a text.
fn wait_ms_in(text: &str) -> Vec<u64> {
    let number = |rest: &str| {
        let rest = rest.trim_start_matches(['"', '\'', '`', ' ', ':', '=']);
        let digits: String = rest.chars().take_while(|letter| letter.is_ascii_digit() || *letter == '_').collect();
        digits.replace('_', "").parse().ok()
    };
    text.split("wait_ms").skip(1).filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_channel_is_told_with_a_similar_name() {
        let channels = BTreeMap::from([("questions".to_owned(), ChannelConfig::default())]);
        let mut agent = drawloom_testkit::definition("a", "script", "m");
        let found =
            |agent: &Definition| findings(agent, &channels).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        agent.gates.insert(PUBLISH_GATE.into(), vec!["quetsions".into()]);
        assert!(found(&agent)[0].contains("(did you mean \"questions\"? Or add it under"), "{:?}", found(&agent));
        agent.gates.insert(PUBLISH_GATE.into(), vec!["other".into(), "quetsion*".into()]);
        assert!(found(&agent).iter().all(|text| text.contains("(add it under")), "{:?}", found(&agent));
        agent.gates.insert(PUBLISH_GATE.into(), vec!["_system/x".into()]);
        let reserved = found(&agent);
        assert!(reserved[0].contains("_system/") && !reserved[0].contains("create_channel"), "{reserved:?}");
        agent.gates.insert(PUBLISH_GATE.into(), vec!["quest*".into(), "questions.dead".into()]);
        assert_eq!(found(&agent), [""; 0]);
    }
}
