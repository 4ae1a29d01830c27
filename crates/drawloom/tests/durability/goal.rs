//! A goal with three workers, and at every point of its journal one kill: of the server, of a worker's launcher, or of a worker. The
//! end is the same, no process is left, and no paid call is repeated without a record.

mod processes;
mod records;

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command, sync::Mutex, thread};

use serde_json::{Value, json};

use crate::{
    http::{Response, send},
    kill::for_each,
    process::{Case, Server},
    prove::{Dice, pass, say, setting},
};

/// The variable that the server and every process of the goal's CLI carries; its value names the case.
const MARKER: &str = "GOAL_MARKER";

const TOKEN: &str = "sesame-of-the-durability-tests";

const CONFIG: &str = r#"
clis:
  script:
    command: [FILES/counted.sh]
    readable_paths: [FILES/counted.sh, FILES/cli.sh]
    writable_paths: [FILES/starts]
    env: [GOAL_MARKER]
    time_limit_seconds: 60
"#;

/// Leaves a line for its start, which costs money with a real CLI, and takes long enough to be killed. Its temporary directory is named
/// by the run and by the record of the call.
const COUNTED: &str = "#!/bin/sh\nbasename \"$TMPDIR\" >> FILES/starts/lines\nsleep 0.1\nexec FILES/cli.sh\n";

const GOAL: &str = "\
Write three files.
PLAN: [{\"id\":\"a\",\"description\":\"a\"},{\"id\":\"b\",\"description\":\"b\"},{\"id\":\"c\",\"description\":\"c\",\"depends_on\":[\"a\"]}]
WORK a: echo a > a.txt; sleep 0.1
WORK b: echo b > b.txt; sleep 0.2; echo more >> b.txt
WORK c: cat a.txt > c.txt; sleep 0.1
";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Server,
    /// One of the processes between the server and a CLI.
    Launcher,
    /// The process of a CLI, in whatever role.
    Worker,
}

/// One kill, when this many points have been passed.
#[derive(Debug, Clone, Copy)]
struct Kill {
    victim: Victim,
    point: usize,
}

/// What came of a goal.
struct Came {
    tree: String,
    /// Whether something was killed: the goal can end before the point.
    was_killed: bool,
    /// Calls that were made again after a note that they may be paid twice.
    noted: usize,
    /// Calls that failed and were tried again.
    failed: usize,
    /// Points that the first server passed.
    points: Vec<String>,
}

/// A home, a repository and a CLI.
struct Project {
    case: Case,
}

impl Project {
    fn new() -> Self {
        let mut case = Case::new(CONFIG);
        let files = case.path("files");
        fs::create_dir(files.join("starts")).expect("a directory");
        for (name, text) in [("cli.sh", include_str!("../it/goal/cli.sh")), ("counted.sh", COUNTED)] {
            fs::write(files.join(name), text.replace("FILES", &files.display().to_string())).expect("a file");
            fs::set_permissions(files.join(name), fs::Permissions::from_mode(0o755)).expect("a file of ours");
        }
        let home = case.directory.path().display().to_string();
        case.environment = vec![
            ("HOME", home.clone()),
            ("XDG_DATA_HOME", format!("{home}/share")),
            ("DRAWLOOM_TOKEN", TOKEN.into()),
            (MARKER, home),
        ];
        let project = Self { case };
        fs::create_dir(project.repository()).expect("a directory");
        fs::write(project.repository().join("readme.txt"), "a project\n").expect("a file");
        for arguments in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
            project.git(arguments).expect("a new repository");
        }
        project
    }

    fn repository(&self) -> PathBuf {
        self.case.path("repository")
    }

    fn git(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new("git")
            .args(["-c", "user.name=ann", "-c", "user.email=ann@example.com"])
            .args(arguments)
            .current_dir(self.repository())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .expect("git starts");
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(format!("git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    fn marker(&self) -> String {
        format!("{MARKER}={}", self.case.directory.path().display())
    }

    /// Starts the goal, or finds it by its key, and waits for its result.
    fn result(&self, server: &Server) -> Result<Value, String> {
        let request = json!({
            "goal": GOAL, "success_criteria": "x", "backend": "script", "cwd": self.repository(),
            "verify_commands": ["cmp a.txt c.txt"], "detach": false, "idempotency_key": "the one",
        });
        call(server, "POST", "/v1/goals", &request.to_string())
    }

    /// The goal with a kill, or without one.
    fn drive(&self, kill: Option<Kill>) -> Result<Came, String> {
        let points = self.case.path("points");
        let settings =
            |point: Option<usize>| json!({ "points": points, "kill": point.map(|point| format!("@{point}")) });
        let (server, result, was_killed) = match kill {
            Some(Kill { victim: Victim::Server, point }) => {
                let mut first = self.case.start(&settings(Some(point)));
                let passed_by = !first.url.is_empty() && self.result(&first).is_ok();
                if passed_by {
                    first.kill();
                }
                first.ended();
                fs::rename(&points, self.case.path("points of the first")).expect("it passed points");
                let server = self.case.start(&settings(None));
                let result = self.result(&server)?;
                (server, result, !passed_by)
            }
            Some(Kill { victim, point }) => {
                let server = self.case.start(&settings(None));
                let (result, was_killed) = thread::scope(|scope| {
                    let asked = scope.spawn(|| self.result(&server));
                    let mut was_killed = false;
                    while !was_killed && !asked.is_finished() {
                        pass(2);
                        was_killed = self.case.lines("points").len() >= point
                            && processes::kill_one(victim, &self.marker(), server.pid(), point);
                    }
                    (asked.join().expect("no panic"), was_killed)
                });
                (server, result?, was_killed)
            }
            None => {
                let server = self.case.start(&settings(None));
                let result = self.result(&server)?;
                (server, result, false)
            }
        };
        self.inspect(server, &result, was_killed)
    }

    /// Says what is wrong with a goal that has ended.
    fn inspect(&self, mut server: Server, result: &Value, was_killed: bool) -> Result<Came, String> {
        if result["status"] != "completed" {
            return Err(format!("the goal did not complete: {result:#}"));
        }
        let left = processes::left(&self.marker(), Some(server.pid()));
        if !left.is_empty() {
            return Err(format!("processes at work after the end of the goal: {left:?}"));
        }
        let goal = result["run_id"].as_str().ok_or("a result without an id")?;
        let branch = result["worktree"]["branch"].as_str().ok_or_else(|| format!("no branch: {result:#}"))?;
        let tree = self.git(&["rev-parse", &format!("{branch}^{{tree}}")])?;
        let tail = call(&server, "GET", &format!("/v1/goals/{goal}/events"), "")?;
        let events = tail["events"].as_array().cloned().unwrap_or_default();
        let of_kind = |kind: &str| -> Vec<&Value> { events.iter().filter(|event| event["kind"] == kind).collect() };
        let mut finished: Vec<&str> =
            of_kind("subagent_finished").iter().filter_map(|event| event["data"]["id"].as_str()).collect();
        finished.sort_unstable();
        if finished != ["a", "b", "c"] {
            return Err(format!("each subgoal should be finished once: {finished:?} in {tail:#}"));
        }
        let checkpoints = of_kind("checkpoint");
        if checkpoints.len() < 3 {
            return Err(format!("{} checkpoints: {tail:#}", checkpoints.len()));
        }
        for commit in checkpoints.iter().filter_map(|event| event["data"]["commit"].as_str()) {
            if self.git(&["for-each-ref", "--contains", commit])?.is_empty() {
                return Err(format!("the checkpoint {commit} is in no branch or ref"));
            }
        }
        server.kill();
        processes::until_none(&self.marker())?;
        let starts = self.case.path("files").join("starts/lines");
        let starts = fs::read_to_string(starts).map_err(|error| format!("no CLI was started: {error}"))?;
        let paid = records::check(&self.case.path("data"), goal, &starts)?;
        let warned = result["warnings"].to_string().contains("may be charged twice");
        if result["repeated_calls"] != paid.noted || warned != (paid.noted > 0) {
            return Err(format!("{} calls were made again, and the result says: {result:#}", paid.noted));
        }
        let points = match self.case.lines("points of the first") {
            points if points.is_empty() => self.case.lines("points"),
            points => points,
        };
        Ok(Came { tree, was_killed, noted: paid.noted, failed: paid.failed, points })
    }
}

/// A call with the token of the server.
fn call(server: &Server, method: &str, path: &str, body: &str) -> Result<Value, String> {
    let authorization = format!("Bearer {TOKEN}");
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
        ("Authorization", authorization.as_str()),
    ];
    let answer = send(&server.url, method, path, &headers, body).and_then(Response::json);
    answer.map_err(|error| format!("{method} {path}: {error}"))
}

#[test]
fn a_goal_comes_to_the_same_end_whatever_is_killed_at_any_record() {
    let most = setting("PROVE_POINTS", 12) as usize;
    let whole = Project::new().drive(None).expect("a goal without a kill");
    assert_eq!((whole.noted, whole.failed), (0, 0), "nothing is repeated without a kill");
    let kills = |victim| (1..=whole.points.len()).map(move |point| Kill { victim, point });
    // A launcher or worker is killed after a commit: before it, and before the one that follows, nothing new is known.
    let after = |kill: &Kill| whole.points[kill.point - 1].starts_with("after ");
    let processes = kills(Victim::Launcher).chain(kills(Victim::Worker)).filter(after);
    let mut chosen: Vec<Kill> = kills(Victim::Server).chain(processes).collect();
    let mut dice = Dice::new(setting("PROVE_SEED", 11));
    while chosen.len() > most {
        chosen.swap_remove(dice.roll(0, chosen.len() as u64) as usize);
    }
    let (wrong, came) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    for_each(&chosen, |kill| {
        let project = Project::new();
        match project.drive(Some(*kill)) {
            Ok(end) if end.tree == whole.tree => came.lock().expect("no panic while held").push((*kill, end)),
            other => {
                let why = other.err().unwrap_or_else(|| "another tree".into());
                let at = project.case.lines("points of the first").pop().unwrap_or_default();
                wrong.lock().expect("no panic while held").push(format!("{kill:?} {at}: {why}"));
            }
        }
        false
    });
    let wrong = wrong.into_inner().expect("no panic while held");
    assert!(wrong.is_empty(), "{} of {} kills:\n{}", wrong.len(), chosen.len(), wrong.join("\n"));
    let came = came.into_inner().expect("no panic while held");
    say(&format!("a goal with three workers has {} points: before and after each commit", whole.points.len()));
    let mut killed_in_all = 0;
    for (victim, name) in
        [(Victim::Server, "the server"), (Victim::Launcher, "a launcher"), (Victim::Worker, "a CLI at work")]
    {
        let ends: Vec<&Came> = came.iter().filter(|(kill, _)| kill.victim == victim).map(|(_, end)| end).collect();
        let killed = ends.iter().filter(|end| end.was_killed).count();
        let noted: usize = ends.iter().map(|end| end.noted).sum();
        let failed: usize = ends.iter().map(|end| end.failed).sum();
        say(&format!(
            "{name}: killed at {killed} of {} points, and at the others none was at work any more; {noted} calls were made again after a record \
             that they may be paid twice, {failed} failed and were made again",
            ends.len()
        ));
        killed_in_all += killed;
    }
    assert!(killed_in_all * 3 >= came.len() * 2, "{killed_in_all} kills of {} points", came.len());
    say(
        "every goal completed with the same tree, every checkpoint is in a ref, no process was left, no call was repeated without a record",
    );
}
