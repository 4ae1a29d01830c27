//! The server of the shipped binary, killed again and again at random in the middle of a goal: the end is the same. Kills at every
//! record, also of launchers and workers, are in `durability/goal.rs`.

use std::{fs, process::Command, time::Duration};

use serde_json::Value;

use super::Project;

/// The variable that every process of the goal's workers carries.
const MARKER: &str = "GOAL_MARKER";

const GOAL: &str = "\
Write three files.
PLAN: [{\"id\":\"a\",\"description\":\"a\"},{\"id\":\"b\",\"description\":\"b\"},{\"id\":\"c\",\"description\":\"c\",\"depends_on\":[\"a\"]}]
WORK a: sleep 0.2; echo a > a.txt; sleep 0.2
WORK b: echo b > b.txt; sleep 0.3; echo more >> b.txt
WORK c: cat a.txt > c.txt; sleep 0.2
";

/// How workers work.
const WAYS: [&[&str]; 3] =
    [&["--backend", "script"], &["--backend", "script", "--no-isolate"], &["--backend", "model:slow"]];

/// A model that does the same with our tools.
const MODEL: &str = r##"
models: { slow: { provider: fake, model: small } }
providers:
  fake:
    driver: script
    options:
      rules:
        - when: { contains: "# What the workers report" }
          delay_ms: 100
          text: '{"quality_ok":true,"consistency_ok":true,"goal_aligned":true,"goal_complete":true,"issues":[]}'
        - when: { contains: "# Your subgoal: a", turn: 1 }
          delay_ms: 200
          calls: [{ tool: Write, input: { path: a.txt, content: "a\n" } }]
        - when: { contains: "# Your subgoal: b", turn: 1 }
          calls: [{ tool: Write, input: { path: b.txt, content: "b\n" } }]
        - when: { contains: "# Your subgoal: b", turn: 2 }
          delay_ms: 300
          calls: [{ tool: Edit, input: { path: b.txt, old_string: "b\n", new_string: "b\nmore\n" } }]
        - when: { contains: "# Your subgoal: c", turn: 1 }
          calls: [{ tool: Read, input: { path: a.txt } }, { tool: Write, input: { path: c.txt, content: "a\n" } }]
        - when: { contains: "# Your subgoal: " }
          delay_ms: 100
          text: "done"
        - delay_ms: 100
          text: '[{"id":"a","description":"a"},{"id":"b","description":"b"},{"id":"c","description":"c","depends_on":["a"]}]'
"##;

/// Seeded pauses, so that a failure can be repeated.
struct Pauses(u64);

impl Pauses {
    fn next(&mut self) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(20 + (self.0 >> 33) % 700)
    }
}

pub(super) fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The id of the server's process, if one is announced.
pub(super) fn server(project: &Project) -> Option<u32> {
    let announced = fs::read_to_string(project.home.data().join("server.json")).ok()?;
    let announced: Value = serde_json::from_str(&announced).ok()?;
    announced["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())
}

fn tree_of(project: &Project, result: &Value) -> String {
    let branch = result["worktree"]["branch"].as_str().unwrap_or_else(|| panic!("a branch: {result:#}"));
    project.git(&["rev-parse", &format!("{branch}^{{tree}}")])
}

/// Processes that carry the marker of this project.
fn marked(project: &Project) -> usize {
    let marker = format!("{MARKER}={}", project.home.path().display());
    let entries = fs::read_dir("/proc").expect("a file system of processes");
    let is_marked = |path: std::path::PathBuf| {
        fs::read(path.join("environ"))
            .is_ok_and(|text| text.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes()))
    };
    entries.flatten().filter(|entry| is_marked(entry.path())).count()
}

#[test]
fn a_goal_that_is_killed_again_and_again_ends_with_the_same_tree_and_no_process_is_left() {
    let (kills, seed) = (number("PROVE_KILLS", 6), number("PROVE_SEED", 7));
    let undisturbed = Project::new();
    let expected = tree_of(&undisturbed, &undisturbed.result(GOAL, &["--verify", "cmp a.txt c.txt"]));
    let mut pauses = Pauses(seed);
    let (mut killed, mut goals) = (0, 0);
    // Each way at least once: isolated, in the user's checkout, and with a model in place of a CLI.
    while killed < kills || goals < WAYS.len() {
        let way = WAYS[goals % WAYS.len()];
        goals += 1;
        let project = Project::new();
        project.configure(|config| {
            let config = config.replace("time_limit_seconds: 60", &format!("time_limit_seconds: 60, env: [{MARKER}]"));
            format!("{config}{MODEL}")
        });
        let marker = project.home.path().display().to_string();
        let drawloom = |arguments: &[&str]| project.home.finish(project.command(arguments).env(MARKER, &marker));
        let run = [&["goal", "run", GOAL, "--criteria", "x"], way].concat();
        let started = drawloom(&[&run[..], &["--verify", "cmp a.txt c.txt", "--detach", "--json"]].concat());
        let run = started.exits(0).json()["run_id"].as_str().expect("an id").to_owned();
        let mut result = Value::Null;
        let share = killed + kills.div_ceil(WAYS.len() as u64);
        for _ in 0..40 {
            // This is the chance of the test: how far the goal comes before the kill.
            pause(pauses.next());
            result = drawloom(&["goal", "result", &run, "--json"]).json();
            if result["completed"].is_boolean() || killed >= share {
                break;
            }
            if let Some(pid) = server(&project) {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
                killed += 1;
            }
            drawloom(&["restart"]).exits(0);
        }
        if !result["completed"].is_boolean() {
            result = drawloom(&["goal", "result", &run, "--wait", "--json"]).json();
        }
        assert_eq!(result["status"], "completed", "seed {seed}: {result:#}");
        assert_eq!(tree_of(&project, &result), expected, "seed {seed}: {result:#}");
        if way.contains(&"--no-isolate") {
            project.git(&["add", "-A"]);
            assert_eq!(project.git(&["write-tree"]), expected, "seed {seed}: the checkout has the same files");
        }
        for checkpoint in result["worktree"]["checkpoints"].as_array().expect("a list") {
            let commit = checkpoint.as_str().and_then(|line| line.split(' ').next()).expect("a commit");
            project.git(&["cat-file", "-e", &format!("{commit}^{{commit}}")]);
        }
        let told = drawloom(&["goal", "tail", &run, "--no-follow", "--json"]).stdout;
        let finished = told.lines().filter(|line| line.contains("\"subagent_finished\"")).count();
        assert_eq!(finished, 3, "seed {seed}: each subgoal was finished once: {told}");
        assert_eq!(
            marked(&project),
            usize::from(server(&project).is_some()),
            "only the server itself carries the marker"
        );
        drawloom(&["stop"]);
        assert_eq!(marked(&project), 0, "no process is left");
    }
    say(&format!(
        "{goals} goals of the shipped binary, their server killed {killed} times at random: the same tree each time"
    ));
}

/// A line of the result: `./prove` writes it down.
pub(super) fn say(text: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "prove: {text}").expect("stderr");
}

/// A pause that is part of what is tested: it is not a wait for an event.
fn pause(time: Duration) {
    let _ = Command::new("sleep").arg(format!("{:.3}", time.as_secs_f64())).status();
}
