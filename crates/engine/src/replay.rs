//! Replay: folds a journal again and asks today's code what it would decide, with no model and no tool called.

use std::sync::Arc;

use drawloom_contract::{
    executor::{Drive, Effect},
    failure::Failure,
    ids::RunKey,
    record::{Body, Outcome, Record},
    run::Run,
    runs::{Replay, ReplayStep},
    time::Timestamp,
    wait::Wait,
};

use crate::{Engine, stop};

impl Engine {
    pub(crate) async fn replay_run(self: &Arc<Self>, key: &RunKey) -> Result<Replay, Failure> {
        let view = self.load_run(key).await?;
        let mut records: Vec<Record> = Vec::new();
        loop {
            let after = records.last().map_or(0, |record| record.seq);
            let page = self.parts.reader.read_journal(key, after, 512).await;
            let page = page.map_err(|error| self.unreadable(&error))?;
            if page.is_empty() {
                break;
            }
            records.extend(page);
        }
        let mut replay = Replay {
            run_id: key.run,
            records: records.len() as u64,
            steps: Vec::new(),
            fold_error: None,
            same_version: false,
            ok: false,
        };
        // A run that was refused has no definition, and nothing was decided.
        if let [first, _] = &*records
            && matches!(&first.body, Body::Accepted(accepted) if accepted.provider.is_empty())
        {
            (replay.same_version, replay.ok) = (true, true);
            return Ok(replay);
        }
        let Some(pinned) = self.load_pinned(key, &view.definition).await else {
            replay.fold_error = Some("the run's pinned agent definition is missing".into());
            return Ok(replay);
        };
        let Some(kind) = records.first().and_then(|first| match &first.body {
            Body::Accepted(accepted) => self.executors.find(&accepted.executor),
            _ => None,
        }) else {
            replay.fold_error = Some("this version does not support the run's executor".into());
            return Ok(replay);
        };
        let drive = kind.executor.open((*pinned.definition).clone());
        match fold(&records, drive, &mut replay.steps) {
            Ok(versions) => {
                replay.same_version = versions.iter().all(|version| version == drawloom_contract::VERSION);
                replay.ok = !replay.same_version || replay.steps.iter().all(|step| step.today.is_none());
            }
            Err(error) => replay.fold_error = Some(error),
        }
        Ok(replay)
    }
}

fn fold(records: &[Record], mut drive: Box<dyn Drive>, steps: &mut Vec<ReplayStep>) -> Result<Vec<String>, String> {
    let (first, rest) = records.split_first().ok_or("the journal is empty")?;
    let mut run = Run::begin(first).map_err(|error| error.to_string())?;
    drive.apply(&run, first);
    for record in rest {
        steps.extend(compare(record, &run, &*drive));
        run.apply(record).map_err(|error| error.to_string())?;
        drive.apply(&run, record);
    }
    Ok(run.versions)
}

/// A recorded decision beside today's; nothing for a record that is no decision of the executor.
fn compare(record: &Record, run: &Run, drive: &dyn Drive) -> Option<ReplayStep> {
    let recorded = match &record.body {
        Body::TurnStarted(started) => turn(started.turn, started.attempt, started.tools),
        Body::CallStarted(started) => {
            format!(
                "call {} of turn {}: {} {}",
                started.index, started.turn, started.tool_use.name, started.tool_use.input
            )
        }
        Body::Note { value, .. } => format!("note {value}"),
        Body::Parked { wait: Wait { on, until: Some(until) } } if on.is_empty() => {
            format!("wait until {}", until.to_rfc3339())
        }
        Body::Finished(outcome) => {
            // An end that somebody asked for is the engine's, not the executor's.
            if let Some(asked) = &run.stop {
                let today = (!stop::is_outcome_of(asked, outcome)).then(|| format!("end with {asked:?}"));
                return Some(ReplayStep {
                    seq: record.seq,
                    recorded: format!("finish {}", outcome.status.as_str()),
                    today,
                });
            }
            finish(outcome)
        }
        _ => return None,
    };
    let today = decided(run, drive, record.at);
    let today = (!today.contains(&recorded)).then(|| match today.is_empty() {
        true => "nothing".to_owned(),
        false => today.join("; "),
    });
    Some(ReplayStep { seq: record.seq, recorded, today })
}

fn turn(number: u32, attempt: u32, tools: bool) -> String {
    format!("turn {number}, attempt {attempt}, {} tools", if tools { "with" } else { "without" })
}

/// `finish completed (end_turn)`
fn finish(outcome: &Outcome) -> String {
    let status = outcome.status.as_str();
    match outcome.stop_reason {
        Some(reason) => format!("finish {status} ({})", reason.as_str()),
        None => format!("finish {status}"),
    }
}

fn decided(run: &Run, drive: &dyn Drive, now: Timestamp) -> Vec<String> {
    drive
        .decide(run, now)
        .into_iter()
        .map(|effect| match effect {
            Effect::Turn(plan) => turn(plan.turn, plan.attempt, plan.tools),
            Effect::Call(plan) => {
                format!("call {} of turn {}: {} {}", plan.index, plan.turn, plan.tool_use.name, plan.tool_use.input)
            }
            Effect::Wait { until } => format!("wait until {}", until.to_rfc3339()),
            Effect::Note { value, .. } => format!("note {value}"),
            Effect::Finish(outcome) => finish(&outcome),
        })
        .collect()
}
