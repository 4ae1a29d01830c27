//! `promote_definition`: makes a version the one that new runs use.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::definitions::Promote;
use drawloom_wire::definitions::{self, DefinitionVersion};

use crate::{
    definitions::{answer, by},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct PromoteDefinition;

impl Operation for PromoteDefinition {
    type Input = definitions::PromoteDefinition;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Make a version of a definition the active one.", Scope::DefinitionsWrite)
            .toolset("defs")
            .advice(
                "New runs use it, and a channel has its settings at once. Runs that have started keep their version.",
            )
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<DefinitionVersion>, Failure> {
        let by = by(call, &input);
        let definitions::PromoteDefinition { kind, name, version, .. } = input;
        answer(call.app.runtime.promote(Promote { kind, name, version }, &by).await)
    }
}
