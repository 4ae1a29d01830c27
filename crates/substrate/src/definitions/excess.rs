//! What a definition has beyond what its maker may give: one comparison over every gate and limit.
//!
//! `excess` reports, `narrow` takes away. Both destructure `Definition`, so a new field cannot be forgotten.

use std::fmt;

use drawloom_contract::{definition::Definition, tool::Mode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ceiling::Ceiling;

/// One thing that a definition asks for and its maker may not give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excess {
    /// The key of the definition, such as `tools`.
    pub gate: String,
    /// What it asks for.
    pub asked: String,
    /// What is allowed.
    pub allowed: String,
    /// What would allow it.
    pub fix: String,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is not allowed (allowed: {}; {})", self.gate, self.asked, self.allowed, self.fix)
    }
}

/// Whether everything that the pattern `inner` can mean, `outer` means too. Both are exact names or `prefix*`.
pub(crate) fn covers(outer: &str, inner: &str) -> bool {
    match (outer.strip_suffix('*'), inner.strip_suffix('*')) {
        (Some(outer), Some(inner)) => inner.starts_with(outer),
        (Some(outer), None) => inner.starts_with(outer),
        (None, Some(_)) => false,
        (None, None) => outer == inner,
    }
}

/// The same for hosts: exact names, `*.suffix`, or `*`.
pub(crate) fn covers_host(outer: &str, inner: &str) -> bool {
    if outer == "*" {
        return true;
    }
    let plain = |host: &str| host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let (outer, inner) = (plain(outer), plain(inner));
    match outer.strip_prefix("*.").filter(|suffix| !suffix.is_empty()) {
        // `*.example.com` does not mean example.com itself.
        Some(suffix) => inner.strip_suffix(suffix).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => outer == inner,
    }
}

type Covers = fn(&str, &str) -> bool;

/// The names and patterns of a definition that a gate compares, each with how.
struct Compared<'a> {
    gate: String,
    asked: Vec<&'a str>,
    allowed: Vec<&'a str>,
    covers: Covers,
}

fn texts(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

/// Every list of a definition beside what is allowed. Numbers, volumes and models are compared apart.
fn lists<'a>(child: &'a Definition, ceiling: &'a Ceiling) -> Vec<Compared<'a>> {
    let Definition {
        name: _,
        version: _,
        description: _,
        executor,
        provider: _,
        model: _,
        system_prompt: _,
        tools,
        // Compared by `agents_beyond`: agents that are not of the config may be allowed without a name.
        agents: _,
        team: _,
        volumes: _,
        volume_modes: _,
        max_iterations: _,
        max_tokens: _,
        retry_attempts: _,
        run_timeout_ms: _,
        budget_tokens: _,
        budget_cost: _,
        effort: _,
        sampling: _,
        hosts,
        memory_scopes,
        skills,
        gates,
        choices: _,
        // Taken from the ceiling, never asked for.
        acts_for: _,
    } = child;
    let scopes = |scopes: &[drawloom_contract::definition::MemoryScope]| -> Vec<&'static str> {
        scopes.iter().copied().map(|scope| crate::memory::plain(scope).as_str()).collect()
    };
    let compare = |gate: &str, asked: Vec<&'a str>, allowed: Vec<&'a str>, covers: Covers| Compared {
        gate: gate.to_owned(),
        asked,
        allowed,
        covers,
    };
    let mut all = vec![
        compare("executor", vec![executor.as_str()], texts(&ceiling.executors), covers),
        compare("tools", texts(tools), texts(&ceiling.tools), covers),
        compare("hosts", texts(hosts), texts(&ceiling.hosts), covers_host),
        compare("memory_scopes", scopes(memory_scopes), scopes(&ceiling.memory_scopes), covers),
        compare("skills", skills.keys().map(String::as_str).collect(), texts(&ceiling.skills), covers),
    ];
    let none: &[String] = &[];
    all.extend(gates.iter().map(|(gate, asked)| {
        let allowed = ceiling.gates.get(gate).map_or(none, Vec::as_slice);
        compare(gate, texts(asked), texts(allowed), covers)
    }));
    all
}

/// A limit of a definition beside what is allowed; `None` is no limit.
fn limits(child: &Definition, ceiling: &Ceiling) -> [(&'static str, Option<u128>, Option<u128>); 6] {
    let wide = |number: Option<u64>| number.map(u128::from);
    [
        ("max_iterations", Some(child.max_iterations.into()), Some(ceiling.max_iterations.into())),
        ("max_tokens", child.max_tokens.map(u128::from), ceiling.max_tokens.map(u128::from)),
        ("retry_attempts", Some(child.retry_attempts.into()), ceiling.retry_attempts.map(u128::from)),
        ("run_timeout_seconds", wide(child.run_timeout_ms), wide(ceiling.run_timeout_ms)),
        ("budget.tokens", wide(child.budget_tokens), wide(ceiling.budget_tokens)),
        ("budget.cost", child.budget_cost.map(|cost| cost.0.into()), ceiling.budget_cost.map(|cost| cost.0.into())),
    ]
}

fn is_over(asked: Option<u128>, allowed: Option<u128>) -> bool {
    match (asked, allowed) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(asked), Some(allowed)) => asked > allowed,
    }
}

/// Whether the gate `agents` may hold this name or pattern.
fn may_list_agent(ceiling: &Ceiling, asked: &str) -> bool {
    if ceiling.agents.iter().any(|allowed| covers(allowed, asked)) {
        return true;
    }
    match &ceiling.others_than {
        // What a pattern means is narrowed when the team is made; a name must not be that of the config.
        Some(config) => asked.ends_with('*') || !config.contains(asked),
        None => false,
    }
}

/// The models that a definition may ask, each with the user tier it is for.
fn models(child: &Definition) -> Vec<(Option<&str>, String)> {
    let own = (!child.provider.is_empty()).then(|| (None, format!("{}/{}", child.provider, child.model)));
    let chosen = child
        .choices
        .iter()
        .flat_map(|(tier, choice)| choice.candidates.iter().map(move |model| (Some(tier.as_str()), model.to_string())));
    own.into_iter().chain(chosen).collect()
}

fn may_ask(ceiling: &Ceiling, tier: Option<&str>, model: &str) -> bool {
    let allowed = tier.and_then(|tier| ceiling.tiers.get(tier)).unwrap_or(&ceiling.models);
    allowed.iter().any(|allowed| covers(allowed, model))
}

fn mode_of(child: &Definition, volume: &str) -> Mode {
    let known = child.volume_modes.as_ref().and_then(|modes| modes.get(volume)).copied();
    known.unwrap_or(Mode::ReadWrite)
}

fn fits(ceiling: &Ceiling, child: &Definition, volume: &str) -> bool {
    match (ceiling.volumes.get(volume), mode_of(child, volume)) {
        (None, _) | (Some(Mode::ReadOnly), Mode::ReadWrite) => false,
        (Some(_), Mode::ReadOnly) | (Some(Mode::ReadWrite), Mode::ReadWrite) => true,
    }
}

/// Everything that `child` has beyond `ceiling`.
pub fn excess(child: &Definition, ceiling: &Ceiling) -> Vec<Excess> {
    let mut found = Vec::new();
    let mut report = |gate: &str, asked: String, allowed: String| {
        let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed };
        found.push(Excess { gate: gate.to_owned(), asked, allowed, fix: ceiling.fix(gate) });
    };
    for Compared { gate, asked, allowed, covers } in lists(child, ceiling) {
        for name in asked.iter().filter(|name| !allowed.iter().any(|allowed| covers(allowed, name))) {
            report(&gate, (*name).to_owned(), allowed.join(", "));
        }
    }
    for name in child.agents.iter().filter(|name| !may_list_agent(ceiling, name)) {
        let mut allowed = ceiling.agents.join(", ");
        if ceiling.others_than.is_some() {
            allowed = format!("{allowed}{}agents that callers defined", if allowed.is_empty() { "" } else { ", " });
        }
        report("agents", name.clone(), allowed);
    }
    for volume in child.volumes.iter().filter(|volume| !fits(ceiling, child, volume)) {
        let shown = |(name, mode): (&String, &Mode)| match mode {
            Mode::ReadOnly => format!("{name} (read-only)"),
            Mode::ReadWrite => name.clone(),
        };
        report("volumes", volume.clone(), ceiling.volumes.iter().map(shown).collect::<Vec<_>>().join(", "));
    }
    for (tier, model) in models(child).into_iter().filter(|(tier, model)| !may_ask(ceiling, *tier, model)) {
        let asked = tier.map_or_else(|| model.clone(), |tier| format!("{model} for user tier {tier}"));
        report("models", asked, ceiling.models.join(", "));
    }
    for (gate, asked, allowed) in limits(child, ceiling) {
        if is_over(asked, allowed) {
            let shown = |limit: Option<u128>| limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
            report(gate, shown(asked), format!("at most {}", shown(allowed)));
        }
    }
    found
}

/// Takes away what `child` has beyond `ceiling`, and says what that was. A definition that is left without a model cannot run.
pub(crate) fn narrow(child: &mut Definition, ceiling: &Ceiling) -> Vec<String> {
    child.acts_for = ceiling.acts_for.clone();
    let lost: Vec<String> =
        excess(child, ceiling).iter().map(|excess| format!("{}: {} was removed", excess.gate, excess.asked)).collect();
    if lost.is_empty() {
        return lost;
    }
    let before = child.clone();
    let kept = |gate: &str| -> Vec<String> {
        let compared = lists(&before, ceiling).into_iter().find(|compared| compared.gate == gate);
        compared.map_or_else(Vec::new, |Compared { asked, allowed, covers, .. }| {
            let fits = |name: &&str| allowed.iter().any(|allowed| covers(allowed, name));
            asked.into_iter().filter(fits).map(str::to_owned).collect()
        })
    };
    child.tools = kept("tools");
    child.hosts = kept("hosts");
    let scopes = kept("memory_scopes");
    child.memory_scopes.retain(|scope| scopes.iter().any(|kept| kept == crate::memory::plain(*scope).as_str()));
    let skills = kept("skills");
    child.skills.retain(|name, _| skills.contains(name));
    for (gate, allowed) in &mut child.gates {
        *allowed = kept(gate);
    }
    child.gates.retain(|_, allowed| !allowed.is_empty());
    child.agents.retain(|name| may_list_agent(ceiling, name));
    child.volumes.retain(|volume| fits(ceiling, &before, volume));
    if let Some(modes) = &mut child.volume_modes {
        modes.retain(|volume, _| child.volumes.contains(volume));
    }
    for (tier, choice) in &mut child.choices {
        choice.candidates.retain(|model| may_ask(ceiling, Some(tier), &model.to_string()));
    }
    if !child.provider.is_empty() && !may_ask(ceiling, None, &format!("{}/{}", child.provider, child.model)) {
        let first = child.choices.values().find_map(|choice| choice.candidates.first()).cloned();
        (child.provider, child.model) = first.map(|name| (name.provider, name.model)).unwrap_or_default();
    }
    fn least<T: Ord>(limit: &mut Option<T>, most: Option<T>) {
        *limit = match (limit.take(), most) {
            (Some(limit), Some(most)) => Some(limit.min(most)),
            (limit, most) => limit.or(most),
        };
    }
    child.max_iterations = child.max_iterations.min(ceiling.max_iterations);
    child.retry_attempts = ceiling.retry_attempts.map_or(child.retry_attempts, |most| child.retry_attempts.min(most));
    least(&mut child.max_tokens, ceiling.max_tokens);
    least(&mut child.run_timeout_ms, ceiling.run_timeout_ms);
    least(&mut child.budget_tokens, ceiling.budget_tokens);
    least(&mut child.budget_cost, ceiling.budget_cost);
    lost
}
