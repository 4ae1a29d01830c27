//! `validate`, `doctor`, `models list` and `run` say the same of a provider: whether it can be called.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use serde_json::Value;

use crate::support::{Home, Ran};

/// A model API that refuses every key, so that a run which asks it fails at once. The thread ends with the test's process.
fn refusing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut head = [0; 16 * 1024];
            if stream.read(&mut head).is_ok() {
                let body = r#"{"error":{"message":"refused here"}}"#;
                let answer = format!(
                    "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                drop(stream.write_all(answer.as_bytes()));
            }
        }
    });
    format!("http://{address}")
}

/// What is expected of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// It is called, with or without a key.
    Called,
    /// Its variable must be set first.
    Disabled,
    /// The config is refused.
    Mistake,
}

/// The same provider over four commands.
fn walk(driver: &str, keys: &str, key: Option<&str>, expected: Expected) {
    let home = Home::new();
    home.write(
        "drawloom.yaml",
        &format!(
            "providers:\n  p: {{ driver: {driver}{keys} }}\ndefaults: {{ provider: p, model: m }}\n\
             agents: {{ a: {{ tools: [], agents: [], hosts: [] }} }}\n"
        ),
    );
    let run = |arguments: &[&str]| -> Ran {
        let mut command = home.command(arguments);
        key.map(|key| command.env("PROVIDER_KEY", key));
        home.finish(&mut command)
    };
    run(&["trust", "--yes"]);
    let case = format!("{driver}{keys}, key {key:?}");

    let validated = run(&["validate", "--json"]).json();
    let warned = |findings: &Value| {
        let all = findings.as_array().cloned().unwrap_or_default();
        all.iter().any(|finding| finding["weight"] == "warning" && finding["message"].to_string().contains("disabled"))
    };
    assert_eq!(validated["ok"] == true, expected != Expected::Mistake, "{case}: {validated}");
    assert_eq!(warned(&validated["findings"]), expected == Expected::Disabled, "{case}: {validated}");

    let doctor = run(&["doctor", "--json"]).json();
    let verdict = |what: &str| {
        let checks = doctor["checks"].as_array().expect("checks").clone();
        checks.into_iter().find(|check| check["what"] == what).map(|check| check["verdict"].clone())
    };
    assert_eq!(verdict("config") == Some("fail".into()), expected == Expected::Mistake, "{case}: {doctor}");
    assert_eq!(verdict("key") == Some("warn".into()), expected == Expected::Disabled, "{case}: {doctor}");

    let listed = run(&["models", "list", "--json"]);
    assert_eq!(listed.code == 0, expected != Expected::Mistake, "{case}: {listed:#?}");
    let missing = listed.json()["providers"][0]["key"] == "missing";
    assert_eq!(missing, expected == Expected::Disabled, "{case}: {listed:#?}");

    let ran = run(&["run", "a", "go", "--embedded"]);
    let is_called = ran.stderr.contains("refused here") || ran.code == 0;
    assert_eq!(is_called, expected == Expected::Called, "{case}: {ran:#?}");
    assert_eq!(ran.stderr.contains("has no API key"), expected == Expected::Disabled, "{case}: {ran:#?}");
}

#[test]
fn four_commands_agree_whether_a_provider_works() {
    use Expected::{Called, Disabled, Mistake};
    let own = format!(", base_url: {}", refusing());
    let (named, both) = (", api_key_env: PROVIDER_KEY", format!("{own}, api_key_env: PROVIDER_KEY"));
    for driver in ["anthropic", "openai", "deepseek"] {
        // At the driver's own address a key is needed. With a key it would be called, which a test must not do.
        walk(driver, named, None, Disabled);
        walk(driver, named, Some(""), Disabled);
        walk(driver, "", None, Mistake);
        walk(driver, &own, None, Called);
        walk(driver, &both, None, Called);
        walk(driver, &both, Some(""), Called);
        walk(driver, &both, Some("sk-1234567890"), Called);
    }
    walk("script", "", None, Called);
    walk("script", named, Some("sk-1234567890"), Mistake);
}
