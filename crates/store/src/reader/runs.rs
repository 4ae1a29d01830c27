//! What can be read of runs.

use async_trait::async_trait;
use drawloom_contract::{
    caller::Visible,
    definition::Definition,
    ids::{AgentId, BatchId, Digest, RunId, RunKey, SessionId, Tenant, UserId},
    journal::{Due, RequestKey, RunFilter, RunReader, StoreError, Unfinished},
    money::{Cost, Spent},
    record::{Record, Seq, Status},
    time::Timestamp,
    view::RunView,
};
use rusqlite::{Connection, Result, Row, ToSql, types::Type};

use crate::{
    blobs::{Form, put_back, referenced_bytes},
    rows::{FIND_KEY, read_key, read_run, select_runs, select_runs_without_texts, wrong},
    sql::{Bound, integer, natural},
    store::Store,
};

type Read<T> = std::result::Result<T, StoreError>;

#[async_trait]
impl RunReader for Store {
    async fn find_run(&self, key: &RunKey) -> Read<Option<RunView>> {
        let key = key.clone();
        self.readers
            .read(move |connection| {
                let values: [&dyn ToSql; 2] = [&key.tenant.as_str(), key.run.as_bytes()];
                Bound::new(connection, select_runs!("WHERE tenant = $1 AND run = $2"))?.first(&values, read_run)
            })
            .await
    }

    async fn find_run_without_text(&self, key: &RunKey) -> Read<Option<RunView>> {
        let key = key.clone();
        self.readers
            .read(move |connection| {
                let values: [&dyn ToSql; 2] = [&key.tenant.as_str(), key.run.as_bytes()];
                let text = select_runs_without_texts!("WHERE tenant = $1 AND run = $2");
                Bound::new(connection, text)?.first(&values, read_run)
            })
            .await
    }

    async fn find_by_agent_id(&self, visible: &Visible, agent_id: &AgentId) -> Read<Option<RunView>> {
        const LIVE: &str =
            select_runs!("WHERE tenant = $1 AND agent_id = $2 AND ended_at IS NULL AND ($3 IS NULL OR user = $3)");
        const NEWEST: &str = select_runs!(
            "WHERE tenant = $1 AND agent_id = $2 AND ended_at IS NOT NULL AND ($3 IS NULL OR user = $3) \
             ORDER BY run DESC LIMIT 1"
        );
        let (visible, agent_id) = (visible.clone(), agent_id.clone());
        self.readers
            .read(move |connection| {
                let owner = visible.owner().map(UserId::as_str);
                let values: [&dyn ToSql; 3] = [&visible.tenant().as_str(), &agent_id.as_str(), &owner];
                match Bound::new(connection, LIVE)?.first(&values, read_run)? {
                    Some(live) => Ok(Some(live)),
                    None => Bound::new(connection, NEWEST)?.first(&values, read_run),
                }
            })
            .await
    }

    async fn list_runs(&self, visible: &Visible, filter: &RunFilter) -> Read<Vec<RunView>> {
        let (visible, filter) = (visible.clone(), filter.clone());
        self.readers.read(move |connection| list_runs(connection, &visible, &filter)).await
    }

    async fn read_journal(&self, key: &RunKey, after: Seq, limit: usize) -> Read<Vec<Record>> {
        let key = key.clone();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.readers.read(move |connection| read_journal(connection, &key, after, limit, usize::MAX)).await
    }

    async fn read_journal_part(&self, key: &RunKey, after: Seq, bytes: usize) -> Read<Vec<Record>> {
        let key = key.clone();
        self.readers.read(move |connection| read_journal(connection, &key, after, i64::MAX, bytes)).await
    }

    async fn list_children(&self, parent: &RunKey, call: Seq) -> Read<Vec<RunView>> {
        const CHILDREN: &str =
            select_runs!("WHERE tenant = $1 AND parent_run = $2 AND parent_call = $3 ORDER BY parent_index");
        let parent = parent.clone();
        self.readers
            .read(move |connection| {
                let values: [&dyn ToSql; 3] = [&parent.tenant.as_str(), parent.run.as_bytes(), &integer(call)];
                Bound::new(connection, CHILDREN)?.all(&values, read_run)
            })
            .await
    }

    async fn list_live_children(&self, parent: &RunKey) -> Read<Vec<RunView>> {
        const LIVE: &str = select_runs!(
            "INDEXED BY runs_by_parent WHERE tenant = $1 AND parent_run = $2 AND ended_at IS NULL \
             ORDER BY parent_call, parent_index"
        );
        let parent = parent.clone();
        self.readers
            .read(move |connection| {
                let values: [&dyn ToSql; 2] = [&parent.tenant.as_str(), parent.run.as_bytes()];
                Bound::new(connection, LIVE)?.all(&values, read_run)
            })
            .await
    }

    async fn tree_size(&self, root: &RunKey) -> Read<u64> {
        const BELOW: &str =
            "SELECT count(*) FROM runs INDEXED BY runs_by_root WHERE tenant = $1 AND root = $2 AND depth > 0";
        let root = root.clone();
        self.readers
            .read(move |connection| {
                let values: [&dyn ToSql; 2] = [&root.tenant.as_str(), root.run.as_bytes()];
                Ok(1 + natural(Bound::new(connection, BELOW)?.first(&values, |row| row.get(0))?.unwrap_or_default()))
            })
            .await
    }

    async fn tree_spent(&self, root: &RunKey) -> Read<Spent> {
        // The root itself is not in the index of trees, so it is asked for by its key.
        const SPENT: &str = "SELECT input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens, \
            coalesce(cost, 0) FROM runs WHERE tenant = $1 AND run = $2 UNION ALL \
            SELECT input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens, \
            coalesce(cost, 0) FROM runs INDEXED BY runs_by_root WHERE tenant = $1 AND root = $2 AND depth > 0";
        let root = root.clone();
        self.readers
            .read(move |connection| {
                let values: [&dyn ToSql; 2] = [&root.tenant.as_str(), root.run.as_bytes()];
                let spent = Bound::new(connection, SPENT)?.all(&values, |row| {
                    let mut tokens = 0u64;
                    for column in 0..4 {
                        tokens = tokens.saturating_add(natural(row.get(column)?));
                    }
                    Ok(Spent { tokens, cost: Cost(natural(row.get(4)?)) })
                })?;
                Ok(spent.into_iter().fold(Spent::default(), |sum, more| sum + more))
            })
            .await
    }

    async fn sees_session(&self, visible: &Visible, session: SessionId) -> Read<bool> {
        const SEEN: &str = "SELECT 1 FROM sessions WHERE tenant = $1 AND session = $2 AND ($3 IS NULL OR user = $3) \
            AND NOT EXISTS (SELECT 1 FROM runs INDEXED BY runs_by_session \
            WHERE tenant = $1 AND session = $2 AND user <> $3)";
        let visible = visible.clone();
        self.readers
            .read(move |connection| {
                let owner = visible.owner().map(UserId::as_str);
                let values: [&dyn ToSql; 3] = [&visible.tenant().as_str(), session.as_bytes(), &owner];
                Ok(Bound::new(connection, SEEN)?.first(&values, |_| Ok(()))?.is_some())
            })
            .await
    }

    async fn list_batch(&self, visible: &Visible, batch: BatchId) -> Read<Option<Vec<RunView>>> {
        const MEMBERS: &str = select_runs!("WHERE tenant = $1 AND batch = $2 ORDER BY batch_index");
        let visible = visible.clone();
        self.readers
            .read(move |connection| {
                let values: [&dyn ToSql; 2] = [&visible.tenant().as_str(), batch.as_bytes()];
                let known = Bound::new(connection, "SELECT 1 FROM batches WHERE tenant = $1 AND batch = $2")?
                    .first(&values, |_| Ok(()))?;
                let members = known.map(|()| Bound::new(connection, MEMBERS)?.all(&values, read_run)).transpose()?;
                Ok(members.filter(|views| views.iter().all(|view| visible.sees(&view.tenant, &view.user))))
            })
            .await
    }

    async fn find_definition(&self, tenant: &Tenant, digest: &Digest) -> Read<Option<Definition>> {
        let (tenant, digest) = (tenant.clone(), *digest);
        self.readers
            .read(move |connection| {
                let values: [&dyn ToSql; 2] = [&tenant.as_str(), digest.as_bytes()];
                Bound::new(connection, "SELECT body FROM definitions WHERE tenant = $1 AND digest = $2")?
                    .first(&values, |row| {
                        serde_json::from_str(row.get_ref(0)?.as_str()?).map_err(|error| wrong(0, Type::Text, error))
                    })
            })
            .await
    }

    async fn find_request(&self, key: &RequestKey) -> Read<Option<RequestKey>> {
        let key = key.clone();
        self.readers
            .read(move |connection| {
                let values: [&dyn ToSql; 4] =
                    [&key.tenant.as_str(), &key.subject.as_str(), &key.operation, key.key.as_bytes()];
                let found = Bound::new(connection, FIND_KEY)?.first(&values, read_key)?;
                Ok(found.map(|(body, handle)| RequestKey { body, handle, ..key }))
            })
            .await
    }

    async fn list_unfinished(&self) -> Read<Unfinished> {
        self.readers.read(list_unfinished).await
    }
}

fn list_runs(connection: &Connection, visible: &Visible, filter: &RunFilter) -> Result<Vec<RunView>> {
    let (text, values) = list(visible, filter);
    let values: Vec<&dyn ToSql> = values.iter().map(|value| &**value).collect();
    Bound::new(connection, &text)?.all(&values, read_run)
}

/// The query of a list and its values.
fn list<'a>(visible: &'a Visible, filter: &'a RunFilter) -> (String, Vec<Box<dyn ToSql + 'a>>) {
    let users = visible.owner().into_iter().chain(&filter.user);
    // SQLite would rather go through all runs in order than sort a few, so that it is told where to look.
    let place = match filter {
        RunFilter { batch: Some(_), .. } => "INDEXED BY runs_by_batch WHERE tenant = $1",
        RunFilter { parent: Some(_), .. } => "INDEXED BY runs_by_parent WHERE tenant = $1",
        RunFilter { session: Some(_), .. } => "INDEXED BY runs_by_session WHERE tenant = $1",
        _ if users.clone().any(|user| *user != UserId::default_user()) => {
            "INDEXED BY runs_by_user WHERE tenant = $1 AND user <> 'default'"
        }
        _ => "WHERE tenant = $1",
    };
    let mut text = String::from(select_runs_without_texts!("")) + place;
    let mut values: Vec<Box<dyn ToSql + 'a>> = vec![Box::new(visible.tenant().as_str())];
    let mut only = |condition: &str, value: Box<dyn ToSql + 'a>| {
        values.push(value);
        text.push_str(&format!(" AND {condition} ${}", values.len()));
    };
    for user in users {
        only("user =", Box::new(user.as_str()));
    }
    if let Some(agent) = &filter.agent {
        only("agent =", Box::new(agent.as_str()));
    }
    if let Some(session) = filter.session {
        only("session =", Box::new(*session.as_bytes()));
    }
    if let Some(batch) = filter.batch {
        only("batch =", Box::new(*batch.as_bytes()));
    }
    if let Some(parent) = filter.parent {
        only("parent_run =", Box::new(*parent.as_bytes()));
    }
    if let Some(before) = filter.before {
        only("run <", Box::new(*before.as_bytes()));
    }
    let mut states = Vec::new();
    for status in &filter.status {
        values.push(Box::new(status.as_str()));
        states.push(format!("${}", values.len()));
    }
    if !states.is_empty() {
        text.push_str(&format!(" AND status IN ({})", states.join(", ")));
    }
    values.push(Box::new(filter.limit));
    text.push_str(&format!(" ORDER BY run DESC LIMIT ${}", values.len()));
    (text, values)
}

/// Records after `after`: at most `limit`, and at most `bytes` of text, or one.
fn read_journal(
    connection: &Connection,
    key: &RunKey,
    after: Seq,
    limit: i64,
    mut bytes: usize,
) -> Result<Vec<Record>> {
    let tenant = key.tenant.as_str();
    let mut length = Bound::new(connection, "SELECT length(bytes) FROM blobs WHERE tenant = $1 AND digest = $2")?;
    let mut blob = Bound::new(connection, "SELECT bytes FROM blobs WHERE tenant = $1 AND digest = $2")?;
    let mut rows = Bound::new(
        connection,
        "SELECT seq, at, form, body FROM journal WHERE tenant = $1 AND run = $2 AND seq > $3 ORDER BY seq LIMIT $4",
    )?;
    let mut is_first = true;
    rows.while_some(&[&tenant, key.run.as_bytes(), &integer(after), &limit], |row| {
        let (form, body) = form_and_body(row)?;
        let mut text = body.len();
        match form {
            Form::Inline => {}
            Form::References => text += referenced_bytes(body),
            Form::Blob => {
                let digest: Digest = body.parse().map_err(|_| damaged())?;
                let found = length.first(&[&tenant, digest.as_bytes()], |row| row.get::<_, i64>(0))?;
                text += usize::try_from(natural(found.unwrap_or_default())).unwrap_or(usize::MAX);
            }
        }
        if !std::mem::take(&mut is_first) && text > bytes {
            return Ok(None);
        }
        bytes = bytes.saturating_sub(text);
        let load = |digest: Digest| {
            let text = blob.first(&[&tenant, digest.as_bytes()], |row| row.get::<_, Vec<u8>>(0))?;
            let text = text.ok_or_else(|| wrong(3, Type::Text, format!("blob {digest} is missing")))?;
            String::from_utf8(text).map_err(|error| wrong(3, Type::Blob, error))
        };
        read_record(row, form, load).map(Some)
    })
}

fn form_and_body<'a>(row: &'a Row<'_>) -> Result<(Form, &'a str)> {
    let form: i64 = row.get(2)?;
    let form = Form::of(form).ok_or_else(|| wrong(2, Type::Integer, format!("{form} is no form of a body")))?;
    Ok((form, row.get_ref(3)?.as_str()?))
}

fn damaged() -> rusqlite::Error {
    wrong(3, Type::Text, "a reference to a blob is damaged")
}

fn read_record(row: &Row<'_>, form: Form, load: impl FnMut(Digest) -> Result<String>) -> Result<Record> {
    let body = match form {
        // The usual case is decoded where it lies.
        Form::Inline => serde_json::from_str(row.get_ref(3)?.as_str()?),
        Form::References | Form::Blob => serde_json::from_str(&put_back(row.get(3)?, form, load, damaged)?),
    };
    let body = body.map_err(|error| wrong(3, Type::Text, error))?;
    Ok(Record { seq: natural(row.get(0)?), at: Timestamp::from_millis(row.get(1)?), body })
}

fn list_unfinished(connection: &Connection) -> Result<Unfinished> {
    const RUNS: &str = select_runs_without_texts!(
        "WHERE ended_at IS NULL AND (status <> 'waiting' OR NOT EXISTS (SELECT 1 FROM waits \
         WHERE waits.tenant = runs.tenant AND waits.run = runs.run AND (kind = 'until' OR remaining > 0))) \
         ORDER BY accepted_at, run"
    );
    const TIMERS: &str = "SELECT waits.tenant, waits.run, waits.due, coalesce(journal.at, waits.due) FROM runs \
        JOIN waits ON waits.tenant = runs.tenant AND waits.run = runs.run \
        LEFT JOIN journal ON journal.tenant = waits.tenant AND journal.run = waits.run AND journal.seq = waits.call \
        WHERE runs.ended_at IS NULL AND runs.status = 'waiting' AND waits.kind = 'until' ORDER BY waits.due";
    const DEADLINES: &str = "SELECT tenant, run, deadline, coalesce(started_at, accepted_at) FROM runs \
        WHERE ended_at IS NULL AND status = 'waiting' AND deadline IS NOT NULL ORDER BY deadline";
    const PARKED: &str = "SELECT count(*) FROM runs WHERE ended_at IS NULL AND status = 'waiting'";
    let (ready, runs) = Bound::new(connection, RUNS)?
        .all(&[], read_run)?
        .into_iter()
        .partition(|view: &RunView| view.status == Status::Waiting);
    Ok(Unfinished {
        runs,
        ready,
        timers: Bound::new(connection, TIMERS)?.all(&[], read_due)?,
        deadlines: Bound::new(connection, DEADLINES)?.all(&[], read_due)?,
        parked: natural(Bound::new(connection, PARKED)?.first(&[], |row| row.get(0))?.unwrap_or_default()),
    })
}

fn read_due(row: &Row<'_>) -> Result<Due> {
    let tenant = row.get_ref(0)?.as_str()?.parse().map_err(|error| wrong(0, Type::Text, error))?;
    let run = RunKey { tenant, run: RunId::from_bytes(row.get(1)?) };
    Ok(Due { run, due: Timestamp::from_millis(row.get(2)?), since: Timestamp::from_millis(row.get(3)?) })
}

#[cfg(test)]
mod tests {
    use drawloom_contract::caller::{Caller, Proof, Scope};

    use super::*;

    fn plan(visible: &Visible, filter: &RunFilter) -> Vec<String> {
        let connection = Connection::open_in_memory().expect("memory can be opened");
        crate::schema::migrate(&connection, 0).expect("an empty file");
        let (text, values) = list(visible, filter);
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).expect("a valid text");
        let values: Vec<&dyn ToSql> = values.iter().map(|value| &**value).collect();
        let steps = plan.query_map(&values[..], |row| row.get(3)).expect("a plan");
        steps.collect::<Result<_>>().expect("steps")
    }

    /// However many runs there are, a narrow list looks at no others.
    #[test]
    fn a_list_of_one_user_session_batch_or_parent_looks_at_no_other_runs() {
        let ada: UserId = "ada".parse().expect("a name");
        let scopes = vec![Scope::RunsRead];
        let bound = Caller { subject: ada.clone(), scopes, ..Caller::open(Proof::Principal) }.visible();
        assert!(bound.owner().is_some());
        let everyone = Visible::whole(Tenant::default_tenant());
        let one = RunFilter { limit: 50, ..RunFilter::default() };
        let of_ada = RunFilter { user: Some(ada), ..one.clone() };
        for (visible, filter) in [(&bound, &one), (&everyone, &of_ada), (&bound, &of_ada)] {
            let plan = plan(visible, filter);
            assert_eq!(plan, ["SEARCH runs USING INDEX runs_by_user (tenant=? AND user=?)"]);
        }
        let before = RunFilter { before: Some(RunId::from_bytes([9; 16])), ..one.clone() };
        assert_eq!(plan(&bound, &before), ["SEARCH runs USING INDEX runs_by_user (tenant=? AND user=? AND run<?)"]);
        for (filter, index) in [
            (RunFilter { session: Some(SessionId::from_bytes([9; 16])), ..one.clone() }, "runs_by_session"),
            (RunFilter { batch: Some(BatchId::from_bytes([9; 16])), ..one.clone() }, "runs_by_batch"),
            (RunFilter { parent: Some(RunId::from_bytes([9; 16])), ..one.clone() }, "runs_by_parent"),
        ] {
            let plan = plan(&bound, &filter);
            assert!(plan[0].starts_with(&format!("SEARCH runs USING INDEX {index} (tenant=? AND ")), "{plan:?}");
        }
        assert_eq!(plan(&everyone, &one), ["SEARCH runs USING PRIMARY KEY (tenant=?)"]);
    }
}
