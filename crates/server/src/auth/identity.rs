//! For whom a caller speaks.

use drawloom_contract::{
    caller::{Caller, Proof},
    ids::{Tenant, UserId},
};

/// The caller as the request names them, and what of the request was overridden. Open loopback and the shared token
/// speak for any user of tenant `default`; a principal's token decides both.
pub(crate) fn on_behalf(caller: &Caller, user: Option<&UserId>, tenant: Option<&Tenant>) -> (Caller, Vec<String>) {
    let mut caller = caller.clone();
    let mut warnings = Vec::new();
    match (caller.proof, user) {
        (Proof::Open | Proof::SharedToken, Some(user)) => caller.subject = user.clone(),
        (Proof::Principal, Some(user)) if *user != caller.subject => {
            warnings.push(format!("user_id {user} ignored: the token belongs to {}", caller.subject));
        }
        (Proof::Open | Proof::SharedToken | Proof::Principal, _) => {}
    }
    if let Some(tenant) = tenant.filter(|tenant| **tenant != caller.tenant) {
        warnings.push(format!("tenant_id {tenant} ignored: the caller belongs to tenant {}", caller.tenant));
    }
    (caller, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principals_token_overrides_the_request_and_says_so() {
        let user: UserId = "bob".parse().expect("a user");
        let tenant: Tenant = "other".parse().expect("a tenant");
        let principal = Caller { subject: "ann".parse().expect("a user"), ..Caller::open(Proof::Principal) };
        let (caller, warnings) = on_behalf(&principal, Some(&user), Some(&tenant));
        assert_eq!(caller, principal);
        assert_eq!(
            warnings,
            [
                "user_id bob ignored: the token belongs to ann",
                "tenant_id other ignored: the caller belongs to tenant default"
            ]
        );
    }

    #[test]
    fn the_shared_token_speaks_for_any_user_of_its_tenant() {
        let user: UserId = "bob".parse().expect("a user");
        let (caller, warnings) = on_behalf(&Caller::open(Proof::SharedToken), Some(&user), None);
        assert_eq!((caller.subject, warnings), (user, Vec::new()));
        let (caller, warnings) = on_behalf(&Caller::open(Proof::Open), None, Some(&Tenant::default_tenant()));
        assert_eq!((caller.subject, warnings), (UserId::default_user(), Vec::new()));
    }
}
