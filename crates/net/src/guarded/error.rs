//! Why there is no answer.

use std::io;

use drawloom_contract::failure::{Explain, FailureKind};

/// Why there is no answer. Nothing in it says which private address a name leads to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is none.
    #[error("this is not an address that can be fetched: {reason}")]
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
    #[error("port {port} of {host} may not be reached")]
    Port {
        /// Where.
        host: String,
        /// Which.
        port: u16,
    },
    /// The host is not on the public internet.
    #[error("{host} is not at a public address")]
    Private {
        /// Which.
        host: String,
    },
    /// The name leads nowhere.
    #[error("there is no address for {host}")]
    NoAddress {
        /// Which.
        host: String,
        /// Why.
        #[source]
        source: Option<io::Error>,
    },
    /// Nobody answers there.
    #[error("no connection to {host}")]
    Connect {
        /// Where.
        host: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The other side could not prove who it is, or this machine cannot check it.
    #[error("no secure connection to {host}: {reason}")]
    Insecure {
        /// Where.
        host: String,
        /// Why.
        reason: String,
    },
    /// The connection broke on the way.
    #[error("the connection to {host} broke")]
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
            Self::BadAddress { .. } => Some("write it like https://example.com/page".into()),
            Self::BadHeader { .. } => Some("leave the header out".into()),
            Self::Port { .. } => Some("the operator can allow it under tools.http.ports".into()),
            Self::Private { .. } => Some("the operator can except it under tools.http.private_hosts".into()),
            Self::NoAddress { .. } => Some("check the name".into()),
            Self::Connect { .. } | Self::Broken { .. } => Some("try again later".into()),
            Self::Insecure { .. } => None,
        }
    }
}
