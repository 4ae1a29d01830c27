//! The floor: a bare handler that does what a run must do on disk, and nothing else.
//!
//! Each request of a run waits for two group commits, which write four journal records and insert and update one row. A `PUT` of a
//! value waits for one, which writes one row. One thread writes; it takes every entry that waits into one transaction, with the write-ahead log and `synchronous=FULL`.

use std::{
    net::SocketAddr,
    path::Path as FilePath,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::Bytes,
    extract::{Path, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{self, get, post},
};
use rusqlite::{Connection as Database, Statement, params};
use tokio::sync::{mpsc, oneshot};

use crate::{http::Connection, model_server, report};

const TABLES: &str = "
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 16384;
CREATE TABLE journal (
    pos INTEGER PRIMARY KEY, run BLOB NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE (run, seq)
);
CREATE TABLE kept (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (run BLOB PRIMARY KEY, status TEXT NOT NULL, seq INTEGER NOT NULL) WITHOUT ROWID;
";
/// Most entries in one group, as in Drawloom's store.
const GROUP: usize = 1024;
/// A record's body, about as long as Drawloom's.
const BODY: [u8; 180] = [b'x'; 180];

/// A run's number.
type Run = u128;

/// Half of a run's work or a value, and who waits for it.
struct Entry {
    work: Work,
    written: oneshot::Sender<()>,
}

enum Work {
    Run(Run, Half),
    Value(String, Bytes),
}

#[derive(Clone, Copy)]
enum Half {
    First,
    Second,
}

/// What handlers and the writer share.
struct Shared {
    entries: mpsc::UnboundedSender<Entry>,
    next: AtomicU64,
    counters: Arc<Counters>,
    model: Option<Model>,
}

/// A model that each run asks between its halves, on kept connections.
struct Model {
    address: SocketAddr,
    request: Vec<u8>,
    idle: Mutex<Vec<Connection>>,
}

impl Model {
    async fn ask(&self) -> Result<()> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => Connection::open(self.address).await?,
        };
        connection.exchange(&self.request).await?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(())
    }
}

#[derive(Default)]
struct Counters {
    records: AtomicU64,
    syncs: AtomicU64,
}

/// Serves until it is killed, and says where on its first line.
pub(crate) fn serve(directory: &FilePath, model: Option<SocketAddr>) -> Result<()> {
    let connection = Database::open(directory.join("floor.db"))?;
    connection.execute_batch(TABLES)?;
    let (entries, queue) = mpsc::unbounded_channel();
    let counters = Arc::new(Counters::default());
    let counted = Arc::clone(&counters);
    // When writing fails the queue closes, every waiting request gets a 500, and the load stops with that answer.
    std::thread::Builder::new().name("writer".into()).spawn(move || write(&connection, queue, &counted))?;
    let model = model.map(|address| Model { address, request: model_server::request("quick"), idle: Mutex::default() });
    let shared = Arc::new(Shared { entries, next: AtomicU64::new(0), counters, model });
    let routes = Router::new()
        .route("/v1/runs", post(run))
        .route("/v1/memory/user/keys/{*key}", routing::put(put))
        .route("/metrics", get(metrics))
        .with_state(shared);
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        report::line(&format!("the floor serves at http://{}", listener.local_addr()?))?;
        axum::serve(listener, routes).await.context("the floor's server ended")
    })
}

async fn run(State(shared): State<Arc<Shared>>) -> Response {
    let run = Run::from(shared.next.fetch_add(1, Ordering::Relaxed));
    for half in [Half::First, Half::Second] {
        let (written, done) = oneshot::channel();
        if shared.entries.send(Entry { work: Work::Run(run, half), written }).is_err() || done.await.is_err() {
            return (StatusCode::INTERNAL_SERVER_ERROR, "the writer ended").into_response();
        }
        if let (Half::First, Some(model)) = (half, &shared.model)
            && let Err(error) = model.ask().await
        {
            return (StatusCode::BAD_GATEWAY, error.to_string()).into_response();
        }
    }
    ([(CONTENT_TYPE, "application/json")], format!(r#"{{"run":"{run}","status":"completed"}}"#)).into_response()
}

async fn put(State(shared): State<Arc<Shared>>, Path(key): Path<String>, body: Bytes) -> Response {
    let (written, done) = oneshot::channel();
    if shared.entries.send(Entry { work: Work::Value(key, body), written }).is_err() || done.await.is_err() {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the writer ended").into_response();
    }
    ([(CONTENT_TYPE, "application/json")], r#"{"ok":true}"#).into_response()
}

async fn metrics(State(shared): State<Arc<Shared>>) -> String {
    let counters = &shared.counters;
    format!(
        "drawloom_store_records_total {}\ndrawloom_store_syncs_total {}\n",
        counters.records.load(Ordering::Relaxed),
        counters.syncs.load(Ordering::Relaxed)
    )
}

/// The statements of the writer.
struct Statements<'c> {
    begin: Statement<'c>,
    commit: Statement<'c>,
    record: Statement<'c>,
    keep: Statement<'c>,
    insert: Statement<'c>,
    update: Statement<'c>,
}

fn write(
    connection: &Database,
    mut queue: mpsc::UnboundedReceiver<Entry>,
    counters: &Counters,
) -> rusqlite::Result<()> {
    let mut statements = Statements {
        begin: connection.prepare("BEGIN IMMEDIATE")?,
        commit: connection.prepare("COMMIT")?,
        record: connection.prepare("INSERT INTO journal (run, seq, body) VALUES ($1, $2, $3)")?,
        keep: connection.prepare(
            "INSERT INTO kept (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        )?,
        insert: connection.prepare("INSERT INTO runs (run, status, seq) VALUES ($1, 'running', 2)")?,
        update: connection.prepare("UPDATE runs SET status = 'completed', seq = 4 WHERE run = $1")?,
    };
    let mut group = Vec::new();
    while let Some(first) = queue.blocking_recv() {
        group.push(first);
        while group.len() < GROUP
            && let Ok(entry) = queue.try_recv()
        {
            group.push(entry);
        }
        statements.begin.execute([])?;
        for entry in &group {
            apply(&mut statements, entry)?;
        }
        statements.commit.execute([])?;
        counters.records.fetch_add(2 * group.len() as u64, Ordering::Relaxed);
        counters.syncs.fetch_add(1, Ordering::Relaxed);
        for entry in group.drain(..) {
            // Nobody waits when the client hung up at the end of a measurement.
            _ = entry.written.send(());
        }
    }
    Ok(())
}

fn apply(statements: &mut Statements<'_>, entry: &Entry) -> rusqlite::Result<()> {
    let (run, half) = match &entry.work {
        Work::Run(run, half) => (run.to_be_bytes(), half),
        Work::Value(key, value) => return statements.keep.execute(params![key, &value[..]]).map(drop),
    };
    let first = match half {
        Half::First => {
            statements.insert.execute(params![run])?;
            1
        }
        Half::Second => {
            statements.update.execute(params![run])?;
            3
        }
    };
    statements.record.execute(params![run, first, BODY])?;
    statements.record.execute(params![run, first + 1, BODY])?;
    Ok(())
}
