//! Names resolve or are reported, all of them; defaults and gates come out as documented.

use serde_json::{Value, json};

use drawloom_contract::{
    gate::{AGENTS, COMMAND_VOLUMES, VOLUMES, WRITABLE_VOLUMES},
    tool::Mode,
};

use crate::{Skill, SkillTool, Weight, volumes::VolumeConfig};

use super::*;

/// Resolves `config` beside the volumes `work` (default), `shelf` (read only) and `plain` (without a mode).
fn resolve(config: Value) -> Result<(Catalog, Vec<Finding>), Vec<String>> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let volume = |name: &str, mode: Option<&str>, default: bool| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        let config = json!({ "path": path, "mode": mode, "default": default });
        (name.to_owned(), serde_json::from_value::<VolumeConfig>(config).expect("a volume"))
    };
    let volumes = BTreeMap::from([
        volume("work", Some("rw"), true),
        volume("shelf", Some("ro"), false),
        volume("work/sub", Some("rw"), false),
        volume("plain", None, false),
    ]);
    let volumes = VolumeTable::open(&volumes).expect("directories");
    assert_eq!(volumes.mode("shelf"), Some(Mode::ReadOnly));
    let section = |name: &str| config.get(name).cloned().unwrap_or_else(|| json!({}));
    let inputs = Inputs {
        executors: &["model".to_owned(), "steps".to_owned(), "cli".to_owned()],
        backends: &BTreeMap::from([("cli".to_owned(), vec!["claude_code".to_owned(), "codex".to_owned()])]),
        agents: &serde_json::from_value(section("agents")).expect("agents"),
        defaults: &serde_json::from_value(section("defaults")).expect("defaults"),
        models: &serde_json::from_value(section("models")).expect("models"),
        tiers: &serde_json::from_value(section("tiers")).expect("tiers"),
        user_tiers: &serde_json::from_value(section("user_tiers")).expect("user tiers"),
        provider_priority: &config
            .get("provider_priority")
            .map(|listed| serde_json::from_value::<Vec<String>>(listed.clone()).expect("names"))
            .unwrap_or_default(),
        unusable: &["keyless".to_owned()],
        providers: &["script", "anthropic", "deepseek", "keyless"].map(str::to_owned),
        tools: &["Read".to_owned(), "Write".to_owned(), "Agent".to_owned(), "Skill".to_owned()],
        gates: &BTreeMap::from([
            ("Read".to_owned(), VOLUMES),
            ("Write".to_owned(), WRITABLE_VOLUMES),
            ("Bash".to_owned(), COMMAND_VOLUMES),
            ("Agent".to_owned(), AGENTS),
            ("Skill".to_owned(), SkillTool::GATE),
        ]),
        off: &BTreeMap::from([("Bash".to_owned(), "set tools.bash.enabled: true".to_owned())]),
        servers: &["files".to_owned(), "search".to_owned()],
        volumes: &volumes,
        skills: &skills(directory.path()),
        channels: &serde_json::from_value(section("channels")).expect("channels"),
    };
    Catalog::resolve(&inputs).map_err(|problems| {
        problems
            .into_iter()
            .map(|problem| match &problem.hint {
                Some(hint) => format!("{problem} ({hint})"),
                None => problem.to_string(),
            })
            .collect()
    })
}

/// The skills `weave` and `weave-fast`.
fn skills(home: &std::path::Path) -> SkillTable {
    let mut table = SkillTable::default();
    for name in ["weave", "weave-fast"] {
        let folder = home.join("skills").join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("SKILL.md"), format!("---\nname: {name}\n---\nOver, under: {name}.\n"))
            .expect("a file");
        table.add(Skill::open(name.into(), format!("How to {name}."), &folder).expect("a skill")).expect("a new one");
    }
    table
}

fn one(config: Value) -> Arc<Definition> {
    let (catalog, _) = resolve(config).expect("a config without mistakes");
    let agents = catalog.list(&Tenant::default_tenant());
    assert_eq!(agents.len(), 1);
    agents.into_iter().next().expect("one agent")
}

#[test]
fn absent_keys_mean_their_documented_defaults() {
    let agent = one(json!({ "agents": { "a": { "provider": "script", "model": "m" } } }));
    assert_eq!(
        *agent,
        Definition {
            team: Some(Vec::new()),
            volumes: vec!["work".into()],
            volume_modes: Some(BTreeMap::from([("work".into(), Mode::ReadWrite)])),
            ..drawloom_testkit::definition("a", "script", "m")
        }
    );
}

#[test]
fn an_empty_list_always_means_none() {
    let agent = one(json!({ "agents": { "a": { "provider": "script", "model": "m", "volumes": [] } } }));
    assert_eq!(agent.volumes, Vec::<String>::new());
}

#[test]
fn a_model_comes_from_the_pin_the_alias_or_the_defaults() {
    let models = json!({ "fast": { "provider": "anthropic", "model": "small" } });
    let chosen = |agent: Value, defaults: Value| {
        let agent = one(json!({ "agents": { "a": agent }, "models": models, "defaults": defaults }));
        format!("{}/{}", agent.provider, agent.model)
    };
    let defaults = json!({ "provider": "script", "model": "demo" });
    assert_eq!(chosen(json!({ "provider": "script", "model": "fast" }), json!({})), "script/fast");
    assert_eq!(chosen(json!({ "model": "fast" }), defaults.clone()), "anthropic/small");
    assert_eq!(chosen(json!({}), defaults), "script/demo");
    assert_eq!(chosen(json!({}), json!({ "model": "fast" })), "anthropic/small");
}

#[test]
fn every_name_that_does_not_exist_is_reported_at_once() {
    let problems = resolve(json!({
        "models": { "fast": { "provider": "antropic", "model": "small" }, "half": { "model": "x" } },
        "agents": {
            "a b": { "provider": "script", "model": "m" },
            "b": {
                "model": "fats", "tools": ["Raed", "Zsh", "Wri*"], "agents": ["c", "d", "x*"],
                "volumes": ["shelve", "work", "work/sub"],
                "system_prompt": "x", "system_prompt_file": "y"
            },
            "c": { "provider": "nobody" },
            "d": {},
            "e": { "provider": "nobody", "model": "m", "system_prompt_file": "/nowhere/prompt.md" }
        }
    }))
    .expect_err("many mistakes");
    assert_eq!(
        problems,
        [
            "models.fast.provider: unknown provider \"antropic\" (did you mean \"anthropic\"?)",
            "models.half: the alias \"half\" needs both `provider` and `model` (add `provider`)",
            "agents.a b: invalid agent name \"a b\": expected 1 to 128 letters, digits, '_', '-' or '.', in parts separated by '/' \
             (rename the agent)",
            "agents.b.model: unknown model alias \"fats\" (did you mean \"fast\"? For a model of a provider, add \
             `provider`)",
            "agents.b.system_prompt_file: `system_prompt` and `system_prompt_file` exclude each other (keep one of them)",
            "agents.b.tools.0: unknown tool \"Raed\" (did you mean \"Read\"?)",
            "agents.b.tools.1: unknown tool \"Zsh\" (known: Read, Write, Agent, Skill, Bash, mcp__files__*, mcp__search__*)",
            "agents.b.volumes.0: unknown volume \"shelve\" (did you mean \"shelf\"?)",
            "agents.b.volumes.2: volumes \"work\" and \"work/sub\" overlap (list only one of them for an agent)",
            "agents.c: provider \"nobody\" is given without `model` (add `model`, the model's name at that provider)",
            "agents.d: no model is given (add `provider` and `model`, or `model` with an alias, here or under \
             `defaults`)",
            "agents.e.provider: unknown provider \"nobody\" (known: script, anthropic, deepseek, keyless)",
            "agents.e.system_prompt_file: cannot read \"/nowhere/prompt.md\": No such file or directory (os error 2) (create \
             the file; a relative path starts at the config file)",
        ]
    );
}

#[test]
fn a_mistake_in_the_defaults_is_reported_once() {
    let agents = json!({ "a": {}, "b": {} });
    let problems = resolve(json!({ "agents": agents, "defaults": { "provider": "scrpt", "model": "m" } }));
    let problems = problems.expect_err("a provider that does not exist");
    assert_eq!(problems, ["defaults.provider: unknown provider \"scrpt\" (did you mean \"script\"?)"]);
}

#[test]
fn gates_that_cannot_work_are_found() {
    let (_, findings) = resolve(json!({
        "defaults": { "provider": "script", "model": "m" },
        "agents": {
            "lead": { "tools": ["Agent", "Read"], "agents": ["reader", "nobody*"] },
            "loner": { "tools": ["Agent"], "agents": [], "volumes": [] },
            "mute": { "agents": [] },
            "reader": { "tools": ["Read"], "agents": [], "volumes": [] },
            "scribe": { "tools": ["Write", "Mcp*"], "agents": ["lead"], "volumes": ["shelf"] }
        }
    }))
    .expect("no mistakes");
    let texts: Vec<String> = findings
        .iter()
        .map(|finding| {
            let weight = match finding.weight {
                Weight::Note => "note",
                Weight::Warning => "warning",
            };
            format!("{weight} {}: {}", finding.at.join("."), finding.message)
        })
        .collect();
    assert_eq!(
        texts,
        [
            "note agents.lead: agent lead does not set hosts: [] (none) is used, which is fine if that is intended",
            "note agents.loner: agent loner does not set hosts: [] (none) is used, which is fine if that is intended",
            "warning agents.loner.agents: agent loner lists the tool Agent but `agents` is empty, so the tool is not available (to allow it, write `agents: [NAME]`)",
            "note agents.mute: agent mute does not set hosts: [] (none) is used, which is fine if that is intended",
            "warning agents.mute: agent mute has no `tools` and cannot call any (to silence this, set `tools: []`)",
            "note agents.reader: agent reader does not set hosts: [] (none) is used, which is fine if that is intended",
            "warning agents.reader.volumes: agent reader lists the tool Read but `volumes` is empty, so the tool is not available (to allow it, write `volumes: [NAME]`)",
            "note agents.scribe: agent scribe does not set hosts: [] (none) is used, which is fine if that is intended",
            "warning agents.scribe.tools: no tool matches \"Mcp*\"",
            "warning agents.scribe.volumes: agent scribe lists the tool Write but all its volumes are read-only, so the tool is not available (to allow it, write `mode: rw`)",
            "warning agents.scribe.agents: agent scribe sets `agents` but does not list the tool Agent, so it cannot spawn agents",
            "warning agents.lead.agents: no agent matches \"nobody*\"",
            "note agents.lead: agent lead has no `description`, so scribe cannot tell what it is for",
            "note agents.reader: agent reader has no `description`, so lead cannot tell what it is for",
        ]
    );
}

/// The candidates of the only agent, by user tier.
fn candidates(config: Value) -> Vec<String> {
    let choices = &one(config).choices;
    choices
        .iter()
        .map(|(tier, choice)| {
            let names: Vec<String> = choice.candidates.iter().map(ToString::to_string).collect();
            let fallback = if choice.fallback.is_some() { " with fallback" } else { "" };
            format!("{tier}: {}{fallback}", names.join(" "))
        })
        .collect()
}

#[test]
fn a_tier_becomes_candidates_in_the_order_of_priority_for_each_user_tier() {
    let models = json!({ "small": { "provider": "anthropic", "model": "haiku" } });
    let tiers = json!({ "low": [{ "provider": "keyless", "model": "k" }, "small", { "provider": "deepseek", "model": "chat" }] });
    let plain = json!({ "agents": { "a": { "tier": "low" } }, "models": models, "tiers": tiers });
    assert_eq!(candidates(plain.clone()), ["default: anthropic/haiku deepseek/chat"]);
    assert_eq!(one(plain.clone()).provider, "anthropic");

    // Without any key the candidates stay: the config is right, and the keys may be set elsewhere.
    let mut config = plain.clone();
    config["tiers"] = json!({ "low": [{ "provider": "keyless", "model": "k" }] });
    assert_eq!(candidates(config), ["default: keyless/k"]);

    let mut config = plain.clone();
    config["provider_priority"] = json!(["deepseek", "anthropic"]);
    assert_eq!(candidates(config.clone()), ["default: deepseek/chat anthropic/haiku"]);
    config["agents"]["a"]["providers"] = json!(["anthropic"]);
    assert_eq!(candidates(config), ["default: anthropic/haiku"]);

    let mut config = plain.clone();
    config["user_tiers"] = json!({
        "default": { "fallback_on_error": true, "provider_priority": ["deepseek"] },
        "gold": { "tiers": { "low": [{ "provider": "anthropic", "model": "opus" }] } },
    });
    assert_eq!(candidates(config.clone()), ["default: deepseek/chat with fallback", "gold: anthropic/opus"]);
    config["agents"]["a"]["models"] = json!({ "low": [{ "provider": "script", "model": "own" }] });
    config["user_tiers"]["default"]["provider_priority"] = Value::Null;
    assert_eq!(candidates(config), ["default: script/own with fallback", "gold: script/own"]);
}

#[test]
fn a_pinned_model_is_the_same_for_every_user_tier_and_never_changes() {
    let config = json!({
        "agents": { "a": { "provider": "script", "model": "m" } },
        "user_tiers": { "default": { "fallback_on_error": true }, "gold": {} },
    });
    assert_eq!(candidates(config), ["default: script/m", "gold: script/m"]);
}

#[test]
fn mistakes_about_tiers_are_all_found() {
    let config = json!({
        "agents": {
            "both": { "tier": "low", "model": "x", "provider": "script" },
            "none": { "tier": "high" },
            "keyless": { "tier": "middle", "providers": ["nobody"] },
        },
        "tiers": {
            "low": ["nothing", { "provider": "script", "model": "m" }, { "provider": "scrip", "model": "m" }],
            "middle": [{ "provider": "keyless", "model": "k" }],
        },
        "provider_priority": ["antropic"],
        "user_tiers": { "gold": {} },
    });
    let problems = resolve(config).map(drop).expect_err("mistakes");
    let keys = "(add candidates under `tiers` whose providers the priority lists name)";
    let unusable = "their providers are not in its priority list";
    assert_eq!(
        problems,
        [
            "provider_priority.0: unknown provider \"antropic\" (did you mean \"anthropic\"?)".to_owned(),
            "tiers.low.0.model: unknown model alias \"nothing\" (add `provider`, or add the alias under `models`)"
                .to_owned(),
            "tiers.low.2.provider: unknown provider \"scrip\" (did you mean \"script\"?)".to_owned(),
            "user_tiers: the user tier `default` is missing; requests without `user_tier` use it (add `default: {}`)"
                .to_owned(),
            "agents.both.tier: `tier` excludes `provider` and `model` (keep `tier`, or keep `provider` and `model`)"
                .to_owned(),
            format!("agents.both.tier: user tier `gold` cannot use any candidate of tier `low`: {unusable} {keys}"),
            "agents.keyless.providers.0: unknown provider \"nobody\" (known: script, anthropic, deepseek, keyless)"
                .to_owned(),
            format!(
                "agents.keyless.tier: user tier `gold` cannot use any candidate of tier `middle`: {unusable} {keys}"
            ),
            format!("agents.none.tier: tier `high` has no candidates for user tier `gold` {keys}"),
        ]
    );
}

#[test]
fn tools_of_outside_servers_need_a_server_of_that_name() {
    let agent = |tools: Value| json!({"agents": {"a": {"provider": "script", "model": "m", "tools": tools}}});
    let definition = one(agent(json!(["Read", "mcp__files__read", "mcp__search__*", "mcp__*"])));
    assert_eq!(definition.tools, ["Read", "mcp__files__read", "mcp__search__*", "mcp__*"]);
    let wrong = resolve(agent(json!(["mcp__fiels__read", "mcp__web__*", "mcp__files"]))).expect_err("three mistakes");
    assert_eq!(
        wrong,
        [
            "agents.a.tools.0: unknown MCP server \"fiels\" in the tool name \"mcp__fiels__read\" (did you mean \"files\"?)",
            "agents.a.tools.1: unknown MCP server \"web\" in the tool name \"mcp__web__*\" (known: files, search)",
            "agents.a.tools.2: unknown tool \"mcp__files\" (did you mean \"mcp__files__*\"?)",
        ]
    );
}

#[test]
fn a_pattern_for_an_outside_server_is_no_mistake() {
    let agents =
        json!({"agents": {"a": {"provider": "script", "model": "m", "tools": ["mcp__files__*", "mcp__f*", "Q*"]}}});
    let (_, findings) = resolve(agents).expect("no mistakes");
    let unknown: Vec<_> = findings.iter().filter(|finding| finding.message.contains("no tool matches")).collect();
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert!(unknown[0].message.contains("Q*"));
}

#[test]
fn a_volume_without_a_mode_is_read_only_and_agents_that_lose_writing_are_named() {
    let agent = |tools: &[&str]| json!({ "provider": "script", "model": "m", "tools": tools, "volumes": ["plain"] });
    let agents =
        json!({ "agents": { "scribe": agent(&["Write"]), "clerk": agent(&["*"]), "reader": agent(&["Read"]) } });
    let (catalog, findings) = resolve(agents).expect("a config without mistakes");
    let modes = |definition: &Definition| definition.volume_modes.clone().expect("known");
    let all = catalog.list(&Tenant::default_tenant());
    assert!(all.iter().all(|agent| modes(agent) == BTreeMap::from([("plain".to_owned(), Mode::ReadOnly)])));
    let said: Vec<_> = findings.iter().filter(|finding| finding.at == ["volumes", "plain"]).collect();
    assert_eq!(said.len(), 1);
    assert_eq!(
        said[0].message,
        "volume plain has no `mode`, so it is read-only and clerk, scribe cannot write to it (`mode: rw` allows it)"
    );
}

#[test]
fn a_team_is_listed_unless_it_is_too_large_for_a_model() {
    let mut agents: serde_json::Map<String, Value> = (0..MOST_TEAM)
        .map(|number| (format!("w{number:03}"), json!({ "provider": "script", "model": "m", "description": "works" })))
        .collect();
    agents.insert("lead".into(), json!({ "provider": "script", "model": "m", "agents": ["w*"] }));
    agents.insert("all".into(), json!({ "provider": "script", "model": "m", "agents": ["*"] }));
    let (catalog, findings) = resolve(json!({ "agents": agents })).expect("a config without mistakes");
    let find =
        |name: &str| catalog.find(&Tenant::default_tenant(), &name.parse().expect("a name")).expect("it is there");
    let team = find("lead").team.clone().expect("a team");
    assert_eq!((team.len(), team[0].name.as_str(), team[0].description.as_str()), (MOST_TEAM, "w000", "works"));
    assert_eq!(find("all").team, None);
    assert!(find("all").may_spawn(&"w000".parse().expect("a name")));
    assert!(findings.iter().any(|finding| finding.message.contains("can spawn 258 agents")), "{findings:?}");
}

#[test]
fn skills_are_a_gate_with_names_and_descriptions_or_part_of_the_prompt() {
    let agent = one(json!({ "agents": { "a": {
        "provider": "script", "model": "m", "tools": ["Skill"], "skills": ["weave*"], "bundled_skills": ["weave"],
        "system_prompt": "You weave."
    } } }));
    let skills: Vec<(&str, &str)> =
        agent.skills.iter().map(|(name, description)| (name.as_str(), description.as_str())).collect();
    assert_eq!(skills, [("weave", "How to weave."), ("weave-fast", "How to weave-fast.")]);
    assert_eq!(agent.system_prompt, "You weave.\n\n<skill name=\"weave\">\nOver, under: weave.\n</skill>");
    let problems = resolve(json!({ "agents": { "a": {
        "provider": "script", "model": "m", "skills": ["waeve", "none*"], "bundled_skills": ["dye"]
    } } }));
    assert_eq!(
        problems.expect_err("problems"),
        [
            "agents.a.bundled_skills.0: unknown skill \"dye\" (known: weave, weave-fast)",
            "agents.a.skills.0: unknown skill \"waeve\" (did you mean \"weave\"?)"
        ]
    );
}

#[test]
fn a_skill_gate_without_its_tool_and_the_reverse_are_warnings() {
    let said = |agent: Value| -> Vec<String> {
        let (_, findings) = resolve(json!({ "agents": { "a": agent } })).expect("no mistakes");
        let warnings = findings.into_iter().filter(|finding| finding.weight == Weight::Warning);
        warnings.map(|finding| finding.message).collect()
    };
    let agent = |tools: &[&str], skills: &[&str]| json!({ "provider": "script", "model": "m", "tools": tools, "skills": skills, "agents": [], "hosts": [] });
    assert_eq!(said(agent(&["Skill"], &["weave"])), Vec::<String>::new());
    assert_eq!(
        said(agent(&["Skill"], &[]))[0],
        "agent a lists the tool Skill but `skills` is empty, so the tool is not available (to allow it, write `skills: [NAME]`)"
    );
    assert_eq!(
        said(agent(&[], &["weave"]))[0],
        "agent a sets `skills` but does not list the tool Skill, so it cannot load skills"
    );
    assert_eq!(said(agent(&["Skill"], &["weave", "dye*"]))[0], "no skill matches \"dye*\"");
}

#[test]
fn an_agent_on_a_coding_cli_names_the_cli_and_perhaps_a_model_of_it() {
    let agent = |agent: Value| json!({ "agents": { "a": agent } });
    let definition = one(agent(json!({ "executor": "cli", "provider": "codex", "model": "gpt-5" })));
    assert_eq!((definition.provider.as_str(), definition.model.as_str()), ("codex", "gpt-5"));
    let definition = one(agent(json!({ "executor": "cli", "provider": "claude_code" })));
    assert_eq!((definition.provider.as_str(), definition.model.as_str()), ("claude_code", ""));
    let said = |config: Value| resolve(agent(config)).expect_err("a mistake");
    assert_eq!(
        said(json!({ "executor": "cli", "provider": "claude-code" })),
        ["agents.a.provider: unknown provider \"claude-code\" of the executor \"cli\" (did you mean \"claude_code\"?)"]
    );
    assert_eq!(
        said(json!({ "executor": "cli", "provider": "script" })),
        ["agents.a.provider: unknown provider \"script\" of the executor \"cli\" (known: claude_code, codex)"]
    );
    assert_eq!(
        said(json!({ "executor": "cli", "tier": "middle" })),
        [
            "agents.a.tier: the executor \"cli\" has no tiers, so `tier` has no effect (remove `tier`; set `model` to the name that the CLI knows)",
            "agents.a: the executor \"cli\" needs `provider` (add `provider`, one of: claude_code, codex)"
        ]
    );
}
