//! `drawloom agents show`: one agent as the config resolves it.

use std::sync::Arc;

use clap::Args;
use drawloom_contract::{
    definition::{Definition, Definitions as _, matches},
    executor::MODEL,
    ids::{AgentName, Tenant},
    money::Amount,
    tool::{Gates, Mode},
};
use drawloom_substrate::{STORE_TOOLS, did_you_mean};
use serde_json::{Value, json};

use crate::{
    cli::Look,
    commands::Session,
    config::{self, Loaded},
    exit::{CommandError, Exit},
    logging::{self, masked},
    output::{Format, Style, count, money, shown, wrap},
    parts,
    resolve::{self, Resolved},
};

/// Show one agent as the config resolves it
#[derive(Debug, Args)]
pub struct Show {
    /// Agent to show; see `drawloom agents list`
    #[arg(value_name = "AGENT")]
    name: String,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Show {
    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        if session.globals.url.is_some() {
            let error = CommandError::usage("conflicting_options", "`agents show` reads the config, not a server");
            return Err(error.with_hint("remove --url; `drawloom agents list` asks a server"));
        }
        let files = config::find(&session.globals.config)?;
        let loaded = config::load_files(&files)?;
        logging::mask_also(parts::secret_values(&loaded));
        let resolved = resolve::resolve(&loaded, &crate::Extra::default()).map_err(config::refuse)?;
        let tenant = Tenant::default_tenant();
        let found = self.name.parse::<AgentName>().ok().and_then(|name| resolved.catalog.find(&tenant, &name));
        let definition = found.ok_or_else(|| {
            let error = CommandError::usage("unknown_agent", format!("unknown agent {:?}", self.name));
            match did_you_mean(&self.name, resolved.catalog.names()) {
                Some(hint) => error.with_hint(hint),
                None => error.with_hint("add one under `agents` in the config"),
            }
        })?;
        let view = View::of(&loaded, &resolved, &definition);
        match session.output.format() {
            Format::Json => session.output.json(&view.to_json()),
            Format::Human => {
                let output = &session.output;
                let width = output.width().map_or(usize::MAX, |width| width.saturating_sub(LABELS + 2).max(20));
                for (label, text) in view.lines() {
                    let mut lines = wrap(&shown(&masked(&text)), width).into_iter();
                    let label = output.styled(Style::Bold, &format!("{label:<LABELS$}"));
                    output.line(format!("{label}  {}", lines.next().unwrap_or_default()).trim_end());
                    lines.for_each(|line| output.line(format!("{}{line}", " ".repeat(LABELS + 2))));
                }
            }
        }
        Ok(Exit::Done)
    }
}

/// The width of the labels.
const LABELS: usize = 12;

/// What is shown of an agent.
struct View<'a> {
    definition: &'a Definition,
    origin: String,
    /// How its model was chosen.
    chosen: String,
    /// Per user tier, the candidates.
    candidates: Vec<(String, Vec<String>)>,
    offered: Vec<String>,
    /// Tools that are listed, and why the model does not get them.
    withheld: Vec<(String, String)>,
    prompt: String,
    prompt_characters: usize,
    volumes: Vec<Value>,
    may_spawn: Vec<String>,
    spawned_by: Vec<String>,
    currency: String,
}

impl<'a> View<'a> {
    fn of(loaded: &Loaded, resolved: &Resolved, definition: &'a Definition) -> Self {
        let name = definition.name.as_str();
        let config = loaded.config.agents.get(name);
        let path = ["agents".to_owned(), name.to_owned()];
        let origin = match loaded.sourced.origins.get(&path[..]) {
            Some(folder) => format!("source {}", folder.display()),
            None => {
                let at = loaded.root().position_of_key(&path);
                format!("{}:{}", loaded.file_name(at.file), at.line)
            }
        };
        let all = resolved.catalog.list(&Tenant::default_tenant());
        let may = |spawner: &Definition, other: &Arc<Definition>| spawner.may_spawn(&other.name);
        let (offered, withheld) = tools(loaded, resolved, definition);
        let candidates = definition
            .choices
            .iter()
            .map(|(tier, choice)| (tier.clone(), choice.candidates.iter().map(ToString::to_string).collect()));
        let chosen = match config {
            Some(config) if config.tier.is_some() => {
                format!("tier {}", serde_json::to_value(config.tier).unwrap_or_default().as_str().unwrap_or_default())
            }
            Some(config) if config.provider.is_none() && config.model.is_some() => {
                format!("alias {}", config.model.as_deref().unwrap_or_default())
            }
            Some(config) if config.provider.is_none() && config.model.is_none() => "`defaults`".into(),
            _ => String::new(),
        };
        let prompt = match config {
            Some(config) => {
                let from = config.system_prompt_file.as_ref().map(|file| format!("from {file}"));
                let bundled = config.bundled_skills.len();
                let bundled = (bundled > 0).then(|| format!("with {bundled} bundled skills"));
                from.into_iter().chain(bundled).collect::<Vec<_>>().join(", ")
            }
            None => String::new(),
        };
        let volume = |volume: &String| {
            let mode = match resolved.volumes.mode(volume) {
                Some(Mode::ReadWrite) => "rw",
                Some(Mode::ReadOnly) | None => "ro",
            };
            let path = loaded.config.volumes.get(volume).map(|volume| volume.path.as_str());
            json!({ "name": volume, "mode": mode, "path": path })
        };
        Self {
            definition,
            origin,
            chosen,
            candidates: candidates.collect(),
            offered,
            withheld,
            prompt,
            prompt_characters: definition.system_prompt.chars().count(),
            volumes: definition.volumes.iter().map(volume).collect(),
            may_spawn: all.iter().filter(|other| may(definition, other)).map(|other| other.name.to_string()).collect(),
            spawned_by: all
                .iter()
                .filter(|other| other.may_spawn(&definition.name))
                .map(|other| other.name.to_string())
                .collect(),
            currency: loaded.config.pricing.currency.clone(),
        }
    }

    fn lines(&self) -> Vec<(&str, String)> {
        let definition = self.definition;
        let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let mut lines = vec![("agent", definition.name.to_string()), ("defined in", self.origin.clone())];
        if !definition.description.is_empty() {
            lines.push(("description", definition.description.clone()));
        }
        match definition.executor == MODEL {
            true => {
                let by = if self.chosen.is_empty() { String::new() } else { format!(" (by {})", self.chosen) };
                lines.push(("model", format!("{}/{}{by}", definition.provider, definition.model)));
            }
            false => lines.push(("executor", definition.executor.clone())),
        }
        for (tier, names) in self.candidates.iter().filter(|(_, names)| names.len() > 1 || self.candidates.len() > 1) {
            lines.push(("", format!("user tier {tier}: {}", names.join(", then "))));
        }
        lines.push(("tools", list(&self.offered)));
        lines.extend(self.withheld.iter().map(|(tool, why)| ("not offered", format!("{tool}: {why}"))));
        let size = format!("{} characters", count(self.prompt_characters as u64));
        lines.push(("prompt", if self.prompt.is_empty() { size } else { format!("{size}, {}", self.prompt) }));
        lines.push(("skills", list(&definition.skills.keys().cloned().collect::<Vec<_>>())));
        lines.push(("memory", list(&self.memory())));
        lines.extend(definition.gates.iter().map(|(gate, names)| (gate.as_str(), list(names))));
        let volumes: Vec<String> = self
            .volumes
            .iter()
            .map(|volume| {
                let text = |key: &str| volume[key].as_str().unwrap_or_default().to_owned();
                format!("{} ({}, {})", text("name"), text("path"), text("mode"))
            })
            .collect();
        lines.push(("volumes", list(&volumes)));
        lines.push(("hosts", list(&definition.hosts)));
        lines.push(("may spawn", list(&self.may_spawn)));
        lines.push(("spawned by", list(&self.spawned_by)));
        let tokens = definition.budget_tokens.map(|tokens| format!("{} tokens", count(tokens)));
        let cost = definition.budget_cost.map(|cost| money(Amount(cost), &self.currency));
        let budget: Vec<String> = tokens.into_iter().chain(cost).collect();
        lines.push(("budget", list(&budget)));
        let timeout = definition.run_timeout_ms.map(|limit| format!(", {} s", limit / 1_000)).unwrap_or_default();
        lines.push(("limits", format!("{} model turns{timeout}", count(u64::from(definition.max_iterations)))));
        lines
    }

    fn memory(&self) -> Vec<String> {
        let scopes = serde_json::to_value(&self.definition.memory_scopes).unwrap_or_default();
        scopes.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn to_json(&self) -> Value {
        let definition = self.definition;
        let withheld = self.withheld.iter().map(|(tool, why)| json!({ "tool": tool, "reason": masked(why) }));
        let candidates = self.candidates.iter().map(|(tier, names)| (tier.clone(), json!(names)));
        json!({
            "name": definition.name.as_str(),
            "origin": self.origin,
            "description": masked(&definition.description),
            "executor": definition.executor,
            "provider": definition.provider,
            "model": definition.model,
            "candidates": candidates.collect::<serde_json::Map<_, _>>(),
            "tools": self.offered,
            "tools_not_offered": withheld.collect::<Vec<_>>(),
            "prompt_characters": self.prompt_characters,
            "skills": definition.skills.keys().cloned().collect::<Vec<_>>(),
            "memory_scopes": self.memory(),
            "gates": definition.gates,
            "volumes": self.volumes,
            "hosts": definition.hosts,
            "may_spawn": self.may_spawn,
            "spawned_by": self.spawned_by,
            "budget": { "tokens": definition.budget_tokens, "cost": definition.budget_cost.map(|cost| money(Amount(cost), &self.currency)) },
            "max_iterations": definition.max_iterations,
            "run_timeout_ms": definition.run_timeout_ms,
        })
    }
}

/// The tools that its model is offered, and those that it lists and is not offered, with the reason.
fn tools(loaded: &Loaded, resolved: &Resolved, definition: &Definition) -> (Vec<String>, Vec<(String, String)>) {
    let lists = |name: &str| definition.tools.iter().any(|pattern| matches(pattern, name));
    let gates = Gates { definition, hosts: &definition.hosts };
    let (mut offered, mut withheld) = (Vec::new(), Vec::new());
    for tool in &resolved.tools {
        let card = tool.card();
        if lists(&card.name) {
            match tool.card_for(&card, gates) {
                Ok(card) => offered.push(card.name),
                Err(why) => withheld.push((card.name, why)),
            }
        }
    }
    for tool in STORE_TOOLS.iter().filter(|tool| lists(tool.name)) {
        match tool.gate.map_or(Ok(()), |gate| gate.check(tool.name, gates)) {
            Ok(()) => offered.push(tool.name.to_owned()),
            Err(why) => withheld.push((tool.name.to_owned(), why)),
        }
    }
    for off in drawloom_tools::off(&loaded.config.tools)
        .iter()
        .filter(|off| definition.tools.iter().any(|tool| tool == off.name))
    {
        withheld.push((off.name.to_owned(), format!("off: {}", off.switch)));
    }
    offered.sort();
    // Which tools an outside server has is known when it is asked.
    offered.extend(definition.tools.iter().filter(|pattern| pattern.starts_with("mcp__")).cloned());
    (offered, withheld)
}
