//! The requests of a batch: its file or prompts, split into batches of the size that a server takes, each with a key.

use std::path::PathBuf;

use drawloom_contract::ids::{AgentName, Digest};
use drawloom_wire::{
    batches::{MAX_SPAWNS, SpawnRuns},
    validate::{Problem, Step, Validator},
};
use serde_json::{Map, Value, json};

use crate::{
    config,
    exit::{CommandError, Exit},
    interrupts::own_key,
    output::{count, first_line},
};

/// The field of a request that has the runs.
const SPAWNS: &str = "spawns";

/// Hexadecimal digits of the digest in a key.
const DIGITS: usize = 32;

/// What to start.
pub(super) struct Plan {
    /// The fields that all requests share.
    shared: Map<String, Value>,
    /// The runs, as they are sent.
    pub spawns: Vec<Value>,
    keys: Keys,
}

/// What the keys of requests are made from.
enum Keys {
    /// A key of this user, or a new one.
    Given(String),
    /// The runs themselves: the same file has the same keys.
    Derived(Digest),
}

/// A request, with the places of its runs in the whole.
pub(super) struct Part {
    pub request: SpawnRuns,
    pub key: String,
    pub places: Vec<usize>,
}

/// What the command line says.
pub(super) struct Given<'a> {
    pub words: &'a [String],
    pub agent: Option<&'a AgentName>,
    pub key: Option<String>,
    pub timeout_ms: Option<u64>,
    /// Whether runs of an earlier call are started again.
    pub fresh: bool,
}

impl Plan {
    pub(super) fn read(given: Given<'_>) -> Result<Self, CommandError> {
        let (value, is_file) = match (given.agent, given.words) {
            (Some(agent), prompts) => {
                let spawns: Vec<Value> =
                    prompts.iter().map(|prompt| json!({ "agent": agent, "prompt": prompt })).collect();
                (json!({ SPAWNS: spawns }), false)
            }
            (None, [file]) => match config::read_value(&PathBuf::from(file))? {
                list @ Value::Array(_) => (json!({ SPAWNS: list }), true),
                other => (other, true),
            },
            (None, _) => {
                return Err(CommandError::usage("no_agent", "several prompts and no agent")
                    .with_hint("add --agent AGENT, or pass one file"));
            }
        };
        let (mut shared, spawns) = match value {
            Value::Object(mut fields) => match fields.remove(SPAWNS) {
                Some(Value::Array(spawns)) if !spawns.is_empty() => (fields, spawns),
                other => {
                    fields.extend(other.map(|other| (SPAWNS.to_owned(), other)));
                    return Err(refused(&mut Value::Object(fields)));
                }
            },
            mut other => return Err(refused(&mut other)),
        };
        shared.extend(given.timeout_ms.map(|limit| ("timeout_ms".to_owned(), limit.into())));
        let in_file = shared.remove("idempotency_key").and_then(|key| key.as_str().map(str::to_owned));
        let keys = match given.key.or(in_file) {
            Some(key) => Keys::Given(key),
            None if is_file && !given.fresh => {
                Keys::Derived(Digest::of(json!([shared, spawns]).to_string().as_bytes()))
            }
            None => Keys::Given(own_key()?),
        };
        let plan = Self { shared, spawns, keys };
        plan.check()?;
        Ok(plan)
    }

    /// Whether a rerun of the same command continues this one.
    pub(super) fn is_continued(&self) -> bool {
        matches!(self.keys, Keys::Derived(_))
    }

    /// Reports what is wrong with any run before the first is started.
    fn check(&self) -> Result<(), CommandError> {
        let validator = Validator::of::<SpawnRuns>();
        let mut details = Vec::new();
        for (number, spawns) in self.spawns.chunks(MAX_SPAWNS).enumerate() {
            if let Err(problems) = validator.check(&mut self.body(spawns.to_vec())) {
                details.extend(problems.into_iter().map(|problem| explain(problem, number * MAX_SPAWNS)));
            }
        }
        if details.is_empty() { Ok(()) } else { Err(invalid(details)) }
    }

    fn body(&self, spawns: Vec<Value>) -> Value {
        let mut fields = self.shared.clone();
        fields.insert(SPAWNS.into(), spawns.into());
        Value::Object(fields)
    }

    /// The requests for the runs at these places.
    pub(super) fn parts(&self, places: &[usize]) -> Result<Vec<Part>, CommandError> {
        let is_one = places.len() <= MAX_SPAWNS;
        let base = match &self.keys {
            Keys::Given(key) => key.clone(),
            Keys::Derived(digest) => format!("batch-{}", short(Digest::of(digest.to_string().as_bytes()))),
        };
        let parts = places.chunks(MAX_SPAWNS).enumerate().map(|(number, places)| {
            let key = if is_one { base.clone() } else { format!("{base}-{number}") };
            let mut body = self.body(places.iter().map(|place| self.spawns[*place].clone()).collect());
            body["idempotency_key"] = key.clone().into();
            // What was checked without the key is as good with it, unless the key is too long.
            if let Err(problems) = Validator::of::<SpawnRuns>().check(&mut body) {
                return Err(invalid(problems.into_iter().map(|problem| explain(problem, 0)).collect()));
            }
            let request = serde_json::from_value(body)
                .map_err(|error| CommandError::usage("invalid_request", error.to_string()))?;
            Ok(Part { request, key, places: places.to_vec() })
        });
        parts.collect()
    }

    /// The agent and the start of the prompt of a run, to tell runs apart.
    pub(super) fn about(&self, place: usize) -> String {
        let spawn = &self.spawns[place];
        let text = spawn["prompt"].as_str().or_else(|| spawn["segments"][0]["content"][0]["text"].as_str());
        format!("{}: {}", spawn["agent"].as_str().unwrap_or_default(), first_line(text.unwrap_or_default(), 60))
    }
}

fn short(digest: Digest) -> String {
    digest.to_string()[..DIGITS].to_owned()
}

/// The error for a file that does not contain a list of runs.
fn refused(value: &mut Value) -> CommandError {
    match Validator::of::<SpawnRuns>().check(value) {
        Err(problems) => invalid(problems.into_iter().map(|problem| explain(problem, 0)).collect()),
        Ok(()) => invalid(Vec::new()),
    }
}

fn invalid(details: Vec<String>) -> CommandError {
    let problems =
        if details.len() == 1 { "1 problem".to_owned() } else { format!("{} problems", count(details.len() as u64)) };
    CommandError {
        exit: Exit::Usage,
        details,
        ..CommandError::usage("invalid_request", format!("invalid batch: {problems}"))
    }
    .with_hint("a batch is a list of runs: - { agent: AGENT, prompt: PROMPT }")
}

/// A problem with the place of its run in the whole batch.
fn explain(problem: Problem, first: usize) -> String {
    let message = match problem.steps.as_slice() {
        [Step::Key(key), Step::Index(index), ..] if key == SPAWNS && first > 0 => {
            problem.message.replacen(&format!("{SPAWNS}[{index}]"), &format!("{SPAWNS}[{}]", first + index), 1)
        }
        _ => problem.message,
    };
    match problem.hint {
        Some(hint) => format!("{message} ({hint})"),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(count: usize, words: &[&str], fresh: bool) -> Result<Plan, CommandError> {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("batch.json");
        let list: Vec<Value> =
            (0..count).map(|place| json!({ "agent": "echo", "prompt": format!("{place}") })).collect();
        std::fs::write(&file, json!(list).to_string()).expect("a file");
        let mut given = vec![file.display().to_string()];
        given.extend(words.iter().map(|word| (*word).to_owned()));
        Plan::read(Given { words: &given, agent: None, key: None, timeout_ms: None, fresh })
    }

    fn keys(plan: &Plan) -> Vec<String> {
        let places: Vec<usize> = (0..plan.spawns.len()).collect();
        plan.parts(&places).expect("parts").into_iter().map(|part| part.key).collect()
    }

    #[test]
    fn the_same_file_has_the_same_keys_and_another_has_others() {
        let (one, same, other) = (plan(100, &[], false), plan(100, &[], false), plan(99, &[], false));
        let (one, same, other) = (one.expect("a plan"), same.expect("a plan"), other.expect("a plan"));
        assert_eq!(keys(&one).len(), 4);
        assert_eq!(keys(&one), keys(&same));
        assert!(keys(&one).iter().all(|key| !keys(&other).contains(key)));
        let fresh = plan(100, &[], true).expect("a plan");
        assert!(!fresh.is_continued() && keys(&fresh) != keys(&one));
        let sizes: Vec<usize> =
            one.parts(&(0..100).collect::<Vec<_>>()).expect("parts").iter().map(|part| part.places.len()).collect();
        assert_eq!(sizes, [32, 32, 32, 4]);
    }

    #[test]
    fn every_problem_is_reported_with_the_place_of_its_run() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("batch.json");
        let mut list: Vec<Value> =
            (0..70).map(|place| json!({ "agent": "echo", "prompt": format!("{place}") })).collect();
        list[3] = json!({ "agent": "echo", "promt": "x" });
        list[69] = json!({ "agent": 7, "prompt": "x" });
        std::fs::write(&file, json!(list).to_string()).expect("a file");
        let words = [file.display().to_string()];
        let given = Given { words: &words, agent: None, key: None, timeout_ms: None, fresh: false };
        let error = Plan::read(given).err().expect("it is refused");
        let text = error.details.join("\n");
        assert!(text.contains("spawns[3]") && text.contains("spawns[69]") && !text.contains("spawns[5]"), "{text}");
        assert_eq!(error.message, format!("invalid batch: {} problems", error.details.len()));
    }
}
