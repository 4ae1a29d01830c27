//! REST: routes out of the operations list, one generic handler for all of them.

mod fixed;
pub(crate) mod input;
mod large;
pub(crate) mod openapi;
mod refusal;
mod reply;
mod stream;

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    body::Body,
    extract::{FromRequestParts, RawPathParams, Request},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, request},
    response::Response,
    routing::any,
};
use drawloom_contract::{
    caller::Caller,
    failure::{Failure, FailureKind},
    redact::Redactor,
    runs::Interest,
};
use drawloom_wire::validate::Validator;
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
    operation::{Answer, AnyOperation, Call, Card, Verb},
    operations::{OPERATIONS, validator},
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
struct Asked {
    id: Arc<str>,
    redactor: Arc<Redactor>,
}

/// An operation with what REST needs of it; its validator is made when it is first used.
struct Served {
    operation: &'static dyn AnyOperation,
    card: Card,
    validator: OnceLock<Validator>,
}

/// A path and the operations on it.
struct Place {
    ways: Vec<(Verb, Arc<Served>)>,
}

impl Surface {
    /// Routes for all operations.
    pub(crate) fn new(app: Arc<App>) -> Arc<Self> {
        let mut places: Vec<(&'static str, Place)> = Vec::new();
        for operation in OPERATIONS {
            let card = operation.entry().card;
            let served = Arc::new(Served { operation: *operation, card, validator: OnceLock::new() });
            for (verb, path) in served.card.routes.clone() {
                let way = (verb, served.clone());
                match places.iter_mut().find(|(known, _)| *known == path) {
                    Some((_, place)) => place.ways.push(way),
                    None => places.push((path, Place { ways: vec![way] })),
                }
            }
        }
        let mut router = fixed::routes(&app);
        for (path, place) in places {
            let (app, place) = (app.clone(), Arc::new(place));
            let handler = move |request: Request| {
                let (app, place) = (app.clone(), place.clone());
                async move { place.answer(&app, request).await }
            };
            router = router.route(path, any(handler));
        }
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
        tracing::warn!(request = connection.request().as_ref().map(Uri::path), %error, "refused a large answer");
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
        if let Ok(caller) = self.app.auth.identify(request.headers())
            && let Err(error) = connection.identify(&caller)
        {
            let failure = Failure::new(FailureKind::Unavailable, "too_many_connections", error.to_string());
            return self.refuse_and_close(failure.with_hint("close connections that are not used, or ask again later"));
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
                        tracing::error!(request = %id, panic = words, "a handler panicked");
                        Refusal::from(Failure::new(FailureKind::Bug, "bug", words)).answer(&asked)
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
            format!("the server has its {} connections", self.app.limits.connections),
        )
        .with_hint("close connections that are not used, or ask again later");
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
        true => {
            Failure::new(FailureKind::Unavailable, "too_many_answers", error.to_string()).with_hint("ask again later")
        }
        false => Failure::new(FailureKind::Broken, "too_many_answers", error.to_string())
            .with_hint("the request was carried out: read its result later, with GET"),
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
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}

fn asked(parts: &request::Parts) -> Asked {
    parts.extensions.get::<Asked>().cloned().expect("the surface puts it into every request")
}

async fn unknown_route(request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let message = format!("there is nothing at {}", parts.uri.path());
    let failure = Failure::new(FailureKind::NotFound, "unknown_route", message)
        .with_hint("GET /v1/openapi.json lists every route");
    Refusal::from(failure).answer(&asked(&parts))
}

impl Place {
    async fn answer(&self, app: &Arc<App>, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let asked = asked(&parts);
        let wanted = if parts.method == Method::HEAD { "GET" } else { parts.method.as_str() };
        let way = self.ways.iter().find(|(verb, _)| verb.as_str() == wanted);
        let answered = match way {
            Some((verb, served)) => served.answer(app, *verb, parts, body).await,
            None => Err(self.other_method(&parts)),
        };
        answered.unwrap_or_else(|refusal| refusal.answer(&asked))
    }

    fn other_method(&self, parts: &request::Parts) -> Refusal {
        let mut allowed: Vec<&str> = self.ways.iter().map(|(verb, _)| verb.as_str()).collect();
        if allowed.contains(&"GET") {
            allowed.push("HEAD");
        }
        allowed.push("OPTIONS");
        let allowed = allowed.join(", ");
        if parts.method == Method::OPTIONS {
            Refusal::options(&allowed)
        } else {
            Refusal::wrong_method(parts, &allowed)
        }
    }
}

impl Served {
    async fn answer(
        &self,
        app: &Arc<App>,
        verb: Verb,
        mut parts: request::Parts,
        body: Body,
    ) -> Result<Response, Refusal> {
        let caller = app.auth.identify(&parts.headers).map_err(Refusal::unknown_caller)?;
        self.check_scope(&caller)?;
        let path = RawPathParams::from_request_parts(&mut parts, &())
            .await
            .map_err(|error| Failure::new(FailureKind::Invalid, "bad_path", error.to_string()))?;
        let limit = self.card.body_limit.unwrap_or(usize::MAX).min(app.limits.body);
        let body = match verb {
            Verb::Get => {
                input::no_body(&parts.headers)?;
                None
            }
            Verb::Post => Some(input::read_body(app, &parts.headers, body, limit).await?),
        };
        let validator = self.validator.get_or_init(|| validator(self.operation));
        let input = input::assemble(&self.card, validator, &parts, &path, body.as_ref().map(|held| &*held.bytes))?;
        let wants_stream = self.card.streams && !asks_for_json(&parts.headers);
        let interest = if wants_stream { Interest::Events } else { Interest::Outcome };
        match self.operation.invoke(Call { app, caller: &caller, interest, result_bytes: None }, input).await? {
            Answer::Value(value) => Ok(reply::json(StatusCode::OK, &value)),
            Answer::Handle(handle) if wants_stream => reply::stream(app, handle).await,
            Answer::Handle(handle) => Ok(reply::waiting(app, handle).await),
        }
    }

    fn check_scope(&self, caller: &Caller) -> Result<(), Refusal> {
        match self.card.scope {
            Some(scope) if !caller.may(scope) => Err(Refusal::insufficient_scope(self.card.name, scope)),
            _ => Ok(()),
        }
    }
}

/// Whether JSON is named before (or without) an event stream.
fn asks_for_json(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|kind| kind.split(';').next().unwrap_or_default().trim())
        .find_map(|kind| match kind {
            "application/json" | "application/*" => Some(true),
            "text/event-stream" | "text/*" => Some(false),
            _ => None,
        })
        .unwrap_or(false)
}
