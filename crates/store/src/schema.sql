CREATE TABLE batches (
            tenant TEXT NOT NULL,
            batch BLOB NOT NULL,
            user_id TEXT NOT NULL,
            size INTEGER NOT NULL,
            PRIMARY KEY (tenant, batch)
        ) WITHOUT ROWID;
CREATE TABLE blob_uses (
            tenant TEXT NOT NULL,
            run BLOB NOT NULL,
            digest BLOB NOT NULL,
            PRIMARY KEY (tenant, run, digest)
        ) WITHOUT ROWID;
CREATE TABLE blobs (
            tenant TEXT NOT NULL,
            digest BLOB NOT NULL,
            bytes BLOB NOT NULL,
            PRIMARY KEY (tenant, digest)
        );
CREATE TABLE boots (
        epoch INTEGER PRIMARY KEY,
        started_at INTEGER NOT NULL,
        version TEXT NOT NULL,
        clean INTEGER NOT NULL
    );
CREATE TABLE definitions (
            tenant TEXT NOT NULL,
            digest BLOB NOT NULL,
            body TEXT NOT NULL,
            PRIMARY KEY (tenant, digest)
        ) WITHOUT ROWID;
CREATE TABLE effects (
        tenant TEXT NOT NULL,
        run BLOB NOT NULL,
        call INTEGER NOT NULL,
        part INTEGER NOT NULL,
        answer TEXT NOT NULL,
        PRIMARY KEY (tenant, run, call, part)
    ) WITHOUT ROWID;
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
CREATE TABLE key_values (
            space TEXT NOT NULL,
            tenant TEXT NOT NULL,
            owner TEXT NOT NULL,
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            bytes INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            at INTEGER NOT NULL,
            expires_at INTEGER, searched INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (space, tenant, owner, key)
        ) WITHOUT ROWID;
CREATE TABLE keys (
            tenant TEXT NOT NULL,
            subject TEXT NOT NULL,
            operation TEXT NOT NULL,
            key BLOB NOT NULL,
            body BLOB NOT NULL,
            handle_kind TEXT NOT NULL,
            handle BLOB NOT NULL, answer TEXT, at INTEGER,
            PRIMARY KEY (tenant, subject, operation, key)
        ) WITHOUT ROWID;
CREATE TABLE log_messages (
        log INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        id TEXT NOT NULL,
        at INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (log, sequence)
    ) WITHOUT ROWID;
CREATE TABLE logs (
        log INTEGER PRIMARY KEY,
        tenant TEXT NOT NULL,
        space TEXT NOT NULL,
        name TEXT NOT NULL,
        head INTEGER NOT NULL,
        kept INTEGER NOT NULL,
        UNIQUE (tenant, space, name)
    );
CREATE TABLE loose_definitions (
            tenant TEXT NOT NULL,
            digest BLOB NOT NULL,
            PRIMARY KEY (tenant, digest)
        ) WITHOUT ROWID;
CREATE TABLE pruned_runs (
        tenant TEXT NOT NULL,
        run BLOB NOT NULL,
        PRIMARY KEY (tenant, run)
    ) WITHOUT ROWID;
CREATE TABLE runs (
            tenant TEXT NOT NULL,
            run BLOB NOT NULL,
            session BLOB NOT NULL,
            agent_id TEXT NOT NULL,
            agent TEXT NOT NULL,
            definition BLOB NOT NULL,
            user_id TEXT NOT NULL,
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
            strikes INTEGER NOT NULL, cost INTEGER, assumed_cost INTEGER, retry_of BLOB, attempt INTEGER NOT NULL DEFAULT 0, reasoning_tokens INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (tenant, run)
        ) WITHOUT ROWID;
CREATE TABLE sessions (
            tenant TEXT NOT NULL,
            session BLOB NOT NULL,
            agent TEXT NOT NULL,
            user_id TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            PRIMARY KEY (tenant, session)
        ) WITHOUT ROWID;
CREATE TABLE value_owners (
            space TEXT NOT NULL,
            tenant TEXT NOT NULL,
            owner TEXT NOT NULL,
            keys INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            PRIMARY KEY (space, tenant, owner)
        ) WITHOUT ROWID;
CREATE TABLE value_revisions (one INTEGER PRIMARY KEY CHECK (one = 1), revision INTEGER NOT NULL, indexed INTEGER NOT NULL DEFAULT 0);
CREATE VIRTUAL TABLE value_words USING fts5 (
        key, text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
    );
CREATE TABLE value_words_gone (revision INTEGER PRIMARY KEY);
CREATE TABLE "waits" (
            tenant TEXT NOT NULL,
            run BLOB NOT NULL,
            call INTEGER NOT NULL,
            kind TEXT NOT NULL,
            remaining INTEGER NOT NULL,
            since INTEGER NOT NULL,
            due INTEGER,
            causes TEXT,
            PRIMARY KEY (tenant, run, call)
        ) WITHOUT ROWID;
CREATE INDEX blob_uses_by_digest ON blob_uses (tenant, digest);
CREATE INDEX ended_runs_by_agent_id ON runs (tenant, agent_id) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX journal_by_run ON journal (tenant, run, seq);
CREATE INDEX key_values_by_expiry ON key_values (space, expires_at) WHERE expires_at IS NOT NULL;
CREATE UNIQUE INDEX key_values_by_revision ON key_values (revision);
CREATE INDEX keys_by_age ON keys (at) WHERE at IS NOT NULL;
CREATE INDEX keys_by_handle ON keys (tenant, handle);
CREATE INDEX log_messages_by_id ON log_messages (log, id, sequence);
CREATE UNIQUE INDEX runs_by_agent_id ON runs (tenant, agent_id) WHERE ended_at IS NULL;
CREATE INDEX runs_by_batch ON runs (tenant, batch, batch_index) WHERE batch IS NOT NULL;
CREATE UNIQUE INDEX runs_by_parent ON runs (tenant, parent_run, parent_call, parent_index, attempt)
            WHERE parent_run IS NOT NULL;
CREATE UNIQUE INDEX runs_by_retry ON runs (tenant, retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX runs_by_root ON runs (tenant, root) WHERE depth > 0;
CREATE INDEX runs_by_session ON runs (tenant, session);
CREATE INDEX runs_by_user ON runs (tenant, user_id) WHERE user_id <> 'default';
CREATE INDEX runs_unfinished ON runs (accepted_at) WHERE ended_at IS NULL;
INSERT INTO value_revisions (one, revision, indexed) VALUES (1, 0, 0);
