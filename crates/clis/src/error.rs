//! Why a CLI is not called as it was asked to be.

use std::path::PathBuf;

use drawloom_contract::failure::{Explain, FailureKind};

use crate::input::Mode;

/// Why a call of a CLI was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The mode cannot be asked of this CLI, or not without confinement.
    #[error("{cli} has no way to run in the mode {mode}{}", if *unconfined { " without confinement" } else { "" })]
    NoSuchMode {
        /// Which CLI.
        cli: String,
        /// Which mode.
        mode: Mode,
        /// Whether confinement would make it possible.
        unconfined: bool,
    },
    /// A mode that only an isolated checkout allows.
    #[error("the mode skip_permissions needs an isolated checkout; {} is not one", directory.display())]
    NotIsolated {
        /// Where it was to run.
        directory: PathBuf,
    },
    /// The volume does not allow changes.
    #[error("the volume {volume} is read-only, so the mode {mode} is not possible there")]
    ReadOnlyVolume {
        /// Which volume.
        volume: String,
        /// Which mode.
        mode: Mode,
    },
    /// A directory that does not belong to the run's own tree.
    #[error("{} is not inside the checkouts of this run's tree, {}", directory.display(), allowed.display())]
    ForeignDirectory {
        /// Which.
        directory: PathBuf,
        /// Where it may be.
        allowed: PathBuf,
    },
    /// The agent names a CLI that is not configured any more.
    #[error("unknown CLI {name:?}")]
    UnknownCli {
        /// Which.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// Without namespaces the CLI can only be led to a copy of its state by a variable.
    #[error("this machine has no namespaces, so that {cli} cannot get a private copy of {path}")]
    NotPrivate {
        /// Which CLI.
        cli: String,
        /// Its state.
        path: String,
    },
    /// A CLI that drawloom started has started drawloom, and so on.
    #[error("coding CLIs are nested {depth} deep; the limit is {most}")]
    TooDeep {
        /// How deep this one would be.
        depth: u32,
        /// The limit.
        most: u32,
    },
    /// The model's name would be an option of the CLI.
    #[error("invalid model {model:?}: a model's name does not begin with \"-\"")]
    BadModel {
        /// Which.
        model: String,
    },
    /// A prompt that a template puts into an argument, which takes no more.
    #[error("an argument of the command has {bytes} bytes with the prompt in it; the limit of the system is {most}")]
    LongArgument {
        /// How long it is.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// Arguments that are too long together with the variables.
    #[error(
        "the arguments and variables of the command have {bytes} bytes with the prompt in them; the limit of the system is {most}"
    )]
    LongArguments {
        /// How long they are.
        bytes: usize,
        /// The limit.
        most: usize,
    },
}

impl Explain for Error {
    fn kind(&self) -> FailureKind {
        match self {
            Self::NoSuchMode { .. }
            | Self::UnknownCli { .. }
            | Self::BadModel { .. }
            | Self::LongArgument { .. }
            | Self::LongArguments { .. } => FailureKind::Invalid,
            Self::NotIsolated { .. }
            | Self::ReadOnlyVolume { .. }
            | Self::ForeignDirectory { .. }
            | Self::NotPrivate { .. }
            | Self::TooDeep { .. } => FailureKind::Denied,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NoSuchMode { .. } => "no_such_mode",
            Self::NotIsolated { .. } => "not_isolated",
            Self::ReadOnlyVolume { .. } => "read_only_volume",
            Self::ForeignDirectory { .. } => "foreign_directory",
            Self::UnknownCli { .. } => "unknown_cli",
            Self::NotPrivate { .. } => "not_private",
            Self::TooDeep { .. } => "too_deep",
            Self::BadModel { .. } => "bad_model",
            Self::LongArgument { .. } | Self::LongArguments { .. } => "long_argument",
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoSuchMode { unconfined: true, .. } => {
                "remove `unconfined: true` of this CLI, or use the mode edit".into()
            }
            Self::NoSuchMode { mode, .. } => format!("set `{mode}_args` of this CLI, or use another mode"),
            Self::NotIsolated { .. } => "use the mode edit, or run it in a goal, which makes isolated checkouts".into(),
            Self::ReadOnlyVolume { .. } => "use the mode read_only, or set the volume's mode to rw".into(),
            Self::ForeignDirectory { .. } => "leave `directory` out to use the agent's volume".into(),
            Self::UnknownCli { known, .. } => format!("known: {}", known.join(", ")),
            Self::NotPrivate { .. } => {
                "allow namespaces of users on this machine, or set `unconfined: true` of this CLI".into()
            }
            Self::TooDeep { .. } => {
                "do not start goals or CLI agents from inside a coding CLI that drawloom runs".into()
            }
            Self::LongArgument { .. } | Self::LongArguments { .. } => {
                "use `{prompt_file}` and `{system_file}` in `clis.NAME.command`, or stdin: they have no limit".into()
            }
            Self::BadModel { .. } => "set `model` of the agent to a name that the CLI knows".into(),
        })
    }
}
