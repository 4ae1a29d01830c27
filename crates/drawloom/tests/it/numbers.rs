//! Integers that do not fit in 64 bits are refused wherever JSON and YAML enter; those that fit are kept.

use serde_json::json;

use crate::support::Home;

const TOO_LARGE: &str = "123456789012345678901";
/// The largest that fits, which no float can hold.
const LARGEST: u64 = u64::MAX;

#[test]
fn integers_beyond_64_bits_are_refused_by_commands() {
    let home = Home::new();
    let list = format!("[1, {TOO_LARGE}]");
    home.write("input.json", &format!("{{ \"scope\": \"user\", \"key\": \"k\", \"value\": {TOO_LARGE} }}"));
    home.write("lines.jsonl", &format!("{{ \"key\": \"k\", \"value\": {{ \"n\": {TOO_LARGE} }} }}\n"));
    for arguments in [
        &["memory", "set", "k", TOO_LARGE][..],
        &["memory", "set", "k", &list],
        &["memory", "change", "k", "incr", TOO_LARGE],
        &["memory", "change", "k", "append-dedupe", TOO_LARGE],
        &["memory", "import", "lines.jsonl"],
        &["channels", "publish", "jobs", TOO_LARGE],
        &["defs", "fork", "echo", "--name", "x", "--set", &format!("max_iterations={TOO_LARGE}")],
        &["call", "set_memory", "scope=user", "key=k", &format!("value={TOO_LARGE}")],
        &["call", "set_memory", "--input", "input.json"],
    ] {
        let refused = home.run(arguments).exits(2);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains(TOO_LARGE) && said.contains("does not fit in 64 bits"), "{arguments:?}: {refused:#?}");
    }
    // Text, and what fits, is kept as it is.
    let embedded = |arguments: &[&str]| home.run(&[arguments, &["--embedded", "--json"]].concat()).exits(0);
    embedded(&["memory", "set", "text", TOO_LARGE, "--text"]);
    embedded(&["memory", "set", "largest", &LARGEST.to_string()]);
    let kept = |key: &str| home.run(&["memory", "get", key, "--json"]).exits(0).json()["value"].clone();
    assert_eq!((kept("text"), kept("largest")), (json!(TOO_LARGE), json!(LARGEST)));
}

#[test]
fn integers_beyond_64_bits_are_refused_by_the_config() {
    let home = Home::new();
    home.write("drawloom.yaml", &format!("limits: {{ max_runs: {TOO_LARGE} }}\n"));
    let refused = home.run(&["validate"]).exits(2);
    assert!(refused.stderr.contains(&format!("{TOO_LARGE} does not fit in 64 bits")), "{refused:#?}");
    assert!(refused.stderr.contains("drawloom.yaml:1:"), "{refused:#?}");
}

#[test]
fn integers_beyond_64_bits_are_refused_over_http_and_mcp() {
    let home = Home::new();
    let server = home.serve();
    let body = format!("{{ \"value\": [{TOO_LARGE}] }}");
    let answer = crate::gone::send(&server.url, "PUT", "/v1/memory/user/keys/k", &body);
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("number_too_large"), "{answer}");
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"set_memory","arguments":{{"scope":"user","key":"k","value":{TOO_LARGE}}}}}}}"#
    );
    let answer = crate::gone::send(&server.url, "POST", "/mcp", &message);
    assert!(answer.contains("\"id\":7") && answer.contains("does not fit in 64 bits"), "{answer}");
    // What fits comes back as it was.
    let body = format!("{{ \"value\": {LARGEST} }}");
    let answer = crate::gone::send(&server.url, "PUT", "/v1/memory/user/keys/k", &body);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let read = home.run(&["memory", "get", "k", "--json", "--url", &server.url]).exits(0).json();
    assert_eq!(read["value"], json!(LARGEST));
}
