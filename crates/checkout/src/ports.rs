//! Leased ports: ten for each checkout, while this process uses it.
//!
//! A lease is a name in the abstract namespace of Unix sockets. That namespace belongs to the machine's network, as the ports do, so
//! no other project, server or user of the machine gets the same ports. The kernel ends the leases of a process with the process.

use std::{
    collections::HashMap,
    io,
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener},
    },
    sync::{Mutex, PoisonError},
};

use crate::{checkouts::Checkouts, config::Ports, error::Error, places::blocking};

/// How many ports a checkout gets.
pub(crate) const PER_LEASE: u16 = 10;

/// The leases of this process, by goal and checkout.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<HashMap<(String, String), Lease>>);

#[derive(Debug)]
struct Lease {
    port: u16,
    /// Nothing connects to it: it holds the name.
    _name: UnixListener,
}

impl Checkouts {
    /// The first of ten ports that no other checkout of this machine has. A repeated call answers the same; after a restart it
    /// answers `before`, unless others have that now.
    pub(crate) async fn lease_ports(&self, goal: &str, name: &str, before: Option<u16>) -> Result<u16, Error> {
        let (leases, ports) = (self.leases.clone(), self.parts.config.ports);
        let holder = (goal.to_owned(), name.to_owned());
        blocking(move || leases.lease(ports, holder, before, is_free)).await
    }

    /// Ends the leases of a goal.
    pub(crate) fn release_ports(&self, goal: &str) {
        self.leases.release(goal);
    }
}

impl Leases {
    fn lease(
        &self,
        ports: Ports,
        holder: (String, String),
        before: Option<u16>,
        is_free: fn(u16) -> bool,
    ) -> Result<u16, Error> {
        let mut leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lease) = leases.get(&holder) {
            return Ok(lease.port);
        }
        let firsts = (ports.first..=ports.last).step_by(PER_LEASE.into());
        let whole = firsts.filter(|port| port.checked_add(PER_LEASE - 1).is_some_and(|last| last <= ports.last));
        for port in before.into_iter().chain(whole) {
            let Some(name) = claim(port)? else { continue };
            if (port..=port + (PER_LEASE - 1)).all(is_free) {
                leases.insert(holder, Lease { port, _name: name });
                return Ok(port);
            }
        }
        Err(Error::NoPorts { first: ports.first, last: ports.last })
    }

    fn release(&self, goal: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(held, _), _| held != goal);
    }
}

/// The name of a lease, unless a process of this machine has it.
fn claim(port: u16) -> Result<Option<UnixListener>, Error> {
    let failed = |error| Error::file("lease", format!("ports {port} to {}", port + (PER_LEASE - 1)))(error);
    let name = SocketAddr::from_abstract_name(format!("drawloom/ports/{port}")).map_err(failed)?;
    match UnixListener::bind_addr(&name) {
        Ok(held) => Ok(Some(held)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(leases: &Leases, holder: &str, before: Option<u16>) -> Result<u16, Error> {
        let (goal, name) = holder.split_once('/').expect("a goal and a name");
        // Other programs may use these ports now. No other test leases below 1024.
        leases.lease(Ports { first: 100, last: 119 }, (goal.into(), name.into()), before, |_| true)
    }

    #[test]
    fn each_holder_has_ports_of_its_own_until_its_goal_releases_them() {
        // Two projects of a machine.
        let (one, two) = (Leases::default(), Leases::default());
        let first = lease(&one, "one/a", None).expect("ports");
        let second = lease(&two, "two/a", Some(first)).expect("ports");
        assert_ne!(first, second);
        assert_eq!(lease(&one, "one/a", Some(second)).expect("the same ports"), first);
        assert!(matches!(lease(&two, "two/b", None), Err(Error::NoPorts { .. })));
        one.release("one");
        assert_eq!(lease(&two, "two/b", None).expect("ports"), first);
        drop(two);
        assert_eq!(lease(&one, "one/a", Some(second)).expect("those that it had"), second);
    }

    #[test]
    fn a_port_in_use_is_not_leased() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = taken.local_addr().expect("its address").port();
        assert!(!is_free(port));
    }
}
