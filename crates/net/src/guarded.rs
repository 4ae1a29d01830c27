//! `Guarded`: a client for addresses that a model or a caller chose.
//!
//! The guard stands where the connection is made: a name is resolved once, what is not public is dropped, and exactly an
//! address that was looked at is dialled. There is no second look-up that could answer otherwise. A connection serves one
//! request, and a redirect is an answer like any other: following it is a new request, past the same guard.

mod address;
mod connect;
mod error;
mod public;
mod rules;

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap,
    body::Incoming,
    header::{HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;

pub use address::{Address, LONGEST_ADDRESS};
pub use connect::{Dial, Resolve, Stream, SystemDialer, SystemResolver};
pub use error::Error;
pub use public::is_public;
pub use rules::Rules;

use connect::Connector;

use crate::Method;

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is asked.
    pub method: Method,
    /// Where.
    pub address: Address,
    /// Headers; those that belong to the connection are refused.
    pub headers: Vec<(String, String)>,
    /// The body; none when empty.
    pub body: Bytes,
}

/// An answer whose body has not been read. Dropping it closes the connection.
#[derive(Debug)]
pub struct Response {
    address: Address,
    inner: hyper::Response<Incoming>,
    _connection: Connection,
}

/// The task that moves bytes; it ends with the response.
#[derive(Debug)]
struct Connection(tokio::task::JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A client for addresses that a model or a caller chose. It reads no proxy from the environment, keeps no connection and
/// follows no redirect. How long a request may take is the caller's to say: dropping the future ends it.
#[derive(Clone)]
pub struct Guarded {
    connector: Arc<Connector>,
}

impl Guarded {
    /// A client that looks names up and dials with these.
    pub fn new(rules: Rules, resolve: Arc<dyn Resolve>, dial: Arc<dyn Dial>) -> Self {
        Self { connector: Arc::new(Connector::new(rules, resolve, dial)) }
    }

    /// Sends `request`; returns when the head of the answer is here.
    pub async fn send(&self, request: Request) -> Result<Response, Error> {
        let Request { method, address, headers, body } = request;
        let outgoing = build(method, &address, &headers, body)?;
        let stream = self.connector.connect(&address).await?;
        let broken = |source: hyper::Error| Error::Broken { host: address.host().into(), source };
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        // How it ends is told by the request that it serves.
        let connection = Connection(tokio::spawn(async move { drop(connection.await) }));
        let inner = sender.send_request(outgoing).await.map_err(broken)?;
        Ok(Response { address, inner, _connection: connection })
    }
}

impl Response {
    /// The status.
    pub fn status(&self) -> u16 {
        self.inner.status().as_u16()
    }

    /// Every header; what is not text is shown as far as it is.
    pub fn headers(&self) -> impl Iterator<Item = (&str, std::borrow::Cow<'_, str>)> {
        let headers: &HeaderMap = self.inner.headers();
        headers.iter().map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
    }

    /// A header, when it is there and text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.inner.headers().get(name)?.to_str().ok()
    }

    /// The next piece of the body; nothing at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(frame) = self.inner.body_mut().frame().await {
            let frame = frame.map_err(|source| Error::Broken { host: self.address.host().into(), source })?;
            // What is no data is trailers, of which nobody here knows what to do.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

/// Headers that say how this connection works; only we may.
const OURS: &[&str] =
    &["connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

fn build(
    method: Method,
    address: &Address,
    headers: &[(String, String)],
    body: Bytes,
) -> Result<hyper::Request<Full<Bytes>>, Error> {
    let mut outgoing = hyper::Request::builder()
        .method(method)
        .uri(address.path_and_query())
        .header(hyper::header::HOST, address.authority())
        .body(Full::new(body))
        .map_err(|_| Error::BadAddress { reason: "the path contains invalid characters".into() })?;
    for (name, value) in headers {
        let bad = |reason: &str| Error::BadHeader { name: name.clone(), reason: reason.into() };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("not a valid header name"))?;
        if OURS.contains(&key.as_str()) || key.as_str().starts_with("proxy-") {
            return Err(bad("this header is managed by the connection and cannot be set"));
        }
        let value = HeaderValue::from_str(value).map_err(|_| bad("the value contains invalid characters"))?;
        outgoing.headers_mut().append(key, value);
    }
    Ok(outgoing)
}

#[cfg(test)]
mod tests;
