//! What the model is told of a command: its output, how it ended, and what may have stood in its way.

use drawloom_contract::tool::ToolError;
use drawloom_process::{Access, Command, End, Exceeded, Finished, Network, Resource};

/// The result of a command. Any end but exit code 0 is an error.
pub(super) fn of(finished: Finished, command: &Command, seconds: u32) -> Result<String, ToolError> {
    let Finished { end, output, left, trouble, .. } = finished;
    let mut text = output.whole_lines().into_text().replace('\0', "\u{fffd}");
    let mut notices = vec![ended(end, seconds)];
    if text.contains('\u{fffd}') {
        notices.push("[what is not text in the output is shown as \u{fffd}]".into());
    }
    match (left, end) {
        (0, _) | (_, End::TimedOut | End::Exceeded(_)) => {}
        (1, _) => notices.push("[a process that it had left running was ended]".into()),
        (count, _) => notices.push(format!("[{count} processes that it had left running were ended]")),
    }
    notices.extend(trouble.map(|trouble| format!("[{trouble}]")));
    if end != End::Exited(0) {
        notices.extend(rules(&text, command));
    }
    if text.is_empty() {
        text.push_str("[no output]");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text += &notices.join("\n");
    match end {
        End::Exited(0) => Ok(text),
        _ => Err(ToolError::Failed(text)),
    }
}

fn ended(end: End, seconds: u32) -> String {
    match end {
        End::Exited(code) => format!("[exit code {code}]"),
        End::Signalled(signal) => format!("[ended by signal {signal}]"),
        End::TimedOut => {
            format!(
                "[killed after {seconds} s: it took too long; timeout_seconds asks for more, up to tools.bash.max_timeout_seconds]"
            )
        }
        End::Exceeded(exceeded) => format!("[killed: {}]", over(exceeded)),
        End::Lost => "[its supervisor was killed; how it ended is not known]".into(),
    }
}

fn over(Exceeded { resource, used, most }: Exceeded) -> String {
    match resource {
        Resource::Memory => format!("it used {used} bytes of memory; {most} are allowed (tools.bash.max_memory_bytes)"),
        Resource::Processes => {
            format!("it had {used} processes and threads; {most} are allowed (tools.bash.max_processes)")
        }
        Resource::Disk => format!("it wrote {used} bytes to disks; {most} are allowed (tools.bash.max_disk_bytes)"),
        Resource::Guard => {
            "the config or its .env was replaced while it ran, and it could have reached the new one; run it again"
                .into()
        }
        Resource::Unknown => "what it used could not be read, so that its limits could not be enforced".into(),
    }
}

/// Words that programs use when a rule stands in their way, the rule, and the key of the config that changes it. A command that
/// failed gets the rules that its output speaks of.
fn rules(output: &str, command: &Command) -> Vec<String> {
    const NETWORK: &[&str] = &[
        "Network is unreachable",
        "network is unreachable",
        "Could not resolve",
        "could not resolve",
        "name resolution",
        "Name or service not known",
        "ENETUNREACH",
        "EAI_AGAIN",
        "ENOTFOUND",
        "Connection refused",
        "ECONNREFUSED",
        "socket: Operation not permitted",
    ];
    const WRITING: &[&str] = &["Read-only file system", "EROFS", "Permission denied", "EACCES"];
    const SEEING: &[&str] = &["No such file or directory", "ENOENT", "not found", "Permission denied", "EACCES"];
    const CALLING: &[&str] = &["Operation not permitted", "EPERM", "Function not implemented", "Bad system call"];
    let says = |words: &[&str]| words.iter().any(|word| output.contains(word));
    let mut rules = Vec::new();
    if command.network == Network::None && says(NETWORK) {
        rules.push(
            "[rule: commands have no network; tools.bash.network: host with hosts: [\"*\"] of the agent changes that]"
                .into(),
        );
    }
    if says(WRITING) {
        let volume = match command.access {
            Access::ReadOnly => {
                "the volume is read-only (its mode: rw changes that); only $TMPDIR and /tmp can be written"
            }
            Access::ReadWrite => "only the volume, $TMPDIR and /tmp can be written",
        };
        rules.push(format!("[rule: {volume}; tools.bash.writable_paths adds more]"));
    }
    if says(SEEING) {
        rules.push(
            "[rule: only the volume, the system's programs and libraries, and tools.bash.readable_paths can be seen]"
                .into(),
        );
    }
    if says(&["Resource temporarily unavailable", "Cannot fork", "EAGAIN"]) {
        rules.push(
            "[rule: the processes and threads of a command are limited; tools.bash.max_processes changes it]".into(),
        );
    }
    if says(CALLING) {
        rules.push(
            "[rule: system calls that reach other processes, mount, or trace are refused; no setting changes that]"
                .into(),
        );
    }
    rules
}
