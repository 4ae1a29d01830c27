//! What an unknown key probably means: a word of another tool, a key without its unit, or a typo.

use drawloom_contract::suggest::closest;

/// Words of other tools, and the keys that mean the same here. A key is a guess only where it is known; the first one wins. Case,
/// `-` and `_` make no difference.
const WORDS: &[(&[&str], &[&str])] = &[
    (
        &["max_turns", "max_iter", "max_steps", "max_loops", "recursion_limit", "turns", "iterations", "steps"],
        &["max_iterations"],
    ),
    (&["max_output_tokens", "max_completion_tokens", "max_new_tokens"], &["max_tokens"]),
    (&["timeout", "max_execution_time", "execution_timeout", "deadline"], &["run_timeout_seconds", "timeout_ms"]),
    (&["retries", "max_retries", "max_retry_limit", "retry", "max_attempts"], &["retry_attempts"]),
    (&["prompt", "instructions", "system", "system_message", "goal", "backstory"], &["system_prompt", "contains"]),
    (&["role", "summary"], &["description"]),
    (&["llm", "model_name"], &["model"]),
    (&["reasoning_effort", "reasoning", "thinking_effort"], &["effort"]),
    (
        &["sub_agents", "children", "team", "crew", "members", "nodes", "services", "handoffs", "allow_delegation"],
        &["agents"],
    ),
    (&["functions", "toolkit", "toolkits"], &["tools"]),
    (&["mounts", "folders", "paths", "files", "workspace", "directories"], &["volumes"]),
    (&["domains", "allowed_hosts", "allowed_domains", "networks"], &["hosts"]),
    (&["max_cost", "max_budget", "max_budget_usd", "limits"], &["budget"]),
    (&["usd", "dollars", "money", "max_cost", "max_budget_usd"], &["cost"]),
    (&["type", "kind", "api"], &["driver"]),
    (&["url", "endpoint", "api_base", "host"], &["base_url"]),
    (&["source", "folder", "directory", "host_path"], &["path"]),
    (&["read_only", "access", "permissions"], &["mode"]),
    (&["working_dir", "workdir", "working_directory"], &["cwd"]),
    (&["environment", "variables"], &["env"]),
    (&["args", "arguments", "entrypoint"], &["command"]),
    (&["port", "bind", "address"], &["listen"]),
    (&["max_workers", "max_parallel", "parallelism", "workers", "max_concurrency"], &["max_concurrent_runs"]),
    (&["days", "ttl_days", "keep_days"], &["max_age_days"]),
    (&["mcp", "servers"], &["mcp_servers"]),
    (&["reply", "response", "answer", "say", "content"], &["text"]),
    (&["sleep_ms", "wait_ms", "latency_ms", "sleep", "wait"], &["delay_ms"]),
    (&["tool_calls"], &["calls"]),
    (&["error"], &["fail"]),
];

/// A shorter key begins too many others.
const SHORTEST_START: usize = 3;

/// The known key that was probably meant by `key`. `aliases` are other names of known keys.
pub(super) fn guess<'a>(
    key: &str,
    names: impl Iterator<Item = &'a str> + Clone,
    aliases: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let synonym = || {
        let key = folded(key);
        let meanings = WORDS.iter().filter(|(words, _)| words.iter().any(|word| folded(word) == key));
        meanings.flat_map(|(_, meant)| *meant).find_map(|meant| names.clone().find(|name| name == meant))
    };
    let start = || {
        let start = format!("{key}_");
        let mut longer = names.clone().filter(|name| key.len() >= SHORTEST_START && name.starts_with(&start));
        longer.next().filter(|_| longer.next().is_none())
    };
    synonym().or_else(start).or_else(|| closest(key, names.clone().chain(aliases)))
}

fn folded(word: &str) -> String {
    word.chars().filter(|character| !matches!(character, '_' | '-')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: [&str; 8] = [
        "agents",
        "description",
        "max_iterations",
        "max_tokens",
        "run_timeout_seconds",
        "system_prompt",
        "tools",
        "volumes",
    ];
    const RULE: [&str; 6] = ["calls", "chunk_delay_ms", "delay_ms", "fail", "text", "when"];

    fn guessed<'a>(key: &str, names: &'a [&'a str]) -> Option<&'a str> {
        guess(key, names.iter().copied(), std::iter::empty())
    }

    #[test]
    fn words_of_other_tools_are_known() {
        for (word, meant) in [
            ("max_turns", "max_iterations"),
            ("maxTurns", "max_iterations"),
            ("recursion-limit", "max_iterations"),
            ("instructions", "system_prompt"),
            ("backstory", "system_prompt"),
            ("timeout", "run_timeout_seconds"),
            ("subagents", "agents"),
            ("mounts", "volumes"),
        ] {
            assert_eq!(guessed(word, &AGENT), Some(meant), "{word}");
        }
        assert_eq!(guessed("timeout", &["url", "timeout_ms", "start_timeout_ms"]), Some("timeout_ms"));
    }

    #[test]
    fn a_word_is_no_guess_where_its_key_is_unknown() {
        assert_eq!(guessed("max_turns", &RULE), None);
        assert_eq!(guessed("colour", &AGENT), None);
    }

    #[test]
    fn the_only_key_that_begins_alike_is_meant_before_a_typo() {
        assert_eq!(guessed("delay", &RULE), Some("delay_ms"));
        assert_eq!(guessed("max", &AGENT), None, "two keys begin like this");
        assert_eq!(guessed("txet", &RULE), Some("text"));
    }

    #[test]
    fn each_word_has_one_list_of_keys_unless_the_keys_differ() {
        for (place, (words, meant)) in WORDS.iter().enumerate() {
            for word in *words {
                assert!(!meant.contains(word), "{word} is a key itself");
                let same = |(others, keys): &&(&[&str], &[&str])| others.contains(word) && keys == meant;
                assert_eq!(WORDS[place..].iter().filter(same).count(), 1, "{word} is listed twice");
            }
        }
    }
}
