//! What a config can do on this machine, as a list of lines that people read before they trust it.
//!
//! The list is made by walking the config along the keys that say that they are a power (`config/declared.rs`), so a key cannot be
//! left out. A line has the value as it is used: paths are real paths, `${NAME}` is filled in, and the line says where each value
//! came from. Secrets stand as digests. Every text of the config is quoted when it holds anything unusual, so that no line can hide
//! or imitate another one.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use drawloom_contract::{definition::matches, ids::Digest};
use drawloom_models::{Driver, usual_address};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    config::{
        Loaded,
        declared::{self, Found, Power, Shown, When},
        listen_address,
    },
    dotenv::Origin,
    environment,
};

/// Shorter values are not replaced by their names: they would replace parts of ordinary words.
const SHORTEST_SECRET: usize = 8;

/// How many digits of a digest a line shows.
const DIGEST_DIGITS: usize = 16;

/// Everything that a config can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Powers(Vec<String>);

impl Powers {
    /// The powers of a config.
    pub(crate) fn of(loaded: &Loaded) -> Self {
        let config = serde_json::to_value(&loaded.config).expect("a config is plain data");
        let words = Words::of(loaded);
        let mut lines = BTreeSet::new();
        for power in declared::powers() {
            for found in declared::find(&config, &power.key) {
                let texts = words.values(&config, power, &found).into_iter();
                let origin = words.origin(&found.path);
                let key = words.key(&found.path);
                // Sorted by the key, so that what belongs together stands together.
                lines.extend(
                    texts.map(|text| (key.clone(), format!("{} ({key}){origin}", power.words.replace("{}", &text)))),
                );
            }
        }
        lines.extend(loaded.dotenv.names().map(|name| {
            let line = format!("takes the variable {} from .env, {}", words.text(name), words.digest(name));
            (".env".to_owned(), line)
        }));
        Self(lines.into_iter().map(|(_, line)| line).collect())
    }

    /// One line for each, sorted by key.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names the whole list.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.0.join("\n").as_bytes())
    }
}

/// Writes the lines.
struct Words<'a> {
    loaded: &'a Loaded,
    /// The real folder of the first config file.
    folder: PathBuf,
    /// Values that `${NAME}` put into the config and that are secrets, with their names; longest first.
    secrets: Vec<(String, String)>,
}

impl<'a> Words<'a> {
    fn of(loaded: &'a Loaded) -> Self {
        let folder = super::name(&loaded.files).parent().map(Path::to_owned);
        let value = |name: &String| Some((loaded.variable(name)?, format!("${{{name}}}")));
        let named = loaded.env_names.iter().filter_map(value);
        let mut secrets: Vec<_> = named.filter(|(value, name)| is_secret(name, value)).collect();
        secrets.sort_by(|left, right| right.0.len().cmp(&left.0.len()).then(left.cmp(right)));
        Self { loaded, folder: folder.unwrap_or_default(), secrets }
    }

    /// A text of the config: as it is when it is plain, else quoted. Secrets that `${NAME}` stands for are named, not shown.
    fn text(&self, text: &str) -> String {
        let hidden = self.secrets.iter().fold(text.to_owned(), |text, (value, name)| text.replace(value, name));
        let plain = |sign: char| sign.is_ascii_alphanumeric() || "_-./:@%+=~*?&#[]${}".contains(sign);
        match !hidden.is_empty() && hidden.chars().all(plain) {
            true => hidden,
            false => format!("{hidden:?}"),
        }
    }

    /// The real path of one in the config; a relative one begins at the config's folder.
    fn real(&self, path: &str) -> PathBuf {
        real(&self.folder.join(path))
    }

    fn path(&self, path: &str) -> String {
        self.text(&self.real(path).to_string_lossy())
    }

    /// `mcp_servers.files.command`.
    fn key(&self, path: &[String]) -> String {
        path.iter().map(|step| self.text(step)).collect::<Vec<_>>().join(".")
    }

    /// What stands for the value in each of its lines; nothing when it is no power.
    fn values(&self, config: &Value, power: &Power, found: &Found<'_>) -> Vec<String> {
        let is_absent = match found.value {
            Value::Null | Value::Bool(false) => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
            Value::Bool(true) | Value::Number(_) => false,
        };
        if is_absent || !self.is_power(config, power, found) {
            return Vec::new();
        }
        let scalars: Vec<String> = match found.value {
            Value::Array(items) => items.iter().filter(|item| is_more(power, item)).map(scalar).collect(),
            value => vec![scalar(value)],
        };
        match (power.shown, found.value) {
            (Shown::Flag, _) => vec![String::new()],
            (Shown::Program, _) => {
                let program = scalars.iter().map(|word| self.text(word)).collect::<Vec<_>>().join(" ");
                vec![format!("`{program}`")]
            }
            (Shown::Variable, Value::Object(entries)) => entries
                .iter()
                .map(|(given, variable)| (given.clone(), scalar(variable)))
                .map(|(given, variable)| match given == variable {
                    true => self.text(&given),
                    false => format!("{} from {}", self.text(&given), self.text(&variable)),
                })
                .collect(),
            (Shown::Driver, value) => {
                let driver =
                    Driver::deserialize(value).ok().filter(|_| found.beside.get("base_url").is_none_or(Value::is_null));
                driver.and_then(usual_address).map(|address| self.text(address)).into_iter().collect()
            }
            (Shown::Path, _) => scalars.iter().map(|path| self.path(path)).collect(),
            (Shown::Text | Shown::Address | Shown::Variable, _) => scalars.iter().map(|text| self.text(text)).collect(),
        }
    }

    fn is_power(&self, config: &Value, power: &Power, found: &Found<'_>) -> bool {
        let beside = |key: &str, value: &str| found.beside.get(key).and_then(Value::as_str) == Some(value);
        let text = found.value.as_str().unwrap_or_default();
        let bash = &config["tools"]["bash"];
        let lists = |key: &str, fits: &dyn Fn(&str) -> bool| {
            let items = found.beside.get(key).and_then(Value::as_array);
            items.into_iter().flatten().filter_map(Value::as_str).any(fits)
        };
        let runs_commands = || bash["enabled"] == true && lists("tools", &|pattern| matches(pattern, "Bash"));
        match power.when {
            When::Set => true,
            When::NotDefault => *found.value != power.default,
            When::Outside => !self.real(text).starts_with(&self.folder),
            When::OutsideOrRw => beside("mode", "rw") || !self.real(text).starts_with(&self.folder),
            When::OtherFolder => self.real(text) != self.folder,
            When::Rw => text == "rw",
            When::NotLoopback => !listen_address(text).is_some_and(|address| address.ip().is_loopback()),
            When::OtherExecutor => text != "model",
            When::Cli => beside("executor", "cli"),
            When::Bash => runs_commands(),
            When::BashNetwork => runs_commands() && bash["network"] == "host" && lists("hosts", &|host| host == "*"),
        }
    }

    /// Where the value at `path` came from, when it is not all in the config.
    fn origin(&self, path: &[String]) -> String {
        let sourced = path.get(..2).and_then(|entry| self.loaded.sourced.origins.get(entry));
        let folder = sourced.map(|folder| format!("taken from {}", self.path(&folder.to_string_lossy())));
        let variables = self.loaded.filled_in(path).into_iter().map(|name| {
            let origin = match self.loaded.dotenv.origin(&name) {
                Some(Origin::File(..)) => "from .env",
                Some(Origin::Environment) | None => "from the environment",
            };
            let value = self.loaded.variable(&name).unwrap_or_default();
            match is_secret(&name, &value) {
                true => format!("${{{name}}} {origin}, {}", self.digest(&name)),
                false => format!("${{{name}}} {origin}"),
            }
        });
        folder.into_iter().chain(variables).map(|origin| format!("; {origin}")).collect()
    }

    /// The value of a variable that is not shown.
    fn digest(&self, name: &str) -> String {
        let value = self.loaded.variable(name).unwrap_or_default();
        let digest = Digest::of(value.as_bytes()).to_string();
        format!("a value of {} bytes, SHA-256 {}", value.len(), &digest[..DIGEST_DIGITS])
    }
}

/// Whether the value of a variable is shown only as a digest: by its name, or because it is an address with a password.
fn is_secret(name: &str, value: &str) -> bool {
    let has_password =
        value.split_once("://").is_some_and(|(_, rest)| rest.split('/').next().is_some_and(|host| host.contains('@')));
    (environment::sounds_secret(name) || has_password) && value.len() >= SHORTEST_SECRET
}

/// Whether an item of a list counts: where only what differs from the default does, it is not part of the default.
fn is_more(power: &Power, item: &Value) -> bool {
    power.when != When::NotDefault || !power.default.as_array().is_some_and(|usual| usual.contains(item))
}

/// A value that is not a list or a section, as text.
fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|above| {
        let missing = path.strip_prefix(above).unwrap_or(Path::new(""));
        Some(above.canonicalize().ok()?.join(missing))
    });
    // `join` with nothing leaves a slash at the end.
    found.map_or(path, |found| found.components().collect())
}

#[cfg(test)]
mod tests;
