//! `list_models`: the models that agents can ask.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::models::{self, ModelList};

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct ListModels;

impl Operation for ListModels {
    type Input = models::ListModels;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("List the models of the config, or those that a provider offers.", Scope::RunsRead)
            .toolset("agents")
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ModelList>, Failure> {
        let mut list = call.app.models.list();
        if let Some(provider) = &input.remote {
            list.remote = Some(call.app.models.ask(provider).await?);
        }
        Ok(Answer::Value(list))
    }
}
