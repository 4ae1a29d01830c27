//! A definition gives no more than its maker has: what a token lacks, what a principal loses, versions without a maker.

use drawloom_contract::definition::MemoryScope;

use super::*;
use crate::{SkillTool, StoreTool, store_tools::STORE_TOOLS};

const ALL: [Scope; 8] = [
    Scope::DefinitionsRead,
    Scope::DefinitionsWrite,
    Scope::MemoryRead,
    Scope::MemoryWrite,
    Scope::ChannelRead,
    Scope::ChannelPublish,
    Scope::EvaluationsRead,
    Scope::EvaluationsWrite,
];

fn user(name: &str) -> UserId {
    name.parse().expect("a user")
}

fn principal(name: &str, scopes: &[Scope]) -> Caller {
    let scopes = scopes.to_vec();
    Caller { tenant: Tenant::default_tenant(), subject: user(name), scopes, proof: Proof::Principal }
}

impl Fixture {
    /// The same with these principals in its config, and no others.
    fn with(mut self, principals: &[&Caller]) -> Self {
        let known =
            principals.iter().map(|caller| (caller.tenant.clone(), caller.subject.clone(), caller.scopes.clone()));
        self.principals = known.collect();
        self
    }
}

/// The most that the default grant allows.
fn widest() -> Value {
    json!({
        "tools": ["Memory", "Context", "Skill"],
        "memory_scopes": ["agent", "user", "tenant", "run"],
        "channels": { "publish": ["*"], "subscribe": ["*"] },
        "evaluation_scopes": ["submit_self", "submit_children", "submit_siblings", "submit_any", "read_self", "read_any"],
    })
}

fn excess_of(refused: &DefinitionError) -> Vec<String> {
    match refused {
        DefinitionError::Excess { excess, .. } => {
            let mut gates: Vec<String> = excess.iter().map(|excess| excess.gate.clone()).collect();
            gates.dedup();
            gates
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_token_gives_only_what_its_scopes_allow() {
    let poor = principal("ann", &[Scope::DefinitionsWrite]);
    let rich = principal("bob", &ALL);
    let definitions = Fixture::new().with(&[&poor, &rich]).start().await;
    let refused = definitions.create(create("a", widest()), &by(&poor, None)).await.expect_err("no scopes");
    assert_eq!(refused.code(), "definition_exceeds_maker");
    assert_eq!(
        excess_of(&refused),
        ["memory_scopes", "channels.publish", "channels.subscribe", "evaluation_scopes"],
        "{refused}"
    );
    let text = refused.to_string();
    assert!(text.contains("it lacks memory:read, memory:write"), "{text}");
    // Every operation that makes a version asks the same.
    definitions.create(create("wide", widest()), &by(&caller("default"), None)).await.expect("the operator may");
    let forked = definitions.fork(fork("wide", Some("mine"), json!({})), &by(&poor, None)).await;
    assert_eq!(forked.expect_err("a fork").code(), "definition_exceeds_maker");
    let promoted = definitions.promote(promote("wide", 1), &by(&poor, None)).await;
    assert_eq!(promoted.expect_err("a promotion").code(), "definition_exceeds_maker");
    // Who sees only its own runs judges no others.
    let refused = definitions.create(create("b", widest()), &by(&rich, None)).await.expect_err("its own runs alone");
    assert_eq!(excess_of(&refused), ["evaluation_scopes"], "{refused}");
    let text = refused.to_string();
    assert!(text.contains("submit_any") && text.contains("read_any") && text.contains("runs:read:all"), "{text}");
    let mut own = widest();
    own["evaluation_scopes"] = json!(["submit_self", "read_self"]);
    definitions.create(create("b", own), &by(&rich, None)).await.expect("it fits");
    let made = agent(&definitions, "b").expect("made");
    assert!(made.serves(&user("bob")) && !made.serves(&user("ann")), "it acts for its maker alone");
    assert_eq!(made.visible(&Tenant::default_tenant()).owner(), Some(&user("bob")));
}

#[tokio::test]
async fn what_a_principal_loses_its_definitions_lose() {
    let ann = principal("ann", &ALL);
    let fixture = Fixture::new().with(&[&ann]);
    let source = json!({
        "tools": ["Memory"], "memory_scopes": ["user", "tenant"], "channels": { "publish": ["jobs"] },
        "evaluation_scopes": ["read_self"],
    });
    fixture.start().await.create(create("a", source.clone()), &by(&ann, None)).await.expect("it fits");
    let less = principal("ann", &[Scope::DefinitionsWrite, Scope::ChannelPublish]);
    let fixture = fixture.with(&[&less]);
    let definitions = fixture.start().await;
    let made = agent(&definitions, "a").expect("it can still run");
    assert_eq!(made.memory_scopes, Vec::<MemoryScope>::new());
    assert_eq!(made.gate("channels.publish"), ["jobs"]);
    assert_eq!(made.gate("evaluation_scopes"), [""; 0]);
    let remarks = definitions.layers().remarks();
    assert!(
        remarks.iter().any(|(_, _, name, text)| name == "a" && text.contains("memory_scopes: user")),
        "{remarks:?}"
    );
    // Without its principal it stops, and says what to do.
    let fixture = fixture.with(&[]);
    let definitions = fixture.start().await;
    let reason = unusable(&definitions, "a").expect("it stops");
    assert!(reason.contains("the principal of user ann") && reason.contains("defs promote a@1"), "{reason}");
    let remarks = definitions.layers().remarks();
    assert!(remarks.iter().any(|(_, _, name, text)| name == "a" && text.contains("cannot be used")), "{remarks:?}");
    // Who promotes it is its maker from then on.
    let verified =
        Verify { kind: DefinitionKind::Agent, name: "a".into(), source: None, version: None, content_sha256: None };
    let operator = caller("default");
    let answer = definitions.verify(verified, &by(&operator, None)).await.expect("verified");
    assert_eq!(answer["valid"], false, "{answer}");
    definitions.promote(promote("a", 1), &by(&operator, None)).await.expect("the operator may give it");
    let made = agent(&definitions, "a").expect("it runs again");
    assert!(made.serves(&user("bob")) && made.memory_scopes.len() == 2, "the operator acts for every user");
    assert_eq!(agent(&*fixture.start().await, "a"), Some(made));
    // Another principal with the same source makes a version of its own.
    let eve = principal("eve", &ALL);
    let definitions = fixture.with(&[&eve]).start().await;
    let again = definitions.create(create("a", source), &by(&eve, None)).await.expect("it fits");
    assert_eq!((&again["version"], &again["deduplicated"]), (&json!(2), &json!(false)));
    assert!(!agent(&definitions, "a").expect("made").serves(&user("bob")));
}

#[tokio::test]
async fn several_principals_of_one_user_give_what_all_have_that_define() {
    let wide = principal("ann", &ALL);
    let narrow = principal("ann", &[Scope::DefinitionsWrite, Scope::MemoryRead]);
    let reader = principal("ann", &[Scope::RunsRead]);
    let source = json!({ "tools": ["Memory"], "memory_scopes": ["user"] });
    let definitions = Fixture::new().with(&[&wide, &reader]).start().await;
    definitions.create(create("a", source.clone()), &by(&wide, None)).await.expect("only one may define");
    let definitions = Fixture::new().with(&[&wide, &narrow]).start().await;
    let refused = definitions.create(create("a", source), &by(&wide, None)).await.expect_err("the other has less");
    assert_eq!(excess_of(&refused), ["memory_scopes"]);
}

/// Takes out of the store what earlier versions of the program did not write.
async fn forget_authorities(fixture: &Fixture, forget_maker: bool) {
    let kind = DefinitionKind::Agent;
    let tenant = Tenant::default_tenant();
    let now = Timestamp::from_millis(1_000_000);
    for (key, fields) in [
        (version::name_key(&tenant, kind, "a"), ["authority"].as_slice()),
        (version::version_key(&tenant, kind, "a", 1), if forget_maker { &["maker"] } else { &[] }),
    ] {
        let mut value = fixture.values.find_value(&key, now).await.expect("a store").expect("kept").value;
        for field in fields {
            match value.get_mut("versions") {
                Some(versions) => versions[0].as_object_mut().expect("a summary").remove(*field),
                None => value.as_object_mut().expect("a version").insert((*field).to_owned(), json!({})),
            };
        }
        let value = Redactor::new([SECRET]).clean(value);
        let change = drawloom_contract::values::ValueChange::put(key, value, now, None);
        fixture.values.change(vec![change], None).await.expect("a store");
    }
}

#[tokio::test]
async fn versions_of_earlier_programs_are_bounded_by_their_stored_maker() {
    let ann = principal("ann", &ALL);
    let fixture = Fixture::new().with(&[&ann]);
    let source = json!({ "tools": ["Memory"], "memory_scopes": ["user"] });
    fixture.start().await.create(create("a", source.clone()), &by(&ann, None)).await.expect("it fits");
    forget_authorities(&fixture, false).await;
    let made = agent(&*fixture.start().await, "a").expect("its maker is stored");
    assert!(!made.serves(&user("bob")) && made.memory_scopes.len() == 1);
    let fixture = fixture.with(&[&principal("ann", &[Scope::DefinitionsWrite])]);
    assert_eq!(agent(&*fixture.start().await, "a").expect("it runs").memory_scopes, Vec::<MemoryScope>::new());
    let fixture = fixture.with(&[]);
    assert!(unusable(&*fixture.start().await, "a").is_some_and(|reason| reason.contains("user ann")));
    forget_authorities(&fixture, true).await;
    let definitions = fixture.start().await;
    let reason = unusable(&definitions, "a").expect("it stops");
    assert!(reason.contains("its maker is not known") && reason.contains("defs promote a@1"), "{reason}");
    let operator = caller("default");
    definitions.promote(promote("a", 1), &by(&operator, None)).await.expect("the operator becomes its maker");
    assert!(agent(&definitions, "a").is_some());
}

#[tokio::test]
async fn what_an_agent_defines_is_bounded_by_what_bounds_the_agent() {
    let ann = principal("ann", &ALL);
    let mut fixture = Fixture::new().with(&[&ann]);
    fixture.config.grant.tools.push("AgentDef".into());
    fixture.config.grant.definitions = vec![DefinitionKind::Agent];
    let definitions = fixture.start().await;
    let source = json!({
        "tools": ["Memory", "AgentDef"], "memory_scopes": ["user", "tenant"], "definitions": ["agent"],
    });
    definitions.create(create("maker", source), &by(&ann, None)).await.expect("it fits");
    let maker = agent(&definitions, "maker").expect("made");
    let mut in_run = context(&maker, 3);
    let below = json!({ "tools": ["Memory"], "memory_scopes": ["user", "tenant"] });
    let call = By::Call { context: &in_run, definition: &maker };
    definitions.create(create("below", below.clone()), &call).await.expect("it has that itself");
    assert!(!agent(&definitions, "below").expect("made").serves(&user("bob")));
    // In a run of another user it still acts for the maker of its maker.
    in_run = ToolContext { user: user("bob"), call: 4, ..in_run };
    let call = By::Call { context: &in_run, definition: &maker };
    definitions.create(create("for-bob", below.clone()), &call).await.expect("it has that itself");
    assert!(!agent(&definitions, "for-bob").expect("made").serves(&user("bob")));
    // An agent of the config, in a run of a principal, acts for that user.
    let coder = agent(&definitions, "coder").expect("of the config");
    let of_coder = ToolContext { user: user("ann"), ..context(&coder, 5) };
    let call = By::Call { context: &of_coder, definition: &coder };
    let narrow = json!({ "tools": ["Read"], "memory_scopes": ["agent"] });
    definitions.create(create("helper", narrow), &call).await.expect("it has that itself");
    let helper = agent(&definitions, "helper").expect("made");
    assert!(helper.serves(&user("ann")) && !helper.serves(&user("bob")));
    // What bounds them later bounds all of them.
    let fixture = fixture.with(&[&principal("ann", &[Scope::DefinitionsWrite])]);
    let definitions = fixture.start().await;
    for name in ["below", "for-bob", "maker"] {
        assert_eq!(agent(&definitions, name).expect("it runs").memory_scopes, Vec::<MemoryScope>::new(), "{name}");
    }
    let definitions = fixture.with(&[]).start().await;
    for name in ["below", "for-bob", "maker"] {
        assert!(unusable(&definitions, name).is_some_and(|reason| reason.contains("user ann")), "{name}");
    }
    assert!(agent(&definitions, "helper").is_some(), "its maker is in the config");
}

#[test]
fn every_gate_of_a_tool_says_what_a_token_needs() {
    let gates = STORE_TOOLS.iter().filter_map(|StoreTool { gate, .. }| gate.as_ref()).map(|gate| gate.key);
    let others = [drawloom_contract::gate::AGENTS.key, drawloom_contract::gate::HOSTS.key];
    let all: Vec<&str> = gates.chain(others).chain(["volumes", SkillTool::GATE.key]).collect();
    assert!(all.len() >= 8, "{all:?}");
    for gate in all {
        assert!(decides_gate(gate), "`{gate}`: add it to GATES or GRANT_ALONE in power.rs");
    }
}

#[tokio::test]
async fn names_of_the_program_cannot_be_defined() {
    let mut fixture = Fixture::new();
    let (definitions, operator) = (fixture.start().await, caller("default"));
    let by = by(&operator, None);
    for name in ["drawloom/model", "Drawloom/x", "draw-loom/x", "drawloom/a/b"] {
        for kind in DefinitionKind::ALL {
            let source = json!({});
            let made = definitions.create(Create { kind: *kind, ..create(name, source) }, &by).await;
            let refused = made.expect_err("it belongs to the program").to_string();
            assert!(refused.contains("reserved"), "{name}: {refused}");
        }
        let channel = definitions.create_channel(name, crate::channels::ChannelConfig::default(), &by).await;
        assert!(channel.expect_err("it belongs to the program").to_string().contains("reserved"), "{name}");
    }
    let forked = definitions.fork(fork("coder", Some("drawloom/mine"), json!({})), &by).await;
    assert!(forked.expect_err("it belongs to the program").to_string().contains("reserved"));
    fixture.agents["DrawLoom/x"] = json!({ "tools": [] });
    let operator = OperatorConfig {
        agents: serde_json::from_value(fixture.agents.clone()).expect("agents"),
        defaults: serde_json::from_value(json!({ "provider": "script", "model": "m" })).expect("a model"),
        channels: serde_json::from_value(json!({ "drawloom/jobs": {} })).expect("channels"),
        ..OperatorConfig::default()
    };
    let problems = Catalog::examine(&operator.inputs()).2;
    for name in ["DrawLoom/x", "drawloom/jobs"] {
        let is_told = problems
            .iter()
            .any(|problem| problem.at.iter().any(|part| part == name) && problem.message.contains("reserved"));
        assert!(is_told, "{name}: {problems:?}");
    }
}
