use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::config;

mod walk;

/// The powers of a config whose folder is `<folder>`, with a `.env` beside it.
fn powers_with(yaml: &str, dotenv: &str) -> Vec<String> {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let folder = temporary.path().canonicalize().expect("a directory");
    std::fs::create_dir(folder.join("inside")).expect("a directory");
    std::os::unix::fs::symlink("/usr", folder.join("link")).expect("a link");
    if !dotenv.is_empty() {
        std::fs::write(folder.join(".env"), dotenv).expect("a file");
    }
    let file = folder.join("drawloom.yaml");
    let lookup = |name: &str| (name == "PLAIN").then(|| "plain".to_owned());
    let loaded = config::join_with_dotenv(vec![(file, yaml.as_bytes().to_vec())], &lookup).expect("no mistakes");
    let folder = folder.to_string_lossy().into_owned();
    Powers::of(&loaded).lines().map(|line| line.replace(&folder, "<folder>")).collect()
}

fn powers(yaml: &str) -> Vec<String> {
    powers_with(yaml, "")
}

/// A config with a value for every key that is a power.
const EVERYTHING: &str = r#"
env: [PLAIN]
listen: 0.0.0.0:8787
auth: { token_env: MY_SERVER }
principals:
  ann: { tenant: acme, subject: ann, scopes: ["runs:create", "runs:read"], token_env: ANN }
providers:
  usual: { driver: anthropic, api_key_env: ANTHROPIC_API_KEY }
  named: { driver: openai, base_url: "http://${PLAIN}.example/v1", api_key_env: MY_KEY }
  open: { driver: openai, base_url: "http://10.0.0.1" }
  script: { driver: script }
mcp_servers:
  local: { command: [sh, -c, "touch a\nb"], cwd: inside, env: { TOKEN: MY_TOKEN, LANG: LANG } }
  plain: { command: [server, "${PLAIN}"] }
  remote: { url: "https://mcp.example/", bearer_env: MY_TOKEN, headers_env: { X-Key: MY_KEY } }
  public: { url: "https://public.example/" }
agents:
  coder: { tools: ["Ba*"], hosts: ["*"] }
  tester: { tools: [Bash], system_prompt_file: /etc/passwd }
  reader: { tools: [Read], system_prompt_file: inside/prompt.md }
  delegate: { executor: cli, provider: mine }
volumes:
  inside: { path: inside }
  written: { path: inside, mode: rw }
  linked: { path: link }
  missing: { path: /nowhere/at/all }
skills: { directories: [inside] }
tools:
  bash: { enabled: true, network: host, env: [MY_TOKEN], readable_paths: [/usr], writable_paths: [/usr] }
  http: { hosts: ["*"], private_hosts: [localhost], ports: [80, 443, 8080] }
clis:
  mine: { preset: codex, program: /opt/codex, args: [--fast], env: [MY_KEY], unconfined: true, readable_paths: [/usr],
          writable_paths: [/usr], read_only_args: [-r], edit_args: [-e], skip_permissions_args: [-s] }
  other: { command: [other, "{prompt_file}"] }
definitions:
  grant: { tools: [Memory, Bash], agents: [coder], volumes: [inside], hosts: [example.com] }
  volumes_under: [{ path: inside, mode: rw }]
goals: { directories: [/usr], backend: mine, prompts: inside, unconfined: true, env: [MY_KEY], setup: "npm ci" }
"#;

#[test]
fn every_power_is_a_line() {
    insta::assert_snapshot!(powers(EVERYTHING).join("\n"));
}

#[test]
fn a_config_that_only_reads_its_own_folder_has_none() {
    let lines = powers(
        "listen: 127.0.0.1:0\nproviders: { script: { driver: script } }\nvolumes: { here: { path: . } }\n\
         agents: { a: { tools: [Bash, Read], hosts: [\"*\"] } }\n",
    );
    assert_eq!(lines, Vec::<String>::new());
}

#[test]
fn a_value_that_a_variable_fills_in_is_shown_with_its_origin() {
    let yaml = "env: [TOOL, URL, MY_KEY]\nmcp_servers: { a: { command: [sh, -c, \"${TOOL} ${MY_KEY}\"] } }\n\
                providers: { p: { driver: openai, base_url: \"${URL}\" } }\n";
    let lines =
        |tool: &str, url: &str, key: &str| powers_with(yaml, &format!("TOOL='{tool}'\nURL={url}\nMY_KEY={key}\n"));
    let before = lines("make test", "https://one.example", "sk-abcdefghij");
    let with_password = lines("make test", "https://ann:hunter2@one.example/v1", "sk-abcdefghij").join("\n");
    assert!(with_password.contains("sends prompts to ${URL}") && !with_password.contains("hunter2"), "{with_password}");
    insta::assert_snapshot!(before.join("\n"));
    for (changed, what) in [
        (lines("make evil", "https://one.example", "sk-abcdefghij"), "a program"),
        (lines("make test", "https://two.example", "sk-abcdefghij"), "an address"),
        (lines("make test", "https://one.example", "sk-abcdefghik"), "a secret"),
    ] {
        assert_ne!(before, changed, "{what}");
    }
}

#[test]
fn a_secret_is_named_and_what_could_hide_a_line_is_quoted() {
    let loaded = config::join(vec![("drawloom.yaml".into(), b"{}".to_vec())], &|_| None).expect("no mistakes");
    let secrets = vec![("hunter2hunter2".into(), "${KEY}".into())];
    let words = Words { loaded: &loaded, folder: PathBuf::new(), secrets };
    assert_eq!(words.text("https://h/?k=hunter2hunter2"), "https://h/?k=${KEY}");
    assert_eq!(words.text("a b"), r#""a b""#);
    assert_eq!(words.text(""), r#""""#);
    assert_eq!(words.text("a\u{1b}[2K\r\u{202e}b"), r#""a\u{1b}[2K\r\u{202e}b""#);
    assert_eq!(words.text("a (mcp_servers.b)"), r#""a (mcp_servers.b)""#);
}

#[test]
fn every_key_of_the_config_says_whether_it_is_a_power() {
    let (_, declared) = declared::made();
    assert_eq!(declared.mistakes, Vec::<String>::new());
    for power in &declared.powers {
        let shows_value = power.words.contains("{}");
        assert_eq!(shows_value, power.shown != Shown::Flag, "{}: {:?}", power.key, power.words);
    }
    insta::assert_snapshot!(
        declared.harmless.iter().map(|(key, reason)| format!("{key}: {reason}")).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn a_key_that_says_nothing_is_found_in_every_kind_of_section() {
    let silent = json!({ "type": "string" });
    let section =
        json!({ "type": "object", "properties": { "a": silent, "b": { "type": "string", "x-harmless": "a limit" } } });
    let mut schema = json!({
        "properties": {
            "plain": silent, "inside": section, "named": { "additionalProperties": { "$ref": "#/$defs/Section" } },
            "listed": { "items": { "anyOf": [{ "$ref": "#/$defs/Section" }, { "type": "null" }] } },
            "both": { "x-power": { "words": "does it" }, "x-harmless": "a limit" },
            "unknown": { "x-power": { "words": "does it", "when": "never" } },
        },
        "$defs": { "Section": section },
    });
    let found = declared::Declared::take_from(&mut schema);
    let keys: BTreeSet<&str> = found.mistakes.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(keys, ["both", "inside.a", "listed.*.a", "named.*.a", "plain", "unknown"].into());
    assert!(!schema.to_string().contains("x-"), "{schema}");
}
