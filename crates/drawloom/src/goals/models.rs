//! The backend `model`: any model of the config with our own tools in a goal's checkout, and nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use drawloom_contract::{
    choice::ModelName,
    definition::{Definition, Definitions as _},
    executor,
    failure::{Failure, FailureKind},
    ids::{AgentName, Tenant},
    model::Model,
    money::Price,
    tool::Mode,
};
use drawloom_goal::{Access, Backend, Models, Wanted};
use drawloom_substrate::{
    AgentConfig, Candidate, Catalog, ModelChoice, Problem, Tier, definitions::Layers, did_you_mean,
};
use drawloom_wire::goals::BackendInfo;

use super::volumes;

/// The name of the backend.
pub(crate) const BACKEND: &str = "model";

/// Most turns of one call.
const MOST_TURNS: u32 = 50;

/// The tools that only read.
const READ: [&str; 3] = ["Read", "Glob", "Grep"];

/// The tools of a worker besides. `Bash` is there only if the config turns it on.
const WRITE: [&str; 3] = ["Edit", "Write", "Bash"];

/// Tiers by the names that the config uses.
const TIERS: [(&str, Tier); 3] = [("low", Tier::Low), ("middle", Tier::Middle), ("high", Tier::High)];

/// What to write where no model is configured.
const NONE_CONFIGURED: &str =
    "no model is configured: add a provider under `providers` and its model under `defaults` (see docs/models.md)";

/// The models of a config, as goals use them.
pub(crate) struct GoalModels {
    layers: Arc<Layers>,
    catalog: Arc<Catalog>,
    /// Those of the providers that can be asked.
    models: BTreeMap<String, Arc<dyn Model>>,
    prices: BTreeMap<ModelName, Price>,
}

impl GoalModels {
    pub(crate) fn new(resolved: &crate::resolve::Resolved) -> Self {
        Self {
            layers: resolved.layers.clone(),
            catalog: resolved.catalog.clone(),
            models: resolved.models.clone(),
            prices: resolved.prices.clone(),
        }
    }

    /// Refuses a model that cannot be asked, before anything is paid.
    pub(crate) fn check(&self, backend: &Backend, has_cost_limit: bool) -> Result<(), Failure> {
        let definition = self.resolve(BACKEND, backend.model.as_deref(), AgentConfig::default())?;
        let name = ModelName::new(&definition.provider, &definition.model);
        let Some(model) = self.models.get(&name.provider) else {
            let message = format!("provider {:?} of model {name} has no API key", name.provider);
            return Err(Failure::new(FailureKind::Invalid, "no_api_key", message)
                .with_hint("run `drawloom doctor` to see which variable to set"));
        };
        match has_cost_limit && !self.has_price(&name, model) {
            true => Err(unpriced(&name)),
            false => Ok(()),
        }
    }

    /// Refuses an agent of the config whose model has no price.
    pub(crate) fn check_price(&self, agent: &AgentName) -> Result<(), Failure> {
        // An unknown agent is refused where its run is started.
        let Some(definition) = self.layers.find(&Tenant::default_tenant(), agent) else { return Ok(()) };
        let name = ModelName::new(&definition.provider, &definition.model);
        match self.models.get(&name.provider).filter(|_| definition.executor == executor::MODEL) {
            Some(model) if self.has_price(&name, model) => Ok(()),
            _ => Err(unpriced(&name)),
        }
    }

    fn has_price(&self, name: &ModelName, model: &Arc<dyn Model>) -> bool {
        self.prices.contains_key(name) || model.card(&name.model).price.is_some()
    }

    /// The backend in lists.
    pub(crate) fn info(&self) -> BackendInfo {
        let is_available = !self.models.is_empty();
        BackendInfo {
            name: BACKEND.into(),
            kind: "model".into(),
            available: is_available,
            path: None,
            version: None,
            logged_in: None,
            models: if is_available { self.names() } else { Vec::new() },
            problem: (!is_available).then(|| match self.layers.operator().providers.is_empty() {
                true => NONE_CONFIGURED.into(),
                false => "no provider has an API key: `drawloom doctor` shows which variable to set".into(),
            }),
        }
    }

    /// What can stand after `model:`: aliases, tiers, and models that the config names. A provider whose models it does not name
    /// stands for itself, as `PROVIDER/…`.
    fn names(&self) -> Vec<String> {
        let operator = self.layers.operator();
        let named = |choice: &ModelChoice| Some(ModelName::new(choice.provider.as_ref()?, choice.model.as_ref()?));
        let is_usable = |name: &ModelName| self.models.contains_key(&name.provider);
        let aliases = operator.models.iter().filter(|(_, choice)| named(choice).as_ref().is_some_and(is_usable));
        let mut names: Vec<String> = aliases.map(|(alias, _)| alias.clone()).collect();
        names
            .extend(TIERS.iter().filter(|(_, tier)| operator.tiers.contains_key(tier)).map(|(name, _)| (*name).into()));
        let candidates = operator.tiers.values().flatten().filter_map(|candidate| match candidate {
            Candidate::Named(choice) => named(choice),
            Candidate::Alias(_) => None,
        });
        let agents = self.catalog.list(&Tenant::default_tenant());
        let agents = agents.iter().filter(|agent| agent.executor == executor::MODEL);
        let agents = agents.map(|agent| ModelName::new(&agent.provider, &agent.model));
        let all = operator.models.values().chain([&operator.defaults]).filter_map(named);
        let full: BTreeSet<ModelName> = all.chain(candidates).chain(agents).filter(is_usable).collect();
        let unnamed = self.models.keys().filter(|id| full.iter().all(|name| name.provider != **id));
        let unnamed: Vec<String> = unnamed.map(|id| format!("{id}/…")).collect();
        names.extend(full.iter().map(ModelName::to_string));
        names.extend(unnamed);
        names
    }

    /// An agent with the model that a name means: an alias, a tier, or `PROVIDER/MODEL`; without a name, the default model.
    fn resolve(&self, agent: &str, model: Option<&str>, config: AgentConfig) -> Result<Definition, Failure> {
        let operator = self.layers.operator();
        let config = match model {
            None if operator.defaults == ModelChoice::default() => {
                let hint = match self.models.is_empty() {
                    true => NONE_CONFIGURED.to_owned(),
                    false => format!(
                        "write `model:NAME` ({}), or set `defaults` in the config",
                        self.names().iter().map(|name| format!("model:{name}")).collect::<Vec<_>>().join(", ")
                    ),
                };
                let message = "the backend `model` needs the name of a model: the config has no default";
                return Err(Failure::new(FailureKind::Invalid, "no_default_model", message).with_hint(hint));
            }
            None => config,
            Some(name) if operator.models.contains_key(name) => AgentConfig { model: Some(name.into()), ..config },
            Some(name) => match (TIERS.iter().find(|(tier, _)| *tier == name), name.split_once('/')) {
                (Some((_, tier)), _) => AgentConfig { tier: Some(*tier), ..config },
                (None, Some((provider, own))) if operator.providers.iter().any(|known| known == provider) => {
                    AgentConfig { provider: Some(provider.into()), model: Some(own.into()), ..config }
                }
                (None, _) => return Err(self.unknown(name)),
            },
        };
        self.layers.resolve_agent(agent, &config).map_err(|problems| refused(&problems))
    }

    fn unknown(&self, name: &str) -> Failure {
        let names = self.names();
        let hint = match name.split_once('/') {
            Some((provider, _)) => did_you_mean(provider, self.models.keys().map(String::as_str)),
            None => did_you_mean(name, names.iter().map(String::as_str)),
        };
        let message = match name.split_once('/') {
            Some((provider, _)) => format!("unknown provider {provider:?} in the model name {name:?}"),
            None => format!("unknown model {name:?}"),
        };
        let hint = hint.unwrap_or_else(|| NONE_CONFIGURED.into());
        Failure::new(FailureKind::Invalid, "unknown_model", message)
            .with_hint(format!("{hint} (write an alias, a tier or PROVIDER/MODEL of the config)"))
    }
}

fn refused(problems: &[Problem]) -> Failure {
    let first = problems.first();
    let message = first.map_or("the model cannot be used", |problem| problem.message.as_str());
    let failure = Failure::new(FailureKind::Invalid, "unknown_model", message);
    match first.and_then(|problem| problem.hint.as_ref()) {
        Some(hint) => failure.with_hint(hint.clone()),
        None => failure,
    }
}

impl Models for GoalModels {
    fn agent(&self, wanted: &Wanted<'_>) -> Result<Definition, String> {
        let is_on = |tool: &&str| self.layers.operator().tools.iter().any(|known| known == tool);
        let tools: Vec<String> = match (wanted.place, wanted.access) {
            (None, _) => Vec::new(),
            (Some(_), Access::Read) => READ.map(str::to_owned).into(),
            (Some(_), Access::Write) => READ.iter().chain(&WRITE).copied().filter(is_on).map(str::to_owned).collect(),
        };
        let config = AgentConfig {
            tools: Some(tools),
            agents: Some(Vec::new()),
            volumes: Some(Vec::new()),
            max_iterations: MOST_TURNS,
            ..AgentConfig::default()
        };
        let mut definition = self.resolve(wanted.agent.as_str(), wanted.model, config).map_err(|failure| {
            let hint = failure.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("{}: {}{hint}", failure.code, failure.message)
        })?;
        definition.team = Some(Vec::new());
        let Some(place) = wanted.place else {
            definition.system_prompt = "You have no tools and no files: answer with text.".into();
            return Ok(definition);
        };
        let mode = match wanted.access {
            Access::Read => Mode::ReadOnly,
            Access::Write => Mode::ReadWrite,
        };
        let volume = volumes::name_of(&place.checkout);
        definition.volume_modes = Some(BTreeMap::from([(volume.clone(), mode)]));
        definition.volumes = vec![volume];
        definition.system_prompt =
            where_it_works(mode, &place.subdirectory, definition.tools.iter().any(|it| it == "Bash"));
        Ok(definition)
    }
}

fn unpriced(name: &ModelName) -> Failure {
    Failure::new(FailureKind::Invalid, "unpriced_model", format!("max_cost is set but model {name} has no price"))
        .with_hint(format!("add \"{name}\" under `pricing.models`, or use max_tokens"))
}

/// What a model is told of its checkout.
fn where_it_works(mode: Mode, subdirectory: &str, has_commands: bool) -> String {
    let mut text = "Your tools work in a git checkout of your own. Paths are relative to its top.".to_owned();
    if !subdirectory.is_empty() {
        text += &format!(" The goal is about the directory {:?} in it.", subdirectory.trim_end_matches('/'));
    }
    text += match mode {
        Mode::ReadOnly => " You can only read it.",
        Mode::ReadWrite => " Change files with your tools: only what is in the checkout counts. Do not commit.",
    };
    match (mode, has_commands) {
        (Mode::ReadWrite, true) => text += " Commands have no network.",
        (Mode::ReadWrite, false) => text += " You cannot run commands.",
        (Mode::ReadOnly, _) => {}
    }
    text
}
