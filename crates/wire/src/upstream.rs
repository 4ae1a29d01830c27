//! Where a server is, for the typed client and the stdio proxy: an address that was given, or a server that is found (and
//! started if need be) and may move.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_contract::failure::Failure;

/// The header that says which server is meant: another one that has its address now refuses the request with 421.
pub const INSTANCE: &str = "drawloom-instance";

/// Where a server is.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Its base address for the client, its MCP endpoint for the proxy.
    pub url: Arc<str>,
    /// Which server is meant, when it was found: then it may move, and another one may get its address.
    pub instance: Option<Arc<str>>,
    /// The token that it wants.
    pub token: Option<Arc<str>>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { url, instance, token: _ } = self;
        formatter.debug_struct("Address").field("url", url).field("instance", instance).finish_non_exhaustive()
    }
}

/// Where the server is.
#[async_trait]
pub trait Upstream: Send + Sync {
    /// The address of the server, which is started if need be. `failed` is an address that did not work just now; the
    /// answer may be the same one again. A failure that may pass is asked about again.
    async fn find(&self, failed: Option<&Address>) -> Result<Address, Failure>;

    /// The address of the server that is there, without starting one; nothing before the first `find`.
    fn known(&self) -> Option<Address>;
}

/// A server whose address is given.
pub struct Fixed(pub Address);

impl Fixed {
    /// The server at `url`.
    pub fn new(url: &str, token: Option<&str>) -> Self {
        Self(Address { url: url.into(), instance: None, token: token.map(Into::into) })
    }
}

#[async_trait]
impl Upstream for Fixed {
    async fn find(&self, _: Option<&Address>) -> Result<Address, Failure> {
        Ok(self.0.clone())
    }

    fn known(&self) -> Option<Address> {
        Some(self.0.clone())
    }
}
