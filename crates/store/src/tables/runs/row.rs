//! A run's row: what made the table, its columns, and how they become a `RunView`.
//!
//! A new column is a step in `STEPS`, a line in `columns` and its place in `read`.

use drawloom_contract::{
    ids::{AgentId, BatchId, Digest, RunId},
    record::{BatchPlace, Parent, Retry, Seq},
    usage::Usage,
    view::{Patch, RunView},
};

use super::columns::{Column, columns};
use crate::{
    convert::Json,
    prepare::Run,
    sqlite::{Error, Result, Row, Value},
    tables::Step,
};

pub(crate) const STEPS: &[Step] = &[
    (
        1,
        "CREATE TABLE runs (
            tenant TEXT NOT NULL,
            run BLOB NOT NULL,
            session BLOB NOT NULL,
            agent_id TEXT NOT NULL,
            agent TEXT NOT NULL,
            definition BLOB NOT NULL,
            user TEXT NOT NULL,
            provider TEXT NOT NULL,
            model TEXT NOT NULL,
            parent_run BLOB,
            parent_agent_id TEXT,
            parent_call INTEGER,
            parent_index INTEGER,
            root BLOB NOT NULL,
            depth INTEGER NOT NULL,
            batch BLOB,
            batch_index INTEGER,
            parent_context TEXT,
            status TEXT NOT NULL,
            seq INTEGER NOT NULL,
            accepted_at INTEGER NOT NULL,
            started_at INTEGER,
            ended_at INTEGER,
            deadline INTEGER,
            queue_timeout_ms INTEGER,
            stop_reason TEXT,
            final_text TEXT,
            final_blob BLOB,
            error TEXT,
            input_tokens INTEGER NOT NULL,
            output_tokens INTEGER NOT NULL,
            cache_creation_input_tokens INTEGER NOT NULL,
            cache_read_input_tokens INTEGER NOT NULL,
            warnings TEXT,
            strikes INTEGER NOT NULL,
            PRIMARY KEY (tenant, run)
        ) WITHOUT ROWID;
        -- An agent id belongs to one live run at a time. They are random, so each entry in an index of all of them is a
        -- page to write: a run gets there once, when it ends, and the index of live ones stays small.
        CREATE UNIQUE INDEX runs_by_agent_id ON runs (tenant, agent_id) WHERE ended_at IS NULL;
        CREATE INDEX ended_runs_by_agent_id ON runs (tenant, agent_id) WHERE ended_at IS NOT NULL;
        CREATE UNIQUE INDEX runs_by_parent ON runs (tenant, parent_run, parent_call, parent_index)
            WHERE parent_run IS NOT NULL;
        CREATE INDEX runs_by_session ON runs (tenant, session);
        CREATE INDEX runs_by_batch ON runs (tenant, batch, batch_index) WHERE batch IS NOT NULL;
        CREATE INDEX runs_by_root ON runs (tenant, root) WHERE depth > 0;
        CREATE INDEX runs_unfinished ON runs (accepted_at) WHERE ended_at IS NULL;",
    ),
    // In billionths of the currency; NULL while no model of the run has a price.
    (2, "ALTER TABLE runs ADD COLUMN cost INTEGER;"),
    // For lists of one user. Without it such a list read every run of the tenant: 36 ms for 100,000. It adds a page to the
    // commit that accepts a run, so that the user of a server without users is left out.
    (5, "CREATE INDEX runs_by_user ON runs (tenant, user) WHERE user <> 'default';"),
    // `user` is a reserved word of other databases. The index follows its column.
    (6, "ALTER TABLE runs RENAME COLUMN user TO user_id;"),
    // How much of the cost is assumed; NULL when all of the usage is known. Runs of earlier formats count as known.
    (9, "ALTER TABLE runs ADD COLUMN assumed_cost INTEGER;"),
    // A retry has its parent's place a second time, and a run is retried once.
    (
        11,
        "ALTER TABLE runs ADD COLUMN retry_of BLOB;
        ALTER TABLE runs ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
        DROP INDEX runs_by_parent;
        CREATE UNIQUE INDEX runs_by_parent ON runs (tenant, parent_run, parent_call, parent_index, attempt)
            WHERE parent_run IS NOT NULL;
        CREATE UNIQUE INDEX runs_by_retry ON runs (tenant, retry_of) WHERE retry_of IS NOT NULL;",
    ),
    // The part of the output that was reasoning. Runs of earlier formats did not count it.
    (12, "ALTER TABLE runs ADD COLUMN reasoning_tokens INTEGER NOT NULL DEFAULT 0;"),
];

columns! {
    row(view, blob) change(run, patch)
    columns {
        tenant: &view.tenant;
        run: &view.run;
        session: &view.session;
        agent_id: &view.agent_id;
        agent: &view.agent;
        definition: &view.definition;
        user_id: &view.user;
        provider: &view.provider
            => set "coalesce($provider, provider)": patch.model.as_ref().map(|name| &name.provider);
        model: &view.model => set "coalesce($model, model)": patch.model.as_ref().map(|name| &name.model);
        parent_run: view.parent.as_ref().map(|parent| &parent.run);
        parent_agent_id: view.parent.as_ref().map(|parent| &parent.agent_id);
        parent_call: view.parent.as_ref().map(|parent| parent.call);
        parent_index: view.parent.as_ref().map(|parent| parent.index);
        root: &view.root;
        depth: view.depth;
        batch: view.batch.as_ref().map(|place| &place.batch);
        batch_index: view.batch.map(|place| place.index);
        retry_of: view.retry.as_ref().map(|retry| &retry.of);
        attempt: view.retry.map_or(0, |retry| retry.attempt);
        parent_context: view.parent_context.as_ref().map(Json);
        status: view.status => set "coalesce($status, status)": patch.status;
        seq: view.seq => set "$seq": patch.seq;
        accepted_at: view.accepted_at;
        started_at: view.started_at => set "coalesce(started_at, $started_at)": patch.started_at;
        ended_at: view.ended_at => end "$ended_at": patch.ended_at;
        deadline: view.deadline => set "coalesce($deadline, deadline)": patch.deadline;
        queue_timeout_ms: view.queue_timeout_ms;
        stop_reason: view.stop_reason => end "$stop_reason": patch.stop_reason;
        error: view.error.as_ref().map(Json) => end "$error": patch.error.as_ref().map(Json);
        input_tokens: view.usage.input_tokens
            => set "input_tokens + min($input_tokens, 9223372036854775807 - input_tokens)": patch.usage.input_tokens;
        output_tokens: view.usage.output_tokens
            => set "output_tokens + min($output_tokens, 9223372036854775807 - output_tokens)":
                patch.usage.output_tokens;
        cache_creation_input_tokens: view.usage.cache_creation_input_tokens
            => set "cache_creation_input_tokens + min($cache_creation_input_tokens, \
                9223372036854775807 - cache_creation_input_tokens)": patch.usage.cache_creation_input_tokens;
        cache_read_input_tokens: view.usage.cache_read_input_tokens
            => set "cache_read_input_tokens + min($cache_read_input_tokens, \
                9223372036854775807 - cache_read_input_tokens)": patch.usage.cache_read_input_tokens;
        reasoning_tokens: view.usage.reasoning_tokens
            => set "reasoning_tokens + min($reasoning_tokens, 9223372036854775807 - reasoning_tokens)":
                patch.usage.reasoning_tokens;
        warnings: Some(&view.warnings).filter(|warnings| !warnings.is_empty()).map(Json)
            => end "$warnings": patch.warnings.as_ref().filter(|warnings| !warnings.is_empty()).map(Json);
        strikes: view.strikes => set "coalesce($strikes, strikes)": patch.strikes;
        cost: view.cost
            => set "CASE WHEN $cost IS NULL THEN cost \
                ELSE coalesce(cost, 0) + min($cost, 9223372036854775807 - coalesce(cost, 0)) END": patch.cost;
        assumed_cost: view.assumed
            => set "CASE WHEN $assumed_cost IS NULL THEN assumed_cost ELSE coalesce(assumed_cost, 0) + \
                min($assumed_cost, 9223372036854775807 - coalesce(assumed_cost, 0)) END": patch.assumed;
    }
    // One of the two holds the text; a new text replaces both.
    texts {
        final_text: view.final_text.as_ref()
            => set "CASE WHEN $final_text IS NULL AND $final_blob IS NULL THEN final_text ELSE $final_text END":
                patch.final_text.as_ref();
        final_blob: blob
            => set "CASE WHEN $final_text IS NULL AND $final_blob IS NULL THEN final_blob ELSE $final_blob END":
                run.final_blob.as_ref();
    }
    read {
        |text_of_blob: Option<String>| {
            Ok(RunView {
                tenant,
                run,
                session,
                agent_id,
                agent,
                definition,
                user: user_id,
                provider,
                model,
                parent: parent(parent_run, parent_agent_id, parent_call, parent_index)?,
                root,
                depth,
                batch: place(batch, batch_index)?,
                retry: Option::<RunId>::map(retry_of, |of| Retry { of, attempt }),
                parent_context: json(parent_context),
                status,
                seq,
                accepted_at,
                started_at,
                ended_at,
                deadline,
                queue_timeout_ms,
                stop_reason,
                final_text: text(final_text, final_blob, text_of_blob)?,
                error: json(error),
                usage: Usage {
                    input_tokens,
                    output_tokens,
                    cache_creation_input_tokens,
                    cache_read_input_tokens,
                    reasoning_tokens,
                },
                cost,
                assumed: assumed_cost,
                warnings: json(warnings).unwrap_or_default(),
                strikes,
            })
        }
    }
}

fn parent(
    run: Option<RunId>,
    agent_id: Option<AgentId>,
    call: Option<Seq>,
    index: Option<u32>,
) -> Result<Option<Parent>> {
    match (run, agent_id, call, index) {
        (Some(run), Some(agent_id), Some(call), Some(index)) => Ok(Some(Parent { run, agent_id, call, index })),
        (None, None, None, None) => Ok(None),
        _ => Err(Error::Value("a run has incomplete parent columns".into())),
    }
}

fn place(batch: Option<BatchId>, index: Option<u32>) -> Result<Option<BatchPlace>> {
    match (batch, index) {
        (Some(batch), Some(index)) => Ok(Some(BatchPlace { batch, index })),
        (None, None) => Ok(None),
        _ => Err(Error::Value("a run has incomplete batch columns".into())),
    }
}

fn text(inline: Option<String>, blob: Option<Digest>, text_of_blob: Option<String>) -> Result<Option<String>> {
    match (blob, text_of_blob) {
        (None, _) => Ok(inline),
        (Some(_), Some(text)) => Ok(Some(text)),
        (Some(digest), None) => Err(Error::Value(format!("blob {digest} is missing"))),
    }
}

fn json<T>(value: Option<Json<T>>) -> Option<T> {
    value.map(|Json(value)| value)
}
