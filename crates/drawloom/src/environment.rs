//! The environment: the only place that reads it.

use std::{env, path::PathBuf};

/// The shared token, for server and client.
pub(crate) const TOKEN: &str = "DRAWLOOM_TOKEN";
/// The server that client commands talk to.
pub(crate) const URL: &str = "DRAWLOOM_URL";
/// The data directory.
pub(crate) const DATA_DIR: &str = "DRAWLOOM_DATA_DIR";
/// What is logged.
pub(crate) const LOG: &str = "DRAWLOOM_LOG";

/// A variable that is set to something.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// A variable as it is, also when it is empty.
pub(crate) fn exact_variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// Whether colours are unwanted (`NO_COLOR`, whatever it is set to).
pub(crate) fn no_colour() -> bool {
    variable("NO_COLOR").is_some()
}

/// Where data lives when nobody says: the XDG data directory.
pub(crate) fn default_data_dir() -> Option<PathBuf> {
    base("XDG_DATA_HOME", ".local/share").map(|base| base.join("drawloom"))
}

/// Where the config is looked for after the current directory: the XDG config directory.
pub(crate) fn default_config_dir() -> Option<PathBuf> {
    base("XDG_CONFIG_HOME", ".config").map(|base| base.join("drawloom"))
}

/// A base directory: the variable when it is an absolute path, as the XDG specification says, else below the home.
fn base(name: &str, below_home: &str) -> Option<PathBuf> {
    let given = variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    given.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(below_home)))
}
