//! The writer's statements, prepared once.

use rusqlite::{Connection, Result};

use crate::{rows::FIND_KEY, sql::Bound};

/// An update of a run's row that is also the check of its sequence. `$1` to `$3` say which run and where it must be.
macro_rules! advance {
    ($more:literal) => {
        concat!(
            "UPDATE runs SET seq = $4, status = coalesce($5, status), started_at = coalesce(started_at, $6), \
             deadline = coalesce($7, deadline), \
             final_text = CASE WHEN $8 IS NULL AND $9 IS NULL THEN final_text ELSE $8 END, \
             final_blob = CASE WHEN $8 IS NULL AND $9 IS NULL THEN final_blob ELSE $9 END, \
             input_tokens = input_tokens + min($10, 9223372036854775807 - input_tokens), \
             output_tokens = output_tokens + min($11, 9223372036854775807 - output_tokens), \
             cache_creation_input_tokens = cache_creation_input_tokens \
             + min($12, 9223372036854775807 - cache_creation_input_tokens), \
             cache_read_input_tokens = cache_read_input_tokens \
             + min($13, 9223372036854775807 - cache_read_input_tokens), \
             strikes = coalesce($14, strikes), provider = coalesce($15, provider), model = coalesce($16, model), \
             cost = CASE WHEN $17 IS NULL THEN cost \
             ELSE coalesce(cost, 0) + min($17, 9223372036854775807 - coalesce(cost, 0)) END",
            $more,
            " WHERE tenant = $1 AND run = $2 AND seq = $3 AND ended_at IS NULL"
        )
    };
}

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident: $text:expr;)*) => {
        /// Every statement that the writer uses.
        pub(super) struct Statements<'c> {
            $($(#[$doc])* pub(super) $name: Bound<'c>,)*
        }

        impl<'c> Statements<'c> {
            pub(super) fn prepare(connection: &'c Connection) -> Result<Self> {
                Ok(Self { $($name: Bound::new(connection, $text)?,)* })
            }
        }

        /// Their names and texts, for the test below.
        #[cfg(test)]
        const ALL: &[(&str, &str)] = &[$((stringify!($name), $text),)*];
    };
}

statements! {
    begin: "BEGIN IMMEDIATE";
    commit: "COMMIT";
    rollback: "ROLLBACK";
    savepoint: "SAVEPOINT entry";
    release: "RELEASE entry";
    undo: "ROLLBACK TO entry";
    /// Who owns the file.
    owner: "SELECT max(epoch) FROM boots";
    /// As much as an ordinary group writes, under no tenant's name, to see whether there is room again.
    insert_ballast: "INSERT OR REPLACE INTO blobs (tenant, digest, bytes) VALUES ('', x'', zeroblob(65536))";
    delete_ballast: "DELETE FROM blobs WHERE tenant = ''";
    /// How long the write-ahead log is, in frames, and how many of them are in the file.
    log_size: "PRAGMA wal_checkpoint(NOOP)";
    checkpoint: "PRAGMA wal_checkpoint(PASSIVE)";

    insert_record: "INSERT INTO journal (tenant, run, seq, at, version, form, body) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    insert_blob: "INSERT OR IGNORE INTO blobs (tenant, digest, bytes) VALUES ($1, $2, $3)";
    insert_blob_use: "INSERT OR IGNORE INTO blob_uses (tenant, run, digest) VALUES ($1, $2, $3)";
    insert_definition: "INSERT OR IGNORE INTO definitions (tenant, digest, body) VALUES ($1, $2, $3)";

    insert_run: "INSERT INTO runs (tenant, run, session, agent_id, agent, definition, user, provider, model, parent_run, \
        parent_agent_id, parent_call, parent_index, root, depth, batch, batch_index, parent_context, status, seq, \
        accepted_at, started_at, ended_at, deadline, queue_timeout_ms, stop_reason, final_text, final_blob, error, \
        input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens, warnings, strikes, cost) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, \
        $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36)";
    advance_run: advance!("");
    /// Apart from `advance_run`, so that only the end of a run touches the indexes of unfinished runs.
    finish_run: advance!(", ended_at = $18, stop_reason = $19, error = $20, warnings = $21");
    /// Where a run is, and whether it has ended.
    find_seq: "SELECT seq, ended_at IS NOT NULL FROM runs WHERE tenant = $1 AND run = $2";
    find_parent: "SELECT parent_run, parent_call FROM runs WHERE tenant = $1 AND run = $2";
    find_child: "SELECT 1 FROM runs WHERE tenant = $1 AND parent_run = $2 AND parent_call = $3 AND parent_index = $4";
    find_live_agent_id: "SELECT run FROM runs WHERE tenant = $1 AND agent_id = $2 AND ended_at IS NULL";

    insert_session: "INSERT OR IGNORE INTO sessions (tenant, session, agent, user, created_at) \
        VALUES ($1, $2, $3, $4, $5)";
    find_session: "SELECT 1 FROM sessions WHERE tenant = $1 AND session = $2";
    /// Without being told, SQLite would look at all runs of the tenant.
    find_busy: "SELECT run FROM runs INDEXED BY runs_by_session WHERE tenant = $1 AND session = $2 AND ended_at IS NULL AND run <> $3 LIMIT 1";

    insert_key: "INSERT INTO keys (tenant, subject, operation, key, body, handle_kind, handle) \
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    find_key: FIND_KEY;
    insert_batch: "INSERT INTO batches (tenant, batch, user, size) VALUES ($1, $2, $3, $4)";

    put_value: "INSERT OR REPLACE INTO kept (tenant, space, key, value, expires_at) VALUES ($1, $2, $3, $4, $5)";
    remove_value: "DELETE FROM kept WHERE tenant = $1 AND space = $2 AND key = $3";
    /// At most as many as a commit can bear.
    remove_old_values: "DELETE FROM kept WHERE (tenant, space, key) IN \
        (SELECT tenant, space, key FROM kept WHERE space = $1 AND expires_at <= $2 LIMIT 64)";

    /// A wait for children begins with those that have not ended yet.
    wait_for_children: "INSERT OR REPLACE INTO waits (tenant, run, call, kind, remaining, due) \
        SELECT $1, $2, $3, 'children', max(0, $4 - count(*)), NULL FROM runs \
        INDEXED BY runs_by_parent WHERE tenant = $1 AND parent_run = $2 AND parent_call = $3 AND ended_at IS NOT NULL";
    wait_until: "INSERT OR REPLACE INTO waits (tenant, run, call, kind, remaining, due) \
        VALUES ($1, $2, $3, 'until', NULL, $4)";
    end_wait: "DELETE FROM waits WHERE tenant = $1 AND run = $2 AND call = $3";
    end_waits: "DELETE FROM waits WHERE tenant = $1 AND run = $2";
    count_down: "UPDATE waits SET remaining = remaining - 1 \
        WHERE tenant = $1 AND run = $2 AND call = $3 AND kind = 'children' AND remaining > 0";
    /// A parked run with nothing left to wait for. Only the engine's clock can tell that a time has come.
    find_woken: "SELECT 1 FROM runs WHERE tenant = $1 AND run = $2 AND status = 'waiting' AND NOT EXISTS \
        (SELECT 1 FROM waits WHERE tenant = $1 AND run = $2 AND (kind = 'until' OR remaining > 0))";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The writer's time is everybody's: no statement of it may look at more rows than it is about.
    #[test]
    fn no_statement_looks_at_all_runs_of_a_tenant() {
        let connection = Connection::open_in_memory().expect("memory can be opened");
        crate::schema::migrate(&connection, 0).expect("an empty file");
        for (name, text) in ALL.iter().filter(|(name, _)| *name != "delete_ballast") {
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).expect("a valid text");
            let nothing = vec![rusqlite::types::Null; plan.parameter_count()];
            let steps = plan.query_map(rusqlite::params_from_iter(nothing), |row| row.get::<_, String>(3));
            for step in steps.expect("a plan") {
                let step = step.expect("a step");
                let wide =
                    step.ends_with("(tenant=?)") || step.starts_with("SCAN runs") || step.starts_with("SCAN journal");
                assert!(!wide, "{name}: {step}");
            }
        }
    }
}
