//! `drawloom demo`: a small but real team with the scripted model. It keeps its store, so that its runs can be looked at.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    pin::pin,
};

use clap::Args;
use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::{Value, json};

use drawloom_contract::ids::RunId;
use drawloom_wire::runs::{GetRun, ListRuns, RunResult, SpawnRun};

use crate::{
    backend::Events,
    cli::Look,
    commands::{Session, batch, run},
    config,
    connect::{self, Connection},
    data_dir::{DataDir, Lock},
    environment,
    exit::{CommandError, Exit},
    live,
    output::{Bar, Format, Style, duration, first_line},
    parts::{Parts, Surface},
    start::{start, stop_signal},
};

/// Where the demo serves with `--keep`, when the port is free.
const ADDRESS: &str = "127.0.0.1:8787";
/// The demo's folder, below the user's data directory.
const FOLDER: &str = "demo";
/// What the lead is asked.
const PROMPT: &str = "Have every chapter read.";
/// The config that the demo runs.
const CONFIG: &str = include_str!("../../demo/drawloom.yaml");
/// The files that its agents read.
const FILES: [(&str, &str); 6] = [
    ("warp.md", include_str!("../../demo/files/warp.md")),
    ("weft.md", include_str!("../../demo/files/weft.md")),
    ("shed.md", include_str!("../../demo/files/shed.md")),
    ("heddle.md", include_str!("../../demo/files/heddle.md")),
    ("drawcord.md", include_str!("../../demo/files/drawcord.md")),
    ("cloth.md", include_str!("../../demo/files/cloth.md")),
];

/// Run a small team with a scripted model: no key, no network
///
/// The demo has a config and a store of its own, which it keeps: the printed commands show its runs.
#[derive(Debug, Args)]
pub struct Demo {
    /// Keep serving the demo's API until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Demo {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let stop = stop_signal();
        let globals = &session.globals;
        if !globals.config.is_empty() || globals.data_dir.is_some() || globals.url.is_some() {
            session
                .output
                .note("the demo uses its own config and data directory; --config, --data-dir and --url are ignored");
        }
        let (home, lock) = open()?;
        let file = home.join("drawloom.yaml");
        let loaded = config::load_files(std::slice::from_ref(&file))?;
        let data = lock.directory().path().to_owned();
        let surface = match self.keep {
            true => Surface::Serve { listen: free_address().await.into() },
            false => Surface::Embedded,
        };
        let running = start(Parts::from_config(loaded, lock, surface, &crate::Extra::default())?).await?;
        let url = running.url.clone();
        let connection = Connection::embedded(running);
        let mut stop = pin!(stop);
        let shown = tokio::select! {
            shown = show(session, &connection, url.as_deref(), &data) => shown,
            () = &mut stop => Err(CommandError::failed("interrupted", "the demo was interrupted")),
        };
        if let (Ok(_), Some(url)) = (&shown, &url) {
            session.output.note(format!("\nserving at {url} until Ctrl-C"));
            stop.await;
        }
        connection.close().await;
        shown
    }
}

async fn show(
    session: &Session,
    connection: &Connection,
    url: Option<&str>,
    data: &Path,
) -> Result<Exit, CommandError> {
    let output = &session.output;
    let human = output.format() == Format::Human;
    if human {
        output.line("A lead agent gives six chapters to six readers, who work at the same time.");
        output.line("The model is scripted; the engine, the journal and the tools are real.\n");
    }
    let agent = "lead".parse().expect("a constant name");
    let lead = connection.backend.start(SpawnRun::new(agent, PROMPT)).await?.run_id;
    let children = watch(session, connection, lead).await?;
    run::wait(connection, lead).await?;
    // The sums over the tree are answered to a question about the run, not to a wait for it.
    let result = connection.backend.call(&GetRun { run_id: Some(lead), ..GetRun::default() }).await?;
    let url = url.map_or_else(|| format!("http://{ADDRESS}"), str::to_owned);
    let curl = curl_line(&url);
    if !human {
        output.json(&json!({ "run": result, "children": children, "curl": curl, "data_dir": data }));
        return Ok(connect::exit_of_status(result.status));
    }
    batch::show(output, &children, "");
    output.line(format!("\n{}", result.final_text.as_deref().unwrap_or_default()));
    let exit = live::summary(output, &result, "");
    let data = shell_word(&data.display().to_string());
    output.line("\nLook at the runs:");
    for command in [format!("runs show {}", result.run_id), "runs list".to_owned()] {
        output.line(format!("  {}", output.styled(Style::Bold, &format!("drawloom {command} --data-dir {data}"))));
    }
    output.line("\nThe same over the API, while `drawloom demo --keep` is running:");
    output.line(format!("  {}", output.styled(Style::Bold, &curl)));
    Ok(exit)
}

/// Shows each child as it ends; returns all of them by index.
async fn watch(session: &Session, connection: &Connection, lead: RunId) -> Result<Vec<RunResult>, CommandError> {
    let mut events = connection.backend.follow(lead, 0).await?;
    // The lead waits once its children are started; all of them are in one commit.
    find_event(&mut events, "waiting").await?;
    let ask = ListRuns { parent_run_id: Some(lead), limit: Some(200), ..ListRuns::default() };
    let children = connection.backend.call(&ask).await?.runs;
    let bar = session.output.bar(children.len() as u64, "readers");
    let mut ends: FuturesUnordered<_> = children.iter().map(|child| run::wait(connection, child.run_id)).collect();
    let mut ended = BTreeMap::new();
    while let Some(result) = ends.next().await {
        let result = result?;
        report(session, &bar, &result);
        ended.insert(result.run_id.to_string(), result);
    }
    bar.clear();
    // What the lead is told has its children in the order in which it asked for them.
    let told = find_event(&mut events, "tool_result").await?.unwrap_or_default();
    let told: Value = told["text"].as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let order = told["results"].as_array().into_iter().flatten().filter_map(|result| result["run_id"].as_str());
    Ok(order.filter_map(|run| ended.remove(run)).collect())
}

/// The data of the next event of this name; nothing when the run ends before.
async fn find_event(events: &mut Events, name: &str) -> Result<Option<Value>, CommandError> {
    while let Some(event) = events.next().await {
        let event = event?;
        if event.name == name {
            return Ok(Some(event.json()));
        }
    }
    Ok(None)
}

fn report(session: &Session, bar: &Bar, result: &RunResult) {
    bar.advance();
    if session.output.format() == Format::Human {
        let took = result.timings.total_ms.map(duration).unwrap_or_default();
        let text = first_line(result.final_text.as_deref().unwrap_or_default(), 60);
        let line = format!("{} {} after {took}: {text}", result.agent, result.status.as_str());
        bar.suspend(|| session.output.note(session.output.beside(Style::Dim, &line)));
    }
}

/// What starts the same run over the API and waits for it.
fn curl_line(url: &str) -> String {
    let token = match environment::variable(environment::TOKEN) {
        Some(_) => " -H \"Authorization: Bearer $DRAWLOOM_TOKEN\"",
        None => "",
    };
    let body = json!({ "agent": "lead", "prompt": PROMPT });
    format!("curl -s {url}/v1/runs -H 'Accept: application/json'{token} -d '{body}'")
}

/// The demo's own folder and its data: below the user's data directory, where it stays, or a new temporary one when that cannot be
/// used, such as while another demo is serving.
fn open() -> Result<(PathBuf, Lock), CommandError> {
    if let Some(home) = environment::default_data_dir().map(|folder| folder.join(FOLDER))
        && fs::create_dir_all(&home).is_ok()
        && let Ok(lock) = DataDir::new(home.join("data")).lock("demo")
        && write_files(&home).is_ok()
    {
        return Ok((home, lock));
    }
    let home = tempfile::tempdir().map_err(|error| no_room(&error))?.keep();
    write_files(&home).map_err(|error| no_room(&error))?;
    let lock = DataDir::new(home.join("data")).lock("demo")?;
    Ok((home, lock))
}

/// A text as a shell takes it for one word.
fn shell_word(text: &str) -> String {
    let is_plain = text.chars().all(|sign| sign.is_ascii_alphanumeric() || "/._-+=:@".contains(sign));
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

fn write_files(home: &Path) -> std::io::Result<()> {
    fs::write(home.join("drawloom.yaml"), CONFIG)?;
    fs::create_dir_all(home.join("files"))?;
    FILES.iter().try_for_each(|(name, text)| fs::write(home.join("files").join(name), text))
}

/// The usual address when it is free, else any.
async fn free_address() -> &'static str {
    match tokio::net::TcpListener::bind(ADDRESS).await {
        Ok(_) => ADDRESS,
        Err(_) => "127.0.0.1:0",
    }
}

/// The error of a command that can make no temporary directory.
pub(crate) fn no_room(error: &std::io::Error) -> CommandError {
    CommandError::failed("no_temporary_directory", format!("cannot make a temporary directory: {error}"))
        .with_hint("set TMPDIR to a directory that can be written")
}
