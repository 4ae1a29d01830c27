//! opencode. Seen with version 1.18.33: one event per line; each step ends with what it cost, and no event marks the end.

use std::{collections::BTreeMap, path::Path};

use drawloom_contract::{activity::Activity, money::Cost, usage::Usage};
use drawloom_process::Line;
use serde_json::{Value, json};

use crate::{
    activity::subject,
    error::Error,
    input::Mode,
    preset::{
        Ended, Invocation, Metering, ModeArgs, Preset, Reader, Request, Session, Setting, combined, kind_of_status,
        went_on_after_result, xdg,
    },
    reply::{Problem, ProblemKind, Reply},
    seed::Seed,
    state::{Keep, Login, Prepared, Root, State},
};

pub(crate) struct Opencode;

/// What to do without a login.
const LOG_IN: &str = "run `opencode auth login` as drawloom's user";

/// What opencode finds where it has installed its library for plugins before. Without it each run installs the library in the background,
/// which takes half a second of processor time and the network, and ends with the run. Plugins and tools of the user need it.
const NO_PLUGINS: Prepared = Prepared {
    unless: &["node_modules", "package.json", "package-lock.json", "plugin", "plugins", "tool", "tools"],
    files: &[
        ("node_modules/.package-lock.json", "{}"),
        ("package.json", r#"{"dependencies":{"@opencode-ai/plugin":"*"}}"#),
        ("package-lock.json", r#"{"packages":{"":{"dependencies":{"@opencode-ai/plugin":"*"}}}}"#),
    ],
};

impl Preset for Opencode {
    fn title(&self) -> &str {
        "opencode"
    }

    fn program(&self) -> &str {
        "opencode"
    }

    fn variables(&self) -> &'static [&'static str] {
        &[
            "OPENCODE_CONFIG",
            "OPENCODE_CONFIG_DIR",
            "OPENCODE_API_KEY",
            "XDG_DATA_HOME",
            "XDG_STATE_HOME",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
        ]
    }

    fn state(&self, home: &Path, environment: &BTreeMap<String, String>) -> State {
        let root =
            |name: &str, usual: &str| Root::of(xdg(home, environment, name, usual).join("opencode"), Some((name, 1)));
        let login = Login { own_account: Some("/accountId".into()), ..Login::of("auth.json") };
        let data = root("XDG_DATA_HOME", ".local/share")
            .settings(&["account.json"])
            .shared(&["bin"])
            .login(login.taken(&["*"]).newer("/expires"))
            // All sessions of a user are in one database.
            .sessions(Keep::WithRun, &["opencode*.db", "opencode*.db-wal", "storage/**"]);
        let state = root("XDG_STATE_HOME", ".local/state").settings(&["model.json", "kv.json"]);
        let cache = root("XDG_CACHE_HOME", ".cache")
            .settings(&["models*.json", "version", "package.json", "bun.lock"])
            .shared(&["bin", "node_modules", "packages"]);
        let config = root("XDG_CONFIG_HOME", ".config")
            .settings(&["*.json", "*.jsonc", "AGENTS.md", "bun.lock", ".gitignore"])
            .shared(&[
                "agent",
                "agents",
                "command",
                "commands",
                "mode",
                "modes",
                "plugin",
                "plugins",
                "prompts",
                "skill",
                "skills",
                "themes",
                "tool",
                "tools",
                "instructions",
                "node_modules",
            ])
            .prepared(NO_PLUGINS);
        State { roots: vec![data, state, cache, config], readable: Vec::new() }
    }

    fn mode(&self, setting: Setting) -> Option<ModeArgs> {
        // A command that writes elsewhere is not held by its rules, only by our sandbox.
        let commands = if setting.confined { "allow" } else { "deny" };
        let rules = match setting.mode {
            Mode::ReadOnly if !setting.confined => return None,
            Mode::ReadOnly => json!({ "*": "allow", "edit": "deny", "bash": commands, "external_directory": "allow" }),
            Mode::Edit => json!({ "*": "allow", "edit": "allow", "bash": commands, "external_directory": commands }),
            Mode::SkipPermissions => json!({ "*": "allow" }),
        };
        let args = if setting.mode == Mode::SkipPermissions { vec!["--auto".to_owned()] } else { Vec::new() };
        Some(ModeArgs { args, environment: vec![("OPENCODE_PERMISSION".into(), rules.to_string())] })
    }

    fn resumes(&self) -> bool {
        true
    }

    fn seed(&self) -> Option<Seed> {
        Some(Seed {
            variable: "XDG_DATA_HOME",
            directory: "opencode",
            args: &["session", "list", "--pure"],
            files: &["opencode.db", "opencode.db-wal"],
        })
    }

    fn metering(&self) -> Metering {
        Metering::Cost
    }

    fn invocation(&self, request: &Request<'_>) -> Result<Invocation, Error> {
        let mut args: Vec<String> = ["run", "--format", "json", "--pure"].map(str::to_owned).to_vec();
        if let Session::Resume(id) = request.session {
            args.extend(["--session".into(), id.to_owned()]);
        }
        if let Some(model) = request.model {
            args.extend(["--model".into(), model.to_owned()]);
        }
        args.extend(request.extra.iter().cloned());
        // Settings and plugins of the repository are the work of others and can run commands.
        let off = [
            "PROJECT_CONFIG",
            "CLAUDE_CODE",
            "EXTERNAL_SKILLS",
            "AUTOUPDATE",
            "LSP_DOWNLOAD",
            "TERMINAL_TITLE",
            "SHARE",
        ];
        let mut environment = off.map(|what| (format!("OPENCODE_DISABLE_{what}"), "1".to_owned())).to_vec();
        // It keeps what `/undo` needs in a git repository of its own, made by a dozen processes; workers have their own commits.
        environment.push(("OPENCODE_CONFIG_CONTENT".into(), r#"{"snapshot":false}"#.into()));
        Ok(Invocation { args, environment, input: Some(combined(request)), files: Vec::new() })
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Output::default())
    }
}

/// The output so far.
#[derive(Default)]
struct Output {
    session: Option<String>,
    /// The text of the step that is going on, or of the last one.
    text: String,
    usage: Usage,
    cost: Option<Cost>,
    steps: u32,
    /// Whether the last step called no tool.
    ended: bool,
    /// Whether it was the last one for sure.
    stopped: bool,
    /// Whether it went on after its last step, or in a second session: one of the two is not its own.
    went_on: bool,
    error: Option<Problem>,
    activity: Option<Activity>,
    denied: Vec<String>,
}

impl Reader for Output {
    fn line(&mut self, line: &Line) {
        let Ok(event) = serde_json::from_str::<Value>(&line.text) else { return };
        if let Some(session) = event["sessionID"].as_str() {
            let known = self.session.get_or_insert_with(|| session.to_owned());
            self.went_on |= known != session;
        }
        let part = &event["part"];
        match event["type"].as_str() {
            Some("step_start" | "text" | "tool_use" | "step_finish") if self.stopped => self.went_on = true,
            Some("step_start") => self.text.clear(),
            Some("text") => {
                if !self.text.is_empty() {
                    self.text.push_str("\n\n");
                }
                self.text.push_str(part["text"].as_str().unwrap_or_default());
            }
            Some("tool_use") => {
                let activity = self.activity.get_or_insert_default();
                activity.tool = part["tool"].as_str().unwrap_or_default().to_owned();
                activity.detail = subject(&part["state"]["input"]);
                let said = part["state"]["error"].as_str().unwrap_or_default();
                if part["state"]["status"] == "error" && said.contains("rejected permission") {
                    self.denied.push(part["tool"].as_str().unwrap_or("a tool").to_owned());
                }
            }
            Some("step_finish") => {
                let count = |value: &Value| value.as_u64().unwrap_or(0);
                let tokens = &part["tokens"];
                self.usage += Usage {
                    input_tokens: count(&tokens["input"]),
                    output_tokens: count(&tokens["output"]) + count(&tokens["reasoning"]),
                    cache_creation_input_tokens: count(&tokens["cache"]["write"]),
                    cache_read_input_tokens: count(&tokens["cache"]["read"]),
                    reasoning_tokens: count(&tokens["reasoning"]),
                };
                let cost = part["cost"].as_f64().and_then(Cost::from_units);
                self.cost = cost.map(|cost| Cost(self.cost.unwrap_or_default().0.saturating_add(cost.0)));
                self.steps += 1;
                let activity = self.activity.get_or_insert_default();
                (activity.tokens, activity.cost) = (self.usage.total(), self.cost);
                self.stopped = part["reason"] == "stop";
                self.ended = part["reason"] != "tool-calls";
            }
            Some("error") => self.error = Some(problem_of(&event["error"])),
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
        let problem = match (self.error, self.ended && ended.is_success()) {
            _ if self.went_on => Some(went_on_after_result("opencode")),
            (Some(problem), _) => Some(problem),
            (None, true) => None,
            // It ends without a word after a refused call.
            (None, false) if ended.is_success() && !self.denied.is_empty() => {
                let message = format!("opencode stopped because a tool call was refused: {}", self.denied.join(", "));
                Some(Problem::new(ProblemKind::PermissionDenied, message))
            }
            (None, false) => {
                let mut problem = ended.problem();
                if ended.errors.contains("Session not found") {
                    problem.kind = ProblemKind::SessionLost;
                }
                Some(problem)
            }
        };
        Reply {
            text: if self.went_on { String::new() } else { self.text },
            session: self.session,
            cost: self.cost,
            usage: self.usage,
            turns: Some(self.steps),
            permission_denials: self.denied,
            problem,
        }
    }
}

fn problem_of(error: &Value) -> Problem {
    let (name, data) = (error["name"].as_str().unwrap_or("error"), &error["data"]);
    let said = data["message"].as_str().unwrap_or(name);
    let status = data["statusCode"].as_u64().and_then(|status| u16::try_from(status).ok());
    let kind = match name {
        "ProviderAuthError" => Some(ProblemKind::NotLoggedIn),
        _ => status.and_then(kind_of_status),
    };
    let kind = kind.unwrap_or(ProblemKind::Crashed);
    let message = match kind {
        ProblemKind::NotLoggedIn => format!("opencode is not logged in ({said}); {LOG_IN}"),
        ProblemKind::RateLimited => format!("opencode is rate limited: {said}"),
        ProblemKind::Overloaded => format!("the model of opencode is not available: {said}"),
        _ => format!("opencode failed: {name}: {said}"),
    };
    Problem::new(kind, message)
}
