//! `diff_definitions`: what differs between two versions.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::definitions::{self, DefinitionDiff};

use crate::{
    definitions::answer,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct DiffDefinitions;

impl Operation for DiffDefinitions {
    type Input = definitions::DiffDefinitions;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Compare two versions of definitions.", Scope::DefinitionsRead)
            .toolset("defs")
            .advice("from and to are NAME@VERSION, or NAME for the active version.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<DefinitionDiff>, Failure> {
        let definitions::DiffDefinitions { kind, from, to } = input;
        answer(call.app.runtime.diff(&call.caller.tenant, kind, &from, &to).await)
    }
}
