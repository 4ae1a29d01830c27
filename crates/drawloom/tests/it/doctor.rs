//! `doctor`: what is wrong here.

use crate::support::{Home, Ran};

/// The verdict on each thing, in order.
fn verdicts(ran: &Ran) -> Vec<String> {
    let report = ran.json();
    let checks = report["checks"].as_array().expect("checks").clone();
    checks
        .iter()
        // How far commands are confined is the kernel's affair.
        .filter(|check| check["what"] != "sandbox")
        .map(|check| format!("{} {}", check["verdict"].as_str().expect("one"), check["what"].as_str().expect("one")))
        .collect()
}

#[test]
fn a_healthy_place_passes() {
    let home = Home::new();
    let ran = home.run(&["doctor", "--json"]).exits(0);
    assert_eq!(
        verdicts(&ran),
        [
            "ok config",
            "ok data directory",
            "ok permissions",
            "ok store",
            "ok listen",
            "ok disk",
            "ok clock",
            "ok limits",
            "ok token"
        ]
    );
    home.run(&["run", "echo", "hi", "--embedded"]).exits(0);
    let ran = home.run(&["doctor", "--json"]).exits(0);
    assert!(verdicts(&ran).contains(&"ok runs".to_owned()), "{ran:?}");
}

#[test]
fn a_server_is_asked_how_it_is() {
    let home = Home::new();
    let _server = home.serve();
    let ran = home.run(&["doctor", "--json"]).exits(0);
    let verdicts = verdicts(&ran);
    for expected in ["ok server", "ok access", "ok load"] {
        assert!(verdicts.iter().any(|verdict| verdict == expected), "{verdicts:?}");
    }
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let home = Home::new();
    home.write("drawloom.yaml", "listen: 0.0.0.0:0\nagents: { a: { tols: [] } }\nproviders: { s: { driver: script } }\ndefaults: { provider: s, model: m }\n");
    let ran = home.run(&["doctor"]).exits(1);
    assert!(
        ran.stdout.contains(
            "FAIL  config          the config has 1 mistake\n                      drawloom.yaml:2:16: agents.a.tols"
        ),
        "{ran:?}"
    );
    home.write("drawloom.yaml", "listen: 0.0.0.0:0\n");
    let ran = home.run(&["doctor"]).exits(1);
    assert!(
        ran.stdout.contains(
            "FAIL  token           DRAWLOOM_TOKEN is not set, and 0.0.0.0:0 is not a loopback address: `drawloom serve`"
        ),
        "{ran:?}"
    );
}

#[test]
fn a_damaged_store_is_found() {
    let home = Home::new();
    home.run(&["run", "echo", "hi", "--embedded"]).exits(0);
    let file = home.data().join("drawloom.db");
    let mut bytes = std::fs::read(&file).expect("a store");
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..] {
        *byte = 0xa5;
    }
    std::fs::write(&file, bytes).expect("a writable store");
    let ran = home.run(&["doctor"]).exits(1);
    assert!(ran.stdout.contains("FAIL  store "), "{ran:?}");
    std::fs::write(&file, "something else, which is long enough to have a header of sixty-four bytes").expect("a file");
    let ran = home.run(&["doctor"]).exits(1);
    assert!(ran.stdout.contains("not a drawloom store"), "{ran:?}");
}

/// Tokens whose view shrinks are named, at the start and by the doctor; those that see everything, or are alone, are not.
#[test]
fn principals_that_see_only_their_own_runs_are_named() {
    let home = Home::new();
    home.write(
        "more.yaml",
        r#"principals:
  narrow: { subject: ann, scopes: ["runs:read", "runs:create"], token_env: ANN_TOKEN }
  wide: { subject: bob, scopes: ["runs:read", "runs:read:all"], token_env: BOB_TOKEN }
  blind: { subject: eve, scopes: [], token_env: EVE_TOKEN }
  alone: { tenant: acme, subject: cid, scopes: ["runs:read"], token_env: CID_TOKEN }
"#,
    );
    let command = |arguments: &[&str]| {
        let mut command = home.command(&[arguments, &["--config", "drawloom.yaml", "--config", "more.yaml"]].concat());
        for name in ["ANN", "BOB", "EVE", "CID"] {
            command.env(format!("{name}_TOKEN"), format!("{}-long-random-token-of-24", name.to_lowercase()));
        }
        command
    };
    let report = home.finish(&mut command(&["doctor", "--json"])).json();
    let checks = report["checks"].as_array().expect("checks");
    let named: Vec<&str> = checks
        .iter()
        .filter(|check| check["what"] == "principal" && check["verdict"] == "warn")
        .filter_map(|check| check["message"].as_str())
        .collect();
    assert_eq!(named, ["narrow: it sees and cancels only its own runs, not those of other users of its tenant"]);
    let mut server = home.serve_with(command(&["serve", "--json", "--log", "warn"]));
    let said = server.stop_and_read();
    let named: Vec<&str> = said.lines().filter(|line| line.contains("sees and cancels only its own runs")).collect();
    assert!(matches!(named[..], [line] if line.contains("narrow")), "{said}");
}

#[test]
fn long_lines_are_broken_and_indented_also_without_a_terminal() {
    let home = Home::new();
    for (width, most) in [(None, 120), (Some("72"), 72)] {
        let width: Vec<&str> = width.into_iter().flat_map(|width| ["--width", width]).collect();
        let ran = home.run(&[&["doctor"], &width[..]].concat()).exits(0);
        // A path is one word, which is never broken.
        for line in ran.stdout.lines().filter(|line| !line.contains("<home>")) {
            assert!(line.chars().count() <= most, "{line}");
        }
    }
}

/// The same fact has one line, and the report ends with what to do, failures first.
#[test]
fn the_report_ends_with_what_to_do_and_says_nothing_twice() {
    let home = Home::new();
    home.write(
        "drawloom.yaml",
        "listen: 0.0.0.0:0\nproviders: { anthropic: { driver: anthropic, api_key_env: ANTHROPIC_API_KEY } }\n\
         agents: { a: { provider: anthropic, model: claude-haiku-4-5, tools: [Read], agents: [], hosts: [], volumes: [] } }\n",
    );
    home.run(&["trust", "--yes"]).exits(0);
    let ran = home.run(&["doctor"]).exits(1);
    assert_eq!(ran.stdout.matches("ANTHROPIC_API_KEY is not set").count(), 1, "{}", ran.stdout);
    let (_, todo) = ran.stdout.split_once("What to do:\n").expect("a list");
    assert_eq!(
        todo,
        "  → set DRAWLOOM_TOKEN to a long random text, or write `listen: 127.0.0.1:8787`\n  \
         → fix drawloom.yaml:3:109: agent a lists the tool Read but `volumes` is empty, so the tool is not available (to allow\n    \
         it, write `volumes: [NAME]`)\n  \
         → set ANTHROPIC_API_KEY, in the environment or in a .env file beside the config\n"
    );
    let healthy = Home::new().run(&["doctor"]).exits(0);
    assert!(!healthy.stdout.contains("What to do"), "{}", healthy.stdout);
}
