//! Skills from the config to the model: offered by name, loaded on demand, reported when broken.

use std::fs;

use crate::support::Home;

const CONFIG: &str = "\
providers:
  script:
    driver: script
    options:
      rules:
        - when: { contains: load, turn: 1 }
          calls: [{ tool: Skill, input: { name: weave } }]
        - when: { contains: plant, turn: 1 }
          calls: [{ tool: Write, input: { path: shelf/weave/SKILL.md, content: planted } }]
        - when: { contains: another, turn: 1 }
          calls: [{ tool: Write, input: { path: shelf/evil/SKILL.md, content: planted } }]
        - when: { contains: linked, turn: 1 }
          calls: [{ tool: Write, input: { path: far/SKILL.md, content: planted } }]
        - when: { contains: shell, turn: 1 }
          calls: [{ tool: Bash, input: { command: \"echo x >> shelf/weave/SKILL.md; mkdir shelf/evil; mv shelf new; echo x >> far/SKILL.md; ls shelf; echo done\" } }]
        - when: { contains: file, turn: 1 }
          calls: [{ tool: Skill, input: { name: weave, file: notes/extra.md } }]
        - when: { turn: 2 }
          text: \"{{last}}\"
        - text: \"{{prompt}}\"
defaults: { provider: script, model: test }
skills: { directories: [shelf] }
agents:
  weaver: { tools: [Skill], skills: [weave], agents: [], hosts: [], bundled_skills: [weave] }
";

fn home() -> Home {
    let home = Home::new();
    home.write("drawloom.yaml", CONFIG);
    put(&home, "weave/SKILL.md", "---\nname: weave\ndescription: How to weave: well\n---\nOver, under.\n");
    put(&home, "weave/notes/extra.md", "Extra.\n");
    home
}

fn put(home: &Home, name: &str, text: &str) {
    let path = home.path().join("shelf").join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

#[test]
fn a_model_loads_a_skill_and_its_files() {
    let home = home();
    let run =
        |prompt: &str| home.run(&["run", "weaver", prompt, "--embedded", "--config", "drawloom.yaml"]).exits(0).stdout;
    let loaded = run("load it");
    assert!(loaded.contains("Over, under.") && loaded.contains("notes/extra.md"), "{loaded}");
    assert!(run("file it").contains("Extra."));
}

#[test]
fn agents_cannot_change_the_folders_of_skills() {
    let home = home();
    let around = CONFIG.replace("[shelf]", "[lib/shelf]").replace(
        "agents:\n",
        "tools: { bash: { enabled: true } }\nvolumes: { lib: { path: lib, mode: rw } }\nagents:\n  \
         writer: { tools: [Write, Bash], volumes: [lib], agents: [], hosts: [] }\n",
    );
    home.write("drawloom.yaml", &around);
    fs::create_dir_all(home.path().join("lib/far")).expect("a folder");
    fs::rename(home.path().join("shelf"), home.path().join("lib/shelf")).expect("renamed");
    home.write("lib/far/SKILL.md", "---\nname: far\ndescription: Far.\n---\nFar.\n");
    std::os::unix::fs::symlink("../far", home.path().join("lib/shelf/far")).expect("a link");
    let run =
        |prompt: &str| home.run(&["run", "writer", prompt, "--embedded", "--config", "drawloom.yaml"]).exits(0).stdout;
    for prompt in ["plant", "another", "linked"] {
        let said = run(prompt);
        assert!(said.contains("agents can read it but not change it"), "{prompt}: {said}");
    }
    let said = run("shell");
    assert!(said.contains("done") && said.contains("weave"), "{said}");
    let text = |name: &str| fs::read_to_string(home.path().join(name)).expect("a file");
    assert!(text("lib/shelf/weave/SKILL.md").ends_with("Over, under.\n"), "{said}");
    assert!(text("lib/far/SKILL.md").ends_with("Far.\n"), "{said}");
    assert!(!home.path().join("lib/shelf/evil").exists() && home.path().join("lib/shelf").is_dir(), "{said}");
    home.write("drawloom.yaml", &around.replace("volumes: {", "volumes: { in: { path: lib/shelf/weave, mode: rw },"));
    let refused = home.run(&["validate"]).exits(2);
    assert!(refused.stderr.contains("volume in is inside"), "{}", refused.stderr);
}

#[test]
fn broken_skills_are_findings_with_file_and_line_and_unknown_names_are_mistakes() {
    let home = home();
    put(&home, "bad name/SKILL.md", "---\nname: x\n---\ntext");
    put(&home, "mute/SKILL.md", "---\nname: other\n---\ntext");
    put(&home, "deep/er/weave/SKILL.md", "---\nname: weave\ndescription: d\n---\ntext");
    fs::create_dir(home.path().join("shelf/raw")).expect("a folder");
    fs::write(home.path().join("shelf/raw/SKILL.md"), b"---\nname: raw\n\xff---\n").expect("a file");
    let findings = home.run(&["validate", "--json"]).exits(0).json()["findings"].to_string();
    for part in [
        "shelf/bad name/SKILL.md:1: the name of the folder",
        "shelf/mute/SKILL.md:2: the skill is called \\\"mute\\\"",
        "skill \\\"mute\\\" has no description",
        "shelf/raw/SKILL.md:3: this is not UTF-8 text",
        "skill \\\"weave\\\" exists already",
        "no agent may load these skills: mute",
    ] {
        assert!(findings.contains(part), "{part:?} is not in {findings}");
    }
    home.write(
        "drawloom.yaml",
        &CONFIG.replace("skills: [weave], agents", "skills: [waeve], agents").replace("[shelf]", "[shelf, none]"),
    );
    let wrong = home.run(&["validate"]).exits(2).stderr;
    assert!(wrong.contains("unknown skill \"waeve\" (did you mean \"weave\"?)"), "{wrong}");
    assert!(wrong.contains("none is not a directory"), "{wrong}");
}

#[test]
fn skills_are_listed_and_shown() {
    let home = home();
    let listed = home.run(&["skills", "ls", "--width", "80"]).exits(0).stdout;
    assert_eq!(listed, "skill  agents  description\nweave  weaver  How to weave: well\n");
    assert_eq!(home.run(&["skills", "show", "weave"]).exits(0).stdout, "Over, under.\n");
    let unknown = home.run(&["skills", "show", "waeve"]).exits(2).stderr;
    assert!(unknown.contains("did you mean \"weave\"?"), "{unknown}");
}
