//! From an address to a stream: resolve once, drop what is not allowed, dial what is left.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use rustls::{ClientConfig, pki_types::ServerName};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::{Address, Error, Rules, is_public};

/// How long one dial may take.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Most addresses of a name that are tried.
const MOST_DIALS: usize = 4;

/// From a name to its addresses.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// The addresses of `host`, best first.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// From an address to a stream.
#[async_trait]
pub trait Dial: Send + Sync {
    /// Connects to exactly this address.
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Stream>>;
}

/// Bytes both ways.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The system's own resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemDialer;

#[async_trait]
impl Dial for SystemDialer {
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}

/// The only way out.
pub(super) struct Connector {
    rules: Rules,
    resolve: Arc<dyn Resolve>,
    dial: Arc<dyn Dial>,
    /// Made with the first secure connection: reading the system's certificates takes a while, and may fail.
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Connector {
    pub(super) fn new(rules: Rules, resolve: Arc<dyn Resolve>, dial: Arc<dyn Dial>) -> Self {
        Self { rules, resolve, dial, tls: OnceLock::new() }
    }

    /// A stream to `address`, past the guard.
    pub(super) async fn connect(&self, address: &Address) -> Result<Box<dyn Stream>, Error> {
        if !self.rules.allow_port(address) {
            return Err(Error::Port { host: address.host().into(), port: address.port() });
        }
        let found = self.find(address).await?;
        let excepted = self.rules.except(address);
        let allowed: Vec<IpAddr> =
            found.into_iter().map(|ip| ip.to_canonical()).filter(|ip| excepted || is_public(*ip)).collect();
        let mut failure = Error::Private { host: address.host().into() };
        for ip in allowed.into_iter().take(MOST_DIALS) {
            let dialled = tokio::time::timeout(DIAL_TIMEOUT, self.dial.dial(SocketAddr::new(ip, address.port())));
            match dialled.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) if address.is_secure() => return self.secure(address, stream).await,
                Ok(stream) => return Ok(stream),
                Err(source) => failure = Error::Connect { host: address.host().into(), source },
            }
        }
        Err(failure)
    }

    async fn find(&self, address: &Address) -> Result<Vec<IpAddr>, Error> {
        if let Some(ip) = address.ip() {
            return Ok(vec![ip]);
        }
        let none = |source| Error::NoAddress { host: address.host().into(), source };
        let found = self.resolve.resolve(address.host()).await.map_err(|error| none(Some(error)))?;
        if found.is_empty() { Err(none(None)) } else { Ok(found) }
    }

    async fn secure(&self, address: &Address, stream: Box<dyn Stream>) -> Result<Box<dyn Stream>, Error> {
        let insecure = |reason: String| Error::Insecure { host: address.host().into(), reason };
        let config = self.tls.get_or_init(tls).clone().map_err(insecure)?;
        let name = ServerName::try_from(address.host().to_owned())
            .map_err(|_| insecure("invalid host name for a TLS certificate".into()))?;
        let secured = TlsConnector::from(config).connect(name, stream).await;
        secured.map(|stream| Box::new(stream) as Box<dyn Stream>).map_err(|error| insecure(error.to_string()))
    }
}

/// TLS as the system trusts it, with ring.
fn tls() -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier);
    match config {
        Ok(config) => Ok(Arc::new(config.with_no_client_auth())),
        Err(error) => Err(format!("cannot read this machine's trusted certificates: {error}")),
    }
}
