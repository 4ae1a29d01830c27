//! Config through the commands that read it.

use crate::support::Home;

#[test]
fn the_schema_of_the_config_is_printed_as_it_is_committed() {
    let schema = Home::new().run(&["config", "schema"]).exits(0);
    assert_eq!(schema.stdout.trim(), include_str!("../../src/config/schema.json").trim());
}

#[test]
fn validate_says_everything_at_once_and_exits_2() {
    let home = Home::new();
    home.write("bad.yaml", "agents:\n  a: { tols: [Read] }\nlisten: 3\n");
    let ran = home.run(&["validate", "bad.yaml"]).exits(2);
    assert_eq!(
        ran.stderr,
        "error: the config has 3 mistakes\n  \
         bad.yaml:2:6: agents.a: no model is given (add `provider` and `model`, or `model` with an alias, here or under `defaults`)\n  \
         bad.yaml:2:8: agents.a.tols: is not a known key (did you mean tools?)\n  \
         bad.yaml:3:9: listen: must be text, not 3\n"
    );
    let json = home.run(&["validate", "bad.yaml", "--json"]).exits(2).json();
    assert_eq!(json["error"]["code"], "bad_config");
    assert_eq!(json["error"]["details"].as_array().map(Vec::len), Some(3));
}

#[test]
fn validate_checks_names_and_directories_too() {
    let home = Home::new();
    home.write(
        "bad.yaml",
        "providers: { s: { driver: script, options: { rules: [{ when: { matches: \"(\" }, text: x }] } } }\n\
         defaults: { provider: s, model: m }\n\
         agents:\n  a: { tools: [Raed], agents: [b], volumes: [v] }\n\
         volumes: { v: { path: missing } }\n",
    );
    let ran = home.run(&["validate", "bad.yaml"]).exits(2);
    insta::assert_snapshot!("meaning", ran.stderr);
}

#[test]
fn validate_shows_findings_and_passes() {
    let home = Home::new();
    home.write(
        "fine.yaml",
        "providers: { s: { driver: script } }\ndefaults: { provider: s, model: m }\nagents: { a: {} }\n",
    );
    let ran = home.run(&["validate", "fine.yaml"]).exits(0);
    assert_eq!(
        ran.stdout,
        "note: fine.yaml:3:14: agent a does not set agents, volumes, hosts: [] (none) is used, which is fine if that is intended\n\
         warning: fine.yaml:3:14: agent a has no `tools` and cannot call any (to silence this, set `tools: []`)\n\
         fine.yaml: no mistakes\n\
         trust: not needed, because it starts no programs, uses no keys and changes no files\n"
    );
}

#[test]
fn validate_says_whether_the_config_is_trusted_and_how_to_trust_it() {
    let home = Home::new();
    home.write("drawloom.yaml", "providers: { o: { driver: openai, base_url: 'http://localhost:9/v1' } }\ndefaults: { provider: o, model: m }\nagents: { a: {} }\n");
    let last = |arguments: &[&str]| home.run(arguments).exits(0).stdout.lines().last().unwrap_or_default().to_owned();
    assert_eq!(last(&["validate"]), "trust: not trusted yet; `drawloom trust` shows what it can do and asks");
    assert!(last(&["validate", "drawloom.yaml"]).contains("`drawloom trust --config drawloom.yaml`"));
    assert_eq!(home.run(&["validate", "--json"]).exits(0).json()["trust"], "not_trusted");
    home.run(&["trust", "--yes"]).exits(0);
    assert_eq!(last(&["validate"]), "trust: trusted");
    assert_eq!(home.run(&["validate", "--json"]).exits(0).json()["trust"], "trusted");
}

#[test]
fn without_any_config_the_error_says_where_it_was_looked_for() {
    let home = Home::new();
    std::fs::remove_file(home.path().join("drawloom.yaml")).expect("it is there");
    let ran = home.run(&["agents", "list"]).exits(2);
    assert_eq!(
        ran.stderr,
        "error: no drawloom.yaml found in this directory or its parents, and <home>/.config/drawloom/drawloom.yaml does not exist\n\
         hint: `drawloom init` writes one; or pass --config FILE\n"
    );
    let missing = home.run(&["serve", "--config", "nowhere.yaml"]).exits(2);
    assert!(missing.stderr.contains("nowhere.yaml: cannot be read: No such file"), "{missing:?}");
}

#[test]
fn the_config_directory_is_the_second_place() {
    let home = Home::new();
    std::fs::create_dir_all(home.path().join(".config/drawloom")).expect("a directory");
    std::fs::rename(home.path().join("drawloom.yaml"), home.path().join(".config/drawloom/drawloom.yaml"))
        .expect("a move");
    std::fs::create_dir(home.path().join(".config/drawloom/notes")).expect("a directory");
    let list = home.run(&["agents", "list", "--json"]).exits(0).json();
    assert_eq!(list["agents"][0]["name"], "echo");
}

#[test]
fn values_come_from_the_environment_that_the_file_lists() {
    let home = Home::new();
    home.write("more.yaml", "env: [WORDS]\nagents: { echo: { description: \"${WORDS}\" } }\n");
    let mut command = home.command(&["agents", "list", "--json", "--config", "drawloom.yaml", "--config", "more.yaml"]);
    let list = home.finish(command.env("WORDS", "from outside")).exits(0).json();
    assert_eq!(list["agents"][0]["description"], "from outside");
    assert_eq!(list["agents"][0]["tools"][0], "Read");
}

/// What stays the same from run to run: without ids, numbers and the lines of the tree.
fn shape(text: &str) -> Vec<String> {
    let ids = regex::Regex::new(r"\b[ras]_[0-9a-f]+").expect("a pattern");
    let numbers = regex::Regex::new(r"[0-9][0-9.,:-]*|[│├└─]").expect("a pattern");
    text.lines()
        .map(|line| {
            numbers.replace_all(&ids.replace_all(line, "ID"), "").split_whitespace().collect::<Vec<_>>().join(" ")
        })
        .map(|line| if line.starts_with("started") { "started".into() } else { line })
        .filter(|line| !line.is_empty())
        .collect()
}

#[test]
fn the_team_of_the_first_page_works_and_shows_what_the_page_shows() {
    let page = include_str!("../../../../docs/getting-started.md");
    let block = |opening: &str| {
        page.split(opening).nth(1).and_then(|rest| rest.split("```").next()).expect("a block of the page")
    };
    let home = Home::new();
    home.write("drawloom.yaml", block("```yaml\n"));
    std::fs::create_dir(home.path().join("chapters")).expect("a folder");
    for line in block("```sh\nmkdir chapters\n").lines() {
        let (text, file) = line
            .strip_prefix("echo '")
            .and_then(|rest| rest.split_once("' > "))
            .expect("a line such as: echo 'TEXT' > FILE");
        home.write(file, &format!("{text}\n"));
    }
    assert_eq!(home.run(&["validate"]).exits(0).stderr, "");
    let run = home.run(&["run", "lead", "Have every chapter read"]).exits(0);
    assert_eq!(run.stdout, "Two chapters are read. One is missing: see the failed run.\n");
    assert_eq!(shape(&home.run(&["runs", "show", "last"]).exits(0).stdout), shape(block("```text\n")));
}

#[test]
fn the_model_of_the_first_page_can_replace_its_script() {
    let page = include_str!("../../../../docs/getting-started.md");
    let mut configs = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let (team, model) = (configs.next().expect("the team"), configs.next().expect("the model"));
    let agents = team.split_once("\nagents:").expect("agents").1;
    let home = Home::new();
    std::fs::create_dir(home.path().join("chapters")).expect("a folder");
    home.write("drawloom.yaml", &format!("{model}\nagents:{agents}"));
    home.run(&["validate"]).exits(0);
}

#[test]
fn daily_use_names_every_section_of_the_config() {
    let page = include_str!("../../../../docs/daily-use.md");
    let schema = Home::new().run(&["config", "schema"]).exits(0).json();
    for section in schema["properties"].as_object().expect("sections").keys() {
        assert!(page.contains(&format!("`{section}`")), "docs/daily-use.md does not name {section}");
    }
}

#[test]
fn a_pipe_in_a_folder_is_refused_and_never_waited_for() {
    let home = Home::new();
    let good = std::fs::read_to_string(home.path().join("drawloom.yaml")).expect("a config");
    let pipe = |name: &str| {
        let path = home.path().join(name);
        drop(std::fs::remove_file(&path));
        assert!(std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
    };
    for name in ["drawloom.yaml", "pipe", ".env"] {
        pipe(name);
    }
    let commands: [&[&str]; 9] = [
        &["validate"],
        &["run", "echo", "hi"],
        &["run", "echo", "hi", "--embedded"],
        &["trust", "--yes"],
        &["agents", "list"],
        &["status"],
        &["doctor"],
        &["import", "claude-code", "--from", "."],
        &["mcp", "install", "--client", "claude-code"],
    ];
    for command in commands {
        let ran = home.run(command);
        let is_refused = ran.code != 0 && ran.stderr.contains("it is not a regular file");
        assert!(is_refused || matches!(command[0], "status" | "doctor" | "mcp"), "{command:?}: {ran:#?}");
    }
    assert_ne!(home.run(&["init"]).code, 0);
    assert_eq!(home.run(&["complete", "--", "run", ""]).exits(0).stdout, "");

    home.write("good.yaml", &good);
    let files: [&[&str]; 4] = [
        &["batch", "pipe"],
        &["call", "spawn_run", "--input", "pipe"],
        &["memory", "import", "pipe"],
        &["goal", "run", "--goal-file", "pipe"],
    ];
    for file in files {
        let ran = home.run(&[file, &["--config", "good.yaml"]].concat());
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(ran.code != 0 && said.contains("it is not a regular file"), "{file:?}: {ran:#?}");
    }
    // A `.env` that is a pipe is only not read.
    home.run(&["run", "echo", "hi", "--embedded", "--config", "good.yaml"]).exits(0);
    let ran = home.run(&["doctor", "--config", "good.yaml"]);
    assert!(ran.stdout.contains(".env: not read: it is not a regular file"), "{ran:#?}");
    let prompt = good.replace("description: Says it again.", "description: Says it again., system_prompt_file: pipe");
    home.write("good.yaml", &prompt);
    let ran = home.run(&["validate", "good.yaml"]).exits(2);
    assert!(ran.stderr.contains("it is not a regular file"), "{ran:#?}");
}

#[test]
fn a_config_can_come_from_a_pipe_of_the_shell() {
    let home = Home::new();
    let binary = env!("CARGO_BIN_EXE_drawloom");
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &format!("{binary} validate <(head -n -2 drawloom.yaml)")]).current_dir(home.path());
    assert!(home.finish(&mut command).exits(0).stdout.contains("no mistakes"));
}
