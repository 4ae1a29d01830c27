//! A claim on a data directory's path that no file can take away: a socket in Linux's abstract namespace, which is gone when
//! its process is. The lock on `drawloom.lock` is on a file, and files can be deleted and made again.

use std::{
    io::{self, Read as _},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::MetadataExt as _,
            net::{SocketAddr, UnixListener, UnixStream},
        },
    },
    path::Path,
    time::Duration,
};

use drawloom_contract::ids::Digest;
use rustix::{net::sockopt::socket_peercred, process::geteuid};

use super::real_path;

/// How long the holder may take to end: a process that ends may lose its lock a moment before its claim.
const ENDING: Duration = Duration::from_secs(1);
/// The same for a command that only looks.
const ENDING_SOON: Duration = Duration::from_millis(200);
/// How often the name is tried.
const TRIES: u32 = 5;

/// Held for as long as it lives.
#[derive(Debug)]
pub(super) struct Claim {
    _listener: UnixListener,
}

impl Claim {
    /// The process of this user that has the claim now, if any. It only looks.
    pub(super) fn holder(directory: &Path) -> Option<u32> {
        let address = SocketAddr::from_abstract_name(name(directory).ok()?).ok()?;
        let peer = socket_peercred(UnixStream::connect_addr(&address).ok()?).ok()?;
        (peer.uid == geteuid()).then(|| peer.pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// The same, of a directory that may be gone, and only if that process does not end at once.
    pub(super) fn lasting_holder(directory: &Path) -> Option<u32> {
        let address = SocketAddr::from_abstract_name(name(directory).ok()?).ok()?;
        let mut stream = UnixStream::connect_addr(&address).ok()?;
        let peer = socket_peercred(&stream).ok().filter(|peer| peer.uid == geteuid())?;
        stream.set_read_timeout(Some(ENDING_SOON)).ok()?;
        let waited = stream.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        waited.then(|| peer.pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Claims a directory that exists, or says which process of this user has it. `None` when another user has taken the name,
    /// which must not keep this one out.
    pub(super) fn take(directory: &Path) -> io::Result<Result<Option<Self>, u32>> {
        let address = SocketAddr::from_abstract_name(name(directory)?)?;
        let mut holder = 0;
        for _ in 0..TRIES {
            match UnixListener::bind_addr(&address) {
                Ok(listener) => return Ok(Ok(Some(Self { _listener: listener }))),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
            // Connecting succeeds although the holder never accepts, and the kernel says who listens. It fails when the holder is gone.
            let Ok(mut stream) = UnixStream::connect_addr(&address) else { continue };
            let peer = socket_peercred(&stream)?;
            if peer.uid != geteuid() {
                tracing::warn!(
                    "another user has taken the claim on the data directory; only its lock file protects it"
                );
                return Ok(Ok(None));
            }
            holder = peer.pid.as_raw_nonzero().get().unsigned_abs();
            // Returns when the holder ends, which closes the connection.
            stream.set_read_timeout(Some(ENDING))?;
            if stream.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                break;
            }
        }
        Ok(Err(holder))
    }
}

/// The same for every path to the directory, and another one in another mount namespace, where the path may mean another
/// directory.
fn name(directory: &Path) -> io::Result<String> {
    let path = real_path(directory)?;
    let namespace = std::fs::metadata("/proc/self/ns/mnt").map_or(0, |found| found.ino());
    let text = format!("{namespace} {}", path.display());
    Ok(format!("drawloom {}", Digest::of(text.as_bytes())))
}
