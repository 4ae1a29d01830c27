//! Model APIs, one module each, and the scripted model.
//!
//! A model returns typed failures and what the provider says of its limits; it never sleeps to please a provider nor
//! tries again by itself.

mod config;
mod script;
mod secret;

use std::sync::Arc;

use drawloom_contract::{
    failure::{Explain, FailureKind},
    model::Model,
    time::Clock,
};

pub use config::{Driver, Options, ProviderConfig};
pub use script::{Call, Fail, FailKind, Rule, Script, When};
pub use secret::Secret;

/// A provider that cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A key that means nothing to the driver.
    #[error("providers.{provider}.{key} means nothing to the driver `{driver}`")]
    NotForDriver {
        /// The provider.
        provider: String,
        /// The key.
        key: &'static str,
        /// The driver.
        driver: &'static str,
    },
    /// A rule of a script that cannot work.
    #[error("providers.{provider}.options.rules[{rule}]: {problem}")]
    BadRule {
        /// The provider.
        provider: String,
        /// The rule's place.
        rule: usize,
        /// What is wrong.
        problem: String,
    },
}

impl Explain for Error {
    fn kind(&self) -> FailureKind {
        FailureKind::Invalid
    }

    fn code(&self) -> &'static str {
        "bad_provider"
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotForDriver { key, .. } => Some(format!("leave `{key}` out")),
            Self::BadRule { .. } => None,
        }
    }
}

/// Opens a provider. `key` is the value of the variable that `api_key_env` names.
pub fn open(
    id: &str,
    config: &ProviderConfig,
    key: Option<Secret>,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Model>, Error> {
    match config.driver {
        Driver::Script => {
            let unused = [
                ("base_url", config.base_url.is_some()),
                ("api_key_env", config.api_key_env.is_some() || key.is_some()),
            ];
            if let Some((key, _)) = unused.into_iter().find(|(_, given)| *given) {
                return Err(Error::NotForDriver { provider: id.into(), key, driver: "script" });
            }
            Ok(Arc::new(Script::new(id, &config.options, clock)?))
        }
    }
}
