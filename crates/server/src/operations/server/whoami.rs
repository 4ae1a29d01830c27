//! `whoami`: who the server takes the caller for.

use drawloom_contract::{
    VERSION,
    caller::{Proof, Scope},
    failure::Failure,
};
use drawloom_wire::server;

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct WhoAmI;

impl Operation for WhoAmI {
    type Input = server::AskWhoAmI;

    fn card(&self) -> Card {
        Card::without_scope::<Self::Input>("Show the caller's tenant, user and scopes.").toolset("server")
    }

    async fn call(&self, call: &Call<'_>, _: Self::Input) -> Result<Answer<server::WhoAmI>, Failure> {
        let caller = call.caller;
        Ok(Answer::Value(server::WhoAmI {
            tenant_id: caller.tenant.clone(),
            subject: caller.subject.clone(),
            scopes: caller.scopes.clone(),
            is_admin: caller.may(Scope::Admin),
            open_mode: caller.proof == Proof::Open,
            honours_user_id: caller.proof != Proof::Principal,
            version: VERSION.into(),
        }))
    }
}
