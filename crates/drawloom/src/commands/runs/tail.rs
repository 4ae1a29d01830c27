//! `drawloom runs tail`: what happens to runs, line by line, like a log.

use clap::Args;
use futures::{StreamExt as _, stream::select_all};

use drawloom_contract::{ids::RunId, time::Clock as _};
use drawloom_wire::{
    events::Event,
    runs::{Amount, GetRun},
};

use crate::{
    cli::Look,
    clock::SystemClock,
    commands::{Session, runs::Handle},
    connect::{self, Connection, Executing, NO_SERVER, Need},
    exit::{CommandError, Exit},
    interrupts::Interrupts,
    live::{clock_of, describe, event_json},
    output::{Format, Output, Style, first_line, fit},
};

/// The width of a line, when the terminal does not say.
const USUAL_WIDTH: usize = 160;

/// Follow runs: what happened so far, then what happens
///
/// Ctrl-C stops watching; the runs go on.
#[derive(Debug, Args)]
pub struct Tail {
    /// The runs, or the callers' handles of them
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<Handle>,
    /// Only events with a number above this one
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    from: u64,
    /// Only what happened since so long ago, such as 30s, 15m, 2h or 1d
    #[arg(long, value_name = "AGE", value_parser = crate::commands::age)]
    since: Option<u64>,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Tail {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let interrupts = Interrupts::listen();
        connect::with(session, "runs tail", Need::Journal, async |connection| {
            match interrupts.unless_first(self.follow(session, connection)).await? {
                Some(exit) => Ok(exit),
                None => {
                    if session.output.format() == Format::Human && session.output.is_terminal() {
                        session.output.note(session.output.beside(Style::Dim, "stopped watching"));
                    }
                    Ok(Exit::Done)
                }
            }
        })
        .await
    }

    async fn follow(&self, session: &Session, connection: &Connection) -> Result<Exit, CommandError> {
        let mut streams = Vec::new();
        let mut followed: Vec<(RunId, String)> = Vec::new();
        let mut unfollowed: Vec<(RunId, Executing)> = Vec::new();
        for handle in &self.runs {
            let run = handle.resolve(connection).await?;
            let now = connection.backend.call(&GetRun { run_id: Some(run), ..GetRun::default() }).await?;
            let executing = connection.executing();
            if !now.status.is_terminal() && matches!(executing, Executing::Process(_) | Executing::Nothing) {
                unfollowed.push((run, executing));
            }
            let place = followed.len();
            followed.push((run, now.agent.to_string()));
            streams.push(connection.backend.follow(run, self.from).await?.map(move |event| (place, event)));
        }
        let since = self.since.map(|seconds| {
            let millis = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
            SystemClock.wall().as_millis().saturating_sub(millis)
        });
        let currency = match session.output.format() {
            Format::Human => connection.backend.currency([Some(Amount::default())]).await,
            Format::Json => String::new(),
        };
        let lines = Lines { output: &session.output, followed: &followed, currency };
        let mut events = select_all(streams);
        let mut exit = Exit::Done;
        while let Some((place, event)) = events.next().await {
            // The server that was followed is gone; the run itself is not.
            let event = match event {
                Err(error) if error.code == NO_SERVER => {
                    unfollowed.push((followed[place].0, Executing::Nothing));
                    continue;
                }
                event => event?,
            };
            if event.name == "error" {
                exit = Exit::Failed;
            }
            if since.is_none_or(|since| time_of(&event).is_none_or(|time| time >= since)) {
                lines.show(place, &event);
            }
            if session.output.is_closed() {
                return Ok(exit);
            }
        }
        match unfollowed.first() {
            None => Ok(exit),
            Some((run, executing)) => {
                let (code, message) = match executing {
                    Executing::Process(pid) => (
                        "needs_server",
                        format!("process {pid} executes run {run} without a server, so only its past can be shown"),
                    ),
                    _ => ("interrupted", format!("run {run} is interrupted: no process executes it")),
                };
                let hint = match executing {
                    Executing::Process(_) => "run this again to see more".to_owned(),
                    _ => connect::how_to_go_on(&run.to_string()),
                };
                let details = unfollowed.iter().skip(1).map(|(run, _)| format!("run {run} too")).collect();
                Err(CommandError { details, ..CommandError::failed(code, message) }.with_hint(hint))
            }
        }
    }
}

/// When the event's record was made, in milliseconds since 1970.
fn time_of(event: &Event) -> Option<i64> {
    let data = event.json();
    let time: jiff::Timestamp = data["at"].as_str()?.parse().ok()?;
    Some(time.as_millisecond())
}

struct Lines<'a> {
    output: &'a Output,
    followed: &'a [(RunId, String)],
    currency: String,
}

impl Lines<'_> {
    fn show(&self, place: usize, event: &Event) {
        let (run, agent) = &self.followed[place];
        if self.output.format() == Format::Json {
            let mut data = event_json(event);
            data["run_id"] = run.to_string().into();
            return self.output.json_line(&data);
        }
        let Some((mark, text)) = describe(event, &self.currency) else { return };
        let data = event.json();
        let time = clock_of(data["at"].as_str().unwrap_or_default());
        let who = match self.followed.len() {
            1 => fit(agent, 16),
            // Ids begin with their time; their ends tell runs apart.
            _ => format!("{} …{}", fit(agent, 16), &run.to_string()[28..]),
        };
        let style = match &*event.name {
            "done" => Style::Good,
            "error" | "turn_reset" => Style::Bad,
            "tool_result" if data["is_error"].as_bool() == Some(true) => Style::Bad,
            "waiting" | "retry" | "provider_fallback" => Style::Notice,
            "message" => Style::Bold,
            _ => Style::Dim,
        };
        let name = format!("{:<17}", event.name);
        let width =
            self.output.width().unwrap_or(USUAL_WIDTH).saturating_sub(12 + 2 + who.chars().count() + 2 + 17 + 3);
        // A narrow line has no space for the event's name.
        let (name, width) = if width < 20 { (String::new(), width + 18) } else { (format!("{name} "), width) };
        let text = first_line(&text, width.max(10));
        self.output.line(format!(
            "{}  {}  {name}{} {text}",
            self.output.styled(Style::Dim, time),
            who,
            self.output.styled(style, mark),
        ));
    }
}
