//! What an operation is: a request from `wire`, a card that says how it is offered, and one call.

use std::{future::Future, sync::Arc};

use drawloom_contract::{
    caller::{Caller, Scope},
    failure::{Failure, FailureKind},
    runs::Interest,
};
use drawloom_wire::{
    events::Event,
    request::{Changes, Description, Detach, Request, Route},
};
use futures::{FutureExt, future::BoxFuture, stream::BoxStream};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use crate::{app::App, handle::Handle};

/// The field of a request with which a repeat is the same request.
pub(crate) const KEY_FIELD: &str = "idempotency_key";

/// The header that is the same as [`KEY_FIELD`].
const KEY_HEADER: &str = "idempotency-key";

/// What counts when a header and a field differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// The header: a browser that reconnects repeats the old address with a new header.
    Header,
    /// Neither: the request is refused.
    MustAgree,
}

/// A header that is a field of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderField {
    /// The header, in lower case.
    pub header: &'static str,
    /// The field.
    pub field: &'static str,
    /// What counts when both are there.
    pub precedence: Precedence,
}

/// What surfaces know of an operation.
#[derive(Debug, Clone)]
pub struct Card {
    /// Name, routes and effect, from the request.
    pub description: Description,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// What a caller needs; nothing, when any known caller may call it.
    pub scope: Option<Scope>,
    /// The group of tools that it belongs to on MCP.
    pub toolset: &'static str,
    /// Whether it stops or removes something.
    pub destructive: bool,
    /// What a model should know of it beside the summary: when to use it, and what comes back.
    pub advice: &'static str,
    /// Whether it answers a stream of events unless JSON is asked for.
    pub streams: bool,
    /// Most bytes of its body, when that is less than the server's limit.
    pub body_limit: Option<usize>,
    /// Headers that are fields.
    pub headers: Vec<HeaderField>,
    /// Whether it stores its idempotency key itself, in the commit of what it makes. For others the dispatcher does it.
    pub stores_key: bool,
    /// How REST answers with a file, unless JSON is asked for.
    pub download: Option<fn(&Value) -> Download>,
    /// The schema of what `"mode": "detach"` answers.
    pub detached: Option<fn(&mut SchemaGenerator) -> Schema>,
    /// The parameters that a model is told of; all of them, with the words of their fields, when this is empty. The server takes the
    /// others too.
    pub parameters: &'static [Parameter],
    /// How a model is told the answer.
    pub told: Told,
    /// A field that says which program calls; MCP fills it in with what the client calls itself.
    pub client_field: Option<&'static str>,
}

/// A parameter, in words for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// The field: `agent`, `budget.tokens`, `spawns[].agent`. What is inside of a field that is named alone comes whole.
    pub path: &'static str,
    pub words: &'static str,
    pub is_needed: bool,
}

impl Parameter {
    /// One that may be left out.
    pub const fn takes(path: &'static str, words: &'static str) -> Self {
        Self { path, words, is_needed: false }
    }

    /// One that a model must give, although other callers may have another way.
    pub const fn needs(path: &'static str, words: &'static str) -> Self {
        Self { path, words, is_needed: true }
    }
}

/// How a model is told an answer: see `lean`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Told {
    /// As it is, in JSON.
    #[default]
    Json,
    /// A `RunResult`: its text, then how it went.
    Run,
    /// A `BatchResult`: each text after its index.
    Batch,
    /// A `RunPage`: a line for each run.
    Runs,
    /// An `AgentList`: a line for each agent.
    Agents,
    /// An `ArtifactPart`: the text.
    Part,
    /// A `Cancelled`: a line.
    Cancelled,
    /// A `GoalResult`: its summary and what the workers report.
    Goal,
}

impl Card {
    /// The card of the operation for `R`.
    pub fn of<R: Request>(summary: &'static str, scope: Scope) -> Self {
        Self { scope: Some(scope), ..Self::without_scope::<R>(summary) }
    }

    /// The card of an operation that any known caller may call.
    pub fn without_scope<R: Request>(summary: &'static str) -> Self {
        let key = HeaderField { header: KEY_HEADER, field: KEY_FIELD, precedence: Precedence::MustAgree };
        Self {
            description: Description::of::<R>(),
            summary,
            scope: None,
            toolset: "",
            destructive: false,
            advice: "",
            streams: false,
            body_limit: None,
            headers: if R::CHANGES == Changes::Nothing { Vec::new() } else { vec![key] },
            stores_key: false,
            download: None,
            detached: None,
            parameters: &[],
            told: Told::Json,
            client_field: None,
        }
    }

    /// The name of the operation.
    pub fn name(&self) -> &'static str {
        self.description.name
    }

    /// Where REST has it, our own route first.
    pub fn routes(&self) -> &'static [Route] {
        self.description.routes
    }

    /// Whether it changes nothing.
    pub fn is_read_only(&self) -> bool {
        self.description.changes == Changes::Nothing
    }

    /// Whether a request of it can have an idempotency key.
    pub fn takes_key(&self) -> bool {
        !self.is_read_only()
    }

    /// Whether a repeat changes nothing more.
    pub fn is_idempotent(&self) -> bool {
        self.description.changes != Changes::EveryTime
    }

    /// It belongs to this group of tools.
    #[must_use]
    pub fn toolset(mut self, toolset: &'static str) -> Self {
        self.toolset = toolset;
        self
    }

    /// It stops or removes something.
    #[must_use]
    pub fn destructive(mut self) -> Self {
        self.destructive = true;
        self
    }

    /// What a model should know of it.
    #[must_use]
    pub fn advice(mut self, advice: &'static str) -> Self {
        self.advice = advice;
        self
    }

    /// It answers a stream of events unless JSON is asked for.
    #[must_use]
    pub fn streams(mut self) -> Self {
        self.streams = true;
        self
    }

    /// Its body is at most this long.
    #[must_use]
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.body_limit = Some(bytes);
        self
    }

    /// A header is a field.
    #[must_use]
    pub fn header(mut self, header: &'static str, field: &'static str, precedence: Precedence) -> Self {
        self.headers.push(HeaderField { header, field, precedence });
        self
    }

    /// It stores its idempotency key itself.
    #[must_use]
    pub fn stores_key(mut self) -> Self {
        self.stores_key = true;
        self
    }

    /// REST answers with the file that `download` makes of the answer, unless JSON is asked for.
    #[must_use]
    pub fn download(mut self, download: fn(&Value) -> Download) -> Self {
        self.download = Some(download);
        self
    }

    /// A model is told of these parameters only.
    #[must_use]
    pub fn parameters(mut self, parameters: &'static [Parameter]) -> Self {
        self.parameters = parameters;
        self
    }

    /// This field says which program calls.
    #[must_use]
    pub fn client_field(mut self, field: &'static str) -> Self {
        self.client_field = Some(field);
        self
    }

    /// A model is told the answer like this.
    #[must_use]
    pub fn told(mut self, told: Told) -> Self {
        self.told = told;
        self
    }

    /// `R` can ask for an answer as soon as what it starts is accepted.
    #[must_use]
    pub fn detaches<R: Detach>(mut self) -> Self {
        self.detached = Some(|generator| generator.subschema_for::<R::Accepted>());
        self
    }
}

/// A text that is saved as a file. A browser never shows it: an agent may have written HTML.
pub struct Download {
    pub media_type: String,
    /// A path; the file gets its last part.
    pub name: String,
    pub text: String,
}

/// What an operation gets beside its input.
pub struct Call<'a> {
    /// What the operation can reach.
    pub app: &'a Arc<App>,
    /// The caller.
    pub caller: &'a Caller,
    /// What the surface wants to hear of a run that starts. It must be said before the start, so that nothing is missed.
    pub interest: Interest,
    /// Most bytes of texts in an answer, where the input says nothing; no bound, when absent.
    pub result_bytes: Option<u64>,
}

/// What an operation answers: a value, or a handle whose wait yields one.
pub enum Answer<T> {
    /// The value.
    Value(T),
    /// Something durable to wait for, follow or cancel.
    Handle(Handle),
    /// Events without an end. Only for surfaces that asked for them (`Interest::Events`).
    Events(BoxStream<'static, Event>),
}

/// Something that a caller can ask for.
pub trait Operation: Send + Sync + 'static {
    /// The request; path and query parameters are fields of it.
    type Input: Request;

    /// How surfaces offer it: `Card::of::<Self::Input>(..)`.
    fn card(&self) -> Card;

    /// Does it. The input has passed the validator.
    fn call(
        &self,
        call: &Call<'_>,
        input: Self::Input,
    ) -> impl Future<Output = Result<Answer<<Self::Input as Request>::Output>, Failure>> + Send;
}

/// An operation's card and schemas.
pub struct Entry {
    /// The card.
    pub card: Card,
    /// The schema of the input; named parts go to the generator.
    pub input: fn(&mut SchemaGenerator) -> Schema,
    /// The schema of the output; named parts go to the generator.
    pub output: fn(&mut SchemaGenerator) -> Schema,
}

/// The erased half of an operation.
pub trait AnyOperation: Send + Sync {
    /// Its card and schemas.
    fn entry(&self) -> Entry;

    /// Decodes, calls, encodes.
    fn invoke<'a>(&'a self, call: Call<'a>, input: Value) -> BoxFuture<'a, Result<Answer<Value>, Failure>>;
}

impl<O: Operation> AnyOperation for O {
    fn entry(&self) -> Entry {
        Entry {
            card: self.card(),
            input: |generator| O::Input::json_schema(generator),
            output: |generator| generator.subschema_for::<<O::Input as Request>::Output>(),
        }
    }

    fn invoke<'a>(&'a self, call: Call<'a>, input: Value) -> BoxFuture<'a, Result<Answer<Value>, Failure>> {
        async move {
            // The validator knows what serde knows; what it let through all the same is told in serde's words.
            let input = serde_json::from_value(input)
                .map_err(|error| Failure::new(FailureKind::Invalid, "invalid_request", error.to_string()))?;
            match self.call(&call, input).await? {
                Answer::Handle(handle) => Ok(Answer::Handle(handle)),
                Answer::Events(events) => Ok(Answer::Events(events)),
                Answer::Value(output) => {
                    let value = serde_json::to_value(output).expect("outputs have only text keys");
                    Ok(Answer::Value(value))
                }
            }
        }
        .boxed()
    }
}
