//! What `init` writes.

use std::fmt::Write as _;

use drawloom_contract::model::ListedModel;

use super::NewVolume;

/// The agents of a first config.
pub(super) const AGENTS: [&str; 3] = ["clarity", "correctness", "lead"];

/// Where the schema is written, beside the config: editors read it from there without a network.
pub(super) const SCHEMA: &str = ".drawloom/schema.json";

/// Who makes models, and which of theirs a first config names.
pub(super) struct Maker {
    /// What people call them.
    pub(super) title: &'static str,
    /// The provider's name in the config, and its driver.
    pub(super) provider: &'static str,
    /// The variable that holds the key.
    pub(super) key_env: &'static str,
    /// Models by tier: high, middle, low.
    pub(super) models: [&'static str; 3],
}

/// In order of preference.
pub(super) const MAKERS: &[Maker] = &[
    Maker {
        title: "Anthropic",
        provider: "anthropic",
        key_env: "ANTHROPIC_API_KEY",
        models: ["claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5"],
    },
    Maker {
        title: "OpenAI",
        provider: "openai",
        key_env: "OPENAI_API_KEY",
        models: ["gpt-5.2", "gpt-5-mini", "gpt-5-mini"],
    },
    Maker {
        title: "DeepSeek",
        provider: "deepseek",
        key_env: "DEEPSEEK_API_KEY",
        models: ["deepseek-v4-pro", "deepseek-v4-flash", "deepseek-v4-flash"],
    },
];

/// A server on this machine, and the model to use.
pub(super) struct Local {
    /// What people call it.
    pub(super) title: &'static str,
    /// Its name in the config.
    pub(super) provider: &'static str,
    pub(super) base_url: String,
    pub(super) model: ListedModel,
}

/// Who answers the agents of a first config.
pub(super) enum Source {
    /// Makers whose keys are set.
    Makers(Vec<&'static Maker>),
    /// A server on this machine.
    Local(Local),
    /// A script, so that everything can be tried.
    Script,
}

impl Source {
    /// The names of the providers in the config.
    pub(super) fn providers(&self) -> Vec<&'static str> {
        match self {
            Self::Makers(makers) => makers.iter().map(|maker| maker.provider).collect(),
            Self::Local(local) => vec![local.provider],
            Self::Script => vec!["script"],
        }
    }
}

const TIERS: [&str; 3] = ["high", "middle", "low"];

/// The first line of a config whose schema lies beside it.
fn schema_line() -> String {
    format!("# yaml-language-server: $schema={SCHEMA}\n")
}

const HEAD: &str = "\
# Drawloom: who provides models, which agents there are, and what they may touch.
# `drawloom validate` checks this file; `drawloom config show` prints it with all defaults.
";

const AGENTS_HEAD: &str = "
# Agents: a prompt, a model, and what they may use. What is not listed, they do not have.
agents:";

const TAIL: &str = "
# Directories that agents may touch. `mode: rw` lets them write.
volumes:
  here: { path: ., mode: ro, default: true }

# Runs that ended longer ago than this are removed; 0 keeps them for ever.
retention:
  max_age_days: 90
";

/// The config for this source of models.
pub(super) fn config(source: &Source) -> String {
    let mut text = schema_line();
    text.push_str(HEAD);
    let ([strong, quick], usual) = match source {
        Source::Makers(makers) => {
            let first = makers.first().map_or("main".to_owned(), |maker| format!("{}-middle", maker.provider));
            (real(&mut text, makers), first)
        }
        Source::Local(server) => (local(&mut text, server), "main".to_owned()),
        Source::Script => (script(&mut text), "main".to_owned()),
    };
    writeln!(
        text,
        "\n# The model of agents that name none, such as those made at runtime.\ndefaults: {{ model: {usual} }}"
    )
    .expect("text takes text");
    text.push_str(AGENTS_HEAD);
    text.push_str(&agent(&Agent {
        name: "lead",
        model: &strong,
        description: "Answers questions about this folder, and has two reviewers check it.",
        prompt: "You lead two reviewers, correctness and clarity. When you are asked to review something, spawn both \
                 with the tool Agent, in one call, and tell each what to look at. Then report what matters most, with \
                 file and line. Answer other questions yourself, briefly.",
        tools: &["Read", "Glob", "Grep", "Agent"],
        agents: "[correctness, clarity]  # agents that it may spawn",
    }));
    text.push_str(&agent(&Agent {
        name: "correctness",
        model: &quick,
        description: "Reviews files for mistakes.",
        prompt: "You review for correctness. Read what you are told to review, and list real mistakes with file, line \
                 and what goes wrong. Say so when you find none.",
        tools: &["Read", "Glob", "Grep"],
        agents: "[]                     # agents that it may spawn: none",
    }));
    text.push_str(&agent(&Agent {
        name: "clarity",
        model: &quick,
        description: "Reviews files for what a reader would not understand.",
        prompt: "You review for clarity. Read what you are told to review, and list names, comments and sentences that a \
                 new reader would not understand, with file, line and a better wording.",
        tools: &["Read", "Glob", "Grep"],
        agents: "[]",
    }));
    text.push_str(TAIL);
    text
}

/// The config for these makers without any agent. Its volume is read only: who imports agents has not said that they may write.
pub(super) fn base(makers: &[&Maker], volume: NewVolume) -> String {
    let mut text = HEAD.to_owned();
    match makers.is_empty() {
        true => {
            text.push_str(SCRIPT);
            text.push_str("\n# The model of agents that name none.\ndefaults: { provider: script, model: demo }\n");
        }
        false => drop(real(&mut text, makers)),
    }
    if volume == NewVolume::ReadOnly {
        text.push_str(
            "\n# Directories that agents may touch. `mode: rw` lets them write.\nvolumes:\n  here: { path: ., mode: ro, default: true }\n",
        );
    }
    text
}

const SCRIPT: &str = "
# A script plays the model, so that everything can be tried without a key. For a real one, set a key and run
# `drawloom init --force`, or write: anthropic: { driver: anthropic, api_key_env: ANTHROPIC_API_KEY }
providers:
  script:
    driver: script
    options:
      rules:
        - text: \"A script plays the model here, and it can only repeat what you said: {{prompt}}\"
";

/// A script that plays a lead and its reviewers.
const TEAM: &str = "
# A script plays the model, so that everything can be tried without a key. For a real one, set a key and run
# `drawloom init --force`, or write: anthropic: { driver: anthropic, api_key_env: ANTHROPIC_API_KEY }
providers:
  script:
    driver: script
    options:
      rules:
        - when: { agent: lead, turn: 1, tools: true }
          text: \"A script plays the model here. It asks both reviewers.\"
          calls:
            - tool: Agent
              input:
                op: parallel_spawn
                spawns:
                  - { name: correctness, prompt: \"{{prompt}}\" }
                  - { name: clarity, prompt: \"{{prompt}}\" }
        - when: { agent: lead }
          text: \"Both reviewers have answered. With a real model this would be their report on: {{prompt}}\"
        - when: { turn: 1, tools: true }
          calls: [{ tool: Glob, input: { pattern: \"*\" } }]
        - text: \"Played by a script: {{agent}} looked at this folder and was asked: {{prompt}}\"
";

/// A provider that needs no key; returns how each agent names its model.
fn script(text: &mut String) -> [String; 2] {
    text.push_str(TEAM);
    text.push_str("\n# Short names for models.\nmodels:\n  main: { provider: script, model: demo }\n");
    ["model: main".into(), "model: main".into()]
}

/// A provider on this machine; returns how each agent names its model.
fn local(text: &mut String, Local { title, provider, base_url, model }: &Local) -> [String; 2] {
    // JSON texts are YAML too. A config fills `${NAME}` in, and reads `$${` as `${`.
    let name = serde_json::Value::from(model.id.replace("${", "$${"));
    writeln!(
        text,
        "
# {title} on this machine serves the model; it needs no key.
providers:
  {provider}: {{ driver: openai, base_url: \"{base_url}\" }}

# Short names for models. `drawloom models list --remote {provider}` shows what the server has.
models:
  main: {{ provider: {provider}, model: {name} }}"
    )
    .expect("text takes text");
    ["model: main".into(), "model: main".into()]
}

fn real(text: &mut String, makers: &[&Maker]) -> [String; 2] {
    text.push_str(
        "\n# Keys are named here and read from the environment; a key itself never stands in a file.\nproviders:\n",
    );
    for Maker { provider, key_env, .. } in makers {
        writeln!(text, "  {provider}: {{ driver: {provider}, api_key_env: {key_env} }}").expect("text takes text");
    }
    text.push_str(
        "\n# Short names for models. `drawloom models list --remote PROVIDER` shows what a provider has.\nmodels:\n",
    );
    for Maker { provider, models, .. } in makers {
        for (tier, model) in TIERS.iter().zip(models) {
            writeln!(text, "  {provider}-{tier}: {{ provider: {provider}, model: {model} }}").expect("text takes text");
        }
    }
    text.push_str("\n# Model tiers, by quality and price: candidates in order of preference.\ntiers:\n");
    for tier in TIERS {
        let names: Vec<String> = makers.iter().map(|maker| format!("{}-{tier}", maker.provider)).collect();
        writeln!(text, "  {tier}: [{}]", names.join(", ")).expect("text takes text");
    }
    if makers.len() > 1 {
        text.push_str(
            "\n# When a provider fails or throttles, a run continues with the next candidate of its tier.\nuser_tiers:\n  default: { fallback_on_error: true }\n",
        );
    }
    ["tier: middle".into(), "tier: low".into()]
}

struct Agent<'a> {
    name: &'a str,
    /// The line that names its model.
    model: &'a str,
    description: &'a str,
    prompt: &'a str,
    tools: &'a [&'a str],
    agents: &'a str,
}

fn agent(agent: &Agent<'_>) -> String {
    let Agent { name, model, description, prompt, tools, agents } = agent;
    format!(
        "
  {name}:
    description: {description}
    {model}
    system_prompt: >-
      {prompt}
    tools: [{}]
    agents: {agents}
    volumes: [here]
    hosts: []                   # what it may reach over HTTP: nothing
    budget: {{ tokens: 500000 }}  # of a run and its child runs
",
        tools.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a driver needs is checked elsewhere: here a script stands for each of them.
    #[test]
    fn aliases_tiers_and_agents_fit_together_for_every_choice_of_makers() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for bits in 0..1 << MAKERS.len() {
            let used = MAKERS.iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0).map(|(_, maker)| maker);
            let used: Vec<_> = used.collect();
            let source = if used.is_empty() { Source::Script } else { Source::Makers(used) };
            let mut text = config(&source);
            for Maker { provider, key_env, .. } in MAKERS {
                text = text.replace(&format!("driver: {provider}, api_key_env: {key_env}"), "driver: script");
            }
            let file = folder.path().join("drawloom.yaml");
            std::fs::write(&file, &text).expect("a writable file");
            let loaded = crate::config::load_files(&[file]).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
            let resolved = crate::resolve::resolve(&loaded, &crate::Extra::default())
                .unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{text}"));
            assert_eq!(resolved.catalog.names().collect::<Vec<_>>(), AGENTS, "{text}");
        }
    }

    /// Servers name their models as they like.
    #[test]
    fn the_name_of_a_local_model_arrives_as_it_is() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for id in [
            "qwen3:8b",
            "a$HOME",
            "${HOME}",
            "$${HOME}",
            "${",
            "$$",
            "a\" }, x: { y: \"",
            "# a",
            "null",
            "\\n{{prompt}}",
        ] {
            let model = ListedModel { id: id.into(), ..ListedModel::default() };
            let base_url = "http://127.0.0.1:9/v1".to_owned();
            let text = config(&Source::Local(Local { title: "vLLM", provider: "vllm", base_url, model }));
            let file = folder.path().join("drawloom.yaml");
            std::fs::write(&file, &text).expect("a writable file");
            let loaded = crate::config::load_files(&[file]).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
            assert_eq!(loaded.config.models["main"].model.as_deref(), Some(id), "{text}");
        }
    }
}
