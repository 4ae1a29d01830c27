//! Tools that take their time: what the suite calls tasks. The jobs live in memory; what makes tasks of them is the
//! server's own code.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use drawloom::clock::SystemClock;
use drawloom_contract::time::{Clock, Instant, Timestamp};
use drawloom_server::mcp::{
    Ask, Outcome, Pending, Progress, Terms,
    rmcp::{
        ErrorData,
        model::{
            CallToolRequestParams, CallToolResult, ClientCapabilities, DetailedTask, InputRequests, InputResponses,
            Task, TaskPayload, TaskStatus, Tool,
        },
    },
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    fixtures::of,
    rounds,
    tools::{nothing, text, tool},
};

pub(crate) fn list() -> Vec<Tool> {
    let seconds = json!({ "type": "object", "properties": {
        "seconds": { "type": "number" }, "label": { "type": "string" },
    } });
    let one = |field: &str| json!({ "type": "object", "properties": { field: { "type": "string" } } });
    vec![
        tool("greet", "Says hello at once.", one("name")),
        tool("slow_compute", "Takes some seconds.", seconds),
        tool("failing_job", "Takes a second and fails.", nothing()),
        tool("protocol_error_job", "Takes a moment and breaks.", nothing()),
        tool("confirm_delete", "Asks before it deletes.", one("filename")),
        tool("multi_input", "Asks two things at once.", nothing()),
        tool("test_tool_with_task", "Asks for a name, then takes its time.", nothing()),
    ]
}

/// How a job ends when its time is over and all questions are answered.
#[derive(Clone)]
enum End {
    Text(String),
    Error(String),
    Broken(String),
}

struct State {
    questions: InputRequests,
    cancelled: bool,
}

struct Job {
    id: String,
    begun: Timestamp,
    over_at: Instant,
    end: End,
    state: Mutex<State>,
    changed: Notify,
}

/// All jobs.
#[derive(Default)]
pub(crate) struct Jobs {
    all: Mutex<BTreeMap<String, Arc<Job>>>,
    next: AtomicU64,
}

impl Jobs {
    /// Begins a job, if the tool is one of these.
    pub(crate) fn call(&self, ask: &Ask, params: &CallToolRequestParams) -> Option<Result<Outcome, ErrorData>> {
        let argument = |name: &str| params.arguments.as_ref().and_then(|arguments| arguments.get(name));
        let word = |name: &str| argument(name).and_then(Value::as_str).unwrap_or_default();
        let none = InputRequests::default;
        let (takes, end, questions) = match &*params.name {
            "greet" => return Some(Ok(Outcome::Done(text(format!("Hello, {}!", word("name")))))),
            "slow_compute" => {
                let seconds = argument("seconds").and_then(Value::as_f64).unwrap_or(1.0).clamp(0.0, 600.0);
                (Duration::from_secs_f64(seconds), End::Text(format!("{} took {seconds} s", word("label"))), none())
            }
            "failing_job" | "test_tool_with_task" if !ask.takes_tasks() => {
                let needed = ClientCapabilities::builder().enable_tasks().build();
                return Some(Err(ErrorData::missing_required_client_capability(needed)));
            }
            "failing_job" => (Duration::from_secs(1), End::Error("It failed, as it should.".into()), none()),
            "protocol_error_job" => (Duration::from_millis(500), End::Broken("It broke, as it should.".into()), none()),
            "confirm_delete" => {
                let question = rounds::elicit("Really delete it?", "confirm");
                let questions = [("confirm".to_owned(), of(question))].into();
                (Duration::ZERO, End::Text(format!("{} was not deleted, this is a test.", word("filename"))), questions)
            }
            "multi_input" => {
                let question = |key: &str| (key.to_owned(), of(rounds::elicit("Which one?", key)));
                (Duration::ZERO, End::Text("Both are here.".into()), [question("first"), question("second")].into())
            }
            "test_tool_with_task" => match rounds::answer(&params.input_responses, "user_name", "name") {
                Ok(Some(name)) => (Duration::from_millis(500), End::Text(format!("Hello, {name}!")), none()),
                Ok(None) => {
                    let question = rounds::elicit("What is your name?", "name");
                    return Some(Ok(Outcome::Input(rounds::ask_for([("user_name", question)], None))));
                }
                Err(error) => return Some(Err(error)),
            },
            _ => return None,
        };
        let begun = SystemClock.wall();
        let job = Arc::new(Job {
            id: format!("job_{}", self.next.fetch_add(1, Ordering::Relaxed)),
            begun,
            over_at: SystemClock.now().after(takes),
            end,
            state: Mutex::new(State { questions, cancelled: false }),
            changed: Notify::new(),
        });
        self.all.lock().unwrap_or_else(PoisonError::into_inner).insert(job.id.clone(), job.clone());
        Some(Ok(Outcome::Pending(Box::new(Waited(job)))))
    }

    /// The job with this id.
    pub(crate) fn find(&self, id: &str) -> Option<Box<dyn Pending>> {
        let job = self.all.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()?;
        Some(Box::new(Waited(job)))
    }
}

impl Job {
    fn payload(&self) -> TaskPayload {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.cancelled {
            return TaskPayload::Cancelled;
        }
        if !state.questions.is_empty() {
            return TaskPayload::InputRequired { input_requests: state.questions.clone() };
        }
        if SystemClock.now() < self.over_at {
            return TaskPayload::Working;
        }
        match self.end.clone() {
            End::Broken(message) => TaskPayload::Failed { error: of(json!({ "code": -32603, "message": message })) },
            End::Text(_) | End::Error(_) => {
                let result = self.result().map(|result| serde_json::to_value(result).expect("a result is JSON"));
                TaskPayload::Completed { result: of(result.unwrap_or_default()) }
            }
        }
    }

    fn result(&self) -> Result<CallToolResult, ErrorData> {
        match self.end.clone() {
            End::Text(words) => Ok(text(words)),
            End::Error(words) => {
                let mut failed = text(words);
                failed.is_error = Some(true);
                Ok(failed)
            }
            End::Broken(words) => Err(ErrorData::internal_error(words, None)),
        }
    }
}

/// A job as the server waits for it.
struct Waited(Arc<Job>);

#[async_trait]
impl Pending for Waited {
    fn id(&self) -> String {
        self.0.id.clone()
    }

    fn terms(&self) -> Terms {
        Terms { belongs_to_call: true, ..Terms::default() }
    }

    async fn wait(&mut self, until: Instant) -> Option<Result<CallToolResult, ErrorData>> {
        loop {
            let changed = self.0.changed.notified();
            match self.0.payload() {
                TaskPayload::Cancelled => return Some(Ok(text("It was cancelled."))),
                TaskPayload::Completed { .. } | TaskPayload::Failed { .. } => return Some(self.0.result()),
                _ => {}
            }
            if SystemClock.now() >= until {
                return None;
            }
            let over_at = self.0.over_at;
            let next = if over_at > SystemClock.now() { over_at.min(until) } else { until };
            tokio::select! {
                () = changed => {}
                () = SystemClock.sleep_until(next) => {}
            }
        }
    }

    async fn progress(&mut self) -> Progress {
        Progress { done: 0, total: None, message: format!("{} is at it", self.0.id) }
    }

    async fn so_far(&mut self) -> CallToolResult {
        text(format!("{} goes on", self.0.id))
    }

    async fn task(&mut self) -> Result<DetailedTask, ErrorData> {
        let now = SystemClock.wall().to_rfc3339();
        let task = Task::new(self.0.id.clone(), TaskStatus::Working, self.0.begun.to_rfc3339(), now);
        Ok(DetailedTask::new(task.with_ttl_ms(3_600_000).with_poll_interval_ms(100), self.0.payload()))
    }

    async fn cancel(&mut self, _: Option<String>) -> Result<(), ErrorData> {
        let over = matches!(self.0.payload(), TaskPayload::Completed { .. } | TaskPayload::Failed { .. });
        if !over {
            self.0.state.lock().unwrap_or_else(PoisonError::into_inner).cancelled = true;
            self.0.changed.notify_waiters();
        }
        Ok(())
    }

    async fn answer(&mut self, responses: InputResponses) -> Result<(), ErrorData> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.questions.retain(|key, _| !responses.contains_key(key));
        self.0.changed.notify_waiters();
        Ok(())
    }
}
