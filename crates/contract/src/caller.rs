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
    /// See runs.
    #[serde(rename = "runs:read")]
    RunsRead,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Tenant, Self::RunsCreate, Self::RunsRead];

    /// Its name on the wire and in config.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "substrate:admin",
            Self::Tenant => "substrate:tenant",
            Self::RunsCreate => "runs:create",
            Self::RunsRead => "runs:read",
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
            Scope::RunsCreate | Scope::RunsRead => *held == scope,
        })
    }
}
