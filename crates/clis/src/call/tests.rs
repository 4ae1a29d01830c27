//! Where a CLI may work, what is kept of it, and how its session goes on. A script stands for the CLI.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use drawloom_contract::{
    ids::{RunKey, Tenant, UserId},
    redact::Redactor,
    time::Timestamp,
    tool::{Holder, Place, Volumes},
};
use drawloom_process::Launcher;
use drawloom_testkit::{TestClock, definition};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::config::ClisConfig;

mod hostile;
mod private;

/// What Codex is asked for so that it makes its databases.
const SEED: &str = "exec --skip-git-repo-check -";

/// A machine with a home, a volume and checkouts.
struct Machine {
    directory: TempDir,
    mode: drawloom_contract::tool::Mode,
}

struct OneVolume(Place);

impl Volumes for OneVolume {
    fn locate(&self, _: Holder<'_>, _: Option<&str>, _: &str) -> Result<Place, ToolError> {
        Ok(self.0.clone())
    }
}

impl Machine {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["home", "volume", "temporary", "checkouts", "bin"] {
            fs::create_dir(directory.path().join(name)).expect("a directory");
        }
        Self { directory, mode: drawloom_contract::tool::Mode::ReadWrite }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn context(&self) -> ToolContext {
        let run = RunId::from_bytes([1; 16]);
        let place = Place {
            volume: "work".into(),
            root: Arc::new(File::open(self.at("volume")).expect("the volume")),
            mode: self.mode,
            guarded: Arc::default(),
            beside: Arc::default(),
            path: PathBuf::new(),
        };
        ToolContext {
            run: RunKey { tenant: Tenant::default_tenant(), run },
            call: 2,
            began: Timestamp::from_millis(1),
            root: RunId::from_bytes([2; 16]),
            user: "user".parse::<UserId>().expect("a name"),
            depth: 1,
            definition: Arc::new(definition("worker", "mine", "")),
            hosts: Arc::default(),
            volumes: Arc::new(OneVolume(place)),
            redactor: Arc::new(Redactor::new(["hunter2-hunter2"])),
            evidence: None,
            woken: None,
            progress: Arc::new(()),
        }
    }

    /// The directory of the run's tree.
    fn tree(&self) -> PathBuf {
        directory::of_tree(&self.at("checkouts"), &self.context())
    }

    fn checkout(&self) -> PathBuf {
        let checkout = self.tree().join("w1");
        fs::create_dir_all(&checkout).expect("a directory");
        checkout
    }

    /// The tool, with `script` as the program of Codex.
    fn tool(&self, script: &str, config: Value) -> CliRun {
        self.tool_of("codex", script, config)
    }

    /// The tool, with `script` as this program. It makes no databases beforehand.
    fn tool_of(&self, program: &str, script: &str, config: Value) -> CliRun {
        self.whole_tool(program, &format!("case \"$*\" in '{SEED}') exit 1;; esac\n{script}"), config)
    }

    /// The tool, with `script` as this program also where it is to make databases beforehand.
    fn whole_tool(&self, program: &str, script: &str, config: Value) -> CliRun {
        let program = self.at("bin").join(program);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
        let config: ClisConfig = serde_json::from_value(json!({ "mine": config })).expect("a config");
        let parts = Parts {
            launcher: Launcher::new(launcher(), &["launch"]),
            temporary: self.at("temporary"),
            checkouts: self.at("checkouts"),
            copies: self.at("clis/copies"),
            hidden: Vec::new(),
            environment: BTreeMap::from([
                ("PATH".to_owned(), format!("{}:/usr/bin:/bin", self.at("bin").display())),
                ("OPENAI_API_KEY".to_owned(), "key".to_owned()),
            ]),
            home: self.at("home"),
            clock: Arc::new(TestClock::default()),
            config: config.clone(),
        };
        CliRun { clis: Clis::new(&config), parts }
    }

    async fn call(&self, tool: &CliRun, input: Value) -> Result<Reply, String> {
        self.call_in(&self.context(), tool, input).await
    }

    async fn call_in(&self, context: &ToolContext, tool: &CliRun, input: Value) -> Result<Reply, String> {
        let mut whole = json!({ "prompt": "Weave it", "session": { "new": { "new": "id" } } });
        for (key, value) in input.as_object().expect("keys") {
            whole[key] = value.clone();
        }
        match tool.call(context, whole).await {
            Ok(Step::Done(result)) => Ok(serde_json::from_str(&result.text).expect("a reply")),
            Ok(_) => panic!("it neither waits nor spawns"),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The program that cargo built beside this one.
fn launcher() -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    own.parent().and_then(Path::parent).expect("deps").join("examples/cli_launcher")
}

/// The output of Codex for this answer, in a thread of this id.
fn codex(thread: &str, text: &str, tokens: u32) -> String {
    format!(
        "echo '{{\"type\":\"thread.started\",\"thread_id\":\"{thread}\"}}'; \
         echo '{{\"type\":\"item.completed\",\"item\":{{\"type\":\"agent_message\",\"text\":\"{text}\"}}}}'; \
         echo '{{\"type\":\"turn.completed\",\"usage\":{{\"input_tokens\":{tokens},\"output_tokens\":1}}}}'"
    )
}

fn preset() -> Value {
    json!({ "preset": "codex" })
}

#[tokio::test]
async fn a_directory_must_be_inside_the_checkouts_of_the_runs_own_tree() {
    let machine = Machine::new();
    let tool = machine.tool("true", preset());
    let checkout = machine.checkout();
    fs::create_dir_all(machine.at("checkouts/other/w1")).expect("a directory");
    std::os::unix::fs::symlink(machine.at("home"), machine.tree().join("link")).expect("a link");
    let foreign = [
        machine.at("home"),
        machine.at("checkouts/other/w1"),
        machine.tree(),
        machine.tree().join("link"),
        checkout.join("../../other/w1"),
        checkout.join("missing"),
    ];
    for directory in foreign {
        let refused = machine.call(&tool, json!({ "directory": directory })).await.expect_err("it is refused");
        assert!(refused.starts_with("foreign_directory: "), "{refused}");
        let refused = machine.call(&tool, json!({ "output_dir": directory })).await.expect_err("it is refused");
        assert!(refused.starts_with("foreign_directory: "), "{refused}");
    }
}

#[tokio::test]
async fn skip_permissions_needs_a_checkout_and_edit_a_volume_that_can_be_changed() {
    let mut machine = Machine::new();
    let tool = machine.tool(&codex("t", "$*", 1), preset());
    let refused = machine.call(&tool, json!({ "mode": "skip_permissions" })).await.expect_err("it is refused");
    assert!(refused.starts_with("not_isolated: the mode skip_permissions needs an isolated checkout"), "{refused}");
    let input = json!({ "mode": "skip_permissions", "directory": machine.checkout() });
    assert_eq!(machine.call(&tool, input).await.expect("it is allowed").problem, None);
    machine.mode = drawloom_contract::tool::Mode::ReadOnly;
    let refused = machine.call(&tool, json!({ "mode": "edit" })).await.expect_err("it is refused");
    assert!(refused.starts_with("read_only_volume: the volume work is read-only"), "{refused}");
    let tool = machine.tool(&format!("echo x > new; {}", codex("t", "read", 1)), preset());
    assert_eq!(machine.call(&tool, json!({})).await.expect("it reads").text, "read");
    assert!(!machine.at("volume/new").exists());
}

#[tokio::test]
async fn raw_output_is_kept_where_the_caller_says_without_secrets_and_never_through_a_link() {
    let machine = Machine::new();
    let script = format!("{}; echo hunter2-hunter2 >&2; cat > /dev/null", codex("t", "hunter2-hunter2", 1));
    let tool = machine.tool(&script, preset());
    let (checkout, output) = (machine.checkout(), machine.tree().join("workers"));
    fs::create_dir(&output).expect("a directory");
    let input = json!({ "directory": checkout, "output_dir": output, "output_name": "i01-a1" });
    let reply = machine.call(&tool, input.clone()).await.expect("it runs");
    assert_eq!(reply.text, "[redacted]");
    let out = fs::read_to_string(output.join("i01-a1.out")).expect("the output");
    assert!(out.contains("thread.started") && out.contains("[redacted]") && !out.contains("hunter2"), "{out}");
    assert_eq!(fs::read_to_string(output.join("i01-a1.err")).expect("the errors"), "[redacted]\n");
    let victim = machine.at("home/victim");
    fs::write(&victim, "kept").expect("a file");
    fs::remove_file(output.join("i01-a1.out")).expect("the file");
    std::os::unix::fs::symlink(&victim, output.join("i01-a1.out")).expect("a link");
    let refused = machine.call(&tool, input).await.expect_err("it is refused");
    assert!(refused.starts_with("output_not_written: "), "{refused}");
    assert_eq!(fs::read_to_string(victim).expect("the file"), "kept");
    assert_eq!(fs::read_dir(machine.at("temporary")).expect("a directory").count(), 0, "nothing is left");
}

#[tokio::test]
async fn a_session_goes_on_in_a_later_call_and_in_a_run_of_the_same_tree() {
    let machine = Machine::new();
    let checkout = machine.checkout();
    // It answers its arguments and what it reads.
    let script = format!(
        "said=$(cat | tr '\\n' ' '); told=$(echo \"$*\" | tr -d '\"'); {}",
        codex("thread-1", "'\"$told: $said\"'", 50)
    );
    let tool = machine.tool(&script, preset());
    let first = machine.call(&tool, json!({ "directory": checkout })).await.expect("it runs");
    assert!(first.text.ends_with("-: Weave it"), "{}", first.text);
    assert_eq!(first.usage.input_tokens, 50);
    let own = json!({ "directory": checkout, "session": { "own": { "new": "id2" } } });
    let again = machine.call(&tool, own).await.expect("it runs");
    assert!(again.text.contains("resume thread-1 -: Your work on this task was interrupted."), "{}", again.text);
    assert_eq!(again.usage.input_tokens, 0, "Codex reports the sum of the thread");
    let of = json!({ "directory": checkout, "session": { "of": { "run": RunId::from_bytes([1; 16]), "new": "id3" } } });
    let sibling = machine.call(&tool, of).await.expect("it runs");
    assert!(sibling.text.contains("resume thread-1 -: Weave it"), "{}", sibling.text);
    let unknown = json!({ "session": { "of": { "run": RunId::from_bytes([9; 16]), "new": "id4" } } });
    let fresh = machine.call(&tool, unknown).await.expect("it runs");
    assert!(!fresh.text.contains("resume"), "{}", fresh.text);
}

#[tokio::test]
async fn what_a_checkout_shares_with_a_repository_can_be_read_and_nothing_else_of_tmp() {
    let machine = Machine::new();
    let checkout = machine.checkout();
    fs::create_dir(machine.at("objects")).expect("a directory");
    fs::write(machine.at("objects/pack"), "shared").expect("a file");
    fs::write(machine.at("other"), "private").expect("a file");
    fs::write(machine.tree().join("readable"), format!("{}\n", machine.at("objects").display())).expect("a file");
    let read = |name: &str| format!("$(cat {} 2>/dev/null)", machine.at(name).display());
    let text = format!("'\"{}|{}\"'", read("objects/pack"), read("other"));
    let tool = machine.tool(&codex("t", &text, 1), preset());
    let reply = machine.call(&tool, json!({ "directory": checkout })).await.expect("it runs");
    assert_eq!(reply.text, "shared|");
}

#[tokio::test]
async fn a_missing_program_and_a_missing_login_are_named_before_anything_starts() {
    let machine = Machine::new();
    let mut tool = machine.tool("true", preset());
    fs::remove_file(machine.at("bin/codex")).expect("the program");
    let problem = machine.call(&tool, json!({})).await.expect("a reply").problem.expect("a problem");
    assert_eq!(problem.kind, ProblemKind::NotInstalled);
    assert!(
        problem.message.starts_with("Codex is not installed: no program \"codex\" in PATH; install it"),
        "{}",
        problem.message
    );
    tool = machine.tool("true", preset());
    tool.parts.environment.remove("OPENAI_API_KEY");
    let problem = machine.call(&tool, json!({})).await.expect("a reply").problem.expect("a problem");
    assert_eq!(problem.kind, ProblemKind::NotLoggedIn);
    assert!(problem.message.contains("run `codex login`"), "{}", problem.message);
}

#[tokio::test]
async fn a_probe_tells_the_version_and_the_login() {
    let machine = Machine::new();
    let script = "case \"$1\" in --version) echo codex-cli 1.2.3;; login) echo Not logged in >&2; exit 1;; esac";
    let tool = machine.tool(script, preset());
    let cli = tool.clis.find("mine").expect("a CLI");
    let found = crate::probe::probe(cli, &tool.parts).await;
    assert_eq!((found.installed(), found.version.as_deref()), (true, Some("codex-cli 1.2.3")));
    assert_eq!(found.logged_in, crate::probe::Login::No("Not logged in".into()));
    let missing = machine.tool("true", json!({ "preset": "aider" }));
    let found = crate::probe::probe(missing.clis.find("mine").expect("a CLI"), &missing.parts).await;
    assert!(!found.installed());
}

#[test]
fn a_reply_of_any_characters_fits_into_the_journal_and_stays_json() {
    let reply = Reply {
        text: "\u{1}".repeat(MOST_TEXT),
        permission_denials: vec!["\u{2}".repeat(100_000); 100],
        ..Reply::failed(ProblemKind::Crashed, "\u{3}".repeat(1_000_000))
    };
    let text = within(reply).expect("JSON");
    assert!(text.len() <= MAX_RESULT_BYTES, "{}", text.len());
    serde_json::from_str::<Reply>(&text).expect("a reply");
}
