//! What the operator excepts from the guard, and which ports may be reached.

use std::net::IpAddr;

use super::Address;

/// What the guard lets through besides public addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Hosts that may be at addresses that are not public: a name or an IP address, with `:port` for that port only.
    pub private_hosts: Vec<String>,
    /// Ports that may be reached; an excepted host has its own.
    pub ports: Vec<u16>,
}

impl Rules {
    /// Whether the operator excepted this host, at this port.
    pub(super) fn except(&self, address: &Address) -> bool {
        self.private_hosts.iter().any(|entry| {
            let (host, port) = split(entry);
            port.is_none_or(|port| port == address.port()) && is_host(host, address)
        })
    }

    /// Whether the port may be reached.
    pub(super) fn allow_port(&self, address: &Address) -> bool {
        self.ports.contains(&address.port()) || self.except(address)
    }
}

/// The host and the port of an entry: `name`, `name:8080`, `::1`, `[::1]:8080`.
fn split(entry: &str) -> (&str, Option<u16>) {
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port) => (host, Some(port)),
            // No host has this name, so the entry allows nothing.
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    };
    (host.trim_start_matches('[').trim_end_matches(']'), port)
}

fn is_host(host: &str, address: &Address) -> bool {
    match (host.parse::<IpAddr>(), address.ip()) {
        (Ok(host), Some(ip)) => host.to_canonical() == ip.to_canonical(),
        (Ok(_), None) | (Err(_), Some(_)) => false,
        (Err(_), None) => host.trim_end_matches('.').eq_ignore_ascii_case(address.host()),
    }
}
