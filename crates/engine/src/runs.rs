//! The engine as every surface sees it.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use drawloom_contract::{
    activity::RunActivity,
    caller::Caller,
    costs::{CostGroup, CostQuery},
    failure::{Failure, FailureKind},
    ids::{AgentId, BatchId, RunId, RunKey},
    journal::{Label, RunFilter},
    money::TreeTotal,
    once::HandleId,
    record::{Seq, Stop},
    runs::{
        Cancelled, Idempotency, Interest, Item, Live, LiveTree, Load, OnRefusal, Replay, RetryStart, Runs, Start,
        Started, StartedBatch,
    },
    time::Instant,
    view::RunView,
};
use futures::{StreamExt, future::BoxFuture, stream};

use crate::{Engine, follow::unknown_run};

impl Engine {
    /// The run without its final text, when the caller may see it. Whatever a caller does with a run begins here or with
    /// a read that takes `Visible`: a run that it may not see is answered as one that does not exist.
    pub(crate) async fn seen(&self, caller: &Caller, run: RunId) -> Result<RunView, Failure> {
        allowed(caller, Engine::glance(self, &RunKey { tenant: caller.tenant.clone(), run }).await?)
    }
}

fn allowed(caller: &Caller, view: RunView) -> Result<RunView, Failure> {
    match caller.visible().sees(&view.tenant, &view.user) {
        true => Ok(view),
        false => Err(unknown_run(view.run)),
    }
}

/// Goes on to its end also when the caller stops listening: a run that is half accepted is nobody's, and a cancel that was
/// received is carried out.
///
/// The work is boxed, because a task is moved a dozen times from here to its place and its result's, and this one has 11 KB.
async fn unbroken<T: Send + 'static>(work: BoxFuture<'static, Result<T, Failure>>) -> Result<T, Failure> {
    tokio::spawn(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "accepting or cancelling a run failed");
        Err(Failure::new(FailureKind::Bug, "bug", "internal error while accepting or cancelling the run"))
    })
}

#[async_trait]
impl Runs for Engine {
    async fn start(
        &self,
        caller: &Caller,
        start: Start,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<Started, Failure> {
        let (engine, caller) = (self.shared(), caller.clone());
        unbroken(Box::pin(async move { engine.accept_one(&caller, start, key, interest).await })).await
    }

    async fn start_batch(
        &self,
        caller: &Caller,
        starts: Vec<Start>,
        on_refusal: OnRefusal,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<StartedBatch, Failure> {
        let (engine, caller) = (self.shared(), caller.clone());
        unbroken(Box::pin(async move { engine.accept_batch(&caller, starts, on_refusal, key, interest).await })).await
    }

    async fn retry(
        &self,
        caller: &Caller,
        retry: RetryStart,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<Started, Failure> {
        let (engine, caller) = (self.shared(), caller.clone());
        unbroken(Box::pin(async move { engine.accept_retry(&caller, retry, key, interest).await })).await
    }

    async fn retries(&self, views: &[RunView]) -> Result<BTreeMap<RunId, RunId>, Failure> {
        let Some(first) = views.first() else { return Ok(BTreeMap::new()) };
        let runs: Vec<RunId> = views.iter().map(|view| view.run).collect();
        let found = self.parts.reader.list_retries(&first.tenant, &runs).await;
        Ok(found.map_err(|error| self.unreadable(&error))?.into_iter().collect())
    }

    async fn load(&self, caller: &Caller, run: RunId) -> Result<RunView, Failure> {
        allowed(caller, self.load_run(&RunKey { tenant: caller.tenant.clone(), run }).await?)
    }

    async fn glance(&self, caller: &Caller, run: RunId) -> Result<RunView, Failure> {
        self.seen(caller, run).await
    }

    async fn load_by_agent_id(&self, caller: &Caller, agent_id: &AgentId) -> Result<RunView, Failure> {
        let found = self.parts.reader.find_by_agent_id(&caller.visible(), agent_id).await;
        found.map_err(|error| self.unreadable(&error))?.ok_or_else(|| {
            let message = format!("no run matches \"{agent_id}\"");
            Failure::new(FailureKind::NotFound, "unknown_agent_id", message).with_hint("list_runs lists the runs")
        })
    }

    async fn total(&self, caller: &Caller, run: RunId) -> Result<TreeTotal, Failure> {
        let total = self.parts.reader.tree_total(&self.seen(caller, run).await?.key()).await;
        total.map_err(|error| self.unreadable(&error))
    }

    async fn costs(&self, caller: &Caller, query: &CostQuery) -> Result<Vec<CostGroup>, Failure> {
        let sums = self.parts.reader.sum_costs(&caller.visible(), query).await;
        sums.map_err(|error| self.unreadable(&error))
    }

    async fn label(&self, views: &[RunView], bytes: usize) -> Result<Vec<Label>, Failure> {
        let Some(first) = views.first() else { return Ok(Vec::new()) };
        // What a caller sees is of one tenant.
        let runs: Vec<RunId> = views.iter().map(|view| view.run).collect();
        let labels = self.parts.reader.label_runs(&first.tenant, &runs, bytes).await;
        labels.map_err(|error| self.unreadable(&error))
    }

    async fn list(&self, caller: &Caller, filter: RunFilter) -> Result<Vec<RunView>, Failure> {
        let found = self.parts.reader.list_runs(&caller.visible(), &filter).await;
        found.map_err(|error| self.unreadable(&error))
    }

    async fn load_batch(&self, caller: &Caller, batch: BatchId) -> Result<Vec<RunView>, Failure> {
        self.load_members(caller, batch).await
    }

    fn positions(&self, runs: &[RunKey]) -> BTreeMap<RunId, u64> {
        self.admission().positions(runs)
    }

    async fn follow(&self, caller: &Caller, run: RunId, after: Seq, interest: Interest) -> Result<Live, Failure> {
        let view = self.seen(caller, run).await?;
        let key = view.key();
        if after > view.seq {
            return Err(Failure::new(
                FailureKind::Invalid,
                "bad_from_seq",
                format!("run {run} has {} records; `after` is {after}", view.seq),
            ));
        }
        let engine = self.shared();
        Ok(match interest {
            Interest::None => stream::empty().boxed(),
            Interest::Outcome => {
                stream::once(async move { engine.wait_for(&key, None).await.map(Item::Ended) }).boxed()
            }
            Interest::Events => engine.follower(key, after, None),
        })
    }

    async fn follow_tree(&self, caller: &Caller, run: RunId) -> Result<LiveTree, Failure> {
        let view = self.seen(caller, run).await?;
        Ok(self.shared().tree_follower(view.key(), view.root))
    }

    fn activity(&self, root: RunId) -> Vec<Arc<RunActivity>> {
        self.activities.of_tree(root)
    }

    async fn wait(&self, caller: &Caller, run: RunId, until: Option<Instant>) -> Result<Arc<RunView>, Failure> {
        let key = RunKey { tenant: caller.tenant.clone(), run };
        self.wait_for_seen(&key, until, |view| allowed(caller, view)).await
    }

    async fn cancel(&self, caller: &Caller, run: RunId, reason: Option<String>) -> Result<Cancelled, Failure> {
        let (engine, caller) = (self.shared(), caller.clone());
        unbroken(Box::pin(async move {
            let key = engine.seen(&caller, run).await?.key();
            let told = engine.stop_run(key.clone(), Stop::Cancelled { reason }).await;
            let view = engine.load_run(&key).await?;
            Ok(Cancelled { view, cancelled: told.is_some(), cascaded: told.unwrap_or_default() })
        }))
        .await
    }

    async fn replay(&self, caller: &Caller, run: RunId) -> Result<Replay, Failure> {
        self.shared().replay_run(&self.seen(caller, run).await?.key()).await
    }

    async fn find_keyed(
        &self,
        caller: &Caller,
        operation: &'static str,
        key: &str,
    ) -> Result<Option<HandleId>, Failure> {
        self.keyed(caller, operation, key).await
    }

    fn load_now(&self) -> Load {
        let mut load = self.admission().load();
        for (id, provider) in &self.parts.providers {
            let Some(credential) = &provider.credential else { continue };
            let standing = self.limiter.state(credential);
            let entry = load.providers.entry(id.clone()).or_default();
            entry.calls_in_flight = u64::from(standing.in_flight);
            entry.call_limit = standing.limit.map(u64::from);
            entry.throttled = u64::from(standing.waiting);
        }
        load
    }
}
