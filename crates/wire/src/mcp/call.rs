//! The life of a request: sent until it is answered, once; or withdrawn, and then the server is told.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use drawloom_contract::failure::{Failure, FailureKind};
use tokio::sync::{oneshot, watch};

use super::{
    FIRST_CONTACT_PATIENCE, HEARTBEAT, IDEMPOTENCY_KEY, LONG_LIFE, MOST_SENDS, PATIENCE, RPC_FAILED, Shared,
    exchange::{Era, Fate},
    frame::{self, Notification, Object, Request, nested, raw},
    headers,
    outage::{self, Outage},
};
use crate::upstream::Address;

/// How long a withdrawn request may take to be seen by the server, before its cancel counts as having come after it.
const CROSSING: Duration = Duration::from_secs(10);

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Here: nothing of it has left.
    Here,
    /// On its way: the server may have it.
    OnItsWay,
    /// At the server, which has begun to answer.
    There,
    /// Nowhere in particular: it may have arrived, and the server is away.
    Lost,
}

/// What others must know of a request on its way.
struct Trip {
    place: watch::Sender<Place>,
    /// Whether it may still be sent.
    sending: AtomicBool,
    /// Why it did not arrive the last time.
    why: Mutex<Option<Failure>>,
}

/// Carries a request to the server and its answer back.
pub(crate) async fn carry(shared: Arc<Shared>, request: Request, mut withdrawn: oneshot::Receiver<Notification>) {
    let (place, placed) = watch::channel(Place::Here);
    let trip = Trip { place, sending: AtomicBool::new(true), why: Mutex::default() };
    if let Some(token) = &request.progress_token {
        shared.progress.begin(token);
    }
    let mut delivery = Box::pin(deliver(&shared, &request, &trip));
    let ended = tokio::select! {
        biased;
        ended = &mut delivery => Ok(ended),
        failure = out_of_time(&shared, &request, placed.clone()) => Ok(Err(failure)),
        failure = out_of_first_contact(&shared, &request, &trip) => Ok(Err(failure)),
        () = heartbeats(&shared, &request, placed.clone()) => unreachable!("it never ends"),
        Ok(notification) = &mut withdrawn => Err(notification),
    };
    if let Some(token) = &request.progress_token {
        shared.progress.end(token);
    }
    if request.method == "initialize" {
        shared.session.answered(&request.text);
    }
    match ended {
        Ok(answer) => {
            let line = answer.unwrap_or_else(|failure| refusal(&request, &failure));
            if shared.calls.finish(&request.id) {
                shared.output.line(line).await;
            }
        }
        Err(notification) => {
            trip.sending.store(false, Ordering::Relaxed);
            withdraw(&shared, &request, &notification, placed, delivery).await;
        }
    }
}

/// Our own answer to a request that the server did not answer.
pub(crate) fn refusal(request: &Request, failure: &Failure) -> Bytes {
    tracing::warn!(code = failure.code, error = %failure, "a request failed");
    frame::error(Some(&request.id), RPC_FAILED, &in_words(failure), Some(super::data_of(failure)))
}

/// What happened and what to do, in one text: hosts show no more than the message.
pub(crate) fn in_words(failure: &Failure) -> String {
    match &failure.hint {
        Some(hint) => format!("{failure}. What to do: {hint}"),
        None => failure.to_string(),
    }
}

/// Sends a request until it is answered, or until `sending` is over.
async fn deliver(shared: &Shared, request: &Request, trip: &Trip) -> Result<Bytes, Failure> {
    let Trip { place, sending, why } = trip;
    let mut outage = Outage::new(if request.is_first_contact() { FIRST_CONTACT_PATIENCE } else { PATIENCE });
    let mut sends = 0;
    loop {
        let era = era(shared, request).await;
        if !sending.load(Ordering::Relaxed) {
            return Err(Failure::new(FailureKind::Conflict, "cancelled", "the host has withdrawn the request"));
        }
        place.send_replace(Place::OnItsWay);
        let begun = shared.clock.now();
        let fate = match shared.post(&request.text_at(begun), &era, outage.failed.as_ref()).await {
            Ok(head) => {
                if head.response.status() < 300 {
                    place.send_replace(Place::There);
                }
                shared.read(head, Some(&request.id)).await
            }
            Err(fate) => fate,
        };
        match fate {
            Fate::Answered(answer) => {
                match request.method.as_str() {
                    "initialize" => shared.session.opened(&request.text, answer.session, &answer.text),
                    "tools/list" => shared.learn(&answer.text),
                    _ => {}
                }
                return Ok(answer.text);
            }
            Fate::Taken => unreachable!("a request is answered, or it is refused"),
            Fate::Refused(failure) => return Err(failure),
            Fate::NoSession(generation) => {
                place.send_replace(if sends == 0 { Place::Here } else { Place::Lost });
                match renew(shared, generation, outage.failed.as_ref()).await {
                    Ok(()) => outage.renewed(&*shared.clock, &*shared.entropy).await?,
                    Err(Fate::Away(away)) => outage.wait(away, &*shared.clock, &*shared.entropy).await?,
                    Err(Fate::Refused(failure)) => return Err(failure),
                    Err(Fate::Taken | Fate::Answered(_) | Fate::NoSession(_)) => return Err(no_new_session()),
                }
            }
            Fate::Away(away) => {
                *why.lock().unwrap_or_else(PoisonError::into_inner) = Some(away.why.clone());
                let lived = shared.clock.now().since(begun);
                // A server that only begins to answer is not there yet, nor is one that takes a subscription and no more.
                if (away.heard && request.method != "subscriptions/listen") || lived >= LONG_LIFE {
                    outage.over();
                }
                if away.sent {
                    sends = if lived >= LONG_LIFE { 1 } else { sends + 1 };
                    if !request.is_repeatable() {
                        return Err(in_doubt(request, &away.why));
                    }
                    if sends >= MOST_SENDS && request.method != "subscriptions/listen" {
                        return Err(hopeless(request, &away.why));
                    }
                }
                place.send_replace(if sends == 0 { Place::Here } else { Place::Lost });
                outage.wait(away, &*shared.clock, &*shared.entropy).await?;
            }
        }
    }
}

/// Why the host must be answered now although the server has not: it will not wait longer. Never ends when nobody knows how
/// long the host waits.
async fn out_of_time(shared: &Shared, request: &Request, placed: watch::Receiver<Place>) -> Failure {
    let Some(patience) = request.patience else { return std::future::pending().await };
    shared.clock.sleep_until(patience.last_moment()).await;
    no_time_left(request, *placed.borrow())
}

/// Why the first request of a host must be answered now, whatever it waits for: a start, a lock, or a server that is silent.
/// Never ends for others.
async fn out_of_first_contact(shared: &Shared, request: &Request, trip: &Trip) -> Failure {
    if !request.is_first_contact() {
        return std::future::pending().await;
    }
    shared.clock.sleep_until(shared.clock.now().after(FIRST_CONTACT_PATIENCE)).await;
    let why = trip.why.lock().unwrap_or_else(PoisonError::into_inner).take();
    let why = why.unwrap_or_else(|| {
        let what = "it is silent, or has not yet started";
        Failure::new(FailureKind::Unavailable, "upstream_away", what).with_hint("connect again, and look at its log")
    });
    outage::gave_up(&why, FIRST_CONTACT_PATIENCE)
}

/// How a request travels.
async fn era(shared: &Shared, request: &Request) -> Era {
    match &request.version {
        Some(version) => Era::Stateless(version.clone(), shared.headers_of(request)),
        None if request.method == "initialize" => Era::Bare,
        None => shared.session.settled().await.map_or(Era::Bare, Era::Session),
    }
}

/// Opens the session anew with the host's own words; one does it for all who lost it.
pub(crate) async fn renew(shared: &Shared, stale: u64, failed: Option<&Address>) -> Result<(), Fate> {
    let _one = shared.session.renewing.lock().await;
    if shared.session.current().is_none_or(|open| open.generation != stale) {
        return Ok(());
    }
    let (hello, initialized) = shared.session.words().ok_or_else(|| Fate::Refused(no_new_session()))?;
    let id = serde_json::from_slice::<Object>(&hello).ok().and_then(|hello| frame::Id::read(hello.get("id")?.get()));
    let id = id.ok_or_else(|| Fate::Refused(no_new_session()))?;
    let head = shared.post(&hello, &Era::Bare, failed).await?;
    match shared.read(head, Some(&id)).await {
        Fate::Answered(answer) => shared.session.opened(&hello, answer.session, &answer.text),
        fate => return Err(fate),
    }
    if shared.session.words().is_none_or(|(now, _)| now != hello) {
        // The host has begun another one meanwhile, which is waited for.
        return Ok(());
    }
    let open = shared.session.current().filter(|open| open.generation != stale);
    let era = Era::Session(open.ok_or_else(|| Fate::Refused(no_new_session()))?);
    tracing::info!("the server lost the session; opened a new one");
    if let Some(initialized) = initialized {
        let head = shared.post(&initialized, &era, failed).await?;
        match shared.read(head, None).await {
            Fate::Taken => {}
            fate => return Err(fate),
        }
    }
    Ok(())
}

/// Tells the host now and then that its call is not forgotten while the server is away. Never ends.
async fn heartbeats(shared: &Shared, request: &Request, mut placed: watch::Receiver<Place>) {
    let Some(token) = &request.progress_token else { return std::future::pending().await };
    loop {
        if placed.wait_for(|place| *place != Place::There).await.is_err() {
            return std::future::pending().await;
        }
        let clock = &shared.clock;
        tokio::select! {
            _ = placed.wait_for(|place| *place == Place::There) => continue,
            () = clock.sleep_until(clock.now().after(HEARTBEAT)) => {}
        }
        let message = "the drawloom server does not answer at the moment; the call is kept and sent again";
        if let Some(line) = shared.progress.say(token, message) {
            shared.output.line(line).await;
        }
    }
}

/// The host does not want the answer any more: the server is told, also when it is away now and the request may have
/// arrived before.
async fn withdraw(
    shared: &Shared,
    request: &Request,
    notification: &Notification,
    mut placed: watch::Receiver<Place>,
    delivery: impl Future<Output = Result<Bytes, Failure>> + Unpin,
) {
    let place = *placed.borrow();
    // Nobody could find a stateless request without a key; that the connection closes says it all.
    if place == Place::Here || (request.version.is_some() && request.key.is_none()) {
        return;
    }
    if place == Place::Lost {
        return tell(shared, request, notification).await;
    }
    // The request's own connection stays open meanwhile: a server may forget a call whose caller is gone.
    let telling = async {
        tell(shared, request, notification).await;
        if place == Place::OnItsWay {
            // The cancel went another way and may have overtaken the request, so it is sent again after it.
            let crossing = shared.clock.sleep_until(shared.clock.now().after(CROSSING));
            tokio::select! {
                _ = placed.wait_for(|place| *place != Place::OnItsWay) => {}
                () = crossing => {}
            }
            tell(shared, request, notification).await;
        }
    };
    let ended = tokio::select! {
        biased;
        () = telling => return,
        ended = delivery => ended,
    };
    // It was lost before the server could be told. It is not sent again, so a cancel after this is the last word.
    if ended.is_err() {
        tell(shared, request, notification).await;
    }
}

/// Sends a cancel until the server has taken it, or for as long as it may be away: a server that is silent must not keep the
/// room of a call for ever.
async fn tell(shared: &Shared, request: &Request, notification: &Notification) {
    let deadline = shared.clock.now().after(PATIENCE);
    tokio::select! {
        () = tell_in_time(shared, request, notification) => {}
        () = shared.clock.sleep_until(deadline) => {
            tracing::warn!("the server did not accept a cancel in time; the run continues");
        }
    }
}

async fn tell_in_time(shared: &Shared, request: &Request, notification: &Notification) {
    let text = cancel(request, notification);
    let mut outage = Outage::new(PATIENCE);
    loop {
        let era = match &request.version {
            Some(version) => Era::Stateless(version.clone(), headers::standard(&notification.method, None)),
            None => shared.session.settled().await.map_or(Era::Bare, Era::Session),
        };
        let fate = match shared.post(&text, &era, outage.failed.as_ref()).await {
            Ok(head) => shared.read(head, None).await,
            Err(fate) => fate,
        };
        let fate = match fate {
            Fate::NoSession(generation) => match renew(shared, generation, outage.failed.as_ref()).await {
                Ok(()) => match outage.renewed(&*shared.clock, &*shared.entropy).await {
                    Ok(()) => continue,
                    Err(failure) => Fate::Refused(failure),
                },
                Err(fate) => fate,
            },
            fate => fate,
        };
        let failure = match fate {
            Fate::Taken | Fate::Answered(_) => return,
            Fate::Away(away) => match outage.wait(away, &*shared.clock, &*shared.entropy).await {
                Ok(()) => continue,
                Err(failure) => failure,
            },
            Fate::NoSession(_) => no_new_session(),
            Fate::Refused(failure) => failure,
        };
        tracing::warn!(error = %failure, "a cancel did not reach the server; the run continues");
        return;
    }
}

/// The host's cancel, with the key of the call and who asks.
fn cancel(request: &Request, notification: &Notification) -> Bytes {
    let mut params = notification.params.clone();
    let mut meta = nested(&params, "_meta").unwrap_or_default();
    for (name, value) in &request.sender {
        meta.entry(name.clone()).or_insert_with(|| value.clone());
    }
    if let Some(key) = &request.key {
        meta.insert(IDEMPOTENCY_KEY.into(), raw(key));
    }
    params.insert("_meta".into(), raw(&meta));
    let params = raw(&params);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#).into()
}

fn in_doubt(request: &Request, why: &Failure) -> Failure {
    let what = format!("unknown whether {} arrived: {why}", request.method);
    Failure::new(FailureKind::Unavailable, "outcome_unknown", what)
        .with_hint("find out whether it happened before you ask again")
}

fn no_time_left(request: &Request, place: Place) -> Failure {
    let failure = |what: &str| {
        let what = format!("the drawloom server did not answer for as long as the client waits; {what}");
        Failure::new(FailureKind::Unavailable, "upstream_away", what)
    };
    if place == Place::Here {
        return failure("the call was not sent").with_hint("call again; check that `drawloom serve` runs");
    }
    let join = request.key.as_ref().map(|key| format!("; a spawn with \"idempotency_key\": \"{key}\" joins it"));
    let hint = format!("accepted runs continue: see list_runs and get_batch{}", join.unwrap_or_default());
    failure("the call may have arrived").with_hint(hint)
}

fn hopeless(request: &Request, why: &Failure) -> Failure {
    let what = format!("{} was sent {MOST_SENDS} times and never answered: {why}", request.method);
    Failure::new(FailureKind::Unavailable, "upstream_away", what)
        .with_hint("see the log of the server; accepted runs continue: see list_runs")
}

fn no_new_session() -> Failure {
    Failure::new(FailureKind::Unavailable, "session_lost", "the server has lost the session and opens no new one")
        .with_hint("connect again")
}
