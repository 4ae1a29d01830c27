//! What a server gets of the environment, and where its secrets must not be.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::house::{Play, Remote, Wire};

const SECRET: &str = "canary-4711-of-the-secret";

/// Whether any file below holds the text.
fn holds(directory: &Path, text: &str) -> bool {
    fs::read_dir(directory).expect("a directory").any(|entry| {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => holds(&path, text),
            false => fs::read(&path).expect("a file").windows(text.len()).any(|part| part == text.as_bytes()),
        }
    })
}

#[test]
fn a_program_gets_only_the_variables_that_are_named_and_its_secret_is_nowhere_kept() {
    let play = Play::new(Wire::Stdio, &[])
        .set("env", json!({"SERVER_TOKEN": "OPERATORS_VALUE", "PLAIN": "OPERATORS_PLAIN"}))
        .variable("OPERATORS_VALUE", SECRET)
        .variable("OPERATORS_PLAIN", "nothing special")
        .variable("NOBODYS_BUSINESS", "keep out")
        .turn("environment", json!({}));
    let played = play.run();
    let got: Value = serde_json::from_str(played.texts()[0]).expect("the environment");
    let names: Vec<&str> = got.as_object().expect("an object").keys().map(String::as_str).collect();
    let expected = ["HOME", "LANG", "PATH", "PLAIN", "SERVER_TOKEN"];
    assert!(names.iter().all(|name| expected.contains(name)), "{names:?}");
    assert_eq!((&got["PLAIN"], &got["SERVER_TOKEN"]), (&json!("nothing special"), &json!("[redacted]")));
    assert!(!holds(&play.home.data(), SECRET));
    // The search would have found it.
    assert!(holds(&play.home.data(), "nothing special"));
}

#[test]
fn a_credential_reaches_its_server_and_nobody_else() {
    let remote = Remote::start(&["bearer=WANTED"], &[("WANTED", SECRET)]);
    let server = json!({"url": remote.url, "bearer_env": "MCP_BEARER"});
    let mut play = Play::new(Wire::Stdio, &[]).variable("MCP_BEARER", SECRET);
    play.config["mcp_servers"]["out"] = server;
    let play = play.turn("echo", json!({"text": SECRET}));
    let played = play.run();
    assert_eq!(played.texts(), ["[redacted]"]);
    assert!(!holds(&play.home.data(), SECRET));
}

#[test]
fn a_credential_that_is_wrong_or_missing_is_said() {
    let remote = Remote::start(&["bearer=WANTED"], &[("WANTED", SECRET)]);
    let mut play = Play::new(Wire::Stdio, &[]).variable("MCP_BEARER", "another-token");
    play.config["mcp_servers"]["out"] = json!({"url": remote.url, "bearer_env": "MCP_BEARER"});
    let warning = play.run().result["warnings"][0].clone();
    assert!(warning.as_str().is_some_and(|text| text.contains("credential rejected")), "{warning}");
    play.config["mcp_servers"]["out"]["bearer_env"] = "NOT_SET_HERE".into();
    let warning = play.run().result["warnings"][0].clone();
    let said = "NOT_SET_HERE, which holds its credential, is not set";
    assert!(warning.as_str().is_some_and(|text| text.contains(said)), "{warning}");
    let ran = play.finish(&["validate"]).exits(0);
    assert!(ran.stdout.contains("NOT_SET_HERE is not set; MCP server out is disabled"), "{ran:#?}");
}

#[test]
fn a_secret_is_masked_before_anything_is_cut_and_as_json_writes_it() {
    // No part of it can be a part of a random id.
    let odd = "canary \"zygote\" of \\ the secret";
    let half = "x".repeat(502);
    let play = Play::new(Wire::Stdio, &[])
        .set("max_output_bytes", json!(1_024))
        .set("env", json!({"SERVER_TOKEN": "OPERATORS_VALUE"}))
        .variable("OPERATORS_VALUE", odd)
        .turn("environment", json!({}))
        .turn("echo", json!({"text": format!("{half}{odd}{}", "y".repeat(2_000))}));
    let played = play.run();
    assert!(played.texts()[0].contains("\"SERVER_TOKEN\":\"[redacted]\""), "{played:#?}");
    assert!(played.texts()[1].starts_with(&format!("{half}[redacted]\n[truncated: ")), "{played:#?}");
    for part in ["canary", "zygote"] {
        assert!(!holds(&play.home.data(), part), "{part}");
    }
}

#[test]
fn a_secret_in_the_last_words_of_a_program_is_masked_before_they_are_cut() {
    let script = format!("printf '%s%s%s' {} \"$SERVER_TOKEN\" {} >&2; exit 7", "x".repeat(290), "y".repeat(900));
    let play = Play::new(Wire::Stdio, &[])
        .set("command", json!(["/bin/sh", "-c", script]))
        .set("env", json!({"SERVER_TOKEN": "OPERATORS_VALUE"}))
        .variable("OPERATORS_VALUE", SECRET);
    let warning = play.run().result["warnings"][0].to_string();
    assert!(warning.contains("xx[redacted]") && !warning.contains("canary"), "{warning}");
}

#[test]
fn a_token_in_place_of_a_name_is_refused_and_not_shown() {
    let token = format!("ghp_{}", "a".repeat(40));
    let play = Play::new(Wire::Stdio, &[]).set("env", json!({"GITHUB_TOKEN": token}));
    play.write();
    for command in [&["validate"][..], &["doctor"], &["run", "a", "x"]] {
        let ran = play.finish(command);
        assert!(!ran.stdout.contains("aaaaaaaa") && !ran.stderr.contains("aaaaaaaa"), "{ran:#?}");
    }
    let ran = play.finish(&["validate"]).exits(2);
    assert!(ran.stderr.contains("not the name of an environment variable"), "{ran:#?}");
}

#[test]
fn a_credential_that_no_header_can_carry_is_refused_and_not_shown() {
    let mut play = Play::new(Wire::Stdio, &[]).variable("MCP_BEARER", "canary\r\nX-Evil: 1");
    play.config["mcp_servers"]["out"] = json!({"url": "http://127.0.0.1:1/mcp", "bearer_env": "MCP_BEARER"});
    play.write();
    let ran = play.finish(&["validate"]).exits(2);
    assert!(ran.stderr.contains("a line break or another control character"), "{ran:#?}");
    assert!(!ran.stderr.contains("canary"), "{ran:#?}");
}

#[test]
fn a_secret_in_a_tools_schema_is_masked_before_a_remark_is_cut() {
    let play = Play::new(Wire::Stdio, &["list=leak"])
        .set("env", json!({"SERVER_TOKEN": "OPERATORS_VALUE"}))
        .variable("OPERATORS_VALUE", SECRET);
    let warnings = play.run().result["warnings"].to_string();
    assert!(warnings.contains("xx[redacted]") && !warnings.contains("canary"), "{warnings}");
}
