//! Whose memory it is: a scope, and the id of who shares it. A model names no id: it comes from the run. A caller names an agent, a run
//! or a user, and the server checks that the caller may see it.

use drawloom_contract::{
    definition::MemoryScope,
    ids::{AgentName, RunId, Tenant, UserId},
    tool::ToolContext,
    values::{MEMORY, Range, ValueKey, Within},
};

/// A tenant's memory of one scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    tenant: Tenant,
    owner: Owner,
}

/// Who shares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    Agent(AgentName),
    User(UserId),
    Tenant,
    /// The root of a tree of runs.
    Run(RunId),
}

impl Owner {
    pub fn scope(&self) -> MemoryScope {
        match self {
            Self::Agent(_) => MemoryScope::Agent,
            Self::User(_) => MemoryScope::User,
            Self::Tenant => MemoryScope::Tenant,
            Self::Run(_) => MemoryScope::Run,
        }
    }
}

impl Place {
    pub fn new(tenant: Tenant, owner: Owner) -> Self {
        Self { tenant, owner }
    }

    /// The memory that a scope means for a call.
    pub(crate) fn of_call(context: &ToolContext, scope: MemoryScope) -> Self {
        let owner = match scope {
            MemoryScope::Agent => Owner::Agent(context.definition.name.clone()),
            MemoryScope::User => Owner::User(context.user.clone()),
            MemoryScope::Tenant | MemoryScope::Global => Owner::Tenant,
            MemoryScope::Run => Owner::Run(context.root),
        };
        Self::new(context.run.tenant.clone(), owner)
    }

    pub fn scope(&self) -> MemoryScope {
        self.owner.scope()
    }

    pub(crate) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The owner as values have it. What stands before the first slash is the scope, so no two owners have one name.
    pub(crate) fn owner(&self) -> String {
        match &self.owner {
            Owner::Agent(name) => format!("agent/{name}"),
            Owner::User(user) => format!("user/{user}"),
            Owner::Tenant => "tenant".into(),
            Owner::Run(root) => format!("run/{root}"),
        }
    }

    pub(crate) fn key(&self, key: &str) -> ValueKey {
        ValueKey { tenant: self.tenant.clone(), space: MEMORY, owner: self.owner(), key: key.to_owned() }
    }

    pub(crate) fn range(&self, prefix: &str) -> Range {
        let within = Within::Owner { tenant: self.tenant.clone(), owner: self.owner(), prefix: prefix.to_owned() };
        Range { space: MEMORY, within }
    }
}

/// `global` is another name of `tenant`.
pub(crate) fn plain(scope: MemoryScope) -> MemoryScope {
    match scope {
        MemoryScope::Global => MemoryScope::Tenant,
        MemoryScope::Agent | MemoryScope::User | MemoryScope::Tenant | MemoryScope::Run => scope,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_owners_have_one_name() {
        let place = |owner| Place::new(Tenant::default_tenant(), owner).owner();
        let names = [
            place(Owner::Tenant),
            place(Owner::User("tenant".parse().expect("a user"))),
            place(Owner::Agent("tenant".parse().expect("a name"))),
            place(Owner::Agent("user".parse().expect("a name"))),
            place(Owner::Run(RunId::from_bytes([7; 16]))),
        ];
        for (number, name) in names.iter().enumerate() {
            assert!(!names[..number].contains(name), "{name}");
        }
    }
}
