//! What the model is told of a command: its output, how it ended, and what may have stood in its way.

use drawloom_contract::tool::ToolError;
use drawloom_process::{Command, End, Exceeded, Finished, Resource};

use super::rules;

/// The result of a command. Any end but exit code 0 is an error.
pub(super) fn of(finished: Finished, command: &Command, seconds: u32) -> Result<String, ToolError> {
    let Finished { end, output, left, limited, trouble, .. } = finished;
    let mut text = output.whole_lines().into_text().replace('\0', "\u{fffd}");
    let mut notices = vec![ended(end, seconds)];
    if text.contains('\u{fffd}') {
        notices.push("[bytes that are not UTF-8 are shown as \u{fffd}]".into());
    }
    match (left, end) {
        (0, _) | (_, End::TimedOut | End::Exceeded(_)) => {}
        (1, _) => notices.push("[1 process left running was killed]".into()),
        (count, _) => notices.push(format!("[{count} processes left running were killed]")),
    }
    notices.extend(trouble.map(|trouble| format!("[{trouble}]")));
    if end != End::Exited(0) {
        notices.extend(limited.map(|limited| format!("[limit reached: {}]", over(limited))));
        notices.extend(rules::possible_causes(&text, command, limited));
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
        End::Signalled(signal) => format!("[killed by signal {signal}]"),
        End::TimedOut => {
            format!(
                "[timed out after {seconds} s and killed; set timeout_seconds for more time, up to \
                 tools.bash.max_timeout_seconds]"
            )
        }
        End::Exceeded(exceeded) => format!("[killed: {}]", over(exceeded)),
        End::Lost => "[its supervisor was killed; the exit status is unknown]".into(),
    }
}

fn over(Exceeded { resource, used, most }: Exceeded) -> String {
    match resource {
        Resource::Memory => {
            format!("it used {used} bytes of memory; the limit is {most} (tools.bash.max_memory_bytes)")
        }
        Resource::Processes => {
            format!("it had {used} processes and threads; the limit is {most} (tools.bash.max_processes)")
        }
        Resource::Disk => format!("it wrote {used} bytes to disk; the limit is {most} (tools.bash.max_disk_bytes)"),
        Resource::Guard => {
            "the config or its .env was replaced during the command, which could have accessed the new file; run it \
             again"
                .into()
        }
        Resource::Unknown => "cannot read its resource usage, so its limits cannot be enforced".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, sync::Arc, time::Duration};

    use drawloom_process::{
        Access, Capture, Captured, Confined, Confinement, Input, Landlock, Limits, Network, Output, Status,
    };

    use super::*;

    #[test]
    fn a_command_that_failed_for_its_limit_of_processes_is_told_the_limit_and_its_key() {
        let command = Command {
            program: "/bin/sh".into(),
            args: vec![],
            directory: Arc::new(File::open("/").expect("a directory")),
            access: Access::ReadWrite,
            readable: vec![],
            writable: vec![],
            guarded: vec![],
            network: Network::None,
            environment: vec![],
            input: Input::Empty,
            output: Output::Together { most: 1024 },
            confined: Confined::Yes,
            home: None,
            temporary: "/none".into(),
            limits: Limits::default(),
            time_limit: Duration::ZERO,
            grace: Duration::ZERO,
        };
        let mut output = Capture::new(1024);
        output.push(b"sh: Cannot fork\n");
        let confinement =
            Confinement { namespaces: Status::On, landlock: Landlock::On(6), seccomp: Status::On, cgroup: Status::On };
        let limited = Some(Exceeded { resource: Resource::Processes, used: 30, most: 30 });
        let finished = Finished {
            end: End::Exited(2),
            output: output.finish(),
            errors: Captured::default(),
            left: 0,
            peak: 0,
            confinement,
            limited,
            trouble: None,
        };
        let error = of(finished, &command, 30).expect_err("it failed").to_string();
        let told = "[limit reached: it had 30 processes and threads; the limit is 30 (tools.bash.max_processes)]";
        assert!(error.contains(told) && error.matches("max_processes").count() == 1, "{error}");
    }
}
