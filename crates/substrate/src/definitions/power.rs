//! Whose power bounds a definition: that of the token that made it, as today's config has it.
//!
//! A version keeps its authority. What a token may give follows from its scopes (`GATES`): a gate whose scopes the token lacks is
//! empty in its ceiling. What is taken from a principal later is taken from what it made.

use std::collections::BTreeSet;

use drawloom_contract::{
    caller::{Caller, Proof, Scope},
    definition::ActsFor,
    ids::{Tenant, UserId},
};
use serde::{Deserialize, Serialize};

use super::{GATE, ceiling::Ceiling, version::Version};
use crate::evaluations::{EVALUATION_SCOPES, EvaluationScope};

/// What bounds a version beside the operator's grant: all of these. Without any, the operator made it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    /// The principals of this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<UserId>,
    /// The agent of the config that made it, or made its maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// It acts for this user only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
}

/// Why a version has no power any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Powerless {
    #[error("its maker is not known")]
    UnknownMaker,
    #[error("its maker, the principal of user {0}, is not in the config any more")]
    NoPrincipal(UserId),
    #[error("its maker, the agent {0}, is not in the config any more")]
    NoAgent(String),
}

impl Powerless {
    /// The reason with what to do about it.
    pub(super) fn told(&self, name: &str, version: u32) -> String {
        format!(
            "{self}; `drawloom defs promote {name}@{version}` makes you its maker, if you may give what it has, or create it again"
        )
    }
}

/// The principals of the config: today's power of those who made definitions.
#[derive(Debug, Clone, Default)]
pub struct Principals(Vec<Caller>);

impl Principals {
    pub fn new(principals: impl IntoIterator<Item = (Tenant, UserId, Vec<Scope>)>) -> Self {
        let callers = principals.into_iter().map(|(tenant, subject, scopes)| {
            let proof = Proof::Principal;
            Caller { tenant, subject, scopes, proof }
        });
        Self(callers.collect())
    }

    /// What the principals of a user may do: of several, what all of those have that may define.
    pub(super) fn of(&self, tenant: &Tenant, user: &UserId) -> Option<Caller> {
        let own = || self.0.iter().filter(|caller| caller.tenant == *tenant && caller.subject == *user);
        let may_define = |caller: &&Caller| caller.may(Scope::DefinitionsWrite);
        let meant: Vec<&Caller> = match own().any(|caller| may_define(&caller)) {
            true => own().filter(may_define).collect(),
            false => own().collect(),
        };
        let scopes = Scope::ALL.iter().copied().filter(|scope| meant.iter().all(|caller| caller.may(*scope)));
        let first = (*meant.first()?).clone();
        Some(Caller { scopes: scopes.collect(), ..first })
    }
}

impl Authority {
    /// The authority of who asks.
    pub(super) fn of_caller(caller: &Caller) -> Self {
        match caller.proof {
            Proof::Open | Proof::SharedToken => Self::default(),
            Proof::Principal => {
                let user = Some(caller.subject.clone());
                Self { principal: user.clone(), agent: None, user }
            }
        }
    }

    /// That of an agent of the config, which works in a run of `user`.
    pub(super) fn of_agent(agent: Option<&str>, principals: &Principals, tenant: &Tenant, user: &UserId) -> Self {
        Self { agent: agent.map(str::to_owned), ..Self::default() }.in_run_of(principals, tenant, user)
    }

    /// The same for what an agent with this authority makes in a run of `user`: it acts for this user only, where that is a principal's.
    pub(super) fn in_run_of(self, principals: &Principals, tenant: &Tenant, user: &UserId) -> Self {
        let is_principal = || principals.of(tenant, user).is_some();
        let bound = self.user.clone().or_else(|| is_principal().then(|| user.clone()));
        Self { user: bound, ..self }
    }

    /// That of a version which was stored without it: by its maker.
    pub(super) fn of_older(version: &Version, principals: &Principals, tenant: &Tenant) -> Option<Self> {
        let user = version.maker.user_id.as_ref()?;
        match (&version.maker.agent, &version.under) {
            (Some(_), Some(agent)) => Some(Self::of_agent(Some(agent), principals, tenant, user)),
            // Made by an agent that a caller defined; which caller that was is not stored.
            (Some(_), None) => None,
            (None, _) => {
                let is_operator = *tenant == Tenant::default_tenant() && *user == UserId::default_user();
                let is_principal = principals.of(tenant, user).is_some();
                Some(match is_operator && !is_principal {
                    true => Self::default(),
                    false => Self { principal: Some(user.clone()), agent: None, user: Some(user.clone()) },
                })
            }
        }
    }
}

/// What a token needs so that it may give what a gate holds. Gates that are not listed lead to nothing that a token could reach
/// directly: the operator's grant alone bounds them.
const GATES: &[(&str, &[Scope])] = &[
    ("memory_scopes", &[Scope::MemoryRead, Scope::MemoryWrite]),
    ("channels.publish", &[Scope::ChannelPublish]),
    ("channels.subscribe", &[Scope::ChannelRead]),
    ("agents", &[Scope::RunsCreate]),
    ("skills", &[Scope::DefinitionsRead]),
    (GATE, &[Scope::DefinitionsRead, Scope::DefinitionsWrite]),
];

/// Gates that no scope opens, each with the reason. A test finds every gate of a tool here or in `GATES`.
const GRANT_ALONE: &[(&str, &str)] = &[
    ("hosts", "no operation reaches a host for its caller"),
    ("volumes", "no operation reads or writes a volume for its caller"),
];

/// Whether it is decided what a token needs so that it may give what a tool's gate holds.
pub fn decides_gate(gate: &str) -> bool {
    let of_table = GATES.iter().map(|(known, _)| *known).chain([EVALUATION_SCOPES]);
    let mut known = of_table.chain(GRANT_ALONE.iter().map(|(known, _)| *known));
    known.any(|known| known == gate || known.split('.').next() == Some(gate))
}

/// What a token needs so that an agent which it defines may have this scope.
fn evaluation_needs(scope: EvaluationScope) -> &'static [Scope] {
    match scope {
        EvaluationScope::SubmitSelf
        | EvaluationScope::SubmitChildren
        | EvaluationScope::SubmitDescendants
        | EvaluationScope::SubmitSiblings => &[Scope::EvaluationsWrite],
        EvaluationScope::SubmitAny => &[Scope::EvaluationsWrite, Scope::RunsReadAll],
        EvaluationScope::ReadSelf => &[Scope::EvaluationsRead],
        EvaluationScope::ReadAny => &[Scope::EvaluationsRead, Scope::RunsReadAll],
    }
}

impl Ceiling {
    /// The same for who calls: what the token may not do, it cannot give.
    #[must_use]
    pub(super) fn cut(mut self, caller: &Caller) -> Self {
        match caller.proof {
            Proof::Open | Proof::SharedToken => return self,
            Proof::Principal => {}
        }
        for (gate, needs) in GATES {
            let lacking: Vec<Scope> = needs.iter().copied().filter(|scope| !caller.may(*scope)).collect();
            if !lacking.is_empty() {
                self.close(gate);
                self.lacking.insert((*gate).to_owned(), lacking);
            }
        }
        let allowed = self.gates.remove(EVALUATION_SCOPES).unwrap_or_default();
        let mut lacking = BTreeSet::new();
        let mut given = BTreeSet::new();
        for scope in EvaluationScope::ALL {
            let missing: Vec<Scope> =
                evaluation_needs(scope).iter().copied().filter(|needed| !caller.may(*needed)).collect();
            if !allowed.iter().any(|pattern| drawloom_contract::definition::matches(pattern, scope.as_str())) {
                continue;
            }
            match missing.is_empty() {
                true => _ = given.insert(scope.as_str().to_owned()),
                false => lacking.extend(missing),
            }
        }
        if !lacking.is_empty() {
            self.lacking.insert(EVALUATION_SCOPES.to_owned(), lacking.into_iter().collect());
        }
        self.gates.insert(EVALUATION_SCOPES.to_owned(), given.into_iter().collect());
        self.principal = Some(caller.subject.clone());
        self
    }

    /// For whom a definition of this ceiling acts.
    #[must_use]
    pub(super) fn for_user(mut self, user: Option<&UserId>, caller: Option<&Caller>) -> Self {
        self.acts_for = user.map(|user| {
            let sees_all = caller.is_some_and(|caller| caller.visible().owner().is_none());
            ActsFor { user: user.clone(), sees_all }
        });
        self
    }

    fn close(&mut self, gate: &str) {
        match gate {
            "memory_scopes" => self.memory_scopes.clear(),
            "skills" => self.skills.clear(),
            "agents" => {
                self.agents.clear();
                self.others_than = None;
            }
            gate => _ = self.gates.insert(gate.to_owned(), Vec::new()),
        }
    }
}
