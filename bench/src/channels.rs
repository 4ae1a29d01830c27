//! Channels: publishes a second beside a floor of one commit each, the time to a follower at any depth, runs that one message wakes, and
//! many followers of one channel.

use std::{
    fs::File,
    io::{Seek as _, Write as _},
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

use crate::{
    agent_memory::sets,
    http::{self, Connection},
    memory::{RUNS, detach},
    process,
    report::{self, Table, whole},
    server::Bench,
    targets::Figures,
};

const CLIENTS: [usize; 2] = [1, 64];
const WARM_UP: Duration = Duration::from_millis(500);
/// Messages in the channel for the second look at the time to a follower.
const DEPTH: usize = 100_000;
/// How often the time to a follower is taken.
const ASKED: usize = 200;
/// Followers of one channel.
const FOLLOWERS: usize = 1_000;

/// Publishes a second at a number of clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Publishes {
    pub(crate) clients: usize,
    pub(crate) floor: f64,
    pub(crate) ours: f64,
}

/// What one message takes to a follower.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery {
    pub(crate) depth: usize,
    pub(crate) sync: Duration,
    pub(crate) time: Duration,
}

/// Measures and prints.
pub(crate) async fn measure(bench: &Bench, time: Duration, figures: &mut Figures) -> Result<()> {
    report::heading("Channels: publishes beside a floor of one commit each, deliveries, wake-ups, followers")?;
    let (floor_directory, data) = (bench.directory()?, bench.directory()?);
    let floor = bench.start_floor(floor_directory.path(), None)?;
    let ours = bench.start_with_channels(bench.program(), data.path())?;
    let table = Table::start(&[("publishes", 12), ("floor/s", 9), ("channel/s", 9), ("of the floor", 12)])?;
    for clients in CLIENTS {
        // In turns, so that a disturbance falls on both.
        let mut seen = [0.0; 2];
        for _ in 0..2 {
            sets(floor.address, clients, WARM_UP).await?;
            seen[0] += sets(floor.address, clients, time / 2).await? / 2.0;
            publishes(ours.address, "busy", clients, WARM_UP).await?;
            seen[1] += publishes(ours.address, "busy", clients, time / 2).await? / 2.0;
        }
        let row = Publishes { clients, floor: seen[0], ours: seen[1] };
        let share = format!("{:.2}", row.ours / row.floor);
        table.row(&[format!("{clients} clients"), whole(row.floor), whole(row.ours), share])?;
        figures.publishes.push(row);
    }
    for depth in [0, DEPTH] {
        fill(ours.address, "deep", depth).await?;
        let (sync, time) = (sync_time(data.path())?, delivery(ours.address, "deep").await?);
        report::line(&format!(
            "publish to delivered at depth {depth}: {:.2} ms; a bare fdatasync: {:.2} ms (p50 of {ASKED})",
            time.as_secs_f64() * 1e3,
            sync.as_secs_f64() * 1e3
        ))?;
        figures.deliveries.push(Delivery { depth, sync, time });
    }
    let followers = followers(ours.address).await?;
    report::line(&format!("{FOLLOWERS} followers have a message after {:.0} ms", followers.as_secs_f64() * 1e3))?;
    figures.followers = Some(followers);
    drop(ours);
    let (bytes, woken) = wake(bench).await?;
    report::line(&format!(
        "{RUNS} runs that wait for a message take {:.2} KiB each; one message wakes all in {:.2} s",
        bytes / 1024.0,
        woken.as_secs_f64()
    ))?;
    figures.waiting_run = Some(bytes);
    figures.woken = Some(woken);
    Ok(())
}

fn publish(channel: &str, value: &str) -> Vec<u8> {
    http::post(&format!("/v1/channels/{channel}/publish"), "application/json", &json!({ "value": value }).to_string())
}

/// Publishes a second.
pub(crate) async fn publishes(
    address: SocketAddr,
    channel: &'static str,
    clients: usize,
    time: Duration,
) -> Result<f64> {
    let mut tasks = JoinSet::new();
    let begun = Arc::new(Instant::now());
    for client in 0..clients {
        let mut connection = Connection::open(address).await?;
        let begun = begun.clone();
        tasks.spawn(async move {
            let mut done = 0_u64;
            while begun.elapsed() < time {
                let value = format!("message {done} of client {client}, about as long as a short note is");
                let answer = connection.exchange(&publish(channel, &value)).await?;
                ensure!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(answer));
                done += 1;
            }
            Ok(done)
        });
    }
    let mut all = 0;
    while let Some(done) = tasks.join_next().await {
        all += done??;
    }
    Ok(all as f64 / begun.elapsed().as_secs_f64())
}

async fn fill(address: SocketAddr, channel: &'static str, messages: usize) -> Result<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..64_usize.min(messages) {
        let mut connection = Connection::open(address).await?;
        tasks.spawn(async move {
            for _ in 0..messages / 64 + 1 {
                connection.exchange(&publish(channel, "one of many")).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// A stream of a channel's new messages.
struct Follower {
    stream: TcpStream,
    seen: Vec<u8>,
}

impl Follower {
    async fn open(address: SocketAddr, channel: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let request = format!(
            "GET /v1/channels/{channel}/events?tail=true HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut follower = Self { stream, seen: Vec::new() };
        follower.until(b"\r\n\r\n").await?;
        Ok(follower)
    }

    /// Reads until this was sent, and forgets it.
    async fn until(&mut self, part: &[u8]) -> Result<()> {
        loop {
            if let Some(at) = http::find(&self.seen, part) {
                self.seen.drain(..at + part.len());
                return Ok(());
            }
            ensure!(self.stream.read_buf(&mut self.seen).await? > 0, "the stream ended");
        }
    }
}

/// The median time from the request of a publisher to the event of a follower.
async fn delivery(address: SocketAddr, channel: &str) -> Result<Duration> {
    let mut follower = Follower::open(address, channel).await?;
    let mut publisher = Connection::open(address).await?;
    let mut times = Vec::with_capacity(ASKED);
    for number in 0..ASKED {
        let value = format!("timed-{number}-");
        let begun = Instant::now();
        let (sent, got) =
            tokio::join!(async { publisher.exchange(&publish(channel, &value)).await.map(drop) }, async {
                follower.until(value.as_bytes()).await?;
                anyhow::Ok(begun.elapsed())
            });
        sent?;
        times.push(got?);
    }
    times.sort_unstable();
    Ok(times[ASKED / 2])
}

/// The median time of a write of 4 KiB and its fdatasync.
fn sync_time(directory: &Path) -> Result<Duration> {
    let mut file = File::create(directory.join("sync-probe"))?;
    let block = [7; 4096];
    let mut times = Vec::with_capacity(ASKED);
    for _ in 0..ASKED {
        let begun = Instant::now();
        file.rewind()?;
        file.write_all(&block)?;
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times[ASKED / 2])
}

/// How long one message takes to the last of many followers.
async fn followers(address: SocketAddr) -> Result<Duration> {
    let mut all = Vec::with_capacity(FOLLOWERS);
    for _ in 0..FOLLOWERS {
        all.push(Follower::open(address, "followed").await?);
    }
    let mut publisher = Connection::open(address).await?;
    let begun = Instant::now();
    publisher.exchange(&publish("followed", "to everybody")).await?;
    let mut tasks = JoinSet::new();
    for mut follower in all {
        tasks.spawn(async move { follower.until(b"to everybody").await });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(begun.elapsed())
}

/// Bytes of a run that waits for a message, and how long one message takes to end all of them.
async fn wake(bench: &Bench) -> Result<(f64, Duration)> {
    let data = bench.directory()?;
    let server = bench.start_with_channels(bench.program(), data.path())?;
    let is_parked = |active: u64, queued: u64| active == 0 && queued == 0;
    detach(&server, "waiter", 256).await?;
    server.wait_for_load(is_parked).await?;
    let before = process::memory(server.pid())?;
    detach(&server, "waiter", RUNS - 256).await?;
    server.wait_for_load(is_parked).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = process::memory(server.pid())?;
    let bytes = after.resident.saturating_sub(before.resident) as f64 / (RUNS - 256) as f64;
    let mut publisher = Connection::open(server.address).await?;
    let begun = Instant::now();
    publisher.exchange(&publish("bell", "ring")).await?;
    loop {
        let text = String::from_utf8(http::fetch(server.address, "/metrics").await?)?;
        let ended =
            text.lines().find(|line| line.starts_with("drawloom_runs_ended_total") && line.contains("completed"));
        let ended: f64 = match ended {
            Some(line) => line.rsplit(' ').next().context("a number")?.parse()?,
            None => 0.0,
        };
        if ended >= RUNS as f64 {
            return Ok((bytes, begun.elapsed()));
        }
        ensure!(begun.elapsed() < Duration::from_secs(60), "{ended} of {RUNS} runs ended");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
