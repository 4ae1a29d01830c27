//! Leased ports: ten for each checkout, held by a file until the checkout is removed.

use std::{fs, io, net::TcpListener, path::Path};

use crate::{
    checkouts::Checkouts,
    config::Ports,
    error::Error,
    places::{Places, blocking, make_directory, write_file},
};

/// How many ports a checkout gets.
pub(crate) const PER_LEASE: u16 = 10;

impl Checkouts {
    /// The first of ten ports that no other checkout has. A repeated call answers the same.
    pub(crate) async fn lease_ports(&self, goal: &str, name: &str) -> Result<u16, Error> {
        // One at a time: all leases share a directory.
        let _lock = self.lock("", "ports").await;
        let (root, ports, holder) = (self.parts.root.clone(), self.parts.config.ports, format!("{goal}/{name}"));
        blocking(move || lease(&root, ports, &holder, is_free)).await
    }
}

fn lease(root: &Path, ports: Ports, holder: &str, is_free: fn(u16) -> bool) -> Result<u16, Error> {
    let directory = root.join("ports");
    make_directory(&directory)?;
    let mut held = Vec::new();
    for entry in fs::read_dir(&directory).map_err(Error::file("read", &directory))?.flatten() {
        let Some(port) = entry.file_name().to_str().and_then(|name| name.parse::<u16>().ok()) else { continue };
        let by = fs::read_to_string(entry.path()).unwrap_or_default();
        if by == holder {
            return Ok(port);
        }
        held.push(port);
    }
    let mut port = ports.first;
    while port.checked_add(PER_LEASE - 1).is_some_and(|last| last <= ports.last) {
        if !held.contains(&port) && (port..port + PER_LEASE).all(is_free) {
            write_file(&directory.join(port.to_string()), holder.as_bytes())?;
            return Ok(port);
        }
        port = match port.checked_add(PER_LEASE) {
            Some(next) => next,
            None => break,
        };
    }
    Err(Error::NoPorts { first: ports.first, last: ports.last })
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Ends the leases of a goal.
pub(crate) fn release(root: &Path, goal: &Places) -> Result<(), Error> {
    let directory = root.join("ports");
    let goal = goal.goal().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::file("read", directory)(error)),
    };
    for entry in entries.flatten() {
        let by = fs::read_to_string(entry.path()).unwrap_or_default();
        if by.split_once('/').is_some_and(|(held, _)| held == goal) {
            fs::remove_file(entry.path()).map_err(Error::file("remove", entry.path()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_holder_has_ports_of_its_own_until_its_goal_releases_them() {
        let root = tempfile::tempdir().expect("a directory");
        let ports = Ports { first: 41_000, last: 41_019 };
        // Other programs may use these ports now.
        let lease = |holder: &str| super::lease(root.path(), ports, holder, |_| true);
        let first = lease("one/a").expect("ports");
        let second = lease("two/a").expect("ports");
        assert_ne!(first, second);
        assert_eq!(lease("one/a").expect("the same ports"), first);
        assert!(matches!(lease("two/b"), Err(Error::NoPorts { .. })));
        release(root.path(), &Places::new(root.path(), "one")).expect("released");
        assert_eq!(lease("two/b").expect("ports"), first);
    }

    #[test]
    fn a_port_in_use_is_not_leased() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = taken.local_addr().expect("its address").port();
        assert!(!is_free(port));
    }
}
