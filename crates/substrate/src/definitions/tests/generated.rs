//! A thousand makers and children: no accepted definition can do anything that its maker cannot.
//!
//! What a definition can do is compared here as a set of single deeds over a small world of names, which shares nothing with how
//! `excess` compares patterns.

use std::collections::BTreeSet;

use drawloom_contract::{
    definition::{MemoryScope, matches},
    tool::Mode,
};

use super::*;

/// A generator of numbers from a seed (SplitMix64).
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn some(&mut self, of: &[&str]) -> Vec<String> {
        of.iter().filter(|_| self.below(3) == 0).map(|name| (*name).to_owned()).collect()
    }

    fn maybe(&mut self, most: u64) -> Option<u64> {
        (self.below(2) == 0).then(|| 1 + self.below(most))
    }
}

const TOOLS: &[&str] = &["Memory", "Mem*", "MemoryX", "Bash", "B*", "Read", "*", "Context", "HTTP", "Skill"];
const AGENTS: &[&str] = &["helper", "helper*", "coder", "co*", "lead", "*", "made", "helper-2"];
const HOSTS: &[&str] = &["a.example", "*.example", "b.a.example", "*.a.example", "*", "example", "A.example"];
const SCOPES: &[&str] = &["agent", "user", "tenant", "global", "run"];
const CHANNELS: &[&str] = &["exp-1", "exp-*", "exp", "*", "other"];
const KINDS: &[&str] = &["agent", "channel", "skill"];

/// The world in which deeds are tried: more names than the lists have.
const TOOL_WORLD: &[&str] =
    &["Memory", "MemoryX", "MemZ", "Bash", "B", "Bsh", "Read", "ReadX", "Context", "HTTP", "Skill", "Zed"];
const AGENT_WORLD: &[&str] = &["helper", "helper-2", "helper-9", "coder", "cox", "lead", "made", "zed"];
const HOST_WORLD: &[&str] =
    &["a.example", "example", "b.a.example", "c.b.a.example", "x.example", "notexample", "evil.test", "a.example.evil"];
const CHANNEL_WORLD: &[&str] = &["exp-1", "exp-2", "exp-", "exp", "other", "zed"];

fn source(random: &mut Seeded) -> Value {
    let mut source = json!({
        "tools": random.some(TOOLS),
        "agents": random.some(AGENTS),
        "hosts": random.some(HOSTS),
        "memory_scopes": random.some(SCOPES),
        "volumes": random.some(&["work"]),
        "definitions": random.some(KINDS),
        "max_iterations": 1 + random.below(30),
        "retry_attempts": random.below(4),
        "model": (["m", "n", "special"][random.below(3) as usize]),
        "provider": "script",
    });
    for (key, most) in [("max_tokens", 1_000), ("run_timeout_seconds", 100)] {
        if let Some(limit) = random.maybe(most) {
            source[key] = limit.into();
        }
    }
    if let Some(tokens) = random.maybe(1_000) {
        source["budget"] = json!({ "tokens": tokens });
    }
    source
}

fn host_matches(pattern: &str, host: &str) -> bool {
    let pattern = pattern.to_lowercase();
    match pattern.as_str() {
        "*" => true,
        _ if pattern.starts_with("*.") => host.ends_with(&pattern[1..]),
        _ => pattern == host,
    }
}

/// Everything that a definition can do in the small world, one text for each deed. `spawns` says whom it can spawn.
fn deeds(definition: &Definition, spawns: &dyn Fn(&str) -> bool) -> BTreeSet<String> {
    let mut deeds = BTreeSet::new();
    let mut add = |what: &str, world: &[&str], can: &dyn Fn(&str) -> bool| {
        deeds.extend(world.iter().filter(|name| can(name)).map(|name| format!("{what} {name}")));
    };
    add("call", TOOL_WORLD, &|name| definition.tools.iter().any(|pattern| matches(pattern, name)));
    add("spawn", AGENT_WORLD, spawns);
    add("reach", HOST_WORLD, &|host| definition.hosts.iter().any(|pattern| host_matches(pattern, host)));
    for gate in ["channels.publish", "channels.subscribe", "evaluation_scopes", GATE] {
        let world = if gate == GATE { KINDS } else { CHANNEL_WORLD };
        add(gate, world, &|name| definition.allows(gate, name));
    }
    for scope in &definition.memory_scopes {
        let name = if *scope == MemoryScope::Global { "tenant" } else { scope.as_str() };
        deeds.insert(format!("remember {name}"));
    }
    for volume in &definition.volumes {
        deeds.insert(format!("read {volume}"));
        if definition.volume_modes.as_ref().is_none_or(|modes| modes.get(volume) == Some(&Mode::ReadWrite)) {
            deeds.insert(format!("write {volume}"));
        }
    }
    deeds.insert(format!("ask {}/{}", definition.provider, definition.model));
    deeds
}

/// The limits of a definition; larger is more, and no limit is most.
fn limits(definition: &Definition) -> [u64; 5] {
    [
        definition.max_iterations.into(),
        definition.retry_attempts.into(),
        definition.max_tokens.map_or(u64::MAX, u64::from),
        definition.run_timeout_ms.unwrap_or(u64::MAX),
        definition.budget_tokens.unwrap_or(u64::MAX),
    ]
}

fn assert_within(child: &Definition, maker: &Definition, spawns: &dyn Fn(&str) -> bool, number: u64) {
    let of_child = |name: &str| child.agents.iter().any(|pattern| matches(pattern, name));
    let beyond: Vec<String> = deeds(child, &of_child).difference(&deeds(maker, spawns)).cloned().collect();
    assert_eq!(beyond, Vec::<String>::new(), "number {number}: {child:#?} is more than {maker:#?}");
    for (one, most) in limits(child).into_iter().zip(limits(maker)) {
        assert!(one <= most, "number {number}: {one} is more than {most} in {child:#?}");
    }
}

/// Tries channels of every name, with dead letters anywhere: what is accepted, its maker can use itself.
fn defines_channels_of_its_own(definitions: &RuntimeDefinitions, maker: &Definition, random: &mut Seeded) {
    for name in CHANNEL_WORLD {
        let dead =
            CHANNEL_WORLD.get(random.below(2 * CHANNEL_WORLD.len() as u64) as usize).filter(|dead| *dead != name);
        let source = json!({ "dead_letter": dead });
        let ceilings = [&Ceiling::of(maker)];
        let tenant = Tenant::default_tenant();
        let examined = definitions.examine(&tenant, DefinitionKind::Channel, name, &source, &ceilings);
        assert_eq!(examined.problems, []);
        let may = |gate: &str, name: &str| maker.allows(gate, name);
        let is_own = may("channels.publish", name) || may("channels.subscribe", name);
        let is_within = is_own && dead.is_none_or(|dead| may("channels.publish", dead));
        assert_eq!(examined.excess.is_empty(), is_within, "{name} with {dead:?} by {maker:#?}: {:?}", examined.excess);
    }
}

#[tokio::test]
async fn no_agent_makes_an_agent_that_can_do_more_than_itself() {
    let fixture = Fixture::new();
    let definitions = fixture.start().await;
    let mut random = Seeded(16);
    let (mut accepted, mut refused) = (0, 0);
    for number in 0..1_000 {
        // The maker is an agent of the config's kind: resolved from a random source without a ceiling.
        let made = source(&mut random);
        let (volumes, skills) = (definitions.layers().boot.config.volumes.clone(), Arc::default());
        let inputs = definitions.layers().boot.config.inputs_with(&volumes, &skills);
        let config = serde_json::from_value(made).expect("an agent");
        let (Some(mut maker), _) = crate::catalog::resolve_one(&inputs, "coder", &config) else { panic!("a maker") };
        for gate in ["channels.publish", "channels.subscribe", "evaluation_scopes"] {
            maker.gates.insert(gate.into(), random.some(CHANNELS));
        }
        defines_channels_of_its_own(&definitions, &maker, &mut random);
        let mut child = source(&mut random);
        // Often much of it comes from the maker, so that enough is accepted.
        if number % 2 == 0 {
            for key in ["tools", "agents", "hosts", "memory_scopes", "volumes", "definitions"] {
                let kept: Vec<Value> = serde_json::to_value(&config).expect("JSON")[key]
                    .as_array()
                    .cloned()
                    .unwrap_or_default()
                    .into_iter()
                    .filter(|_| random.below(2) == 0)
                    .collect();
                child[key] = kept.into();
            }
            child["model"] = maker.model.clone().into();
            for key in ["max_iterations", "retry_attempts", "max_tokens", "run_timeout_seconds", "budget"] {
                child.as_object_mut().expect("fields").remove(key);
            }
        }
        let examined = definitions.examine(
            &Tenant::default_tenant(),
            DefinitionKind::Agent,
            "child",
            &child,
            &[&Ceiling::of(&maker)],
        );
        let Some(definition) = examined.definition.filter(|_| examined.excess.is_empty()) else {
            refused += 1;
            continue;
        };
        accepted += 1;
        let spawns = |name: &str| maker.agents.iter().any(|pattern| matches(pattern, name));
        assert_within(&definition, &maker, &spawns, number);
    }
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused: the generator finds too little");
}

#[tokio::test]
async fn no_caller_makes_an_agent_that_can_do_more_than_the_operator_grants() {
    let mut random = Seeded(61);
    let ann = caller("default");
    let (mut accepted, mut refused) = (0, 0);
    for number in 0..100 {
        let mut fixture = Fixture::new();
        let grant = json!({
            "tools": random.some(TOOLS), "agents": random.some(AGENTS), "hosts": random.some(HOSTS),
            "memory_scopes": random.some(SCOPES), "volumes": random.some(&["work"]),
            "definitions": random.some(KINDS), "models": ["script/m", "script/n"], "max_iterations": 1 + random.below(30),
        });
        fixture.config.grant = serde_json::from_value(grant).expect("a grant");
        let grant = fixture.config.grant.clone();
        let definitions = fixture.start().await;
        let mut ceiling = drawloom_testkit::definition("grant", "script", "m");
        ceiling.tools = grant.tools.clone();
        ceiling.hosts = grant.hosts.clone();
        ceiling.memory_scopes = grant.memory_scopes.clone();
        ceiling.volumes = grant.volumes.clone();
        ceiling.max_iterations = grant.max_iterations;
        ceiling.retry_attempts = u32::MAX;
        ceiling.gates.insert(GATE.into(), grant.definitions.iter().map(|kind| kind.as_str().to_owned()).collect());
        for round in 0..10 {
            let mut child = source(&mut random);
            if round % 2 == 0 {
                for (key, allowed) in [("tools", &grant.tools), ("hosts", &grant.hosts), ("volumes", &grant.volumes)] {
                    child[key] = allowed.iter().filter(|_| random.below(2) == 0).cloned().collect();
                }
                child["memory_scopes"] = json!(grant.memory_scopes);
                child["definitions"] = json!([]);
                child["max_iterations"] = grant.max_iterations.into();
                child["model"] = "n".into();
                child["agents"] = json!(["helper*"]);
            }
            let name = format!("made-{round}");
            match definitions.create(create(&name, child), &by(&ann, None)).await {
                Ok(_) => accepted += 1,
                Err(error) => {
                    assert_eq!(error.code(), "definition_exceeds_maker", "{error}");
                    refused += 1;
                    continue;
                }
            }
            let made = agent(&definitions, &name).expect("it can run");
            ceiling.model = made.model.clone();
            assert!(["m", "n"].contains(&made.model.as_str()), "{}", made.model);
            // Whom it can really spawn: agents of callers, and what is granted. `coder` and `lead` are of the config.
            let team: Vec<String> =
                made.team.as_ref().expect("a team").iter().map(|mate| mate.name.to_string()).collect();
            let is_granted = |name: &str| grant.agents.iter().any(|pattern| matches(pattern, name));
            for name in team.iter().filter(|name| ["coder", "lead"].contains(&name.as_str())) {
                assert!(is_granted(name), "number {number}: {name} is not granted to {made:#?}");
            }
            assert_within(&made, &ceiling, &|_| true, number);
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused: the generator finds too little");
}
