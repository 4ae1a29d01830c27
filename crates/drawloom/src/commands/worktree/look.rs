//! `drawloom worktree list` and `diff`.

use clap::Args;
use drawloom_wire::worktrees::{DiffWorktree, ListWorktrees, Worktree, WorktreeCheckout};

use crate::{
    cli::{Look, Quiet},
    commands::{
        Session,
        goal::{Named, place_of},
    },
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::{Column, Format, Style, Text, bytes},
};

/// List goals with their branches and checkouts
#[derive(Debug, Args)]
pub struct List {
    /// List goals whose checkouts were removed too
    #[arg(long)]
    all: bool,
    /// List at most this many goals
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
    #[command(flatten)]
    execution: Execution,
    #[command(flatten)]
    ids: Quiet,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl List {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let ask = ListWorktrees { run_id: None, all: self.all, limit: Some(self.limit) };
        let need = Need::Engine(self.execution);
        let list = connect::with(session, "worktree list", need, async |it| it.backend.call(&ask).await).await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&list),
            Format::Human if self.ids.quiet => output.ids(list.worktrees.iter().map(|worktree| worktree.run_id)),
            Format::Human if list.worktrees.is_empty() => output.line("no checkouts of goals"),
            Format::Human => list.worktrees.iter().for_each(|worktree| show(session, worktree)),
        }
        Ok(Exit::Done)
    }
}

/// Shows a goal and a table of its checkouts.
pub(super) fn show(session: &Session, worktree: &Worktree) {
    let output = &session.output;
    let head = worktree.head.as_deref().map_or("nothing merged", short);
    output.line(output.styled(Style::Bold, &format!("{} ({})", worktree.goal, worktree.status)));
    output.line(format!("  id      {}", worktree.run_id));
    output.line(format!("  branch  {} in {}", worktree.branch, worktree.repository.display()));
    output.line(format!("  base    {}, head {head}, {} on the disk", short(&worktree.base), bytes(worktree.bytes)));
    if let Some(problem) = &worktree.problem {
        output.line(format!("  {}", output.styled(Style::Bad, problem)));
    }
    if worktree.checkouts.is_empty() {
        output.line("  no checkouts");
    } else {
        let columns = [
            Column::new("  checkout"),
            Column::new("commit"),
            Column::new("size").right(),
            Column::new("not committed"),
            Column::new("path").shrinks_to(20).keeps_end(),
        ];
        output.table(columns, worktree.checkouts.iter().map(row));
    }
    output.line("");
}

fn row(checkout: &WorktreeCheckout) -> [Text; 5] {
    let (style, state) = state(checkout);
    [
        Text::new(format!("  {}", checkout.name)).style(Style::Bold),
        Text::new(short(&checkout.commit)),
        Text::new(bytes(checkout.bytes)),
        Text::new(state).style(style),
        Text::new(checkout.path.display().to_string()).style(Style::Dim),
    ]
}

/// What of a checkout is not committed.
fn state(checkout: &WorktreeCheckout) -> (Style, String) {
    let files = |count: usize| if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    let (changed, left) = (checkout.uncommitted.len(), checkout.left_out.len());
    match (&checkout.problem, changed, left) {
        (Some(problem), _, _) => (Style::Bad, problem.clone()),
        (None, _, _) if checkout.read_only => (Style::Dim, "read-only".into()),
        (None, 0, 0) => (Style::Good, "nothing".into()),
        (None, changed, 0) => (Style::Notice, files(changed)),
        (None, 0, left) => (Style::Notice, format!("{} that commits leave out", files(left))),
        (None, changed, left) => (Style::Notice, format!("{} and {left} that commits leave out", files(changed))),
    }
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// Show what a goal changed since its base
///
/// Compares the goal's branch, or what lies in one checkout, with the commit that work began at.
#[derive(Debug, Args)]
pub struct Diff {
    #[command(flatten)]
    named: Named,
    /// Compare what lies in this checkout, also what is not committed
    #[arg(long, value_name = "NAME")]
    checkout: Option<String>,
    /// Show only what is not committed in the checkout
    #[arg(long, requires = "checkout")]
    uncommitted: bool,
    /// Show only which files differ
    #[arg(long)]
    stat: bool,
    /// Show at most this many bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=16_000_000))]
    max_bytes: Option<u64>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(super) look: Look,
}

impl Diff {
    pub(super) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let diff = connect::with(session, "worktree diff", Need::Engine(self.execution), async |it| {
            let run_id = self.named.resolve_in_repository(it).await?;
            let ask = DiffWorktree {
                run_id,
                checkout: self.checkout.clone(),
                uncommitted: self.uncommitted,
                max_bytes: self.max_bytes,
            };
            it.backend.call(&ask).await
        })
        .await?;
        let output = &session.output;
        if output.format() == Format::Json {
            output.json(&diff);
            return Ok(Exit::Done);
        }
        if self.stat {
            for file in &diff.files {
                let from = file.from.as_ref().map(|from| format!(" (from {from})")).unwrap_or_default();
                output.line(format!("{:<12} {}{from}", file.status.replace('_', " "), file.path));
            }
        } else {
            output.content(&diff.text);
        }
        let files = if diff.files.len() == 1 { "1 file".to_owned() } else { format!("{} files", diff.files.len()) };
        output.note(place_of(&diff.repository, &diff.branch));
        output.note(format!("{files} changed, {} lines added, {} removed", diff.insertions, diff.deletions));
        if diff.truncated && !self.stat {
            output.note("something was left out; `--max-bytes` raises the limit");
        }
        Ok(Exit::Done)
    }
}
