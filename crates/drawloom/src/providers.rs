//! Which providers of a config can be called: `validate`, `doctor`, `models list` and runs go by this alone.

use drawloom_models::{Access, ProviderConfig};
use drawloom_substrate::{Finding, Weight};

use crate::config::Loaded;

/// How a provider can be called with the variables of this config.
pub(crate) fn access(loaded: &Loaded, provider: &ProviderConfig) -> Access {
    let key = provider.api_key_env.as_deref().and_then(|name| loaded.variable(name));
    drawloom_models::access(provider, key.is_some_and(|key| !key.is_empty()))
}

/// The providers that cannot be called until their variable is set. One that names no variable is a mistake of the config.
pub(crate) fn disabled(loaded: &Loaded) -> Vec<String> {
    let providers = loaded.config.providers.iter();
    let disabled =
        providers.filter(|(_, provider)| provider.api_key_env.is_some() && !access(loaded, provider).is_usable());
    disabled.map(|(id, _)| id.clone()).collect()
}

/// What is said of a provider whose variable is not set.
pub(crate) fn remark(id: &str, provider: &ProviderConfig, access: Access) -> Option<String> {
    let variable = provider.api_key_env.as_deref()?;
    match access {
        Access::Key | Access::NotNeeded => None,
        Access::Unset => Some(format!("{variable} is not set; provider {id} is called without a key")),
        Access::Missing => Some(format!("{variable} is not set; provider {id} is disabled")),
    }
}

/// The findings about keys.
pub(crate) fn findings(loaded: &Loaded) -> impl Iterator<Item = Finding> {
    loaded.config.providers.iter().filter_map(|(id, provider)| {
        let access = access(loaded, provider);
        let weight = if access.is_usable() { Weight::Note } else { Weight::Warning };
        let at = ["providers", id, "api_key_env"].map(str::to_owned).to_vec();
        Some(Finding { weight, at, message: remark(id, provider, access)? })
    })
}
