//! What can go wrong with checkouts.

use std::{io, path::PathBuf};

use drawloom_contract::failure::{Explain, FailureKind};

use crate::oid::Oid;

/// Why an operation on checkouts failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("invalid {what} {value:?}: {reason}")]
    Invalid { what: &'static str, value: String, reason: &'static str },
    #[error("invalid glob {glob:?}: {reason}")]
    Glob { glob: String, reason: String },
    #[error("{} is not in a git repository: {reason}", directory.display())]
    NotARepository { directory: PathBuf, reason: String },
    #[error("goals may not work in {}: its repository uses {}, which is outside of the allowed directories", directory.display(), outside.display())]
    NotAllowed { directory: PathBuf, outside: PathBuf },
    #[error("the protected path {path} is not in the checkout as the base has it")]
    NotProtected { path: String },
    #[error("the repository {} has no commit yet", repository.display())]
    NoCommit { repository: PathBuf },
    #[error("unknown base {base:?}: not a commit of {}", repository.display())]
    UnknownBase { base: String, repository: PathBuf },
    #[error("git {version} is too old: git 2.38 or newer is needed")]
    OldGit { version: String },
    #[error("the repository {} is a partial clone and lacks files of the base: {reason}", repository.display())]
    Incomplete { repository: PathBuf, reason: String },
    #[error("{} cannot be changed without isolation: {reason}", directory.display())]
    InPlace { directory: PathBuf, reason: String },
    #[error("{} has uncommitted changes: {files}", directory.display())]
    NotClean { directory: PathBuf, files: String },
    #[error("goal {goal} works in {} without isolation", directory.display())]
    InPlaceTaken { directory: PathBuf, goal: String, reference: String },
    #[error("the branch {branch} exists already and does not belong to this goal")]
    BranchExists { branch: String },
    #[error("goal {goal} was prepared before with other options")]
    OtherOptions { goal: String },
    #[error("unknown goal {goal}: it has no checkouts here")]
    UnknownGoal { goal: String },
    #[error("unknown checkout {name:?} of goal {goal}")]
    UnknownCheckout { goal: String, name: String },
    #[error("the checkout {name:?} is read-only; it has nothing to keep")]
    ReadOnly { name: String },
    #[error("unknown commit {commit}: the repository does not contain it")]
    UnknownCommit { commit: Oid },
    #[error("the checkout {name:?} has changes that are not in a checkpoint: {}", paths.join(", "))]
    Unsaved { name: String, paths: Vec<String> },
    #[error("{branch} is at {found}, not at {expected}")]
    HeadMoved { branch: String, expected: Oid, found: String },
    #[error("{reference} is {found} already, not {wanted}")]
    RefTaken { reference: String, wanted: Oid, found: String },
    #[error("{branch} is checked out in {}", worktree.display())]
    CheckedOut { branch: String, worktree: PathBuf },
    #[error("the goal has no base branch: it was started from a commit, not from a branch")]
    NoBranch,
    #[error("unknown branch {branch:?}")]
    UnknownBranch { branch: String },
    #[error("the setup command failed: {reason}\n{output}")]
    Setup { reason: String, output: String },
    #[error("all ports from {first} to {last} are leased or in use")]
    NoPorts { first: u16, last: u16 },
    #[error("goal {goal} uses {used} bytes on the disk; the quota is {quota}")]
    Quota { goal: String, used: u64, quota: u64 },
    #[error("only {free} bytes are free on the disk; {least} are needed to go on")]
    DiskFull { free: u64, least: u64 },
    #[error("the files to include have {bytes} bytes; the limit is {most}")]
    IncludedTooLarge { bytes: u64, most: u64 },
    #[error("git {command} failed with code {code}: {message}")]
    Git { command: String, code: i32, message: String },
    #[error("git {command} did not finish: {how}")]
    GitStopped { command: String, how: String },
    #[error("git {command} answered something unexpected: {answer:?}")]
    GitAnswer { command: String, answer: String },
    #[error("cannot run a command")]
    Process(#[from] drawloom_process::Error),
    #[error("cannot {action} {}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the state file {} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("{} is not a directory of ours any more: {reason}", path.display())]
    Replaced { path: PathBuf, reason: &'static str },
    #[error("{} is not the directory that the goal was started for: {reason}", path.display())]
    OtherDirectory { path: PathBuf, reason: &'static str },
}

impl Error {
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}

impl Explain for Error {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Invalid { .. }
            | Self::Glob { .. }
            | Self::NotARepository { .. }
            | Self::NoCommit { .. }
            | Self::UnknownBase { .. }
            | Self::OldGit { .. }
            | Self::Incomplete { .. }
            | Self::InPlace { .. }
            | Self::ReadOnly { .. }
            | Self::NoBranch
            | Self::Setup { .. } => FailureKind::Invalid,
            Self::NotAllowed { .. } => FailureKind::Denied,
            Self::UnknownGoal { .. }
            | Self::UnknownCheckout { .. }
            | Self::UnknownCommit { .. }
            | Self::UnknownBranch { .. } => FailureKind::NotFound,
            Self::NotClean { .. }
            | Self::OtherDirectory { .. }
            | Self::InPlaceTaken { .. }
            | Self::BranchExists { .. }
            | Self::OtherOptions { .. }
            | Self::Unsaved { .. }
            | Self::HeadMoved { .. }
            | Self::RefTaken { .. }
            | Self::CheckedOut { .. } => FailureKind::Conflict,
            Self::Quota { .. } | Self::IncludedTooLarge { .. } => FailureKind::TooLarge,
            Self::NoPorts { .. } | Self::GitStopped { .. } => FailureKind::Unavailable,
            Self::DiskFull { .. }
            | Self::NotProtected { .. }
            | Self::Git { .. }
            | Self::GitAnswer { .. }
            | Self::File { .. }
            | Self::Damaged { .. }
            | Self::Replaced { .. } => FailureKind::Broken,
            Self::Process(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid_checkout_value",
            Self::Glob { .. } => "invalid_glob",
            Self::NotARepository { .. } => "not_a_repository",
            Self::NotAllowed { .. } => "cwd_denied",
            Self::NotProtected { .. } => "not_protected",
            Self::NoCommit { .. } => "no_commit",
            Self::UnknownBase { .. } => "unknown_base",
            Self::OldGit { .. } => "git_too_old",
            Self::Incomplete { .. } => "incomplete_repository",
            Self::InPlace { .. } => "not_in_place",
            Self::NotClean { .. } => "not_clean",
            Self::InPlaceTaken { .. } => "in_place_taken",
            Self::BranchExists { .. } => "branch_exists",
            Self::OtherOptions { .. } => "other_options",
            Self::UnknownGoal { .. } => "unknown_goal",
            Self::UnknownCheckout { .. } => "unknown_checkout",
            Self::ReadOnly { .. } => "checkout_read_only",
            Self::UnknownCommit { .. } => "unknown_commit",
            Self::Unsaved { .. } => "checkout_unsaved",
            Self::HeadMoved { .. } => "branch_moved",
            Self::RefTaken { .. } => "ref_taken",
            Self::CheckedOut { .. } => "branch_checked_out",
            Self::NoBranch => "no_branch",
            Self::UnknownBranch { .. } => "unknown_branch",
            Self::Setup { .. } => "setup_failed",
            Self::NoPorts { .. } => "no_ports",
            Self::Quota { .. } => "checkout_quota",
            Self::DiskFull { .. } => "disk_full",
            Self::IncludedTooLarge { .. } => "included_too_large",
            Self::Git { .. } => "git_failed",
            Self::GitStopped { .. } => "git_stopped",
            Self::GitAnswer { .. } => "git_unexpected",
            Self::Process(error) => error.code(),
            Self::File { .. } => "checkout_file",
            Self::Damaged { .. } => "checkout_damaged",
            Self::Replaced { .. } => "checkout_replaced",
            Self::OtherDirectory { .. } => "other_directory",
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotARepository { .. } => "run `git init`, commit, and try again, or name another directory".into(),
            Self::OtherDirectory { .. } => "put the directory back, or start another goal with its real path".into(),
            Self::NotAllowed { .. } => "the operator lists directories under `goals.directories` in the config".into(),
            Self::NoCommit { .. } => "commit something first: `git commit --allow-empty -m start`".into(),
            Self::UnknownBase { .. } => "name a branch, tag or commit that `git rev-parse` knows".into(),
            Self::OldGit { .. } => "install a newer git, and put it first in PATH".into(),
            Self::Incomplete { .. } => {
                "check out the base once, so that git fetches its files, or use a full clone".into()
            }
            Self::InPlace { .. } => "leave out `--no-isolate`: workers then get checkouts of their own".into(),
            Self::NotClean { .. } => {
                "without isolation work must begin with a clean checkout: commit or stash, or leave out `--no-isolate`"
                    .into()
            }
            Self::InPlaceTaken { goal, reference, .. } => format!(
                "wait for it, or stop it with `drawloom goal cancel {goal}`; if its server is gone: git update-ref -d {reference}"
            ),
            Self::BranchExists { branch } => format!("rename or delete it: `git branch -D {branch}`"),
            Self::OtherOptions { .. } => "use the options of the first call, or another goal".into(),
            Self::Unsaved { .. } => "make a checkpoint first".into(),
            Self::HeadMoved { .. } | Self::RefTaken { .. } => {
                "another program moved it; look at it with `git log` and start the step again from there".into()
            }
            Self::CheckedOut { .. } => "switch that worktree to another branch: `git switch --detach`".into(),
            Self::NoBranch => "name the branch with --into".into(),
            Self::UnknownBranch { branch } => format!("create it first: `git branch {branch}`"),
            Self::Setup { .. } => {
                "correct the command: `--setup` or `setup` of the goal, else `goals.setup` in the config".into()
            }
            Self::NoPorts { .. } => {
                "remove checkouts of old goals: `drawloom worktree list`, `drawloom worktree remove`".into()
            }
            Self::Quota { .. } => {
                "remove checkouts of old goals with `drawloom worktree remove`, or raise `goals.quota_bytes`".into()
            }
            Self::DiskFull { .. } => "free space on the disk of the checkouts".into(),
            Self::IncludedTooLarge { .. } => "include fewer files".into(),
            Self::Damaged { path, .. } => {
                format!(
                    "remove {} if nothing in it is needed; all checkpoints are refs in the repository",
                    path.display()
                )
            }
            Self::Process(error) => return error.hint(),
            Self::Invalid { .. }
            | Self::NotProtected { .. }
            | Self::Glob { .. }
            | Self::UnknownGoal { .. }
            | Self::UnknownCheckout { .. }
            | Self::ReadOnly { .. }
            | Self::UnknownCommit { .. }
            | Self::Git { .. }
            | Self::GitStopped { .. }
            | Self::GitAnswer { .. }
            | Self::File { .. }
            | Self::Replaced { .. } => return None,
        };
        Some(hint)
    }
}
