//! What the form of a config allows, and what `serve` or `run` would refuse later.

use std::{collections::BTreeMap, sync::Arc};

use drawloom_contract::{
    choice::ModelName,
    definition::{Definition, Definitions as _},
    ids::Tenant,
    model::Model,
    money::Price,
};
use drawloom_models::Secret;
use drawloom_substrate::{Catalog, Problem};

use crate::{
    clock::SystemClock,
    config::{self, Config},
};

/// Everything about addresses and hosts.
pub(super) fn addresses(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    if config::listen_address(&config.listen).is_none() {
        let message = format!("{:?} is not an address to listen on", config.listen);
        let hint = "write IP:PORT or localhost:PORT, such as 127.0.0.1:8787; only `drawloom serve` uses it";
        problems.push(Problem::new(["listen"], message).with_hint(hint));
    }
    let http = &config.tools.http;
    let mut check = |at: &[&str], hosts: &[String], ports: Ports| {
        for (index, host) in hosts.iter().enumerate() {
            if let Some((message, hint)) = bad_host(host, ports) {
                let index = index.to_string();
                let at = at.iter().copied().chain([index.as_str()]);
                problems.push(Problem::new(at, message).with_hint(hint));
            }
        }
    };
    check(&["tools", "http", "hosts"], &http.hosts, Ports::None);
    check(&["tools", "http", "private_hosts"], &http.private_hosts, Ports::Optional);
    for (name, agent) in &config.agents {
        check(&["agents", name, "hosts"], agent.hosts.as_deref().unwrap_or_default(), Ports::None);
    }
    for (index, source) in config.sources.iter().enumerate() {
        check(&["sources", &index.to_string(), "grant", "hosts"], &source.grant.hosts, Ports::None);
    }
    check(&["definitions", "grant", "hosts"], &config.definitions.grant.hosts, Ports::None);
    problems
}

/// Why no host of an agent can ever match, and what to write.
pub(crate) fn bad_agent_host(entry: &str) -> Option<(String, String)> {
    bad_host(entry, Ports::None)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ports {
    None,
    Optional,
}

/// Why no host can ever match, and what to write.
fn bad_host(entry: &str, ports: Ports) -> Option<(String, String)> {
    let forms = match ports {
        Ports::None => "write a name, *.suffix or *, such as api.example.com",
        Ports::Optional => "write a name or an IP address, with :PORT for one port only, such as localhost:8080",
    };
    let bad = |hint: &str| Some((format!("{entry:?} is not a host"), hint.to_owned()));
    if let Some((_, rest)) = entry.split_once("://") {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = if ports == Ports::None { host.split(':').next().unwrap_or_default() } else { host };
        return bad(&format!("write only the host: {host}"));
    }
    if let Some((host, _)) = entry.split_once('/') {
        return bad(&format!("write only the host: {host}"));
    }
    let is_ip = |host: &str| host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>().is_ok();
    if is_ip(entry) || (ports == Ports::None && entry == "*") {
        return None;
    }
    let host = match entry.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')) => {
            match ports {
                Ports::Optional => host,
                Ports::None => return bad(&format!("write {host}; ports are listed under tools.http.ports")),
            }
        }
        _ => entry,
    };
    let name = if ports == Ports::None { host.strip_prefix("*.").unwrap_or(host) } else { host };
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.chars().all(|sign| sign.is_alphanumeric() || matches!(sign, '-' | '_'))
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    if is_ip(host) || (name.len() <= 253 && name.split('.').all(is_label)) {
        return None;
    }
    bad(forms)
}

/// Agents with a budget in money, none of whose models has a known price.
pub(super) fn budgets(
    config: &Config,
    catalog: &Catalog,
    models: &BTreeMap<String, Arc<dyn Model>>,
    prices: &BTreeMap<ModelName, Price>,
) -> Vec<Problem> {
    let is_priced = |name: &ModelName| {
        // What a model costs does not depend on the key.
        let keyless = || {
            let provider = config.providers.get(&name.provider)?;
            drawloom_models::open(&name.provider, provider, Some(Secret::new("none")), Arc::new(SystemClock)).ok()
        };
        let model = models.get(&name.provider).cloned().or_else(keyless);
        // A provider that cannot be opened has a problem of its own.
        prices.contains_key(name) || model.is_none_or(|model| model.card(&name.model).price.is_some())
    };
    let unpriced = |agent: Arc<Definition>| {
        agent.budget_cost?;
        let only = ModelName::new(&agent.provider, &agent.model);
        let chosen = agent.choices.values().flat_map(|choice| choice.candidates.iter().cloned());
        let candidates: Vec<ModelName> = if agent.choices.is_empty() { vec![only] } else { chosen.collect() };
        let first = candidates.first().filter(|_| !candidates.iter().any(is_priced))?.clone();
        let message = format!("a budget in money, but the price of {first} is not known");
        let hint = format!("add {first:?} under `pricing.models`, or use `budget.tokens`", first = first.to_string());
        Some(Problem::new(["agents", agent.name.as_str(), "budget", "cost"], message).with_hint(hint))
    };
    catalog.list(&Tenant::default_tenant()).into_iter().filter_map(unpriced).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_that_can_match_pass() {
        for host in ["a.example", "*.example.com", "*", "localhost", "8.8.8.8", "[2606::1]", "2606::1", "a.example."] {
            assert_eq!(bad_host(host, Ports::None), None, "{host}");
        }
        for (host, hint) in [
            ("https://a.example/x", "write only the host: a.example"),
            ("a.example/x", "write only the host: a.example"),
            ("a.example:443", "write a.example; ports are listed under tools.http.ports"),
            ("a..example", "write a name, *.suffix or *, such as api.example.com"),
            ("*example.com", "write a name, *.suffix or *, such as api.example.com"),
            ("a example", "write a name, *.suffix or *, such as api.example.com"),
            ("", "write a name, *.suffix or *, such as api.example.com"),
        ] {
            assert_eq!(bad_host(host, Ports::None).map(|(_, hint)| hint).as_deref(), Some(hint), "{host}");
        }
        for host in ["localhost:8080", "::1", "[::1]:80", "db.internal"] {
            assert_eq!(bad_host(host, Ports::Optional), None, "{host}");
        }
        for host in ["*", "*.internal", "localhost:99999", "a:b"] {
            assert!(bad_host(host, Ports::Optional).is_some(), "{host}");
        }
    }
}
