//! Outside MCP servers: whether each starts, and what it has.

use std::time::Duration;

use drawloom_contract::{time::Clock as _, tool::Offer};

use super::{Report, Verdict};
use crate::{clock::SystemClock, config::Config, output::duration, resolve::Resolved};

/// A server that has not said by then what it has does not work, whatever `start_timeout_ms` allows.
const LONGEST: Duration = Duration::from_secs(60);

/// Most remarks that are shown of one server.
const MOST_REMARKS: usize = 20;

/// Starts every configured server, all at once, and asks it for its tools. They end with this command.
pub(super) async fn servers(report: &mut Report, config: &Config, resolved: &Resolved) {
    let asked = resolved.servers.iter().map(async |(name, server)| {
        let began = SystemClock.now();
        let offer = tokio::select! {
            offer = server.offer() => Some(offer),
            () = SystemClock.sleep_until(began.after(LONGEST)) => None,
        };
        let took = duration(SystemClock.now().since(began).as_millis() as u64);
        server.leave().await;
        (name, offer, took)
    });
    for (name, offer, took) in futures::future::join_all(asked).await {
        match offer.as_deref() {
            None => report.add(Verdict::Fail, "mcp server", format!("{name}: no answer in {took}"), None),
            Some(offer) => {
                let is_program = config.mcp_servers.get(name).is_some_and(|server| server.url.is_none());
                told(report, name, offer, &took, is_program);
            }
        }
    }
}

fn told(report: &mut Report, name: &str, offer: &Offer, took: &str, is_program: bool) {
    if let Some(why) = &offer.unavailable {
        let hint = match is_program {
            true => format!("run its command by hand, or look at mcp_servers.{name}"),
            false => format!("look whether its address answers, and at mcp_servers.{name}"),
        };
        return report.add(Verdict::Fail, "mcp server", format!("{name}: {why} ({took})"), Some(hint));
    }
    let tools = match offer.tools.len() {
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    };
    report.ok("mcp server", format!("{name}: it answers in {took} and has {tools}"));
    for remark in offer.remarks.iter().take(MOST_REMARKS) {
        report.add(Verdict::Warn, "mcp server", format!("{name}: {}", remark.text), None);
    }
    if offer.remarks.len() > MOST_REMARKS {
        let more = offer.remarks.len() - MOST_REMARKS;
        report.add(Verdict::Warn, "mcp server", format!("{name}: and {more} more"), None);
    }
}
