//! A fake model server as a process of its own, for storms and benches. It prints its address and runs until it is
//! ended.
//!
//! `--shape anthropic|openai|responses|deepseek`, `--script parrot|ten-turns`, `--listen ADDRESS`, `--key KEY`, `--max-concurrent CALLS`, `--refuse STATUS`,
//! `--retry-after seconds:N|date:N|none`, `--delay-ms N`, `--log FILE`.

use std::{io::Write, time::Duration};

use drawloom_testkit::{
    dialects::ten_turns,
    providers::{Asked, Provider, RetryAfter, ServerReply, Settings, Shape, parrot},
};

/// What a server says.
type Script = fn(&Asked) -> ServerReply;

fn settings(mut arguments: impl Iterator<Item = String>) -> Result<(Settings, Script), String> {
    let mut settings = Settings::new(Shape::Anthropic);
    let mut script: Script = parrot;
    let mut refuse = 429;
    let mut max_concurrent = None;
    let mut retry_after = RetryAfter::Absent;
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} lacks its value"))?;
        let wrong = || format!("{value:?} is no value for {flag}");
        match flag.as_str() {
            "--shape" => {
                settings.shape = match value.as_str() {
                    "anthropic" => Shape::Anthropic,
                    "openai" => Shape::Openai,
                    "responses" => Shape::Responses,
                    "deepseek" => Shape::Deepseek,
                    _ => return Err(wrong()),
                }
            }
            "--script" => match value.as_str() {
                "parrot" => script = parrot,
                "ten-turns" => script = ten_turns,
                _ => return Err(wrong()),
            },
            "--listen" => settings.listen = value.parse().map_err(|_| wrong())?,
            "--key" => settings.key = Some(value),
            "--max-concurrent" => max_concurrent = Some(value.parse().map_err(|_| wrong())?),
            "--refuse" => refuse = value.parse().map_err(|_| wrong())?,
            "--delay-ms" => settings.delay = Duration::from_millis(value.parse().map_err(|_| wrong())?),
            "--log" => settings.log = Some(value.into()),
            "--retry-after" => {
                let number = |text: &str| text.parse().map_err(|_| wrong());
                retry_after = match value.split_once(':') {
                    Some(("seconds", count)) => RetryAfter::Seconds(number(count)?),
                    Some(("date", count)) => RetryAfter::Date(number(count)?),
                    None if value == "none" => RetryAfter::Absent,
                    _ => return Err(wrong()),
                }
            }
            _ => return Err(format!("there is no flag {flag}")),
        }
    }
    if let Some(calls) = max_concurrent {
        settings = settings.max_concurrent(calls, retry_after);
        settings.refusal.status = refuse;
    }
    Ok((settings, script))
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let (settings, script) = settings(std::env::args().skip(1)).map_err(std::io::Error::other)?;
    let provider = Provider::start(settings, script).await?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", provider.address())?;
    out.flush()?;
    provider.run().await;
    Ok(())
}
