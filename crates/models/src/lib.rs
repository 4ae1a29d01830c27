//! Model APIs, one module each, and the scripted model.
//!
//! A model returns typed failures and what the provider says of its limits; it never waits for a provider
//! and never retries.

mod access;
mod anthropic;
mod chat;
mod config;
mod deepseek;
mod draft;
mod fault;
#[doc(hidden)]
pub mod fuzzing;
mod intake;
mod json;
mod known;
mod limits;
mod listing;
mod local;
mod lookup;
mod openai;
mod rates;
mod remote;
mod responses;
mod script;
mod secret;
mod trace;

use std::sync::Arc;

use drawloom_contract::{
    failure::{Explain, FailureKind},
    model::Model,
    time::Clock,
};
use drawloom_net::Configured;

pub use access::{Access, access};
pub use config::{Capabilities, Driver, OpenaiApi, Options, ProviderConfig, Summary};
pub use fault::FailKind;
pub use limits::LIMITS;
pub use local::{LOCAL_ADDRESSES, LocalServer, find_local};
pub use script::{Call, Fail, Rule, Script, When};
pub use secret::Secret;

use remote::{Api, Remote};

/// Every model API behind HTTP, one line each.
static DRIVERS: &[&dyn Api] = &[&anthropic::Anthropic, &openai::Openai, &deepseek::Deepseek];

/// The API that a provider is asked with; none for the script. Driver `openai` stands for two of OpenAI's, and for DeepSeek's at its
/// address, where reasoning must come back.
fn api(config: &ProviderConfig) -> Option<&'static dyn Api> {
    let usual = DRIVERS.iter().copied().find(|api| api.driver() == config.driver);
    let address = config.base_url.as_deref().map_or_else(|| usual.map(|api| api.default_url()), Some);
    let host = address.and_then(host).unwrap_or_default();
    match (config.driver, config.options.api) {
        (Driver::Openai, _) if host.eq_ignore_ascii_case("api.deepseek.com") => Some(&deepseek::Deepseek),
        (Driver::Openai, Some(OpenaiApi::Responses)) => Some(&responses::Responses),
        (Driver::Openai, None) if host.eq_ignore_ascii_case("api.openai.com") => Some(&responses::Responses),
        _ => usual,
    }
}

/// The host that an address names.
fn host(address: &str) -> Option<&str> {
    let rest = address.split_once("://")?.1;
    rest.split(['/', ':', '?']).next()
}

/// A provider that cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A key that means nothing to the driver.
    #[error("providers.{provider}.{key} is not supported by the driver `{driver}`")]
    NotForDriver {
        /// The provider.
        provider: String,
        /// The key.
        key: &'static str,
        /// The driver.
        driver: &'static str,
    },
    /// A provider at its usual address, without a key.
    #[error("providers.{provider} has no API key for {default_url}")]
    MissingKey {
        /// The provider.
        provider: String,
        /// Where it is.
        default_url: &'static str,
    },
    /// A key that no header can carry.
    #[error("the API key of providers.{provider} contains invalid characters")]
    BadKey {
        /// The provider.
        provider: String,
    },
    /// An address that is none.
    #[error("invalid providers.{provider}.base_url: not an absolute URL, or it contains a password")]
    BadAddress {
        /// The provider.
        provider: String,
    },
    /// A name that no header can have.
    #[error("invalid providers.{provider}.options.key_header: {name:?} is not a valid header name")]
    BadHeader {
        /// The provider.
        provider: String,
        /// The name.
        name: String,
    },
    /// The HTTP client does not start.
    #[error("cannot open providers.{provider}: {problem}")]
    Client {
        /// The provider.
        provider: String,
        /// What happened.
        problem: String,
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
        match self {
            Self::Client { .. } => FailureKind::Bug,
            Self::NotForDriver { .. }
            | Self::MissingKey { .. }
            | Self::BadKey { .. }
            | Self::BadAddress { .. }
            | Self::BadHeader { .. }
            | Self::BadRule { .. } => FailureKind::Invalid,
        }
    }

    fn code(&self) -> &'static str {
        "bad_provider"
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotForDriver { key, .. } => Some(format!("remove `{key}`")),
            Self::MissingKey { .. } => {
                Some("add `api_key_env` with the name of the variable that holds the key".into())
            }
            Self::BadKey { .. } => Some("check the variable that `api_key_env` names for stray characters".into()),
            Self::BadAddress { .. } => Some("write it like https://models.example/v1".into()),
            Self::BadHeader { .. } => Some("write it like `api-key`".into()),
            Self::BadRule { .. } | Self::Client { .. } => None,
        }
    }
}

/// The address of a driver's providers that name no `base_url`; none for the script, which calls nothing.
pub fn usual_address(driver: Driver) -> Option<&'static str> {
    DRIVERS.iter().find(|api| api.driver() == driver).map(|api| api.default_url())
}

/// Opens a provider. `key` is the value of the variable that `api_key_env` names. A server at a `base_url` of its own may
/// go without one.
pub fn open(
    id: &str,
    config: &ProviderConfig,
    key: Option<Secret>,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Model>, Error> {
    match api(config) {
        Some(api) => Ok(Arc::new(open_remote(id, api, config, key, clock)?)),
        None => open_script(id, config, key, clock),
    }
}

fn open_script(
    id: &str,
    config: &ProviderConfig,
    key: Option<Secret>,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Model>, Error> {
    let unused =
        [("base_url", config.base_url.is_some()), ("api_key_env", config.api_key_env.is_some() || key.is_some())];
    let unused = unused.into_iter().find_map(|(key, given)| given.then_some(key));
    match unused.or_else(|| config.options.of_others()) {
        Some(key) => Err(Error::NotForDriver { provider: id.into(), key, driver: "script" }),
        None => Ok(Arc::new(Script::new(id, &config.options, clock)?)),
    }
}

fn open_remote(
    id: &str,
    api: &'static dyn Api,
    config: &ProviderConfig,
    key: Option<Secret>,
    clock: Arc<dyn Clock>,
) -> Result<Remote, Error> {
    let provider = || id.to_owned();
    let unused = match (config.driver, api.driver()) {
        (Driver::Openai, Driver::Deepseek) => config.options.of_responses(),
        (Driver::Openai, _) => None,
        _ => config.options.of_openai(),
    };
    if let Some(key) = config.options.of_script().or(unused) {
        return Err(Error::NotForDriver { provider: provider(), key, driver: api.name() });
    }
    let key = key.filter(|key| !key.is_empty());
    if !access(config, key.is_some()).is_usable() {
        return Err(Error::MissingKey { provider: provider(), default_url: api.default_url() });
    }
    if let Some(name) = config.options.key_header.as_ref().filter(|name| !is_header(name)) {
        return Err(Error::BadHeader { provider: provider(), name: name.clone() });
    }
    match (&key, &config.base_url) {
        (Some(key), _) if !key.fits_header() => return Err(Error::BadKey { provider: provider() }),
        (_, Some(base_url)) if !is_address(base_url) => return Err(Error::BadAddress { provider: provider() }),
        _ => {}
    }
    let client =
        Configured::new().map_err(|error| Error::Client { provider: provider(), problem: error.to_string() })?;
    let address = config.base_url.as_deref().unwrap_or(api.default_url());
    Ok(Remote::new(id, api, address, key, client, &config.options, clock))
}

/// Whether a header can have this name.
fn is_header(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|sign| sign.is_ascii_alphanumeric() || "-_".contains(sign))
}

/// Whether `url` begins with a scheme that we speak and has a host. Addresses are shown in errors, so no password may be
/// in one.
fn is_address(url: &str) -> bool {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    host.is_some_and(|host| !host.is_empty() && !host.starts_with('/'))
        && !url.contains(|c: char| c == '@' || c.is_whitespace())
}

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
