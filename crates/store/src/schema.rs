//! The tables, as a list of steps from one format to the next.

use rusqlite::{Connection, Result};

/// Each step leads from the format that is its index to the next. A step that was released is never changed.
const STEPS: &[&str] = &[FIRST, MONEY, RETENTION, VALUES, USERS];

/// The format that this version writes.
pub(crate) fn known() -> u32 {
    u32::try_from(STEPS.len()).expect("a handful of steps")
}

/// Brings a file of format `found` up to date, in one transaction.
pub(crate) fn migrate(connection: &Connection, found: u32) -> Result<()> {
    let missing = &STEPS[usize::try_from(found).expect("formats are small numbers").min(STEPS.len())..];
    if missing.is_empty() {
        return Ok(());
    }
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {} PRAGMA user_version = {}; COMMIT;",
        missing.concat(),
        known()
    ))
}

/// Tenant is part of every key. Ids and digests are blobs, times are milliseconds since 1970.
///
/// Every index is paid for by every run, so most are partial: only children, members of a batch and unfinished runs are
/// in theirs.
const FIRST: &str = "
-- One row per start of an owning process; the largest epoch owns the file.
CREATE TABLE boots (
    epoch INTEGER PRIMARY KEY,
    started_at INTEGER NOT NULL,
    version TEXT NOT NULL,
    clean INTEGER NOT NULL
);

-- What happened, in global order. form: 0 as it is, 1 with references to blobs, 2 the digest of a blob.
CREATE TABLE journal (
    position INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    run BLOB NOT NULL,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    form INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX journal_by_run ON journal (tenant, run, seq);

-- Each run as its records leave it.
CREATE TABLE runs (
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
-- A handle belongs to one live run at a time. Handles are random, so each entry in an index of all of them is a page to
-- write: a run gets there once, when it ends, and the index of live ones stays small.
CREATE UNIQUE INDEX runs_by_agent_id ON runs (tenant, agent_id) WHERE ended_at IS NULL;
CREATE INDEX ended_runs_by_agent_id ON runs (tenant, agent_id) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX runs_by_parent ON runs (tenant, parent_run, parent_call, parent_index)
    WHERE parent_run IS NOT NULL;
CREATE INDEX runs_by_session ON runs (tenant, session);
CREATE INDEX runs_by_batch ON runs (tenant, batch, batch_index) WHERE batch IS NOT NULL;
CREATE INDEX runs_by_root ON runs (tenant, root) WHERE depth > 0;
CREATE INDEX runs_unfinished ON runs (accepted_at) WHERE ended_at IS NULL;

-- What runs wait for. kind: children (remaining of them have not ended) or until (due).
CREATE TABLE waits (
    tenant TEXT NOT NULL,
    run BLOB NOT NULL,
    call INTEGER NOT NULL,
    kind TEXT NOT NULL,
    remaining INTEGER,
    due INTEGER,
    PRIMARY KEY (tenant, run, call)
) WITHOUT ROWID;

CREATE TABLE batches (
    tenant TEXT NOT NULL,
    batch BLOB NOT NULL,
    user TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (tenant, batch)
) WITHOUT ROWID;

CREATE TABLE sessions (
    tenant TEXT NOT NULL,
    session BLOB NOT NULL,
    agent TEXT NOT NULL,
    user TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, session)
) WITHOUT ROWID;

-- Agents as runs pinned them, under the digest that the runs carry.
CREATE TABLE definitions (
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (tenant, digest)
) WITHOUT ROWID;

-- Large values, under the SHA-256 of their bytes.
CREATE TABLE blobs (
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (tenant, digest)
);

-- Requests that were made with an idempotency key. handle_kind: run or batch.
CREATE TABLE keys (
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    operation TEXT NOT NULL,
    key BLOB NOT NULL,
    body BLOB NOT NULL,
    handle_kind TEXT NOT NULL,
    handle BLOB NOT NULL,
    PRIMARY KEY (tenant, subject, operation, key)
) WITHOUT ROWID;
";

/// What a run cost, in billionths of the currency; nothing while no model of it has a price.
const MONEY: &str = "ALTER TABLE runs ADD COLUMN cost INTEGER;";

/// What pruning needs: who refers to which large value, and what is left to remove.
const RETENTION: &str = r#"
-- Which runs refer to which large values.
CREATE TABLE blob_uses (
    tenant TEXT NOT NULL,
    run BLOB NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (tenant, run, digest)
) WITHOUT ROWID;
CREATE INDEX blob_uses_by_digest ON blob_uses (tenant, digest);
WITH RECURSIVE found (tenant, run, rest) AS (
    SELECT tenant, run, substr(body, instr(body, '{"$blob":"') + 10) FROM journal WHERE form = 1
    UNION ALL
    SELECT tenant, run, substr(rest, instr(rest, '{"$blob":"') + 10) FROM found WHERE instr(rest, '{"$blob":"') > 0
)
INSERT OR IGNORE INTO blob_uses (tenant, run, digest) SELECT tenant, run, unhex(substr(rest, 1, 64)) FROM found;
INSERT OR IGNORE INTO blob_uses (tenant, run, digest) SELECT tenant, run, unhex(body) FROM journal WHERE form = 2;
INSERT OR IGNORE INTO blob_uses (tenant, run, digest)
    SELECT tenant, run, final_blob FROM runs WHERE final_blob IS NOT NULL;

-- Runs whose rows are gone and whose journals are still to go.
CREATE TABLE pruned_runs (
    tenant TEXT NOT NULL,
    run BLOB NOT NULL,
    PRIMARY KEY (tenant, run)
) WITHOUT ROWID;

-- Definitions of runs that went. Those that no run has any more go with the next boot, when nobody can pin them anew.
CREATE TABLE loose_definitions (
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (tenant, digest)
) WITHOUT ROWID;

CREATE INDEX keys_by_handle ON keys (tenant, handle);
"#;

/// Small values under a key, each until its time is over.
const VALUES: &str = "
CREATE TABLE kept (
    tenant TEXT NOT NULL,
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, space, key)
) WITHOUT ROWID;
CREATE INDEX kept_by_expiry ON kept (space, expires_at);
";

/// The runs of one user, for lists that show nothing else. Without it such a list read every run of the tenant: 36 ms for
/// 100,000. It adds a page to the commit that accepts a run, so that the user of a server without users is left out.
const USERS: &str = "CREATE INDEX runs_by_user ON runs (tenant, user) WHERE user <> 'default';";
