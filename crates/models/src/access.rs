//! Whether a provider can be called, and with what: the one place that decides, for `open` and for everything that reports it.

use crate::config::{Driver, ProviderConfig};

/// How a provider can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// With its key.
    Key,
    /// Without a key: it names no variable, and needs none.
    NotNeeded,
    /// Without a key, although it names a variable: a server at a `base_url` of its own may take calls without one.
    Unset,
    /// Not at all: the API of its driver takes no calls without a key.
    Missing,
}

impl Access {
    /// Whether calls can be made.
    pub fn is_usable(self) -> bool {
        self != Self::Missing
    }
}

/// How a provider can be called. `has_key` says whether the variable of `api_key_env` is set and not empty.
pub fn access(config: &ProviderConfig, has_key: bool) -> Access {
    match (has_key, config.driver, &config.base_url, &config.api_key_env) {
        (true, ..) => Access::Key,
        (false, Driver::Script, ..) => Access::NotNeeded,
        (false, _, None, _) => Access::Missing,
        (false, _, Some(_), None) => Access::NotNeeded,
        (false, _, Some(_), Some(_)) => Access::Unset,
    }
}
