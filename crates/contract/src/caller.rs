//! Who calls, and what they may do.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{Tenant, UserId},
    named::named,
};

named! {
    /// A permission that an operation requires.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    pub enum Scope {
        /// Everything inside the tenant, and what concerns the whole server.
        Admin = "substrate:admin",
        /// Everything inside the tenant.
        Tenant = "substrate:tenant",
        /// Start and stop runs.
        RunsCreate = "runs:create",
        /// See one's own runs.
        RunsRead = "runs:read",
        /// See the runs of every user of the tenant.
        RunsReadAll = "runs:read:all",
        /// Read memory: one's own, and that of agents, runs one may see and the tenant.
        MemoryRead = "memory:read",
        /// Change the same memory.
        MemoryWrite = "memory:write",
        /// Read channels: one's own, and those of agents and the tenant; take and acknowledge their messages.
        ChannelRead = "channel:read",
        /// Publish to the same channels.
        ChannelPublish = "channel:publish",
        /// Read evaluations of runs one may see, and of definitions.
        EvaluationsRead = "evaluations:read",
        /// Submit evaluations of runs one may see.
        EvaluationsWrite = "evaluations:write",
        /// Read definitions of agents, skills, channels and volumes.
        DefinitionsRead = "definitions:read",
        /// Create, change and retire definitions; purge channels.
        DefinitionsWrite = "definitions:write",
        /// Start and stop goals, which run programs on the server's machine; land their work.
        GoalsCreate = "goals:create",
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How it is known who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proof {
    /// Loopback with no token configured, or the process itself.
    Open,
    SharedToken,
    /// A principal's own token, which fixes tenant and subject.
    Principal,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub tenant: Tenant,
    /// Who they are, or speak for.
    pub subject: UserId,
    pub scopes: Vec<Scope>,
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
            _ => *held == scope,
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
/// Reads on behalf of a caller take this in place of a tenant, and only [`Caller::visible`] and a definition make a narrow one, so
/// a read cannot forget the owner. What is not visible is answered as unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visible {
    tenant: Tenant,
    owner: Option<UserId>,
}

impl Visible {
    pub fn whole(tenant: Tenant) -> Self {
        Self { tenant, owner: None }
    }

    pub(crate) fn of(tenant: Tenant, owner: Option<UserId>) -> Self {
        Self { tenant, owner }
    }

    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The only user whose things are visible; every user's are, when absent.
    pub fn owner(&self) -> Option<&UserId> {
        self.owner.as_ref()
    }

    pub fn sees(&self, tenant: &Tenant, user: &UserId) -> bool {
        self.tenant == *tenant && self.owner.as_ref().is_none_or(|owner| owner == user)
    }
}
