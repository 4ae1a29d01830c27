//! Hints as the terminal shows them. A hint of the server names operations, which REST and MCP callers have; a person at a terminal has
//! commands. This is the one list of which command is which operation.

use std::borrow::Cow;

/// The command for each operation that hints name; others are shown as `drawloom call NAME`.
const COMMANDS: &[(&str, &str)] = &[
    ("spawn_run", "drawloom run AGENT PROMPT"),
    ("get_run", "drawloom runs show RUN"),
    ("list_runs", "drawloom runs list"),
    ("follow_run", "drawloom runs tail RUN"),
    ("cancel_run", "drawloom runs cancel RUN"),
    ("retry_run", "drawloom runs retry RUN"),
    ("delete_run", "drawloom runs rm RUN"),
    ("delete_batch", "drawloom runs rm BATCH"),
    ("get_costs", "drawloom cost"),
    ("replay_run", "drawloom replay RUN"),
    ("prune_runs", "drawloom prune --older-than 30d"),
    ("spawn_runs", "drawloom batch FILE"),
    ("get_batch", "drawloom runs show BATCH"),
    ("cancel_batch", "drawloom runs cancel BATCH"),
    ("list_artifacts", "drawloom artifacts list RUN"),
    ("get_artifact", "drawloom artifacts get RUN NAME"),
    ("get_memory", "drawloom memory get KEY"),
    ("list_memory", "drawloom memory list"),
    ("search_memory", "drawloom memory search QUERY"),
    ("set_memory", "drawloom memory set KEY VALUE"),
    ("change_memory", "drawloom memory change KEY OP"),
    ("delete_memory", "drawloom memory rm KEY"),
    ("import_memory", "drawloom memory import FILE"),
    ("watch_memory", "drawloom memory watch"),
    ("publish_channel", "drawloom channels publish CHANNEL VALUE"),
    ("subscribe_channel", "drawloom channels read CHANNEL"),
    ("peek_channel", "drawloom channels read CHANNEL --peek"),
    ("ack_channel", "drawloom channels ack CHANNEL CURSOR"),
    ("nak_channel", "drawloom channels nak CHANNEL LEASE --group NAME"),
    ("extend_channel", "drawloom channels extend CHANNEL LEASE --group NAME"),
    ("await_channels", "drawloom channels await CHANNEL"),
    ("broadcast_channels", "drawloom channels broadcast VALUE CHANNEL"),
    ("list_channels", "drawloom channels list"),
    ("follow_channel", "drawloom channels tail CHANNEL"),
    ("create_channel", "drawloom channels create CHANNEL"),
    ("update_channel", "drawloom channels update CHANNEL"),
    ("delete_channel", "drawloom channels rm CHANNEL"),
    ("purge_channel", "drawloom channels purge CHANNEL"),
    ("submit_evaluation", "drawloom evaluations submit RUN 1"),
    ("list_agents", "drawloom agents list"),
    ("list_models", "drawloom models list"),
    ("list_definitions", "drawloom defs list"),
    ("orchestrate_resume", "drawloom goal resume GOAL"),
    ("orchestrate_status", "drawloom goal status GOAL"),
    ("orchestrate_tail", "drawloom goal tail GOAL"),
    ("orchestrate_result", "drawloom goal result GOAL --wait"),
    ("orchestrate_list", "drawloom goal list"),
    ("orchestrate_cancel", "drawloom goal cancel GOAL"),
    ("orchestrate_land", "drawloom goal land GOAL"),
    ("orchestrate_say", "drawloom goal say GOAL TEXT"),
    ("orchestrate_rm", "drawloom goal rm GOAL"),
    ("list_backends", "drawloom goal backends"),
    ("list_worktrees", "drawloom worktree list"),
];

/// A hint of the server with commands in place of operations, and options in place of fields. `operations` are the names of all.
pub(crate) fn for_terminal<'h>(hint: &'h str, operations: &[&str]) -> Cow<'h, str> {
    match with_options(hint) {
        Cow::Borrowed(hint) => with_commands(hint, operations),
        Cow::Owned(hint) => Cow::Owned(with_commands(&hint, operations).into_owned()),
    }
}

/// Keeps the option of a field that a hint names with both: "pass discard (`--discard`)".
fn with_options(hint: &str) -> Cow<'_, str> {
    let mut hint = Cow::Borrowed(hint);
    while let Some((before, option, after)) = find_option(&hint) {
        let field = before.rfind(' ').map_or(0, |space| space + 1);
        hint = Cow::Owned(format!("{}`{option}`{after}", &before[..field]));
    }
    hint
}

/// What stands before, in and after the first "(`--option`)".
fn find_option(hint: &str) -> Option<(&str, &str, &str)> {
    hint.match_indices(" (`--").find_map(|(start, _)| {
        let (option, after) = hint[start + 3..].split_once('`')?;
        Some((&hint[..start], option, after.strip_prefix(')')?))
    })
}

fn with_commands<'h>(hint: &'h str, operations: &[&str]) -> Cow<'h, str> {
    // Names of one word, such as `doctor`, are words of other sentences too.
    let is_operation = |word: &str| word.contains('_') && operations.contains(&word);
    let is_part = |sign: char| sign.is_alphanumeric() || sign == '_';
    let (mut shown, mut rest, mut changed) = (String::new(), hint, false);
    while let Some(start) = rest.find(is_part) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|sign| !is_part(sign)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        shown.push_str(before);
        match is_operation(word) && !shown.ends_with("drawloom call ") {
            true => {
                changed = true;
                let command = COMMANDS.iter().find(|(operation, _)| *operation == word);
                let command =
                    command.map_or_else(|| format!("drawloom call {word}"), |(_, command)| (*command).to_owned());
                // A name may stand in backticks already.
                let is_marked = shown.ends_with('`');
                shown.push_str(&if is_marked { command } else { format!("`{command}`") });
            }
            false => shown.push_str(word),
        }
        rest = after;
    }
    shown.push_str(rest);
    if changed { Cow::Owned(shown) } else { Cow::Borrowed(hint) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cli::Cli, operations};

    fn names() -> Vec<&'static str> {
        operations::cards().map(|card| card.name()).collect()
    }

    #[test]
    fn operations_of_a_hint_become_commands() {
        for (hint, shown) in [
            ("list_runs lists the runs", "`drawloom runs list` lists the runs"),
            ("use `cancel_run`, or wait", "use `drawloom runs cancel RUN`, or wait"),
            ("see get_evaluation", "see `drawloom call get_evaluation`"),
            ("run `drawloom call list_runs`", "run `drawloom call list_runs`"),
            ("run `drawloom doctor` and set my_list_runs", "run `drawloom doctor` and set my_list_runs"),
            ("doctor says why", "doctor says why"),
            ("pass discard (`--discard`) to lose them", "pass `--discard` to lose them"),
            ("say more: `say` (`--say TEXT`), or list_runs", "say more: `--say TEXT`, or `drawloom runs list`"),
            ("answer all (`--answer` for each)", "answer all (`--answer` for each)"),
        ] {
            assert_eq!(for_terminal(hint, &names()), shown);
        }
    }

    #[test]
    fn every_operation_of_the_list_exists_and_every_command_parses() {
        for (operation, command) in COMMANDS {
            assert!(names().contains(operation), "{operation}");
            let known = COMMANDS.iter().filter(|(other, _)| other == operation).count();
            assert_eq!(known, 1, "{operation} is listed twice");
            // Placeholders that the parser would refuse.
            let line = command.replace("KEY OP", "k incr").replace(" RUN", " r_1").replace(" BATCH", " b_1");
            let parsed = Cli::described().try_get_matches_from(line.split(' '));
            assert!(parsed.is_ok(), "{command}: {:?}", parsed.err().map(|error| error.to_string()));
        }
    }
}
