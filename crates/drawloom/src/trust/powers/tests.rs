use super::*;
use crate::config;

fn powers(yaml: &str) -> Vec<String> {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let folder = temporary.path().canonicalize().expect("a directory");
    std::fs::create_dir(folder.join("inside")).expect("a directory");
    std::os::unix::fs::symlink("/usr", folder.join("link")).expect("a link");
    let file = folder.join("drawloom.yaml");
    let lookup = |name: &str| (name == "PLAIN").then(|| "plain".to_owned());
    let loaded = config::join(vec![(file, yaml.as_bytes().to_vec())], &lookup).expect("no mistakes");
    let folder = folder.to_string_lossy().into_owned();
    Powers::of(&loaded).lines().map(|line| line.replace(&folder, "<folder>")).collect()
}

#[test]
fn every_power_is_a_line() {
    let lines = powers(
        r#"
env: [PLAIN]
listen: 0.0.0.0:8787
providers:
  usual: { driver: anthropic, api_key_env: ANTHROPIC_API_KEY }
  named: { driver: openai, base_url: "http://${PLAIN}.example/v1", api_key_env: MY_KEY }
  open: { driver: openai, base_url: "http://10.0.0.1" }
  script: { driver: script }
mcp_servers:
  local: { command: [sh, -c, "touch a\nb"], cwd: inside, env: { TOKEN: MY_TOKEN, LANG: LANG } }
  plain: { command: [server] }
  remote: { url: "https://mcp.example/", bearer_env: MY_TOKEN, headers_env: { X-Key: MY_KEY } }
  public: { url: "https://public.example/" }
agents:
  coder: { tools: ["Ba*"], hosts: ["*"] }
  tester: { tools: [Bash], system_prompt_file: /etc/passwd }
  reader: { tools: [Read], system_prompt_file: inside/prompt.md }
volumes:
  inside: { path: inside }
  written: { path: inside, mode: rw }
  linked: { path: link }
  missing: { path: /nowhere/at/all }
tools:
  bash: { enabled: true, network: host, env: [MY_TOKEN], readable_paths: [/usr], writable_paths: [/usr] }
  http: { hosts: ["*"], private_hosts: [localhost] }
"#,
    );
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_config_that_only_reads_its_own_folder_has_none() {
    let lines = powers(
        "listen: 127.0.0.1:0\nproviders: { script: { driver: script } }\nvolumes: { here: { path: . } }\n\
         agents: { a: { tools: [Bash, Read] } }\ntools: { http: { private_hosts: [x] } }\n",
    );
    assert_eq!(lines, Vec::<String>::new());
}

#[test]
fn a_secret_is_named_and_what_could_hide_a_line_is_quoted() {
    let words = Words { folder: PathBuf::new(), secrets: vec![("hunter2hunter2".into(), "${KEY}".into())] };
    assert_eq!(words.text("https://h/?k=hunter2hunter2"), "https://h/?k=${KEY}");
    assert_eq!(words.text("a b"), r#""a b""#);
    assert_eq!(words.text(""), r#""""#);
    assert_eq!(words.text("a\u{1b}[2K\r\u{202e}b"), r#""a\u{1b}[2K\r\u{202e}b""#);
    assert_eq!(words.text("a (mcp_servers.b)"), r#""a (mcp_servers.b)""#);
}
