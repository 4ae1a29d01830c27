//! Claude Code. Seen with version 2.1.325: the last line of `stream-json` is the result, also of most failures.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use drawloom_contract::{money::Cost, time::Timestamp, usage::Usage};
use drawloom_process::Line;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    error::Error,
    input::Mode,
    preset::{
        Ended, Invocation, Metering, ModeArgs, Preset, Reader, Request, Session, Setting, State, kind_of_status,
        variable,
    },
    reply::{Problem, ProblemKind, Reply},
};

pub(crate) struct ClaudeCode;

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

    fn state(&self, home: &Path, environment: &BTreeMap<String, String>) -> Vec<State> {
        match variable(environment, "CLAUDE_CONFIG_DIR") {
            Some(directory) => vec![State::Directory(PathBuf::from(directory))],
            None => vec![State::Directory(home.join(".claude")), State::File(home.join(".claude.json"))],
        }
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
            self.session = Some(session.to_owned());
        }
        match event.get("type").and_then(Value::as_str) {
            Some("result") => self.result = serde_json::from_value(event).ok(),
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

    fn finish(self: Box<Self>, ended: &Ended<'_>) -> Reply {
        let Self { session, resets_at, result } = *self;
        let Some(outcome) = result else {
            let mut problem = ended.problem();
            if ended.errors.contains("No conversation found with session ID") {
                problem.kind = ProblemKind::SessionLost;
            }
            return Reply { session, problem: Some(problem), ..Reply::default() };
        };
        let problem = problem_of(&outcome, resets_at);
        let spent = outcome.model_usage_since_last_result.as_ref();
        let spent = spent.map(|models| models.values().map(|model| model.cost_usd).sum());
        let denial = |denial: &Denial| format!("{} {}", denial.tool_name, shortened(&denial.tool_input.to_string()));
        let text = outcome.structured_output.as_ref().map(Value::to_string);
        Reply {
            text: text.or_else(|| outcome.result.clone()).unwrap_or_default(),
            session,
            cost: spent.or(outcome.total_cost_usd).and_then(Cost::from_units),
            usage: outcome.usage,
            turns: outcome.num_turns,
            permission_denials: outcome.permission_denials.iter().map(denial).collect(),
            problem,
        }
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
