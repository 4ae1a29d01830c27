//! Codex. Seen with version 0.166.0: one event per line; a turn ends with `turn.completed` or `turn.failed`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use drawloom_contract::{activity::Activity, usage::Usage};
use drawloom_process::Line;
use serde_json::Value;

use crate::{
    activity::subject,
    error::Error,
    input::Mode,
    preset::{
        Ended, Invocation, Metering, ModeArgs, Preset, Reader, Request, Session, Setting, combined, kind_of_status,
        status_in, variable, went_on_after_result,
    },
    reply::{Problem, ProblemKind, Reply},
    seed::Seed,
    state::{Keep, Login, Root, State},
};

pub(crate) struct Codex;

/// What to do without a login.
const LOG_IN: &str = "run `codex login` as drawloom's user, or set CODEX_API_KEY for the server";

fn codex_home(home: &Path, environment: &BTreeMap<String, String>) -> PathBuf {
    variable(environment, "CODEX_HOME").map_or_else(|| home.join(".codex"), PathBuf::from)
}

impl Preset for Codex {
    fn title(&self) -> &str {
        "Codex"
    }

    fn program(&self) -> &str {
        "codex"
    }

    fn variables(&self) -> &'static [&'static str] {
        &["OPENAI_*", "CODEX_HOME", "CODEX_API_KEY"]
    }

    fn state(&self, home: &Path, environment: &BTreeMap<String, String>) -> State {
        let login = Login::of("auth.json").taken(&["tokens", "last_refresh"]);
        let root = Root::of(codex_home(home, environment), Some(("CODEX_HOME", 0)))
            .settings(&[
                "config.toml",
                "*.config.toml",
                "AGENTS.md",
                "AGENTS.override.md",
                "instructions.md",
                "hooks.json",
                "requirements.toml",
                "installation_id",
                "version.json",
                "models_cache.json",
                ".env",
            ])
            .shared(&["prompts", "skills", "rules", "plugins", "agents", "hooks", "themes", "packages"])
            .login(login.account("/tokens/account_id").newer("/last_refresh"))
            .sessions(Keep::WithUser, &["sessions/*/*/*/rollout-*{session}.jsonl"]);
        State { roots: vec![root], readable: Vec::new() }
    }

    fn mode(&self, setting: Setting) -> Option<ModeArgs> {
        Some(match (setting.mode, setting.confined) {
            // Its own sandbox cannot be set up inside ours, which holds it to the same.
            (_, true) | (Mode::SkipPermissions, false) => ModeArgs::of(&["--dangerously-bypass-approvals-and-sandbox"]),
            (Mode::ReadOnly, false) => ModeArgs::of(&["-s", "read-only"]),
            (Mode::Edit, false) => ModeArgs::of(&["-s", "workspace-write"]),
        })
    }

    fn resumes(&self) -> bool {
        true
    }

    fn seed(&self) -> Option<Seed> {
        // It makes them before it looks for a prompt, and ends without one.
        Some(Seed {
            variable: "CODEX_HOME",
            directory: "",
            args: &["exec", "--skip-git-repo-check", "-"],
            files: &["*.sqlite", "*.sqlite-wal"],
        })
    }

    fn metering(&self) -> Metering {
        Metering::Tokens
    }

    fn reports_sums(&self) -> bool {
        true
    }

    fn missing_login(&self, home: &Path, environment: &BTreeMap<String, String>) -> Option<String> {
        let directory = codex_home(home, environment);
        let has_key = ["CODEX_API_KEY", "OPENAI_API_KEY"].iter().any(|name| variable(environment, name).is_some());
        // Without a login it tries to connect for ever; a provider of its own may need none.
        let has_provider =
            fs::read_to_string(directory.join("config.toml")).is_ok_and(|text| text.contains("model_provider"));
        let has_login = directory.join("auth.json").exists() || has_key || has_provider;
        (!has_login).then(|| {
            format!("Codex is not logged in: {} does not exist; {LOG_IN}", directory.join("auth.json").display())
        })
    }

    fn login_status(&self) -> Option<&'static [&'static str]> {
        Some(&["login", "status"])
    }

    fn invocation(&self, request: &Request<'_>) -> Result<Invocation, Error> {
        let mut args: Vec<String> = ["exec", "--json", "--color", "never", "--skip-git-repo-check", "--ignore-rules"]
            .map(str::to_owned)
            .to_vec();
        // Settings of the repository are the work of others and can run commands; they hold only where a directory is trusted.
        let directory = Value::from(request.directory.to_string_lossy());
        args.extend(["-c".into(), format!("projects.{directory}.trust_level=\"untrusted\"")]);
        if let Some(model) = request.model {
            args.extend(["-m".into(), model.to_owned()]);
        }
        let mut files = Vec::new();
        if let Some(schema) = request.schema {
            files.push(("schema.json", schema.to_string()));
            args.extend(["--output-schema".into(), request.files.join("schema.json").to_string_lossy().into_owned()]);
        }
        args.extend(request.extra.iter().cloned());
        if let Session::Resume(id) = request.session {
            args.extend(["resume".into(), id.to_owned()]);
        }
        args.push("-".into());
        Ok(Invocation { args, environment: Vec::new(), input: Some(combined(request)), files })
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Output::default())
    }
}

/// The output so far.
#[derive(Default)]
struct Output {
    session: Option<String>,
    text: String,
    usage: Usage,
    turns: u32,
    failed: Option<String>,
    declined: Vec<String>,
    last_error: Option<String>,
    activity: Option<Activity>,
    completed: bool,
    /// Whether it went on after the end of its turn, or named a second thread: one of the two is not its own.
    went_on: bool,
}

impl Reader for Output {
    fn line(&mut self, line: &Line) {
        let Ok(event) = serde_json::from_str::<Value>(&line.text) else { return };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.look(&event);
        match event["type"].as_str() {
            Some("thread.started" | "turn.started" | "turn.completed" | "turn.failed" | "item.completed")
                if self.completed || self.failed.is_some() =>
            {
                self.went_on = true;
            }
            Some("thread.started") if self.session.is_some() => self.went_on = true,
            Some("thread.started") => self.session = event["thread_id"].as_str().map(str::to_owned),
            Some("item.completed") => {
                let item = &event["item"];
                match (item["type"].as_str(), item["status"].as_str()) {
                    (Some("agent_message"), _) => self.text = text(&item["text"]),
                    (Some("command_execution"), Some("declined")) => self.declined.push(text(&item["command"])),
                    (Some("file_change"), Some("declined")) => self.declined.push("a change of files".into()),
                    _ => {}
                }
            }
            Some("turn.completed") => {
                let count = |name: &str| event["usage"][name].as_u64().unwrap_or(0);
                let cached = count("cached_input_tokens");
                self.usage = Usage {
                    input_tokens: count("input_tokens").saturating_sub(cached),
                    output_tokens: count("output_tokens"),
                    cache_creation_input_tokens: count("cache_write_input_tokens"),
                    cache_read_input_tokens: cached,
                    reasoning_tokens: count("reasoning_output_tokens"),
                };
                self.turns += 1;
                self.completed = true;
            }
            Some("turn.failed") => self.failed = Some(text(&event["error"]["message"])),
            Some("error") => self.last_error = Some(text(&event["message"])),
            _ => {}
        }
    }

    fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    fn activity(&self) -> Option<&Activity> {
        self.activity.as_ref()
    }

    fn finish(self: Box<Self>, ended: &Ended<'_>) -> Reply {
        let problem = match (&self.failed, self.completed) {
            _ if self.went_on => Some(went_on_after_result("Codex")),
            (Some(message), _) => Some(problem_of(message)),
            (None, true) if ended.is_success() => None,
            (None, _) => {
                let mut problem = ended.problem();
                if ended.errors.contains("no rollout found for thread id") {
                    problem.kind = ProblemKind::SessionLost;
                }
                if let Some(error) = &self.last_error {
                    problem.message = format!("{}; its last error: {error}", problem.message);
                }
                Some(problem)
            }
        };
        let turns = Some(self.turns);
        Reply {
            text: if self.went_on { String::new() } else { self.text },
            session: self.session,
            usage: self.usage,
            turns,
            permission_denials: self.declined,
            problem,
            cost: None,
        }
    }
}

impl Output {
    /// Takes in what an event says of the tool that is used. Tokens come at the end of a turn.
    fn look(&mut self, event: &Value) {
        let item = &event["item"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (tool, detail) = match (event["type"].as_str(), item["type"].as_str()) {
            (Some("turn.completed"), _) => {
                let count = |name: &str| event["usage"][name].as_u64().unwrap_or(0);
                // Cached tokens are a part of the input.
                let tokens = ["input_tokens", "output_tokens", "cache_write_input_tokens"].map(count);
                self.activity.get_or_insert_default().tokens = tokens.into_iter().fold(0, u64::saturating_add);
                return;
            }
            (Some("item.started" | "item.completed"), Some("command_execution")) => {
                ("shell".into(), text(&item["command"]))
            }
            (Some("item.started" | "item.completed"), Some("file_change")) => {
                ("apply_patch".into(), text(&item["changes"][0]["path"]))
            }
            (Some("item.started" | "item.completed"), Some("mcp_tool_call")) => {
                (format!("{}.{}", text(&item["server"]), text(&item["tool"])), subject(&item["arguments"]))
            }
            (Some("item.started" | "item.completed"), Some("web_search")) => {
                ("web_search".into(), text(&item["query"]))
            }
            _ => return,
        };
        let activity = self.activity.get_or_insert_default();
        (activity.tool, activity.detail) = (tool, detail);
    }
}

/// What the message of a failed turn means. It is Codex's own, not the model's.
fn problem_of(message: &str) -> Problem {
    let limit = ["usage limit", "quota"].iter().any(|word| message.contains(word));
    let kind = status_in(message).and_then(kind_of_status).or(limit.then_some(ProblemKind::RateLimited));
    let kind = kind.unwrap_or(match message.contains("stream disconnected") || message.contains("overloaded") {
        true => ProblemKind::Overloaded,
        false => ProblemKind::Crashed,
    });
    let message = match kind {
        ProblemKind::NotLoggedIn => format!("Codex is not logged in ({message}); {LOG_IN}"),
        ProblemKind::RateLimited => format!("Codex is rate limited: {message}"),
        ProblemKind::Overloaded => format!("the model of Codex is not available: {message}"),
        _ => format!("Codex failed: {message}"),
    };
    Problem::new(kind, message)
}
