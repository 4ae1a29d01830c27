//! Routes beside the operations: health, readiness, metrics, OpenAPI.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request, uri::Authority},
    response::Response,
    routing::any,
};
use drawloom_contract::{VERSION, caller::Scope};
use drawloom_wire::health::Health;

use crate::{
    app::App,
    dispatch::Refused,
    rest::{Refusal, asked, openapi, reply},
};

/// What they all allow.
const ALLOWED: &str = "GET, HEAD, OPTIONS";

pub(super) fn routes(app: &Arc<App>) -> Router {
    let (for_health, for_ready, for_metrics, for_document) = (app.clone(), app.clone(), app.clone(), app.clone());
    let document = Arc::new(Document::default());
    Router::new()
        .route("/healthz", any(move |request: Request| answer(request, async move |_| health(&for_health).await)))
        .route("/readyz", any(move |request: Request| answer(request, async move |_| ready(&for_ready).await)))
        .route(
            "/metrics",
            any(move |request: Request| answer(request, async move |parts| metrics(&for_metrics, &parts))),
        )
        .route(
            "/v1/openapi.json",
            any(move |request: Request| {
                answer(request, async move |parts| Ok(document.answer(&for_document, &parts.headers)))
            }),
        )
}

/// A GET that takes nothing.
async fn answer(request: Request, get: impl AsyncFnOnce(request::Parts) -> Result<Response, Refusal>) -> Response {
    let (parts, _) = request.into_parts();
    let asked = asked(&parts);
    let answered = match parts.method {
        Method::GET | Method::HEAD => get(parts).await,
        Method::OPTIONS => Err(Refusal::options(ALLOWED)),
        _ => Err(Refusal::wrong_method(&parts, ALLOWED)),
    };
    answered.unwrap_or_else(|refusal| refusal.answer(&asked))
}

/// 200 once runs can be taken and the store works. It wants no token, and says nothing that one should protect.
async fn health(app: &App) -> Result<Response, Refusal> {
    app.monitor.check().await?;
    Ok(well(app))
}

/// 200 while new runs should be sent here, else 503 with the reason. It wants no token either. The server answers nothing before it
/// has resumed interrupted runs, so an answer means that this is done.
async fn ready(app: &App) -> Result<Response, Refusal> {
    app.monitor.check_ready().await?;
    Ok(well(app))
}

fn well(app: &App) -> Response {
    let uptime_seconds = app.clock.now().since(app.started).as_secs();
    reply::json(StatusCode::OK, &Health { ok: true, version: VERSION.into(), uptime_seconds })
}

fn metrics(app: &App, parts: &request::Parts) -> Result<Response, Refusal> {
    let caller = app.auth.identify(&parts.headers).map_err(Refusal::unknown_caller)?;
    if !caller.may(Scope::RunsRead) {
        return Err(Refused::lacks_scope("/metrics", Scope::RunsRead).into());
    }
    let mut response = Response::new(Body::from(app.monitor.metrics()));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// The OpenAPI document, made when it is first asked for.
#[derive(Default)]
struct Document {
    /// What comes before and after the address of the server.
    around: OnceLock<(String, String)>,
}

impl Document {
    fn answer(&self, app: &App, headers: &HeaderMap) -> Response {
        const ADDRESS: &str = "the-address-of-the-request";
        let (before, after) = self.around.get_or_init(|| {
            let whole = openapi::document(&app.operations, ADDRESS).to_string();
            let (before, after) = whole.split_once(ADDRESS).expect("the document names its server");
            (before.to_owned(), after.to_owned())
        });
        let mut response = Response::new(Body::from([before, &*address(headers), after].concat()));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// The address that a request came to; relative to the document, when the request does not say.
fn address(headers: &HeaderMap) -> Cow<'static, str> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    match host.filter(|host| !host.contains('@') && host.parse::<Authority>().is_ok()) {
        Some(host) => format!("http://{host}").into(),
        None => "/".into(),
    }
}
