//! REST: routes from the list of operations, one generic handler for all of them.

mod fixed;
pub(crate) mod input;
mod large;
pub(crate) mod openapi;
mod paths;
mod refusal;
mod reply;
mod stream;

use std::{panic::AssertUnwindSafe, sync::Arc};

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header, request},
    response::Response,
    routing::any,
};
use drawloom_contract::{
    failure::{Failure, FailureKind},
    redact::Redactor,
};
use futures::FutureExt;
use tower::ServiceExt;
use tracing::Instrument;

pub(crate) use input::read_body;
pub(crate) use large::LargeEvents;
pub(crate) use refusal::Refusal;

use crate::{
    app::App,
    auth::{check_content_type, check_instance, check_origin},
    connections::{Connection, Pieces, TooMuch},
    mcp::Endpoint,
};

/// Where every request is logged, at level `debug`: `--log info,requests=debug` shows them.
const REQUEST_LOG: &str = "requests";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The whole REST surface.
pub(crate) struct Surface {
    app: Arc<App>,
    router: Router,
}

/// What the handlers know of a request before they look at it.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) id: Arc<str>,
    redactor: Arc<Redactor>,
}

impl Surface {
    /// Routes for all operations.
    pub(crate) fn new(app: Arc<App>) -> Arc<Self> {
        let mut router = paths::add(fixed::routes(&app), &app);
        let endpoint = Endpoint::new(&app);
        for path in ["/mcp", "/v1/_mcp"] {
            let endpoint = endpoint.clone();
            let handler = move |request: Request| {
                let endpoint = endpoint.clone();
                async move {
                    let asked = request.extensions().get::<Asked>().cloned();
                    let asked = asked.expect("the surface puts it into every request");
                    endpoint.answer(request).await.unwrap_or_else(|refusal| refusal.answer(&asked))
                }
            };
            router = router.route(path, any(handler));
        }
        Arc::new(Self { app, router: router.fallback(unknown_route) })
    }

    /// Answers a request of a connection, and notes there who made it. A large answer for which there is no room is refused.
    pub(crate) async fn answer_on(&self, connection: &Arc<Connection>, request: Request) -> Response<Pieces> {
        let method = request.method().clone();
        let answer = self.answer_identified(connection, request).await;
        let mut answer = answer.map(|body| Pieces::new(body, connection.clone()));
        let Err(error) = answer.body_mut().reserve() else { return answer };
        tracing::warn!(request = connection.request().as_ref().map(Uri::path), %error, "refused a large response");
        let (head, mut pieces) = answer.into_parts();
        let id = head.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
        let (mut refused, body) = Refusal::from(no_room(&method, &error)).answer(&self.asked(id.into())).into_parts();
        // Those that name the request and the run.
        for (name, value) in &head.headers {
            if !refused.headers.contains_key(name) && name != header::CONTENT_LENGTH {
                refused.headers.insert(name, value.clone());
            }
        }
        pieces.replace(body);
        Response::from_parts(refused, pieces)
    }

    async fn answer_identified(&self, connection: &Connection, request: Request) -> Response {
        // Who shows no token, or a wrong one, stays a stranger; the handler says what is wrong with it.
        if !self.app.auth.is_open()
            && let Ok(caller) = self.app.auth.identify(request.headers())
            && let Err(error) = connection.identify(&caller)
        {
            let failure = Failure::new(FailureKind::Unavailable, "too_many_connections", error.to_string());
            return self.refuse_and_close(failure.with_hint("close unused connections, or retry later"));
        }
        self.answer(request).await
    }

    /// Answers one request, whatever happens.
    async fn answer(&self, mut request: Request) -> Response {
        let is_secret = |id: &&str| self.app.redactor.mask(&mut (*id).to_owned());
        let id: Arc<str> = match given_id(request.headers()).filter(|id| !is_secret(id)) {
            Some(id) => id.into(),
            None => self.app.request_id().into(),
        };
        let (began, method, path) = (self.app.clock.now(), request.method().clone(), request.uri().path().to_owned());
        let span = tracing::debug_span!("request", id = %id, %method, path);
        let asked = self.asked(id.clone());
        let checked = check_origin(self.app.auth.is_open(), request.headers())
            .map_err(Refusal::from)
            .and_then(|()| check_content_type(request.headers()).map_err(Refusal::wrong_content_type))
            .and_then(|()| check_instance(self.app.instance(), request.headers()).map_err(Refusal::wrong_instance));
        let mut response = match checked {
            Err(refusal) => refusal.answer(&asked),
            Ok(()) => {
                request.extensions_mut().insert(asked.clone());
                let answer = self.router.clone().oneshot(request).instrument(span);
                match AssertUnwindSafe(answer).catch_unwind().await {
                    Ok(Ok(response)) => response,
                    Err(panic) => {
                        let words = panic_words(&*panic);
                        tracing::error!(request = %id, panic = words, "request handler panicked");
                        Refusal::from(self.app.panicked(words)).answer(&asked)
                    }
                }
            }
        };
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        let took_ms = self.app.clock.now().since(began).as_millis() as u64;
        let status = response.status().as_u16();
        tracing::debug!(target: REQUEST_LOG, request = %id, %method, path, status, took_ms, "answered");
        response
    }

    fn asked(&self, id: Arc<str>) -> Asked {
        Asked { id, redactor: self.app.redactor.clone() }
    }

    /// Answers a request for which there is no room.
    pub(crate) fn turn_away(&self) -> Response {
        let failure = Failure::new(
            FailureKind::Unavailable,
            "too_many_connections",
            format!("connection limit reached: {} connections", self.app.limits.connections),
        )
        .with_hint("close unused connections, or retry later");
        self.refuse_and_close(failure)
    }

    fn refuse_and_close(&self, failure: Failure) -> Response {
        let id = self.app.request_id();
        let mut response = Refusal::from(failure).answer(&self.asked(id.as_str().into()));
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        response
    }
}

/// Why a large answer is not sent. What a caller asked for with another method than GET has been done, so that the same request
/// must not be sent again.
fn no_room(method: &Method, error: &TooMuch) -> Failure {
    match *method == Method::GET || *method == Method::HEAD {
        true => Failure::new(FailureKind::Unavailable, "too_many_answers", error.to_string()).with_hint("retry later"),
        false => Failure::new(FailureKind::Broken, "too_many_answers", error.to_string())
            .with_hint("the request was executed; read its result later with GET"),
    }
}

/// The id that a caller gave a request, if it is one that can be shown.
fn given_id(headers: &HeaderMap) -> Option<&str> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    ((1..=64).contains(&id.len()) && id.bytes().all(plain)).then_some(id)
}

fn panic_words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic without a message")
}

fn asked(parts: &request::Parts) -> Asked {
    parts.extensions.get::<Asked>().cloned().expect("the surface puts it into every request")
}

async fn unknown_route(request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let message = format!("unknown path {}", parts.uri.path());
    let failure = Failure::new(FailureKind::NotFound, "unknown_route", message)
        .with_hint("GET /v1/openapi.json lists every route");
    Refusal::from(failure).answer(&asked(&parts))
}
