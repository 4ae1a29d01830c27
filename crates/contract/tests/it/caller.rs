//! What a caller sees.

use drawloom_contract::{
    caller::{Caller, Proof, Scope},
    ids::{Tenant, UserId},
};

#[test]
fn a_principal_sees_its_own_things_and_with_the_scope_those_of_the_tenant() {
    let (ann, bob): (UserId, UserId) = ("ann".parse().expect("a user"), "bob".parse().expect("a user"));
    let (tenant, other) = (Tenant::default_tenant(), "other".parse().expect("a tenant"));
    for (proof, scopes, sees_bob) in [
        (Proof::Principal, vec![Scope::RunsRead, Scope::RunsCreate], false),
        (Proof::Principal, vec![Scope::RunsReadAll], true),
        (Proof::Principal, vec![Scope::Tenant], true),
        (Proof::Principal, vec![Scope::Admin], true),
        (Proof::SharedToken, vec![Scope::Admin], true),
        (Proof::Open, vec![Scope::Admin], true),
    ] {
        let caller = Caller { tenant: tenant.clone(), subject: ann.clone(), scopes, proof };
        let visible = caller.visible();
        assert_eq!(visible.sees(&tenant, &bob), sees_bob, "{caller:?}");
        assert!(visible.sees(&tenant, &ann) && !visible.sees(&other, &ann), "{caller:?}");
        assert_eq!(caller.may(Scope::RunsRead), !caller.scopes.is_empty());
    }
}
