//! What the workers of a goal do now: a board on a terminal, elsewhere a line when a worker turns to another tool.

use std::{collections::BTreeMap, time::Duration};

use drawloom_contract::{
    ids::RunId,
    time::{Clock as _, Instant},
};
use drawloom_wire::{events::Event, runs::Amount};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::{
    backend::Events,
    clock::SystemClock,
    commands::Session,
    connect::Connection,
    exit::CommandError,
    live::{ActivityLines, Screen, Team, activity, board},
    output::{Format, Output, Style},
};

/// How often the board is drawn.
const TICK: Duration = Duration::from_millis(100);

/// Where lines about workers go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// They are the output.
    Stdout,
    /// They are beside it. There are none when the output is JSON.
    Stderr,
}

/// The runs of a goal.
pub(super) struct Workers<'a> {
    output: &'a Output,
    target: Target,
    goal: RunId,
    /// The live events of the tree. `None` for [`Target::Stderr`] with `--json`.
    events: Option<Events>,
    screen: Option<Screen<'a>>,
    due: Instant,
    team: Team,
    names: BTreeMap<RunId, String>,
    lines: ActivityLines,
    currency: String,
}

impl<'a> Workers<'a> {
    /// Follows the runs of a goal.
    pub(super) async fn follow(
        session: &'a Session,
        connection: &Connection,
        goal: RunId,
        target: Target,
    ) -> Result<Self, CommandError> {
        let output = &session.output;
        let is_human = output.format() == Format::Human;
        let events = match is_human || target == Target::Stdout {
            true => Some(connection.backend.follow_tree(goal, 0).await?),
            false => None,
        };
        let currency = match is_human {
            true => connection.backend.currency([Some(Amount::default())]).await,
            false => String::new(),
        };
        let screen = (is_human && output.shows_progress()).then(|| Screen::new(output));
        Ok(Self {
            output,
            target,
            goal,
            events,
            screen,
            due: SystemClock.now(),
            team: Team::default(),
            names: BTreeMap::new(),
            lines: ActivityLines::default(),
            currency,
        })
    }

    /// Waits for `work`, and shows meanwhile what the workers do, below `head`.
    pub(super) async fn meanwhile<T>(&mut self, head: &str, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            let next = async {
                match &mut self.events {
                    Some(events) => events.next().await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                // A board that is due is drawn also while events come without a pause.
                biased;
                () = SystemClock.sleep_until(self.due), if self.screen.is_some() => {
                    self.draw(head);
                    continue;
                }
                done = &mut work => return done,
                event = next => event,
            };
            match event {
                Some(Ok(event)) => self.show(&event),
                // What is told of the goal does not depend on it.
                Some(Err(_)) | None => self.events = None,
            }
        }
    }

    /// Removes the board, so that something else can be printed.
    pub(super) fn erase(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.erase();
        }
    }

    fn draw(&mut self, head: &str) {
        self.due = SystemClock.now().after(TICK);
        let Some(screen) = &mut self.screen else { return };
        let size = screen.size();
        let mut lines = vec![board::Line(vec![(crate::output::fit(head, size.columns.saturating_sub(1)), None)])];
        let size = board::Size { rows: size.rows.saturating_sub(1), ..size };
        lines.extend(board::lines(&self.team, size, SystemClock.wall(), &self.currency));
        screen.draw(&lines);
    }

    fn show(&mut self, event: &Event) {
        let mut data = event.json();
        let Some(run) = data["run_id"].as_str().and_then(|run| run.parse::<RunId>().ok()) else { return };
        let is_role = data["parent_run_id"].as_str() == Some(&self.goal.to_string());
        if let Some(name) = drawloom_goal::worker_of(&data["parent_context"]).filter(|_| is_role) {
            // Its agent is that of the backend, which several workers share.
            let name = name.to_owned();
            data["agent"] = name.clone().into();
            self.names.insert(run, name);
        }
        self.team.apply(event, &data, SystemClock.wall());
        if event.is_terminal() {
            self.names.remove(&run);
        }
        if event.name == "activity" {
            self.print(run, &data);
        }
    }

    /// Prints a line where lines cannot be replaced.
    fn print(&mut self, run: RunId, data: &Value) {
        if self.screen.is_some() || !self.lines.chooses(run, data) {
            return;
        }
        let name = self.names.get(&run).map_or_else(|| data["agent"].as_str().unwrap_or_default(), String::as_str);
        let text = format!("    {name}: {}", activity(data, &self.currency));
        match (self.output.format(), self.target) {
            (Format::Json, Target::Stdout) => {
                let mut line = json!({ "kind": "activity", "worker": name, "run_id": run });
                for field in ["tool", "detail", "tokens", "cost"] {
                    if !data[field].is_null() {
                        line[field] = data[field].clone();
                    }
                }
                self.output.json_line(&line);
            }
            (Format::Json, Target::Stderr) => {}
            (Format::Human, Target::Stdout) => self.output.line(self.output.styled(Style::Dim, &text)),
            (Format::Human, Target::Stderr) => self.output.note(self.output.beside(Style::Dim, &text)),
        }
    }
}

impl Drop for Workers<'_> {
    fn drop(&mut self) {
        self.erase();
    }
}
