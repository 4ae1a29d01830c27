//! The CLIs that agents can name: the presets, and those of the config.

use std::{collections::BTreeMap, path::Path};

use drawloom_contract::{money::Amount, money::Cost};
use drawloom_process::{Limits, usual_memory, usual_processes};

use crate::{
    config::{CliConfig, ClisConfig, LoginConfig, PresetName},
    error::Error,
    input::Mode,
    preset::{Metering, ModeArgs, Preset, Setting},
    presets::{self, Template},
    state::{Login, Root, State},
};

/// A CLI with its config.
pub struct Cli {
    /// What agents call it.
    pub name: String,
    pub(crate) config: CliConfig,
    template: Option<Template>,
    preset: PresetName,
}

/// All CLIs, by name.
pub struct Clis(BTreeMap<String, Cli>);

impl Clis {
    /// Those of the config, which has no mistakes, and the presets that it does not change.
    pub fn new(config: &ClisConfig) -> Self {
        let presets = PresetName::ALL.map(|preset| (preset.as_str().to_owned(), CliConfig::default()));
        let all: ClisConfig = presets.into_iter().chain(config.clone()).collect();
        Self(all.into_iter().map(|(name, config)| (name.clone(), Cli::new(name, config))).collect())
    }

    /// Their names, as agents can write them.
    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().chain((!self.0.contains_key("claude")).then(|| "claude".to_owned())).collect()
    }

    pub fn all(&self) -> impl Iterator<Item = &Cli> {
        self.0.values()
    }

    /// The CLI of this name or alias.
    pub fn find(&self, name: &str) -> Result<&Cli, Error> {
        let alias = || PresetName::find(name).map(PresetName::as_str);
        let found = self.0.get(name).or_else(|| self.0.get(alias()?));
        found.ok_or_else(|| Error::UnknownCli { name: name.to_owned(), known: self.names() })
    }
}

impl Cli {
    fn new(name: String, config: CliConfig) -> Self {
        let preset = config.preset.or_else(|| PresetName::find(&name)).unwrap_or(PresetName::ClaudeCode);
        let template = config.command.clone().map(|command| Template { command });
        Self { name, preset, template, config }
    }

    pub(crate) fn preset(&self) -> &dyn Preset {
        match &self.template {
            Some(template) => template,
            None => presets::of(self.preset),
        }
    }

    /// The program that is started: a path, or a name.
    pub fn program(&self) -> &str {
        self.config.program.as_deref().unwrap_or_else(|| self.preset().program())
    }

    /// What one process may cost.
    pub(crate) fn max_cost(&self) -> Option<Cost> {
        self.config.max_cost.map(|Amount(cost)| cost)
    }

    /// Whether our sandbox holds it.
    pub fn is_confined(&self) -> bool {
        !self.config.unconfined
    }

    /// What it reports of its calls.
    pub fn metering(&self) -> Metering {
        self.preset().metering()
    }

    /// What it keeps on the machine.
    pub(crate) fn state(&self, home: &Path, environment: &BTreeMap<String, String>) -> State {
        let mut state = self.preset().state(home, environment);
        state.roots.extend(self.config.state.iter().map(|config| {
            let path = config.path.strip_prefix("~").map_or_else(|_| config.path.clone(), |below| home.join(below));
            let login = |login: &LoginConfig| Login {
                taken: login.fields.clone(),
                account: login.account.clone(),
                newer: login.newer.clone(),
                ..Login::of(&login.file)
            };
            Root {
                settings: config.settings.clone(),
                shared: config.shared.clone(),
                logins: config.login.iter().map(login).collect(),
                sessions: config.sessions.clone(),
                ..Root::of(path, config.variable.as_deref().map(|name| (name, 0)))
            }
        }));
        state
    }

    /// How much one process may use, with everything that it starts.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            memory_bytes: self.config.max_memory_bytes.or_else(|| Some(usual_memory())),
            processes: self.config.max_processes.or_else(|| Some(usual_processes())),
            ..Limits::default()
        }
    }

    /// Refuses a mode that it does not have in an isolated checkout.
    pub fn check_mode(&self, mode: Mode) -> Result<(), Error> {
        let is_root = rustix::process::geteuid().is_root();
        self.mode_args(Setting { mode, confined: self.is_confined(), isolated: true, is_root }).map(drop)
    }

    /// How a mode is asked of it: by the arguments of the config, or by those of the preset.
    pub(crate) fn mode_args(&self, setting: Setting) -> Result<ModeArgs, Error> {
        let own = match setting.mode {
            Mode::ReadOnly => &self.config.read_only_args,
            Mode::Edit => &self.config.edit_args,
            Mode::SkipPermissions => &self.config.skip_permissions_args,
        };
        let preset = self.preset().mode(setting);
        match (own, preset) {
            (Some(args), preset) => {
                Ok(ModeArgs { args: args.clone(), environment: preset.unwrap_or_default().environment })
            }
            (None, Some(preset)) => Ok(preset),
            (None, None) => {
                let confined = self.preset().mode(Setting { confined: true, ..setting });
                let unconfined = !setting.confined && confined.is_some();
                Err(Error::NoSuchMode { cli: self.name.clone(), mode: setting.mode, unconfined })
            }
        }
    }
}
