//! Every call that a server got.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use serde::{Deserialize, Serialize};

/// Most calls that are remembered; later ones are only in the file.
const MOST_CALLS: usize = 1_000_000;

/// One call, when it is over. Times are milliseconds since the server began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its number, in the order of arrival, from 1.
    pub number: u64,
    /// The model that was asked.
    pub model: String,
    /// When it came.
    pub started_ms: f64,
    /// When its last byte went.
    pub ended_ms: f64,
    /// How many calls were under way when it came; itself counts, unless it was refused for their number.
    pub in_flight: u32,
    /// The status of the answer; 0 when the caller left before there was one.
    pub status: u16,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All that the script said was sent.
    Whole,
    /// Refused, because too many were under way.
    Crowded,
    /// The caller left, or the script broke off.
    Broken,
}

struct Book {
    next: u64,
    in_flight: u32,
    calls: Vec<Call>,
    file: Option<File>,
}

/// The log of one server.
pub(super) struct Log {
    began: Instant,
    book: Arc<Mutex<Book>>,
}

/// A call that is under way; it is written down when this is dropped.
pub(super) struct OpenCall {
    began: Instant,
    book: Arc<Mutex<Book>>,
    call: Call,
    counted: bool,
}

impl Log {
    pub(super) fn new(path: Option<&Path>) -> io::Result<Self> {
        let file = path.map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
        let book = Book { next: 1, in_flight: 0, calls: Vec::new(), file };
        Ok(Self { began: Instant::now(), book: Arc::new(Mutex::new(book)) })
    }

    /// A call comes. The second value is whether it is within the concurrency limit.
    pub(super) fn open(&self, max_concurrent: Option<u32>) -> (OpenCall, bool) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let number = book.next;
        book.next += 1;
        let counted = max_concurrent.is_none_or(|most| book.in_flight < most);
        book.in_flight += u32::from(counted);
        let started_ms = self.began.elapsed().as_secs_f64() * 1e3;
        let call = Call {
            number,
            model: String::new(),
            started_ms,
            ended_ms: started_ms,
            in_flight: book.in_flight,
            status: 0,
            outcome: if counted { Outcome::Broken } else { Outcome::Crowded },
        };
        (OpenCall { began: self.began, book: Arc::clone(&self.book), call, counted }, counted)
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).calls.clone()
    }
}

impl OpenCall {
    pub(super) fn number(&self) -> u64 {
        self.call.number
    }

    pub(super) fn asks(&mut self, model: &str) {
        self.call.model = model.to_owned();
    }

    pub(super) fn answers(&mut self, status: u16) {
        self.call.status = status;
    }

    /// All was sent.
    pub(super) fn complete(&mut self) {
        if self.counted {
            self.call.outcome = Outcome::Whole;
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.in_flight -= u32::from(self.counted);
        self.call.ended_ms = self.began.elapsed().as_secs_f64() * 1e3;
        if let (Some(file), Ok(mut line)) = (&mut book.file, serde_json::to_vec(&self.call)) {
            line.push(b'\n');
            // A test that reads the file sees what is missing.
            drop(file.write_all(&line));
        }
        if book.calls.len() < MOST_CALLS {
            book.calls.push(self.call.clone());
        }
    }
}
