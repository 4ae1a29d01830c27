//! Plan: what a run may do, thought through before anything is written. Roots and children come through here; each request only
//! narrows what the operator and the definition allow, and says what it did not get.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    caller::Caller,
    choice::{ModelName, ModelPlan},
    definition::{Definition, matches},
    executor::MODEL,
    failure::{Failure, FailureKind},
    ids::{AgentId, AgentName, RunId, RunKey, SessionId, Tenant},
    record::{Accepted, BatchPlace, Parent, PartBudget},
    redact::Redacted,
    runs::Start,
    time::Timestamp,
};

use crate::{Engine, admission::Lane, hosts, pins::Pinned};

/// Most tools of a run; models' providers take no more.
pub(crate) const MOST_TOOLS: usize = 128;

/// A run that was thought through and not yet written down.
pub(crate) struct Planned {
    /// The time that everything in it is counted from. Whoever asks the wall clock again may get another one.
    pub(crate) at: Timestamp,
    pub(crate) accepted: Accepted,
    pub(crate) pinned: Arc<Pinned>,
    /// Whether it joins a session that must be there and free.
    pub(crate) joins_session: bool,
}

impl Planned {
    pub(crate) fn key(&self) -> RunKey {
        RunKey { tenant: self.accepted.tenant.clone(), run: self.accepted.run }
    }

    /// What its slot is counted by.
    pub(crate) fn lane(&self) -> Lane {
        let Accepted { tenant, user, provider, .. } = &self.accepted;
        Lane { tenant: tenant.clone(), user: user.clone(), provider: provider.as_str().into() }
    }
}

impl Engine {
    pub(crate) fn plan_root(
        &self,
        caller: &Caller,
        start: Start,
        batch: Option<BatchPlace>,
    ) -> Result<Planned, Failure> {
        let now = self.wall();
        // Names are stored and shown as they are.
        let is_secret = |name: String| self.parts.redactor.mask(&mut { name });
        if start.agent_id.as_ref().is_some_and(|agent_id| is_secret(agent_id.to_string())) {
            let message = "the agent_id looks like a secret; agent ids are stored and displayed";
            return Err(Failure::new(FailureKind::Invalid, "secret_agent_id", message).with_hint("choose another one"));
        }
        if is_secret(start.user.as_ref().unwrap_or(&caller.subject).to_string()) {
            let message = "the user_id looks like a secret; user ids are stored and displayed";
            return Err(Failure::new(FailureKind::Invalid, "secret_user_id", message).with_hint("choose another one"));
        }
        let pinned = self.find_agent(&caller.tenant, &start, None)?;
        let definition = &pinned.definition;
        let run = RunId::mint(now, &*self.parts.entropy)?;
        let mut warnings = start.warnings;
        warnings.extend(self.toolbox.missing(&definition.tools, start.tools.as_deref()));
        let tools = narrowed(&pinned.tools, start.tools.as_deref(), &mut warnings);
        for host in start.hosts.iter().flatten() {
            if hosts::narrowed(&definition.hosts, Some(std::slice::from_ref(host))).is_empty() {
                warnings.push(format!("allowed_hosts: `{host}` is not one of the agent's hosts; ignored"));
            }
        }
        for volume in start.volumes.iter().flatten().filter(|volume| !definition.volumes.contains(volume)) {
            warnings.push(format!("volumes: `{volume}` is not one of the agent's volumes; ignored"));
        }
        let max_iterations = narrower("max_iterations", start.max_iterations, definition.max_iterations, &mut warnings);
        let budget_tokens = match (start.budget_tokens, definition.budget_tokens) {
            (asked, Some(limit)) => Some(narrower("budget.tokens", asked, limit, &mut warnings)),
            (asked, None) => asked,
        };
        let budget_cost = match (start.budget_cost, definition.budget_cost) {
            (Some(asked), Some(limit)) if asked > limit => {
                warnings.push(format!(
                    "budget.cost: {} requested, reduced to the agent's limit of {}",
                    asked.units(),
                    limit.units()
                ));
                Some(limit)
            }
            (asked, limit) => asked.or(limit),
        };
        let is_model = definition.executor == MODEL;
        let (model, models) = match is_model {
            true => self.choose(definition, start.user_tier.as_deref(), start.sampling, budget_cost, &mut warnings)?,
            false => asks_no_model(definition),
        };
        let run_timeout_ms = match (start.run_timeout_ms, definition.run_timeout_ms) {
            (asked, Some(limit)) => Some(narrower("run_timeout_seconds", asked, limit, &mut warnings)),
            (asked, None) => asked,
        };
        // The default keeps a run from staying alive unseen. All waits that exist count: for children, slots, times, rate
        // limits and budgets. A wait for a person or a channel, once there is one, must stop this clock.
        let usual = Some(self.parts.config.default_timeout_ms).filter(|millis| is_model && *millis > 0);
        let timeout_ms = start.timeout_ms.or(usual);
        let deadline = timeout_ms.map(|millis| now.after(Duration::from_millis(millis)));
        let accepted = Accepted {
            version: drawloom_contract::VERSION.into(),
            tenant: caller.tenant.clone(),
            run,
            session: start.session.map_or_else(|| SessionId::mint(now, &*self.parts.entropy), Ok)?,
            agent_id: start.agent_id.map_or_else(|| AgentId::mint(now, &*self.parts.entropy), Ok)?,
            agent: start.agent,
            definition: pinned.digest,
            executor: definition.executor.clone(),
            user: start.user.unwrap_or_else(|| caller.subject.clone()),
            provider: model.provider,
            model: model.model,
            parent: None,
            root: run,
            depth: 0,
            batch,
            retry: None,
            segments: start.segments,
            input: start.input,
            tools,
            narrowed_tools: start.tools,
            max_iterations,
            budget_tokens,
            budget_cost,
            models,
            part_budgets: Vec::new(),
            narrowed_hosts: start.hosts,
            narrowed_volumes: start.volumes,
            deadline,
            deadline_set: deadline.map(|_| self.parts.clock.mark()),
            run_timeout_ms,
            queue_timeout_ms: Some(self.parts.config.queue_timeout_ms),
            parent_context: start.parent_context,
            metadata: start.metadata,
            warnings,
        };
        Ok(Planned { at: now, accepted, pinned, joins_session: start.session.is_some() })
    }

    /// A child of `parent`'s call: it may do what the operator, its own definition, the requests above it and its own request allow,
    /// in the time that is left of its parent's.
    pub(crate) fn plan_child(
        &self,
        parent: &Accepted,
        above: &Definition,
        left: Option<Duration>,
        link: Parent,
        start: Start,
    ) -> Result<Planned, Failure> {
        if start.user.is_some() || start.session.is_some() || start.agent_id.is_some() || start.user_tier.is_some() {
            let message = "child runs inherit user and tier from their parent and get their own session and agent_id";
            return Err(Failure::new(FailureKind::Invalid, "not_for_children", message));
        }
        let now = self.wall();
        let own_time = start.timeout_ms.map(Duration::from_millis);
        let deadline = left.into_iter().chain(own_time).min().map(|time| now.after(time));
        let pinned = self.below(parent, above, self.find_agent(&parent.tenant, &start, Some(&parent.agent))?);
        let definition = &pinned.definition;
        let run = RunId::mint(now, &*self.parts.entropy)?;
        let mut warnings = start.warnings;
        let narrowed_tools = both(parent.narrowed_tools.as_deref(), start.tools.as_deref(), matches);
        tell_lost("tools", start.tools.as_deref(), narrowed_tools.as_deref(), matches, &mut warnings);
        warnings.extend(self.toolbox.missing(&definition.tools, narrowed_tools.as_deref()));
        let tools = narrowed(&pinned.tools, narrowed_tools.as_deref(), &mut warnings);
        let narrowed_hosts = match (&parent.narrowed_hosts, &start.hosts) {
            (Some(above), asked) => Some(hosts::narrowed(above, asked.as_deref()).to_vec()),
            (None, asked) => asked.clone(),
        };
        tell_lost("allowed_hosts", start.hosts.as_deref(), narrowed_hosts.as_deref(), is_same, &mut warnings);
        let narrowed_volumes = both(parent.narrowed_volumes.as_deref(), start.volumes.as_deref(), is_same);
        tell_lost("volumes", start.volumes.as_deref(), narrowed_volumes.as_deref(), is_same, &mut warnings);
        let max_iterations = narrower("max_iterations", start.max_iterations, definition.max_iterations, &mut warnings);
        let mut part_budgets = parent.part_budgets.clone();
        let tokens = start.budget_tokens.into_iter().chain(definition.budget_tokens).min();
        let cost = start.budget_cost.into_iter().chain(definition.budget_cost).min();
        if tokens.is_some() || cost.is_some() {
            part_budgets.push(PartBudget { run, tokens, cost });
        }
        let most_cost = parent.budget_cost.into_iter().chain(part_budgets.iter().filter_map(|part| part.cost)).min();
        let user_tier = parent.models.user_tier.as_deref();
        let (model, models) = match definition.executor == MODEL {
            true => self.choose(definition, user_tier, start.sampling, most_cost, &mut warnings)?,
            false => asks_no_model(definition),
        };
        let run_timeout_ms = start.run_timeout_ms.into_iter().chain(definition.run_timeout_ms).min();
        let accepted = Accepted {
            version: drawloom_contract::VERSION.into(),
            tenant: parent.tenant.clone(),
            run,
            session: SessionId::mint(now, &*self.parts.entropy)?,
            agent_id: AgentId::mint(now, &*self.parts.entropy)?,
            agent: start.agent,
            definition: pinned.digest,
            executor: definition.executor.clone(),
            user: parent.user.clone(),
            provider: model.provider,
            model: model.model,
            parent: Some(link),
            root: parent.root,
            depth: parent.depth + 1,
            batch: None,
            retry: None,
            segments: start.segments,
            input: start.input,
            tools,
            narrowed_tools,
            max_iterations,
            budget_tokens: parent.budget_tokens,
            budget_cost: parent.budget_cost,
            part_budgets,
            models,
            narrowed_hosts,
            narrowed_volumes,
            deadline,
            deadline_set: deadline.map(|_| self.parts.clock.mark()),
            run_timeout_ms,
            queue_timeout_ms: None,
            parent_context: start.parent_context.or_else(|| parent.parent_context.clone()),
            metadata: start.metadata,
            warnings,
        };
        Ok(Planned { at: now, accepted, pinned, joins_session: false })
    }

    /// Sees to it that the tools of agents, each narrowed by its request, are known before runs of them are planned; what is
    /// missing is in the plan.
    pub(crate) async fn ask_for_tools<'a>(
        &self,
        tenant: &Tenant,
        agents: impl IntoIterator<Item = (&'a AgentName, Option<&'a [String]>)>,
    ) {
        let find = |(agent, narrowed)| Some((self.parts.definitions.find(tenant, agent)?, narrowed));
        let found: Vec<_> = agents.into_iter().filter_map(find).collect();
        let agents: Vec<_> = found.iter().map(|(definition, narrowed)| (&*definition.tools, *narrowed)).collect();
        self.toolbox.ask(&agents).await;
    }

    /// What a child of `parent` pins. An agent that does not serve the user of the run starts none that would.
    fn below(&self, parent: &Accepted, above: &Definition, pinned: Arc<Pinned>) -> Arc<Pinned> {
        if above.serves(&parent.user) {
            return pinned;
        }
        let definition = Definition { acts_for: above.acts_for.clone(), ..Definition::clone(&pinned.definition) };
        self.pins.pin(&parent.tenant, &Arc::new(definition), &self.parts.redactor, &self.toolbox)
    }

    /// The agent of a new run; `parent` is the agent that starts it.
    fn find_agent(&self, tenant: &Tenant, start: &Start, parent: Option<&AgentName>) -> Result<Arc<Pinned>, Failure> {
        let name = &start.agent;
        // Operations of drawloom bring the definition, and a goal starts its own roles.
        if name.is_reserved() && start.definition.is_none() && !parent.is_some_and(AgentName::is_reserved) {
            let message = format!("agent \"{name}\" is part of drawloom and cannot be started directly");
            return Err(
                Failure::new(FailureKind::Denied, "reserved_agent", message).with_hint("start a goal with orchestrate")
            );
        }
        let found = start.definition.clone().or_else(|| self.parts.definitions.find(tenant, name));
        let Some(definition) = found else {
            let known: Vec<String> =
                self.parts.definitions.list(tenant).iter().take(20).map(|known| known.name.to_string()).collect();
            if let Some(reason) = self.parts.definitions.unusable(tenant, name) {
                let message = format!("agent {name} cannot run: {reason}");
                return Err(Failure::new(FailureKind::Conflict, "agent_unusable", message));
            }
            let failure = Failure::new(FailureKind::NotFound, "unknown_agent", format!("unknown agent \"{name}\""));
            return Err(match known.is_empty() {
                true => failure.with_hint(
                    "no agent is configured; add one under `agents` in the config, or use create_definition",
                ),
                false => failure.with_hint(format!("available: {}", known.join(", "))),
            });
        };
        self.executors.check(&definition.executor)?;
        Ok(self.pins.pin(tenant, &definition, &self.parts.redactor, &self.toolbox))
    }
}

/// The definitions that these runs pin, each once. The journal knows which of them it has and writes the others.
pub(crate) fn pinned_definitions(planned: &[Planned]) -> Vec<Redacted<Arc<Definition>>> {
    let mut pinned: Vec<&Arc<Pinned>> = Vec::new();
    for planned in planned {
        if pinned.iter().all(|known| known.digest != planned.pinned.digest) {
            pinned.push(&planned.pinned);
        }
    }
    pinned.into_iter().map(|pinned| pinned.definition.clone()).collect()
}

fn is_same(one: &str, other: &str) -> bool {
    one == other
}

/// Says what a child's request asked for and requests above it do not leave.
fn tell_lost(
    name: &str,
    asked: Option<&[String]>,
    left: Option<&[String]>,
    covers: fn(&str, &str) -> bool,
    warnings: &mut Vec<String>,
) {
    for wanted in asked.into_iter().flatten() {
        if !left.into_iter().flatten().any(|left| covers(wanted, left)) {
            warnings.push(format!("{name}: `{wanted}` is not allowed by the parent's request; ignored"));
        }
    }
}

/// What two requests leave together, of names that `covers` compares: a pattern, and what it may cover.
fn both(
    above: Option<&[String]>,
    asked: Option<&[String]>,
    covers: impl Fn(&str, &str) -> bool,
) -> Option<Vec<String>> {
    let (Some(above), Some(asked)) = (above, asked) else { return asked.or(above).map(<[String]>::to_vec) };
    let mut left: Vec<String> = Vec::new();
    for (one, other) in above.iter().flat_map(|one| asked.iter().map(move |other| (one, other))) {
        let narrower = if covers(one, other) { other } else { one };
        if (covers(one, other) || covers(other, one)) && !left.contains(narrower) {
            left.push(narrower.clone());
        }
    }
    Some(left)
}

/// The lane of runs that ask no model is named after what they run on, or else after their executor, so that caps count them as
/// they count a provider's.
fn asks_no_model(definition: &Definition) -> (ModelName, ModelPlan) {
    let provider = if definition.provider.is_empty() { &definition.executor } else { &definition.provider };
    (ModelName::new(provider, &definition.model), ModelPlan::default())
}

/// The tools of `allowed` that the request leaves; what it asks for beyond that is said, not given.
fn narrowed(allowed: &[String], asked: Option<&[String]>, warnings: &mut Vec<String>) -> Vec<String> {
    for pattern in asked.iter().copied().flatten().filter(|pattern| !allowed.iter().any(|tool| matches(pattern, tool)))
    {
        warnings.push(format!("tools: `{pattern}` is not one of the agent's tools; ignored"));
    }
    let is_asked = |tool: &&String| asked.is_none_or(|asked| asked.iter().any(|pattern| matches(pattern, tool)));
    let mut tools: Vec<String> = allowed.iter().filter(is_asked).cloned().collect();
    if tools.len() > MOST_TOOLS {
        let beyond = tools.len() - MOST_TOOLS;
        warnings.push(format!("tools: {beyond} tools omitted: the limit is {MOST_TOOLS} tools per run; list fewer"));
        // Those of drawloom itself come first, then those of sources, each in order.
        tools.sort_by_key(|tool| tool.starts_with("mcp__"));
        tools.truncate(MOST_TOOLS);
        tools.sort_unstable();
    }
    tools
}

/// What was asked, unless the definition allows less.
fn narrower<T: Ord + Copy + std::fmt::Display>(
    name: &str,
    asked: Option<T>,
    limit: T,
    warnings: &mut Vec<String>,
) -> T {
    match asked {
        Some(asked) if asked > limit => {
            warnings.push(format!("{name}: {asked} requested, reduced to the agent's limit of {limit}"));
            limit
        }
        Some(asked) => asked,
        None => limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_tools_those_of_drawloom_itself_stay_and_it_is_said() {
        let allowed: Vec<String> =
            (0..130).map(|number| format!("mcp__a__{number:03}")).chain(["read_file".to_owned()]).collect();
        let mut warnings = Vec::new();
        let tools = narrowed(&allowed, None, &mut warnings);
        assert_eq!(tools.len(), MOST_TOOLS);
        assert!(tools.contains(&"read_file".to_owned()) && !tools.contains(&"mcp__a__127".to_owned()));
        assert_eq!(warnings, ["tools: 3 tools omitted: the limit is 128 tools per run; list fewer"]);
        let (mut warnings, asked) = (Vec::new(), ["mcp__a__00*".to_owned(), "x".to_owned()]);
        assert_eq!(narrowed(&allowed, Some(&asked), &mut warnings).len(), 10);
        assert_eq!(warnings, ["tools: `x` is not one of the agent's tools; ignored"]);
    }
}
