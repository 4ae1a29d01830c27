//! `agentdef`: definitions of agents in the words of the reference, with one operation for all.

use drawloom_contract::{
    caller::Scope,
    definition::DefinitionKind::Agent,
    failure::{Failure, FailureKind},
};
use drawloom_substrate::definitions::{
    Create, DefinitionError, Fork, ListAsked, Promote, Retire, Verify, parse_reference,
};
use drawloom_wire::definitions::{self, AgentDefAnswer, AgentDefOp};
use serde_json::Value;

use crate::{
    definitions::{by, decode, promote, reader},
    operation::{Answer, Call, Card, Operation},
};

pub(crate) struct AgentDef;

impl Operation for AgentDef {
    type Input = definitions::AgentDef;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Define, read and change agents, by op.", Scope::DefinitionsWrite)
            .toolset("defs")
            .advice(
                "The operations create_definition, fork_definition and so on do the same for every kind of definition.",
            )
            .stores_key()
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<AgentDefAnswer>, Failure> {
        let (by, reading) = (by(call, &input), reader(call));
        let (runtime, tenant, kind) = (&call.app.runtime, &call.caller.tenant, Agent);
        let definitions::AgentDef {
            op, name, def_id, parent_def_id, overlay, description, promote: is_promoted, ..
        } = input;
        let (named, version) = match def_id.as_deref().map(|text| (text, parse_reference(text))) {
            None => (None, None),
            Some((_, Some((name, version)))) => (Some(name.to_owned()), version),
            Some((text, None)) => return Err(Failure::of(&DefinitionError::BadReference(text.to_owned()))),
        };
        if let (Some(name), Some(named)) = (&name, &named)
            && name != named
        {
            let message = format!("name {name:?} and def_id {:?} mean different agents", def_id.unwrap_or_default());
            return Err(Failure::new(FailureKind::Invalid, "both_spellings", message).with_hint("remove one of them"));
        }
        let meant = name.clone().or(named);
        let name = || meant.clone().ok_or_else(|| missing("name"));
        let answer = match op {
            AgentDefOp::Create => {
                let source = overlay.ok_or_else(|| missing("overlay"))?;
                let promote = promote(is_promoted.unwrap_or(true));
                runtime.create(Create { kind, name: name()?, source, description, promote }, &by).await
            }
            AgentDefOp::Fork => {
                let from = match parent_def_id.or(def_id) {
                    Some(from) => from,
                    None => name()?,
                };
                let (name, changes) = (meant.clone(), overlay.unwrap_or_default());
                let promote = promote(is_promoted.unwrap_or(false));
                runtime.fork(Fork { kind, from, name, changes, description, promote }, &by).await
            }
            AgentDefOp::Promote => {
                let version = version.ok_or_else(|| missing("def_id"))?;
                runtime.promote(Promote { kind, name: name()?, version }, &by).await
            }
            AgentDefOp::Retire => {
                let retired = input.retired.unwrap_or(true);
                runtime.retire(Retire { kind, name: name()?, version, retired }, &by).await
            }
            AgentDefOp::Get => runtime.get(tenant, kind, &name()?, version).await,
            AgentDefOp::List => {
                let asked = ListAsked { kind: Some(kind), name: Some(name()?), ..ListAsked::default() };
                runtime.list(tenant, &asked).await
            }
            AgentDefOp::Verify => {
                let (name, content_sha256) = (name()?, input.content_sha256);
                runtime.verify(Verify { kind, name, source: overlay, version, content_sha256 }, &reading).await
            }
        };
        let answer = answer.map_err(|error| Failure::of(&error))?;
        decode(in_their_words(answer, op, meant)).map(Answer::Value)
    }
}

fn missing(field: &str) -> Failure {
    Failure::new(FailureKind::Invalid, "missing_key", format!("{field} is missing: this op requires it"))
}

/// The answer with the reference's names of fields.
fn in_their_words(mut answer: Value, op: AgentDefOp, name: Option<String>) -> Value {
    let parent = answer["parent"].take();
    let source = answer["source"].take();
    let is_active = answer["active"].take();
    if op != AgentDefOp::List && op != AgentDefOp::Verify {
        let from_config = parent.as_str().is_some_and(|parent| parent.ends_with("@config"));
        answer["bootstrapped_from_static"] = from_config.into();
        answer["parent_def_id"] = parent.as_str().unwrap_or_default().into();
        answer["definition"] = source;
        answer["promoted"] = is_active;
    }
    if op == AgentDefOp::List {
        answer["name"] = name.into();
    } else {
        answer.as_object_mut().map(|fields| fields.remove("versions"));
    }
    answer
}
