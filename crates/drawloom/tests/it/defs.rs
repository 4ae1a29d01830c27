//! Definitions made at runtime, as callers, agents and commands use them: real processes, one store.

use serde_json::{Value, json};

use crate::{
    mcp::client::{Client, Era},
    support::Home,
};

/// A scripted model, an agent that may define others, and one that may spawn all.
const CONFIG: &str = r#"
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - when: { agent: maker, turn: 1 }
          calls:
            - { tool: AgentDef, input: { op: create, name: "made/one", source: { description: Made., system_prompt: Mine., tools: [Memory], memory_scopes: [agent] } } }
            - { tool: AgentDef, input: { op: create, name: "made/two", source: { tools: [Bash, Context], hosts: ["*"] } } }
            - { tool: AgentDef, input: { op: create, name: "maker", source: { tools: [] } } }
        - { when: { agent: maker, turn: 2 }, calls: [{ tool: AgentDef, input: { op: verify, name: "made/one" } }] }
        - { when: { agent: maker, turn: 3 }, calls: [{ tool: Agent, input: { op: spawn, name: "made/one", prompt: "from its maker" } }] }
        - when: { agent: talker, turn: 1 }
          calls:
            - { tool: AgentDef, input: { op: create, kind: channel, name: "talk/one", source: { max_messages: 5 } } }
            - { tool: AgentDef, input: { op: create, kind: channel, name: other, source: {} } }
            - { tool: AgentDef, input: { op: create, kind: agent, name: "talk/agent", source: {} } }
        - { when: { agent: talker, turn: 2 }, calls: [{ tool: Channel, input: { op: publish, channel: "talk/one", value: hello } }] }
        - { when: { agent: talker }, text: "{{last}}" }
        - { when: { agent: lead, turn: 1 }, calls: [{ tool: Agent, input: { name: "{{prompt}}", prompt: "from lead" } }] }
        - { when: { agent: lead }, text: "{{last}}" }
        - { when: { agent: maker }, text: "{{last}}" }
        - { text: "said {{prompt}}" }
defaults: { provider: script, model: test }
agents:
  maker: { description: Makes., tools: [AgentDef, Agent, Memory], agents: ["made/*"], hosts: [], volumes: [], memory_scopes: [agent], definitions: [agent, skill] }
  talker: { description: Talks., tools: [AgentDef, Channel], agents: [], hosts: [], volumes: [], definitions: [channel], channels: { publish: ["talk/*"] } }
  lead: { description: Leads., tools: [Agent], agents: ["*"], hosts: [], volumes: [] }
"#;

fn home() -> Home {
    let home = Home::new();
    home.write("drawloom.yaml", CONFIG);
    home
}

const WRITER: &str =
    "description: Writes.\nsystem_prompt: |\n  Write.\n  Briefly.\ntools: [Memory]\nmemory_scopes: [user]\n";

#[test]
fn a_definition_is_created_used_changed_compared_and_retired_by_commands() {
    let home = home();
    home.write("writer.yaml", WRITER);
    let made = home.run(&["defs", "create", "writer", "writer.yaml"]).exits(0);
    assert_eq!(made.stdout, "writer@1: active: new runs use it\n");
    assert!(home.run(&["run", "writer", "one"]).exits(0).stdout.contains("said one"));
    assert!(
        home.run(&["run", "lead", "writer"]).exits(0).stdout.contains("said from lead"),
        "a config agent spawns it"
    );
    assert!(home.run(&["agents", "list"]).exits(0).stdout.contains("writer"));
    let forked =
        home.run(&["defs", "fork", "writer", "--set", "max_iterations=3", "--set", "system_prompt=Short.", "--json"]);
    let forked = forked.exits(0).json();
    assert_eq!(
        (&forked["def_id"], &forked["parent"], &forked["active"]),
        (&json!("writer@2"), &json!("writer@1"), &json!(false))
    );
    let diff = home.run(&["defs", "diff", "writer@1", "writer@2"]).exits(0).stdout;
    assert!(diff.contains("-  Briefly.") && diff.contains("+max_iterations: 3"), "{diff}");
    home.run(&["defs", "promote", "writer@2"]).exits(0);
    let listed = home.run(&["defs", "ls", "--json"]).exits(0).json();
    let row =
        |name: &str| listed["definitions"].as_array().expect("rows").iter().find(|row| row["name"] == name).cloned();
    assert_eq!(row("writer").map(|row| (row["active"].clone(), row["versions"].clone())), Some((json!(2), json!(2))));
    assert_eq!(row("lead").map(|row| row["origin"].clone()), Some(json!("config")));
    let table = home.run(&["defs", "ls", "writer"]).exits(0).stdout;
    assert!(table.contains("writer@1") && table.contains("active"), "{table}");
    // After a restart, and without a server, everything is as it was.
    home.run(&["stop"]).exits(0);
    let shown = home.run(&["defs", "show", "writer", "--json"]).exits(0).json();
    assert_eq!((&shown["version"], &shown["source"]["system_prompt"]), (&json!(2), &json!("Short.")));
    assert!(home.run(&["run", "writer", "two"]).exits(0).stdout.contains("said two"));
    let retired = home.run(&["defs", "retire", "writer"]).exits(0);
    assert!(retired.stderr.contains("no active version"), "{retired:?}");
    let refused = home.run(&["run", "writer", "three", "--json"]);
    assert!(refused.code != 0 && refused.stdout.contains("agent_unusable"), "{refused:?}");
    let again = home.run(&["defs", "promote", "writer@2", "--json"]);
    assert!(again.code != 0 && again.stdout.contains("version_retired"), "{again:?}");
    home.run(&["defs", "retire", "writer@2", "--undo"]).exits(0);
    home.run(&["defs", "promote", "writer@2"]).exits(0);
    assert!(home.run(&["run", "writer", "four"]).exits(0).stdout.contains("said four"));
}

#[test]
fn mistakes_and_excess_are_reported_all_at_once_with_what_to_write() {
    let home = home();
    home.write("bad.yaml", "system_promt: x\ntools: [Memry]\nmax_iterations: 0\n");
    let refused = home.run(&["defs", "create", "bad", "bad.yaml", "--json"]);
    assert_ne!(refused.code, 0);
    for part in ["invalid_definition", "did you mean system_prompt?", "max_iterations"] {
        assert!(refused.stdout.contains(part), "{part}: {}", refused.stdout);
    }
    home.write("wide.yaml", "tools: [Bash, Memory]\nhosts: ['*']\nagents: [lead]\n");
    let refused = home.run(&["defs", "create", "wide", "wide.yaml", "--json"]);
    for part in ["definition_exceeds_maker", "tools: Bash", "hosts: *", "agents: lead", "definitions.grant.tools"] {
        assert!(refused.stdout.contains(part), "{part}: {}", refused.stdout);
    }
    // Both at once: what can be read is compared with what the caller may give.
    home.write("both.yaml", "max_iterations: 0\ntools: [Bash, 7, Memry]\nhosts: ['*']\nprompt: x\n");
    let report = home.run(&["defs", "verify", "both", "both.yaml", "--json"]).exits(1).json();
    for part in ["max_iterations", "tools[1]", "prompt", "Memry"] {
        assert!(report["problems"].to_string().contains(part), "{part}: {report}");
    }
    let excess: Vec<(&str, &str)> = report["excess"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|excess| (excess["gate"].as_str().expect("text"), excess["asked"].as_str().expect("text")))
        .collect();
    assert!(excess.contains(&("tools", "Bash")) && excess.contains(&("hosts", "*")), "{report}");
    let verified = home.run(&["defs", "verify", "wide", "wide.yaml"]).exits(1).stdout;
    assert!(verified.contains("denied: tools: Bash") && verified.contains("would be refused"), "{verified}");
    assert!(!home.run(&["defs", "ls"]).exits(0).stdout.contains("wide"), "nothing was written");
    let immutable = home.run(&["defs", "create", "lead", "wide.yaml", "--json"]);
    assert!(immutable.stdout.contains("agent_yaml_immutable"), "{}", immutable.stdout);
    // The gate that a tool needs is named at once.
    home.write("gateless.yaml", "tools: [Memory]\n");
    let made = home.run(&["defs", "create", "gateless", "gateless.yaml", "--json"]).exits(0).json();
    assert!(made["findings"].to_string().contains("`memory_scopes` is empty"), "{made}");
}

#[test]
fn an_agent_defines_agents_within_its_own_power() {
    let home = home();
    let run = home.run(&["run", "maker", "go", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run").to_owned();
    let events = home.run(&["runs", "tail", &run, "--json"]).exits(0).stdout;
    for part in [
        "made/one@1",
        "definition_exceeds_maker",
        "tools: Bash",
        "agent_yaml_immutable",
        "current_def_id",
        "said from its maker",
    ] {
        assert!(events.contains(part), "{part}: {events}");
    }
    let shown = home.run(&["defs", "show", "made/one", "--json"]).exits(0).json();
    assert_eq!((&shown["maker"]["agent"], &shown["bounded_by"]), (&json!("maker"), &json!("maker")));
    assert!(home.run(&["run", "made/one", "hi"]).exits(0).stdout.contains("said hi"));
    // The operator takes memory from the maker: what it made has it no more, and a start says so.
    home.run(&["stop"]).exits(0);
    home.write("drawloom.yaml", &CONFIG.replace("tools: [AgentDef, Agent, Memory]", "tools: [AgentDef, Agent]"));
    let checked = home.run(&["doctor", "--json"]);
    assert!(
        checked.stdout.contains("agent made/one of tenant default: tools: Memory was removed"),
        "{}",
        checked.stdout
    );
    let listed = home.run(&["agents", "list", "--json"]).exits(0).json();
    let made = listed["agents"].as_array().expect("agents").iter().find(|agent| agent["name"] == "made/one").cloned();
    assert_eq!(made.expect("it can run")["tools"], json!([]));
    let shown = home.run(&["defs", "show", "made/one", "--json"]).exits(0).json();
    assert!(shown["warnings"].to_string().contains("tools: Memory was removed"), "{shown}");
}

#[test]
fn the_words_of_the_reference_are_answered_with_its_rows() {
    let home = home();
    let _server = home.serve();
    let call = |words: &[&str]| -> Value {
        let all: Vec<&str> = ["call", "agentdef"].into_iter().chain(words.iter().copied()).collect();
        home.run(&all).exits(0).json()
    };
    let overlay = r#"overlay={"max_iterations":50,"tools":["Context","Memory"],"memory_scopes":["user"],"system_prompt":"Answer."}"#;
    let made = call(&["op=create", "name=exp3-answerer", overlay, "description=Answers.", "idempotency_key=one"]);
    assert_eq!(
        (
            &made["def_id"],
            &made["version"],
            &made["parent_def_id"],
            &made["promoted"],
            &made["bootstrapped_from_static"]
        ),
        (&json!("exp3-answerer@1"), &json!(1), &json!(""), &json!(true), &json!(false))
    );
    assert_eq!(
        call(&["op=create", "name=exp3-answerer", overlay, "description=Answers.", "idempotency_key=one"]),
        made
    );
    let forked = call(&["op=fork", "name=exp3-answerer", r#"overlay={"max_iterations":40}"#]);
    assert_eq!((&forked["def_id"], &forked["promoted"]), (&json!("exp3-answerer@2"), &json!(false)));
    let promoted = call(&["op=promote", "def_id=exp3-answerer@2"]);
    assert_eq!((&promoted["name"], &promoted["promoted"]), (&json!("exp3-answerer"), &json!(true)));
    let listed = call(&["op=list", "name=exp3-answerer"]);
    assert_eq!((&listed["name"], listed["versions"].as_array().map(Vec::len)), (&json!("exp3-answerer"), Some(2)));
    let got = call(&["op=get", "def_id=exp3-answerer@1"]);
    assert_eq!(got["definition"]["max_iterations"], 50);
    let sha = format!("content_sha256={}", promoted["content_sha256"].as_str().expect("a digest"));
    let verified = call(&["op=verify", "name=exp3-answerer", &sha]);
    assert_eq!(
        (&verified["matches"], &verified["current_def_id"], &verified["deployed"]),
        (&json!(true), &json!("exp3-answerer@2"), &json!(true))
    );
    let retired = call(&["op=retire", "def_id=exp3-answerer@1"]);
    assert_eq!((&retired["def_id"], &retired["retired"]), (&json!("exp3-answerer@1"), &json!(true)));
}

#[test]
fn skills_and_volumes_are_defined_too() {
    let home = home();
    std::fs::create_dir_all(home.path().join("shared/team")).expect("a folder");
    home.write("shared/team/notes.md", "a note of the team");
    let config = format!("{CONFIG}definitions:\n  volumes_under: [{{ path: shared }}]\n  grant: {{ tools: [Read, Skill] }}\n")
        .replace("- { text: \"said {{prompt}}\" }", "\
- { when: { agent: reader, turn: 1 }, calls: [{ tool: Read, input: { path: notes.md } }, { tool: Skill, input: { name: style } }] }\n        \
- { text: \"{{results}}\" }");
    home.write("drawloom.yaml", &config);
    home.run(&["trust", "--yes"]).exits(0);
    home.write("team.yaml", "path: team\nmode: rw\n");
    let volume = home.run(&["defs", "create", "team", "team.yaml", "--kind", "volume"]).exits(0);
    assert!(volume.stderr.contains("reduced from rw to ro"), "{volume:?}");
    home.write("style.yaml", "description: House style.\ninstructions: Be brief.\nfiles: { more.md: Very. }\n");
    home.run(&["defs", "create", "style", "style.yaml", "--kind", "skill"]).exits(0);
    home.write("reader.yaml", "tools: [Read, Skill]\nvolumes: [team]\nskills: [style]\n");
    home.run(&["defs", "create", "reader", "reader.yaml"]).exits(0);
    let run = home.run(&["run", "reader", "go", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run").to_owned();
    let events = home.run(&["runs", "tail", &run, "--json"]).exits(0).stdout;
    assert!(events.contains("a note of the team") && events.contains("Be brief."), "{events}");
    home.run(&["defs", "retire", "team", "--kind", "volume"]).exits(0);
    assert!(home.path().join("shared/team/notes.md").exists(), "no file is deleted");
}

#[test]
fn a_channel_has_versions_on_every_surface() {
    let home = home();
    let server = home.serve();
    home.write("jobs.yaml", "description: Work.\nmax_messages: 5\n");
    let made = home.run(&["defs", "create", "jobs", "jobs.yaml", "--kind", "channel"]).exits(0);
    assert_eq!(made.stdout, "jobs@1: active: the channel has these settings\n");
    for value in ["1", "2"] {
        home.run(&["channels", "publish", "jobs", value]).exits(0);
    }
    let forked = home.run(&["defs", "fork", "jobs", "--kind", "channel", "--set", "max_messages=2"]).exits(0);
    assert!(forked.stdout.starts_with("jobs@2: not active"), "{forked:?}");
    let diff = home.run(&["defs", "diff", "jobs@1", "jobs@2", "--kind", "channel"]).exits(0).stdout;
    assert!(diff.contains("-max_messages: 5") && diff.contains("+max_messages: 2"), "{diff}");
    let client = Client::new(&server.url, Era::Stateless).at("/mcp?toolsets=defs");
    let promoted = client.call("promote_definition", json!({ "kind": "channel", "name": "jobs", "version": 2 }));
    assert!(promoted.to_string().contains("jobs@2"), "{promoted}");
    let published = home.run(&["channels", "publish", "jobs", "3", "--json"]).exits(0).json();
    assert_eq!(published["dropped_oldest"], 1, "its settings apply at once: {published}");
    let updated = home.run(&["call", "update_channel", "name=jobs", "max_messages=5"]).exits(0).json();
    assert_eq!(
        (&updated["version"], &updated["message_count"]),
        (&json!(1), &json!(2)),
        "version 1 has these settings"
    );
    let listed = home.run(&["defs", "ls", "jobs", "--kind", "channel"]).exits(0).stdout;
    assert!(listed.contains("jobs@1") && listed.contains("jobs@2"), "{listed}");
    let verified = home.run(&["defs", "verify", "jobs", "--kind", "channel"]).exits(0).stdout;
    assert!(verified.contains("jobs"), "{verified}");
    home.write("wrong.yaml", "max_messages: 0\nscope: user\nsemantics: queue\n");
    let report = home.run(&["defs", "verify", "jobs", "wrong.yaml", "--kind", "channel", "--json"]).exits(1).json();
    for part in ["max_messages", "did you mean semantic?"] {
        assert!(report["problems"].to_string().contains(part), "{part}: {report}");
    }
    let retired = home.run(&["call", "retire_definition", "kind=channel", "name=jobs"]).exits(0).stdout;
    assert!(retired.contains("its messages stay"), "{retired}");
    let refused = home.run(&["channels", "publish", "jobs", "4", "--json"]);
    assert!(refused.code != 0 && refused.stdout.contains("promote_definition"), "{refused:?}");
    home.run(&["defs", "promote", "jobs@2", "--kind", "channel"]).exits(0);
    let read = home.run(&["channels", "read", "jobs", "--json"]).exits(0).json();
    assert_eq!((&read["messages"][0]["value"], &read["messages"][1]["value"]), (&json!(2), &json!(3)), "{read}");
}

#[test]
fn an_agent_defines_channels_that_it_can_use_and_no_others() {
    let home = home();
    let run = home.run(&["run", "talker", "go", "--json"]).exits(0).json();
    let run = run["run_id"].as_str().expect("a run").to_owned();
    let events = home.run(&["runs", "tail", &run, "--json"]).exits(0).stdout;
    for part in ["talk/one@1", "channels: other is not allowed", "cannot define an agent", "message_id"] {
        assert!(events.contains(part), "{part}: {events}");
    }
    let shown = home.run(&["defs", "show", "talk/one", "--kind", "channel", "--json"]).exits(0).json();
    assert_eq!((&shown["maker"]["agent"], &shown["bounded_by"]), (&json!("talker"), &json!("talker")));
    let listed = home.run(&["channels", "ls", "--json"]).exits(0).json();
    let names: Vec<&str> =
        listed["channels"].as_array().expect("rows").iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["talk/one"]);
}

#[test]
fn a_fork_keeps_every_field_that_is_set() {
    let home = home();
    home.write("callers.yaml", "tools: [Channel]\n");
    home.run(&["defs", "create", "callers", "callers.yaml"]).exits(0);
    let set = [
        "defs",
        "fork",
        "callers",
        "--set",
        r#"channels.publish=["talk"]"#,
        "--set",
        "channels.subscribe=[talk, jobs]",
        "--set",
        "budget.tokens=500",
        "--set",
        "budget.cost=1",
        "--json",
    ];
    home.run(&set).exits(0);
    let source = home.run(&["defs", "show", "callers@2", "--json"]).exits(0).json()["source"].clone();
    assert_eq!(source["channels"], json!({ "publish": ["talk"], "subscribe": ["talk", "jobs"] }), "{source}");
    assert_eq!(source["budget"]["tokens"], 500, "{source}");
    assert!(source["budget"].get("cost").is_some(), "{source}");
    let twice =
        home.run(&["defs", "fork", "callers", "--set", "max_iterations=1", "--set", "max_iterations=2"]).exits(2);
    assert!(twice.stderr.contains("--set gives max_iterations twice"), "{twice:?}");
    let text = home.run(&["defs", "fork", "callers", "--set", "tools=Memory"]);
    assert!(text.stderr.contains(r#"write it as a list: ["Memory"]"#), "{text:?}");
}

#[test]
fn verify_reports_findings_beside_mistakes_and_config_agents_as_valid() {
    let home = home();
    home.write("both.yaml", "tools: [Memory, Channel]\nmax_iterations: 0\n");
    let report = home.run(&["defs", "verify", "both", "both.yaml", "--json"]).exits(1).json();
    assert_eq!(report["problems"].as_array().map(Vec::len), Some(1), "{report}");
    for gate in ["`memory_scopes` is empty", "`channels` is empty"] {
        assert!(report["findings"].to_string().contains(gate), "{gate}: {report}");
    }
    let verified = home.run(&["defs", "verify", "maker"]).exits(0);
    assert_eq!(verified.stdout, "maker is defined in the config, and valid\n");
    let unknown = home.run(&["defs", "show", "maker@7", "--json"]);
    assert!(unknown.stdout.contains("unknown_version"), "{unknown:?}");
    home.run(&["defs", "show", "maker@config"]).exits(0);
}

#[test]
fn a_start_and_doctor_report_findings_of_runtime_agents_and_know_what_runtime_has() {
    let home = home();
    let config = CONFIG.replace(
        "  lead: {",
        "  coach: { description: Coaches., tools: [Agent, Channel], agents: [\"coached/*\"], hosts: [], volumes: [], channels: { publish: [\"pep*\"] } }\n  lead: {",
    );
    home.write("drawloom.yaml", &config);
    let said = || {
        let doctor = home.run(&["doctor"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let log = home.serve().stop_and_read();
        [doctor, log.replace('\\', "")]
    };
    for text in said() {
        assert!(text.contains("no agent matches \"coached/*\"") && text.contains("names \"pep*\", but"), "{text}");
    }
    home.write("gateless.yaml", "tools: [Memory]\n");
    home.run(&["defs", "create", "coached/a", "gateless.yaml"]).exits(0);
    home.run(&["channels", "create", "pep-talk"]).exits(0);
    home.run(&["stop"]).exits(0);
    for text in said() {
        assert!(!text.contains("coached/*") && !text.contains("pep*"), "{text}");
        assert!(text.contains("agent coached/a lists the tool Memory but `memory_scopes` is empty"), "{text}");
    }
}

/// The examples that a help prints, as lines for a shell.
fn printed(home: &Home, arguments: &[&str]) -> Vec<String> {
    let help = home.run(&[arguments, &["--help"]].concat()).exits(0).stdout;
    let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("no examples: {help}"));
    let lines = examples.lines().take_while(|line| line.starts_with("  "));
    lines.map(|line| line.trim().split("   ").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_examples_of_the_help_work_in_a_new_project_as_they_are_printed() {
    let commands = ["create", "ls", "show", "fork", "diff", "promote", "retire", "verify"];
    let of_commands: Vec<Vec<&str>> = commands.iter().map(|command| vec!["defs", command]).collect();
    for helps in [vec![vec!["defs"]], of_commands] {
        let home = Home::new();
        std::fs::remove_file(home.path().join("drawloom.yaml")).expect("it was there");
        let data = tempfile::tempdir().expect("a directory outside of the volume");
        let binary = std::path::Path::new(env!("CARGO_BIN_EXE_drawloom")).parent().expect("a folder");
        let path = format!("{}:{}", binary.display(), std::env::var("PATH").expect("PATH"));
        let shell = |line: &str| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", line]).current_dir(home.path()).env_clear().env("PATH", &path).env("TZ", "UTC");
            command.env("HOME", home.path()).env("DRAWLOOM_DATA_DIR", data.path()).stdin(std::process::Stdio::null());
            home.finish(&mut command)
        };
        shell("drawloom init --yes").exits(0);
        let lines: Vec<String> = helps.iter().flat_map(|help| printed(&home, help)).collect();
        assert!(lines.len() >= 10, "{lines:?}");
        for line in &lines {
            let ran = shell(line);
            assert_eq!(ran.code, 0, "{line}: {ran:#?}");
        }
        shell("drawloom stop").exits(0);
    }
}
