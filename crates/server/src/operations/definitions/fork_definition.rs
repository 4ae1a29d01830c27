//! `fork_definition`: makes a version from another one.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::definitions::Fork;
use drawloom_wire::definitions::{self, DefinitionVersion};

use crate::{
    definitions::{answer, by, promote},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct ForkDefinition;

impl Operation for ForkDefinition {
    type Input = definitions::ForkDefinition;

    fn card(&self) -> Card {
        Card::of::<Self::Input>(
            "Make a version of a definition from another one, with changes.",
            Scope::DefinitionsWrite,
        )
        .toolset("defs")
        .advice("It becomes active with promote_definition, or with promote.")
        .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<DefinitionVersion>, Failure> {
        let by = by(call, &input);
        let definitions::ForkDefinition { kind, from, name, changes, description, promote: is_promoted, .. } = input;
        let fork = Fork { kind, from, name, changes, description, promote: promote(is_promoted) };
        answer(call.app.runtime.fork(fork, &by).await)
    }
}
