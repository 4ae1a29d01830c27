//! From the source of an agent to its definition: strictly when it is made, as far as possible when it is read again.

use drawloom_contract::{
    definition::{Definition, matches},
    executor::MODEL,
    money::Amount,
    tool::Mode,
};
use serde_json::Value;

use super::{
    Examined, SourceProblem,
    ceiling::Ceiling,
    excess::{Excess, covers, excess, narrow},
    source::plain_agent,
};
use crate::{
    agents::AgentConfig,
    catalog::{Inputs, resolve_one},
    lint::{self, Finding},
    problem::Problem,
};

/// The source with the limits that absent keys take from the maker, and what those are. They are kept with the version: read again, it
/// is bounded by the config alone, and must not get more than its maker had.
pub(super) fn complete(inputs: &Inputs<'_>, source: Value, ceilings: &[&Ceiling]) -> (Value, Vec<String>) {
    let Ok(mut config) = serde_json::from_value::<AgentConfig>(source.clone()) else { return (source, Vec::new()) };
    let notes = ceilings.iter().flat_map(|ceiling| inherit(&mut config, &source, ceiling)).collect();
    default_volume(&mut config, inputs, ceilings);
    (plain_agent(&config), notes)
}

/// Everything that is to say about a new agent. Its definition is complete only when there is no problem and no excess.
/// `is_defined` says whether an agent of this name was defined at runtime.
pub(super) fn examine(
    inputs: &Inputs<'_>,
    name: &str,
    source: &Value,
    ceilings: &[&Ceiling],
    is_defined: &dyn Fn(&str) -> bool,
) -> Examined {
    let mut examined = Examined::default();
    let mut config: AgentConfig = match serde_json::from_value(source.clone()) {
        Ok(config) => config,
        Err(error) => {
            examined.problems.push(SourceProblem::new("", error.to_string()));
            return examined;
        }
    };
    if config.system_prompt_file.take().is_some() {
        let hint = "put the text into `system_prompt`";
        let message = "a definition made at runtime cannot read files of the server";
        examined.problems.push(SourceProblem::new("system_prompt_file", message).with_hint(hint));
    }
    let bundled = config.bundled_skills.iter().map(|skill| ("bundled_skills", skill));
    for ((gate, skill), ceiling) in bundled.flat_map(|one| ceilings.iter().map(move |ceiling| (one, ceiling))) {
        if !ceiling.skills.iter().any(|allowed| covers(allowed, skill)) {
            let allowed = ceiling.skills.join(", ");
            examined.excess.push(Excess {
                gate: gate.into(),
                asked: skill.clone(),
                allowed,
                fix: ceiling.fix("skills"),
            });
        }
    }
    for ceiling in ceilings {
        examined.warnings.extend(inherit(&mut config, source, ceiling));
    }
    default_volume(&mut config, inputs, ceilings);
    let (definition, problems) = resolve_one(inputs, name, &config);
    for problem in problems {
        match is_unknown_agent(&problem) {
            true if problem.unknown.as_ref().is_some_and(|(_, name)| is_defined(name)) => {}
            true => examined.warnings.push(format!("{}; it can be spawned once it is defined", problem.message)),
            false => examined.problems.push(relative(problem)),
        }
    }
    let Some(definition) = definition else { return examined };
    for found in ceilings.iter().flat_map(|ceiling| excess(&definition, ceiling)) {
        let is_same = |known: &Excess| known.gate == found.gate && known.asked == found.asked;
        if !examined.excess.iter().any(is_same) {
            examined.excess.push(found);
        }
    }
    let others = ceilings.iter().filter_map(|ceiling| Some((ceiling, ceiling.others_than.as_ref()?)));
    for (ceiling, config_agents) in others {
        for pattern in definition.agents.iter().filter(|pattern| pattern.ends_with('*')) {
            let meant = config_agents.iter().filter(|agent| matches(pattern, agent));
            let kept_away = meant.filter(|agent| !ceiling.agents.iter().any(|allowed| covers(allowed, agent)));
            let names: Vec<&str> = kept_away.map(String::as_str).collect();
            if !names.is_empty() {
                examined.warnings.push(format!(
                    "agents: {pattern:?} does not include these agents of the config: {} ({})",
                    names.join(", "),
                    ceiling.fix("agents")
                ));
            }
        }
    }
    examined.findings = lint::agent(&config, &definition, inputs);
    examined.definition = Some(definition);
    examined
}

/// An agent that was made before, as today's config allows it, and what that took away; or why it cannot run.
pub(super) fn settle(
    inputs: &Inputs<'_>,
    name: &str,
    source: &Value,
    ceiling: &Ceiling,
) -> Result<(Definition, Vec<String>), String> {
    let (config, mut notes) = adapt(inputs, source, ceiling)?;
    let (definition, problems) = resolve_one(inputs, name, &config);
    let reasons: Vec<String> = problems
        .into_iter()
        .filter(|problem| !is_unknown_agent(problem))
        .map(|problem| relative(problem).to_string())
        .collect();
    let Some(mut definition) = definition.filter(|_| reasons.is_empty()) else { return Err(reasons.join("; ")) };
    notes.extend(narrow(&mut definition, ceiling));
    if let Some(left) = excess(&definition, ceiling).first() {
        return Err(left.to_string());
    }
    let is_without_model =
        definition.provider.is_empty() || definition.choices.values().any(|choice| choice.candidates.is_empty());
    if definition.executor == MODEL && is_without_model {
        return Err(format!("none of its models is allowed ({})", ceiling.fix("models")));
    }
    Ok((definition, notes))
}

/// What lint finds about an agent that was made before, with today's config.
pub(super) fn findings(
    inputs: &Inputs<'_>,
    definition: &Definition,
    source: &Value,
    ceiling: &Ceiling,
) -> Vec<Finding> {
    // What cannot be read any more is reported as unusable.
    adapt(inputs, source, ceiling).map_or_else(|_| Vec::new(), |(config, _)| lint::agent(&config, definition, inputs))
}

/// A stored source as far as today's config has what it names, and what that took away.
fn adapt(inputs: &Inputs<'_>, source: &Value, ceiling: &Ceiling) -> Result<(AgentConfig, Vec<String>), String> {
    let config: Result<AgentConfig, _> = serde_json::from_value(source.clone());
    let mut config = config.map_err(|error| format!("its source is not valid any more: {error}"))?;
    config.system_prompt_file = None;
    let mut notes = prune(&mut config, inputs);
    config.bundled_skills.retain(|skill| {
        let is_kept = ceiling.skills.iter().any(|allowed| covers(allowed, skill));
        if !is_kept {
            notes.push(format!("bundled_skills: {skill} was removed"));
        }
        is_kept
    });
    inherit(&mut config, source, ceiling);
    default_volume(&mut config, inputs, &[ceiling]);
    Ok((config, notes))
}

/// Agents that are defined later may be named before.
fn is_unknown_agent(problem: &Problem) -> bool {
    problem.unknown.as_ref().is_some_and(|(section, _)| *section == "agents")
}

/// A problem with its place in the source: the resolver counts from the top of a config.
fn relative(problem: Problem) -> SourceProblem {
    let mut path = String::new();
    for step in problem.at.iter().skip_while(|step| *step == "agents").skip(1) {
        match step.parse::<usize>() {
            Ok(index) => path.push_str(&format!("[{index}]")),
            Err(_) if path.is_empty() => path.push_str(step),
            Err(_) => path.push_str(&format!(".{step}")),
        }
    }
    SourceProblem { path, message: problem.message, hint: problem.hint }
}

/// What an absent key means when the maker has less than the usual default: what the maker has.
fn inherit(config: &mut AgentConfig, source: &Value, ceiling: &Ceiling) -> Vec<String> {
    let mut notes = Vec::new();
    let is_set = |key: &str| source.get(key).is_some_and(|value| !value.is_null());
    let mut lower =
        |key: &str, value: String| notes.push(format!("{key} is not set: {value}, the maker's limit, is used"));
    if !is_set("max_iterations") && config.max_iterations > ceiling.max_iterations {
        config.max_iterations = ceiling.max_iterations;
        lower("max_iterations", ceiling.max_iterations.to_string());
    }
    if let Some(most) = ceiling.retry_attempts.filter(|most| !is_set("retry_attempts") && config.retry_attempts > *most)
    {
        config.retry_attempts = most;
        lower("retry_attempts", most.to_string());
    }
    if let Some(most) = ceiling.max_tokens.filter(|_| config.max_tokens.is_none()) {
        config.max_tokens = Some(most);
        lower("max_tokens", most.to_string());
    }
    if let Some(most) = ceiling.run_timeout_ms.filter(|_| config.run_timeout_seconds.is_none()) {
        config.run_timeout_seconds = Some(most / 1_000);
        lower("run_timeout_seconds", (most / 1_000).to_string());
    }
    if let Some(most) = ceiling.budget_tokens.filter(|_| config.budget.tokens.is_none()) {
        config.budget.tokens = Some(most);
        lower("budget.tokens", most.to_string());
    }
    if let Some(most) = ceiling.budget_cost.filter(|_| config.budget.cost.is_none()) {
        config.budget.cost = Some(Amount(most));
        lower("budget.cost", most.units().to_string());
    }
    notes
}

/// Without a list, an agent has the default volume, if its maker may give that.
fn default_volume(config: &mut AgentConfig, inputs: &Inputs<'_>, ceilings: &[&Ceiling]) {
    if config.volumes.is_some() {
        return;
    }
    let fits = |ceiling: &Ceiling, name: &str| match (ceiling.volumes.get(name), inputs.volumes.mode(name)) {
        (Some(Mode::ReadOnly), Some(Mode::ReadOnly)) | (Some(Mode::ReadWrite), Some(_)) => true,
        (Some(Mode::ReadOnly), Some(Mode::ReadWrite)) | (None, _) | (_, None) => false,
    };
    let default = inputs.volumes.default_volume();
    let given = default.filter(|name| ceilings.iter().all(|ceiling| fits(ceiling, name)));
    config.volumes = Some(given.map(str::to_owned).into_iter().collect());
}

/// Takes out names that mean nothing any more, and says which.
fn prune(config: &mut AgentConfig, inputs: &Inputs<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut keep = |key: &str, list: &mut Vec<String>, is_known: &dyn Fn(&str) -> bool| {
        list.retain(|name| {
            let is_kept = name.ends_with('*') || is_known(name);
            if !is_kept {
                notes.push(format!("{key}: {name} was removed: it does not exist any more"));
            }
            is_kept
        });
    };
    let is_tool = |name: &str| {
        let server = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")).map(|(server, _)| server);
        match server {
            Some(server) => inputs.servers.iter().any(|known| known == server),
            None => inputs.tools.iter().any(|known| known == name) || inputs.off.contains_key(name),
        }
    };
    if let Some(tools) = &mut config.tools {
        keep("tools", tools, &is_tool);
        // A pattern of a server that is gone is an error of the resolver too.
        let is_gone = |name: &String| name.starts_with("mcp__") && name.contains("__*") && !is_tool(name);
        tools.retain(|name| !is_gone(name));
    }
    if let Some(skills) = &mut config.skills {
        keep("skills", skills, &|name| inputs.skills.look(name).is_some());
    }
    keep("bundled_skills", &mut config.bundled_skills, &|name| inputs.skills.look(name).is_some());
    if let Some(volumes) = &mut config.volumes {
        keep("volumes", volumes, &|name| inputs.volumes.mode(name).is_some());
    }
    notes
}
