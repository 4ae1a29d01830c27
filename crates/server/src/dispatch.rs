//! From a decoded request to an answer, the same for every surface: scope, validation, idempotency, invocation, and the wait for a
//! handle.
//! REST, MCP and the embedded backend only decode what they got into a [`Dispatch`], and encode the answer.

mod keys;
mod routes;

use std::sync::{Arc, OnceLock};

use drawloom_contract::{
    caller::{Caller, Scope},
    failure::{Explain, Failure, FailureKind},
    runs::Interest,
};
use drawloom_wire::{
    body,
    validate::{Problem, Validator},
};
use schemars::SchemaGenerator;
use serde_json::Value;
use tracing::Instrument;

pub(crate) use keys::{InFlight, once, request_key};

use crate::{
    app::App,
    operation::{Answer, AnyOperation, Call, Card, Entry, KEY_FIELD},
    operations,
};

/// The operations of a server.
pub struct Operations {
    list: Vec<Arc<Served>>,
}

/// An operation with what every surface needs of it.
pub struct Served {
    operation: Arc<dyn AnyOperation>,
    entry: Entry,
    /// Made when it is first used.
    validator: OnceLock<Validator>,
}

/// One request, as a surface decoded it.
pub struct Dispatch<'a> {
    /// What operations can reach.
    pub app: &'a Arc<App>,
    /// The caller.
    pub caller: &'a Caller,
    /// The id of the request, for the log.
    pub request_id: &'a str,
    /// All fields, wherever the surface had them.
    pub input: Value,
    /// What the surface wants to hear of a run that starts.
    pub interest: Interest,
    /// Most bytes of texts in the answer, where the input says nothing; no bound, when absent.
    pub result_bytes: Option<u64>,
}

/// Why a request was not answered.
#[derive(Debug)]
pub struct Refused {
    /// What every surface can show.
    pub failure: Box<Failure>,
    /// Every problem of the input, when that is why.
    pub problems: Vec<Problem>,
    /// The scope that the caller lacks, when that is why.
    pub scope: Option<Scope>,
}

/// Operations that cannot be offered together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationsError {
    /// A request would belong to both.
    #[error("the operations {first} and {second} have the same route: {route}")]
    SameRoute {
        /// The one that is listed first.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// The route of the second.
        route: String,
    },
    /// One changes something, and a repeat of its request cannot be told from another request.
    #[error("the operation {name} changes state, but its request has no field {KEY_FIELD}")]
    NoKey {
        /// The operation.
        name: &'static str,
    },
    /// Two have one name.
    #[error("two operations have the name {name}")]
    SameName {
        /// The name.
        name: &'static str,
    },
}

impl Explain for OperationsError {
    fn kind(&self) -> FailureKind {
        FailureKind::Invalid
    }

    fn code(&self) -> &'static str {
        match self {
            Self::SameRoute { .. } => "duplicate_route",
            Self::SameName { .. } => "duplicate_operation",
            Self::NoKey { .. } => "no_idempotency_key",
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::SameRoute { .. } | Self::SameName { .. } => "rename or remove one of them".into(),
            Self::NoKey { .. } => format!("add an optional string {KEY_FIELD} to its request"),
        })
    }
}

impl Operations {
    /// The built-in operations, and `extra` after them.
    pub fn with(extra: impl IntoIterator<Item = Arc<dyn AnyOperation>>) -> Result<Self, OperationsError> {
        let mut list: Vec<Arc<Served>> = operations::builtin().into_iter().map(Served::new).collect();
        for served in extra.into_iter().map(Served::new) {
            if served.card().takes_key() && !served.has_key_field() {
                return Err(OperationsError::NoKey { name: served.card().name() });
            }
            list.push(served);
        }
        for (number, served) in list.iter().enumerate() {
            let name = served.card().name();
            if list[..number].iter().any(|before| before.card().name() == name) {
                return Err(OperationsError::SameName { name });
            }
        }
        routes::check(list.iter().map(|served| served.card()))?;
        Ok(Self { list })
    }

    /// The built-in operations.
    pub fn builtin() -> Self {
        Self::with([]).expect("a test checks the routes of what is built in")
    }

    /// The operation of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<Served>> {
        self.list.iter().find(|served| served.card().name() == name)
    }

    /// All of them, in the order that OpenAPI shows them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.list.iter()
    }
}

impl Served {
    fn new(operation: Arc<dyn AnyOperation>) -> Arc<Self> {
        Arc::new(Self { entry: operation.entry(), operation, validator: OnceLock::new() })
    }

    /// Its card and schemas.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Its card.
    pub fn card(&self) -> &Card {
        &self.entry.card
    }

    /// Whether its input has a field for an idempotency key.
    pub fn has_key_field(&self) -> bool {
        let schema = (self.entry.input)(&mut SchemaGenerator::default()).to_value();
        schema["properties"].get(KEY_FIELD).is_some()
    }

    /// What checks its input, and reads fields that came as text.
    pub fn validator(&self) -> &Validator {
        self.validator.get_or_init(|| {
            let mut generator = SchemaGenerator::default();
            let mut schema = (self.entry.input)(&mut generator).to_value();
            if let Some(fields) = schema.as_object_mut() {
                fields.insert("$defs".into(), generator.take_definitions(true).into());
            }
            Validator::new(&schema).expect("inputs use only keywords that the validator knows; a test walks them")
        })
    }

    /// Whether the caller has the scope. [`Self::dispatch`] checks it too; a surface calls this before it reads a long body.
    pub fn check_scope(&self, caller: &Caller) -> Result<(), Refused> {
        match self.card().scope {
            Some(scope) if !caller.may(scope) => Err(Refused::lacks_scope(self.card().name(), scope)),
            _ => Ok(()),
        }
    }

    /// The answer to a request, or why there is none.
    pub async fn dispatch(&self, request: Dispatch<'_>) -> Result<Answer<Value>, Refused> {
        let span = tracing::debug_span!("operation", name = self.card().name(), request = request.request_id);
        self.steps(request).instrument(span).await
    }

    /// The answer to a request whose surface has no way of its own to wait: in the end, or at once for a caller who detached.
    pub async fn complete(&self, request: Dispatch<'_>) -> Result<Value, Refused> {
        let app = request.app.clone();
        Ok(match self.dispatch(request).await? {
            Answer::Value(value) => value,
            Answer::Handle(handle) => {
                serde_json::to_value(handle.answer(app).await).expect("answers have only text keys")
            }
            Answer::Events(_) => return Err(unasked_events().into()),
        })
    }

    async fn steps(&self, request: Dispatch<'_>) -> Result<Answer<Value>, Refused> {
        let Dispatch { app, caller, request_id: _, mut input, interest, result_bytes } = request;
        self.check_scope(caller)?;
        self.validator().check(&mut input)?;
        let key = match self.card().takes_key() && !self.card().stores_key {
            true => keys::take(self.card().name(), caller, &mut input),
            false => None,
        };
        let Some(key) = key else {
            return Ok(self.operation.invoke(Call { app, caller, interest, result_bytes }, input).await?);
        };
        let (operation, app, caller) = (self.operation.clone(), app.clone(), caller.clone());
        // In a task of its own: the answer is stored also when the caller does not wait for it.
        let answer = tokio::spawn(
            async move {
                let call = Call { app: &app, caller: &caller, interest, result_bytes };
                let invoked = async { keys::value_of(operation.invoke(call, input).await?) };
                keys::once(&app, key, invoked).await.map(Answer::Value)
            }
            .in_current_span(),
        );
        match answer.await {
            Ok(answer) => Ok(answer?),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Failure::new(FailureKind::Unavailable, "stopping", "the server is shutting down").into()),
            },
        }
    }
}

/// An operation answered events to a surface that did not ask for them.
pub(crate) fn unasked_events() -> Failure {
    Failure::new(FailureKind::Bug, "bug", "an operation returned events that were not requested")
}

impl Refused {
    /// The caller lacks `scope`, which `what` needs.
    pub(crate) fn lacks_scope(what: &str, scope: Scope) -> Self {
        let message = format!("{what} requires the scope {scope}, which this token does not have");
        let failure = Failure::new(FailureKind::Denied, "insufficient_scope", message)
            .with_hint(format!("add {scope} to the principal's scopes, or use another token"));
        Self { scope: Some(scope), ..failure.into() }
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self { failure: Box::new(failure), problems: Vec::new(), scope: None }
    }
}

impl From<Vec<Problem>> for Refused {
    fn from(problems: Vec<Problem>) -> Self {
        Self { failure: Box::new(body::refuse(&problems)), problems, scope: None }
    }
}
