//! The agents of the config, resolved: every name in them exists, every default is filled in.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use drawloom_contract::{
    choice::{Choice, ModelName},
    definition::{DEFAULT_USER_TIER, Definition, DefinitionKind, Definitions, MemoryScope, Teammate},
    executor::MODEL,
    gate::Gate,
    ids::{AgentName, Tenant},
    money::Amount,
};

use crate::{
    agents::{AgentConfig, ModelChoice},
    channels::{self, ChannelConfig, PUBLISH_GATE, SUBSCRIBE_GATE},
    definitions,
    evaluations::EVALUATION_SCOPES,
    files,
    hint::did_you_mean,
    lint::{self, Finding},
    memory, names,
    problem::Problem,
    skills::SkillTable,
    tiers::{self, Tiers, UserTier},
    volumes::VolumeTable,
};

/// The longest system prompt that a file may hold, in bytes.
pub const PROMPT_FILE_LIMIT: u64 = 256 * 1024;

/// Most agents that a model is told it may spawn.
pub(crate) const MOST_TEAM: usize = 256;

/// What to do about a skill that does not exist when there are none at all.
const NO_SKILLS: &str = "add the directory that contains its folder to `skills.directories`";

/// What agents are resolved against. Paths in it are absolute, or relative to the current directory.
pub struct Inputs<'a> {
    /// `agents`.
    pub agents: &'a BTreeMap<String, AgentConfig>,
    /// `defaults`.
    pub defaults: &'a ModelChoice,
    /// `models`.
    pub models: &'a BTreeMap<String, ModelChoice>,
    /// `tiers`.
    pub tiers: &'a Tiers,
    /// `user_tiers`.
    pub user_tiers: &'a BTreeMap<String, UserTier>,
    /// `provider_priority`.
    pub provider_priority: &'a [String],
    /// The names under `providers`.
    pub providers: &'a [String],
    /// Those of them that cannot be asked, because they have no key.
    pub unusable: &'a [String],
    /// The names of all executors.
    pub executors: &'a [String],
    /// What `provider` names for agents of an executor that runs on something else than a model, by executor: coding CLIs.
    pub backends: &'a BTreeMap<String, Vec<String>>,
    /// The names of all tools.
    pub tools: &'a [String],
    /// The gates of those tools that have one, on or off, by name.
    pub gates: &'a BTreeMap<String, Gate>,
    /// Tools that there are but that the operator has left off, each with what turns it on.
    pub off: &'a BTreeMap<String, String>,
    /// The names under `mcp_servers`: tools of theirs are `mcp__NAME__TOOL`, and which there are is not known yet.
    pub servers: &'a [String],
    /// The volumes.
    pub volumes: &'a VolumeTable,
    /// The skills.
    pub skills: &'a SkillTable,
    /// `channels`.
    pub channels: &'a BTreeMap<String, ChannelConfig>,
}

/// The agents of the config. They never change, and are the same for every tenant; `layers.rs` adds those of runtime.
#[derive(Debug, Default)]
pub struct Catalog {
    agents: BTreeMap<AgentName, Arc<Definition>>,
}

impl Catalog {
    /// Resolves every agent, with what its reader should know; or says all that is wrong.
    pub fn resolve(inputs: &Inputs<'_>) -> Result<(Self, Vec<Finding>), Vec<Problem>> {
        let (catalog, findings, problems) = Self::examine(inputs);
        if problems.is_empty() { Ok((catalog, findings)) } else { Err(problems) }
    }

    /// The agents as far as they can be resolved, and all that is wrong with them.
    pub fn examine(inputs: &Inputs<'_>) -> (Self, Vec<Finding>, Vec<Problem>) {
        let mut catalog = Self::default();
        let mut findings = Vec::new();
        let mut problems = check_aliases(inputs);
        problems.extend(tiers::check(inputs));
        problems.extend(channels::problems(inputs.channels));
        for (name, config) in inputs.agents {
            let mut resolving = Resolving { inputs, name, config, problems: Vec::new() };
            if names::is_reserved(name) {
                resolving.report(&[], names::RESERVED.into(), Some("rename the agent".into()));
            }
            let definition = resolving.definition();
            problems.append(&mut resolving.problems);
            if let Some(definition) = definition {
                findings.extend(lint::agent(config, &definition, inputs));
                catalog.agents.insert(definition.name.clone(), Arc::new(definition));
            }
        }
        findings.extend(catalog.introduce());
        let all = catalog.agents.iter().map(|(name, definition)| (name.as_str(), &**definition)).collect();
        findings.extend(lint::together(&all));
        findings.extend(lint::volumes(&all, inputs));
        (catalog, findings, problems)
    }

    /// Tells each agent whom it may spawn, unless that is too many for a model to choose from.
    fn introduce(&mut self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mates: Vec<Teammate> = self
            .agents
            .values()
            .map(|definition| Teammate { name: definition.name.clone(), description: definition.description.clone() })
            .collect();
        for definition in self.agents.values_mut() {
            let team: Vec<Teammate> = mates.iter().filter(|mate| definition.may_spawn(&mate.name)).cloned().collect();
            match team.len() <= MOST_TEAM {
                true => Arc::make_mut(definition).team = Some(team),
                false => findings.push(lint::large_team(&definition.name, team.len(), MOST_TEAM)),
            }
        }
        findings
    }

    /// The agent of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Definition>> {
        self.agents.iter().find(|(known, _)| known.as_str() == name).map(|(_, definition)| definition)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.agents.values()
    }

    /// The names of all agents.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.agents.keys().map(AgentName::as_str)
    }
}

impl Definitions for Catalog {
    fn find(&self, _: &Tenant, name: &AgentName) -> Option<Arc<Definition>> {
        self.agents.get(name).cloned()
    }

    fn list(&self, _: &Tenant) -> Vec<Arc<Definition>> {
        self.agents.values().cloned().collect()
    }

    fn unusable(&self, _: &Tenant, _: &AgentName) -> Option<String> {
        None
    }
}

/// Resolves one agent that the config does not have, by the same rules: as far as it can be, with all that is wrong.
pub(crate) fn resolve_one(inputs: &Inputs<'_>, name: &str, config: &AgentConfig) -> (Option<Definition>, Vec<Problem>) {
    let mut resolving = Resolving { inputs, name, config, problems: Vec::new() };
    let definition = resolving.definition();
    (definition, resolving.problems)
}

/// Aliases and defaults must name a provider and a model, also when no agent uses them.
fn check_aliases(inputs: &Inputs<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (alias, choice) in inputs.models {
        let at = ["models", alias];
        match (&choice.provider, &choice.model) {
            (Some(provider), Some(_)) => problems.extend(unknown_provider(inputs, at, provider)),
            (provider, _) => {
                let absent = if provider.is_some() { "model" } else { "provider" };
                let message = format!("the alias {alias:?} needs both `provider` and `model`");
                problems.push(Problem::new(at, message).with_hint(format!("add `{absent}`")));
            }
        }
    }
    if inputs.defaults != &ModelChoice::default()
        && let Err(problem) = choose(inputs, &["defaults"], inputs.defaults)
    {
        problems.push(problem);
    }
    problems
}

fn unknown_provider<'a>(inputs: &Inputs<'_>, at: impl IntoIterator<Item = &'a str>, provider: &str) -> Option<Problem> {
    if inputs.providers.iter().any(|known| known == provider) {
        return None;
    }
    let problem = Problem::new(at.into_iter().chain(["provider"]), format!("unknown provider {provider:?}"))
        .of_unknown("providers", provider);
    Some(match did_you_mean(provider, inputs.providers.iter().map(String::as_str)) {
        Some(hint) => problem.with_hint(hint),
        None => problem.with_hint("add it under `providers`"),
    })
}

/// The provider and model that a choice names.
pub(crate) fn choose(inputs: &Inputs<'_>, at: &[&str], choice: &ModelChoice) -> Result<(String, String), Problem> {
    match (&choice.provider, &choice.model) {
        (Some(provider), Some(model)) => match unknown_provider(inputs, at.iter().copied(), provider) {
            Some(problem) => Err(problem),
            None => Ok((provider.clone(), model.clone())),
        },
        (Some(provider), None) => {
            Err(Problem::new(at.iter().copied(), format!("provider {provider:?} is given without `model`"))
                .with_hint("add `model`, the model's name at that provider"))
        }
        (None, Some(alias)) => match inputs.models.get(alias) {
            Some(ModelChoice { provider: Some(provider), model: Some(model) }) => Ok((provider.clone(), model.clone())),
            // Half an alias is reported where it is defined; here it only must not be called unknown.
            Some(_) => Ok((String::new(), String::new())),
            None => {
                let at = at.iter().copied().chain(["model"]);
                let hint = match did_you_mean(alias, inputs.models.keys().map(String::as_str)) {
                    Some(hint) => format!("{hint} For a model of a provider, add `provider`"),
                    None => "add `provider`, or add the alias under `models`".into(),
                };
                Err(Problem::new(at, format!("unknown model alias {alias:?}"))
                    .with_hint(hint)
                    .of_unknown("models", alias))
            }
        },
        (None, None) => Err(Problem::new(at.iter().copied(), "no model is given")
            .with_hint("add `provider` and `model`, or `model` with an alias, here or under `defaults`")),
    }
}

/// One agent on its way to a definition.
struct Resolving<'a> {
    inputs: &'a Inputs<'a>,
    name: &'a str,
    config: &'a AgentConfig,
    problems: Vec<Problem>,
}

impl Resolving<'_> {
    fn definition(&mut self) -> Option<Definition> {
        let name = self
            .name
            .parse::<AgentName>()
            .map_err(|error| self.report(&[], error.to_string(), Some("rename the agent".into())))
            .ok();
        let executor = self.executor();
        // An unknown executor is reported as such; its models are checked as those of `model`.
        let (provider, model, choices) = match executor == MODEL || !self.inputs.executors.contains(&executor) {
            true => self.models(),
            false => match self.inputs.backends.get(&executor) {
                Some(backends) => self.backend(&executor, backends),
                None => self.no_models(&executor),
            },
        };
        let mut system_prompt = self.system_prompt();
        self.bundle(&mut system_prompt);
        let known: Vec<String> = self.inputs.tools.iter().chain(self.inputs.off.keys()).cloned().collect();
        let tools = self.tools(&known);
        let agents: Vec<String> = self.inputs.agents.keys().cloned().collect();
        let agents = self.names("agents", self.config.agents.as_deref(), "agent", &agents);
        let skills: Vec<String> = self.inputs.skills.names().map(str::to_owned).collect();
        let skills = self.names("skills", self.config.skills.as_deref(), "skill", &skills);
        let (volumes, table) = (self.volumes(), self.inputs.volumes);
        Some(Definition {
            name: name?,
            version: None,
            description: self.config.description.clone(),
            executor,
            provider,
            model,
            system_prompt,
            tools,
            agents,
            team: None,
            volume_modes: Some(volumes.iter().filter_map(|name| Some((name.clone(), table.mode(name)?))).collect()),
            volumes,
            max_iterations: self.config.max_iterations,
            max_tokens: self.config.max_tokens,
            retry_attempts: self.config.retry_attempts,
            run_timeout_ms: self.config.run_timeout_seconds.map(|seconds| seconds.saturating_mul(1000)),
            budget_tokens: self.config.budget.tokens,
            budget_cost: self.config.budget.cost.map(|Amount(cost)| cost),
            effort: self.config.effort,
            sampling: self.config.sampling.clone(),
            hosts: self.config.hosts.clone().unwrap_or_default(),
            memory_scopes: self.memory_scopes(),
            gates: self.gates(),
            skills: self.inputs.skills.allowed(&skills),
            choices,
            acts_for: None,
        })
    }

    fn report(&mut self, below: &[&str], message: String, hint: Option<String>) {
        let at = ["agents", self.name].into_iter().chain(below.iter().copied());
        let problem = Problem::new(at, message);
        self.problems.push(Problem { hint, ..problem });
    }

    /// Reports a name that `section` of the config does not have.
    fn report_unknown(
        &mut self,
        below: &[&str],
        (section, name): (&'static str, &str),
        message: String,
        hint: Option<String>,
    ) {
        self.report(below, message, hint);
        if let Some(problem) = self.problems.pop() {
            self.problems.push(problem.of_unknown(section, name));
        }
    }

    /// The name of a known executor.
    fn executor(&mut self) -> String {
        let named = self.config.executor.clone().unwrap_or_else(|| MODEL.into());
        let known = self.inputs.executors;
        if !known.contains(&named) {
            let hint = did_you_mean(&named, known.iter().map(String::as_str));
            let hint = hint.unwrap_or_else(|| format!("known: {}", known.join(", ")));
            self.report(&["executor"], format!("unknown executor {named:?}"), Some(hint));
        }
        named
    }

    /// An executor that asks no model has none; naming one is a mistake.
    fn no_models(&mut self, executor: &str) -> (String, String, BTreeMap<String, Choice>) {
        let config = self.config;
        let named = [
            ("provider", config.provider.is_some()),
            ("model", config.model.is_some()),
            ("tier", config.tier.is_some()),
        ];
        for (key, _) in named.into_iter().filter(|(_, is_named)| *is_named) {
            let message = format!("the executor {executor:?} calls no model, so `{key}` has no effect");
            self.report(&[key], message, Some(format!("remove `{key}`")));
        }
        Default::default()
    }

    /// What an agent runs on, and the model that is passed to that, if one is named.
    fn backend(&mut self, executor: &str, known: &[String]) -> (String, String, BTreeMap<String, Choice>) {
        if self.config.tier.is_some() {
            let message = format!("the executor {executor:?} has no tiers, so `tier` has no effect");
            self.report(&["tier"], message, Some("remove `tier`; set `model` to the name that the CLI knows".into()));
        }
        let listed = || format!("one of: {}", known.join(", "));
        match &self.config.provider {
            Some(provider) if known.contains(provider) => {}
            Some(provider) => {
                let hint = did_you_mean(provider, known.iter().map(String::as_str)).unwrap_or_else(listed);
                let message = format!("unknown provider {provider:?} of the executor {executor:?}");
                self.report(&["provider"], message, Some(hint));
            }
            None => {
                let message = format!("the executor {executor:?} needs `provider`");
                self.report(&[], message, Some(format!("add `provider`, {}", listed())));
            }
        }
        let named = |name: &Option<String>| name.clone().unwrap_or_default();
        (named(&self.config.provider), named(&self.config.model), BTreeMap::new())
    }

    /// The provider and model that are asked first, and all choices by user tier.
    fn models(&mut self) -> (String, String, BTreeMap<String, Choice>) {
        let at = |key: &'static str| ["agents", self.name, key];
        if let Some(listed) = &self.config.providers {
            tiers::check_providers(self.inputs, &at("providers"), listed, &mut self.problems);
        }
        tiers::check_tiers(self.inputs, &at("models"), &self.config.models, &mut self.problems);
        let Some(tier) = self.config.tier else {
            let (provider, model) = self.model();
            let choices = tiers::pinned(self.inputs, &ModelName::new(&provider, &model));
            return (provider, model, choices);
        };
        if self.config.provider.is_some() || self.config.model.is_some() {
            let hint = Some("keep `tier`, or keep `provider` and `model`".to_owned());
            self.report(&["tier"], "`tier` excludes `provider` and `model`".into(), hint);
        }
        match tiers::choices(self.inputs, self.config, tier) {
            Ok(choices) => {
                let usual = choices.get(DEFAULT_USER_TIER).or_else(|| choices.values().next());
                let first = usual.and_then(|choice| choice.candidates.first()).cloned();
                let first = first.unwrap_or_else(|| ModelName::new("", ""));
                (first.provider, first.model, choices)
            }
            Err(message) => {
                let hint = Some("add candidates under `tiers` whose providers the priority lists name".to_owned());
                self.report_unknown(&["tier"], ("tiers", tier.as_str()), message, hint);
                Default::default()
            }
        }
    }

    fn model(&mut self) -> (String, String) {
        let own = ModelChoice { provider: self.config.provider.clone(), model: self.config.model.clone() };
        let at = ["agents", self.name];
        let chosen = match own == ModelChoice::default() && *self.inputs.defaults != own {
            // A mistake in `defaults` is reported there, once.
            true => Ok(choose(self.inputs, &["defaults"], self.inputs.defaults).unwrap_or_default()),
            false => choose(self.inputs, &at, &own),
        };
        chosen.unwrap_or_else(|problem| {
            self.problems.push(problem);
            Default::default()
        })
    }

    fn system_prompt(&mut self) -> String {
        match (&self.config.system_prompt, &self.config.system_prompt_file) {
            (Some(_), Some(_)) => {
                let message = "`system_prompt` and `system_prompt_file` exclude each other";
                self.report(&["system_prompt_file"], message.into(), Some("keep one of them".into()));
                String::new()
            }
            (Some(text), None) => text.clone(),
            (None, Some(file)) => read_prompt(file).unwrap_or_else(|message| {
                let hint = "create the file; a relative path starts at the config file".to_owned();
                self.report(&["system_prompt_file"], message, Some(hint));
                String::new()
            }),
            (None, None) => String::new(),
        }
    }

    /// Adds the instructions of the bundled skills, so that they are pinned with the definition.
    fn bundle(&mut self, prompt: &mut String) {
        let table = self.inputs.skills;
        for (index, name) in self.config.bundled_skills.iter().enumerate() {
            let at = ["bundled_skills", &index.to_string()];
            let Some(skill) = table.look(name) else {
                let hint = did_you_mean(name, table.names()).unwrap_or_else(|| NO_SKILLS.into());
                self.report_unknown(&at, ("skills", name), format!("unknown skill {name:?}"), Some(hint));
                continue;
            };
            match skill.instructions() {
                Ok(text) => {
                    let gap = if prompt.is_empty() { "" } else { "\n\n" };
                    prompt.push_str(&format!("{gap}<skill name={name:?}>\n{text}\n</skill>"));
                }
                Err(message) => self.report(&at, message, None),
            }
        }
    }

    /// The names under `tools`, after a check that each exact one exists, and so does every server that one names.
    fn tools(&mut self, known: &[String]) -> Vec<String> {
        let servers = self.inputs.servers;
        let possible = || known.iter().cloned().chain(servers.iter().map(|server| format!("mcp__{server}__*")));
        let listed = self.config.tools.as_deref().unwrap_or_default();
        for (index, name) in listed.iter().enumerate() {
            let at = ["tools", &index.to_string()];
            match server_of(name) {
                Some(server) if !servers.iter().any(|known| known == server) => {
                    let hint = did_you_mean(server, servers.iter().map(String::as_str));
                    let hint = hint.unwrap_or_else(|| "add it under `mcp_servers`".into());
                    let message = format!("unknown MCP server {server:?} in the tool name {name:?}");
                    self.report_unknown(&at, ("mcp_servers", server), message, Some(hint));
                }
                None if !name.ends_with('*') && !known.contains(name) => {
                    let possible: Vec<String> = possible().collect();
                    let hint = did_you_mean(name, possible.iter().map(String::as_str));
                    self.report(&at, format!("unknown tool {name:?}"), hint);
                }
                Some(_) | None => {}
            }
        }
        listed.to_vec()
    }

    /// The names under `key`, after a check that each exact one exists.
    fn names(&mut self, key: &'static str, listed: Option<&[String]>, what: &str, known: &[String]) -> Vec<String> {
        let listed = listed.unwrap_or_default();
        for (index, name) in listed.iter().enumerate() {
            if !name.ends_with('*') && !known.contains(name) {
                let hint = did_you_mean(name, known.iter().map(String::as_str));
                let hint = hint.or_else(|| (what == "skill").then(|| NO_SKILLS.into()));
                let message = format!("unknown {what} {name:?}");
                self.report_unknown(&[key, &index.to_string()], (key, name), message, hint);
            }
        }
        listed.to_vec()
    }

    /// Each scope once, under its own name.
    fn memory_scopes(&self) -> Vec<MemoryScope> {
        let mut scopes: Vec<MemoryScope> = Vec::new();
        for scope in self.config.memory_scopes.iter().flatten().copied().map(memory::plain) {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        scopes
    }

    /// The further gates that are not empty, by name.
    fn gates(&mut self) -> BTreeMap<String, Vec<String>> {
        let kinds = self.config.definitions.iter().flatten();
        if let Some(index) = kinds.clone().position(|kind| *kind == DefinitionKind::Volume) {
            let message = "agents cannot define volumes, only callers can".to_owned();
            self.report(&["definitions", &index.to_string()], message, Some("remove `volume`".into()));
        }
        let definitions = self.config.definitions.iter().flatten().map(|kind| kind.as_str().to_owned());
        let scopes = self.config.evaluation_scopes.iter().flatten().map(|scope| scope.as_str().to_owned());
        let channels = self.config.channels.clone().unwrap_or_default();
        let once = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>();
        let gates = [
            (definitions::GATE, once(definitions.collect())),
            (EVALUATION_SCOPES, once(scopes.collect())),
            (PUBLISH_GATE, channels.publish),
            (SUBSCRIBE_GATE, channels.subscribe),
        ];
        let filled = gates.into_iter().filter(|(_, allowed)| !allowed.is_empty());
        filled.map(|(gate, allowed)| (gate.to_owned(), allowed)).collect()
    }

    fn volumes(&mut self) -> Vec<String> {
        let table = self.inputs.volumes;
        let Some(listed) = self.config.volumes.as_deref() else {
            return table.default_volume().map(str::to_owned).into_iter().collect();
        };
        for (index, name) in listed.iter().enumerate() {
            let index = index.to_string();
            if !table.names().any(|known| known == name) {
                let hint = did_you_mean(name, table.names()).or(Some("add it under `volumes`".into()));
                let message = format!("unknown volume {name:?}");
                self.report_unknown(&["volumes", &index], ("volumes", name), message, hint);
            }
            let earlier = listed.iter().take_while(|other| *other != name).find(|other| table.overlap(other, name));
            if let Some(other) = earlier {
                self.report(
                    &["volumes", &index],
                    format!("volumes {other:?} and {name:?} overlap"),
                    Some("list only one of them for an agent".into()),
                );
            }
        }
        listed.to_vec()
    }
}

/// The server in the name of an outside tool, or in a pattern that names one.
fn server_of(tool: &str) -> Option<&str> {
    let (server, tool) = tool.strip_prefix("mcp__")?.split_once("__")?;
    (!server.is_empty() && !tool.is_empty()).then_some(server)
}

fn read_prompt(path: &str) -> Result<String, String> {
    let explain = |error: std::io::Error| format!("cannot read {path:?}: {error}");
    files::read_text(Path::new(path), PROMPT_FILE_LIMIT).map_err(explain)
}

#[cfg(test)]
mod tests;
