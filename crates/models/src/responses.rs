//! OpenAI's Responses API, asked without state: the conversation goes along whole, with the reasoning that the provider encrypted.

mod reader;
mod request;

use drawloom_contract::model::TurnRequest;

use crate::{
    Driver,
    config::Options,
    intake::Reader,
    known::{Known, Thinking},
    openai,
    remote::{Api, EncodedRequest},
};

/// The Responses API.
pub(crate) struct Responses;

impl Api for Responses {
    fn driver(&self) -> Driver {
        Driver::Openai
    }

    fn name(&self) -> &'static str {
        "openai"
    }

    fn default_url(&self) -> &'static str {
        openai::URL
    }

    fn root(&self, address: &str) -> String {
        openai::root(address)
    }

    fn turn_path(&self) -> &'static str {
        "/responses"
    }

    fn known(&self, model: &str, options: &Options) -> Known {
        let mut known = Known::of(self.driver(), model, &options.capabilities);
        if known.thinking == Thinking::NotWithTools {
            known.thinking = Thinking::Always;
        }
        known
    }

    fn encode(&self, request: &TurnRequest, known: &Known, options: &Options) -> EncodedRequest {
        EncodedRequest { body: request::write(request, known, options), headers: Vec::new(), reader: reader() }
    }
}

/// Parses an answer.
pub(crate) fn reader() -> Box<dyn Reader> {
    Box::new(reader::Response::default())
}
