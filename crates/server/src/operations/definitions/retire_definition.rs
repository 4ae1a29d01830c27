//! `retire_definition`: takes a version out of use.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::definitions::Retire;
use drawloom_wire::definitions::{self, DefinitionVersion};

use crate::{
    definitions::{answer, by},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct RetireDefinition;

impl Operation for RetireDefinition {
    type Input = definitions::RetireDefinition;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Take a version of a definition out of use.", Scope::DefinitionsWrite)
            .toolset("defs")
            .advice("Runs that have started keep it. retired: false takes it back.")
            .destructive()
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<DefinitionVersion>, Failure> {
        let by = by(call, &input);
        let definitions::RetireDefinition { kind, name, version, retired, .. } = input;
        answer(call.app.runtime.retire(Retire { kind, name, version, retired: retired.unwrap_or(true) }, &by).await)
    }
}
