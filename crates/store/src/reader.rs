//! What can be read of runs: each method is one read transaction.

use async_trait::async_trait;
use drawloom_contract::{
    caller::Visible,
    costs::{CostGroup, CostQuery},
    definition::Definition,
    ids::{AgentId, BatchId, Digest, RunId, RunKey, SessionId, Tenant},
    journal::{Label, RunFilter, RunReader, StoreError, TreePart, Unfinished},
    money::TreeTotal,
    once::{Answered, RequestKey},
    record::{Record, Seq},
    view::RunView,
};

use crate::{
    store::Store,
    tables::{
        batches, definitions, keys,
        records::{self, tree},
        runs::{costs, labels, list::list, read as runs},
        sessions, waits,
    },
};

type Read<T> = Result<T, StoreError>;

#[async_trait]
impl RunReader for Store {
    async fn find_run(&self, key: &RunKey) -> Read<Option<RunView>> {
        let key = key.clone();
        self.readers.read(move |connection| runs::find(connection, &key)).await
    }

    async fn find_run_without_text(&self, key: &RunKey) -> Read<Option<RunView>> {
        let key = key.clone();
        self.readers.glance(move |connection| runs::find_without_text(connection, &key)).await
    }

    async fn find_by_agent_id(&self, visible: &Visible, agent_id: &AgentId) -> Read<Option<RunView>> {
        let (visible, agent_id) = (visible.clone(), agent_id.clone());
        self.readers.read(move |connection| runs::find_by_agent_id(connection, &visible, &agent_id)).await
    }

    async fn list_runs(&self, visible: &Visible, filter: &RunFilter) -> Read<Vec<RunView>> {
        let (visible, filter) = (visible.clone(), filter.clone());
        self.readers.read(move |connection| list(connection, &visible, &filter)).await
    }

    async fn read_journal(&self, key: &RunKey, after: Seq, limit: usize) -> Read<Vec<Record>> {
        let key = key.clone();
        let few = {
            let key = key.clone();
            self.readers.glance(move |connection| records::read_few(connection, &key, after, limit)).await?
        };
        match few {
            Some(records) => Ok(records),
            None => {
                self.readers.read(move |connection| records::read(connection, &key, after, limit, usize::MAX)).await
            }
        }
    }

    async fn read_journal_part(&self, key: &RunKey, after: Seq, bytes: usize) -> Read<Vec<Record>> {
        let key = key.clone();
        self.readers.read(move |connection| records::read(connection, &key, after, usize::MAX, bytes)).await
    }

    async fn list_children(&self, parent: &RunKey, call: Seq) -> Read<Vec<RunView>> {
        let parent = parent.clone();
        self.readers.read(move |connection| runs::children(connection, &parent, call)).await
    }

    async fn list_live_children(&self, parent: &RunKey) -> Read<Vec<RunView>> {
        let parent = parent.clone();
        self.readers.read(move |connection| runs::live_children(connection, &parent)).await
    }

    async fn tree_size(&self, root: &RunKey) -> Read<u64> {
        let root = root.clone();
        self.readers.read(move |connection| runs::tree_size(connection, &root)).await
    }

    async fn tree_total(&self, top: &RunKey) -> Read<TreeTotal> {
        let top = top.clone();
        self.readers.read(move |connection| runs::tree_total(connection, &top)).await
    }

    async fn read_tree_part(&self, root: &RunKey, after: u64, bytes: usize) -> Read<TreePart> {
        let root = root.clone();
        self.readers.read(move |connection| tree::read(connection, &root, after, bytes)).await
    }

    async fn label_runs(&self, tenant: &Tenant, runs: &[RunId], bytes: usize) -> Read<Vec<Label>> {
        let (tenant, runs) = (tenant.clone(), runs.to_vec());
        self.readers.read(move |connection| labels::read(connection, &tenant, &runs, bytes)).await
    }

    async fn list_retries(&self, tenant: &Tenant, of: &[RunId]) -> Read<Vec<(RunId, RunId)>> {
        let (tenant, of) = (tenant.clone(), of.to_vec());
        self.readers.read(move |connection| runs::retries(connection, &tenant, &of)).await
    }

    async fn sum_costs(&self, visible: &Visible, query: &CostQuery) -> Read<Vec<CostGroup>> {
        let (visible, query) = (visible.clone(), query.clone());
        self.readers.read(move |connection| costs::sum(connection, &visible, &query)).await
    }

    async fn sees_session(&self, visible: &Visible, session: SessionId) -> Read<bool> {
        let visible = visible.clone();
        self.readers.read(move |connection| sessions::is_visible(connection, &visible, session)).await
    }

    async fn list_batch(&self, visible: &Visible, batch: BatchId) -> Read<Option<Vec<RunView>>> {
        let visible = visible.clone();
        self.readers
            .read(move |connection| {
                if !batches::is_known(connection, visible.tenant(), batch)? {
                    return Ok(None);
                }
                let members = runs::of_batch(connection, &visible, batch)?;
                Ok(Some(members).filter(|views| views.iter().all(|view| visible.sees(&view.tenant, &view.user))))
            })
            .await
    }

    async fn find_definition(&self, tenant: &Tenant, digest: &Digest) -> Read<Option<Definition>> {
        let (tenant, digest) = (tenant.clone(), *digest);
        self.readers.read(move |connection| definitions::find(connection, &tenant, &digest)).await
    }

    async fn find_request(&self, key: &RequestKey) -> Read<Option<(Digest, Answered)>> {
        let key = key.clone();
        self.readers.read(move |connection| keys::find(connection, &key)).await
    }

    async fn list_unfinished(&self) -> Read<Unfinished> {
        self.readers
            .read(|connection| {
                let (runs, ready) = runs::unfinished(connection)?;
                Ok(Unfinished {
                    runs,
                    ready,
                    timers: waits::timers(connection)?,
                    waiting: waits::waiting(connection)?,
                    deadlines: runs::deadlines(connection)?,
                    parked: runs::count_parked(connection)?,
                })
            })
            .await
    }
}
