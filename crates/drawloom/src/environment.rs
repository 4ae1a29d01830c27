//! The environment: the only place that reads it.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

use drawloom_contract::ids::Digest;

/// The shared token, for server and client.
pub(crate) const TOKEN: &str = "DRAWLOOM_TOKEN";
/// The server that client commands talk to.
pub(crate) const URL: &str = "DRAWLOOM_URL";
/// The data directory.
pub(crate) const DATA_DIR: &str = "DRAWLOOM_DATA_DIR";
/// What is logged.
pub(crate) const LOG: &str = "DRAWLOOM_LOG";

/// Where `init` looks for local model servers.
pub(crate) const LOCAL_SERVERS: &str = "DRAWLOOM_LOCAL_SERVERS";

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

/// Whether the terminal cannot move its cursor.
pub(crate) fn dumb_terminal() -> bool {
    variable("TERM").as_deref() == Some("dumb")
}

/// The columns of the terminal, as shells say it (`COLUMNS`).
pub(crate) fn columns() -> Option<usize> {
    variable("COLUMNS")?.parse().ok().filter(|columns| *columns > 0)
}

/// The user's time zone: `TZ`, else the machine's; UTC, when neither is known.
pub(crate) fn time_zone() -> jiff::tz::TimeZone {
    jiff::tz::TimeZone::try_system().unwrap_or(jiff::tz::TimeZone::UTC)
}

/// All variables that are text.
pub(crate) fn all() -> BTreeMap<String, String> {
    env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect()
}

/// Where the isolated checkouts of a project are: outside every data directory and every volume. Their paths never change, because
/// coding CLIs know their sessions by path.
pub(crate) fn checkouts(data: &Path) -> PathBuf {
    let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
    let digest = Digest::of(data.as_os_str().as_encoded_bytes()).to_string();
    let name = data.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let base = default_data_dir().unwrap_or_else(|| env::temp_dir().join("drawloom"));
    base.join("checkouts").join(format!("{name}-{}", &digest[..8]))
}

/// The values of all variables whose names sound like a secret.
pub(crate) fn secret_values() -> Vec<String> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| sounds_secret(name))
        .map(|(_, value)| value)
        .collect()
}

/// Whether a variable of this name likely holds a secret.
pub(crate) fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH"].iter().any(|word| name.contains(word))
}

/// The default place of data: the XDG data directory.
pub(crate) fn default_data_dir() -> Option<PathBuf> {
    base("XDG_DATA_HOME", ".local/share").map(|base| base.join("drawloom"))
}

/// The user's home directory.
pub(crate) fn home() -> Option<PathBuf> {
    variable("HOME").map(PathBuf::from)
}

/// Where programs keep their config: the XDG config directory.
pub(crate) fn config_home() -> Option<PathBuf> {
    base("XDG_CONFIG_HOME", ".config")
}

/// A program that `PATH` finds.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let executable =
        |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    env::split_paths(&env::var_os("PATH")?).map(|directory| directory.join(name)).find(executable)
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
