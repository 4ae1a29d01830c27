//! Tips for commands that people know from docker, kubectl and gh.

use clap::{
    Command,
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};
use drawloom_contract::suggest::closest;

/// Unknown commands and what does the same, by the command that they were typed after.
const TIPS: &[(&str, &[&str], &str)] = &[
    ("drawloom", &["ps", "jobs", "running"], "drawloom runs list --active"),
    ("drawloom", &["top", "watch", "follow", "tail", "attach"], "drawloom runs tail RUN --tree"),
    ("drawloom", &["kill", "cancel", "abort"], "drawloom runs cancel RUN"),
    ("drawloom", &["costs", "usage", "stats", "billing", "spend", "money"], "drawloom cost"),
    ("drawloom", &["rerun", "retry", "redo", "again"], "drawloom runs retry RUN"),
    ("drawloom", &["resume", "continue"], "drawloom goal resume GOAL"),
    ("drawloom", &["wait", "join"], "drawloom runs wait RUN"),
    ("drawloom", &["show", "get", "describe", "inspect", "view"], "drawloom runs show RUN"),
    ("drawloom", &["list", "ls", "history"], "drawloom runs list"),
    ("drawloom", &["exec", "spawn", "ask"], "drawloom run AGENT PROMPT"),
    ("drawloom", &["start", "up", "reload"], "drawloom restart"),
    ("drawloom", &["down", "shutdown"], "drawloom stop"),
    ("drawloom", &["ui", "daemon", "server"], "drawloom serve"),
    ("drawloom", &["check", "lint", "verify"], "drawloom validate"),
    ("drawloom", &["rm", "delete", "remove"], "drawloom runs rm RUN"),
    ("drawloom", &["clean", "gc", "purge"], "drawloom prune --older-than 30d"),
    ("drawloom", &["info", "project", "context"], "drawloom status --all"),
    ("drawloom", &["install", "connect"], "drawloom mcp install"),
    ("drawloom", &["uninstall", "disconnect"], "drawloom mcp uninstall"),
    ("drawloom", &["move", "mv", "migrate"], "drawloom adopt DIR"),
    ("drawloom", &["new", "create", "setup"], "drawloom init"),
    ("runs", &["ps", "active"], "drawloom runs list --active"),
    ("runs", &["cost", "costs", "usage"], "drawloom cost"),
    ("runs", &["get", "describe", "inspect", "view", "status"], "drawloom runs show RUN"),
    ("runs", &["rerun", "redo", "resume", "restart"], "drawloom runs retry RUN"),
    ("runs", &["logs", "log", "top", "watch", "follow", "events"], "drawloom runs tail RUN --tree"),
    ("runs", &["kill", "stop", "abort"], "drawloom runs cancel RUN"),
    ("runs", &["delete", "remove"], "drawloom runs rm RUN"),
    ("runs", &["prune", "clean"], "drawloom prune --older-than 30d"),
    ("runs", &["join", "await"], "drawloom runs wait RUN"),
    ("runs", &["create", "start", "run", "new"], "drawloom run AGENT PROMPT"),
    ("goal", &["get", "show", "describe", "inspect", "view"], "drawloom goal status GOAL"),
    ("goal", &["logs", "log", "watch", "follow", "events"], "drawloom goal tail GOAL"),
    ("goal", &["kill", "stop", "abort"], "drawloom goal cancel GOAL"),
    ("goal", &["continue", "retry", "rerun", "redo", "answer"], "drawloom goal resume GOAL"),
    ("goal", &["tell", "message"], "drawloom goal say GOAL TEXT"),
    ("goal", &["merge", "apply"], "drawloom goal land GOAL"),
    ("goal", &["delete", "remove"], "drawloom goal rm GOAL"),
    ("projects", &["delete", "remove"], "drawloom projects rm PROJECT"),
    ("projects", &["adopt", "move"], "drawloom adopt DIR"),
    ("mcp", &["add"], "drawloom mcp install"),
    ("mcp", &["rm", "remove", "delete"], "drawloom mcp uninstall"),
    ("agents", &["get", "describe", "inspect", "view"], "drawloom agents show AGENT"),
    ("skills", &["get", "describe", "inspect", "view"], "drawloom skills show SKILL"),
];

/// `drawloom logs RUN` of people who know `docker logs`: the log is that of the server.
const LOGS: (&str, &str) = ("logs", "drawloom runs tail RUN");

/// The error with the right command as its tip, when it is about an unknown command. A guess of the parser that only looks alike
/// is left out.
pub(super) fn add(mut error: clap::Error, command: &Command) -> clap::Error {
    let is_argument = |error: &clap::Error| match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(typed)) => !typed.starts_with('-'),
        _ => false,
    };
    if error.kind() == ErrorKind::UnknownArgument && is_argument(&error) && typed_after(&error, command) == LOGS.0 {
        return with_tip(error, LOGS.1);
    }
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let typed = typed.to_lowercase();
    let after = typed_after(&error, command);
    let known = TIPS.iter().find(|(above, words, _)| *above == after && words.contains(&typed.as_str()));
    if let Some((_, _, meant)) = known {
        return with_tip(error, meant);
    }
    let names = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.clone(),
        Some(ContextValue::String(name)) => vec![name.clone()],
        _ => return error,
    };
    error.remove(ContextKind::SuggestedSubcommand);
    if let Some(meant) = closest(&typed, names.iter().map(String::as_str)).filter(|meant| is_typo(&typed, meant)) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![meant.to_owned()]));
    }
    error
}

/// Whether a word is a known one but for at most two letters beside each other: `pause` is not `prune`.
fn is_typo(typed: &str, known: &str) -> bool {
    let same = typed.chars().zip(known.chars()).take_while(|(one, other)| one == other).count();
    let rest = (typed.chars().rev().zip(known.chars().rev())).take_while(|(one, other)| one == other).count();
    same + rest + 2 >= typed.chars().count().max(known.chars().count())
}

fn with_tip(mut error: clap::Error, meant: &str) -> clap::Error {
    error.remove(ContextKind::SuggestedSubcommand);
    let tip = StyledStr::from(format!("use `{meant}`"));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    error
}

/// The command after which the unknown one was typed, by the usage that the error shows.
fn typed_after(error: &clap::Error, command: &Command) -> String {
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    let above = usage.split_whitespace().find(|word| names.contains(word));
    above.unwrap_or(command.get_name()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    fn said(line: &str) -> String {
        let mut command = Cli::described();
        let error = command.try_get_matches_from_mut(line.split(' ')).expect_err("it is unknown");
        add(error, &command).to_string()
    }

    #[test]
    fn every_tip_is_for_an_unknown_command_and_names_a_known_one() {
        for (above, words, meant) in TIPS {
            for word in *words {
                let line =
                    if *above == "drawloom" { format!("drawloom {word}") } else { format!("drawloom {above} {word}") };
                let said = said(&line);
                assert!(said.contains(&format!("use `{meant}`")), "{line}: {said}");
                assert_eq!(said.matches("tip:").count(), 1, "{line}: {said}");
            }
            let parsed = Cli::described().try_get_matches_from(meant.split(' '));
            assert!(parsed.is_ok(), "{meant}: {parsed:?}");
        }
    }

    #[test]
    fn the_log_of_a_run_is_its_events() {
        let said = said("drawloom logs r_01a1");
        assert!(said.contains("tip: use `drawloom runs tail RUN`") && said.matches("tip:").count() == 1, "{said}");
    }

    #[test]
    fn typos_have_a_tip_and_other_words_have_none() {
        assert!(said("drawloom valdate").contains("'validate'"), "{}", said("drawloom valdate"));
        assert!(said("drawloom runs canel").contains("'cancel'"), "{}", said("drawloom runs canel"));
        for other in ["drawloom pause", "drawloom deploy", "drawloom sage", "drawloom runs banana"] {
            assert!(!said(other).contains("tip:"), "{}", said(other));
        }
    }
}
