//! A config's form is right; here its meaning is checked: every name exists, every directory opens, every provider too.

use std::{collections::BTreeMap, sync::Arc};

use drawloom_contract::{failure::Explain as _, model::Model, tool::Tool};
use drawloom_substrate::{Catalog, Finding, Inputs, Problem, VolumeTable};

use crate::{
    clock::SystemClock,
    config::{Loaded, Mistake},
};

/// What a config means.
pub struct Resolved {
    /// The agents.
    pub catalog: Arc<Catalog>,
    /// The directories that they may touch.
    pub volumes: Arc<VolumeTable>,
    /// The models, by provider.
    pub models: BTreeMap<String, Arc<dyn Model>>,
    /// The tools.
    pub tools: Vec<Arc<dyn Tool>>,
    /// What the reader of the config should know.
    pub findings: Vec<Finding>,
}

/// Resolves the config, or says all that is wrong with it. `extra` tools are there beside the built-in ones.
pub fn resolve(loaded: &Loaded, extra: &[Arc<dyn Tool>]) -> Result<Resolved, Vec<Mistake>> {
    let config = &loaded.config;
    let mut problems = Vec::new();
    let mut tools = drawloom_tools::builtin();
    tools.extend(extra.iter().cloned());
    let mut models = BTreeMap::new();
    for (id, provider) in &config.providers {
        match drawloom_models::open(id, provider, Arc::new(SystemClock)) {
            Ok(model) => drop(models.insert(id.clone(), model)),
            Err(error) => problems.push(provider_problem(&error)),
        }
    }
    let volumes = VolumeTable::open(&config.volumes).unwrap_or_else(|found| {
        problems.extend(found);
        VolumeTable::default()
    });
    let volumes_open = volumes.names().count() == config.volumes.len();
    let inputs = Inputs {
        agents: &config.agents,
        defaults: &config.defaults,
        models: &config.models,
        providers: &config.providers.keys().cloned().collect::<Vec<_>>(),
        tools: &tools.iter().map(|tool| tool.card().name).collect::<Vec<_>>(),
        volumes: &volumes,
    };
    match Catalog::resolve(&inputs) {
        Ok((catalog, findings)) if problems.is_empty() => {
            return Ok(Resolved { catalog: Arc::new(catalog), volumes: Arc::new(volumes), models, tools, findings });
        }
        Ok(_) => {}
        // Without the volumes, every agent that names one would be blamed for it.
        Err(found) => problems.extend(found.into_iter().filter(|problem| volumes_open || !is_about_volumes(problem))),
    }
    let mut mistakes: Vec<Mistake> = problems.iter().map(|problem| loaded.mistake(problem)).collect();
    mistakes.sort_by(|left, right| left.place.cmp(&right.place));
    Err(mistakes)
}

/// Where in the config a provider's error is.
fn provider_problem(error: &drawloom_models::Error) -> Problem {
    let problem = match error {
        drawloom_models::Error::NotForDriver { provider, key, driver } => {
            Problem::new(["providers", provider, key], format!("means nothing to the driver {driver}"))
        }
        drawloom_models::Error::BadRule { provider, rule, problem } => {
            // A regular expression's error is drawn over several lines.
            let line = problem.split_whitespace().collect::<Vec<_>>().join(" ");
            Problem::new(["providers", provider, "options", "rules", &rule.to_string()], line)
        }
    };
    Problem { hint: error.hint(), ..problem }
}

fn is_about_volumes(problem: &Problem) -> bool {
    problem.at.get(2).is_some_and(|key| key == "volumes")
}
