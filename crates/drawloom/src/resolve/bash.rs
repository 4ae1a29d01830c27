//! Which agents run commands with the machine's network, and what the config says of it that does not hold.

use std::sync::Arc;

use drawloom_contract::{
    definition::{Definition, Definitions, matches},
    ids::Tenant,
};
use drawloom_substrate::{Catalog, Finding, Weight};
use drawloom_tools::BashNetwork;

use crate::config::Config;

/// The agents that list the tool Bash.
fn agents(catalog: &Catalog) -> impl Iterator<Item = Arc<Definition>> {
    let all = catalog.list(&Tenant::default_tenant());
    all.into_iter().filter(|agent| agent.tools.iter().any(|pattern| matches(pattern, "Bash")))
}

fn reaches_all(agent: &Definition) -> bool {
    agent.hosts.iter().any(|host| host == "*")
}

/// The names of the agents whose commands reach the machine's network.
pub(crate) fn with_network(config: &Config, catalog: &Catalog) -> Vec<String> {
    let (bash, grant) = (&config.tools.bash, &config.definitions.grant);
    if !bash.enabled || bash.network != BashNetwork::Host {
        return Vec::new();
    }
    let is_granted =
        grant.tools.iter().any(|pattern| matches(pattern, "Bash")) && grant.hosts.iter().any(|host| host == "*");
    let runtime = is_granted.then(|| "those that callers define (definitions.grant)".to_owned());
    let named = agents(catalog).filter(|agent| reaches_all(agent)).map(|agent| agent.name.to_string());
    named.chain(runtime).collect()
}

/// Agents whose `hosts` do not mean for Bash what they seem to mean.
pub(super) fn findings(config: &drawloom_tools::Config, catalog: &Catalog) -> Vec<Finding> {
    if !config.bash.enabled {
        return Vec::new();
    }
    let found = agents(catalog).filter(|agent| !agent.hosts.is_empty());
    let found = found.filter_map(|agent| {
        let name = &agent.name;
        let message = match (config.bash.network, reaches_all(&agent)) {
            (BashNetwork::Host, true) => return None,
            (BashNetwork::Host, false) => format!(
                "agent {name} has a list of hosts, which commands cannot be held to: its Bash has no network (hosts: [\"*\"] \
                 gives it the machine's)"
            ),
            (BashNetwork::None, _) => format!("the hosts of agent {name} do not hold for Bash: tools.bash.network is none"),
        };
        Some(Finding { weight: Weight::Note, at: vec!["agents".into(), name.to_string(), "hosts".into()], message })
    });
    found.collect()
}
