//! Anthropic's Messages API, and servers that speak it.

mod reader;
mod request;

use drawloom_contract::model::TurnRequest;

use crate::{
    Driver, Options,
    intake::Reader,
    known::Known,
    remote::{Api, Credential, EncodedRequest},
};

/// The Messages API.
pub(crate) struct Anthropic;

impl Api for Anthropic {
    fn driver(&self) -> Driver {
        Driver::Anthropic
    }

    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn default_url(&self) -> &'static str {
        "https://api.anthropic.com"
    }

    fn root(&self, address: &str) -> String {
        address.strip_suffix("/v1").unwrap_or(address).to_owned()
    }

    fn credential(&self) -> Credential {
        Credential::Header("x-api-key")
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn turn_path(&self) -> &'static str {
        "/v1/messages"
    }

    fn encode(&self, request: &TurnRequest, known: &Known, _: &Options) -> EncodedRequest {
        let (body, headers) = request::write(request, known);
        EncodedRequest { body, headers, reader: reader() }
    }

    fn list_path(&self) -> &'static str {
        "/v1/models?limit=1000"
    }
}

/// Parses an answer.
pub(crate) fn reader() -> Box<dyn Reader> {
    Box::new(reader::Messages::default())
}
