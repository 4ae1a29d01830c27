use super::*;

fn run() -> RunId {
    RunId::from_bytes([7; 16])
}

#[test]
fn an_outline_is_the_headings_or_the_edges_and_is_short() {
    assert_eq!(outline("# Top\ntext\n## Deep\nmore\n#no\n"), "1: # Top\n3: ## Deep");
    assert_eq!(outline("\nfirst\n2\n3\n4\n5\nlast\n"), "2: first\n3: 2\n4: 3\n5: 4\n7: last");
    let long = "# heading that is rather long, repeated\n".repeat(1_000);
    assert!(outline(&long).len() <= OUTLINE_BYTES + 8);
    assert!(outline(&"x".repeat(1 << 20)).len() <= OUTLINE_LINE + 16);
}

#[test]
fn errors_and_warnings_do_not_flood_an_answer_either() {
    let mut result: RunResult = serde_json::from_value(serde_json::json!({
        "run_id": run(), "agent_id": "a", "session_id": format!("s_{:032x}", 7), "agent": "a", "user_id": "u",
        "status": "failed", "usage": {}, "timings": { "accepted_at": "" }, "provider": "p", "model": "m",
        "root_run_id": run(), "depth": 0, "seq": 7,
        "error": { "code": "x", "message": "é".repeat(500_000), "hint": "h".repeat(500_000) },
        "warnings": (0..1000).map(|at| format!("warning {at} {}", "w".repeat(90))).collect::<Vec<_>>(),
    }))
    .expect("a result");
    fit(std::slice::from_mut(&mut result), 16_384);
    let text = serde_json::to_string(&result).expect("JSON");
    assert!(text.len() < 8 * 1024, "{} bytes", text.len());
    let error = result.error.expect("it failed");
    assert!(error.message.starts_with('é') && error.message.ends_with('…'), "{}", error.message);
    assert_eq!(result.warnings.last().map(String::as_str), Some("980 more warnings are in the journal"));
}
