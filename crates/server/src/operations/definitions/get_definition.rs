//! `get_definition`: one version of a definition, with its source.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::definitions::{self, DefinitionVersion};

use crate::{
    definitions::answer,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct GetDefinition;

impl Operation for GetDefinition {
    type Input = definitions::GetDefinition;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Read a version of a definition, with its source.", Scope::DefinitionsRead)
            .toolset("defs")
            .advice("Without version, the active one.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<DefinitionVersion>, Failure> {
        let definitions::GetDefinition { kind, name, version } = input;
        answer(call.app.runtime.get(&call.caller.tenant, kind, &name, version).await)
    }
}
