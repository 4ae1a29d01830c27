//! `sources`: a folder of Claude Code is read at every start, within what the operator grants.

use std::fs;

use serde_json::{Value, json};

use crate::support::Home;

const CONFIG: &str = "\
listen: 127.0.0.1:0
providers:
  script:
    driver: script
    options:
      rules:
        - when: { contains: plant, turn: 1 }
          calls: [{ tool: Write, input: { path: .claude/agents/evil.md, content: x } }]
        - when: { contains: swap, turn: 1 }
          calls: [{ tool: Write, input: { path: .mcp.json, content: x } }]
        - when: { contains: shell, turn: 1 }
          calls: [{ tool: Bash, input: { command: \"cat prompt.sh | sh; echo done\" } }]
        - when: { contains: load, turn: 1 }
          calls: [{ tool: Skill, input: { name: weave } }]
        - when: { turn: 2 }
          text: \"{{last}}\"
        - text: \"{{prompt}}\"
defaults: { provider: script, model: test }
tools: { bash: { enabled: true } }
agents:
  own: { tools: [], agents: [], hosts: [] }
  worker: { tools: [Bash], volumes: [notes], agents: [], hosts: [] }
volumes:
  notes: { path: project, mode: rw }
";

fn home(grant: &str) -> Home {
    let home = Home::new();
    home.write("drawloom.yaml", &format!("{CONFIG}sources:\n  - claude: project/.claude\n    grant: {grant}\n"));
    put(
        &home,
        "agents/reviewer.md",
        "---\nname: reviewer\ndescription: d\ntools: Read, Write, Bash, Task(helper, ghost), mcp__db__get\n---\nReview.",
    );
    put(&home, "agents/helper.md", "---\nname: helper\nskills: weave\ncolor: red\n---\nHelp.");
    put(&home, "agents/own.md", "---\nname: own\n---\nTheirs.");
    put(&home, "skills/weave/SKILL.md", "---\nname: weave\ndescription: How to weave.\n---\nOver, under.");
    put(&home, "commands/fix.md", "Fix $ARGUMENTS");
    fs::write(home.path().join("project/.mcp.json"), "{\"mcpServers\": {\"db\": {\"command\": \"./db\"}}}")
        .expect("a file");
    home
}

fn put(home: &Home, name: &str, text: &str) {
    let path = home.path().join("project/.claude").join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

fn agent(home: &Home, name: &str) -> Value {
    let listed = home.run(&["agents", "list", "--json", "--config", "drawloom.yaml"]).exits(0).json();
    let found = listed["agents"].as_array().expect("agents").iter().find(|agent| agent["name"] == name).cloned();
    found.unwrap_or_else(|| panic!("{name} is not in {listed:#}"))
}

#[test]
fn the_grant_is_the_ceiling_and_the_folder_narrows_it() {
    let home = home(
        "{ tools: [Read, Write, Agent, Skill, \"mcp__*\"], volumes: [notes], agents: [helper, own, \"g*\"], hosts: [x.com] }",
    );
    let reviewer = agent(&home, "reviewer");
    assert_eq!(reviewer["tools"], json!(["Read", "Write", "Agent"]), "no Bash: not granted; no server: off");
    assert_eq!(reviewer["gates"]["agents"], json!(["helper"]), "the file asks for less than the grant");
    assert_eq!(reviewer["gates"]["hosts"], json!([]), "it lists no tool that reaches hosts");
    assert_eq!(reviewer["gates"]["volumes"], json!(["notes"]));
    let helper = agent(&home, "helper");
    assert_eq!(helper["tools"], json!(["Read", "Write", "Skill"]));
    assert_eq!(helper["gates"]["skills"], json!(["weave"]));
    assert_eq!(agent(&home, "own")["tools"], json!([]), "the config's own agent counts");
    let validated = home.run(&["validate", "--json"]).exits(0).json();
    let said = validated["findings"].to_string();
    for part in [
        "2 agents, 1 skill, 1 prompt",
        "agent own kept: the config has an agent of this name",
        "mcp server db dropped: it stays off: `grant.mcp_servers` does not name it",
        "`tools` dropped: `grant.tools` does not name it",
        "agent reviewer of a source names \\\"ghost\\\" for its gate `agents`, which does not exist",
        "`color` dropped: a colour of Claude Code's own screen",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    let ran = home.run(&["run", "helper", "load it", "--embedded", "--config", "drawloom.yaml"]).exits(0);
    assert!(ran.stdout.contains("Over, under."), "{ran:?}");
}

#[test]
fn granted_hosts_and_scopes_of_memory_are_a_ceiling() {
    let home = home("{ tools: [WebFetch, Memory], hosts: [\"*.x.com\", y.org], memory_scopes: [agent, global] }");
    put(
        &home,
        "agents/web.md",
        "---\nname: web\ntools: Memory, WebFetch(domain:docs.x.com), WebFetch(domain:evil.org), WebFetch(domain:notx.com)\n---\nRead.",
    );
    put(
        &home,
        "agents/wide.md",
        "---\nname: wide\ntools: WebFetch(domain:*.org), WebFetch(domain:*.x.com)\n---\nRead.",
    );
    let web = agent(&home, "web");
    assert_eq!(web["gates"]["hosts"], json!(["docs.x.com"]), "{web:#}");
    assert_eq!(web["gates"]["memory_scopes"], json!(["agent", "tenant"]));
    let wide = agent(&home, "wide");
    assert_eq!(wide["gates"]["hosts"], json!(["y.org", "*.x.com"]), "{wide:#}");
    assert_eq!(wide["gates"]["memory_scopes"], json!([]), "it does not list Memory");
    let none = self::home("{ tools: [Memory] }");
    put(&none, "agents/web.md", "---\nname: web\ntools: Memory\n---\nRead.");
    assert_eq!(agent(&none, "web")["gates"]["memory_scopes"], json!([]), "what is absent is not granted");
}

#[test]
fn without_a_grant_there_is_nothing_to_use_and_servers_stay_off() {
    let home = home("{}");
    let reviewer = agent(&home, "reviewer");
    assert_eq!(reviewer["tools"], json!([]));
    assert_eq!(
        reviewer["gates"],
        json!({ "agents": [], "hosts": [], "memory_scopes": [], "skills": [], "volumes": [] })
    );
    let powers = home.run(&["trust", "--json", "--config", "drawloom.yaml"]);
    assert!(!powers.stdout.contains("./db"), "{powers:?}");
    home.write(
        "drawloom.yaml",
        &format!(
            "{CONFIG}sources:\n  - claude: project/.claude\n    grant: {{ tools: [\"mcp__*\"], mcp_servers: [db] }}\n"
        ),
    );
    assert_eq!(agent(&home, "reviewer")["tools"], json!(["mcp__db__get"]));
    let powers = home.run(&["trust", "--json", "--config", "drawloom.yaml"]);
    assert!(powers.stdout.contains("starts the program `./db`"), "a server that is granted is a power: {powers:?}");
}

#[test]
fn agents_cannot_write_the_folder_and_volumes_inside_it_must_be_read_only() {
    let home = home("{ tools: [Write], volumes: [notes] }");
    let ran = home.run(&["run", "reviewer", "plant it", "--embedded", "--config", "drawloom.yaml"]);
    assert!(ran.stdout.contains("agents can read it but not change it"), "{ran:?}");
    assert!(!home.path().join("project/.claude/agents/evil.md").exists());
    let ran = home.run(&["run", "reviewer", "swap it", "--embedded", "--config", "drawloom.yaml"]);
    assert!(ran.stdout.contains("agents can read it but not change it"), "{ran:?}");
    let inside = format!(
        "{CONFIG}  inside: {{ path: project/.claude/agents, mode: rw }}\nsources:\n  - claude: project/.claude\n"
    );
    home.write("drawloom.yaml", &inside);
    let refused = home.run(&["validate", "--json"]).exits(2).json();
    assert!(refused.to_string().contains("volume inside is inside "), "{refused:#}");
}

/// Runs a script with the Bash of an agent, in the volume around the source folder.
fn shell(home: &Home, script: &str) -> String {
    home.write("project/prompt.sh", script);
    let ran = home.run(&["run", "worker", "shell"]).exits(0);
    assert!(ran.stdout.contains("done"), "the command runs: {ran:?}");
    ran.stdout
}

#[test]
fn commands_run_where_the_file_of_granted_servers_is_missing_and_what_they_make_there_waits_for_the_operator() {
    let home = home("{ tools: [\"mcp__*\"], mcp_servers: [db] }");
    fs::remove_file(home.path().join("project/.mcp.json")).expect("removed");
    home.run(&["trust", "--yes"]).exits(0);
    let server = home.serve();
    let planted = "{\"mcpServers\": {\"db\": {\"command\": \"./planted\"}, \"x\": {\"command\": \"./x\"}}}";
    shell(&home, &format!("echo '{planted}' > .mcp.json; echo x > .claude/agents/evil.md"));
    assert!(!home.path().join("project/.claude/agents/evil.md").exists(), "the folder is guarded as ever");
    let before = home.run(&["call", "list_agents"]).exits(0).stdout;
    assert!(!before.contains("mcp__db__get"), "a running server does not read the file: {before}");
    server.stop();
    let asked = home.run(&["run", "own", "hello"]).exits(3);
    assert!(asked.stderr.contains("new: starts the program `./planted`"), "a new power asks again: {asked:?}");
    assert!(!asked.stderr.contains("./x"), "the grant does not name it: {asked:?}");
}

#[test]
fn a_source_folder_that_is_a_link_is_guarded_as_a_link_and_where_it_leads() {
    let home = home("{ tools: [Read], volumes: [notes] }");
    home.run(&["trust", "--yes"]).exits(0);
    let project = home.path().join("project");
    fs::rename(project.join(".claude"), project.join("dotfiles")).expect("renamed");
    std::os::unix::fs::symlink("dotfiles", project.join(".claude")).expect("a link");
    let asked = home.run(&["run", "worker", "shell"]).exits(3);
    assert!(asked.stderr.contains("project/dotfiles (sources.0.claude)"), "a link is where it leads: {asked:?}");
    home.run(&["trust", "--yes"]).exits(0);
    let said = shell(
        &home,
        "ls .claude/agents; echo x > dotfiles/agents/evil.md; echo x > .claude/agents/evil.md; rm .claude;\
         mv .claude elsewhere; mkdir new; ln -s new link; mv -T link .claude; mv dotfiles old",
    );
    assert!(said.contains("helper.md"), "it can be read through the link: {said}");
    assert_eq!(fs::read_link(project.join(".claude")).expect("still a link"), std::path::Path::new("dotfiles"));
    assert!(!project.join("dotfiles/agents/evil.md").exists(), "{said}");
    // A link that leads out of the volume is guarded alone.
    home.run(&["stop"]).exits(0);
    fs::rename(project.join("dotfiles"), home.path().join("dotfiles")).expect("renamed");
    fs::remove_file(project.join(".claude")).expect("removed");
    std::os::unix::fs::symlink("../dotfiles", project.join(".claude")).expect("a link");
    home.run(&["trust", "--yes"]).exits(0);
    shell(&home, "rm .claude; ln -sfn new .claude");
    home.run(&["stop"]).exits(0);
    assert_eq!(fs::read_link(project.join(".claude")).expect("still a link"), std::path::Path::new("../dotfiles"));
}

#[test]
fn a_change_in_the_folder_is_a_change_of_the_config() {
    let home = home("{ tools: [Read], volumes: [notes] }");
    home.run(&["trust", "--yes"]).exits(0);
    let _server = home.serve();
    let quiet = home.run(&["run", "helper", "hello"]).exits(0);
    assert!(!quiet.stderr.contains("old version"), "{quiet:?}");
    put(&home, "agents/helper.md", "---\nname: helper\n---\nHelp more.");
    let told = home.run(&["run", "helper", "hello"]).exits(0);
    assert!(told.stderr.contains("the server still uses the old version"), "{told:?}");
}

#[test]
fn a_folder_that_is_missing_and_an_unknown_key_are_mistakes_with_their_place() {
    let home = home("{ tool: [Read] }");
    let wrong = home.run(&["validate"]).exits(2);
    assert!(
        wrong.stderr.contains("sources[0].grant.tool: is not a known key (did you mean tools?)"),
        "{}",
        wrong.stderr
    );
    home.write("drawloom.yaml", &format!("{CONFIG}sources: [{{ claude: nowhere }}]\n"));
    let wrong = home.run(&["validate"]).exits(2);
    assert!(
        wrong.stderr.contains("nowhere is not a directory") && wrong.stderr.contains("drawloom.yaml:"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn a_pipe_in_the_folder_does_not_hold_the_server_up() {
    let home = home("{}");
    let pipe = home.path().join("project/.claude/agents/pipe.md");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    home.run(&["run", "helper", "load it", "--config", "drawloom.yaml"]).exits(0);
    home.run(&["stop", "--config", "drawloom.yaml"]).exits(0);
}

#[test]
fn what_a_link_leads_to_outside_the_folder_is_left_out() {
    let home = home("{}");
    fs::create_dir_all(home.path().join("project/real")).expect("a folder");
    fs::write(home.path().join("project/real/far.md"), "---\nname: far\n---\nFar.").expect("a file");
    let agents = home.path().join("project/.claude/agents");
    std::os::unix::fs::symlink("../../real/far.md", agents.join("far.md")).expect("a link");
    std::os::unix::fs::symlink("../../real", agents.join("more")).expect("a link");
    std::os::unix::fs::symlink("helper.md", agents.join("near.md")).expect("a link");
    let listed = home.run(&["agents", "list", "--json", "--config", "drawloom.yaml"]).exits(0).json();
    let names: Vec<&str> =
        listed["agents"].as_array().expect("agents").iter().filter_map(|agent| agent["name"].as_str()).collect();
    assert!(names.contains(&"helper"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("far")), "{names:?}");
    let said = home.run(&["validate", "--json", "--config", "drawloom.yaml"]).exits(0).stdout;
    assert!(said.contains("it lies outside the folder"), "{said}");
}
