//! What an instance is made of. The shipped binary takes everything from the config; a test process wraps and replaces.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use drawloom_contract::{
    ids::Tenant,
    journal::Journal,
    log::Log,
    model::Model,
    redact::Redactor,
    time::{Clock, Entropy},
    values::KeyValue,
};
use drawloom_server::{
    AnyOperation,
    auth::{Auth, PrincipalToken, see_only_their_own},
    mcp::Table,
};
use drawloom_store::Options;

use tokio::net::TcpListener;

use crate::{
    clock::{SystemClock, SystemEntropy},
    config::{self, Loaded},
    data_dir::Access,
    environment,
    exit::CommandError,
    leftovers,
    resolve::{self, Directories, Extra, Resolved, bash, clis},
};

/// The store, as the engine uses it.
pub struct StoreSeams {
    pub journal: Arc<dyn Journal>,
    pub logs: Arc<dyn Log>,
    pub values: Arc<dyn KeyValue>,
}

/// Puts something between the engine and the store.
pub type WrapStore = Box<dyn FnOnce(StoreSeams) -> StoreSeams + Send>;

/// Puts something between the engine and a provider's model.
pub type WrapModel = Box<dyn Fn(&str, Arc<dyn Model>) -> Arc<dyn Model> + Send>;

/// How others reach the instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Surface {
    /// Over HTTP at this address; what is unfinished is taken up.
    Serve {
        /// `IP:PORT`; port 0 takes a free one.
        listen: String,
    },
    /// From inside the process only; nothing but what is started here runs.
    Embedded,
}

/// What an instance is made of.
pub struct Parts {
    /// What it may do in the data directory.
    pub access: Access,
    /// The token of the data directory, when a server takes it from commands of this user.
    pub own_token: Option<String>,
    /// How others reach it.
    pub surface: Surface,
    /// Where it listens, when that was tried before; else it is bound at the start.
    pub listener: Option<TcpListener>,
    /// The config.
    pub loaded: Loaded,
    /// What the config means.
    pub resolved: Resolved,
    /// How the store is opened.
    pub store: Options,
    /// Stands between the engine and the store.
    pub wrap_store: WrapStore,
    /// Stands between the engine and each provider's model.
    pub wrap_model: WrapModel,
    /// Operations beside the built-in ones.
    pub operations: Vec<Arc<dyn AnyOperation>>,
    /// Tables of tools beside the operations, over MCP.
    pub tables: Vec<Arc<dyn Table>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of random bytes.
    pub entropy: Arc<dyn Entropy>,
}

impl Parts {
    /// Everything from the config, and `extra` beside what is built in.
    pub fn from_config(
        loaded: Loaded,
        access: impl Into<Access>,
        surface: Surface,
        extra: &Extra,
    ) -> Result<Self, CommandError> {
        let access = access.into();
        let directory = access.directory();
        let temporary = directory.path().join("tmp");
        // The temporary files of an owner are not a reader's to remove.
        if let Access::Owner(_) = access {
            sweep(&temporary)?;
        }
        let staged = leftovers::directory(directory);
        let checkouts = environment::checkouts(directory.path());
        let directories = Directories { temporary, staged, checkouts, data: None };
        let resolved = resolve::resolve_in(&directories, &loaded, extra).map_err(config::refuse)?;
        resolve::keep_apart(&loaded, &resolved, directory)?;
        Ok(Self {
            store: Options::new(directory.path()),
            access,
            own_token: None,
            surface,
            listener: None,
            loaded,
            resolved,
            wrap_store: Box::new(|store| store),
            wrap_model: Box::new(|_, model| model),
            operations: extra.operations.clone(),
            tables: Vec::new(),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy::default()),
        })
    }

    /// What masks the secrets that this process knows of.
    pub(crate) fn redactor(&self) -> Redactor {
        Redactor::new(self.secrets())
    }

    /// The secrets that this process knows of.
    pub(crate) fn secrets(&self) -> Vec<String> {
        secret_values(&self.loaded).into_iter().chain(self.own_token.clone()).collect()
    }

    /// Who may call a server at `listen`. A principal without a token is left out, and the log says so.
    pub(crate) fn auth(&self, listen: std::net::SocketAddr) -> Result<Auth, CommandError> {
        let config = &self.loaded.config;
        let dotenv = &self.loaded.dotenv;
        let shared = dotenv.exact_variable(&config.auth.token_env);
        let mut principals = Vec::new();
        for (name, principal) in &config.principals {
            match dotenv.exact_variable(&principal.token_env) {
                Some(token) => {
                    principals.push(PrincipalToken { name: name.clone(), config: principal.clone(), token });
                }
                None => tracing::warn!(
                    principal = %name,
                    variable = %principal.token_env,
                    "the variable with the principal's token is not set; the principal cannot call"
                ),
            }
        }
        for name in see_only_their_own(config.principals.iter(), shared.is_some()) {
            tracing::warn!(
                principal = %name,
                "the principal sees and cancels only its own runs; add runs:read:all to its scopes to show it all of its tenant"
            );
        }
        let reaching = bash::with_network(config, &self.resolved.catalog);
        // An operator may have set the shared token to the directory's own.
        let own = self.own_token.as_deref().filter(|own| shared.as_deref() != Some(*own));
        if shared.is_none() && own.is_none() && config.principals.is_empty() && !reaching.is_empty() {
            let agents = reaching.join(", ");
            let message = format!(
                "commands of these agents reach the network, and this server would take calls without a token: {agents}"
            );
            let hint = format!("set a token in {}, or tools.bash.network: none", config.auth.token_env);
            return Err(CommandError::usage("bash_network_without_token", message).with_hint(hint));
        }
        let on_clis: Vec<String> = clis::agents(&self.resolved.catalog);
        if shared.is_none() && own.is_none() && config.principals.is_empty() && !on_clis.is_empty() {
            let agents = on_clis.join(", ");
            let message = format!(
                "these agents run coding CLIs, which reach the network of this machine, and this server would take calls without a token: {agents}"
            );
            let hint = format!(
                "set a token in {}, or run the agents without a server of your own: drawloom run",
                config.auth.token_env
            );
            return Err(CommandError::usage("cli_without_token", message).with_hint(hint));
        }
        if principals.is_empty() && !config.principals.is_empty() && shared.is_none() && own.is_none() {
            return Err(CommandError::usage("no_tokens", "principals are configured, but none of their tokens is set")
                .with_hint("set their variables; without any token the server would be open to this whole machine"));
        }
        let shared = shared.iter().map(|token| ("the shared token", token.as_str()));
        let tokens: Vec<_> = shared.chain(own.map(|token| ("the data directory", token))).collect();
        Auth::new(listen, &tokens, principals).map_err(|error| CommandError::of(&error))
    }
}

/// Whether the config and the environment give a server a token.
pub(crate) fn has_token(loaded: &Loaded) -> bool {
    let config = &loaded.config;
    let principals = config.principals.values().map(|principal| &principal.token_env);
    principals.chain([&config.auth.token_env]).any(|name| loaded.dotenv.exact_variable(name).is_some())
}

/// Makes the directory for temporary files of commands, and removes what earlier ones left there.
fn sweep(temporary: &Path) -> Result<(), CommandError> {
    std::fs::create_dir_all(temporary).map_err(|error| {
        CommandError::usage("bad_data_dir", format!("cannot make {}: {error}", temporary.display()))
    })?;
    match drawloom_process::sweep(temporary) {
        Ok(swept) => {
            for (path, error) in swept.kept {
                tracing::warn!(path = %path.display(), %error, "cannot remove files of an ended command");
            }
        }
        Err(error) => tracing::warn!(%error, "cannot list files of ended commands"),
    }
    Ok(())
}

/// The values of all secrets that the config names: those of [`secret_names`], and all that came from a `.env`.
pub(crate) fn secret_values(loaded: &Loaded) -> Vec<String> {
    let named = secret_names(loaded).into_iter().filter_map(|name| loaded.variable(&name));
    named.chain(loaded.dotenv.secrets()).collect()
}

/// The environment variables whose values are secrets: tokens of the server, keys of providers, credentials of outside
/// servers, what `redaction` names, and names under `env` that sound like one.
fn secret_names(loaded: &Loaded) -> Vec<String> {
    let config = &loaded.config;
    let mut names: Vec<String> = vec![config.auth.token_env.clone(), environment::TOKEN.to_owned()];
    names.extend(config.principals.values().map(|principal| principal.token_env.clone()));
    names.extend(config.providers.values().filter_map(|provider| provider.api_key_env.clone()));
    names.extend(config.redaction.values_env.iter().cloned());
    names.extend(clis::secret_names(config));
    for server in config.mcp_servers.values() {
        names.extend(server.credentials().map(str::to_owned));
        // The name that the program knows it by may say more than the operator's.
        let given = server.env.iter().filter(|(child, _)| environment::sounds_secret(child));
        names.extend(given.map(|(_, variable)| variable.clone()));
    }
    let given = config.mcp_servers.values().flat_map(|server| server.env.values());
    let listed = loaded.env_names.iter().chain(&config.tools.bash.env).chain(given);
    names.extend(listed.filter(|name| environment::sounds_secret(name)).cloned());
    names.sort();
    names.dedup();
    names
}

/// The tenants that callers can have: those of principals, and the default one.
pub(crate) fn tenants(loaded: &Loaded) -> BTreeSet<Tenant> {
    let of_principals = loaded.config.principals.values().map(|principal| principal.tenant.clone());
    of_principals.chain([Tenant::default_tenant()]).collect()
}

/// Whether callers of more than one tenant can come: those of principals, and the default one of the shared token.
pub(crate) fn several_tenants(loaded: &Loaded) -> bool {
    let config = &loaded.config;
    let shared = loaded.variable(&config.auth.token_env).map(|_| Tenant::default_tenant());
    let tenants = config.principals.values().map(|principal| principal.tenant.clone());
    tenants.chain(shared).collect::<BTreeSet<_>>().len() > 1
}
