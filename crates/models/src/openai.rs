//! OpenAI's Chat Completions API, and the many servers that speak it.

use drawloom_contract::model::TurnRequest;
use serde_json::Value;

use crate::{
    Driver, Options,
    chat::{
        self,
        reader::{Completion, Reasoning},
    },
    intake::Reader,
    known::{Known, SamplingSupport, Thinking},
    remote::{Api, EncodedRequest},
};

/// Where OpenAI's APIs are.
pub(crate) const URL: &str = "https://api.openai.com/v1";

/// A bare host has the API under `/v1`; an address with a path is taken as it is.
pub(crate) fn root(address: &str) -> String {
    let host = address.split_once("://").map_or(address, |(_, host)| host);
    if host.contains('/') { address.to_owned() } else { format!("{address}/v1") }
}

/// The Chat Completions API.
pub(crate) struct Openai;

impl Api for Openai {
    fn driver(&self) -> Driver {
        Driver::Openai
    }

    fn name(&self) -> &'static str {
        "openai"
    }

    fn default_url(&self) -> &'static str {
        URL
    }

    fn root(&self, address: &str) -> String {
        root(address)
    }

    fn encode(&self, request: &TurnRequest, known: &Known, _: &Options) -> EncodedRequest {
        EncodedRequest { body: body(request, known), headers: Vec::new(), reader: reader() }
    }
}

/// Parses an answer.
pub(crate) fn reader() -> Box<dyn Reader> {
    Box::new(Completion::new(Reasoning::Optional))
}

/// Thoughts are not part of this API: the model keeps them to itself, and none are sent back.
fn body(request: &TurnRequest, known: &Known) -> Value {
    let thinks = known.thinking != Thinking::Never;
    let mut body = chat::body(request, if thinks { "developer" } else { "system" }, &|_, _| {});
    let limit = if thinks { "max_completion_tokens" } else { "max_tokens" };
    body.insert(limit.into(), request.max_tokens.into());
    if let (false, Some(parallel)) = (request.tools.is_empty(), known.parallel_calls) {
        body.insert("parallel_tool_calls".into(), parallel.into());
    }
    if known.thinking == Thinking::NotWithTools && !request.tools.is_empty() {
        // With tools on offer, this API takes these models only when they do not think.
        body.insert("reasoning_effort".into(), "none".into());
    } else if let (true, Some(effort)) = (thinks, request.effort) {
        body.insert("reasoning_effort".into(), effort.as_str().into());
    }
    if known.sampling != SamplingSupport::None {
        chat::sampling(&mut body, &request.sampling);
        chat::stops(&mut body, &request.sampling);
    }
    if let Some(seed) = request.sampling.seed {
        body.insert("seed".into(), seed.into());
    }
    // OpenAI's own models know no `top_k`; other servers do.
    if let (false, Some(top_k)) = (known.listed, request.sampling.top_k) {
        body.insert("top_k".into(), top_k.into());
    }
    Value::Object(body)
}
