//! How people name a run or a batch: by its id, by the beginning of it, as `last`, or by the caller's handle. Every command that takes
//! a run resolves it here.

use std::{convert::Infallible, str::FromStr};

use drawloom_contract::ids::{BatchId, RunId};
use drawloom_wire::{
    batches::GetBatch,
    runs::{GetRun, Include, ListRuns, RunResult},
};

use crate::{connect::Connection, exit::CommandError, output::first_line};

/// Candidates of an ambiguous prefix that are shown.
const SHOWN: usize = 8;

/// The most runs of a page: enough for some batches.
const PAGE: u32 = 200;

/// The word for the newest run that no other run spawned.
const LAST: &str = "last";

/// A run or a batch as the user wrote it: an id, a prefix of one, or `last`.
#[derive(Debug, Clone)]
pub(crate) struct Handle(String);

/// What a handle stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    Run(RunId),
    Batch(BatchId),
}

impl FromStr for Handle {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl Handle {
    /// The run's id. A batch is refused: `resolve_any` takes one.
    pub(crate) async fn resolve(&self, connection: &Connection) -> Result<RunId, CommandError> {
        match self.resolve_any(connection).await? {
            Named::Run(run) => Ok(run),
            Named::Batch(batch) => {
                let message = format!("{batch} is a batch; this command takes one run");
                Err(CommandError::usage("not_a_run", message)
                    .with_hint(format!("`drawloom runs list --batch {batch}` lists its runs")))
            }
        }
    }

    /// The runs that it stands for: one, or all of a batch by index.
    pub(crate) async fn resolve_all(&self, connection: &Connection) -> Result<Vec<RunId>, CommandError> {
        match self.resolve_any(connection).await? {
            Named::Run(run) => Ok(vec![run]),
            Named::Batch(batch_id) => {
                let ask = GetBatch { batch_id, wait_ms: None, result_bytes: Some(0) };
                Ok(connection.backend.call(&ask).await?.results.iter().map(|run| run.run_id).collect())
            }
        }
    }

    /// The run or the batch.
    pub(crate) async fn resolve_any(&self, connection: &Connection) -> Result<Named, CommandError> {
        let text = self.0.as_str();
        if let Ok(run) = text.parse() {
            return Ok(Named::Run(run));
        }
        if let Ok(batch) = text.parse() {
            return Ok(Named::Batch(batch));
        }
        if text == LAST {
            let ask = ListRuns { roots: true, limit: Some(1), ..ListRuns::default() };
            let newest = connection.backend.call(&ask).await?.runs;
            return newest.first().map(|run| Named::Run(run.run_id)).ok_or_else(|| {
                CommandError::usage("unknown_run", "`last` matches no run: this project has no runs yet")
                    .with_hint("`drawloom run AGENT PROMPT` starts one")
            });
        }
        let mut found = Vec::new();
        for prefix in prefixes(text) {
            found.extend(matches(connection, prefix).await?);
        }
        match found.as_slice() {
            [one] => return Ok(one.named),
            [] => {}
            several => return Err(ambiguous(text, several)),
        }
        if let Ok(agent_id) = text.parse() {
            match connection.backend.call(&GetRun { agent_id: Some(agent_id), ..GetRun::default() }).await {
                Ok(run) => return Ok(Named::Run(run.run_id)),
                // The server's words: it masks secrets.
                Err(error) if error.code == "unknown_agent_id" => {
                    let message = format!("{}; see `drawloom runs list`", error.message);
                    return Err(CommandError::usage("unknown_run", message));
                }
                Err(error) => return Err(error),
            }
        }
        Err(CommandError::usage("unknown_run", format!("no run matches {text:?}; see `drawloom runs list`")))
    }
}

/// The prefixes of ids that a text can be: with its kind, or for both kinds.
fn prefixes(text: &str) -> Vec<String> {
    let (kinds, digits): (&[&str], &str) = match (text.strip_prefix("r_"), text.strip_prefix("b_")) {
        (Some(digits), _) => (&["r_"], digits),
        (_, Some(digits)) => (&["b_"], digits),
        (None, None) => (&["r_", "b_"], text),
    };
    let digits = digits.to_ascii_lowercase();
    let is_prefix = (1..=32).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    kinds.iter().filter(|_| is_prefix).map(|kind| format!("{kind}{digits}")).collect()
}

/// Something whose id begins with a prefix.
struct Candidate {
    named: Named,
    about: String,
}

/// What begins with a prefix, newest first.
async fn matches(connection: &Connection, prefix: String) -> Result<Vec<Candidate>, CommandError> {
    let is_batch = prefix.starts_with("b_");
    let limit = if is_batch { PAGE } else { SHOWN as u32 + 1 };
    let include = if is_batch { Vec::new() } else { vec![Include::Prompt] };
    let ask = ListRuns { id_prefix: Some(prefix), limit: Some(limit), include, ..ListRuns::default() };
    let runs = connection.backend.call(&ask).await?.runs;
    let mut found: Vec<Candidate> = Vec::new();
    for run in runs {
        let named = match run.batch_id.filter(|_| is_batch) {
            Some(batch) => Named::Batch(batch),
            None => Named::Run(run.run_id),
        };
        if found.iter().all(|known| known.named != named) {
            found.push(Candidate { named, about: about(&run, named) });
        }
    }
    Ok(found)
}

/// A line of at most 80 columns, with its indentation.
fn about(run: &RunResult, named: Named) -> String {
    match named {
        Named::Batch(batch) => format!("{batch}  batch"),
        Named::Run(id) => {
            let asked = format!("{}: {}", run.agent, run.prompt.as_deref().unwrap_or_default());
            format!("{id}  {:<9}  {}", run.status.as_str(), first_line(&asked, 29))
        }
    }
}

fn ambiguous(text: &str, found: &[Candidate]) -> CommandError {
    let more = if found.len() > SHOWN { format!("more than {SHOWN}") } else { found.len().to_string() };
    let mut details: Vec<String> = found.iter().take(SHOWN).map(|one| one.about.clone()).collect();
    if found.len() > SHOWN {
        details.push("…".to_owned());
    }
    CommandError { details, ..CommandError::usage("ambiguous_id", format!("{text:?} matches {more} ids")) }
        .with_hint("add more characters of the id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_the_beginning_of_an_id_when_it_is_hex() {
        assert_eq!(prefixes("r_01A1"), ["r_01a1"]);
        assert_eq!(prefixes("b_01a1"), ["b_01a1"]);
        assert_eq!(prefixes("01a1"), ["r_01a1", "b_01a1"]);
        for other in ["", "r_", "last-one", "a_01a1", &"0".repeat(33)] {
            assert_eq!(prefixes(other), [""; 0], "{other:?}");
        }
    }
}
