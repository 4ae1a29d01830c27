//! The HTTP side: takes requests, lets the shape judge them, and sends what the script says.

use std::{
    collections::VecDeque, convert::Infallible, io, sync::Arc, sync::PoisonError, sync::atomic::Ordering,
    time::Duration,
};

use bytes::Bytes;
use drawloom_contract::time::{Clock, Timestamp};
use futures::stream;
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response,
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{
    Asked, Ending, Raw, Refusal, Reply, RetryAfter, ServerReply, Settings, Shape, Shared, WallClock, anthropic,
    chat::{self, Voice},
    deepseek,
    log::OpenCall,
    openai, responses,
};

/// Most bytes of a request, as the real servers have it.
const MOST_REQUEST: usize = 32 * 1024 * 1024;

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Takes connections, until it is aborted.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // An error here is a caller that left before it was taken, or too many open files: the next may do better.
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        drop(stream.set_nodelay(true));
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, Infallible>(answer(&shared, request).await) }
            });
            // A connection that breaks is the caller's affair.
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let turn = match shared.settings.shape {
        Shape::Anthropic => path == "/v1/messages",
        Shape::Openai => (shared.settings.make.ways().is_turn)(&path),
        Shape::Responses => path == "/v1/responses",
        Shape::Deepseek => path == "/chat/completions" || path == "/v1/chat/completions",
    };
    match (request.method(), path.as_str()) {
        (&Method::POST, _) if turn => answer_turn(shared, request, path).await,
        (&Method::GET, "/__log") => whole(200, &[], &json!({ "calls": shared.log.calls() })),
        _ if shared.settings.shape == Shape::Openai => answer_own(shared, request, &path).await,
        (&Method::GET, "/v1/models" | "/models") => answer_list(shared, &request),
        (method, path) => refuse(&shared.settings, &Refusal::new(404, format!("unknown route: {method} {path}")), None),
    }
}

fn headers_of(request: &Request<Incoming>) -> Vec<(String, String)> {
    let mut headers: Vec<_> = request
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    headers.sort();
    headers
}

/// Whether the request shows the key that the server wants.
fn check_key(shared: &Shared, headers: &[(String, String)]) -> Result<(), Refusal> {
    let Some(key) = &shared.settings.key else { return Ok(()) };
    let find = |name: &str| headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str());
    let bearer = find("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let shown = match shared.settings.shape {
        // Its newer SDKs show the key as a bearer.
        Shape::Anthropic => find("x-api-key").or(bearer),
        Shape::Openai => match shared.settings.make.ways().key_header {
            Some(header) => find(header),
            None => bearer,
        },
        Shape::Responses | Shape::Deepseek => bearer,
    };
    if shown == Some(key) {
        return Ok(());
    }
    // Some real servers show the key that they reject, so that clients must take care.
    let message = format!("invalid key {}", shown.unwrap_or_default());
    Err(match shared.settings.shape {
        Shape::Anthropic => Refusal::new(401, message),
        Shape::Openai | Shape::Responses | Shape::Deepseek => Refusal::new(401, message).kind("invalid_api_key"),
    })
}

fn answer_list(shared: &Shared, request: &Request<Incoming>) -> Response<Body> {
    let shape = shared.settings.shape;
    if let Err(refusal) = check_key(shared, &headers_of(request)) {
        return refuse(&shared.settings, &refusal, None);
    }
    let list = match shape {
        Shape::Anthropic => anthropic::models(),
        Shape::Openai | Shape::Responses => openai::models(),
        Shape::Deepseek => deepseek::models(),
    };
    whole(200, &[], &list)
}

/// What a server that speaks Chat Completions answers beside turns.
async fn answer_own(shared: &Shared, request: Request<Incoming>, path: &str) -> Response<Body> {
    let settings = &shared.settings;
    {
        let mut others = shared.others.lock().unwrap_or_else(PoisonError::into_inner);
        if others.len() < super::MOST_KEPT {
            others.push(path.to_owned());
        }
    }
    if let Err(refusal) = check_key(shared, &headers_of(&request)) {
        return refuse(settings, &refusal, None);
    }
    let (method, query) = (request.method().clone(), request.uri().query().unwrap_or_default().to_owned());
    let body = Limited::new(request.into_body(), MOST_REQUEST).collect().await.map(http_body_util::Collected::to_bytes);
    let body = body.ok().and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
    match (settings.make.ways().own)(&settings.models, &method, path, &query, &body) {
        Some(Ok(answer)) => whole(200, &[], &answer),
        Some(Err(refusal)) => refuse(settings, &refusal, None),
        None => refuse(settings, &Refusal::new(404, format!("unknown route: {method} {path}")), None),
    }
}

async fn answer_turn(shared: &Shared, request: Request<Incoming>, path: String) -> Response<Body> {
    let (shape, delay) = (shared.settings.shape, shared.settings.delay);
    let (mut open, accepted) = shared.log.open(shared.settings.max_concurrent);
    let headers = headers_of(&request);
    let method = request.method().to_string();
    let query = request.uri().query().unwrap_or_default().to_owned();
    if !accepted {
        return refuse(&shared.settings, &shared.settings.refusal, Some(open));
    }
    let body = match Limited::new(request.into_body(), MOST_REQUEST).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return refuse(&shared.settings, &Refusal::new(413, "Request exceeds the maximum size"), Some(open)),
    };
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return refuse(&shared.settings, &Refusal::new(400, "the body is not valid JSON"), Some(open));
    };
    let mut asked = Asked { shape, number: open.number(), method, path, query, headers, body };
    open.asks(asked.model());
    {
        let mut kept = shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < super::MOST_KEPT {
            kept.push(asked.clone());
        }
    }
    let checked = check_key(shared, &asked.headers).and_then(|()| match shape {
        Shape::Openai => (shared.settings.make.ways().check)(&shared.settings.models, &asked),
        Shape::Anthropic | Shape::Responses | Shape::Deepseek => asked.check(),
    });
    if let Err(refusal) = checked {
        return refuse(&shared.settings, &refusal, Some(open));
    }
    if shape == Shape::Openai {
        (shared.settings.make.ways().prepare)(&shared.settings.models, &mut asked);
    }
    let answer = (shared.script)(&asked);
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    match answer {
        ServerReply::Refusal(refusal) => refuse(&shared.settings, &refusal, Some(open)),
        ServerReply::Raw(Raw { status, headers, pieces }) => {
            let pieces = pieces.into_iter().map(|piece| Piece::Bytes(piece.into())).collect();
            open.answers(status);
            respond(status, &headers, Flow { pieces, between: Some(Duration::ZERO), open: Some(open) }.body())
        }
        ServerReply::Reply(reply) => speak(&shared.settings, &asked, &reply, open),
    }
}

/// Sends a turn, as a stream or whole.
fn speak(settings: &Settings, asked: &Asked, reply: &Reply, mut open: OpenCall) -> Response<Body> {
    let voice = || Voice { counts: settings.counts, ..(settings.make.ways().voice)(asked, reply) };
    let now = WallClock.wall();
    open.answers(200);
    let mut headers = reply.headers.clone();
    let id = if asked.shape == Shape::Anthropic { "request-id" } else { "x-request-id" };
    headers.push((id.to_owned(), format!("req_{:016}", asked.number)));
    if asked.body["stream"] != true {
        let answer = match asked.shape {
            Shape::Anthropic => anthropic::whole(asked, reply),
            Shape::Openai => chat::whole(asked, reply, &voice(), now),
            Shape::Responses => responses::whole(asked, reply, now),
            Shape::Deepseek => deepseek::whole(asked, reply, now),
        };
        open.complete();
        return whole(200, &headers, &answer);
    }
    let mut events = match asked.shape {
        Shape::Anthropic => anthropic::stream(asked, reply),
        Shape::Openai => chat::stream(asked, reply, &voice(), now),
        Shape::Responses => responses::stream(asked, reply, now),
        Shape::Deepseek => deepseek::stream(asked, reply, now),
    };
    let last = match &reply.ending {
        Ending::Whole => Vec::new(),
        Ending::Short(count) => ended(&mut events, *count, vec![]),
        Ending::Broken(count) => ended(&mut events, *count, vec![Piece::Break]),
        Ending::Silent(count) => ended(&mut events, *count, vec![Piece::Hang]),
        Ending::Garbage(count) => {
            ended(&mut events, *count, vec![Piece::Bytes(Bytes::from_static(b"data: {]\n\n\xff\xfe"))])
        }
        Ending::Error(count, kind) => {
            let error = error_body(settings, &Refusal::new(200, "it went wrong on the way").kind(kind));
            let name = if asked.shape == Shape::Anthropic { "event: error\n" } else { "" };
            ended(&mut events, *count, vec![Piece::Bytes(format!("{name}data: {error}\n\n").into())])
        }
    };
    let between = (!reply.between.is_zero()).then_some(reply.between);
    let mut pieces: VecDeque<Piece> = match between {
        Some(_) => events.into_iter().map(|event| Piece::Bytes(event.into())).collect(),
        // At once means in one write: many calls a second go through here.
        None => [Piece::Bytes(events.concat().into())].into(),
    };
    pieces.extend(last);
    headers.push(("content-type".to_owned(), "text/event-stream; charset=utf-8".to_owned()));
    headers.push(("cache-control".to_owned(), "no-cache".to_owned()));
    respond(200, &headers, Flow { pieces, between, open: Some(open) }.body())
}

fn ended(events: &mut Vec<String>, count: usize, last: Vec<Piece>) -> Vec<Piece> {
    events.truncate(count);
    last
}

fn error_body(settings: &Settings, refusal: &Refusal) -> Value {
    match settings.shape {
        Shape::Anthropic => anthropic::error(refusal),
        Shape::Openai => (settings.make.ways().error)(refusal),
        Shape::Responses | Shape::Deepseek => chat::error(refusal),
    }
}

fn refuse(settings: &Settings, refusal: &Refusal, open: Option<OpenCall>) -> Response<Body> {
    if let Some(mut open) = open {
        open.answers(refusal.status);
        open.complete();
    }
    let mut headers = refusal.headers.clone();
    let later = |seconds: u64| WallClock.wall().after(Duration::from_secs(seconds));
    match refusal.retry_after {
        RetryAfter::Absent => {}
        RetryAfter::Seconds(seconds) => headers.push(("retry-after".to_owned(), seconds.to_string())),
        RetryAfter::Date(seconds) => headers.push(("retry-after".to_owned(), http_date(later(seconds)))),
    }
    whole(refusal.status, &headers, &error_body(settings, refusal))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, a second later when `time` is in the middle of one.
fn http_date(time: Timestamp) -> String {
    let seconds = (time.as_millis() + 999) / 1000;
    let moment = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&moment).unwrap_or_default()
}

fn whole(status: u16, headers: &[(String, String)], body: &Value) -> Response<Body> {
    let headers: Vec<_> =
        headers.iter().cloned().chain([("content-type".to_owned(), "application/json".to_owned())]).collect();
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync();
    respond(status, &headers, body)
}

fn respond(status: u16, headers: &[(String, String)], body: Body) -> Response<Body> {
    let mut builder = Response::builder().status(status);
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    builder.body(body).expect("the headers of a script are headers")
}

enum Piece {
    Bytes(Bytes),
    Break,
    Hang,
}

/// A body on its way.
struct Flow {
    pieces: VecDeque<Piece>,
    between: Option<Duration>,
    open: Option<OpenCall>,
}

impl Flow {
    fn body(self) -> Body {
        let pieces = stream::unfold((self, true), |(mut flow, first)| async move {
            let piece = match flow.pieces.pop_front() {
                None => {
                    if let Some(mut open) = flow.open.take() {
                        open.complete();
                    }
                    return None;
                }
                Some(piece) => piece,
            };
            match (&piece, flow.between) {
                (_, Some(between)) if !first && !between.is_zero() => tokio::time::sleep(between).await,
                // What is to arrive by itself must leave by itself, and what comes before a break must leave at all.
                (_, Some(_)) | (Piece::Break | Piece::Hang, None) => tokio::task::yield_now().await,
                (Piece::Bytes(_), None) => {}
            }
            match piece {
                Piece::Bytes(bytes) => Some((Ok(Frame::data(bytes)), (flow, false))),
                Piece::Break => Some((Err(io::Error::other("the script says so")), (flow, false))),
                Piece::Hang => std::future::pending().await,
            }
        });
        StreamBody::new(pieces).boxed_unsync()
    }
}
