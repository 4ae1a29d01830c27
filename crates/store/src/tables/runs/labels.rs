//! What tables of runs show beside their rows: the beginning of each prompt, and how much of an id is enough.

use drawloom_contract::{
    ids::{RunId, Tenant},
    journal::Label,
    message::{Block, Role, Segment},
};
use serde::Deserialize;

use crate::{
    large_texts::{Form, put_back},
    sqlite::{Connection, Result, Statement, values},
    tables::{blobs::Reads, records::damaged},
};

/// The part of an accepted record that is the prompt.
#[derive(Deserialize)]
struct Asked {
    segments: Vec<Segment>,
}

/// A label for each of `runs`, with at most about `bytes` of its prompt.
pub(crate) fn read(connection: &Connection, tenant: &Tenant, runs: &[RunId], bytes: usize) -> Result<Vec<Label>> {
    const FIRST: &str = "SELECT form, body FROM journal WHERE tenant = $1 AND run = $2 AND seq = 1";
    const BEFORE: &str = "SELECT run FROM runs WHERE tenant = $1 AND run < $2 ORDER BY run DESC LIMIT 1";
    const AFTER: &str = "SELECT run FROM runs WHERE tenant = $1 AND run > $2 ORDER BY run LIMIT 1";
    let mut blobs = Reads::prepare(connection, tenant)?;
    let mut first = connection.prepare(FIRST)?;
    let (mut before, mut after) = (connection.prepare(BEFORE)?, connection.prepare(AFTER)?);
    let mut labels = Vec::with_capacity(runs.len());
    for run in runs {
        let prompt = first.first(values![tenant, run], |row| {
            let form = row.get(0)?;
            let form = Form::of(form).ok_or_else(|| row.wrong(0, format_args!("unknown form {form}")))?;
            let body: &str = row.get(1)?;
            let load = |digest| match form {
                Form::References => blobs.beginning(&digest, bytes),
                Form::Inline | Form::Blob => blobs.text(&digest),
            };
            let body = put_back(body, form, load, damaged)?;
            let asked: Asked = serde_json::from_str(&body).map_err(|error| row.wrong(1, error))?;
            Ok(prompt_of(&asked.segments, bytes))
        })?;
        let neighbour = |statement: &mut Statement<'_>| {
            let found = statement.first(values![tenant, run], |row| row.get::<RunId>(0))?;
            Result::Ok(found.map_or(0, |found| 1 + shared_digits(run, &found)))
        };
        let digits = neighbour(&mut before)?.max(neighbour(&mut after)?);
        labels.push(Label { prompt: prompt.unwrap_or_default(), digits });
    }
    Ok(labels)
}

/// How many hex digits two ids have in common at their beginning.
fn shared_digits(one: &RunId, other: &RunId) -> usize {
    let different = u128::from_be_bytes(*one.as_bytes()) ^ u128::from_be_bytes(*other.as_bytes());
    different.leading_zeros() as usize / 4
}

/// What the user says, as text. A picture is named only.
fn prompt_of(segments: &[Segment], bytes: usize) -> String {
    let blocks = segments.iter().filter(|segment| segment.role == Role::User).flat_map(|segment| &segment.content);
    let mut prompt = String::new();
    for block in blocks {
        if prompt.len() >= bytes {
            break;
        }
        if !prompt.is_empty() {
            prompt.push('\n');
        }
        match block {
            Block::TrustedText { text } | Block::UntrustedBlock { text, .. } => prompt.push_str(text),
            Block::Image { media_type, .. } => prompt.push_str(&format!("[{media_type}]")),
        }
    }
    prompt.truncate(prompt.floor_char_boundary(bytes));
    prompt
}
