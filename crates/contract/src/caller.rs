//! Who calls, and what they may do.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{Tenant, UserId};

/// A right that an operation asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Scope {
    /// Everything, in every tenant's own walls.
    #[serde(rename = "substrate:admin")]
    Admin,
    /// Everything inside the tenant.
    #[serde(rename = "substrate:tenant")]
    Tenant,
    /// Start and stop runs.
    #[serde(rename = "runs:create")]
    RunsCreate,
    /// See one's own runs.
    #[serde(rename = "runs:read")]
    RunsRead,
    /// See the runs of every user of the tenant.
    #[serde(rename = "runs:read:all")]
    RunsReadAll,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 5] = [Self::Admin, Self::Tenant, Self::RunsCreate, Self::RunsRead, Self::RunsReadAll];

    /// Its name on the wire and in config.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "substrate:admin",
            Self::Tenant => "substrate:tenant",
            Self::RunsCreate => "runs:create",
            Self::RunsRead => "runs:read",
            Self::RunsReadAll => "runs:read:all",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| format!("{text:?} is not a scope; there are {}", Self::ALL.map(Self::as_str).join(", ")))
    }
}

/// How it is known who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proof {
    /// Loopback with no token configured, or the process itself.
    Open,
    /// The shared token.
    SharedToken,
    /// A principal's own token, which fixes tenant and subject.
    Principal,
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The wall they stand behind.
    pub tenant: Tenant,
    /// Who they are, or speak for.
    pub subject: UserId,
    /// What they may do.
    pub scopes: Vec<Scope>,
    /// How that is known.
    pub proof: Proof,
}

impl Caller {
    /// The one who calls over open loopback or from inside the process.
    pub fn open(proof: Proof) -> Self {
        Self { tenant: Tenant::default_tenant(), subject: UserId::default_user(), scopes: vec![Scope::Admin], proof }
    }

    /// Whether they hold `scope`, or one that contains it.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|held| match held {
            Scope::Admin => true,
            Scope::Tenant => scope != Scope::Admin,
            Scope::RunsReadAll => matches!(scope, Scope::RunsReadAll | Scope::RunsRead),
            Scope::RunsCreate | Scope::RunsRead => *held == scope,
        })
    }

    /// What of the tenant they may see: a principal without `runs:read:all` only what is its own.
    pub fn visible(&self) -> Visible {
        let sees_all = match self.proof {
            Proof::Open | Proof::SharedToken => true,
            Proof::Principal => self.may(Scope::RunsReadAll),
        };
        Visible { tenant: self.tenant.clone(), owner: (!sees_all).then(|| self.subject.clone()) }
    }
}

/// Whose runs, batches and sessions of a tenant a caller may see, follow, cancel and join.
///
/// Reads on behalf of a caller take this in place of a tenant, and only [`Caller::visible`] makes a narrow one, so a read
/// cannot forget the owner. What is not visible is answered as unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visible {
    tenant: Tenant,
    owner: Option<UserId>,
}

impl Visible {
    /// Everything in a tenant.
    pub fn whole(tenant: Tenant) -> Self {
        Self { tenant, owner: None }
    }

    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The only user whose things are visible; every user's are, when absent.
    pub fn owner(&self) -> Option<&UserId> {
        self.owner.as_ref()
    }

    /// Whether something of `user` in `tenant` is visible.
    pub fn sees(&self, tenant: &Tenant, user: &UserId) -> bool {
        self.tenant == *tenant && self.owner.as_ref().is_none_or(|owner| owner == user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
