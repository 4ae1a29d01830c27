//! Memory of agents: sets a second beside a floor of one commit each, a long list, and a ranked search in many entries.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    http::{self, Connection},
    report::{self, Table, whole},
    server::Bench,
    targets::Figures,
};

/// How many clients set keys at once, row by row.
const CLIENTS: [usize; 2] = [1, 64];
/// Keys of each client; most sets replace a value.
const KEYS: usize = 100;
/// Keys of the list.
const LISTED: usize = 1_000;
/// Entries that are searched, and those of them that have the word.
const ENTRIES: usize = 100_000;
const NEEDLES: usize = 1_000;
/// Entries of one import.
const BATCH: usize = 500;
/// How often a list and a search are asked for.
const ASKED: usize = 50;
/// Before each row.
const WARM_UP: Duration = Duration::from_millis(500);

/// Sets a second at a number of clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sets {
    pub(crate) clients: usize,
    pub(crate) floor: f64,
    pub(crate) ours: f64,
}

/// Measures and prints.
pub(crate) async fn measure(bench: &Bench, time: Duration, figures: &mut Figures) -> Result<()> {
    report::heading("Memory of agents: sets beside a floor of one commit each, a list, a search")?;
    let (floor_directory, data) = (bench.directory()?, bench.directory()?);
    let floor = bench.start_floor(floor_directory.path(), None)?;
    let ours = bench.start_with_quotas(data.path())?;
    let table = Table::start(&[("sets", 12), ("floor/s", 9), ("memory/s", 9), ("of the floor", 12)])?;
    for clients in CLIENTS {
        // In turns, so that a disturbance falls on both.
        let mut seen = [0.0; 2];
        for _ in 0..2 {
            for (place, address) in [floor.address, ours.address].into_iter().enumerate() {
                sets(address, clients, WARM_UP).await?;
                seen[place] += sets(address, clients, time / 2).await? / 2.0;
            }
        }
        let row = Sets { clients, floor: seen[0], ours: seen[1] };
        table.row(&[
            format!("{clients} clients"),
            whole(row.floor),
            whole(row.ours),
            format!("{:.2}", row.ours / row.floor),
        ])?;
        figures.memory_sets.push(row);
    }
    fill(ours.address, "user", LISTED, 0).await?;
    let list = median(ours.address, "/v1/memory/user/keys?limit=1000&prefix=entry", LISTED).await?;
    report::line(&format!("a list of {LISTED} keys: {:.2} ms (p50 of {ASKED})", list.as_secs_f64() * 1e3))?;
    figures.memory_list = Some(list);
    fill(ours.address, "tenant", ENTRIES, NEEDLES).await?;
    let search = median(ours.address, "/v1/memory/tenant/search?query=needle&limit=10", 10).await?;
    report::line(&format!(
        "a search in {ENTRIES} entries, {NEEDLES} of which have the word: {:.2} ms (p50 of {ASKED})",
        search.as_secs_f64() * 1e3
    ))?;
    figures.memory_search = Some(search);
    Ok(())
}

/// Sets a second of clients that each set their own keys.
pub(crate) async fn sets(address: SocketAddr, clients: usize, time: Duration) -> Result<f64> {
    let mut tasks = JoinSet::new();
    let begun = Arc::new(Instant::now());
    for client in 0..clients {
        let mut connection = Connection::open(address).await?;
        let begun = begun.clone();
        tasks.spawn(async move {
            let mut done = 0_u64;
            while begun.elapsed() < time {
                let path = format!("/v1/memory/user/keys/client-{client}/{}", done as usize % KEYS);
                let body =
                    json!({ "value": format!("value {done} of client {client}, about as long as a short note is") });
                let answer = connection.exchange(&http::put(&path, &body.to_string())).await?;
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

/// Writes entries with 20 words each, some of which have the word `needle`, evenly.
async fn fill(address: SocketAddr, scope: &str, entries: usize, needles: usize) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    let mut chance = 1_u64;
    for batch in 0..entries / BATCH {
        let entry = |number: usize| {
            let mut words: Vec<String> = (0..20)
                .map(|_| {
                    chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    format!("word{}", (chance >> 33) % 5_000)
                })
                .collect();
            if needles > 0 && number.is_multiple_of(entries / needles) {
                words[number % 20] = "needle".into();
            }
            json!({ "key": format!("entry-{number:06}"), "value": words.join(" ") })
        };
        let list: Vec<_> = (batch * BATCH..(batch + 1) * BATCH).map(entry).collect();
        let body = json!({ "entries": list }).to_string();
        let request = http::post(&format!("/v1/memory/{scope}/import"), "application/json", &body);
        let answer = connection.exchange(&request).await?;
        ensure!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(answer));
    }
    Ok(())
}

/// The median time of a request whose answer has as many entries.
async fn median(address: SocketAddr, path: &str, entries: usize) -> Result<Duration> {
    let mut connection = Connection::open(address).await?;
    let mut times = Vec::with_capacity(ASKED);
    for _ in 0..ASKED {
        let sent = Instant::now();
        let answer = connection.exchange(&http::get(path)).await?;
        times.push(sent.elapsed());
        let found = answer.windows(6).filter(|window| window == b"\"key\":").count();
        ensure!(found == entries, "{path} answered {found} entries, not {entries}");
    }
    times.sort_unstable();
    Ok(times[ASKED / 2])
}
