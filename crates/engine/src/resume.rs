//! Resume: what a start does with unfinished runs, and what a run must know of the step that was in flight when its process ended.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    failure::{Failure, RunError},
    ids::RunKey,
    record::{Body, CallDone, RepeatClass, Resumed, Seq, Status, Stop, TurnFailed},
    run::{INTERRUPTED, OpenCall},
    tool::{Over, Repeat, Verdict},
    usage::Usage,
    view::RunView,
};

use crate::{
    Engine,
    admission::Class,
    control::{Claim, Order},
    run_task::{RunTask, Task},
    slots::ticket,
    timers::Due,
    trial::{ALONE_AT_MOST, SUSPECT_AFTER, Suspect},
};

/// What a start took up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResumeReport {
    /// Runs that had a slot or waited for one.
    pub resumed: usize,
    /// Runs that are parked.
    pub parked: u64,
    /// Runs that are taken up in small groups, because the process died at the same step of them several times.
    pub suspects: usize,
    /// Runs that were ended for that.
    pub quarantined: usize,
}

impl Engine {
    /// Takes up everything that is unfinished. New runs are accepted meanwhile and wait their turn.
    pub async fn resume(self: &Arc<Self>) -> Result<ResumeReport, Failure> {
        let unfinished = self.parts.reader.list_unfinished().await.map_err(|error| self.unreadable(&error))?;
        self.own_all();
        let mut report = ResumeReport { parked: unfinished.parked, ..ResumeReport::default() };
        self.admission().hold();
        for due in unfinished.timers {
            self.timers.set(self.parts.clock.now().after(self.left_of(&due)), &due.run, Due::Wake);
        }
        self.register_all(unfinished.waiting);
        for due in unfinished.deadlines {
            self.set_old_deadline(&due);
        }
        let mut suspects = Vec::new();
        for view in unfinished.runs.into_iter().chain(unfinished.ready) {
            let strikes = view.strikes + 1;
            if self.parts.previous_unclean && strikes >= SUSPECT_AFTER {
                let trial = self.find_trial(&view).await;
                if trial.is_some_and(|trial| trial.alone >= ALONE_AT_MOST) {
                    report.quarantined += 1;
                    self.stop_run(view.key(), Stop::Quarantined { strikes }).await;
                    continue;
                }
                self.watch_old_deadline(&view);
                suspects.push(Suspect { view, trial });
            } else {
                self.watch_old_deadline(&view);
                let class = if view.status == Status::Queued { Class::New } else { Class::Resumed };
                let mut ticket = ticket(&view, class);
                // The time that the server was down does not count, so the wait begins anew.
                let wait = view.queue_timeout_ms.filter(|_| class == Class::New && view.depth == 0);
                ticket.patience = wait.map(Duration::from_millis);
                self.enqueue(ticket, false);
            }
            report.resumed += 1;
        }
        report.suspects = suspects.len();
        self.open_gate();
        if report.suspects > 0 {
            drop(tokio::spawn(self.clone().try_suspects(suspects)));
        }
        Ok(report)
    }

    /// Gives out slots. The runs in the queue waited for that and not for a slot, so their patience begins now.
    fn open_gate(self: &Arc<Self>) {
        let mut admission = self.admission();
        // Asked under the lock: a stop says so first and then holds admission, for good.
        if self.is_stopping() {
            return;
        }
        for (key, time) in admission.open(self.parts.clock.now()) {
            self.timers.set(time, &key, Due::QueueTimeout);
        }
        drop(admission);
        self.pump();
    }

    /// Takes up one run whose process ended, if it is unfinished and nobody has it.
    pub async fn resume_one(self: &Arc<Self>, view: &RunView) {
        if !view.status.is_terminal() {
            self.own(std::iter::once(view.root));
            self.watch_old_deadline(view);
            let class = if view.status == Status::Queued { Class::New } else { Class::Resumed };
            self.enqueue(ticket(view, class), false);
        }
    }
}

impl RunTask {
    /// Ends a run that no task held, for the reason in its control.
    pub(crate) async fn take_down(engine: Arc<Engine>, key: RunKey, claim: Claim) {
        let mut task = match Self::load(&engine, &key, claim, None).await {
            Ok(task) => task,
            Err(stop) => return engine.give_up(&key, stop).await,
        };
        if !task.run.view.status.is_terminal()
            && let Order::Stop(stop) = task.claim.control().order()
        {
            task.end_by(stop).await;
        }
    }

    /// What a run that had a slot when its process ended must know: which step was in flight, and what became of it.
    pub(crate) async fn recover(&mut self) {
        let before = self.run.view.strikes;
        // A run with a slot whose calls all wait was asking one of them again.
        let mut same_step = self.run.turn_in_flight.is_some() || self.can_park();
        if let Some((turn, attempt)) = self.run.turn_in_flight {
            let reserved = self.run.reserved;
            if reserved.tokens > 0 {
                self.open_accounts().await;
                self.engine.budgets.book(&self.owners, reserved);
            }
            self.push(Body::TurnFailed(TurnFailed {
                turn,
                attempt,
                error: RunError::new(INTERRUPTED, "the server process ended during the model call"),
                retry_at: Some(self.wall()),
                counted: false,
                maybe_paid: true,
            }));
            self.assume_paid(turn, reserved);
        }
        let open: Vec<OpenCall> = self.run.open_calls.iter().filter(|open| open.waiting.is_none()).cloned().collect();
        for open in open {
            same_step |= self.recover_call(open).await;
        }
        let strikes = match self.engine.parts.previous_unclean && same_step {
            true => before + 1,
            false => 0,
        };
        let trial = self.engine.trials.take(&self.key).filter(|_| strikes > 0);
        self.push(Body::Resumed(Resumed {
            epoch: self.engine.parts.epoch,
            version: drawloom_contract::VERSION.into(),
            strikes,
            trial,
        }));
        self.admit();
    }

    /// Does with an open call what its repeat class says; says whether it is made again.
    async fn recover_call(&mut self, open: OpenCall) -> bool {
        let OpenCall { call, started, .. } = open;
        let mut context = self.context(call);
        let tool = self.tool_of(&started);
        let outlives = match tool.as_ref().map(|tool| tool.repeat()) {
            Some(Repeat::Outlives(outlives)) => Some(outlives),
            Some(_) => None,
            None => self.engine.parts.turned_off.get(&started.tool_use.name).map(AsRef::as_ref),
        };
        if let Some(outlives) = outlives {
            let over = outlives.until_over(&context).await;
            self.doubt(call, over);
            return false;
        }
        let Some(tool) = tool.filter(|_| !started.masked) else {
            self.doubt(call, Over::Yes);
            return false;
        };
        let input = started.tool_use.input;
        context.evidence = started.evidence;
        match (started.repeat, tool.repeat()) {
            // As it was then and as it is today: an outside server may have taken back what it said of a tool.
            (RepeatClass::Safe | RepeatClass::Keyed, Repeat::Safe | Repeat::Keyed) => {}
            (RepeatClass::Check, Repeat::Check(check)) => {
                match check.verdict(&context, &input, &context.evidence.clone().unwrap_or_default()).await {
                    Verdict::DidNot => {}
                    Verdict::Happened(text) => {
                        self.end_call(call, text, false, started.reserved_cost);
                        return false;
                    }
                    Verdict::Failed(text) => {
                        self.end_call(call, text, true, None);
                        return false;
                    }
                    Verdict::InDoubt => {
                        self.doubt(call, Over::Yes);
                        return false;
                    }
                }
            }
            _ => {
                self.doubt(call, Over::Yes);
                return false;
            }
        }
        self.tasks.push(Task::Call { call, tool, context, input });
        true
    }

    fn doubt(&mut self, call: Seq, over: Over) {
        let mut text =
            "in doubt: the server process ended during this call, so it may or may not have taken effect. Check before \
                you repeat it."
                .to_owned();
        if let Over::NotWithin(waited) = over {
            text += &format!(" It was still running {} s after the restart.", waited.as_secs());
        }
        // It may have been made, so what it may have cost counts.
        let open = self.run.open_calls.iter().find(|open| open.call == call);
        let cost = open.and_then(|open| open.started.reserved_cost);
        self.settle_call(call, cost);
        self.push(Body::CallDone(CallDone {
            call,
            text,
            is_error: true,
            in_doubt: true,
            cost,
            usage: Usage::default(),
        }));
    }
}
