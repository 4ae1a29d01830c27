//! `drawloom completions`: what a shell needs to complete command lines. Names of agents, runs, goals and operations come from
//! `drawloom complete` when a shell asks for them.

use clap::Args;
use clap_complete::Shell;
use serde_json::json;

use crate::{
    cli::{Cli, Look},
    commands::{Session, complete},
    exit::{CommandError, Exit},
    output::Format,
};

/// Names first; what the script knows when there are none.
const BASH: &str = r#"
_drawloom_names() {
    local IFS=$'\n' found
    found=$(command drawloom complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1)
    if [[ -n $found ]]; then
        COMPREPLY=($found)
        return 0
    fi
    unset IFS
    _drawloom "$@"
}
complete -F _drawloom_names -o nosort -o bashdefault -o default drawloom
"#;

/// The function of the script has another name, and this one asks for names first.
const ZSH: &str = r#"
_drawloom() {
    local -a found
    found=("${(@f)$(command drawloom complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n $found[1] ]]; then
        found=("${(@)found//:/\\:}")
        found=("${(@)found/$'\t'/:}")
        _describe -V names found
        return
    fi
    _drawloom_script "$@"
}

"#;

/// What asks for names in fish.
const FISH_NAMES: &str =
    r#" -k -a "(command drawloom complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)""#;

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

impl Completions {
    pub(crate) fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::described_in_full(), "drawloom", &mut script);
        let script = with_names(self.shell, &String::from_utf8_lossy(&script));
        match session.output.format() {
            Format::Json => session.output.json(&json!({ "shell": self.shell.to_string(), "script": script })),
            Format::Human => session.output.write(&script),
        }
        Ok(Exit::Done)
    }
}

/// The script with what asks for names, for the shells that have it.
fn with_names(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => format!("{script}{BASH}"),
        Shell::Fish => {
            let options = complete::options();
            // An option with a value has names of its own, and arguments share one line.
            let with_names = script.lines().map(|line| {
                let is_named = options.iter().any(|option| line.contains(&format!(" -l {option} ")));
                let names = if is_named && line.ends_with(" -r") { FISH_NAMES } else { "" };
                format!("{line}{names}\n")
            });
            with_names.collect::<String>() + &format!("complete -c drawloom{FISH_NAMES}\n")
        }
        Shell::Zsh => {
            let renamed = script.replacen("\n_drawloom() {\n", "\n_drawloom_script() {\n", 1);
            // The last lines call or register the function, so it stands before them.
            match renamed.rfind("\nif [ \"$funcstack[1]\"") {
                Some(end) => format!("{}{ZSH}{}", &renamed[..end], &renamed[end..]),
                None => format!("{renamed}{ZSH}"),
            }
        }
        _ => script.to_owned(),
    }
}
