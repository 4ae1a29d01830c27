//! The backend `model`: a model of the config with our own tools. A script plays the model; tools, checkouts and sandbox are real.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use serde_json::{Value, json};

use super::Project;
use crate::support::Ran;

/// The rest of a config: a provider whose rules play every role, and an alias for its model. Rules of workers come first.
fn config(rules: &str, more: &str) -> String {
    format!(
        r##"
models: {{ fast: {{ provider: fake, model: small }} }}
{more}
providers:
  fake:
    driver: script
    options:
      rules:
{rules}
        - when: {{ contains: "# What the workers report" }}
          text: '{{"quality_ok":true,"consistency_ok":true,"goal_aligned":true,"goal_complete":true,"issues":[]}}'
        - when: {{ contains: "# Your subgoal: " }}
          text: "tools: {{{{tools}}}}"
        - text: '[{{"id":"alpha","description":"planned with {{{{tools}}}}"}},{{"id":"beta","description":"the other file"}}]'
"##
    )
}

fn project(rules: &str, more: &str) -> Project {
    let project = Project::new();
    let own = fs::read_to_string(project.home.path().join("drawloom.yaml")).expect("a config");
    project.home.write("drawloom.yaml", &format!("{own}{}", config(rules, more)));
    project
}

fn run(project: &Project, goal: &str, more: &[&str]) -> Ran {
    let config = project.home.path().join("drawloom.yaml");
    let mut arguments =
        vec!["--config", config.to_str().expect("text"), "goal", "run", goal, "--criteria", "It is done."];
    arguments.extend(more);
    arguments.push("--json");
    project.home.finish(project.home.command(&arguments).current_dir(project.repository()))
}

fn call(project: &Project, arguments: &[&str]) -> Ran {
    let config = project.home.path().join("drawloom.yaml");
    let all: Vec<&str> = ["--config", config.to_str().expect("text")].iter().chain(arguments).copied().collect();
    project.home.run(&all)
}

/// The folder of a goal.
fn folder(project: &Project, result: &Value) -> PathBuf {
    let home = project.home.path().display().to_string();
    result["run_dir"].as_str().expect("a folder").replace("<home>", &home).into()
}

/// The outputs of the workers of the first iteration, by subgoal.
fn output<'r>(result: &'r Value, id: &str) -> &'r str {
    let results = result["history"][0]["results"].as_array().expect("results");
    let found = results.iter().find(|worked| worked["id"] == id).expect("this subgoal");
    found["output"].as_str().expect("an output")
}

const TWO_FILES: &str = r##"
        - when: { matches: "(?s)# Your subgoal: alpha.*# Feedback of the last iteration.*alpha is wrong", turn: 1 }
          calls: [{ tool: Edit, input: { path: alpha.txt, old_string: wrong, new_string: right } }]
        - when: { contains: "# Your subgoal: alpha", turn: 1 }
          calls: [{ tool: Grep, input: { pattern: project } }, { tool: Write, input: { path: alpha.txt, content: "wrong\n" } }]
        - when: { contains: "# Your subgoal: beta", turn: 1 }
          calls: [{ tool: Write, input: { path: sub/beta.txt, content: "beta\n" } }]
"##;

#[test]
fn two_workers_edit_with_our_tools_until_verification_passes_and_the_users_checkout_is_not_touched() {
    let project = project(TWO_FILES, "");
    fs::write(project.repository().join("uncommitted.txt"), "mine").expect("a file");
    let before = project.fingerprint();
    let verify = "grep -q right alpha.txt || { echo alpha is wrong; exit 1; }; grep -q beta sub/beta.txt";
    let result = run(&project, "Write both files.", &["--backend", "model:fast", "--verify", verify]).exits(0).json();
    assert_eq!((&result["status"], &result["iterations"]), (&json!("completed"), &json!(2)), "{result:#}");
    assert_eq!(result["history"][0]["verification"][0]["ok"], false, "{result:#}");
    assert_eq!(project.fingerprint(), before);
    let branch = result["worktree"]["branch"].as_str().expect("a branch");
    assert_eq!(project.git(&["show", &format!("{branch}:alpha.txt")]), "right");
    assert_eq!(result["worktree"]["changed_files"], json!(["alpha.txt", "sub/beta.txt"]));
    assert!(result["usage"]["input_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{result:#}");
    // Readers have the tools that read, workers those that write too; `Bash` is off in this config. Nothing else is there.
    assert_eq!(result["history"][0]["subgoals"][0]["description"], "planned with Glob, Grep, Read", "{result:#}");
    assert_eq!(output(&result, "beta"), "tools: Edit, Glob, Grep, Read, Write");
    let landed = call(&project, &["goal", "land", result["run_id"].as_str().expect("an id"), "--json"]).exits(1).json();
    assert_eq!(landed["command"], format!("git merge --ff-only {branch}"));
}

#[test]
fn a_planner_that_tries_to_write_is_refused() {
    let rules = r##"
        - when: { contains: "# What the workers report" }
          text: '{"quality_ok":true,"consistency_ok":true,"goal_aligned":true,"goal_complete":true,"issues":[]}'
        - when: { matches: "^# Goal(?s:.*)Do not write", turn: 1 }
          calls: [{ tool: Write, input: { path: planned.txt, content: "x" } }, { tool: Bash, input: { command: "touch planned.txt" } }]
        - when: { matches: "^# Goal(?s:.*)Do not write", turn: 2, last_contains: 'unknown tool "Write"' }
          text: '["refused"]'
        - when: { contains: "# Your subgoal: s1", turn: 1 }
          calls: [{ tool: Glob, input: { pattern: "**/*" } }]
        - when: { contains: "# Your subgoal: s1", turn: 2 }
          text: "{{last}}"
"##;
    let project = project(rules, "defaults: { model: fast }\ntools: { bash: { enabled: true } }");
    let result = run(&project, "Do not write.", &["--backend", "model"]).exits(0).json();
    assert_eq!(result["history"][0]["subgoals"][0]["description"], "refused", "{result:#}");
    let seen = output(&result, "s1");
    assert!(seen.contains("readme.txt") && !seen.contains("planned.txt"), "{seen}");
    assert_eq!(result["worktree"]["changed_files"], json!([]), "{result:#}");
}

const PATHS: &str = r##"
        - when: { matches: "# Your subgoal: ([a-z]+)(?s:.*)TRY ([a-z]+) (\\S+)", turn: 1, contains: "# Your subgoal: path" }
          calls: [{ tool: Read, input: { path: "{{3}}" } }]
        - when: { contains: "# Your subgoal: up", turn: 1 }
          calls: [{ tool: Read, input: { path: "../../goal.json" } }, { tool: Write, input: { path: "../escape.txt", content: "x" } }]
        - when: { contains: "# Your subgoal: link", turn: 1 }
          calls: [{ tool: Read, input: { path: link } }, { tool: Glob, input: { path: "/etc", pattern: "*" } }]
        - when: { contains: "# Your subgoal: volume", turn: 1 }
          calls: [{ tool: Read, input: { path: secret.txt, volume: "checkout:i01-001-path" } }]
        - when: { contains: "# Your subgoal: config", turn: 1 }
          calls: [{ tool: Read, input: { path: "note.txt", volume: notes } }]
        - when: { matches: "# Your subgoal: (path|up|link|volume|config)", turn: 2 }
          text: "{{last}}"
        - when: { contains: "# What the workers report" }
          text: '{"quality_ok":true,"consistency_ok":true,"goal_aligned":true,"goal_complete":true,"issues":[]}'
        - when: { matches: "^# Goal(?s:.*)TRY paths" }
          text: '["path","up","link","volume","config"]'
"##;

#[test]
fn a_worker_reaches_nothing_outside_of_its_checkout() {
    let rules = PATHS.replace(
        r#"["path","up","link","volume","config"]"#,
        &json!(["path", "up", "link", "volume", "config"].map(|id| json!({ "id": id, "description": "read it" })))
            .to_string(),
    );
    let project = project(&rules, "volumes: { notes: { path: notes, default: true } }");
    project.home.write("notes/note.txt", "SECRET of a volume");
    project.home.write("secret.txt", "SECRET of the home");
    symlink(project.home.path().join("secret.txt"), project.repository().join("link")).expect("a link");
    project.commit("a link");
    let kept = run(&project, "Leave it.", &["--backend", "model:fast", "--cleanup", "never"]).exits(0).json();
    let other = folder(&project, &kept).join("work/i01-001-alpha/readme.txt").display().to_string();
    assert!(fs::metadata(&other).is_ok(), "the checkout of the other goal is there: {other}");
    let goal = format!("TRY paths\nTRY other {other}\n");
    let result = run(&project, &goal, &["--backend", "model:fast", "--cleanup", "never"]).exits(0).json();
    let told = |id: &str| output(&result, id);
    assert!(told("path").contains("is outside the checkout") && !told("path").contains("a project"), "{result:#}");
    assert_eq!(told("up").matches("is outside the checkout").count(), 2, "{result:#}");
    assert!(told("link").contains("not allowed, or outside the volume"), "{result:#}");
    assert!(told("link").contains("\"/etc\" is outside the checkout"), "{result:#}");
    assert!(told("volume").contains("unknown volume \"checkout:i01-001-path\""), "{result:#}");
    assert!(told("config").contains("unknown volume \"notes\""), "{result:#}");
    assert!(!result.to_string().contains("SECRET"), "{result:#}");
    let work = folder(&project, &result).join("work");
    assert!(work.join("i01-002-up").is_dir() && !work.join("escape.txt").exists());
}

#[test]
fn commands_of_a_worker_are_confined_to_its_checkout_and_git_works_there() {
    let rules = r##"
        - when: { contains: "# Your subgoal: alpha", turn: 1 }
          calls:
            - tool: Bash
              input:
                command: >-
                  git log --format=%s > log.txt; echo "$PORT" > port.txt; echo x > "$DRAWLOOM_TEMPORARY/scratch" && echo yes > temporary.txt;
                  (echo x > ../escape.txt; echo x > ../i01-002-beta/escape.txt) 2>/dev/null;
                  cat ../../goal.json >/dev/null 2>&1 || echo hidden > hidden.txt
        - when: { contains: "# Your subgoal: alpha", turn: 2 }
          text: "tools: {{tools}}; {{last}}"
"##;
    let project = project(rules, "tools: { bash: { enabled: true } }");
    let verify = "grep -q first log.txt && grep -qE '^[0-9]+$' port.txt && grep -q yes temporary.txt && grep -q hidden hidden.txt";
    let more = ["--backend", "model:fast", "--verify", verify, "--max-iterations", "1", "--cleanup", "never"];
    let result = run(&project, "Run it.", &more).exits(0).json();
    assert_eq!(result["status"], "completed", "{result:#}");
    // The sandbox may have a directory of its own there, which is gone with the command. On the disk there is nothing.
    let work = folder(&project, &result).join("work");
    assert!(work.join("i01-001-alpha/log.txt").is_file() && work.join("i01-002-beta/readme.txt").is_file());
    assert!(!work.join("escape.txt").exists() && !work.join("i01-002-beta/escape.txt").exists());
    assert!(output(&result, "alpha").starts_with("tools: Bash, Edit, Glob, Grep, Read, Write;"), "{result:#}");
}

#[test]
fn a_worker_that_fails_is_continued_in_its_checkout() {
    let rules = r##"
        - when: { matches: "(?s)# Your subgoal: alpha.*# An earlier try failed.*model_refused", turn: 1 }
          calls: [{ tool: Read, input: { path: half.txt, bytes: true } }]
        - when: { matches: "(?s)# Your subgoal: alpha.*# An earlier try failed", turn: 2 }
          calls: [{ tool: Write, input: { path: whole.txt, content: "{{last}} and whole" } }]
        - when: { contains: "# Your subgoal: alpha", turn: 1 }
          calls: [{ tool: Write, input: { path: half.txt, content: "half" } }]
        - when: { matches: "(?s)# Your subgoal: alpha.*# Subgoals of other workers", turn: 2 }
          fail: { kind: refused }
"##;
    let project = project(rules, "");
    let result =
        run(&project, "Write.", &["--backend", "model:fast", "--verify", "grep -q 'half.* and whole' whole.txt"])
            .exits(0)
            .json();
    let attempts = &result["history"][0]["results"][0]["attempts"];
    assert_eq!((&result["status"], attempts), (&json!("completed"), &json!(2)), "{result:#}");
}

#[test]
fn a_planner_can_give_a_subgoal_to_a_model_that_the_user_named_and_to_no_other() {
    let project = project(TWO_FILES, "");
    let goal = "Write one.\nPLAN: [{\"id\":\"beta\",\"description\":\"write it\",\"backend\":\"model:fake/any\"}]\n";
    let verify = ["--backend", "script", "--verify", "test -f sub/beta.txt"];
    let named = |model: &'static str| [&verify[..], &["--reviewer", model]].concat();
    let result = run(&project, goal, &named("model:fake/any")).exits(0).json();
    assert_eq!(result["status"], "completed", "{result:#}");
    for (more, wrong) in [
        (verify.to_vec(), "subgoal 1 has the unknown backend \"model\"; available: script"),
        (
            named("model:fast"),
            "subgoal 1 has the model \"fake/any\", and the goal is to use model with the model \"fast\"",
        ),
    ] {
        let result = run(&project, goal, &more).exits(2).json();
        assert!(result["error"]["message"].as_str().expect("an error").ends_with(wrong), "{result:#}");
        assert_eq!(result["agent_calls"], 2, "the planner was asked twice, and no worker: {result:#}");
    }
}

#[test]
fn a_model_that_is_unknown_is_refused_before_anything_is_paid() {
    let project = project("", "");
    let refused = |backend: &str, more: &[&str]| {
        let all: Vec<&str> = ["--backend", backend].iter().chain(more).copied().collect();
        let ran = run(&project, "Write.", &all).exits(2);
        let error = ran.json()["error"].clone();
        (error["code"].as_str().expect("a code").to_owned(), error["hint"].as_str().unwrap_or_default().to_owned())
    };
    let (code, hint) = refused("model:fsat", &[]);
    assert!(code == "unknown_model" && hint.starts_with("did you mean \"fast\"?"), "{code}: {hint}");
    let (code, hint) = refused("model:fakee/small", &[]);
    assert!(code == "unknown_model" && hint.starts_with("did you mean \"fake\"?"), "{code}: {hint}");
    let (code, hint) = refused("mock", &["--reviewer", "model:high"]);
    assert!(code == "unknown_model" && hint.contains("tiers"), "{code}: {hint}");
    let (code, hint) = refused("model", &[]);
    assert!(
        code == "no_default_model" && hint.contains("`model:NAME` (model:fast, model:fake/small)"),
        "{code}: {hint}"
    );
    let (code, hint) = refused("model:fast", &["--max-cost", "1"]);
    assert!(code == "unpriced_model" && hint.contains("pricing.models"), "{code}: {hint}");
    let listed = call(&project, &["runs", "list", "--json"]).exits(0).json();
    assert_eq!(listed["runs"], json!([]), "no goal was accepted");
}

#[test]
fn the_agent_of_a_model_cannot_be_started_by_a_caller() {
    let taken = project("", "defaults: { model: fast }\nagents: { drawloom/model: {} }");
    let refused = call(&taken, &["agents", "list"]);
    assert!(refused.code != 0 && refused.stderr.contains("reserved"), "{refused:#?}");
    let project = project("", "defaults: { model: fast }");
    let done = run(&project, "Answer.", &["--backend", "model", "--no-cwd"]).exits(0).json();
    assert_eq!(output(&done, "alpha"), "tools: ", "without a repository there are no tools: {done:#}");
    let listed = call(&project, &["runs", "list", "--json"]).exits(0).json();
    let agents: Vec<&str> =
        listed["runs"].as_array().expect("runs").iter().filter_map(|run| run["agent"].as_str()).collect();
    assert!(agents.contains(&"drawloom/model"), "{agents:?}");
    let refused = call(&project, &["call", "spawn_run", "agent=drawloom/model", "prompt=x"]);
    assert!(refused.code != 0 && refused.stdout.contains("reserved_agent"), "{refused:#?}");
    let refused = run(&project, "Answer.", &["--backend", "agent:drawloom/model", "--no-cwd", "--retries", "0"]);
    assert!(refused.code == 2 && refused.stdout.contains("unknown backend"), "{refused:#?}");
}

#[test]
fn models_are_listed_among_the_backends() {
    let project = project("", "");
    let listed = call(&project, &["goal", "backends", "--json"]).exits(0).json();
    let model = |listed: &Value| {
        let backends = listed["backends"].as_array().expect("backends").clone();
        backends.into_iter().find(|backend| backend["name"] == "model").expect("the backend")
    };
    assert_eq!(
        model(&listed),
        json!({ "name": "model", "kind": "model", "available": true, "models": ["fast", "fake/small"] })
    );
    let shown = call(&project, &["goal", "backends"]).exits(0);
    assert!(shown.stdout.contains("fake/small"), "{shown:#?}");
    let bare = Project::new();
    let found = model(&call(&bare, &["goal", "doctor", "--json"]).json());
    assert_eq!(found["available"], false);
    assert!(found["problem"].as_str().is_some_and(|text| text.contains("`providers`")), "{found}");
}

#[test]
fn a_worker_in_the_users_checkout_edits_files_and_nothing_of_git() {
    let rules = r##"
        - when: { contains: "# Your subgoal: alpha", turn: 1 }
          calls:
            - { tool: Edit, input: { path: readme.txt, old_string: "a project", new_string: "our project" } }
            - { tool: Write, input: { path: .git/hooks/pre-commit, content: "exit 1" } }
            - { tool: Bash, input: { command: "touch bash.txt; touch .git/planted" } }
        - when: { contains: "# Your subgoal: alpha", turn: 2 }
          text: "{{last}}"
        - when: { matches: "^# Goal(?s:.*)In place" }
          text: '["alpha"]'
"##;
    let rules = rules.replace(r#"'["alpha"]'"#, r#"'[{"id":"alpha","description":"edit"}]'"#);
    let reviewer = r##"
        - when: { contains: "# What the workers report" }
          text: '{"quality_ok":true,"consistency_ok":true,"goal_aligned":true,"goal_complete":true,"issues":[]}'
"##;
    let more = "defaults: { model: fast }\ntools: { bash: { enabled: true } }";
    let project = project(&format!("{reviewer}{rules}"), more);
    let result = run(&project, "In place.", &["--backend", "model", "--no-isolate"]).exits(0).json();
    assert_eq!(result["status"], "completed", "{result:#}");
    assert_eq!(project.git(&["status", "--porcelain"]), "M readme.txt\n?? bash.txt", "{result:#}");
    assert_eq!(fs::read_to_string(project.repository().join("readme.txt")).expect("a file"), "our project\n");
    let git = project.repository().join(".git");
    assert!(!git.join("hooks/pre-commit").exists() && !git.join("planted").exists());
}
