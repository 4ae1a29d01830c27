//! How commands are confined, as operators see it: `doctor`, `validate`, the start of a server, a run's record.

use crate::support::Home;

const CONFIG: &str = "project/drawloom.yaml";

/// A project with an agent that has Bash, as the operator wrote `tools.bash` and the agent's `hosts`. The config is inside the
/// agent's volume, the data is not.
fn config(home: &Home, bash: &str, hosts: &str) -> String {
    let project = home.path().join("project");
    std::fs::create_dir_all(&project).expect("a directory");
    let project = project.display();
    format!(
        r#"
providers:
  script:
    driver: script
    options:
      rules:
        - when: {{ turn: 1 }}
          calls: [{{ tool: Bash, input: {{ command: "cat .env drawloom.yaml | head -c 20; echo x >> drawloom.yaml" }} }}]
        - when: {{}}
          text: "{{{{last}}}}"
defaults: {{ provider: script, model: demo }}
tools: {{ bash: {{ enabled: true, {bash} }} }}
volumes: {{ here: {{ path: {project}, mode: rw, default: true }} }}
agents:
  worker: {{ tools: [Bash], {hosts} }}
"#
    )
}

#[test]
fn doctor_says_what_this_machine_enforces() {
    let ran = Home::new().run(&["doctor", "--json"]);
    let report = ran.json();
    let checks = report["checks"].as_array().expect("checks").clone();
    let sandbox = checks.iter().find(|check| check["what"] == "sandbox").expect("a line about commands");
    let message = sandbox["message"].as_str().expect("a message");
    for named in ["namespaces", "Landlock", "seccomp", "limits"] {
        assert!(message.contains(named), "{message}");
    }
}

#[test]
fn a_server_without_a_token_does_not_start_when_commands_reach_the_network() {
    let home = Home::new();
    home.write("project/drawloom.yaml", &config(&home, "network: host", r#"hosts: ["*"]"#));
    let ran = home.run(&["serve", "--config", CONFIG, "--listen", "127.0.0.1:0", "--json"]).exits(2);
    let error = ran.json()["error"].clone();
    assert_eq!(error["code"], "bash_network_without_token", "{error}");
    assert!(error["message"].as_str().expect("a message").contains("worker"), "{error}");
    for (bash, hosts) in [("network: none", r#"hosts: ["*"]"#), ("network: host", r#"hosts: [example.com]"#)] {
        home.write("project/drawloom.yaml", &config(&home, bash, hosts));
        home.serve_with(home.command(&["serve", "--config", CONFIG, "--listen", "127.0.0.1:0", "--json"])).stop();
    }
}

#[test]
fn validate_says_when_hosts_do_not_hold_for_bash() {
    let home = Home::new();
    for (bash, said) in [("network: host", "its Bash has no network"), ("network: none", "tools.bash.network is none")]
    {
        home.write("project/drawloom.yaml", &config(&home, bash, "hosts: [example.com]"));
        let ran = home.run(&["validate", CONFIG]).exits(0);
        assert!(ran.stdout.contains(said) || ran.stderr.contains(said), "{ran:?}");
    }
}

/// The config that would be found first in the current directory need not exist; when it does, it is guarded.
#[test]
fn a_command_runs_where_the_current_directory_has_no_config_of_its_own() {
    let home = Home::new();
    let text = config(&home, "max_processes: 50", "hosts: []");
    std::fs::create_dir_all(home.path().join("project/conf")).expect("a directory");
    home.write("project/conf/a.yaml", &text.replace("cat .env drawloom.yaml | head -c 20", "echo started"));
    let run = || {
        let mut command = home.command(&["run", "--config", "conf/a.yaml", "worker", "go", "--embedded"]);
        home.finish(command.current_dir(home.path().join("project"))).exits(0).stdout
    };
    let said = run();
    assert!(said.contains("started"), "{said}");
    home.write("project/drawloom.yaml", "agents: {}\n");
    let said = run();
    assert!(said.contains("started") && said.contains("Read-only file system"), "{said}");
    assert_eq!(std::fs::read_to_string(home.path().join("project/drawloom.yaml")).expect("a file"), "agents: {}\n");
}

#[test]
fn a_command_reads_the_config_in_its_volume_but_cannot_change_it_or_see_its_env_and_the_record_says_how_it_ran() {
    let home = Home::new();
    let text = config(&home, "max_processes: 50", "hosts: []");
    home.write(CONFIG, &text);
    home.write("project/.env", "PLANTED=s3cret-in-env\n");
    let ran = home.run(&["run", "--config", CONFIG, "worker", "go", "--json"]).exits(0);
    let result = ran.json();
    let said = result["final_text"].as_str().expect("a text");
    assert!(said.contains("providers:") && !said.contains("s3cret"), "{said}");
    assert!(said.contains("Read-only file system") && said.contains("[exit code 2]"), "{said}");
    assert!(said.contains("agents cannot change the server's config files"), "{said}");
    assert_eq!(std::fs::read_to_string(home.path().join(CONFIG)).expect("the config"), text);
    let run = result["run_id"].as_str().expect("an id").to_owned();
    let journal = home.run(&["runs", "--config", CONFIG, "tail", &run, "--json"]).exits(0).stdout;
    assert!(journal.contains("no network"), "the record says how the command was confined: {journal}");
}
