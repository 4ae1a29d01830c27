//! Skills and volumes that are defined at runtime.

use drawloom_contract::{ids::RunId, tool::Holder};

use super::*;

#[tokio::test]
async fn a_skill_of_the_store_is_offered_and_loaded_like_one_of_a_folder() {
    use drawloom_contract::tool::{Step, Tool as _};
    let fixture = Fixture::new();
    let (definitions, ann) = (fixture.start().await, caller("default"));
    let source =
        json!({ "description": "How to weave.", "instructions": "Over, under.", "files": { "a.md": "More." } });
    let skill = |name: &str, source: Value| Create { kind: DefinitionKind::Skill, ..create(name, source) };
    definitions.create(skill("weave", source), &by(&ann, None)).await.expect("made");
    let bad = json!({ "description": "d", "instructions": "i", "files": { "../x": "" } });
    let refused = definitions.create(skill("bad", bad), &by(&ann, None)).await.expect_err("a path that leaves");
    assert_eq!(refused.code(), "invalid_definition");
    definitions
        .create(create("a", json!({ "tools": ["Skill"], "skills": ["weave"] })), &by(&ann, None))
        .await
        .expect("made");
    let unknown =
        definitions.create(create("b", json!({ "skills": ["waeve"] })), &by(&ann, None)).await.expect_err("a typo");
    assert!(unknown.to_string().contains("did you mean \"weave\"?"), "{unknown}");
    let used = agent(&definitions, "a").expect("made");
    assert_eq!(used.skills.get("weave").map(String::as_str), Some("How to weave."));
    let tool = crate::SkillTool::over(definitions.layers().clone(), crate::Commands::On);
    let call = async |input: Value| match tool.call(&context(&used, 1), input).await {
        Ok(Step::Done(result)) => result.text,
        other => format!("{other:?}"),
    };
    let loaded = call(json!({ "name": "weave" })).await;
    assert!(loaded.starts_with("Over, under.") && loaded.contains("a.md"), "{loaded}");
    assert_eq!(call(json!({ "name": "weave", "file": "a.md" })).await, "More.");
    // Retired, it is gone for new runs and for those that try to load it.
    let gone = Retire { kind: DefinitionKind::Skill, ..retire("weave", None) };
    definitions.retire(gone, &by(&ann, None)).await.expect("retired");
    assert!(call(json!({ "name": "weave" })).await.contains("no active definition has it"));
    assert!(agent(&definitions, "a").expect("it can run").skills.is_empty());
}

#[tokio::test]
async fn a_volume_stays_inside_the_folder_that_the_operator_allows() {
    use drawloom_contract::tool::{Mode, Volumes as _};
    let mut fixture = Fixture::new();
    let ann = caller("default");
    let volume = |path: &str, mode: &str| Create {
        kind: DefinitionKind::Volume,
        ..create("mine", json!({ "path": path, "mode": mode }))
    };
    let refused = fixture.start().await.create(volume("a", "rw"), &by(&ann, None)).await.expect_err("none allowed");
    assert!(refused.to_string().contains("definitions.volumes_under"), "{refused}");
    std::os::unix::fs::symlink(fixture.path("outside"), fixture.path("under/link")).expect("a link");
    let under = fixture.path("under");
    let parent = |mode| crate::VolumeParent { path: under.clone(), mode, tenant: Tenant::default_tenant() };
    fixture.config.volumes_under = vec![parent(Some(crate::VolumeMode::Rw))];
    let definitions = fixture.start().await;
    for (path, part) in [
        ("../outside", "leaves its folder"),
        ("link", "symlink"),
        ("none", "does not exist"),
        (&*fixture.path("outside"), "is outside the folders"),
    ] {
        let refused = definitions.create(volume(path, "rw"), &by(&ann, None)).await.expect_err(path);
        assert!(refused.to_string().contains(part), "{path}: {refused}");
    }
    let eve = caller("other");
    for path in ["a/b", "."] {
        let refused =
            definitions.create(volume(path, "rw"), &by(&eve, None)).await.expect_err("another tenant's folder");
        assert!(refused.to_string().contains("has no folder for tenant other"), "{refused}");
    }
    definitions.create(volume("a/b", "rw"), &by(&ann, None)).await.expect("inside");
    let source = json!({ "tools": [], "volumes": ["mine"] });
    definitions.create(create("user", source), &by(&ann, None)).await.expect("volumes of runtime are granted");
    let user = agent(&definitions, "user").expect("made");
    let (here, there) = (Tenant::default_tenant(), tenant("other"));
    let of = |tenant| Holder { tenant, root: RunId::from_bytes([0; 16]), definition: &user };
    let place = definitions.layers().locate(of(&here), Some("mine"), "x").expect("a place");
    assert_eq!((place.mode, place.volume.as_str()), (Mode::ReadWrite, "mine"));
    assert!(definitions.layers().locate(of(&there), Some("mine"), "x").is_err(), "of another tenant");
    // The operator makes the folder read-only.
    fixture.config.volumes_under = vec![parent(None)];
    let narrowed = fixture.start().await;
    let place = narrowed.layers().locate(of(&here), Some("mine"), "x").expect("a place");
    assert_eq!(place.mode, Mode::ReadOnly);
    let gone = Retire { kind: DefinitionKind::Volume, ..retire("mine", None) };
    narrowed.retire(gone, &by(&ann, None)).await.expect("retired");
    assert!(narrowed.layers().locate(of(&here), Some("mine"), "x").is_err());
    assert!(std::path::Path::new(&fixture.path("under/a/b")).is_dir(), "no file is deleted");
}

#[tokio::test]
async fn an_agent_defines_only_channels_that_it_can_use_and_changes_only_its_own() {
    let mut fixture = Fixture::new();
    fixture.agents["talker"] = json!({
        "tools": ["AgentDef"], "definitions": ["channel"],
        "channels": { "publish": ["talk/*"], "subscribe": ["talk/*", "inbox"] },
    });
    let (definitions, ann) = (fixture.start().await, caller("default"));
    let talker = agent(&definitions, "talker").expect("of the config");
    let kind = DefinitionKind::Channel;
    let channel = |name: &str, source: Value| Create { kind, ..create(name, source) };
    let mut number = 0;
    let mut call = async |create: Create| {
        number += 1;
        let context = context(&talker, number);
        definitions.create(create, &By::Call { context: &context, definition: &talker }).await
    };
    let made = call(channel("talk/a", json!({ "semantic": "broadcast" }))).await.expect("it may publish");
    assert_eq!((&made["bounded_by"], &made["def_id"]), (&json!("talker"), &json!("talk/a@1")));
    call(channel("inbox", json!({}))).await.expect("it may subscribe");
    for (name, source, part) in [
        ("other", json!({}), "channels: other is not allowed (allowed: talk/*, inbox;"),
        ("talk/b", json!({ "dead_letter": "other" }), "channels.publish: other is not allowed"),
        ("inbox2", json!({ "dead_letter": "other" }), "in 2 places"),
    ] {
        let refused = call(channel(name, source)).await.expect_err(part);
        assert_eq!(refused.code(), "definition_exceeds_maker", "{refused}");
        assert!(refused.to_string().contains(part), "{part}: {refused}");
    }
    // The dead letters of its channel must not come out in a channel of others.
    let by = by(&ann, None);
    definitions.create(channel("inbox.dead", json!({})), &by).await.expect("callers define all");
    let refused =
        call(channel("inbox", json!({ "max_messages": 1 }))).await.expect_err("letters to a caller's channel");
    assert!(refused.to_string().contains("channels.publish: inbox.dead is not allowed"), "{refused}");
    definitions.create(channel("talk/theirs", json!({})), &by).await.expect("callers define all");
    let refused = call(channel("talk/theirs", json!({ "max_messages": 1 }))).await.expect_err("a caller made it");
    assert_eq!(refused.code(), "not_the_owner");
    // The operator takes the gate away: what is there stays, and a version of it is not promoted again.
    fixture.agents["talker"]["channels"] = json!({ "publish": [] });
    let narrowed = fixture.start().await;
    assert!(narrowed.layers().channels_of(&ann.tenant).find("talk/a").is_some());
    let again = narrowed.promote(Promote { kind, ..promote("talk/a", 1) }, &by).await.expect_err("beyond its maker");
    assert_eq!(again.code(), "definition_exceeds_maker");
    let listed =
        narrowed.list(&ann.tenant, &ListAsked { kind: Some(kind), ..ListAsked::default() }).await.expect("names");
    let names: Vec<&str> =
        listed["definitions"].as_array().expect("rows").iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["inbox", "inbox.dead", "talk/a", "talk/theirs"]);
}
