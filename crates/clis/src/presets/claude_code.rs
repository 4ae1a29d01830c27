//! Claude Code. Seen with version 2.1.325: the last line of `stream-json` is the result, also of most failures.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use drawloom_contract::{activity::Activity, money::Cost, time::Timestamp, usage::Usage};
use drawloom_process::Line;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    activity::subject,
    error::Error,
    input::Mode,
    preset::{
        Ended, Invocation, Metering, ModeArgs, Preset, Reader, Request, Session, Setting, kind_of_status, variable,
        went_on_after_result,
    },
    reply::{Problem, ProblemKind, Reply},
    state::{Keep, Login, Root, State},
};

pub(crate) struct ClaudeCode;

/// What the copy gets of `.claude.json`: the login, and what keeps it from asking a new user. Not the MCP servers, with their
/// credentials, and not the user's other projects.
const MAIN_KEYS: &[&str] = &[
    "oauthAccount",
    "primaryApiKey",
    "customApiKeyResponses",
    "userID",
    "machineID",
    "firstStartTime",
    "firstStartVersion",
    "migrationVersion",
    "hasCompletedOnboarding",
    "lastOnboardingVersion",
    "hasAvailableSubscription",
    "bypassPermissionsModeAccepted",
    "installMethod",
    "autoUpdates",
    "theme",
];

/// What to do without a login.
const LOG_IN: &str =
    "run `claude` and /login as drawloom's user, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN for the server";

impl Preset for ClaudeCode {
    fn title(&self) -> &str {
        "Claude Code"
    }

    fn program(&self) -> &str {
        "claude"
    }

    fn variables(&self) -> &'static [&'static str] {
        &["ANTHROPIC_*", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"]
    }

    fn state(&self, home: &Path, environment: &BTreeMap<String, String>) -> State {
        // Led by the variable it has both in one directory.
        let moved = variable(environment, "CLAUDE_CONFIG_DIR").map(PathBuf::from);
        let main = if moved.is_none() { Some(home.join(".claude.json")) } else { None };
        let main = Login { user: main, ..Login::of(".claude.json") };
        let root = Root::of(moved.unwrap_or_else(|| home.join(".claude")), Some(("CLAUDE_CONFIG_DIR", 0)))
            .settings(&[
                "settings.json",
                "settings.local.json",
                "CLAUDE.md",
                "remote-settings.json",
                "policy-limits.json",
                "plugins/*.json",
            ])
            .shared(&[
                "agents",
                "commands",
                "hooks",
                "output-styles",
                "plugins/cache",
                "plugins/marketplaces",
                "plugins/repos",
                "rules",
                "skills",
                "workflows",
            ])
            .login(main.given(MAIN_KEYS).taken(&["oauthAccount"]).account("/oauthAccount/accountUuid"))
            .login(
                Login::of(".credentials.json")
                    .given(&["claudeAiOauth", "organizationUuid"])
                    .taken(&["claudeAiOauth"])
                    .newer("/claudeAiOauth/expiresAt"),
            )
            .sessions(
                Keep::WithUser,
                &["projects/{directory}/{session}.jsonl", "projects/{directory}/{session}/**", "todos/{session}*.json"],
            );
        State { roots: vec![root], readable: Vec::new() }
    }

    fn mode(&self, setting: Setting) -> Option<ModeArgs> {
        let mut args = match (setting.mode, setting.confined) {
            // Commands change nothing where the sandbox is read-only.
            (Mode::ReadOnly, true) => ModeArgs::of(&[
                "--permission-mode",
                "default",
                "--allowedTools",
                "Bash,Read,Grep,Glob",
                "--disallowedTools",
                "Edit,Write,NotebookEdit",
            ]),
            (Mode::ReadOnly, false) => {
                ModeArgs::of(&["--permission-mode", "default", "--disallowedTools", "Bash,Edit,Write,NotebookEdit"])
            }
            (Mode::Edit, _) => ModeArgs::of(&["--permission-mode", "acceptEdits"]),
            (Mode::SkipPermissions, _) => ModeArgs::of(&["--dangerously-skip-permissions"]),
        };
        // As root it refuses that flag unless it is told that something else holds it.
        if setting.mode == Mode::SkipPermissions && setting.is_root && (setting.confined || setting.isolated) {
            args.environment.push(("IS_SANDBOX".into(), "1".into()));
        }
        Some(args)
    }

    fn resumes(&self) -> bool {
        true
    }

    fn takes_session_id(&self) -> bool {
        true
    }

    fn metering(&self) -> Metering {
        Metering::Cost
    }

    fn login_status(&self) -> Option<&'static [&'static str]> {
        Some(&["auth", "status"])
    }

    fn invocation(&self, request: &Request<'_>) -> Result<Invocation, Error> {
        // Settings and servers of the repository are the work of others and can run commands.
        let mut args: Vec<String> =
            ["-p", "--output-format", "stream-json", "--verbose", "--setting-sources", "user", "--strict-mcp-config"]
                .map(str::to_owned)
                .to_vec();
        match request.session {
            Session::New(id) => args.extend(["--session-id".into(), id.to_owned()]),
            Session::Resume(id) => args.extend(["--resume".into(), id.to_owned()]),
        }
        if let Some(model) = request.model {
            args.extend(["--model".into(), model.to_owned()]);
        }
        let mut files = Vec::new();
        if !request.system.is_empty() {
            files.push(("system.md", request.system.to_owned()));
            let path = request.files.join("system.md");
            args.extend(["--append-system-prompt-file".into(), path.to_string_lossy().into_owned()]);
        }
        if let Some(schema) = request.schema {
            args.extend(["--json-schema".into(), schema.to_string()]);
        }
        if let Some(cost) = request.max_cost {
            args.extend(["--max-budget-usd".into(), format!("{:.6}", cost.units())]);
        }
        args.extend(request.extra.iter().cloned());
        // Its own retries would hide a rate limit for minutes.
        let environment = [("CLAUDE_CODE_MAX_RETRIES", "1"), ("DISABLE_AUTOUPDATER", "1")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Ok(Invocation { args, environment, input: Some(request.prompt.to_owned()), files })
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Output::default())
    }
}

/// The output so far.
#[derive(Default)]
struct Output {
    session: Option<String>,
    resets_at: Option<Timestamp>,
    result: Option<Outcome>,
    activity: Option<Activity>,
    /// The message that is being written, and its usage.
    message: (String, Usage),
    /// What the messages before it used.
    before: Usage,
    /// Whether it went on after its result: one of the two is not its own.
    went_on: bool,
}

#[derive(Deserialize)]
struct Outcome {
    #[serde(default)]
    subtype: String,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    api_error_status: Option<u16>,
    #[serde(default)]
    result: Option<String>,
    #[serde(default)]
    structured_output: Option<Value>,
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    num_turns: Option<u32>,
    #[serde(default)]
    total_cost_usd: Option<f64>,
    #[serde(default)]
    usage: Usage,
    #[serde(default)]
    permission_denials: Vec<Denial>,
    /// What this process used, by model; the total above is of the whole session.
    #[serde(default)]
    model_usage_since_last_result: Option<BTreeMap<String, ModelUsage>>,
}

#[derive(Deserialize)]
struct Denial {
    #[serde(default)]
    tool_name: String,
    #[serde(default)]
    tool_input: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct ModelUsage {
    #[serde(rename = "costUSD")]
    cost_usd: f64,
}

impl Reader for Output {
    fn line(&mut self, line: &Line) {
        let Ok(event) = serde_json::from_str::<Value>(&line.text) else { return };
        if let Some(session) = event.get("session_id").and_then(Value::as_str) {
            self.session.get_or_insert_with(|| session.to_owned());
        }
        match event.get("type").and_then(Value::as_str) {
            Some("result" | "assistant" | "user") if self.result.is_some() => self.went_on = true,
            Some("result") => {
                self.result = serde_json::from_value(event).ok();
                if let Some(outcome) = &self.result {
                    let activity = self.activity.get_or_insert_default();
                    (activity.tokens, activity.cost) = (outcome.usage.total(), outcome.cost());
                }
            }
            Some("assistant") => self.look(&event["message"]),
            Some("rate_limit_event") => {
                let info = &event["rate_limit_info"];
                if info["status"] == "rejected" {
                    let at = info["resetsAt"].as_i64().map(|seconds| Timestamp::from_millis(seconds * 1000));
                    self.resets_at = at.or(self.resets_at);
                }
            }
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
        let Self { session, resets_at, result, went_on, .. } = *self;
        if went_on {
            return Reply { session, problem: Some(went_on_after_result("Claude Code")), ..Reply::default() };
        }
        let Some(outcome) = result else {
            let mut problem = ended.problem();
            if ended.errors.contains("No conversation found with session ID") {
                problem.kind = ProblemKind::SessionLost;
            }
            return Reply { session, problem: Some(problem), ..Reply::default() };
        };
        let problem = problem_of(&outcome, resets_at);
        let denial = |denial: &Denial| format!("{} {}", denial.tool_name, shortened(&denial.tool_input.to_string()));
        let text = outcome.structured_output.as_ref().map(Value::to_string);
        Reply {
            text: text.or_else(|| outcome.result.clone()).unwrap_or_default(),
            session,
            cost: outcome.cost(),
            usage: outcome.usage,
            turns: outcome.num_turns,
            permission_denials: outcome.permission_denials.iter().map(denial).collect(),
            problem,
        }
    }
}

impl Output {
    /// Takes in a part of a message: each part has the usage of the message so far.
    fn look(&mut self, message: &Value) {
        let activity = self.activity.get_or_insert_default();
        for part in message["content"].as_array().into_iter().flatten().filter(|part| part["type"] == "tool_use") {
            activity.tool = part["name"].as_str().unwrap_or_default().to_owned();
            activity.detail = subject(&part["input"]);
        }
        let id = message["id"].as_str().unwrap_or_default();
        if id != self.message.0 {
            self.before += std::mem::take(&mut self.message.1);
            id.clone_into(&mut self.message.0);
        }
        self.message.1 = Usage::deserialize(&message["usage"]).unwrap_or_default();
        activity.tokens = self.before.total().saturating_add(self.message.1.total());
    }
}

impl Outcome {
    fn cost(&self) -> Option<Cost> {
        let models = self.model_usage_since_last_result.as_ref();
        let spent = models.map(|models| models.values().map(|model| model.cost_usd).sum());
        spent.or(self.total_cost_usd).and_then(Cost::from_units)
    }
}

fn problem_of(outcome: &Outcome, resets_at: Option<Timestamp>) -> Option<Problem> {
    let said = outcome.result.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| outcome.errors.join("; "));
    let problem = |kind, message: String| Some(Problem::new(kind, message));
    match outcome.subtype.as_str() {
        "error_max_turns" => {
            problem(ProblemKind::MaxTurns, format!("Claude Code reached its maximum of turns: {said}"))
        }
        "error_max_budget_usd" => problem(
            ProblemKind::Budget,
            format!("Claude Code reached its maximum cost ({said}); raise max_cost of the CLI"),
        ),
        _ if outcome.errors.iter().any(|error| error.starts_with("No conversation found with session ID")) => {
            problem(ProblemKind::SessionLost, format!("Claude Code: {said}"))
        }
        _ if !outcome.is_error && outcome.subtype == "success" => None,
        _ => {
            // Without a status nothing was asked: the one such failure seen is a missing login.
            let by_status = outcome.api_error_status.and_then(kind_of_status);
            let kind = by_status.unwrap_or(match said.starts_with("Not logged in") {
                true => ProblemKind::NotLoggedIn,
                false => ProblemKind::Crashed,
            });
            let message = match kind {
                ProblemKind::NotLoggedIn => format!("Claude Code is not logged in ({said}); {LOG_IN}"),
                ProblemKind::RateLimited => format!("Claude Code is rate limited: {said}"),
                ProblemKind::Overloaded => format!("the model of Claude Code is not available: {said}"),
                _ => format!("Claude Code failed: {said}"),
            };
            let until = resets_at.filter(|_| kind == ProblemKind::RateLimited);
            Some(Problem { kind, message, until })
        }
    }
}

/// The beginning of a text.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
