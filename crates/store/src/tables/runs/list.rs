//! Lists of runs by a filter.

use drawloom_contract::{caller::Visible, ids::UserId, journal::RunFilter, view::RunView};

use super::{
    columns::select_runs_without_texts,
    row::{names, read},
};
use crate::sqlite::{Connection, Result, Value};

/// The runs that a filter lets through, newest first, without their texts.
pub(crate) fn list(connection: &Connection, visible: &Visible, filter: &RunFilter) -> Result<Vec<RunView>> {
    let (text, values) = query(visible, filter);
    connection.prepare(&text)?.all(&values, read)
}

fn query<'a>(visible: &'a Visible, filter: &'a RunFilter) -> (String, Vec<Value<'a>>) {
    let users = visible.owner().into_iter().chain(&filter.user);
    // SQLite would rather go through all runs in order than sort a few, so that it is told where to look.
    let place = match filter {
        RunFilter { batch: Some(_), .. } | RunFilter { batches: Some(_), .. } => {
            "INDEXED BY runs_by_batch WHERE tenant = $1"
        }
        RunFilter { parent: Some(_), .. } => "INDEXED BY runs_by_parent WHERE tenant = $1",
        RunFilter { session: Some(_), .. } => "INDEXED BY runs_by_session WHERE tenant = $1",
        _ if users.clone().any(|user| *user != UserId::default_user()) => {
            "INDEXED BY runs_by_user WHERE tenant = $1 AND user_id <> 'default'"
        }
        // Of many runs few are unfinished.
        RunFilter { status, .. } if !status.is_empty() && !status.iter().any(|status| status.is_terminal()) => {
            "INDEXED BY runs_unfinished WHERE ended_at IS NULL AND tenant = $1"
        }
        _ => "WHERE tenant = $1",
    };
    let mut text = String::from(select_runs_without_texts!("")) + place;
    let mut values = vec![Value::from(visible.tenant())];
    let mut only = |condition: &str, value: Value<'a>| {
        values.push(value);
        text.push_str(&format!(" AND {condition} ${}", values.len()));
    };
    for user in users {
        only("user_id =", user.into());
    }
    if let Some(agent) = &filter.agent {
        only("agent =", agent.into());
    }
    if let Some(session) = &filter.session {
        only("session =", session.into());
    }
    if let Some(batch) = &filter.batch {
        only("batch =", batch.into());
    }
    if let Some(parent) = &filter.parent {
        only("parent_run =", parent.into());
    }
    if let Some((first, last)) = &filter.batches {
        only("batch >=", first.into());
        only("batch <=", last.into());
    }
    if let Some((first, last)) = &filter.ids {
        only("run >=", first.into());
        only("run <=", last.into());
    }
    if let Some(before) = &filter.before {
        only("run <", before.into());
    }
    if filter.roots {
        text.push_str(" AND depth = 0");
    }
    let mut states = Vec::new();
    for status in &filter.status {
        values.push((*status).into());
        states.push(format!("${}", values.len()));
    }
    if !states.is_empty() {
        text.push_str(&format!(" AND status IN ({})", states.join(", ")));
    }
    values.push(filter.limit.into());
    text.push_str(&format!(" ORDER BY run DESC LIMIT ${}", values.len()));
    (text, values)
}

#[cfg(test)]
mod tests {
    use drawloom_contract::{
        caller::{Caller, Proof, Scope},
        ids::{BatchId, RunId, SessionId, Tenant},
        record::Status,
    };

    use super::*;
    use crate::sqlite::migrate::migrate;

    fn plan(visible: &Visible, filter: &RunFilter) -> Vec<String> {
        let connection = Connection::in_memory();
        migrate(&connection, 0).expect("an empty file");
        let (text, values) = query(visible, filter);
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).expect("a valid text");
        plan.all(&values, |row| row.get(3)).expect("a plan")
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
            assert_eq!(plan, ["SEARCH runs USING INDEX runs_by_user (tenant=? AND user_id=?)"]);
        }
        let before = RunFilter { before: Some(RunId::from_bytes([9; 16])), ..one.clone() };
        assert_eq!(plan(&bound, &before), ["SEARCH runs USING INDEX runs_by_user (tenant=? AND user_id=? AND run<?)"]);
        for (filter, index) in [
            (RunFilter { session: Some(SessionId::from_bytes([9; 16])), ..one.clone() }, "runs_by_session"),
            (RunFilter { batch: Some(BatchId::from_bytes([9; 16])), ..one.clone() }, "runs_by_batch"),
            (RunFilter { parent: Some(RunId::from_bytes([9; 16])), ..one.clone() }, "runs_by_parent"),
        ] {
            let plan = plan(&bound, &filter);
            assert!(plan[0].starts_with(&format!("SEARCH runs USING INDEX {index} (tenant=? AND ")), "{plan:?}");
        }
        assert_eq!(plan(&everyone, &one), ["SEARCH runs USING PRIMARY KEY (tenant=?)"]);
        let ids = RunFilter { ids: Some((RunId::from_bytes([1; 16]), RunId::from_bytes([2; 16]))), ..one.clone() };
        assert_eq!(plan(&everyone, &ids), ["SEARCH runs USING PRIMARY KEY (tenant=? AND run>? AND run<?)"]);
        let batches =
            RunFilter { batches: Some((BatchId::from_bytes([1; 16]), BatchId::from_bytes([2; 16]))), ..one.clone() };
        let plan_of_batches = plan(&everyone, &batches);
        let range = "SEARCH runs USING INDEX runs_by_batch (tenant=? AND batch>? AND batch<?)";
        assert_eq!(plan_of_batches[0], range);
        let active = RunFilter { status: vec![Status::Queued, Status::Running], ..one };
        let plan = plan(&everyone, &active);
        assert!(plan[0].contains("USING INDEX runs_unfinished"), "{plan:?}");
    }
}
