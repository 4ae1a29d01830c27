//! The backends of goals: which there are, and which one a caller means.

use drawloom_clis::Clis;
use drawloom_contract::{
    failure::{Failure, FailureKind},
    suggest::closest,
};
use drawloom_goal::{Backend, BackendKind, Backends};

use super::models;

/// The backend of callers who are no coding CLI.
const USUAL: &str = "claude_code";

/// Coding CLIs that are known without a config, each with the names that callers use for it.
pub(crate) const CODING_CLIS: [(&str, &[&str]); 4] = [
    ("claude_code", &["claude", "claude-code", "claude_code"]),
    ("codex", &["codex", "codex-mcp-client", "codex_cli"]),
    ("opencode", &["opencode", "open_code", "open-code"]),
    ("aider", &["aider"]),
];

/// The backends that goals can use: models, the mock team, and the coding CLIs. A CLI of the config may have the name of another.
pub(crate) fn known(clis: &Clis) -> Backends {
    let mut backends = Backends::default();
    backends.0.insert("mock".into(), BackendKind::Mock);
    backends.0.insert(models::BACKEND.into(), BackendKind::Model);
    backends.0.extend(clis.all().map(|cli| (cli.name.clone(), BackendKind::Cli)));
    backends
}

/// The CLI that a name means, however it is spelt.
pub(crate) fn cli_named(name: &str) -> Option<&'static str> {
    let name = name.trim().to_lowercase().replace(' ', "_");
    CODING_CLIS.iter().find(|(cli, names)| *cli == name || names.contains(&name.as_str())).map(|(cli, _)| *cli)
}

/// The backend that a request means: `NAME`, `NAME:MODEL`, `agent:NAME` or `auto`.
pub(crate) fn resolve(
    backends: &Backends,
    asked: &str,
    caller: Option<&str>,
    model: Option<&str>,
) -> Result<Backend, Failure> {
    let Backend { name, model: own_model } = match Backend::named(asked) {
        // The reference's name for a model behind Anthropic's API.
        Backend { name, model: own } if name == "claude_api" && !backends.0.contains_key(&name) => {
            let model = own.as_deref().or(model).map(|model| match model.contains('/') {
                true => model.to_owned(),
                false => format!("anthropic/{model}"),
            });
            Backend { name: models::BACKEND.into(), model }
        }
        named => named,
    };
    let name = match name.as_str() {
        "auto" => caller.and_then(cli_named).unwrap_or(USUAL).to_owned(),
        name => match backends.0.contains_key(name) {
            true => name.to_owned(),
            false => cli_named(name).map_or_else(|| name.to_owned(), str::to_owned),
        },
    };
    if backends.find(&name).is_none() {
        let known: Vec<&str> = backends.0.keys().map(String::as_str).collect();
        let meant = closest(&name, known.iter().copied()).map(|near| format!("did you mean {near:?}? "));
        return Err(Failure::new(FailureKind::Invalid, "unknown_backend", format!("unknown backend {name:?}"))
            .with_hint(format!("{}available: auto, {}, agent:NAME", meant.unwrap_or_default(), known.join(", "))));
    }
    Ok(Backend { name, model: own_model.or_else(|| model.map(str::to_owned)) })
}
