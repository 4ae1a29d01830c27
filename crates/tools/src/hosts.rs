//! Which hosts a call may reach: those that the operator's list and the agent's own both name.

use drawloom_contract::tool::ToolError;
use drawloom_net::guarded::Address;

/// The operator's half of the check.
#[derive(Debug)]
pub(crate) struct AllowedHosts {
    /// Exact names, `*.suffix`, or `*`.
    pub(crate) hosts: Vec<String>,
}

impl AllowedHosts {
    /// Whether this address may be asked for by an agent that has these hosts.
    pub(crate) fn check(&self, address: &Address, hosts: &[String]) -> Result<(), ToolError> {
        let host = address.host();
        if !self.hosts.iter().any(|pattern| fits(pattern, host)) {
            return Err(ToolError::Denied(format!(
                "host {host} is not allowed by the config ({}); to allow it, add it under tools.http.hosts",
                list(&self.hosts)
            )));
        }
        if !hosts.iter().any(|pattern| fits(pattern, host)) {
            return Err(ToolError::Denied(format!(
                "host {host} is not allowed for this agent ({}); to allow it, add it to `hosts` of the agent",
                list(hosts)
            )));
        }
        Ok(())
    }
}

/// Whether a pattern names a host: itself, everything below a suffix, or everything.
fn fits(pattern: &str, host: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    let pattern = pattern.strip_suffix('.').unwrap_or(pattern).to_ascii_lowercase();
    match pattern.strip_prefix("*.") {
        Some(suffix) => host.strip_suffix(suffix).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => pattern.trim_start_matches('[').trim_end_matches(']') == host,
    }
}

/// The first few, for people.
fn list(hosts: &[String]) -> String {
    match hosts.len() {
        0 => "none".into(),
        1..=8 => hosts.join(", "),
        more => format!("{}, and {} more", hosts[..8].join(", "), more - 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_must_name_the_host() {
        let own = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
        let check = |operator: &[&str], agent: &[&str], url: &str| {
            let gate = AllowedHosts { hosts: own(operator) };
            gate.check(&Address::parse(url).expect("an address"), &own(agent)).is_ok()
        };
        for (operator, agent, url) in [
            (&["*"][..], &["*"][..], "http://a.example/"),
            (&["*.example"], &["a.example"], "http://A.EXAMPLE./"),
            (&["a.example"], &["*.example"], "https://a.example:8443/"),
            (&["8.8.8.8"], &["*"], "http://134744072/"),
            (&["[2606::1]"], &["2606::1"], "http://[2606:0::1]/"),
        ] {
            assert!(check(operator, agent, url), "{operator:?} {agent:?} {url}");
        }
        for (operator, agent, url) in [
            (&[][..], &["*"][..], "http://a.example/"),
            (&["*"], &[], "http://a.example/"),
            (&["*.example"], &["*"], "http://example/"),
            (&["*.example.com"], &["*"], "http://evilexample.com/"),
            (&["*.example.com"], &["*"], "http://example.com.evil.org/"),
            (&["example.com"], &["*"], "http://a.example.com/"),
            (&["*"], &["b.example"], "http://a.example/"),
            (&["*."], &["*"], "http://a.example/"),
        ] {
            assert!(!check(operator, agent, url), "{operator:?} {agent:?} {url}");
        }
    }
}
