//! An entry made ready for the writer, on the caller's thread: checked, encoded, its large texts hashed.
//!
//! The writer is one thread for all runs, so what can be done without the database is done here.

use std::ops::Range;

use drawloom_contract::{
    definition::Definition,
    ids::{Digest, RunKey, Tenant},
    journal::{Append, Entry, NewBatch},
    log::{LogChange, MOST_MESSAGE_BYTES},
    once::Once,
    record::{Body, Epoch, Record, Seq},
    time::Timestamp,
    values::{ChangeError, MOST_VALUE_BYTES, NewValue, ValueChange},
    view::{Patch, RunView},
    wait::WaitChange,
};

use crate::large_texts::{Blob, Form, LARGE_TEXT, WHOLE_BODY, take_out};

/// An entry as the writer takes it.
pub(crate) struct Work {
    pub(crate) epoch: Epoch,
    pub(crate) runs: Vec<Run>,
    pub(crate) waits: Vec<WaitChange>,
    pub(crate) once: Option<Once>,
    pub(crate) batch: Option<NewBatch>,
    pub(crate) definitions: Vec<Pinned>,
    pub(crate) values: Vec<ChangedValue>,
    /// Each with the bodies of its messages as JSON.
    pub(crate) logs: Vec<(LogChange, Vec<String>)>,
}

/// A change of a value.
pub(crate) struct ChangedValue {
    pub(crate) change: ValueChange,
    /// The new value as JSON.
    pub(crate) text: Option<String>,
    /// JSON pointer to the part of the new value that search finds, beside its key.
    pub(crate) searched: Option<&'static str>,
}

/// One run's part of an entry.
pub(crate) struct Run {
    pub(crate) key: RunKey,
    pub(crate) expected: Seq,
    pub(crate) change: Change,
    /// A text of the row that is too large for it.
    pub(crate) final_blob: Option<Digest>,
    pub(crate) exclusive_session: bool,
    /// Whether the last record parks the run.
    pub(crate) parks: bool,
    pub(crate) rows: Vec<Row>,
    /// The bodies of all rows, one after the other.
    pub(crate) bodies: String,
    pub(crate) blobs: Vec<Blob>,
}

/// What an append does to the run's row.
pub(crate) enum Change {
    /// The run begins; the row is as the append leaves it.
    Begin(Box<RunView>),
    /// The run goes on.
    Advance(Box<Patch>),
}

/// One record.
pub(crate) struct Row {
    pub(crate) seq: Seq,
    pub(crate) at: Timestamp,
    pub(crate) form: Form,
    pub(crate) body: Range<usize>,
}

/// A definition under the digest that runs of the entry carry.
pub(crate) struct Pinned {
    pub(crate) tenant: Tenant,
    pub(crate) digest: Digest,
    pub(crate) body: String,
}

impl Work {
    /// About how many bytes it will write.
    pub(crate) fn size(&self) -> usize {
        let run = |run: &Run| 512 + run.bodies.len() + run.blobs.iter().map(|blob| blob.text.len()).sum::<usize>();
        self.runs.iter().map(run).sum::<usize>()
            + self.definitions.iter().map(|pinned| pinned.body.len()).sum::<usize>()
            + self.values.iter().filter_map(|value| value.text.as_ref()).map(String::len).sum::<usize>()
            + self.logs.iter().flat_map(|(_, bodies)| bodies).map(String::len).sum::<usize>()
    }

    /// How many records it holds.
    pub(crate) fn records(&self) -> usize {
        self.runs.iter().map(|run| run.rows.len()).sum()
    }
}

/// Why an entry cannot be made ready.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It asks for something that no writer should.
    Malformed(String),
    /// It may not be written.
    Refused(ChangeError),
}

impl From<String> for Unfit {
    fn from(detail: String) -> Self {
        Self::Malformed(detail)
    }
}

/// Makes an entry ready. `is_known` tells which definitions the store has.
pub(crate) fn prepare(entry: Entry, is_known: impl Fn(&Tenant, &Digest) -> bool) -> Result<Work, Unfit> {
    let definitions = pin(&entry, is_known);
    let runs = entry.runs.into_iter().map(prepare_run).collect::<Result<_, String>>()?;
    let values = entry.values.into_iter().map(prepare_value).collect::<Result<_, _>>()?;
    let logs = entry.logs.into_iter().map(prepare_log).collect::<Result<_, _>>()?;
    Ok(Work {
        epoch: entry.epoch,
        runs,
        waits: entry.waits,
        once: entry.once,
        batch: entry.batch,
        definitions,
        values,
        logs,
    })
}

fn prepare_value(change: ValueChange) -> Result<ChangedValue, Unfit> {
    let text = change.to.as_ref().map(|new| new.value.to_string());
    let bytes = text.as_ref().map_or(0, String::len);
    if bytes > MOST_VALUE_BYTES {
        let key = change.key.key.clone();
        return Err(Unfit::Refused(ChangeError::TooLarge { key, bytes, most: MOST_VALUE_BYTES }));
    }
    if change.key.owner.is_empty() && change.to.as_ref().is_some_and(|new| new.quota.is_some()) {
        return Err(Unfit::Malformed(format!("the value {:?} has a quota but no owner", change.key.key)));
    }
    let part = |new: &NewValue| new.searched.filter(|part| new.value.pointer(part).is_some());
    let searched = change.to.as_ref().and_then(part);
    Ok(ChangedValue { change, text, searched })
}

fn prepare_log(change: LogChange) -> Result<(LogChange, Vec<String>), Unfit> {
    let LogChange::Append { messages, .. } = &change else { return Ok((change, Vec::new())) };
    let mut bodies = Vec::with_capacity(messages.len());
    for message in messages {
        let body = message.body.to_string();
        if body.len() > MOST_MESSAGE_BYTES {
            let (key, bytes) = (message.id.clone(), body.len());
            return Err(Unfit::Refused(ChangeError::TooLarge { key, bytes, most: MOST_MESSAGE_BYTES }));
        }
        bodies.push(body);
    }
    Ok((change, bodies))
}

fn prepare_run(append: Append) -> Result<Run, String> {
    let (change, parks) = change_of(&append)?;
    let mut run = Run {
        key: append.key,
        expected: append.expected,
        change,
        final_blob: None,
        exclusive_session: append.exclusive_session,
        parks,
        rows: Vec::with_capacity(append.records.len()),
        bodies: String::new(),
        blobs: Vec::new(),
    };
    let mut bodies = Vec::with_capacity(192 * append.records.len());
    for record in &append.records {
        let start = bodies.len();
        serde_json::to_writer(&mut bodies, &record.body).expect("records have only text keys and memory takes all");
        let mut form = Form::Inline;
        if bodies.len() - start > WHOLE_BODY {
            let mut text = String::from_utf8(bodies).expect("serde_json writes UTF-8");
            form = take_out(&mut text, start, &mut run.blobs);
            bodies = text.into_bytes();
        }
        run.rows.push(Row { seq: record.seq, at: record.at, form, body: start..bodies.len() });
    }
    run.bodies = String::from_utf8(bodies).expect("serde_json writes UTF-8");
    run.take_out_final_text();
    Ok(run)
}

impl Run {
    fn take_out_final_text(&mut self) {
        let text = match &mut self.change {
            Change::Begin(view) => &mut view.final_text,
            Change::Advance(patch) => &mut patch.final_text,
        };
        if let Some(text) = text.take_if(|text| text.len() > LARGE_TEXT) {
            let blob = Blob::new(text);
            self.final_blob = Some(blob.digest);
            if self.blobs.iter().all(|other| other.digest != blob.digest) {
                self.blobs.push(blob);
            }
        }
    }
}

/// What the records do to the row, and whether they park the run.
fn change_of(append: &Append) -> Result<(Change, bool), String> {
    let run = append.key.run;
    let records = || append.records.iter().map(|record| -> &Record { record });
    for (place, record) in records().enumerate() {
        let due = append.expected + 1 + place as u64;
        if record.seq != due {
            return Err(format!("run {run}: got record {}, expected {due}", record.seq));
        }
        let begins = matches!(record.body, Body::Accepted(_));
        if begins != (due == 1) {
            return Err(format!("run {run} must begin with an accepted record and have no other"));
        }
        if matches!(record.body, Body::Finished(_)) && place + 1 != append.records.len() {
            return Err(format!("run {run}: records after its end"));
        }
    }
    let Some(last) = records().next_back() else { return Err(format!("run {run}: no records")) };
    let parks = matches!(last.body, Body::Parked { .. });
    let first = records().next().unwrap_or(last);
    let Body::Accepted(accepted) = &first.body else {
        return Ok((Change::Advance(Box::new(Patch::of(records()))), parks));
    };
    if accepted.run != run || accepted.tenant != append.key.tenant {
        return Err(format!("run {run}: accepted record of another run {}", accepted.run));
    }
    let mut view = RunView::accepted(accepted, first.at);
    if append.records.len() > 1 {
        view.apply(Patch::of(records().skip(1)));
    }
    Ok((Change::Begin(Box::new(view)), parks))
}

/// The definitions that the store does not have, each under the digest that a run of its name carries: that is what a
/// resume will ask for, also when the redactor changed the text that the digest was made of.
fn pin(entry: &Entry, is_known: impl Fn(&Tenant, &Digest) -> bool) -> Vec<Pinned> {
    let mut pinned: Vec<Pinned> = Vec::new();
    for definition in &entry.definitions {
        let definition: &Definition = definition;
        for append in &entry.runs {
            let Some(Body::Accepted(accepted)) = append.records.first().map(|record| &record.body) else { continue };
            let (tenant, digest) = (&append.key.tenant, accepted.definition);
            let is_pinned = |other: &Pinned| other.digest == digest && other.tenant == *tenant;
            if accepted.agent != definition.name || is_known(tenant, &digest) || pinned.iter().any(is_pinned) {
                continue;
            }
            let body = serde_json::to_string(definition).expect("a definition has only text keys");
            pinned.push(Pinned { tenant: tenant.clone(), digest, body });
        }
    }
    pinned
}
