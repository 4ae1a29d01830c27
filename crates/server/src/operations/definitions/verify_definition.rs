//! `verify_definition`: every problem of a definition at once.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::definitions::Verify;
use drawloom_wire::definitions::{self, DefinitionReport};

use crate::{
    definitions::{answer, reader},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct VerifyDefinition;

impl Operation for VerifyDefinition {
    type Input = definitions::VerifyDefinition;

    fn card(&self) -> Card {
        Card::of::<Self::Input>(
            "Report every problem of a definition without writing anything.",
            Scope::DefinitionsRead,
        )
        .toolset("defs")
        .advice("Without source, a stored version is verified with the config of today.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<DefinitionReport>, Failure> {
        let definitions::VerifyDefinition { kind, name, source, version, content_sha256 } = input;
        let verify = Verify { kind, name, source, version, content_sha256 };
        answer(call.app.runtime.verify(verify, &reader(call)).await)
    }
}
