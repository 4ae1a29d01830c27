//! Names of runs that are the same in every process: `root`, `root/0`, `root/1/0`.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use drawloom_contract::{
    ids::RunId,
    journal::Entry,
    record::{Body, Record},
};

/// The names of the runs that this process has seen begin.
#[derive(Default)]
pub struct Names(Mutex<HashMap<RunId, String>>);

impl Names {
    /// Learns the runs that begin in `entry`.
    pub fn learn(&self, entry: &Entry) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for append in &entry.runs {
            let Some(first) = append.records.first() else { continue };
            if let Body::Accepted(accepted) = &first.body {
                let name = match &accepted.parent {
                    None => "root".to_owned(),
                    Some(parent) => format!("{}/{}", names.get(&parent.run).map_or("?", String::as_str), parent.index),
                };
                names.insert(accepted.run, name);
            }
        }
    }

    /// A run's name; `?` for one that began in another process.
    pub fn of(&self, run: RunId) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&run).cloned().unwrap_or_else(|| "?".into())
    }

    /// What a record is called as a point: `root/0#4:turn_done`.
    pub fn record(&self, run: RunId, record: &Record) -> String {
        format!("{}#{}:{}", self.of(run), record.seq, kind(&record.body))
    }
}

fn kind(body: &Body) -> String {
    match serde_json::to_value(body) {
        Ok(value) => value["kind"].as_str().unwrap_or("?").to_owned(),
        Err(_) => "?".into(),
    }
}
