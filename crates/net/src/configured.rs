//! `Configured`: a client for addresses that the operator chose.

use std::{borrow::Cow, pin::Pin, sync::Once, time::Duration};

use bytes::{Bytes, BytesMut};
use drawloom_contract::failure::{Explain, FailureKind};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client as PlainClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};

use crate::Method;

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an unused connection is kept; shorter than our server keeps one, so that a kept one is alive.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is asked.
    pub method: Method,
    /// The whole address.
    pub url: String,
    /// The token for `Authorization: Bearer`.
    pub bearer: Option<String>,
    /// Other headers.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// A JSON body.
    pub json: Option<Vec<u8>>,
}

/// An answer whose body has not been read.
#[derive(Debug)]
pub struct Response {
    url: String,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Full(reqwest::Response),
    Plain(hyper::Response<Incoming>),
}

/// What went wrong below.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client could not be made.
    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),
    /// The address is none.
    #[error("invalid URL {url:?}: not an absolute HTTP URL")]
    BadAddress {
        /// As it was given.
        url: String,
    },
    /// Nobody answers there.
    #[error("cannot connect to {}", origin(url))]
    Connect {
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: Source,
    },
    /// The connection broke on the way.
    #[error("the connection to {url} was lost")]
    Broken {
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: Source,
    },
    /// The answer is longer than the reader takes.
    #[error("the response from {url} is longer than {limit} bytes")]
    TooLarge {
        /// Where.
        url: String,
        /// The limit.
        limit: usize,
    },
}

impl Explain for Error {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Setup(_) => FailureKind::Bug,
            Self::BadAddress { .. } => FailureKind::Invalid,
            Self::Connect { .. } | Self::Broken { .. } => FailureKind::Unavailable,
            Self::TooLarge { .. } => FailureKind::TooLarge,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Setup(_) => "http_setup",
            Self::BadAddress { .. } => "bad_address",
            Self::Connect { .. } => "no_connection",
            Self::Broken { .. } => "connection_broken",
            Self::TooLarge { .. } => "answer_too_large",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Setup(_) => None,
            Self::BadAddress { .. } => Some("example: http://127.0.0.1:8787".into()),
            Self::Connect { url, .. } => Some(format!("check that a server is listening at {}", origin(url))),
            Self::Broken { .. } => Some("retry; requests that were already accepted continue".into()),
            Self::TooLarge { .. } => Some("request less at a time".into()),
        }
    }
}

/// The part of a URL that a connection is made to: its scheme, host and port.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |end| host + end);
    &url[..end]
}

/// A client for addresses that the operator chose. It goes there directly, reads no proxy from the environment and
/// follows no redirect. Cloning shares its connections.
#[derive(Debug, Clone)]
pub struct Configured(Client);

#[derive(Debug, Clone)]
enum Client {
    Full(reqwest::Client),
    Plain(Box<PlainClient<HttpConnector, Full<Bytes>>>),
}

impl Configured {
    /// A client with its own connections.
    pub fn new() -> Result<Self, Error> {
        install_tls();
        reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .tcp_nodelay(true)
            .build()
            .map(|client| Self(Client::Full(client)))
            .map_err(Error::Setup)
    }

    /// A client for `http://` addresses without credentials in them, and for nothing else: made at once, and light.
    pub fn plain() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let mut builder = PlainClient::builder(TokioExecutor::new());
        builder.pool_idle_timeout(IDLE_TIMEOUT).pool_timer(TokioTimer::new());
        Self(Client::Plain(Box::new(builder.build(connector))))
    }

    /// Sends `request`; returns when the head of the answer is here. Boxed, so that the code of each client is in the binary
    /// once, and lies together.
    pub fn send(&self, request: Request) -> Pin<Box<dyn Future<Output = Result<Response, Error>> + Send + '_>> {
        match &self.0 {
            Client::Full(client) => Box::pin(send_full(client, request)),
            Client::Plain(client) => Box::pin(send_plain(client, request)),
        }
    }
}

async fn send_full(client: &reqwest::Client, request: Request) -> Result<Response, Error> {
    let Request { method, url, bearer, headers, json } = request;
    let address = reqwest::Url::parse(&url).map_err(|_| Error::BadAddress { url: url.clone() })?;
    let mut builder = client.request(hyper::Method::from(method), address);
    for (name, value) in headers {
        builder = builder.header(name.as_ref(), value);
    }
    if let Some(bearer) = bearer {
        builder = builder.bearer_auth(bearer);
    }
    if let Some(json) = json {
        builder = builder.header("content-type", "application/json").body(json);
    }
    match builder.send().await {
        Ok(answer) => Ok(Response { url, inner: Inner::Full(answer) }),
        Err(source) => Err(describe(url, source)),
    }
}

async fn send_plain(client: &PlainClient<HttpConnector, Full<Bytes>>, request: Request) -> Result<Response, Error> {
    let Request { method, url, bearer, headers, json } = request;
    let mut builder = hyper::Request::builder().method(hyper::Method::from(method)).uri(&url);
    for (name, value) in headers {
        builder = builder.header(name.as_ref(), value);
    }
    if let Some(bearer) = bearer {
        builder = builder.header("authorization", format!("Bearer {bearer}"));
    }
    if json.is_some() {
        builder = builder.header("content-type", "application/json");
    }
    let Ok(request) = builder.body(Full::new(json.unwrap_or_default().into())) else {
        return Err(Error::BadAddress { url });
    };
    match client.request(request).await {
        Ok(answer) => Ok(Response { url, inner: Inner::Plain(answer) }),
        Err(source) if source.is_connect() => Err(Error::Connect { url, source: source.into() }),
        Err(source) => Err(Error::Broken { url, source: source.into() }),
    }
}

impl Response {
    /// The status.
    pub fn status(&self) -> u16 {
        match &self.inner {
            Inner::Full(answer) => answer.status().as_u16(),
            Inner::Plain(answer) => answer.status().as_u16(),
        }
    }

    /// A header, when it is there and text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = match &self.inner {
            Inner::Full(answer) => answer.headers(),
            Inner::Plain(answer) => answer.headers(),
        };
        headers.get(name)?.to_str().ok()
    }

    /// The next piece of the body; nothing at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        match &mut self.inner {
            Inner::Full(answer) => answer.chunk().await.map_err(|source| describe(self.url.clone(), source)),
            Inner::Plain(answer) => loop {
                match answer.body_mut().frame().await {
                    None => return Ok(None),
                    Some(Err(source)) => return Err(Error::Broken { url: self.url.clone(), source: source.into() }),
                    // What is no data is a trailer, which nobody reads.
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => return Ok(Some(data)),
                        Err(_) => continue,
                    },
                }
            },
        }
    }

    /// The whole body, of at most `limit` bytes.
    pub async fn bytes(mut self, limit: usize) -> Result<Bytes, Error> {
        let mut whole = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            if whole.len() + chunk.len() > limit {
                return Err(Error::TooLarge { url: self.url, limit });
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }
}

/// Says which of our errors it is; the address is ours to print, so the source goes without it.
fn describe(url: String, source: reqwest::Error) -> Error {
    let source = source.without_url();
    if source.is_connect() {
        Error::Connect { url, source: source.into() }
    } else if source.is_builder() {
        Error::BadAddress { url }
    } else {
        Error::Broken { url, source: source.into() }
    }
}

/// Chooses ring, once, before any client is built: without a provider building one panics, even for plain HTTP.
fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that a provider is there already, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}
