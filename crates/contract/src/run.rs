//! A run folded from its journal: what every executor's decision may look at.

use crate::{
    choice::{Effort, ModelName},
    money::Spent,
    record::{Accepted, Body, CallStarted, Notice, Record, Seq, Stop, Trial},
    time::{Mark, Timestamp},
    view::{Patch, RunView},
    wait::Wait,
};

/// The fold of a run's records, the same for every executor: its row, and what the row does not show. `apply` is compatible for
/// ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub accepted: Box<Accepted>,
    pub view: RunView,
    /// When its deadline was set: by the wall clock, and by the one that never jumps.
    pub deadline_set: Option<(Timestamp, Mark)>,
    pub model: ModelName,
    /// How often that was changed, and how hard the one now should think; nothing before the first change.
    pub switched: Option<(u32, Option<Effort>)>,
    pub made: Vec<Made>,
    pub stop: Option<Stop>,
    /// The turn in flight, without an outcome: its number and the try of it.
    pub turn_in_flight: Option<(u32, u32)>,
    /// What is reserved for it in the budget.
    pub reserved: Spent,
    /// Tries of the turn that comes next that failed and count against `retry_attempts`.
    pub counted_failures: u32,
    /// Calls whose intent has no outcome, in call order.
    pub open_calls: Vec<OpenCall>,
    /// Versions of drawloom that wrote to it, in order.
    pub versions: Vec<String>,
    /// How it is tried, while it is a suspect and its step has no outcome.
    pub trial: Option<Trial>,
    /// Model turns, and calls of its executor, that were in flight when the server ended: each is made again and may be paid twice.
    pub interrupted: u32,
    /// What notices said that the outcome repeats as warnings.
    pub late_warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    pub by: ModelName,
    pub turns: u32,
    pub with_thoughts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The sequence of its intent: its name.
    pub call: Seq,
    /// When its intent was journaled.
    pub began: Timestamp,
    pub started: CallStarted,
    pub waiting: Option<Wait>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    #[error("journal does not begin with an accepted record")]
    NoBeginning,
    #[error("record {found} follows record {last}")]
    Gap { last: Seq, found: Seq },
    #[error("record {0} follows the end of the run")]
    AfterEnd(Seq),
    #[error("record {seq} is the outcome of {what}, which was not started")]
    NoIntent { seq: Seq, what: String },
}

/// The code of a model turn that was in flight when the server ended.
pub const INTERRUPTED: &str = "interrupted";

impl Run {
    /// The warnings of its outcome: those it was accepted with, and what it may have paid twice.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.accepted.warnings.clone();
        warnings.extend(self.late_warnings.iter().cloned());
        if self.interrupted > 0 {
            let calls = if self.interrupted == 1 { "call was" } else { "calls were" };
            warnings.push(format!(
                "{} {calls} made again because the server ended during the first try; it may be charged twice",
                self.interrupted
            ));
        }
        warnings
    }

    pub fn begin(record: &Record) -> Result<Self, FoldError> {
        match (&record.body, record.seq) {
            (Body::Accepted(accepted), 1) => Ok(Self {
                view: RunView::accepted(accepted, record.at),
                deadline_set: accepted.deadline_set.map(|mark| (record.at, mark)),
                model: ModelName::new(&accepted.provider, &accepted.model),
                switched: None,
                made: Vec::new(),
                stop: None,
                turn_in_flight: None,
                reserved: Spent::default(),
                counted_failures: 0,
                open_calls: Vec::new(),
                versions: vec![accepted.version.clone()],
                trial: None,
                interrupted: 0,
                late_warnings: Vec::new(),
                accepted: accepted.clone(),
            }),
            _ => Err(FoldError::NoBeginning),
        }
    }

    pub fn apply(&mut self, record: &Record) -> Result<(), FoldError> {
        if record.seq != self.view.seq + 1 {
            return Err(FoldError::Gap { last: self.view.seq, found: record.seq });
        }
        if self.view.status.is_terminal() {
            return Err(FoldError::AfterEnd(record.seq));
        }
        match &record.body {
            Body::Accepted(_) => return Err(FoldError::NoBeginning),
            Body::Admitted { deadline_set, .. } => {
                self.deadline_set = deadline_set.map(|mark| (record.at, mark)).or(self.deadline_set);
            }
            Body::TurnStarted(started) => {
                self.turn_in_flight = Some((started.turn, started.attempt));
                let cost = started.reserved_cost.unwrap_or_default();
                self.reserved = Spent { tokens: started.reserved, cost };
            }
            Body::TurnDone(done) => {
                self.end_turn(record.seq, done.turn)?;
                self.counted_failures = 0;
                self.note_maker(!done.thoughts.is_empty());
            }
            Body::TurnFailed(failed) => {
                self.end_turn(record.seq, failed.turn)?;
                self.counted_failures += u32::from(failed.counted);
                self.interrupted += u32::from(failed.error.code == INTERRUPTED);
            }
            Body::Switched(switched) => {
                self.model = switched.to.clone();
                self.switched = Some((switched.attempt, switched.effort));
                self.counted_failures = 0;
            }
            Body::CallStarted(started) => {
                self.open_calls.push(OpenCall {
                    call: record.seq,
                    began: record.at,
                    started: started.clone(),
                    waiting: None,
                });
            }
            Body::CallWaiting { call, wait } => {
                self.open_call(record.seq, *call)?.waiting = Some(wait.clone());
                self.trial = None;
            }
            Body::CallDone(done) => {
                let by_executor = self.open_call(record.seq, done.call)?.started.by_executor;
                self.interrupted += u32::from(done.in_doubt && by_executor);
                self.open_calls.retain(|open| open.call != done.call);
                self.trial = None;
            }
            // A step has an outcome: it kills no process.
            Body::Parked { .. } => self.trial = None,
            Body::Resumed(resumed) => {
                self.trial = resumed.trial;
                if self.versions.last() != Some(&resumed.version) {
                    self.versions.push(resumed.version.clone());
                }
            }
            Body::StopRequested(stop) => {
                self.stop = self.stop.take().or_else(|| Some(stop.clone()));
            }
            Body::Finished(_) => {
                self.turn_in_flight = None;
                self.open_calls.clear();
            }
            Body::Notice { notice: Notice::ReasoningUnavailable, text } => self.late_warnings.push(text.clone()),
            Body::Usage { .. } | Body::LimitReached { .. } | Body::Notice { .. } | Body::Note { .. } => {}
        }
        self.view.apply(Patch::of([record]));
        Ok(())
    }

    fn note_maker(&mut self, with_thoughts: bool) {
        let with_thoughts = u32::from(with_thoughts);
        match self.made.iter_mut().find(|made| made.by == self.model) {
            Some(made) => {
                made.turns += 1;
                made.with_thoughts += with_thoughts;
            }
            None => self.made.push(Made { by: self.model.clone(), turns: 1, with_thoughts }),
        }
    }

    fn end_turn(&mut self, seq: Seq, turn: u32) -> Result<(), FoldError> {
        match self.turn_in_flight.take() {
            Some((open, _)) if open == turn => {
                self.trial = None;
                self.reserved = Spent::default();
                Ok(())
            }
            _ => Err(FoldError::NoIntent { seq, what: format!("turn {turn}") }),
        }
    }

    fn open_call(&mut self, seq: Seq, call: Seq) -> Result<&mut OpenCall, FoldError> {
        self.open_calls
            .iter_mut()
            .find(|open| open.call == call)
            .ok_or_else(|| FoldError::NoIntent { seq, what: format!("call {call}") })
    }
}
