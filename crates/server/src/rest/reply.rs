//! Answers: values at once, handles when they are done or as a stream.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use drawloom_contract::{ids::BatchId, view::RunView};
use drawloom_wire::events::Event;
use futures::{
    Stream,
    stream::{self, BoxStream},
};
use serde::Serialize;

use crate::{
    app::App,
    handle::{From, Handle, Target},
    operation::Download,
    rest::{
        Refusal,
        stream::{EventBody, endless},
    },
    room::Reserved,
};

const RUN_ID: HeaderName = HeaderName::from_static("drawloom-run-id");
const AGENT_ID: HeaderName = HeaderName::from_static("drawloom-agent-id");
const SESSION_ID: HeaderName = HeaderName::from_static("drawloom-session-id");
const BATCH_ID: HeaderName = HeaderName::from_static("drawloom-batch-id");

/// A value.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let mut response = Response::new(Body::from(encode(value)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A file to save. It may be HTML that an agent wrote, so no browser may show it or guess its type, and if one shows it all the same,
/// nothing in it runs.
pub(super) fn file(download: Download) -> Response {
    let Download { media_type, name, text } = download;
    let name: String = name.rsplit('/').next().unwrap_or_default().chars().filter(|sign| is_plain(*sign)).collect();
    let charset = if media_type.starts_with("text/") { "; charset=utf-8" } else { "" };
    let kind = HeaderValue::from_str(&format!("{media_type}{charset}"));
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind.unwrap_or(HeaderValue::from_static("application/octet-stream")));
    set(headers, header::CONTENT_DISPOSITION, &format!("attachment; filename=\"{name}\""));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let nothing = HeaderValue::from_static("default-src 'none'; sandbox");
    headers.insert(header::CONTENT_SECURITY_POLICY, nothing);
    response
}

fn is_plain(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || "._-".contains(sign)
}

/// A handle's answer as JSON. A wait that is not over soon sends its head, with the ids, before the result: the body's
/// first poll is pending, and hyper flushes a head whose body is.
pub(super) async fn waiting(app: &Arc<App>, handle: Handle) -> Response {
    let names = Names::of(&handle);
    let response = match handle.is_detached() {
        true => json(StatusCode::ACCEPTED, &handle.answer(app.clone()).await),
        false => soon_or_later(app, handle.answer(app.clone())).await,
    };
    names.put(response)
}

async fn soon_or_later<T: Serialize>(app: &App, result: impl Future<Output = T> + Send + 'static) -> Response {
    let mut result = Box::pin(result);
    let grace = app.clock.now().after(app.limits.head_grace);
    tokio::select! {
        biased;
        result = &mut result => return json(StatusCode::OK, &result),
        () = app.clock.sleep_until(grace) => {}
    }
    let later = async move { Ok::<_, Infallible>(encode(&result.await)) };
    json_later(Body::from_stream(stream::once(later)))
}

/// A handle's events. Batches, and callers who do not wait, get JSON.
pub(super) async fn stream(app: &Arc<App>, handle: Handle, reserved: Option<Reserved>) -> Result<Response, Refusal> {
    let names = Names::of(&handle);
    let followed = match handle.into_followed() {
        Ok(followed) => followed,
        Err(handle) => return Ok(waiting(app, *handle).await),
    };
    let view = &followed.run.view;
    if let From::After(seq) = followed.from
        && view.status.is_terminal()
        && seq >= view.seq
    {
        // All of it was seen: 204 tells a browser's event source not to come again.
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(names.put(response));
    }
    let body = EventBody::open(app, followed).await?;
    Ok(names.put(event_stream(body, reserved)))
}

/// Events until the caller leaves or the server stops.
pub(super) fn events(app: &Arc<App>, events: BoxStream<'static, Event>, reserved: Option<Reserved>) -> Response {
    event_stream(endless(app.clone(), events), reserved)
}

/// A stream that keeps its room until it ends.
fn event_stream(
    frames: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
    reserved: Option<Reserved>,
) -> Response {
    let body = match reserved {
        Some(reserved) => Body::from_stream(reserved.hold(frames)),
        None => Body::from_stream(frames),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn json_later(body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("answers have only text keys")
}

/// The ids of a handle, for the head of its answer.
struct Names {
    run: Option<Arc<RunView>>,
    batch: Option<BatchId>,
}

impl Names {
    fn of(handle: &Handle) -> Self {
        match handle.target() {
            Target::Run(run) => Self { run: Some(run.view.clone()), batch: run.view.batch.map(|place| place.batch) },
            Target::Batch(batch, _) => Self { run: None, batch: Some(*batch) },
        }
    }

    fn put(&self, mut response: Response) -> Response {
        let headers = response.headers_mut();
        if let Some(view) = &self.run {
            set(headers, RUN_ID, &view.run.to_string());
            set(headers, AGENT_ID, view.agent_id.as_str());
            set(headers, SESSION_ID, &view.session.to_string());
        }
        if let Some(batch) = self.batch {
            set(headers, BATCH_ID, &batch.to_string());
        }
        response
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    let value = HeaderValue::from_str(value).expect("ids are plain letters and digits");
    headers.insert(name, value);
}
