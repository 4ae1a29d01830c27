//! `list_models`: the models that agents can ask.

use drawloom_contract::{caller::Scope, failure::Failure};
use drawloom_wire::models::{self, ModelList};

use crate::operation::{Answer, Call, Card, Operation, Verb};

pub(super) struct ListModels;

impl Operation for ListModels {
    type Input = models::ListModels;
    type Output = ModelList;

    fn card(&self) -> Card {
        Card::new("list_models", "List the models that agents can ask, or those that a provider has.", Scope::RunsRead)
            .rest(Verb::Get, "/v1/_models")
            .rest(Verb::Get, "/v1/models")
            .toolset("agents")
            .read_only()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<ModelList>, Failure> {
        let mut list = call.app.models.list();
        if let Some(provider) = &input.remote {
            list.remote = Some(call.app.models.ask(provider).await?);
        }
        Ok(Answer::Value(list))
    }
}
