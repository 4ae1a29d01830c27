//! Idempotency keys: the same key and body is the same request, and gets the answer of the first.

use drawloom_contract::{
    caller::Caller,
    failure::{Explain, Failure, FailureKind},
    ids::{Digest, Tenant, UserId},
    once::RequestKey,
};
use drawloom_wire::request::Request;
use serde_json::Value;

use crate::{
    app::App,
    locks::Locks,
    operation::{Answer, KEY_FIELD},
};

/// The key of a request, which is taken out of its input. What is left of the input is the body that a repeat must have;
/// absent and `null` are the same.
pub(super) fn take(operation: &'static str, caller: &Caller, input: &mut Value) -> Option<RequestKey> {
    let fields = input.as_object_mut()?;
    fields.retain(|_, value| !value.is_null());
    let key = fields.remove(KEY_FIELD)?;
    let body = serde_json::to_vec(fields).expect("inputs have only text keys");
    Some(RequestKey {
        tenant: caller.tenant.clone(),
        subject: caller.subject.clone(),
        operation,
        key: Digest::of(key.as_str()?.as_bytes()),
        body: Digest::of(&body),
    })
}

/// The key of a request whose operation stores it itself.
pub(crate) fn request_key<R: Request>(caller: &Caller, request: &R) -> Option<RequestKey> {
    let mut input = serde_json::to_value(request).expect("requests have only text keys");
    take(R::NAME, caller, &mut input)
}

/// The stored answer of the request; when there is none, the answer of `invoke`, which is stored. A request that failed is not
/// stored, and neither is one whose process died before that: its repeat is carried out.
pub(crate) async fn once(
    app: &App,
    key: RequestKey,
    invoke: impl Future<Output = Result<Value, Failure>>,
) -> Result<Value, Failure> {
    let lock = app.keyed.of((key.tenant.clone(), key.subject.clone(), key.operation, key.key));
    let _alone = lock.acquire().await;
    if let Some(answer) = app.answers.find_answer(&key).await.map_err(|error| Failure::of(&error as &dyn Explain))? {
        return Ok(answer);
    }
    let value = invoke.await?;
    let stored = app.answers.store_answer(key, app.redactor.clean(value.clone()), app.clock.wall()).await;
    Ok(stored.unwrap_or_else(|error| {
        // What was asked for is done.
        tracing::warn!(%error, "cannot store the response; a repeated request will be executed again");
        value
    }))
}

/// The answer of an operation that does not store its key: a value. The key was taken out of its input, so that it could not.
pub(super) fn value_of(answer: Answer<Value>) -> Result<Value, Failure> {
    match answer {
        Answer::Value(value) => Ok(value),
        Answer::Handle(_) | Answer::Events(_) => {
            let message = "an operation that starts something must store its key itself (Card::stores_key)";
            Err(Failure::new(FailureKind::Bug, "bug", message))
        }
    }
}

/// Requests with a key that are being answered. A repeat waits for the first one.
pub(crate) type InFlight = Locks<(Tenant, UserId, &'static str, Digest)>;
