//! `create_definition`: defines an agent, a channel, a skill or a volume.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_substrate::definitions::Create;
use drawloom_wire::definitions::{self, DefinitionVersion};

use crate::{
    definitions::{answer, by, promote},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct CreateDefinition;

impl Operation for CreateDefinition {
    type Input = definitions::CreateDefinition;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Define an agent, a channel, a skill or a volume, or a new version of one.", Scope::DefinitionsWrite)
            .toolset("defs")
            .advice("It is active at once, for every run. Call verify_definition first to see every problem. What it asks for beyond what you may give is refused, with what the operator would have to write.")
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<DefinitionVersion>, Failure> {
        let by = by(call, &input);
        let definitions::CreateDefinition { kind, name, source, description, promote: is_promoted, .. } = input;
        let create = Create { kind, name, source, description, promote: promote(is_promoted.unwrap_or(true)) };
        answer(call.app.runtime.create(create, &by).await)
    }
}
