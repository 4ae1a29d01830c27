//! `whoami`: who the server takes the caller for.

use drawloom_contract::{
    VERSION,
    caller::{Proof, Scope},
    failure::Failure,
};
use drawloom_wire::house;

use crate::operation::{Answer, Call, Card, Operation, Verb};

pub(super) struct WhoAmI;

impl Operation for WhoAmI {
    type Input = house::AskWhoAmI;
    type Output = house::WhoAmI;

    fn card(&self) -> Card {
        Card::for_anybody("whoami", "Say who the server takes the caller for, and what they may do.")
            .rest(Verb::Get, "/v1/_me")
            .toolset("server")
            .read_only()
    }

    async fn call(&self, call: &Call<'_>, _: Self::Input) -> Result<Answer<house::WhoAmI>, Failure> {
        let caller = call.caller;
        Ok(Answer::Value(house::WhoAmI {
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
