//! What is reported about definitions: findings of lint, unknown names and versions, and what the config has.

use super::*;

fn create_channel(name: &str) -> Create {
    Create { kind: DefinitionKind::Channel, ..create(name, json!({})) }
}

fn verify(name: &str) -> Verify {
    Verify { kind: DefinitionKind::Agent, name: name.into(), source: None, version: None, content_sha256: None }
}

fn warnings(findings: impl IntoIterator<Item = Finding>) -> Vec<String> {
    let warnings = findings.into_iter().filter(|finding| finding.weight == Weight::Warning);
    warnings.map(|finding| finding.message).collect()
}

#[tokio::test]
async fn findings_about_agents_of_runtime_are_there_after_a_start_and_go_with_their_reason() {
    let fixture = Fixture::new();
    let (definitions, caller) = (fixture.start().await, caller("default"));
    let source = json!({ "tools": [], "channels": { "publish": ["talk"] } });
    let made = definitions.create(create("talker", source), &by(&caller, None)).await.expect("made");
    assert!(made["findings"].to_string().contains("no such channel"), "{made}");
    let definitions = fixture.start().await;
    let found = || definitions.layers().findings().into_iter();
    let named: Vec<_> = found().map(|(tenant, name, _)| (tenant.to_string(), name)).collect();
    assert!(named.contains(&("default".to_owned(), "talker".to_owned())), "{named:?}");
    assert!(warnings(found().map(|(_, _, finding)| finding)).iter().any(|text| text.contains("no such channel")));
    let shown = definitions.get(&caller.tenant, DefinitionKind::Agent, "talker", None).await.expect("it is there");
    assert!(shown["findings"].to_string().contains("no such channel"), "{shown}");
    definitions.create(create_channel("talk"), &by(&caller, None)).await.expect("made");
    assert_eq!(warnings(found().map(|(_, _, finding)| finding)), [""; 0]);
}

#[tokio::test]
async fn what_config_agents_name_may_be_defined_at_runtime() {
    let mut fixture = Fixture::new();
    fixture.agents["coach"] = json!({
        "tools": ["Agent"], "agents": ["coached/*", "none/*"], "volumes": [],
        "channels": { "publish": ["talk*"], "subscribe": ["other"] },
    });
    fixture.agents["coder"]["agents"] = json!([]);
    let definitions = fixture.start().await;
    let open = || warnings(definitions.layers().open_findings());
    let mentions = |word: &str| open().iter().filter(|text| text.contains(word)).count();
    assert_eq!(["coached/*", "none/*", "talk*", "other"].map(mentions), [1; 4], "{:?}", open());
    let (_, config, _) = Catalog::examine(&definitions.layers().boot.config.inputs());
    assert!(definitions.layers().open_findings().iter().all(|finding| config.contains(finding)));
    let caller = caller("default");
    definitions.create(create("coached/a", json!({})), &by(&caller, None)).await.expect("made");
    definitions.create(create_channel("talk"), &by(&caller, None)).await.expect("made");
    assert_eq!(["coached/*", "none/*", "talk*", "other"].map(mentions), [0, 1, 0, 1], "{:?}", open());
}

#[tokio::test]
async fn versions_of_config_agents_do_not_exist_and_hints_know_their_names() {
    let fixture = Fixture::new();
    let (definitions, caller) = (fixture.start().await, caller("default"));
    definitions.create(create("leading", json!({})), &by(&caller, None)).await.expect("made");
    let (tenant, kind) = (&caller.tenant, DefinitionKind::Agent);
    let told = |error: DefinitionError| (error.code(), error.to_string());
    let missing = "lead@7 does not exist: lead is defined in the config and has no versions".to_owned();
    let got = definitions.get(tenant, kind, "lead", Some(7)).await.expect_err("no versions");
    assert_eq!(told(got), ("unknown_version", missing.clone()));
    let compared = definitions.diff(tenant, kind, "lead@7", "lead").await.expect_err("no versions");
    assert_eq!(told(compared), ("unknown_version", missing.clone()));
    let forked = definitions.fork(fork("lead@7", Some("mine"), json!({})), &by(&caller, None)).await;
    assert_eq!(told(forked.expect_err("no versions")), ("unknown_version", missing));
    let forked = definitions.fork(fork("laed", Some("mine"), json!({})), &by(&caller, None)).await;
    let unknown = forked.expect_err("no such agent");
    assert_eq!((unknown.code(), unknown.hint()), ("unknown_definition", Some("did you mean \"lead\"?".into())));
}

#[tokio::test]
async fn an_agent_of_the_config_is_valid_and_deployed() {
    let fixture = Fixture::new();
    let (definitions, caller) = (fixture.start().await, caller("default"));
    let report = definitions.verify(verify("coder"), &by(&caller, None)).await.expect("a report");
    let fields = ["origin", "valid", "deployed", "matches", "problems", "excess", "current_def_id"];
    let expected =
        [json!("config"), json!(true), json!(true), json!(true), json!([]), json!([]), json!("coder@config")];
    assert_eq!(fields.map(|field| report[field].clone()), expected, "{report}");
    let got = definitions.get(&caller.tenant, DefinitionKind::Agent, "coder", None).await.expect("it is there");
    assert_eq!(report["content_sha256"], got["content_sha256"]);
    let other = Verify { content_sha256: Some("0".repeat(64)), ..verify("coder") };
    assert_eq!(definitions.verify(other, &by(&caller, None)).await.expect("a report")["matches"], false);
    // A source under its name would be refused.
    let source = Verify { source: Some(json!({ "tools": [] })), ..verify("coder") };
    assert_eq!(definitions.verify(source, &by(&caller, None)).await.expect("a report")["valid"], false);
}

#[tokio::test]
async fn a_new_name_needs_a_letter_or_digit_between_slashes() {
    let fixture = Fixture::new();
    let (definitions, caller) = (fixture.start().await, caller("default"));
    for name in [".", "..", "-", "../x", "a/../b", "a//b", "/a", "a/", "_"] {
        let refused = definitions.create(create(name, json!({})), &by(&caller, None)).await.expect_err(name);
        assert_eq!(refused.code(), "bad_name", "{name}");
        let forked = definitions.fork(fork("lead", Some(name), json!({ "tools": [] })), &by(&caller, None)).await;
        assert_eq!(forked.expect_err(name).code(), "bad_name", "{name}");
    }
    for name in ["folder/name", "v1.2", "_a", "a-b"] {
        definitions.create(create(name, json!({})), &by(&caller, None)).await.expect(name);
    }
}

#[test]
fn agents_are_told_of_the_tool_and_callers_of_operations() {
    let error = DefinitionError::NoVersion("a".into());
    assert!(error.hint().expect("a hint").contains("list_definitions"));
    let told = drawloom_contract::tool::ToolError::from(error).to_string();
    assert!(told.contains("op=list") && !told.contains("list_definitions"), "{told}");
}
