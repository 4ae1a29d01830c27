//! Runs of a batch or of one call that are refused while the others run: each is written down as a run that failed when it was accepted,
//! so that the batch or call has the same answer later and after a restart.

use std::{sync::Arc, time::Duration};

use drawloom_contract::{
    caller::Caller,
    choice::ModelPlan,
    executor::MODEL,
    failure::{Failure, FailureKind, RunError},
    ids::{AgentId, Digest, RunId, RunKey, SessionId},
    journal::Append,
    record::{Accepted, BatchPlace, Body, Outcome, Parent, Record, Status},
    redact::Redacted,
    runs::{Start, Started},
    usage::Usage,
    view::{Patch, RunView},
};

use crate::{Engine, story};

/// What started a run that is refused.
pub(crate) enum Origin<'a> {
    Batch { caller: &'a Caller, place: BatchPlace },
    Call { parent: &'a Accepted, link: Parent },
}

/// A run that was refused: its whole journal.
pub(crate) struct Refused {
    key: RunKey,
    records: Vec<Redacted<Record>>,
    view: RunView,
}

/// Whether a failure concerns one run of a batch: not the server, and no name that must not be stored. A failed run of a reserved agent
/// would be listed as a goal.
pub(crate) fn is_of_one_run(failure: &Failure, start: &Start) -> bool {
    let is_of_request = matches!(
        failure.kind,
        FailureKind::NotFound | FailureKind::Conflict | FailureKind::Invalid | FailureKind::Denied
    );
    is_of_request && !failure.code.starts_with("secret_") && !start.agent.is_reserved()
}

impl Engine {
    /// The journal of a run that is refused for `failure`. Names are stored as they are, so one that looks like a secret refuses all.
    pub(crate) fn refused_run(&self, start: Start, origin: Origin<'_>, failure: Failure) -> Result<Refused, Failure> {
        let is_secret = |name: &str| self.parts.redactor.mask(&mut name.to_owned());
        if is_secret(start.agent.as_str())
            || start.agent_id.as_ref().is_some_and(|agent_id| is_secret(agent_id.as_str()))
            || start.user.as_ref().is_some_and(|user| is_secret(user.as_str()))
        {
            return Err(failure);
        }
        let (at, entropy) = (self.wall(), &*self.parts.entropy);
        let run = RunId::mint(at, entropy)?;
        let (tenant, user, batch) = match &origin {
            Origin::Batch { caller, place } => (&caller.tenant, &caller.subject, Some(*place)),
            Origin::Call { parent, .. } => (&parent.tenant, &parent.user, None),
        };
        let (link, root, depth) = match &origin {
            Origin::Batch { .. } => (None, run, 0),
            Origin::Call { parent, link } => (Some(link.clone()), parent.root, parent.depth + 1),
        };
        let accepted = Accepted {
            version: drawloom_contract::VERSION.into(),
            tenant: tenant.clone(),
            run,
            session: SessionId::mint(at, entropy)?,
            agent_id: start.agent_id.map_or_else(|| AgentId::mint(at, entropy), Ok)?,
            agent: start.agent,
            definition: Digest::of(&[]),
            executor: MODEL.into(),
            user: start.user.unwrap_or_else(|| user.clone()),
            provider: String::new(),
            model: String::new(),
            parent: link,
            root,
            depth,
            batch,
            retry: None,
            segments: start.segments,
            input: start.input,
            tools: Vec::new(),
            narrowed_tools: start.tools,
            max_iterations: start.max_iterations.unwrap_or_default(),
            budget_tokens: start.budget_tokens,
            budget_cost: start.budget_cost,
            part_budgets: Vec::new(),
            models: ModelPlan { user_tier: start.user_tier, sampling: start.sampling, ..ModelPlan::default() },
            narrowed_hosts: start.hosts,
            narrowed_volumes: start.volumes,
            deadline: start.timeout_ms.map(|limit| at.after(Duration::from_millis(limit))),
            deadline_set: None,
            run_timeout_ms: start.run_timeout_ms,
            queue_timeout_ms: None,
            parent_context: start.parent_context,
            metadata: start.metadata,
            warnings: start.warnings,
        };
        let mut error = RunError::new(failure.code, failure.message);
        error.hint = failure.hint;
        let outcome = Outcome {
            status: Status::Failed,
            stop_reason: None,
            error: Some(error),
            final_text: None,
            usage: Usage::default(),
            cost: None,
            warnings: accepted.warnings.clone(),
        };
        let key = RunKey { tenant: accepted.tenant.clone(), run };
        let mut view = RunView::accepted(&accepted, at);
        let bodies = [Body::Accepted(Box::new(accepted)), Body::Finished(Box::new(outcome))];
        let clean = |(seq, body)| self.parts.redactor.clean(Record { seq, at, body });
        let records: Vec<Redacted<Record>> = (1..).zip(bodies).map(clean).collect();
        view.apply(Patch::of([&*records[1]]));
        Ok(Refused { key, records, view })
    }

    /// Tells of a refused run that is committed.
    pub(crate) fn tell_refused(&self, refused: Refused) -> Started {
        let Refused { key, records, view } = refused;
        let view = Arc::new(view);
        self.meters.accepted();
        self.meters.ended(view.status, Duration::ZERO);
        story::tell(&key, &records);
        story::tell_end(&view);
        self.feed.publish(&key, view.root, &records, Some(&view));
        Started { view, live: None }
    }
}

impl Refused {
    pub(crate) fn append(&self) -> Append {
        Append { key: self.key.clone(), expected: 0, records: self.records.clone(), exclusive_session: false }
    }
}
