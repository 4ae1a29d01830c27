//! An address from outside, read the way that browsers read it, so that every spelling of a host means one host.

use std::net::IpAddr;

use url::{Host, Position, Url};

use super::Error;

/// The longest address, in bytes.
pub const LONGEST_ADDRESS: usize = 8 * 1024;

/// An `http` or `https` address with a plain host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    url: Url,
    host: String,
    port: u16,
}

impl Address {
    /// Reads an address. Spellings of numbers (`0x7f.1`, `2130706433`), upper case, a dot at the end and names in other
    /// scripts all become their plain form; user names in an address are refused.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > LONGEST_ADDRESS {
            return Err(bad(&format!("it has {} bytes; the limit is {LONGEST_ADDRESS}", text.len())));
        }
        let url = Url::parse(text.trim()).map_err(|error| bad(&error.to_string()))?;
        Self::from_url(url)
    }

    /// The address that `location` means, seen from this one.
    pub fn join(&self, location: &str) -> Result<Self, Error> {
        if location.len() > LONGEST_ADDRESS {
            return Err(bad("it is too long"));
        }
        Self::from_url(self.url.join(location).map_err(|error| bad(&error.to_string()))?)
    }

    fn from_url(mut url: Url) -> Result<Self, Error> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad(&format!("unsupported scheme {:?}; use http or https", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("it contains a user name or password; send credentials in a header"));
        }
        let host = match url.host() {
            Some(Host::Domain(name)) => {
                let plain = name.strip_suffix('.').unwrap_or(name).to_owned();
                if plain.split('.').any(str::is_empty) {
                    return Err(bad("the host name has an empty label"));
                }
                url.set_host(Some(&plain)).map_err(|error| bad(&error.to_string()))?;
                plain
            }
            Some(Host::Ipv4(ip)) => ip.to_string(),
            Some(Host::Ipv6(ip)) => ip.to_string(),
            None => return Err(bad("it has no host")),
        };
        let port = url.port_or_known_default().ok_or_else(|| bad("it has no port"))?;
        url.set_fragment(None);
        Ok(Self { url, host, port })
    }

    /// The host: a name in lower case without a dot at the end, or an IP address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host, when it is an IP address.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it is reached over TLS.
    pub fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Whether both are at the same door: scheme, host and port.
    pub fn is_same_origin(&self, other: &Self) -> bool {
        self.url.origin() == other.url.origin()
    }

    /// The whole address.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Host and, where it is not the usual one, port, as the `Host` header has them.
    pub(super) fn authority(&self) -> &str {
        &self.url[Position::BeforeHost..Position::AfterPort]
    }

    /// What stands on the request's first line.
    pub(super) fn path_and_query(&self) -> &str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

fn bad(reason: &str) -> Error {
    Error::BadAddress { reason: reason.into() }
}
