//! What an operation is: a type with an input, an output, a card and one call.

use std::{future::Future, sync::Arc};

use drawloom_contract::{
    caller::{Caller, Scope},
    failure::{Failure, FailureKind},
    runs::Interest,
};
use futures::{FutureExt, future::BoxFuture};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{app::App, handle::Handle};

/// How REST asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Looks.
    Get,
    /// Changes.
    Post,
}

impl Verb {
    /// As HTTP writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// Who wins when a header and a field say different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precedence {
    /// The header: a browser that reconnects repeats the old address with a new header.
    Header,
    /// Nobody: it is an error.
    MustAgree,
}

/// A header that is a field of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderField {
    /// The header, in lower case.
    pub header: &'static str,
    /// The field.
    pub field: &'static str,
    /// Who wins.
    pub precedence: Precedence,
}

/// What surfaces know of an operation.
#[derive(Debug, Clone)]
pub struct Card {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// What a caller needs; nothing, when being known is enough.
    pub scope: Option<Scope>,
    /// Where REST has it.
    pub routes: Vec<(Verb, &'static str)>,
    /// The group of tools that it belongs to on MCP.
    pub toolset: &'static str,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether a repeat is harmless.
    pub idempotent: bool,
    /// Whether it stops or removes what is there.
    pub destructive: bool,
    /// What a model should know of it, over the summary: when to use it, and what comes back.
    pub advice: &'static str,
    /// Whether it answers a stream of events unless JSON is asked for.
    pub streams: bool,
    /// Most bytes of its body, when that is less than the server's limit.
    pub body_limit: Option<usize>,
    /// Headers that are fields.
    pub headers: Vec<HeaderField>,
    /// What `"mode": "detach"` answers.
    pub detached: Option<fn(&mut SchemaGenerator) -> Schema>,
}

impl Card {
    /// A card without routes.
    pub fn new(name: &'static str, summary: &'static str, scope: Scope) -> Self {
        Self { scope: Some(scope), ..Self::for_anybody(name, summary) }
    }

    /// A card of an operation that everybody may call whom the server knows.
    pub fn for_anybody(name: &'static str, summary: &'static str) -> Self {
        Self {
            name,
            summary,
            scope: None,
            routes: Vec::new(),
            toolset: "",
            read_only: false,
            idempotent: false,
            destructive: false,
            advice: "",
            streams: false,
            body_limit: None,
            headers: Vec::new(),
            detached: None,
        }
    }

    /// REST has it here too.
    #[must_use]
    pub fn rest(mut self, verb: Verb, path: &'static str) -> Self {
        self.routes.push((verb, path));
        self
    }

    /// It belongs to this group of tools.
    #[must_use]
    pub fn toolset(mut self, toolset: &'static str) -> Self {
        self.toolset = toolset;
        self
    }

    /// It changes nothing, so a repeat is harmless.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self.idempotent = true;
        self
    }

    /// A repeat is harmless.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// It stops or removes what is there.
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

    /// Detached, it answers a `T`.
    #[must_use]
    pub fn detaches<T: JsonSchema>(mut self) -> Self {
        self.detached = Some(|generator| generator.subschema_for::<T>());
        self
    }
}

/// One call of an operation: who asks, and what the surface wants to hear.
pub struct Call<'a> {
    /// What the operation can reach.
    pub app: &'a Arc<App>,
    /// Who asks.
    pub caller: &'a Caller,
    /// What the surface wants to hear of a run that starts. It must be said before the start, so that nothing is missed.
    pub interest: Interest,
    /// Most bytes of texts in an answer, where the input says nothing; no bound, when absent.
    pub result_bytes: Option<u64>,
}

/// A value, or a handle whose wait yields one.
pub enum Answer<T> {
    /// The value.
    Value(T),
    /// Something durable to wait for, follow or cancel.
    Handle(Handle),
}

/// Something that a caller can ask for.
pub trait Operation: Send + Sync + 'static {
    /// What is asked; path and query parameters are fields of it.
    type Input: DeserializeOwned + JsonSchema + Send;

    /// What is answered, or what a handle yields in the end.
    type Output: Serialize + JsonSchema + Send;

    /// What surfaces know of it.
    fn card(&self) -> Card;

    /// Does it. The input has passed the validator.
    fn call(
        &self,
        call: &Call<'_>,
        input: Self::Input,
    ) -> impl Future<Output = Result<Answer<Self::Output>, Failure>> + Send;
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
            output: |generator| generator.subschema_for::<O::Output>(),
        }
    }

    fn invoke<'a>(&'a self, call: Call<'a>, input: Value) -> BoxFuture<'a, Result<Answer<Value>, Failure>> {
        async move {
            // The validator knows what serde knows; what it let through all the same is told in serde's words.
            let input = serde_json::from_value(input)
                .map_err(|error| Failure::new(FailureKind::Invalid, "invalid_request", error.to_string()))?;
            match self.call(&call, input).await? {
                Answer::Handle(handle) => Ok(Answer::Handle(handle)),
                Answer::Value(output) => {
                    let value = serde_json::to_value(output).expect("outputs have only text keys");
                    Ok(Answer::Value(value))
                }
            }
        }
        .boxed()
    }
}
