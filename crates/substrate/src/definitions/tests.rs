//! Definitions made at runtime: versions, what makers may give, what a changed config takes away.

mod generated;
mod kinds;
mod makers;
mod reports;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use async_trait::async_trait;
use drawloom_contract::{
    caller::{Caller, Proof, Scope},
    definition::Definitions as _,
    failure::Explain as _,
    ids::{Digest, RunId, RunKey, Tenant, UserId},
    journal::StoreError,
    redact::Redactor,
    time::{Clock, Entropy, Instant, NoEntropy, Timestamp},
    tool::ToolContext,
};
use drawloom_testkit::Memory as FakeValues;
use serde_json::json;

use super::*;
use crate::{
    Catalog, OperatorConfig, VolumeTable,
    channels::{Backlog, ChannelParts, LogState, LogsAsked},
    volumes::VolumeConfig,
};

const SECRET: &str = "sk-1234567890abcdefgh";

#[derive(Default)]
struct SetClock(AtomicI64);

#[async_trait]
impl Clock for SetClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1, Ordering::SeqCst))
    }

    fn now(&self) -> Instant {
        Instant::from_origin(std::time::Duration::ZERO)
    }

    async fn sleep_until(&self, _: Instant) {}
}

/// Lets every source through: the validator has its own tests.
struct NoCheck;

impl SourceCheck for NoCheck {
    fn check(&self, _: DefinitionKind, _: &mut Value) -> Vec<SourceProblem> {
        Vec::new()
    }
}

/// No channel has messages here: the tests of channels have some.
struct NoLogs;

#[async_trait]
impl Backlog for NoLogs {
    async fn list_logs(&self, _: &LogsAsked) -> Result<Vec<LogState>, StoreError> {
        Ok(Vec::new())
    }
}

struct Zeros;

impl Entropy for Zeros {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        bytes.fill(0);
        Ok(())
    }
}

/// An operator's config, and a store that outlives it.
struct Fixture {
    agents: Value,
    providers: Vec<String>,
    config: DefinitionsConfig,
    principals: Vec<(Tenant, UserId, Vec<Scope>)>,
    directory: tempfile::TempDir,
    values: Arc<FakeValues>,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["work", "outside", "under", "under/a", "under/a/b"] {
            std::fs::create_dir(directory.path().join(name)).expect("a directory");
        }
        let agents = json!({
            "coder": {
                "system_prompt": "Code.", "tools": ["Read", "Bash", "Mem*", "AgentDef"], "volumes": ["work"],
                "memory_scopes": ["agent"], "definitions": ["agent", "skill"], "max_iterations": 8,
                "agents": ["helper*"],
            },
            "lead": { "tools": ["Agent"], "agents": ["*"], "volumes": [] },
        });
        Self {
            agents,
            providers: vec!["script".into()],
            config: DefinitionsConfig::default(),
            principals: Vec::new(),
            directory,
            values: Arc::default(),
        }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().canonicalize().expect("a path").join(name).to_string_lossy().into_owned()
    }

    /// A start of the server: everything that is stored is read again.
    async fn start(&self) -> Arc<RuntimeDefinitions> {
        let work = VolumeConfig { path: self.path("work"), mode: Some(crate::VolumeMode::Rw), default: true };
        let volumes = VolumeTable::open(&BTreeMap::from([("work".to_owned(), work)])).expect("a directory");
        let tools = ["Read", "Write", "Bash", "Memory", "MemoryX", "Context", "Skill", "Agent", "AgentDef", "HTTP"];
        let operator = OperatorConfig {
            agents: serde_json::from_value(self.agents.clone()).expect("agents"),
            defaults: serde_json::from_value(json!({ "provider": "script", "model": "m" })).expect("a model"),
            providers: self.providers.clone(),
            executors: vec!["model".into()],
            backends: BTreeMap::new(),
            tools: tools.map(str::to_owned).to_vec(),
            volumes: Arc::new(volumes),
            ..OperatorConfig::default()
        };
        let catalog = Arc::new(Catalog::examine(&operator.inputs()).0);
        let (layers, problems) =
            Layers::new(operator, catalog, self.config.clone(), Principals::new(self.principals.clone()));
        assert_eq!(problems, []);
        let channels = Channels::new(ChannelParts {
            layers: layers.clone(),
            logs: self.values.clone(),
            values: self.values.clone(),
            backlog: Arc::new(NoLogs),
            clock: Arc::new(SetClock::default()),
            entropy: Arc::new(Zeros),
            redactor: Arc::new(Redactor::new([SECRET])),
        });
        let definitions = RuntimeDefinitions::new(RuntimeParts {
            layers,
            values: self.values.clone(),
            check: Arc::new(NoCheck),
            channels: Some(channels),
            clock: Arc::new(SetClock::default()),
            redactor: Arc::new(Redactor::new([SECRET])),
        });
        definitions.load().await.expect("a store");
        definitions
    }
}

fn tenant(name: &str) -> Tenant {
    name.parse().expect("a tenant")
}

fn caller(tenant_name: &str) -> Caller {
    Caller { tenant: tenant(tenant_name), ..Caller::open(Proof::Open) }
}

fn by<'a>(caller: &'a Caller, key: Option<&str>) -> By<'a> {
    let key = key.map(|key| RequestKey {
        tenant: caller.tenant.clone(),
        subject: caller.subject.clone(),
        operation: "create_definition",
        key: Digest::of(key.as_bytes()),
        body: Digest::of(b"body"),
    });
    By::Request { caller, key }
}

fn context(definition: &Definition, call: u64) -> ToolContext {
    ToolContext {
        run: RunKey { tenant: Tenant::default_tenant(), run: RunId::from_bytes([7; 16]) },
        call,
        root: RunId::from_bytes([7; 16]),
        user: "ann".parse().expect("a user"),
        depth: 0,
        definition: Arc::new(definition.clone()),
        hosts: definition.hosts.clone().into(),
        volumes: Arc::new(VolumeTable::default()),
        redactor: Arc::new(Redactor::new([SECRET])),
        evidence: None,
        woken: None,
        progress: Arc::new(()),
        began: drawloom_contract::time::Timestamp::from_millis(0),
    }
}

fn create(name: &str, source: Value) -> Create {
    let kind = DefinitionKind::Agent;
    Create { kind, name: name.into(), source, description: None, promote: rules::Promote::Yes }
}

fn fork(from: &str, name: Option<&str>, changes: Value) -> Fork {
    let (kind, name) = (DefinitionKind::Agent, name.map(str::to_owned));
    Fork { kind, from: from.into(), name, changes, description: None, promote: rules::Promote::No }
}

fn promote(name: &str, version: u32) -> Promote {
    Promote { kind: DefinitionKind::Agent, name: name.into(), version }
}

fn retire(name: &str, version: Option<u32>) -> Retire {
    Retire { kind: DefinitionKind::Agent, name: name.into(), version, retired: true }
}

fn agent(definitions: &RuntimeDefinitions, name: &str) -> Option<Arc<Definition>> {
    definitions.layers().find(&Tenant::default_tenant(), &name.parse().expect("a name"))
}

fn unusable(definitions: &RuntimeDefinitions, name: &str) -> Option<String> {
    definitions.layers().unusable(&Tenant::default_tenant(), &name.parse().expect("a name"))
}

#[tokio::test]
async fn versions_count_up_the_same_content_is_one_version_and_new_runs_use_the_active_one() {
    let fixture = Fixture::new();
    let (definitions, ann) = (fixture.start().await, caller("default"));
    let by = by(&ann, None);
    let first = json!({ "system_prompt": "One.", "tools": ["Memory"], "memory_scopes": ["user"] });
    let made = definitions.create(create("writer", first.clone()), &by).await.expect("it fits the grant");
    assert_eq!((&made["def_id"], &made["promoted"], &made["active"]), (&json!("writer@1"), &json!(true), &json!(true)));
    let used = agent(&definitions, "writer").expect("usable at once");
    assert_eq!((used.system_prompt.as_str(), used.version), ("One.", Some(1)));
    assert_eq!(used.volumes, Vec::<String>::new(), "the default volume is not granted");
    // What equals a default, and another spelling, is the same content.
    let mut same = first;
    same["max_iterations"] = 16.into();
    let again = definitions.create(create("writer", same), &by).await.expect("it fits");
    assert_eq!((&again["version"], &again["deduplicated"]), (&json!(1), &json!(true)));
    let forked = definitions.fork(fork("writer", None, json!({ "system_prompt": "Two." })), &by).await.expect("a fork");
    assert_eq!(
        (&forked["version"], &forked["parent"], &forked["active"]),
        (&json!(2), &json!("writer@1"), &json!(false))
    );
    assert_eq!(agent(&definitions, "writer").expect("it is there").version, Some(1), "a fork is not promoted");
    definitions.promote(promote("writer", 2), &by).await.expect("it fits");
    let used = agent(&definitions, "writer").expect("it is there");
    assert_eq!((used.system_prompt.as_str(), used.version), ("Two.", Some(2)));
    let diff = definitions.diff(&ann.tenant, DefinitionKind::Agent, "writer@1", "writer").await.expect("two versions");
    let text = diff["diff"].as_str().expect("a text");
    assert!(text.contains("-system_prompt: \"One.\"") && text.contains("+system_prompt: \"Two.\""), "{text}");
    // Retired: no new runs, and no promotion.
    let retired = definitions.retire(retire("writer", None), &by).await.expect("the active one");
    assert!(retired["warnings"][0].as_str().is_some_and(|text| text.contains("no active version")), "{retired}");
    assert!(agent(&definitions, "writer").is_none());
    assert!(unusable(&definitions, "writer").is_some_and(|reason| reason.contains("promote one")));
    let refused = definitions.promote(promote("writer", 2), &by).await.expect_err("it is retired");
    assert_eq!(refused.code(), "version_retired");
    definitions.promote(promote("writer", 1), &by).await.expect("the other one");
    assert_eq!(agent(&definitions, "writer").expect("it is there").version, Some(1));
    // Another start has the same.
    let restarted = fixture.start().await;
    assert_eq!(agent(&restarted, "writer"), agent(&definitions, "writer"));
}

#[tokio::test]
async fn a_request_that_is_made_again_gets_its_first_answer() {
    let fixture = Fixture::new();
    let (definitions, ann) = (fixture.start().await, caller("default"));
    let source = json!({ "tools": [] });
    let first = definitions.create(create("a", source.clone()), &by(&ann, Some("k"))).await.expect("made");
    definitions.create(create("a", json!({ "tools": ["Context"] })), &by(&ann, None)).await.expect("another version");
    let again = definitions.create(create("a", source), &by(&ann, Some("k"))).await.expect("the first answer");
    assert_eq!(again, first);
    assert_eq!(agent(&definitions, "a").expect("it is there").version, Some(2), "the repeat promoted nothing");
    let coder = agent(&definitions, "coder").expect("of the config");
    let context = context(&coder, 9);
    let call = By::Call { context: &context, definition: &coder };
    let made = definitions.create(create("helper", json!({ "tools": [] })), &call).await.expect("made");
    let repeated = definitions.create(create("helper", json!({ "tools": [] })), &call).await.expect("made");
    assert_eq!((&made["deduplicated"], repeated), (&json!(false), made.clone()));
}

#[tokio::test]
async fn many_writers_of_one_name_lose_no_version() {
    let fixture = Fixture::new();
    let definitions = fixture.start().await;
    let made = (0..24).map(|number| {
        let definitions = definitions.clone();
        tokio::spawn(async move {
            let ann = caller("default");
            let source = json!({ "system_prompt": format!("Number {number}."), "tools": [] });
            definitions.create(create("busy", source), &by(&ann, None)).await.expect("made")["version"].as_u64()
        })
    });
    let mut versions: Vec<u64> = futures::future::join_all(made)
        .await
        .into_iter()
        .map(|version| version.expect("no panic").expect("a number"))
        .collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=24).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_name_of_the_config_is_refused_but_its_agent_can_be_forked_within_the_grant() {
    let mut fixture = Fixture::new();
    let definitions = fixture.start().await;
    let ann = caller("default");
    let refused = definitions.create(create("lead", json!({})), &by(&ann, None)).await.expect_err("of the config");
    assert_eq!(
        (refused.code(), refused.kind()),
        ("agent_yaml_immutable", drawloom_contract::failure::FailureKind::Conflict)
    );
    let wide = fork("coder", Some("mine"), json!({}));
    let refused = definitions.fork(wide.clone(), &by(&ann, None)).await.expect_err("it has Bash");
    let text = refused.to_string();
    assert_eq!(refused.code(), "definition_exceeds_maker");
    for part in [
        "tools: Read",
        "tools: Bash",
        "tools: AgentDef",
        "volumes: work",
        "definitions.grant.tools",
        "definitions: agent",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let narrow = json!({ "tools": ["Memory"], "volumes": [], "definitions": null, "agents": [] });
    let made = definitions.fork(fork("coder", Some("mine"), narrow), &by(&ann, None)).await.expect("it fits");
    assert_eq!(made["parent"], "coder@config");
    fixture.config.grant = serde_json::from_value(json!({
        "tools": ["Read", "Bash", "Mem*", "AgentDef"], "volumes": ["work"], "definitions": ["agent", "skill"],
    }))
    .expect("a grant");
    let definitions = fixture.start().await;
    definitions.fork(wide, &by(&ann, None)).await.expect("the operator grants it");
    let verified = Verify {
        kind: DefinitionKind::Agent,
        name: "x".into(),
        source: Some(json!({ "tools": ["HTTP", "Nonsense"], "hosts": ["a.example"], "model": "none" })),
        version: None,
        content_sha256: None,
    };
    let report = definitions.verify(verified, &by(&ann, None)).await.expect("a report");
    assert_eq!(report["valid"], false);
    assert_eq!(report["problems"].as_array().map(Vec::len), Some(2), "{report}");
    assert_eq!(report["problems"][1]["path"], "tools[1]", "{report}");
    assert!(report["excess"].as_array().is_some_and(|excess| excess.len() >= 2), "{report}");
    assert!(agent(&definitions, "x").is_none(), "nothing was written");
}

#[tokio::test]
async fn an_agent_gives_only_what_it_has_and_changes_only_what_it_made() {
    let fixture = Fixture::new();
    let (definitions, ann) = (fixture.start().await, caller("default"));
    let coder = agent(&definitions, "coder").expect("of the config");
    let context = context(&coder, 1);
    let call = By::Call { context: &context, definition: &coder };
    let child = json!({ "tools": ["Bash", "Memory"], "volumes": ["work"], "memory_scopes": ["agent"] });
    let made = definitions.create(create("helper", child), &call).await.expect("it is within");
    assert_eq!((&made["bounded_by"], &made["maker"]["agent"]), (&json!("coder"), &json!("coder")));
    assert!(made["warnings"].to_string().contains("max_iterations is not set: 8"), "{made}");
    assert_eq!(agent(&definitions, "helper").expect("made").max_iterations, 8);
    let next = |call: u64| super::tests::context(&coder, call);
    for (number, (source, gate)) in [
        (json!({ "tools": ["Mem*", "Context"] }), "tools: Context"),
        (json!({ "tools": [], "memory_scopes": ["user"] }), "memory_scopes: user"),
        (json!({ "tools": [], "agents": ["lead"] }), "agents: lead"),
        (json!({ "tools": [], "max_iterations": 9 }), "max_iterations: 9"),
        (json!({ "tools": [], "hosts": ["*"] }), "hosts: *"),
    ]
    .into_iter()
    .enumerate()
    {
        let context = next(10 + number as u64);
        let call = By::Call { context: &context, definition: &coder };
        let refused = definitions.create(create("wide", source), &call).await.expect_err(gate);
        assert!(refused.to_string().contains(gate), "{refused}");
    }
    // What it leaves out is kept with the version: read again, it has no more than its maker had.
    let kept = definitions.get(&ann.tenant, DefinitionKind::Agent, "helper", None).await.expect("it is there");
    assert_eq!(kept["source"]["max_iterations"], 8, "{kept}");
    // A caller's agent is not this agent's to change, and the other way round it is.
    definitions.create(create("theirs", json!({ "tools": [] })), &by(&ann, None)).await.expect("made");
    let context = next(20);
    let call = By::Call { context: &context, definition: &coder };
    let refused = definitions.create(create("theirs", json!({})), &call).await.expect_err("a caller made it");
    assert_eq!(refused.code(), "not_the_owner");
    definitions.retire(retire("helper", None), &by(&ann, None)).await.expect("callers may");
}

#[tokio::test]
async fn an_agent_of_runtime_bounds_what_it_makes_also_after_a_restart() {
    let fixture = Fixture::new();
    let definitions = fixture.start().await;
    let coder = agent(&definitions, "coder").expect("of the config");
    let first = context(&coder, 1);
    let by_coder = By::Call { context: &first, definition: &coder };
    let source = json!({ "tools": ["AgentDef"], "definitions": ["agent"], "max_iterations": 3, "volumes": [] });
    definitions.create(create("helper", source), &by_coder).await.expect("within");
    let helper = agent(&definitions, "helper").expect("made");
    let second = context(&helper, 2);
    let by_helper = By::Call { context: &second, definition: &helper };
    let refused =
        definitions.create(create("bash", json!({ "tools": ["Bash"] })), &by_helper).await.expect_err("coder has it");
    assert!(refused.to_string().contains("tools: Bash"), "{refused}");
    let third = context(&helper, 3);
    let by_helper = By::Call { context: &third, definition: &helper };
    let made = definitions.create(create("small", json!({ "tools": [] })), &by_helper).await.expect("within");
    assert_eq!(made["bounded_by"], "coder", "{made}");
    for definitions in [&definitions, &fixture.start().await] {
        let small = agent(definitions, "small").expect("made");
        assert_eq!(
            (small.max_iterations, small.volumes.len()),
            (3, 0),
            "no more than its maker, which has less than coder"
        );
    }
}

#[tokio::test]
async fn teams_have_what_is_defined_at_runtime_and_nothing_that_is_not_granted() {
    let mut fixture = Fixture::new();
    let (definitions, ann) = (fixture.start().await, caller("default"));
    let team = |definitions: &RuntimeDefinitions, name: &str| -> Vec<String> {
        let found = agent(definitions, name).expect("it is there");
        found.team.as_ref().expect("a team").iter().map(|mate| mate.name.to_string()).collect()
    };
    let all = json!({ "tools": [], "agents": ["*"] });
    let made = definitions.create(create("one", all.clone()), &by(&ann, None)).await.expect("made");
    assert!(
        made["warnings"].to_string().contains("does not include these agents of the config: coder, lead"),
        "{made}"
    );
    definitions.create(create("two", json!({ "tools": [] })), &by(&ann, None)).await.expect("made");
    assert_eq!(team(&definitions, "one"), ["one", "two"]);
    assert_eq!(team(&definitions, "lead"), ["coder", "lead", "one", "two"]);
    let named = definitions.create(create("bad", json!({ "agents": ["coder"] })), &by(&ann, None)).await;
    assert!(named.expect_err("of the config").to_string().contains("agents: coder"));
    // What an agent of the config made may have more than the grant: agents of callers cannot reach it.
    let coder = agent(&definitions, "coder").expect("of the config");
    let context = context(&coder, 1);
    let call = By::Call { context: &context, definition: &coder };
    definitions.create(create("helper", json!({ "tools": ["Bash"] })), &call).await.expect("made");
    assert_eq!(team(&definitions, "one"), ["one", "two"]);
    assert_eq!(team(&definitions, "coder"), ["helper"]);
    // Another tenant has none of it.
    let other = definitions.layers().list(&tenant("other"));
    assert_eq!(other.iter().map(|agent| agent.name.to_string()).collect::<Vec<_>>(), ["coder", "lead"]);
    fixture.config.grant.agents = vec!["coder".into()];
    assert_eq!(team(&*fixture.start().await, "one"), ["coder", "one", "two"]);
}

#[tokio::test]
async fn a_changed_config_narrows_what_was_made_and_never_stops_a_start() {
    let mut fixture = Fixture::new();
    fixture.config.grant =
        serde_json::from_value(json!({ "tools": ["Read", "Memory"], "volumes": ["work"] })).expect("a grant");
    let ann = caller("default");
    let definitions = fixture.start().await;
    let reader = json!({ "tools": ["Read", "Memory"], "volumes": ["work"], "memory_scopes": ["user"] });
    definitions.create(create("reader", reader), &by(&ann, None)).await.expect("granted");
    let pinned = json!({ "provider": "script", "model": "special", "tools": [] });
    definitions.create(create("pinned", pinned), &by(&ann, None)).await.expect("granted");
    // The operator takes the file tools back.
    fixture.config = DefinitionsConfig::default();
    let narrowed = fixture.start().await;
    let found = agent(&narrowed, "reader").expect("it can still run");
    assert_eq!((found.tools.join(","), found.volumes.len()), ("Memory".to_owned(), 0));
    let shown = narrowed.get(&ann.tenant, DefinitionKind::Agent, "reader", None).await.expect("it is there");
    assert!(shown["warnings"].to_string().contains("tools: Read was removed"), "{shown}");
    assert!(
        narrowed.layers().remarks().iter().any(|(.., name, text)| name == "reader" && text.contains("volumes: work"))
    );
    // A name that the config takes is the config's; a provider that is gone leaves its agents unusable.
    fixture.agents["reader"] = json!({ "system_prompt": "Mine.", "tools": [] });
    fixture.agents["lead"]["provider"] = json!("other");
    fixture.agents["lead"]["model"] = json!("m");
    fixture.agents["coder"]["provider"] = json!("other");
    fixture.agents["coder"]["model"] = json!("m");
    fixture.providers = vec!["other".into()];
    let changed = fixture.start().await;
    assert!(unusable(&changed, "pinned").is_some_and(|reason| reason.contains("unknown provider")));
    assert!(agent(&changed, "pinned").is_none());
    let listed = changed.list(&ann.tenant, &ListAsked::default()).await.expect("a list");
    let row = |name: &str| {
        let rows = listed["definitions"].as_array().expect("rows");
        rows.iter().find(|row| row["name"] == name).expect("a row").clone()
    };
    assert!(row("reader")["unusable"].to_string().contains("the config has an agent of this name"));
    assert!(row("pinned")["unusable"].to_string().contains("unknown provider"));
}

#[tokio::test]
async fn a_secret_in_a_source_is_masked_and_that_is_said() {
    let fixture = Fixture::new();
    let (definitions, ann) = (fixture.start().await, caller("default"));
    let source = json!({ "system_prompt": format!("Use {SECRET}."), "tools": [] });
    let made = definitions.create(create("a", source), &by(&ann, None)).await.expect("made");
    assert!(made["warnings"].to_string().contains("masked"), "{made}");
    let kept = definitions.get(&ann.tenant, DefinitionKind::Agent, "a", None).await.expect("it is there");
    assert!(!kept.to_string().contains(SECRET), "{kept}");
    assert!(!agent(&definitions, "a").expect("made").system_prompt.contains(SECRET));
    let named = definitions.create(create(SECRET, json!({})), &by(&ann, None)).await.expect_err("a secret");
    assert!(!named.to_string().contains(SECRET), "{named}");
}

#[tokio::test]
async fn limits_are_errors_with_a_name() {
    let mut fixture = Fixture::new();
    fixture.config.max_versions = 3;
    let (definitions, ann) = (fixture.start().await, caller("default"));
    let by = by(&ann, None);
    let large = json!({ "system_prompt": "x".repeat(MOST_SOURCE_BYTES), "tools": [] });
    assert_eq!(
        definitions.create(create("a", large), &by).await.expect_err("too large").code(),
        "definition_too_large"
    );
    for number in 0..3 {
        let source = json!({ "system_prompt": number.to_string(), "tools": [] });
        definitions.create(create("a", source), &by).await.expect("there is room");
    }
    let source = json!({ "system_prompt": "more", "tools": [] });
    assert_eq!(definitions.create(create("a", source), &by).await.expect_err("one too many").code(), "over_quota");
    fixture.config.max_versions = 4_000;
    fixture.config.max_bytes = 2_000;
    let definitions = fixture.start().await;
    let source = json!({ "system_prompt": "x".repeat(2_000), "tools": [] });
    assert_eq!(definitions.create(create("a", source), &by).await.expect_err("too many bytes").code(), "over_quota");
    let record = NameRecord {
        versions: (1..=rules::MOST_VERSIONS_OF_NAME as u32)
            .map(|version| version::Summary {
                version,
                digest: Digest::of(&version.to_be_bytes()),
                parent: None,
                created_at: Timestamp::from_millis(0),
                retired: false,
                authority: None,
            })
            .collect(),
        ..NameRecord::default()
    };
    let new = version::Summary { digest: Digest::of(b"new"), ..record.versions[0].clone() };
    let refused = rules::add(Some(&record), "a", &new, None, rules::Promote::No).expect_err("one too many");
    assert_eq!(DefinitionError::from(refused).code(), "too_many_versions");
    let files: BTreeMap<String, String> = (0..33).map(|number| (format!("{number}.md"), String::new())).collect();
    let skill = Create {
        kind: DefinitionKind::Skill,
        ..create("s", json!({ "description": "d", "instructions": "i", "files": files }))
    };
    assert_eq!(definitions.create(skill, &by).await.expect_err("too many files").code(), "invalid_definition");
}

#[tokio::test]
async fn what_another_writer_stored_is_seen() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.start().await, fixture.start().await);
    let following = tokio::spawn(other.clone().follow());
    let ann = caller("default");
    one.create(create("a", json!({ "tools": [] })), &by(&ann, None)).await.expect("made");
    let mut looks = 0;
    while agent(&other, "a").is_none() {
        looks += 1;
        assert!(looks < 10_000, "it is not told");
        tokio::task::yield_now().await;
    }
    following.abort();
}

#[tokio::test]
async fn a_prompt_file_cannot_be_read_at_runtime() {
    let (fixture, ann) = (Fixture::new(), caller("default"));
    let source = json!({ "system_prompt_file": "/etc/passwd" });
    let made = fixture.start().await.create(create("a", source), &by(&ann, None)).await;
    let refused = made.expect_err("a file of the server").to_string();
    assert!(refused.contains("cannot read files"), "{refused}");
}
