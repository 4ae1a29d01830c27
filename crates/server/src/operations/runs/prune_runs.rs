//! `prune_runs`: removes what ended long ago.

use std::time::Duration;

use drawloom_contract::{
    caller::Scope,
    failure::{Failure, FailureKind},
    ids::RunKey,
    retention::Prune,
    time::Timestamp,
};
use drawloom_wire::runs::{self, PrunableRun, PruneReport};

use crate::operation::{Answer, Call, Card, Operation};

pub(crate) struct PruneRuns;

impl Operation for PruneRuns {
    type Input = runs::PruneRuns;

    fn card(&self) -> Card {
        Card::of::<Self::Input>("Delete old runs with their child runs and journals.", Scope::Tenant)
            .toolset("server")
            .destructive()
            .body_limit(16 * 1024)
    }

    async fn call(&self, call: &Call<'_>, input: Self::Input) -> Result<Answer<PruneReport>, Failure> {
        if input.all_tenants && !call.caller.may(Scope::Admin) {
            let message = format!("all_tenants requires the scope {}", Scope::Admin);
            return Err(Failure::new(FailureKind::Denied, "insufficient_scope", message)
                .with_hint("omit it to prune only your own tenant"));
        }
        let age = Duration::from_secs(input.older_than_seconds);
        let by_age = earlier(call.app.clock.wall(), age);
        let ended_before = match &input.ended_before {
            None => by_age,
            Some(text) => by_age.min(time(text)?),
        };
        let tenant = (!input.all_tenants).then(|| call.caller.tenant.clone());
        let prune = Prune { tenant, ended_before, keep: call.app.goals.host.kept().await? };
        if input.dry_run {
            let (all, named) = call.app.retention.find_prunable(&prune).await.map_err(|error| Failure::of(&error))?;
            let mut report = PruneReport::of(&all, ended_before, true);
            for key in named {
                report.top_level.extend(prunable(call, key).await?);
            }
            return Ok(Answer::Value(report));
        }
        let pruned = call.app.retention.prune(&prune).await.map_err(|error| Failure::of(&error))?;
        tracing::info!(trees = pruned.trees, runs = pruned.runs, records = pruned.records, "pruned runs");
        Ok(Answer::Value(PruneReport::of(&pruned, ended_before, false)))
    }
}

/// What is said of a run that would be deleted; nothing when it is gone in the meantime.
async fn prunable(call: &Call<'_>, key: RunKey) -> Result<Option<PrunableRun>, Failure> {
    if key.tenant != call.caller.tenant {
        return Ok(Some(PrunableRun::of_tenant(key)));
    }
    match call.app.runs.glance(call.caller, key.run).await {
        Ok(view) => Ok(Some(PrunableRun::of(&view))),
        Err(failure) if failure.kind == FailureKind::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn time(text: &str) -> Result<Timestamp, Failure> {
    let time = text.parse::<jiff::Timestamp>().map_err(|_| {
        let message = format!("ended_before: {text:?} is not a time");
        Failure::new(FailureKind::Invalid, "invalid_request", message).with_hint("write it like 2026-01-31T12:00:00Z")
    })?;
    Ok(Timestamp::from_millis(time.as_millisecond()))
}

fn earlier(now: Timestamp, age: Duration) -> Timestamp {
    let millis = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(millis))
}
