//! Routes that are no operations: health, metrics, OpenAPI.

use std::sync::{Arc, OnceLock};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderValue, Method, StatusCode, header, request},
    response::Response,
    routing::any,
};
use bytes::Bytes;
use drawloom_contract::{VERSION, caller::Scope};
use drawloom_wire::house::Health;

use crate::{
    app::App,
    rest::{Refusal, asked, openapi, reply},
};

/// What they all allow.
const ALLOWED: &str = "GET, HEAD, OPTIONS";

/// The routes.
pub(super) fn routes(app: &Arc<App>) -> Router {
    let (for_health, for_metrics) = (app.clone(), app.clone());
    Router::new()
        .route("/healthz", any(move |request: Request| answer(request, async move |_| health(&for_health).await)))
        .route(
            "/metrics",
            any(move |request: Request| answer(request, async move |parts| metrics(&for_metrics, &parts))),
        )
        .route("/v1/openapi.json", any(|request: Request| answer(request, async |_| Ok(document()))))
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
    if let Err(failure) = app.vitals.check().await {
        return Err(failure.into());
    }
    let health =
        Health { ok: true, version: VERSION.into(), uptime_seconds: app.clock.now().since(app.started).as_secs() };
    Ok(reply::json(StatusCode::OK, &health))
}

fn metrics(app: &App, parts: &request::Parts) -> Result<Response, Refusal> {
    let caller = app.auth.identify(&parts.headers).map_err(Refusal::unknown_caller)?;
    if !caller.may(Scope::RunsRead) {
        return Err(Refusal::insufficient_scope("/metrics", Scope::RunsRead));
    }
    let mut response = Response::new(Body::from(app.vitals.metrics()));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

fn document() -> Response {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| openapi::document().to_string().into());
    let mut response = Response::new(Body::from(document.clone()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
