//! The paths of operations: one entry per shape of a path, with the operation of each method.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{FromRequestParts, RawPathParams, Request},
    http::{self, HeaderMap, StatusCode, header, request},
    response::Response,
    routing::any,
};
use drawloom_contract::{
    failure::{Failure, FailureKind},
    runs::Interest,
};
use drawloom_wire::request::{Method, Part, Route};

use crate::{
    app::App,
    dispatch::{Dispatch, Served, unasked_events},
    operation::Answer,
    rest::{Asked, Refusal, asked, input, reply},
    room::STREAM_BYTES,
};

/// The routes that differ only in their method.
struct Path {
    methods: Vec<(Route, Arc<Served>)>,
}

/// Adds the routes of all operations.
pub(super) fn add(mut router: Router, app: &Arc<App>) -> Router {
    let mut paths: Vec<(String, Path)> = Vec::new();
    for served in app.operations.iter() {
        for route in served.card().routes() {
            let (template, method) = (template(route), (*route, served.clone()));
            match paths.iter_mut().find(|(known, _)| *known == template) {
                Some((_, path)) => path.methods.push(method),
                None => paths.push((template, Path { methods: vec![method] })),
            }
        }
    }
    for (template, path) in paths {
        let (app, path) = (app.clone(), Arc::new(path));
        let handler = move |request: Request| {
            let (app, path) = (app.clone(), path.clone());
            async move { path.answer(&app, request).await }
        };
        router = router.route(&template, any(handler));
    }
    router
}

/// A route's path as the router writes it. Parameters are named by number, because the same one can have another name with
/// another method.
fn template(route: &Route) -> String {
    let part = |(number, part)| match part {
        Part::Literal(text) => format!("/{text}"),
        Part::Field(_) => format!("/{{{number}}}"),
        Part::Rest(_) => format!("/{{*{number}}}"),
    };
    route.parts().enumerate().map(part).collect()
}

impl Path {
    async fn answer(&self, app: &Arc<App>, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let asked = asked(&parts);
        let wanted = if parts.method == http::Method::HEAD { Method::Get.as_str() } else { parts.method.as_str() };
        let found = self.methods.iter().find(|(route, _)| route.method.as_str() == wanted);
        let answered = match found {
            Some((route, served)) => answer(app, &asked, served, route, parts, body).await,
            None => Err(self.other_method(&parts)),
        };
        answered.unwrap_or_else(|refusal| refusal.answer(&asked))
    }

    fn other_method(&self, parts: &request::Parts) -> Refusal {
        let mut allowed: Vec<&str> = self.methods.iter().map(|(route, _)| route.method.as_str()).collect();
        if allowed.contains(&Method::Get.as_str()) {
            allowed.push("HEAD");
        }
        allowed.push("OPTIONS");
        let allowed = allowed.join(", ");
        if parts.method == http::Method::OPTIONS {
            Refusal::options(&allowed)
        } else {
            Refusal::wrong_method(parts, &allowed)
        }
    }
}

async fn answer(
    app: &Arc<App>,
    asked: &Asked,
    served: &Served,
    route: &Route,
    mut parts: request::Parts,
    body: Body,
) -> Result<Response, Refusal> {
    let caller = app.auth.identify(&parts.headers).map_err(Refusal::unknown_caller)?;
    let card = served.card();
    // Before the body is read, which takes time and memory.
    served.check_scope(&caller)?;
    let path = RawPathParams::from_request_parts(&mut parts, &())
        .await
        .map_err(|error| Failure::new(FailureKind::Invalid, "bad_path", error.to_string()))?;
    let path = route.parameters().zip(path.iter().map(|(_, text)| text));
    let body = match route.has_body() {
        false => {
            input::no_body(route.method, &parts.headers)?;
            None
        }
        true => {
            let limit = card.body_limit.unwrap_or(usize::MAX).min(app.limits.body);
            Some(input::read_body(app, &parts.headers, body, limit).await?)
        }
    };
    let body = body.as_ref().map(|held| &*held.bytes);
    let input = input::assemble(card, served.validator(), &parts, path, body)?;
    let wants_stream = card.streams && !asks_for_json(&parts.headers);
    let interest = if wants_stream { Interest::Events } else { Interest::Outcome };
    // Before anything is started.
    let reserved = wants_stream.then(|| app.room.reserve(&caller, STREAM_BYTES)).transpose()?;
    let request = Dispatch { app, caller: &caller, request_id: &asked.id, input, interest, result_bytes: None };
    match served.dispatch(request).await? {
        Answer::Value(value) => Ok(match card.download.filter(|_| !asks_for_json(&parts.headers)) {
            Some(download) => reply::file(download(&value)),
            None => reply::json(StatusCode::OK, &value),
        }),
        Answer::Handle(handle) if wants_stream => reply::stream(app, handle, reserved).await,
        Answer::Handle(handle) => Ok(reply::waiting(app, handle).await),
        Answer::Events(events) if wants_stream => Ok(reply::events(app, events, reserved)),
        Answer::Events(_) => Err(unasked_events().into()),
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
