//! Why there is no answer.

use std::io;

use drawloom_contract::failure::{Explain, FailureKind};

/// Why there is no answer. Nothing in it says which private address a name leads to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is none.
    #[error("invalid URL: {reason}")]
    BadAddress {
        /// Why.
        reason: String,
    },
    /// A header cannot be sent.
    #[error("header {name:?}: {reason}")]
    BadHeader {
        /// Which.
        name: String,
        /// Why.
        reason: String,
    },
    /// The port is not allowed.
    #[error("port {port} of {host} is not allowed")]
    Port {
        /// Where.
        host: String,
        /// Which.
        port: u16,
    },
    /// The host is not on the public internet.
    #[error("{host} does not resolve to a public address")]
    Private {
        /// Which.
        host: String,
    },
    /// The name leads nowhere.
    #[error("cannot resolve {host}")]
    NoAddress {
        /// Which.
        host: String,
        /// Why.
        #[source]
        source: Option<io::Error>,
    },
    /// Nobody answers there.
    #[error("cannot connect to {host}")]
    Connect {
        /// Where.
        host: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The other side could not prove who it is, or this machine cannot check it.
    #[error("TLS connection to {host} failed: {reason}")]
    Insecure {
        /// Where.
        host: String,
        /// Why.
        reason: String,
    },
    /// The connection broke on the way.
    #[error("the connection to {host} was lost")]
    Broken {
        /// Where.
        host: String,
        /// Why.
        #[source]
        source: hyper::Error,
    },
}

impl Explain for Error {
    fn kind(&self) -> FailureKind {
        match self {
            Self::BadAddress { .. } | Self::BadHeader { .. } => FailureKind::Invalid,
            Self::Port { .. } | Self::Private { .. } => FailureKind::Denied,
            Self::NoAddress { .. } => FailureKind::NotFound,
            Self::Connect { .. } | Self::Insecure { .. } | Self::Broken { .. } => FailureKind::Unavailable,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::BadAddress { .. } => "bad_address",
            Self::BadHeader { .. } => "bad_header",
            Self::Port { .. } => "port_denied",
            Self::Private { .. } => "private_address",
            Self::NoAddress { .. } => "no_address",
            Self::Connect { .. } => "no_connection",
            Self::Insecure { .. } => "insecure_connection",
            Self::Broken { .. } => "connection_broken",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::BadAddress { .. } => Some("example: https://example.com/page".into()),
            Self::BadHeader { .. } => Some("remove the header".into()),
            Self::Port { .. } => Some("to allow it, add it to tools.http.ports in the config".into()),
            Self::Private { .. } => Some("to allow it, add it to tools.http.private_hosts in the config".into()),
            Self::NoAddress { .. } => Some("check the host name".into()),
            Self::Connect { .. } | Self::Broken { .. } => Some("retry later".into()),
            Self::Insecure { .. } => None,
        }
    }
}
