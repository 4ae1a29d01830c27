//! What wants no answer: notifications, the host's answers to what the server asked, and the end of a session.

use std::sync::{Arc, PoisonError};

use drawloom_net::Method;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    GOODBYE, PATIENCE, Shared, call,
    exchange::{Era, Fate},
    frame::Notification,
    headers,
    outage::Outage,
};

/// Sends something that wants no answer: a notification, or the host's answer to what the server asked.
pub(crate) async fn send(shared: Arc<Shared>, message: Notification, room: OwnedSemaphorePermit) {
    let greeting = message.method == "notifications/initialized";
    let is_answer = !message.method.starts_with("notifications/");
    let mut outage = Outage::new(PATIENCE);
    let failure = loop {
        let last = || shared.version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let session = if greeting { shared.session.begun().await } else { shared.session.settled().await };
        let era = match (message.version.clone(), session) {
            (Some(version), _) => Era::Stateless(version, headers::standard(&message.method, None)),
            (None, Some(open)) => Era::Session(open),
            (None, None) => match last().filter(|_| !is_answer) {
                Some(version) => Era::Stateless(version, headers::standard(&message.method, None)),
                None => Era::Bare,
            },
        };
        let fate = match shared.post(&message.text, &era, outage.failed.as_ref()).await {
            Ok(head) => shared.read(head, None).await,
            Err(fate) => fate,
        };
        let fate = match fate {
            Fate::NoSession(generation) => match call::renew(&shared, generation, outage.failed.as_ref()).await {
                // Opening the session anew says this already.
                Ok(()) if greeting => break None,
                Ok(()) => match outage.renewed(&*shared.clock, &*shared.entropy).await {
                    Ok(()) => continue,
                    Err(failure) => Fate::Refused(failure),
                },
                Err(fate) => fate,
            },
            fate => fate,
        };
        match fate {
            Fate::Taken | Fate::Answered(_) => break None,
            Fate::NoSession(_) => break Some("the server has lost the session".to_owned()),
            Fate::Refused(failure) => break Some(failure.to_string()),
            Fate::Away(away) if away.sent && !is_answer && !message.is_repeatable() => {
                break Some(format!("unknown whether it arrived: {}", away.why));
            }
            Fate::Away(away) => {
                if let Err(failure) = outage.wait(away, &*shared.clock, &*shared.entropy).await {
                    break Some(failure.to_string());
                }
            }
        }
    };
    if greeting {
        shared.session.greeted();
    }
    if let Some(error) = failure {
        tracing::warn!(what = message.method, %error, "a message of the host did not reach the server");
    }
    drop(room);
}

/// Ends the session at the server, if it hears of it in time.
pub(crate) async fn goodbye(shared: &Shared) {
    let Some(open) = shared.session.current().filter(|open| open.id.is_some()) else { return };
    let Some(at) = shared.upstream.known() else { return };
    let request = shared.request(Method::Delete, &at, &Era::Session(open), None);
    let deadline = shared.clock.now().after(GOODBYE);
    tokio::select! {
        _ = shared.http.send(request) => {}
        () = shared.clock.sleep_until(deadline) => {}
    }
}
