//! aider. Seen with version 0.86.2: text for people, and exit code 0 whatever happened. A line `Tokens: …` follows an answer of
//! the model; without one, the errors of its library say why there is none.

use std::{collections::BTreeMap, path::Path};

use drawloom_contract::{activity::Activity, money::Cost, usage::Usage};
use drawloom_process::Line;

use crate::{
    error::Error,
    input::Mode,
    preset::{Ended, Invocation, Metering, ModeArgs, Preset, Reader, Request, Setting, combined},
    reply::{Problem, ProblemKind, Reply},
    state::{Root, State},
};

pub(crate) struct Aider;

/// The user's settings, which hold also when those of the repository do not.
const CONFIG: &str = ".aider.conf.yml";

impl Preset for Aider {
    fn title(&self) -> &str {
        "aider"
    }

    fn program(&self) -> &str {
        "aider"
    }

    fn variables(&self) -> &'static [&'static str] {
        &[
            "AIDER_*",
            "OPENAI_*",
            "ANTHROPIC_*",
            "DEEPSEEK_API_KEY",
            "GEMINI_API_KEY",
            "OPENROUTER_API_KEY",
            "GROQ_API_KEY",
            "XAI_API_KEY",
            "MISTRAL_API_KEY",
            "OLLAMA_API_BASE",
            "AZURE_API_*",
        ]
    }

    fn state(&self, home: &Path, _: &BTreeMap<String, String>) -> State {
        // It renews no login, and has no sessions.
        let root = Root::of(home.join(".aider"), None).settings(&["caches/*.json", "oauth-keys.env", "installs.json"]);
        let readable = [CONFIG, ".aider.model.settings.yml", ".aider.model.metadata.json"];
        State { roots: vec![root], readable: readable.map(|name| home.join(name)).into() }
    }

    fn mode(&self, setting: Setting) -> Option<ModeArgs> {
        match setting.mode {
            // The mode changes no file, but nothing of its own enforces that.
            Mode::ReadOnly if !setting.confined => None,
            Mode::ReadOnly => {
                let args = ModeArgs::of(&["--chat-mode", "ask", "--no-suggest-shell-commands"]);
                Some(ModeArgs { environment: identity(), ..args })
            }
            Mode::Edit => Some(ModeArgs::of(&["--no-suggest-shell-commands"])),
            Mode::SkipPermissions => Some(ModeArgs::default()),
        }
    }

    fn resumes(&self) -> bool {
        false
    }

    fn metering(&self) -> Metering {
        Metering::Cost
    }

    fn invocation(&self, request: &Request<'_>) -> Result<Invocation, Error> {
        let mut args: Vec<String> = [
            "--yes-always",
            "--no-auto-commits",
            "--no-dirty-commits",
            "--no-gitignore",
            "--no-pretty",
            "--no-fancy-input",
            "--no-detect-urls",
            "--no-check-update",
            "--no-show-release-notes",
            "--no-show-model-warnings",
            "--analytics-disable",
            "--no-restore-chat-history",
            "--chat-history-file",
            "/dev/null",
            "--input-history-file",
            "/dev/null",
        ]
        .map(str::to_owned)
        .to_vec();
        let path = |name: &str| request.files.join(name).to_string_lossy().into_owned();
        let own = request.home.join(CONFIG);
        // Named settings are read in place of those of the repository.
        let config = if own.exists() { own.to_string_lossy().into_owned() } else { path("aider.conf.yml") };
        args.extend(["--config".into(), config, "--env-file".into(), path("empty.env")]);
        if let Some(model) = request.model {
            args.extend(["--model".into(), model.to_owned()]);
        }
        args.extend(request.extra.iter().cloned());
        args.extend(["--message-file".into(), path("prompt.md")]);
        // A message that begins with `/` is a command of aider, and runs.
        let prompt = format!("Task:\n\n{}", combined(request));
        let files = vec![
            ("prompt.md", prompt),
            ("aider.conf.yml", "check-update: false\n".to_owned()),
            ("empty.env", String::new()),
        ];
        Ok(Invocation { args, environment: Vec::new(), input: None, files })
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Output::default())
    }
}

/// A name for git, which aider would otherwise write to the settings of the repository.
fn identity() -> Vec<(String, String)> {
    let settings = [("user.name", "aider"), ("user.email", "aider@drawloom.invalid")];
    let numbered = settings.iter().enumerate().flat_map(|(number, (key, value))| {
        [
            (format!("GIT_CONFIG_KEY_{number}"), (*key).to_owned()),
            (format!("GIT_CONFIG_VALUE_{number}"), (*value).to_owned()),
        ]
    });
    numbered.chain([("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string())]).collect()
}

/// The output so far. The answer is read at the end.
#[derive(Default)]
struct Output {
    activity: Option<Activity>,
}

impl Reader for Output {
    fn line(&mut self, line: &Line) {
        if let Some(file) = line.text.strip_prefix("Applied edit to ") {
            let activity = self.activity.get_or_insert_default();
            (activity.tool, activity.detail) = ("edit".into(), file.trim().into());
        } else if is_spent(&line.text) {
            let (usage, cost) = spent(&line.text);
            let activity = self.activity.get_or_insert_default();
            (activity.tokens, activity.cost) = (usage.total(), cost);
        }
    }

    fn activity(&self) -> Option<&Activity> {
        self.activity.as_ref()
    }

    fn session(&self) -> Option<&str> {
        None
    }

    fn finish(self: Box<Self>, ended: &Ended<'_>) -> Reply {
        // What comes before says which version, model and repository it is.
        let body = ended.output.find("\nRepo-map:").map_or(ended.output, |at| &ended.output[at + 1..]);
        let body = without_added_files(body.split_once('\n').map_or("", |(_, body)| body));
        let tokens = body.lines().rev().find(|line| is_spent(line));
        let Some(tokens) = tokens else {
            return Reply { problem: Some(problem_of(body, ended)), ..Reply::default() };
        };
        let text = body.rfind(tokens).map_or(body, |at| &body[..at]).trim().to_owned();
        let problem = (!ended.is_success()).then(|| ended.problem());
        let (usage, cost) = spent(tokens);
        Reply { text, usage, cost, problem, ..Reply::default() }
    }
}

/// The text without the names that it begins with: aider adds files that the prompt mentions, and prints the name of each.
fn without_added_files(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some((line, after)) = rest.split_once('\n') {
        let is_plain = |sign: char| sign.is_alphanumeric() || "-_./+@".contains(sign);
        let is_path = line.contains(['.', '/']) && line.chars().all(is_plain) && line.ends_with(char::is_alphanumeric);
        // The name of a file that is written stands before its block; one before the end is the answer.
        let is_answer = ["```", "Tokens: "].iter().any(|next| after.trim_start().starts_with(next));
        if !is_path || is_answer {
            break;
        }
        rest = after.trim_start();
    }
    rest
}

/// Whether a line says what an answer of the model used.
fn is_spent(line: &str) -> bool {
    line.starts_with("Tokens: ") && line.contains(" sent")
}

/// `Tokens: 1.2k sent, 13 received. Cost: $0.01 message, $0.02 session.`
fn spent(line: &str) -> (Usage, Option<Cost>) {
    let number = |before: &str| {
        let word =
            line.split(before).next().and_then(|text| text.trim_end().rsplit([' ', '$']).next()).unwrap_or_default();
        let (digits, factor) = match word.trim_end_matches(['k', 'M']) {
            digits if word.ends_with('k') => (digits, 1e3),
            digits if word.ends_with('M') => (digits, 1e6),
            digits => (digits, 1.0),
        };
        digits.replace(',', "").parse::<f64>().ok().map(|number| number * factor)
    };
    let count = |before: &str| number(before).map_or(0, |count| count as u64);
    let usage = Usage { input_tokens: count(" sent"), output_tokens: count(" received"), ..Usage::default() };
    (usage, number(" message").filter(|_| line.contains(" message")).and_then(Cost::from_units))
}

/// What the last error of its library means. The model has not answered, so no other text can look like one.
fn problem_of(body: &str, ended: &Ended<'_>) -> Problem {
    let errors: Vec<&str> = body.lines().filter(|line| line.starts_with("litellm.")).collect();
    let Some(last) = errors.last() else { return ended.problem() };
    let kind = match last.trim_start_matches("litellm.").split(':').next().unwrap_or_default() {
        "AuthenticationError" | "PermissionDeniedError" => ProblemKind::NotLoggedIn,
        "RateLimitError" => ProblemKind::RateLimited,
        "InternalServerError" | "ServiceUnavailableError" | "APIConnectionError" | "Timeout" | "BadGatewayError" => {
            ProblemKind::Overloaded
        }
        _ => ProblemKind::Crashed,
    };
    let message = match kind {
        ProblemKind::NotLoggedIn => {
            format!(
                "aider is not logged in ({last}); set the API key of its model for the server, such as OPENAI_API_KEY"
            )
        }
        ProblemKind::RateLimited => format!("aider is rate limited: {last}"),
        ProblemKind::Overloaded => format!("the model of aider is not available: {last}"),
        _ => format!("aider failed: {last}"),
    };
    Problem::new(kind, message)
}
