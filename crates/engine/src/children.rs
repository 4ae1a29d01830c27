//! Children: started in the commit that begins the wait for them, collected when all have ended.

use std::sync::Arc;

use drawloom_contract::{
    definition::matches,
    failure::{Failure, FailureKind},
    ids::RunKey,
    record::{Body, CallDone, Collect, Parent, Record, Seq, Status},
    redact::Redacted,
    run::Run,
    runs::Start,
    usage::Usage,
    view::RunView,
    wait::{Cause, Wait, WaitChange},
};
use serde_json::json;

use crate::{
    Engine,
    admission::Class,
    call::shortened,
    plan::Planned,
    refused::{Origin, Refused, is_of_one_run},
    run_task::RunTask,
    slots::ticket,
    story,
    timers::Due,
    trees::NoGrowth,
};

/// Most bytes of all children's answers together that one call returns.
pub(crate) const MOST_BYTES: usize = 1024 * 1024;

impl RunTask {
    /// Plans the children of a call. Of many children, one that cannot be started has failed in its place; otherwise that fails the
    /// call, and none is started.
    pub(crate) fn spawn_children(&mut self, call: Seq, starts: Vec<Start>, collect: Collect) {
        match self.plan_children(call, starts, collect) {
            Ok((planned, refused)) => {
                let count = (planned.len() + refused.len()) as u32;
                self.children.extend(planned);
                self.refused.extend(refused);
                let wait = Wait::on(Cause::Children { count, collect });
                let (run, since) = (self.key.clone(), self.wall());
                self.waits.push(WaitChange::Call { run, call, wait: wait.clone(), since });
                self.push(Body::CallWaiting { call, wait });
            }
            Err(refusal) => self.end_call(call, refusal, true, None),
        }
    }

    fn plan_children(
        &self,
        call: Seq,
        starts: Vec<Start>,
        collect: Collect,
    ) -> Result<(Vec<Planned>, Vec<Refused>), String> {
        let config = &self.engine.parts.config;
        let parent = self.accepted();
        if parent.depth >= config.max_spawn_depth {
            return Err(format!(
                "too_deep: this run is at the maximum spawn depth ({}); do the work here instead",
                config.max_spawn_depth
            ));
        }
        if starts.len() > config.max_children_per_call as usize {
            return Err(format!(
                "too_many_children: {} child runs requested; the limit is {} per call",
                starts.len(),
                config.max_children_per_call
            ));
        }
        // What is left of the parent's time, whatever became of the wall clock since it was set.
        let left = self.engine.timers.left(&self.key, Due::Deadline, self.engine.parts.clock.now());
        // The run is about to be stopped: children would end at once, and could not say why.
        if left.is_some_and(|left| left.is_zero()) {
            return Err("timeout: this run has timed out; no child run was started".into());
        }
        let plan = |link: Parent, start: Start| {
            let definition = &self.pinned.definition;
            // An agent that was defined since this run was accepted: the gate of the run and that of its agent today must allow it.
            let is_new = || {
                let tenant = &self.key.tenant;
                definition.agents.iter().any(|pattern| matches(pattern, start.agent.as_str()))
                    && self
                        .engine
                        .parts
                        .definitions
                        .find(tenant, &definition.name)
                        .is_some_and(|now| now.may_spawn(&start.agent))
            };
            if !definition.may_spawn(&start.agent) && !is_new() {
                let team = definition.team.iter().flatten().map(|mate| mate.name.as_str());
                let allowed: Vec<&str> = match &definition.team {
                    Some(_) => team.collect(),
                    None => definition.agents.iter().map(String::as_str).collect(),
                };
                let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
                let message =
                    format!("this agent is not allowed to spawn \"{}\"; allowed agents: {allowed}", start.agent);
                return Err(Failure::new(FailureKind::Denied, "agent_not_allowed", message));
            }
            self.engine.plan_child(parent, definition, left, link, start)
        };
        let count = starts.len();
        let (mut planned, mut refused) = (Vec::with_capacity(count), Vec::new());
        for (index, start) in (0..).zip(starts) {
            let said = |failure: Failure| format!("spawns[{index}]: {}", failure.message);
            let link = Parent { run: parent.run, agent_id: parent.agent_id.clone(), call, index };
            let kept = (collect == Collect::Many).then(|| start.clone());
            match (plan(link.clone(), start), kept) {
                (Ok(child), _) => planned.push(child),
                (Err(failure), Some(start)) if is_of_one_run(&failure, &start) => {
                    let run = self.engine.refused_run(start, Origin::Call { parent, link }, failure);
                    refused.push(run.map_err(said)?);
                }
                (Err(failure), _) => return Err(said(failure)),
            }
        }
        let queued = self.engine.admission().queued_children();
        if queued + count > config.max_queued_children as usize {
            return Err(format!(
                "too_many_children: {queued} child runs are queued and the limit is {}; spawn fewer, or wait for \
                    running ones to finish",
                config.max_queued_children
            ));
        }
        self.engine.trees.grow(parent.root, count, config.max_runs_per_tree).map_err(|why| match why {
            NoGrowth::Full { size } => format!(
                "too_many_runs: this tree has {size} runs and the limit is {}; {count} more were requested. Do the \
                    work here instead",
                config.max_runs_per_tree
            ),
            NoGrowth::NotCounted => {
                "tree_not_counted: cannot read the store to count the runs of this tree; try again".into()
            }
        })?;
        Ok((planned, refused))
    }

    /// How many calls of each child were made again after the server ended during them. Only reports tell.
    async fn interrupted(&self, children: &[RunView], collect: Collect) -> Option<Vec<u32>> {
        let mut counts = vec![0; children.len()];
        if collect != Collect::Reports {
            return Some(counts);
        }
        // Such a child has a warning, so the journals of all others need no reading.
        for (count, child) in counts.iter_mut().zip(children).filter(|(_, child)| !child.warnings.is_empty()) {
            let key = RunKey { tenant: self.key.tenant.clone(), run: child.run };
            let reader = &self.engine.parts.reader;
            let records = self.engine.read(|| reader.read_journal(&key, 0, usize::MAX >> 1)).await?;
            if let Some((first, rest)) = records.split_first()
                && let Ok(mut run) = Run::begin(first)
            {
                // A journal that cannot be folded is reported where the run is shown.
                _ = rest.iter().try_for_each(|record| run.apply(record));
                *count = run.interrupted;
            }
        }
        Some(counts)
    }

    /// Journals the results of waits whose children have all ended. `None` when the children cannot be read.
    pub(crate) async fn collect_children(&mut self) -> Option<()> {
        let waiting: Vec<(Seq, Collect)> = self
            .run
            .open_calls
            .iter()
            .filter_map(|open| Some((open.call, open.waiting.as_ref()?.children()?.1)))
            .collect();
        for (call, collect) in waiting {
            let key: RunKey = self.key.clone();
            let children = self.engine.read(|| self.engine.parts.reader.list_children(&key, call)).await?;
            if children.iter().all(|child| child.status.is_terminal()) {
                let interrupted = self.interrupted(&children, collect).await?;
                let (text, is_error) = collected(&children, &interrupted, collect);
                self.push(Body::CallDone(CallDone {
                    call,
                    text,
                    is_error,
                    in_doubt: false,
                    cost: None,
                    usage: Usage::default(),
                }));
                self.waits.push(WaitChange::End { run: key, call });
            }
        }
        Some(())
    }
}

impl Engine {
    /// Tells of a child whose beginning is committed, and queues it.
    pub(crate) fn child_began(self: &Arc<Self>, child: &Planned, records: &[Redacted<Record>]) {
        let key = child.key();
        story::tell(&key, records);
        self.feed.publish(&key, child.accepted.root, records, None);
        self.meters.accepted();
        let view = RunView::accepted(&child.accepted, child.at);
        self.watch_deadline(&view);
        self.enqueue(ticket(&view, Class::New), false);
    }
}

/// What a model is told of its children's ends.
fn collected(children: &[RunView], interrupted: &[u32], collect: Collect) -> (String, bool) {
    let share = MOST_BYTES / children.len().max(1);
    match (collect, children) {
        (Collect::Reports, children) => {
            let reports = children.iter().zip(interrupted).map(|(child, interrupted)| {
                json!({
                    "interrupted": interrupted,
                    "run_id": child.run,
                    "status": child.status,
                    "output": shortened(child.final_text.clone().unwrap_or_default(), share),
                    "error": child.error,
                    "usage": child.usage,
                    "cost": child.cost,
                })
            });
            (reports.collect::<serde_json::Value>().to_string(), false)
        }
        (Collect::One, [child]) => match answer(child, share) {
            Ok(text) => (format!("{}: {text}", child.agent_id), false),
            Err(why) => (format!("{}: {why}", child.agent_id), true),
        },
        _ => {
            let results: Vec<_> = children
                .iter()
                .enumerate()
                .map(|(index, child)| {
                    let about = (index, &child.agent, &child.agent_id, child.run);
                    match answer(child, share) {
                        Ok(output) => json!({ "index": about.0, "agent": about.1, "agent_id": about.2, "run_id": about.3, "ok": true, "output": output }),
                        Err(error) => json!({ "index": about.0, "agent": about.1, "agent_id": about.2, "run_id": about.3, "ok": false, "error": error }),
                    }
                })
                .collect();
            (json!({ "results": results }).to_string(), false)
        }
    }
}

fn answer(child: &RunView, most: usize) -> Result<String, String> {
    match (child.status, &child.error) {
        (Status::Completed, _) => Ok(shortened(child.final_text.clone().unwrap_or_default(), most)),
        (status, Some(error)) => Err(format!("{}: {} ({})", status.as_str(), error.message, error.code)),
        (status, None) => Err(status.as_str().to_owned()),
    }
}
