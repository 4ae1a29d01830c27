//! The fake as every surface sees it.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use drawloom_contract::{
    activity::RunActivity,
    caller::Caller,
    costs::{CostBy, CostGroup, CostQuery},
    failure::{Failure, FailureKind},
    ids::{AgentId, BatchId, RunId, RunKey},
    journal::{Label, Placed, RunFilter},
    message::Block,
    money::{Spent, TreeTotal},
    once::HandleId,
    record::{BatchPlace, Body, Seq, Status},
    runs::{
        Cancelled, Idempotency, Interest, Item, Live, LiveTree, Load, OnRefusal, Replay, RetryStart, Runs, Start,
        Started, StartedBatch,
    },
    time::Instant,
    view::RunView,
};
use drawloom_testkit::suites::records::fold;
use futures::StreamExt as _;

use super::{Fake, Key};
use drawloom_server::GOAL_AGENT;

fn unknown(code: &'static str, what: &str) -> Failure {
    Failure::new(FailureKind::NotFound, code, format!("there is no such {what}"))
}

fn conflict(code: &'static str) -> Failure {
    Failure::new(FailureKind::Conflict, code, "something else has it")
}

fn key_of(caller: &Caller, operation: &'static str, key: &str) -> Key {
    (caller.tenant.clone(), caller.subject.clone(), operation, key.to_owned())
}

impl Fake {
    /// A run as it was accepted: what came since is for whoever listens.
    fn started(&self, run: RunId, interest: Interest) -> Started {
        let first = {
            let state = self.state();
            let items = &state.runs.iter().find(|known| known.view.run == run).expect("it is there").items;
            let Some(Item::Record(first)) = items.first() else { panic!("a run begins with a record") };
            (**first).clone()
        };
        let live = match interest {
            Interest::None => None,
            Interest::Outcome | Interest::Events => Some(self.live(run, 0, interest)),
        };
        Started { view: Arc::new(fold(&[first])), live }
    }

    fn live(&self, run: RunId, after: Seq, interest: Interest) -> Live {
        let items = futures::stream::unfold((self.clone(), 0), move |(fake, next)| async move {
            let mut changed = fake.changed.subscribe();
            loop {
                let item = {
                    let state = fake.state();
                    let items = &state.runs.iter().find(|known| known.view.run == run).expect("it is there").items;
                    match items.get(next) {
                        Some(item) => Some(item.clone()),
                        None if matches!(items.last(), Some(Item::Ended(_))) => return None,
                        None => None,
                    }
                };
                match item {
                    Some(item) => return Some((Ok(item), (fake, next + 1))),
                    None => changed.changed().await.expect("the fake lives"),
                }
            }
        });
        items
            .filter(move |item: &Result<Item, Failure>| {
                let wanted = match item {
                    Ok(Item::Record(record)) => interest == Interest::Events && record.seq > after,
                    Ok(Item::Delta(_) | Item::Activity(_)) => interest == Interest::Events,
                    Ok(Item::Ended(_)) | Err(_) => true,
                };
                std::future::ready(wanted)
            })
            .boxed()
    }

    fn find(&self, caller: &Caller, wanted: impl Fn(&RunView) -> bool, code: &'static str) -> Result<RunView, Failure> {
        let state = self.state();
        let seen = |view: &&RunView| caller.visible().sees(&view.tenant, &view.user) && wanted(view);
        let found = || state.runs.iter().rev().map(|run| &run.view).filter(seen);
        let live = found().find(|view| !view.status.is_terminal());
        live.or(found().next()).cloned().ok_or_else(|| unknown(code, "run"))
    }

    /// What the agents of these starts come to before anything begins.
    fn refuse_agents(starts: &[Start]) -> Result<(), Failure> {
        starts.iter().try_for_each(|start| match start.agent.as_str() {
            "crash" => panic!("the secret of the crash"),
            "full" => Err(Failure::new(FailureKind::Throttled, "backpressure", "the queue is full")),
            "quick" | "failing" | "slow" | GOAL_AGENT => Ok(()),
            other => Err(Failure::new(FailureKind::NotFound, "unknown_agent", format!("there is no agent {other}"))),
        })
    }

    /// Why these starts cannot begin together.
    fn refuse(&self, caller: &Caller, starts: &[Start]) -> Result<(), Failure> {
        Self::refuse_agents(starts)?;
        let state = self.state();
        let views = || state.runs.iter().map(|run| &run.view).filter(|view| view.tenant == caller.tenant);
        let live = || views().filter(|view| !view.status.is_terminal());
        for (index, start) in starts.iter().enumerate() {
            let before = &starts[..index];
            if let Some(session) = start.session {
                let is_seen = |view: &RunView| caller.visible().sees(&view.tenant, &view.user);
                let mut of_session = views().filter(|view| view.session == session).peekable();
                if of_session.peek().is_none() || !of_session.all(is_seen) {
                    return Err(unknown("unknown_session", "session"));
                }
                if live().any(|view| view.session == session)
                    || before.iter().any(|other| other.session == Some(session))
                {
                    return Err(conflict("session_busy"));
                }
            }
            if let Some(agent_id) = &start.agent_id
                && (live().any(|view| view.agent_id == *agent_id)
                    || before.iter().any(|other| other.agent_id.as_ref() == Some(agent_id)))
            {
                return Err(conflict("agent_id_in_use"));
            }
        }
        Ok(())
    }

    /// What an earlier request with this key made.
    fn known(&self, caller: &Caller, key: Option<&Idempotency>) -> Result<Option<HandleId>, Failure> {
        let Some(key) = key else { return Ok(None) };
        match self.state().keys.get(&key_of(caller, key.operation, &key.key)) {
            Some((body, handle)) if *body == key.body => Ok(Some(*handle)),
            Some(_) => Err(conflict("idempotency_key_reused")),
            None => Ok(None),
        }
    }

    fn keep(&self, caller: &Caller, key: Option<Idempotency>, handle: HandleId) {
        let key = key.map(|key| (key_of(caller, key.operation, &key.key), (key.body, handle)));
        self.state().keys.extend(key);
    }

    /// A run that was there before is followed from the store.
    fn again(&self, run: RunId) -> Started {
        Started { view: Arc::new(self.view(run)), live: None }
    }
}

#[async_trait]
impl Runs for Fake {
    async fn start(
        &self,
        caller: &Caller,
        start: Start,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<Started, Failure> {
        match self.known(caller, key.as_ref())? {
            Some(HandleId::Run(run)) => return Ok(self.again(run)),
            Some(HandleId::Batch(_)) => return Err(conflict("idempotency_key_reused")),
            None => {}
        }
        self.refuse(caller, std::slice::from_ref(&start))?;
        let run = self.begin(caller, &start, None);
        self.keep(caller, key, HandleId::Run(run));
        Ok(self.started(run, interest))
    }

    async fn start_batch(
        &self,
        caller: &Caller,
        starts: Vec<Start>,
        _: OnRefusal,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<StartedBatch, Failure> {
        if !(1..=32).contains(&starts.len()) {
            return Err(Failure::new(FailureKind::Invalid, "bad_batch_size", "a batch has 1 to 32 spawns"));
        }
        match self.known(caller, key.as_ref())? {
            Some(HandleId::Batch(batch)) => {
                let views = self.load_batch(caller, batch).await?;
                return Ok(StartedBatch { batch, runs: views.iter().map(|view| self.again(view.run)).collect() });
            }
            Some(HandleId::Run(_)) => return Err(conflict("idempotency_key_reused")),
            None => {}
        }
        self.refuse(caller, &starts)?;
        let batch = BatchId::from_bytes([u8::try_from(self.state().batches.len() + 1).expect("a few"); 16]);
        let runs: Vec<RunId> = (0..)
            .zip(&starts)
            .map(|(index, start)| self.begin(caller, start, Some(BatchPlace { batch, index })))
            .collect();
        self.state().batches.push((caller.tenant.clone(), batch, runs.clone()));
        self.keep(caller, key, HandleId::Batch(batch));
        Ok(StartedBatch { batch, runs: runs.into_iter().map(|run| self.started(run, interest)).collect() })
    }

    async fn retry(
        &self,
        caller: &Caller,
        retry: RetryStart,
        key: Option<Idempotency>,
        interest: Interest,
    ) -> Result<Started, Failure> {
        if let Some(HandleId::Run(run)) = self.known(caller, key.as_ref())? {
            return Ok(self.again(run));
        }
        let view = self.load(caller, retry.run).await?;
        if !view.status.is_terminal() {
            return Err(conflict("not_ended"));
        }
        if view.status == Status::Completed && !retry.completed {
            return Err(conflict("completed"));
        }
        let run = self.begin(caller, &Start::new(view.agent, "again"), None);
        self.keep(caller, key, HandleId::Run(run));
        Ok(self.started(run, interest))
    }

    async fn retries(&self, _: &[RunView]) -> Result<BTreeMap<RunId, RunId>, Failure> {
        Ok(BTreeMap::new())
    }

    async fn costs(&self, caller: &Caller, query: &CostQuery) -> Result<Vec<CostGroup>, Failure> {
        let mut groups: BTreeMap<String, CostGroup> = BTreeMap::new();
        let state = self.state();
        for view in state.runs.iter().map(|run| &run.view).filter(|view| {
            caller.visible().sees(&view.tenant, &view.user) && query.user.as_ref().is_none_or(|user| *user == view.user)
        }) {
            let name = match query.by {
                CostBy::Agent => view.agent.to_string(),
                CostBy::Model => format!("{}/{}", view.provider, view.model),
                CostBy::User => view.user.to_string(),
                CostBy::Day => view.accepted_at.to_rfc3339().chars().take(10).collect(),
            };
            let first = view.accepted_at;
            let empty = CostGroup { name: name.clone(), runs: 0, tokens: 0, cost: None, assumed: None, first };
            let group = groups.entry(name).or_insert(empty);
            group.runs += 1;
            group.tokens += view.usage.total();
            group.cost = group.cost.into_iter().chain(view.cost).reduce(|one, other| one + other);
        }
        Ok(groups.into_values().collect())
    }

    async fn load(&self, caller: &Caller, run: RunId) -> Result<RunView, Failure> {
        self.find(caller, |view| view.run == run, "unknown_run")
    }

    async fn glance(&self, caller: &Caller, run: RunId) -> Result<RunView, Failure> {
        Ok(RunView { final_text: None, ..self.load(caller, run).await? })
    }

    async fn load_by_agent_id(&self, caller: &Caller, agent_id: &AgentId) -> Result<RunView, Failure> {
        self.find(caller, |view| view.agent_id == *agent_id, "unknown_agent_id")
    }

    async fn total(&self, caller: &Caller, run: RunId) -> Result<TreeTotal, Failure> {
        let view = self.load(caller, run).await?;
        let spent = Spent { tokens: view.usage.total(), cost: view.cost.unwrap_or_default() };
        Ok(TreeTotal { spent, ..TreeTotal::default() })
    }

    async fn label(&self, views: &[RunView], bytes: usize) -> Result<Vec<Label>, Failure> {
        let state = self.state();
        let label = |view: &RunView| {
            let items = &state.runs.iter().find(|known| known.view.run == view.run).expect("it is there").items;
            let Some(Item::Record(first)) = items.first() else { panic!("a run begins with a record") };
            let Body::Accepted(accepted) = &first.body else { panic!("a run begins with its accept") };
            let Block::TrustedText { text } = &accepted.segments[0].content[0] else { panic!("a prompt is a text") };
            Label { prompt: text.chars().take(bytes).collect(), digits: 32 }
        };
        Ok(views.iter().map(label).collect())
    }

    async fn list(&self, caller: &Caller, filter: RunFilter) -> Result<Vec<RunView>, Failure> {
        let state = self.state();
        let views = state.runs.iter().rev().map(|run| &run.view).filter(|view| {
            caller.visible().sees(&view.tenant, &view.user)
                && filter.user.as_ref().is_none_or(|user| *user == view.user)
                && filter.agent.as_ref().is_none_or(|agent| *agent == view.agent)
                && filter.session.is_none_or(|session| session == view.session)
                && filter.batch.is_none_or(|batch| view.batch.is_some_and(|place| place.batch == batch))
                && filter.parent.is_none_or(|parent| view.parent.as_ref().is_some_and(|found| found.run == parent))
                && filter.ids.is_none_or(|(first, last)| (first..=last).contains(&view.run))
                && filter
                    .batches
                    .is_none_or(|(first, last)| view.batch.is_some_and(|place| (first..=last).contains(&place.batch)))
                && (!filter.roots || view.depth == 0)
                && filter.before.is_none_or(|before| view.run < before)
                && (filter.status.is_empty() || filter.status.contains(&view.status))
        });
        Ok(views.take(filter.limit as usize).map(|view| RunView { final_text: None, ..view.clone() }).collect())
    }

    async fn load_batch(&self, caller: &Caller, batch: BatchId) -> Result<Vec<RunView>, Failure> {
        let runs =
            self.state().batches.iter().find(|(tenant, known, _)| *tenant == caller.tenant && *known == batch).cloned();
        let (_, _, runs) = runs.ok_or_else(|| unknown("unknown_batch", "batch"))?;
        let views: Vec<RunView> = runs.into_iter().map(|run| self.view(run)).collect();
        match views.iter().all(|view| caller.visible().sees(&view.tenant, &view.user)) {
            true => Ok(views),
            false => Err(unknown("unknown_batch", "batch")),
        }
    }

    fn positions(&self, runs: &[RunKey]) -> BTreeMap<RunId, u64> {
        let state = self.state();
        let queued = state.runs.iter().map(|run| &run.view).filter(|view| view.status == Status::Queued);
        (1..)
            .zip(queued)
            .filter(|(_, view)| runs.contains(&view.key()))
            .map(|(position, view)| (view.run, position))
            .collect()
    }

    async fn follow(&self, caller: &Caller, run: RunId, after: Seq, interest: Interest) -> Result<Live, Failure> {
        if after > self.load(caller, run).await?.seq {
            return Err(Failure::new(FailureKind::Invalid, "bad_from_seq", "there is no such record"));
        }
        Ok(match interest {
            Interest::None => futures::stream::empty().boxed(),
            Interest::Outcome | Interest::Events => self.live(run, after, interest),
        })
    }

    async fn follow_tree(&self, caller: &Caller, run: RunId) -> Result<LiveTree, Failure> {
        self.load(caller, run).await?;
        // Its runs spawn none, so a run is a tree, and its records are the journal.
        let items = self.live(run, 0, Interest::Events).scan(0, move |position, item| {
            let item = item.map(|it| {
                *position = if let Item::Record(record) = &it { record.seq } else { *position };
                let position = if matches!(it, Item::Delta(_) | Item::Activity(_)) { 0 } else { *position };
                Placed { position, run, it }
            });
            futures::future::ready(Some(item))
        });
        Ok(items.boxed())
    }

    fn activity(&self, _: RunId) -> Vec<Arc<RunActivity>> {
        // Its calls report nothing.
        Vec::new()
    }

    async fn wait(&self, caller: &Caller, run: RunId, until: Option<Instant>) -> Result<Arc<RunView>, Failure> {
        self.load(caller, run).await?;
        let time = async {
            match until {
                Some(time) => self.clock.sleep_until(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.until(|fake| fake.status(run).is_terminal()) => {}
            () = time => {}
        }
        Ok(Arc::new(self.view(run)))
    }

    async fn cancel(&self, caller: &Caller, run: RunId, _: Option<String>) -> Result<Cancelled, Failure> {
        let ended = self.load(caller, run).await?.status.is_terminal();
        if !ended {
            self.finish(run, Status::Cancelled);
        }
        Ok(Cancelled { view: self.view(run), cancelled: !ended, cascaded: Vec::new() })
    }

    async fn replay(&self, caller: &Caller, run: RunId) -> Result<Replay, Failure> {
        let view = self.load(caller, run).await?;
        let records = view.seq;
        Ok(Replay { run_id: run, records, steps: Vec::new(), fold_error: None, same_version: true, ok: true })
    }

    async fn find_keyed(
        &self,
        caller: &Caller,
        operation: &'static str,
        key: &str,
    ) -> Result<Option<HandleId>, Failure> {
        Ok(self.state().keys.get(&key_of(caller, operation, key)).map(|(_, handle)| *handle))
    }

    fn load_now(&self) -> Load {
        let state = self.state();
        let count = |wanted| state.runs.iter().filter(|run| run.view.status == wanted).count() as u64;
        let (active, queued) = (count(Status::Running), count(Status::Queued));
        Load { active, queued, max_concurrent_runs: 4, providers: BTreeMap::new() }
    }
}
