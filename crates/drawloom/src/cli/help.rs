//! The help of all commands: their examples, and one line in place of the global options.

use clap::{Args as _, Command};

use super::{Globals, examples};

/// The last line of every help.
const GLOBALS: &str = "Global options: see `drawloom help options`";
/// The command whose help lists the global options.
const OPTIONS: &str = "options";
/// The option that only tests use.
const INTERNAL: &str = "width";

/// Adds examples and the last line to the help of a command and all its subcommands.
pub(super) fn complete(command: Command) -> Command {
    let path = command.get_name().to_owned();
    walk(command, &path).mut_subcommand(OPTIONS, |options| options.override_help(global_options()))
}

fn walk(command: Command, path: &str) -> Command {
    let own = command.get_after_help().map(ToString::to_string);
    let texts = [own, examples::find(path).map(ToOwned::to_owned), Some(GLOBALS.to_owned())];
    let below = command.after_help(texts.into_iter().flatten().collect::<Vec<_>>().join("\n\n"));
    below.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        walk(below, &path)
    })
}

/// The global options, as `drawloom help options` shows them.
pub(crate) fn global_options() -> String {
    let command = shown(Globals::augment_args(Command::new("drawloom")))
        .disable_help_flag(true)
        .max_term_width(100)
        .help_template("{options}");
    let options = command.clone().render_help();
    format!("Options that every command takes\n\n{options}\n")
}

/// The same command with the global options in its help and completions.
pub(crate) fn shown(command: Command) -> Command {
    command.mut_args(|argument| {
        let is_internal = argument.get_id() == INTERNAL;
        if argument.is_global_set() { argument.hide(is_internal) } else { argument }
    })
}
