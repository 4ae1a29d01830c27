//! `list_definitions`: what is defined, or the versions of one name.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::definitions::ListAsked;
use drawloom_wire::definitions::{self, DefinitionPage};

use crate::{
    definitions::answer,
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct ListDefinitions;

impl Operation for ListDefinitions {
    type Input = definitions::ListDefinitions;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("List definitions, or the versions of one.", Scope::DefinitionsRead)
            .toolset("defs")
            .advice("Pass name to list its versions. If next is set, pass it as after to get the next page.")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<DefinitionPage>, Failure> {
        let definitions::ListDefinitions { kind, name, after, limit } = input;
        answer(call.app.runtime.list(&call.caller.tenant, &ListAsked { kind, name, after, limit }).await)
    }
}
