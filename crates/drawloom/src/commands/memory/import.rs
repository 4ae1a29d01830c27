//! `drawloom memory import`: entries that `export` wrote, in batches that are all or nothing.

use std::{io::ErrorKind, path::PathBuf};

use clap::Args;
use drawloom_contract::time::Entropy as _;
use drawloom_substrate::files;
use drawloom_wire::memory::{ImportEntry, ImportMemory};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    cli::Look,
    clock::SystemEntropy,
    commands::{
        Session, check_numbers,
        memory::{Fields, Whose},
    },
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::{Format, count},
};

/// Entries and bytes of one request.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// The largest file.
const MOST_BYTES: u64 = 1024 * 1024 * 1024;

/// Write the entries of an exported file
///
/// Entries are written in groups of up to 500, each all or nothing. Importing twice changes nothing. You become the writer of the
/// entries.
#[derive(Debug, Args)]
pub struct Import {
    /// File with one JSON object per line; `-` reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Import {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let text = self.read()?;
        // New for each command: a file that is imported again restores what changed since.
        let mut id = [0; 16];
        SystemEntropy::default()
            .fill(&mut id)
            .map_err(|error| CommandError::failed("no_entropy", error.to_string()))?;
        let id = u128::from_le_bytes(id);
        // All lines are read before anything is written.
        let entries = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let entries = entries.map(|(number, line)| entry(number + 1, line)).collect::<Result<Vec<_>, _>>()?;
        let (mut imported, mut expired, mut warnings) = (0, 0, Vec::new());
        connect::with(session, "memory import", Need::Engine(self.execution), async |it| {
            let Fields { scope, agent, run_id, user_id } = self.whose.fields(it).await?;
            for (number, batch) in batches(entries).into_iter().enumerate() {
                let ask = ImportMemory {
                    scope,
                    agent: agent.clone(),
                    run_id,
                    user_id: user_id.clone(),
                    entries: batch,
                    idempotency_key: Some(format!("import-{id:032x}-{number}")),
                };
                let done = it.backend.call(&ask).await?;
                warnings.extend(done.warnings);
                imported += done.imported;
                expired += done.expired;
            }
            Ok(())
        })
        .await?;
        match session.output.format() {
            Format::Json => {
                let mut said = serde_json::json!({ "imported": imported, "expired": expired });
                if !warnings.is_empty() {
                    said["warnings"] = warnings.into();
                }
                session.output.json(&said);
            }
            Format::Human => {
                session.output.line(format!("imported {} entries", count(imported)));
                super::warn(session, &warnings);
                if expired > 0 {
                    session.output.note(format!("skipped {} expired entries", count(expired)));
                }
            }
        }
        Ok(Exit::Done)
    }

    fn read(&self) -> Result<String, CommandError> {
        let shown = self.file.display();
        let bytes = match self.file.to_str() {
            Some("-") => files::read_limited(std::io::stdin().lock(), MOST_BYTES),
            _ => files::read_argument(&self.file, MOST_BYTES),
        };
        bytes.and_then(files::text).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => {
                let message = format!("{shown} has more than {MOST_BYTES} bytes; nothing was imported");
                CommandError::usage("bad_file", message).with_hint("split it at line ends")
            }
            _ => CommandError::usage("bad_file", format!("cannot read {shown}: {error}")),
        })
    }
}

/// What is read of a line. A line without a value, such as a list of keys has, is a mistake; `null` is a value.
#[derive(Deserialize)]
struct Line {
    key: String,
    value: Value,
    #[serde(default)]
    expires_at: Option<String>,
}

/// A line of the file. What `export` says beside key, value and time is not written again.
fn entry(number: usize, line: &str) -> Result<ImportEntry, CommandError> {
    let entry: Line = serde_json::from_str(line).map_err(|error| {
        CommandError::usage("bad_line", format!("line {number} is not an entry: {error}"))
            .with_hint("each line is an object with key, value, revision and expires_at, as `memory export` writes it")
    })?;
    check_numbers(line)
        .map_err(|error| CommandError { message: format!("line {number}: {}", error.message), ..error })?;
    Ok(ImportEntry { key: entry.key, value: entry.value, expires_at: entry.expires_at })
}

/// Batches, the same for the same file.
fn batches(entries: Vec<ImportEntry>) -> Vec<Vec<ImportEntry>> {
    let mut batches: Vec<Vec<ImportEntry>> = Vec::new();
    let mut bytes = 0;
    for entry in entries {
        let size = entry.key.len() + entry.value.to_string().len();
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && bytes + size <= BATCH_BYTES => {
                batch.push(entry);
                bytes += size;
            }
            _ => {
                batches.push(vec![entry]);
                bytes = size;
            }
        }
    }
    batches
}
