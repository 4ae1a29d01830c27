//! Aggregates over versions, what they were made from, and names that are not known.

use super::*;

#[tokio::test]
async fn an_aggregate_sums_versions_with_their_parents_and_an_agent_all_it_has_had() {
    let case = Case::new();
    for (run, millis, given) in [(7, 1, vec![0.1, 0.3]), (8, 2, vec![0.5]), (9, 3, vec![0.9, 0.7])] {
        for score in &given {
            case.at(millis * 1_000);
            let dimensions = BTreeMap::from([("tone".to_owned(), *score / 2.0)]);
            case.submit(&ann(), None, run, Submission { dimensions, ..scored(*score) }).await.expect("submitted");
        }
    }
    case.call(9, 1, &["submit_self"], submit(9, 0.2, None)).await.expect("submitted");
    let whole = Visible::whole(Tenant::default_tenant());
    let newest = Of::Definition(case.evaluations.definition(whole.tenant(), "a@2").await.expect("a version"));
    let alone = case.evaluations.aggregate(&whole, &newest, false).await.expect("sums");
    assert_eq!(
        (&alone["count"], &alone["lineage_included"], alone["versions"].as_array().map(Vec::len)),
        (&json!(3), &json!(false), Some(1))
    );
    assert_eq!(
        alone["score"],
        json!({ "count": 3, "mean": 0.6, "median": 0.7, "min": 0.2, "max": 0.9, "latest": 0.2, "recent": [0.9, 0.7, 0.2] })
    );
    assert_eq!(
        (&alone["by_emitter_role"]["external"]["count"], &alone["by_emitter_role"]["self"]["mean"]),
        (&json!(2), &json!(0.2))
    );
    assert_eq!(alone["dimensions"]["tone"]["max"], 0.45);
    let all = case.evaluations.aggregate(&whole, &newest, true).await.expect("sums");
    let versions = |sums: &Value| -> Vec<(String, u64)> {
        let versions = sums["versions"].as_array().expect("versions").iter();
        versions
            .map(|it| (it["version"].as_str().unwrap_or_default().to_owned(), it["count"].as_u64().expect("a count")))
            .collect()
    };
    let expected = [("a@2", 3), ("a@1", 1), ("a@0", 2)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!((&all["count"], &all["lineage_included"], versions(&all)), (&json!(6), &json!(true), expected.to_vec()));
    assert_eq!((&all["versions"][0]["is_parent"], &all["versions"][2]["is_parent"]), (&json!(false), &json!(true)));
    let agent = Of::Agent("a".parse().expect("a name"));
    assert_eq!(versions(&case.evaluations.aggregate(&whole, &agent, false).await.expect("sums")), expected);
    let unknown = case.evaluations.definition(whole.tenant(), "a@9").await.expect_err("no such version");
    assert_eq!((unknown.code(), unknown.to_string()), ("unknown_definition", "unknown definition \"a@9\"".to_owned()));
}

#[tokio::test]
async fn a_parent_from_the_config_is_included_and_every_version_names_its_parent() {
    let case = Case::new();
    for (run, score) in [(7, 0.4), (8, 0.5), (10, 0.1)] {
        case.submit(&ann(), None, run, scored(score)).await.expect("submitted");
    }
    let whole = Visible::whole(Tenant::default_tenant());
    let of = Of::Definition(case.evaluations.definition(whole.tenant(), "a@1").await.expect("a version"));
    let all = case.evaluations.aggregate(&whole, &of, true).await.expect("sums");
    let versions: Vec<[&Value; 4]> = all["versions"]
        .as_array()
        .expect("versions")
        .iter()
        .map(|it| ["version", "parent", "is_parent", "count"].map(|key| &it[key]))
        .collect();
    let expected = [
        [json!("a@1"), json!("a@0"), json!(false), json!(1)],
        [json!("a@0"), json!("base@config"), json!(true), json!(1)],
        [json!("base@config"), json!(null), json!(true), json!(1)],
    ];
    assert_eq!(versions, expected.each_ref().map(|row| row.each_ref()), "{all}");
    assert_eq!((&all["count"], &all["versions"][2]["agent"]), (&json!(3), &json!("base")));
}

#[tokio::test]
async fn a_version_without_evaluations_is_empty_and_an_unknown_name_is_an_error() {
    let case = Case::new();
    case.submit(&ann(), None, 10, scored(0.5)).await.expect("submitted");
    let whole = Visible::whole(Tenant::default_tenant());
    let meant = case.evaluations.definition(whole.tenant(), "a@5").await.expect("it exists");
    assert_eq!(meant, Meant::Version("a@5".into()));
    let listed = case.evaluations.list_for_definition(&whole, &meant, &all()).await.expect("a list");
    assert_eq!(listed, Listed::default());
    let empty = case.evaluations.aggregate(&whole, &Of::Definition(meant), true).await.expect("sums");
    assert_eq!((&empty["count"], &empty["def_id"]), (&json!(0), &json!("a@5")));
    let config = case.evaluations.definition(whole.tenant(), "base@config").await;
    assert_eq!(config, Ok(Meant::Definition(Digest::of(b"base"))));
    let agent = |name: &str| Of::Agent(name.parse().expect("a name"));
    let none = case.evaluations.aggregate(&whole, &agent("a"), false).await.expect("it is an agent");
    assert_eq!(none["count"], 0);
    let unknown = case.evaluations.aggregate(&whole, &agent("bsae"), false).await.expect_err("no agent");
    assert_eq!((unknown.code(), unknown.hint()), ("unknown_agent", Some("did you mean \"base\"?".into())));
    let unknown = case.evaluations.definition(whole.tenant(), "bsae@1").await.expect_err("no agent");
    assert_eq!((unknown.code(), unknown.hint()), ("unknown_definition", Some("did you mean \"base\"?".into())));
}

#[tokio::test]
async fn a_negative_zero_is_stored_as_zero_and_a_limit_out_of_range_is_refused() {
    let case = Case::new();
    let dimensions = BTreeMap::from([("tone".to_owned(), -0.0)]);
    let told = case.submit(&ann(), None, 1, Submission { dimensions, ..scored(-0.0) }).await.expect("submitted");
    assert_eq!(told["score"].to_string(), "0.0");
    let listed = case.list(1, all()).await.evaluations;
    assert!(listed[0].score.is_sign_positive() && listed[0].dimensions["tone"].is_sign_positive(), "{listed:?}");
    for limit in [0, 500] {
        let asked = json!({ "op": "list_for_run", "limit": limit });
        let refused = case.call(1, 1, &["read_any"], asked).await.expect_err("it is out of range");
        assert!(refused.to_string().contains(&format!("invalid limit {limit}: expected 1 to 200")), "{refused}");
    }
    let unknown = json!({ "op": "submit", "run_id": run_id(1), "score": 1, "dimension": {} });
    let refused = case.call(1, 2, &["submit_any"], unknown).await.expect_err("no such field").to_string();
    assert!(refused.contains("did you mean `dimensions`?"), "{refused}");
}
